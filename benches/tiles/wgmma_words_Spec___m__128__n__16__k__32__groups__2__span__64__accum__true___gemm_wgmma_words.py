# from tvm.script import tirx as T
# from tvm.script import tirx as Tx
# from tvm.tirx.layout import *

@T.prim_func
def tile(A_ptr: T.handle, B_ptr: T.handle, C_ptr: T.handle, D_ptr: T.handle):
    A = T.match_buffer(A_ptr, (T.int64(128), T.int64(32)), "float16")
    B = T.match_buffer(B_ptr, (T.int64(16), T.int64(32)), "float16")
    C = T.match_buffer(C_ptr, (T.int64(128), T.int64(16)), "float32")
    D = T.match_buffer(D_ptr, (T.int64(128), T.int64(16)), "float32")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([256])
    d = T.alloc_buffer((T.int64(128), T.int64(16)), "float32", scope="local", layout=TileLayout(S[(8, 2, 8, 2, 4, 2) : (1 @ warpid, 2, 4 @ laneid, 4, 1 @ laneid, 1)]))
    a = T.alloc_buffer((T.int64(128), T.int64(32)), "float16", scope="local", layout=TileLayout(S[(2, 1, 4, 2, 8, 4, 4, 2) : (4 @ warpid, 16, 1 @ warpid, 2, 4 @ laneid, 4, 1 @ laneid, 1)]))
    b = T.alloc_buffer((T.int64(16), T.int64(32)), "float16", scope="shared", layout=ComposeLayout(SwizzleLayout(3, 2, 3), TileLayout(S[(16, 32)])))
    for B_s in T.serial(2):
        b[(B_s * 256 + tx) // 32, (B_s * 256 + tx) % 32] = B[(B_s * 256 + tx) // 32, (B_s * 256 + tx) % 32]
    T.ptx.fence.proxy.async_.shared__cta()
    T.cuda.cta_sync()
    for A_x in T.unroll(2):
        for A_y in T.unroll(8):
            a[tx // 32 * 16 + (A_x * 8 + tx % 32 // 4), A_y // 2 * 8 + (tx % 32 % 4 * 2 + A_y % 2)] = A[tx // 32 * 16 + (A_x * 8 + tx % 32 // 4), A_y // 2 * 8 + (tx % 32 % 4 * 2 + A_y % 2)]
    for C_x in T.unroll(2):
        for C_y in T.unroll(4):
            d[tx // 32 * 16 + (C_x * 8 + tx % 32 // 4), C_y // 2 * 8 + (tx % 32 % 4 * 2 + C_y % 2)] = C[tx // 32 * 16 + (C_x * 8 + tx % 32 // 4), C_y // 2 * 8 + (tx % 32 % 4 * 2 + C_y % 2)]
    Tx.cta.gemm(d, a, b, accum=True, transpose_B=True, dispatch="wgmma_words")
    for D_x in T.unroll(2):
        for D_y in T.unroll(4):
            D[tx // 32 * 16 + (D_x * 8 + tx % 32 // 4), D_y // 2 * 8 + (tx % 32 % 4 * 2 + D_y % 2)] = d[tx // 32 * 16 + (D_x * 8 + tx % 32 // 4), D_y // 2 * 8 + (tx % 32 % 4 * 2 + D_y % 2)]
