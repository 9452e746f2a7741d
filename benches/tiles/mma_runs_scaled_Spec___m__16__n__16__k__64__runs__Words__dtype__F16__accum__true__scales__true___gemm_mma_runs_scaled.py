# from tvm.script import tirx as T
# from tvm.script import tirx as Tx
# from tvm.tirx.layout import *

@T.prim_func
def tile(A_ptr: T.handle, B_ptr: T.handle, C_ptr: T.handle, S_ptr: T.handle, D_ptr: T.handle):
    A = T.match_buffer(A_ptr, (T.int64(16), T.int64(64)), "float16")
    B = T.match_buffer(B_ptr, (T.int64(16), T.int64(64)), "float16")
    C = T.match_buffer(C_ptr, (T.int64(16), T.int64(16)), "float32")
    S = T.match_buffer(S_ptr, (T.int64(16), T.int64(1)), "float16")
    D = T.match_buffer(D_ptr, (T.int64(16), T.int64(16)), "float32")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([32])
    d = T.alloc_buffer((T.int64(16), T.int64(16)), "float32", scope="local", layout=TileLayout(S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)]))
    a = T.alloc_buffer((T.int64(16), T.int64(64)), "float16", scope="local", layout=TileLayout(S[(1, 2, 8, 1, 4, 2, 2, 4) : (32, 2, 4 @ laneid, 32, 1 @ laneid, 16, 1, 4)]))
    b = T.alloc_buffer((T.int64(16), T.int64(64)), "float16", scope="local", layout=TileLayout(S[(2, 8, 1, 4, 2, 2, 4) : (16, 4 @ laneid, 16, 1 @ laneid, 8, 1, 2)]))
    s = T.alloc_buffer((T.int64(16), T.int64(1)), "float16", scope="local", layout=TileLayout(S[(2, 8, 1) : (1, 4 @ laneid, 2)] + R[4 : 1 @ laneid]))
    for A_x in T.unroll(2):
        for A_y in T.unroll(16):
            a[A_x * 8 + tx % 32 // 4, tx % 32 % 4 * 16 + (A_y // 8 * 8 + (A_y // 4 % 2 * 4 + A_y % 4))] = A[A_x * 8 + tx % 32 // 4, tx % 32 % 4 * 16 + (A_y // 8 * 8 + (A_y // 4 % 2 * 4 + A_y % 4))]
    for B_x in T.unroll(2):
        for B_y in T.unroll(16):
            b[B_x * 8 + tx % 32 // 4, tx % 32 % 4 * 16 + (B_y // 8 * 8 + (B_y // 4 % 2 * 4 + B_y % 4))] = B[B_x * 8 + tx % 32 // 4, tx % 32 % 4 * 16 + (B_y // 8 * 8 + (B_y // 4 % 2 * 4 + B_y % 4))]
    for C_x in T.unroll(2):
        for C_y in T.unroll(4):
            d[C_x * 8 + tx % 32 // 4, C_y // 2 * 8 + (tx % 32 % 4 * 2 + C_y % 2)] = C[C_x * 8 + tx % 32 // 4, C_y // 2 * 8 + (tx % 32 % 4 * 2 + C_y % 2)]
    for S_x in T.unroll(2):
        for S_y in T.unroll(1):
            s[S_x * 8 + tx % 32 // 4, 0] = S[S_x * 8 + tx % 32 // 4, 0]
    Tx.warp.gemm(d, a, b, accum=True, sfa=s, transpose_B=True, dispatch="mma_runs_scaled")
    for D_x in T.unroll(2):
        for D_y in T.unroll(4):
            D[D_x * 8 + tx % 32 // 4, D_y // 2 * 8 + (tx % 32 % 4 * 2 + D_y % 2)] = d[D_x * 8 + tx % 32 // 4, D_y // 2 * 8 + (tx % 32 % 4 * 2 + D_y % 2)]
