# from tvm.script import tirx as T
# from tvm.script import tirx as Tx
# from tvm.tirx.layout import *

@T.prim_func
def tile(A_ptr: T.handle, B_ptr: T.handle, C_ptr: T.handle, D_ptr: T.handle):
    A = T.match_buffer(A_ptr, (T.int64(16), T.int64(64)), "float16")
    B = T.match_buffer(B_ptr, (T.int64(16), T.int64(64)), "float16")
    C = T.match_buffer(C_ptr, (T.int64(16), T.int64(16)), "float32")
    D = T.match_buffer(D_ptr, (T.int64(16), T.int64(16)), "float32")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    d = T.alloc_buffer((T.int64(16), T.int64(16)), "float32", scope="local", layout=TileLayout(S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 1 @ warpid, 1 @ laneid, 1)]))
    a = T.alloc_buffer((T.int64(16), T.int64(64)), "float16", scope="shared")
    b = T.alloc_buffer((T.int64(16), T.int64(64)), "float16", scope="local", layout=TileLayout(S[(2, 1, 8, 1, 4, 2, 2, 4) : (1 @ warpid, 16, 4 @ laneid, 16, 1 @ laneid, 8, 1, 2)]))
    for A_s in T.serial(16):
        a[(A_s * 64 + tx) // 64, (A_s * 64 + tx) % 64] = A[(A_s * 64 + tx) // 64, (A_s * 64 + tx) % 64]
    T.cuda.cta_sync()
    for B_x in T.unroll(1):
        for B_y in T.unroll(16):
            b[tx // 32 * 8 + tx % 32 // 4, tx % 32 % 4 * 16 + (B_y // 8 * 8 + (B_y // 4 % 2 * 4 + B_y % 4))] = B[tx // 32 * 8 + tx % 32 // 4, tx % 32 % 4 * 16 + (B_y // 8 * 8 + (B_y // 4 % 2 * 4 + B_y % 4))]
    for C_x in T.unroll(2):
        for C_y in T.unroll(2):
            d[C_x * 8 + tx % 32 // 4, tx // 32 * 8 + (tx % 32 % 4 * 2 + C_y)] = C[C_x * 8 + tx % 32 // 4, tx // 32 * 8 + (tx % 32 % 4 * 2 + C_y)]
    Tx.cta.gemm(d, a, b, accum=True, transpose_B=True, dispatch="mma_words")
    for D_x in T.unroll(2):
        for D_y in T.unroll(2):
            D[D_x * 8 + tx % 32 // 4, tx // 32 * 8 + (tx % 32 % 4 * 2 + D_y)] = d[D_x * 8 + tx % 32 // 4, tx // 32 * 8 + (tx % 32 % 4 * 2 + D_y)]
