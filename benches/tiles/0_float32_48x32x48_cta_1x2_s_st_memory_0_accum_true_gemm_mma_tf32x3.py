# from tvm.script import tirx as T
# from tvm.script import tirx as Tx
# from tvm.tirx.layout import *

@T.prim_func
def tile(A_ptr: T.handle, B_ptr: T.handle, C_ptr: T.handle, D_ptr: T.handle):
    A = T.match_buffer(A_ptr, (T.int64(48), T.int64(48)), "float32")
    B = T.match_buffer(B_ptr, (T.int64(32), T.int64(48)), "float32")
    C = T.match_buffer(C_ptr, (T.int64(48), T.int64(32)), "float32")
    D = T.match_buffer(D_ptr, (T.int64(48), T.int64(32)), "float32")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    a = T.alloc_buffer((T.int64(48), T.int64(48)), "float32", scope="shared")
    b = T.alloc_buffer((T.int64(32), T.int64(48)), "float32", scope="shared")
    d = T.alloc_buffer((T.int64(48), T.int64(32)), "float32", scope="local", layout=TileLayout(S[(3, 2, 8, 2, 2, 4, 2) : (8, 2, 4 @ laneid, 1 @ warpid, 4, 1 @ laneid, 1)]))
    for A_s in T.serial(36):
        a[(A_s * 64 + tx) // 48, (A_s * 64 + tx) % 48] = A[(A_s * 64 + tx) // 48, (A_s * 64 + tx) % 48]
    for B_s in T.serial(24):
        b[(B_s * 64 + tx) // 48, (B_s * 64 + tx) % 48] = B[(B_s * 64 + tx) // 48, (B_s * 64 + tx) % 48]
    T.cuda.cta_sync()
    for C_x in T.unroll(6):
        for C_y in T.unroll(4):
            d[C_x // 2 * 16 + (C_x % 2 * 8 + tx % 32 // 4), tx // 32 * 16 + (C_y // 2 * 8 + (tx % 32 % 4 * 2 + C_y % 2))] = C[C_x // 2 * 16 + (C_x % 2 * 8 + tx % 32 // 4), tx // 32 * 16 + (C_y // 2 * 8 + (tx % 32 % 4 * 2 + C_y % 2))]
    Tx.cta.gemm(d, a, b, accum=True, precision="tf32", transpose_A=False, transpose_B=True, dispatch="mma_tf32x3")
    for D_x in T.unroll(6):
        for D_y in T.unroll(4):
            D[D_x // 2 * 16 + (D_x % 2 * 8 + tx % 32 // 4), tx // 32 * 16 + (D_y // 2 * 8 + (tx % 32 % 4 * 2 + D_y % 2))] = d[D_x // 2 * 16 + (D_x % 2 * 8 + tx % 32 // 4), tx // 32 * 16 + (D_y // 2 * 8 + (tx % 32 % 4 * 2 + D_y % 2))]
