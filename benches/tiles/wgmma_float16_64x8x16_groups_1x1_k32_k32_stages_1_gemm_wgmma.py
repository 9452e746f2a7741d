# from tvm.script import tirx as T
# from tvm.script import tirx as Tx
# from tvm.tirx.layout import *

@T.prim_func
def tile(A_ptr: T.handle, B_ptr: T.handle, C_ptr: T.handle, D_ptr: T.handle):
    A = T.match_buffer(A_ptr, (T.int64(64), T.int64(16)), "float16")
    B = T.match_buffer(B_ptr, (T.int64(8), T.int64(16)), "float16")
    C = T.match_buffer(C_ptr, (T.int64(64), T.int64(8)), "float32")
    D = T.match_buffer(D_ptr, (T.int64(64), T.int64(8)), "float32")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    a = T.alloc_buffer((T.int64(64), T.int64(16)), "float16", scope="shared", layout=ComposeLayout(SwizzleLayout(3, 1, 3), TileLayout(S[(64, 16)])))
    b = T.alloc_buffer((T.int64(8), T.int64(16)), "float16", scope="shared", layout=ComposeLayout(SwizzleLayout(3, 1, 3), TileLayout(S[(8, 16)])))
    d = T.alloc_buffer((T.int64(64), T.int64(8)), "float32", scope="local", layout=TileLayout(S[(4, 2, 8, 4, 2) : (1 @ warpid, 2, 4 @ laneid, 1 @ laneid, 1)]))
    for A_s in T.serial(8):
        a[(A_s * 128 + tx) // 16, (A_s * 128 + tx) % 16] = A[(A_s * 128 + tx) // 16, (A_s * 128 + tx) % 16]
    for B_s in T.serial(1):
        b[(B_s * 128 + tx) // 16, (B_s * 128 + tx) % 16] = B[(B_s * 128 + tx) // 16, (B_s * 128 + tx) % 16]
    T.ptx.fence.proxy.async_.shared__cta()
    T.cuda.cta_sync()
    for C_x in T.unroll(2):
        for C_y in T.unroll(2):
            d[tx // 32 * 16 + (C_x * 8 + tx % 32 // 4), tx % 32 % 4 * 2 + C_y] = C[tx // 32 * 16 + (C_x * 8 + tx % 32 // 4), tx % 32 % 4 * 2 + C_y]
    Tx.cta.gemm(d, a, b, transpose_A=False, transpose_B=True, dispatch="wgmma")
    for D_x in T.unroll(2):
        for D_y in T.unroll(2):
            D[tx // 32 * 16 + (D_x * 8 + tx % 32 // 4), tx % 32 % 4 * 2 + D_y] = d[tx // 32 * 16 + (D_x * 8 + tx % 32 // 4), tx % 32 % 4 * 2 + D_y]
