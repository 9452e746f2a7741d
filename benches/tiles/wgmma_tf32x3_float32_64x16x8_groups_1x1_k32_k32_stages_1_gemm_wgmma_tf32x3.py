# from tvm.script import tirx as T
# from tvm.script import tirx as Tx
# from tvm.tirx.layout import *

@T.prim_func
def tile(A_ptr: T.handle, B_ptr: T.handle, C_ptr: T.handle, D_ptr: T.handle):
    A = T.match_buffer(A_ptr, (T.int64(64), T.int64(8)), "float32")
    B = T.match_buffer(B_ptr, (T.int64(16), T.int64(8)), "float32")
    C = T.match_buffer(C_ptr, (T.int64(64), T.int64(16)), "float32")
    D = T.match_buffer(D_ptr, (T.int64(64), T.int64(16)), "float32")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    a = T.alloc_buffer((T.int64(64), T.int64(8)), "float32", scope="shared", layout=ComposeLayout(SwizzleLayout(2, 1, 3), TileLayout(S[(64, 8)])))
    b = T.alloc_buffer((T.int64(16), T.int64(8)), "float32", scope="shared", layout=ComposeLayout(SwizzleLayout(2, 1, 3), TileLayout(S[(16, 8)])))
    d = T.alloc_buffer((T.int64(64), T.int64(16)), "float32", scope="local", layout=TileLayout(S[(4, 2, 8, 2, 4, 2) : (1 @ warpid, 2, 4 @ laneid, 4, 1 @ laneid, 1)]))
    for A_s in T.serial(4):
        a[(A_s * 128 + tx) // 8, (A_s * 128 + tx) % 8] = A[(A_s * 128 + tx) // 8, (A_s * 128 + tx) % 8]
    for B_s in T.serial(1):
        b[(B_s * 128 + tx) // 8, (B_s * 128 + tx) % 8] = B[(B_s * 128 + tx) // 8, (B_s * 128 + tx) % 8]
    T.ptx.fence.proxy.async_.shared__cta()
    T.cuda.cta_sync()
    for C_x in T.unroll(2):
        for C_y in T.unroll(4):
            d[tx // 32 * 16 + (C_x * 8 + tx % 32 // 4), C_y // 2 * 8 + (tx % 32 % 4 * 2 + C_y % 2)] = C[tx // 32 * 16 + (C_x * 8 + tx % 32 // 4), C_y // 2 * 8 + (tx % 32 % 4 * 2 + C_y % 2)]
    Tx.cta.gemm(d, a, b, transpose_A=False, transpose_B=True, dispatch="wgmma_tf32x3")
    for D_x in T.unroll(2):
        for D_y in T.unroll(4):
            D[tx // 32 * 16 + (D_x * 8 + tx % 32 // 4), D_y // 2 * 8 + (tx % 32 % 4 * 2 + D_y % 2)] = d[tx // 32 * 16 + (D_x * 8 + tx % 32 // 4), D_y // 2 * 8 + (tx % 32 % 4 * 2 + D_y % 2)]
