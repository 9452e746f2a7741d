# from tvm.script import tirx as T
# from tvm.script import tirx as Tx
# from tvm.tirx.layout import *

@T.prim_func
def k(A_ptr: T.handle, C_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (2, 2, 64, 1, 2), "float32")
    C = T.match_buffer(C_ptr, (2, 2, 1, 1, 2), "float32")
    B = T.match_buffer(B_ptr, (2, 2, 64, 1, 2), "float32")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    a = T.alloc_buffer((2, 64, 1, 2), "float32", scope="local", layout=TileLayout(S[(2, 64, 1, 2) : (64 @ tx, 1 @ tx, 1 @ tx, 1)]))
    d = T.alloc_buffer((2, 1, 1, 2), "float32", scope="local", layout=TileLayout(S[(2, 1, 1, 2) : (64 @ tx, 1, 1 @ tx, 1)] + R[64 : 1 @ tx]))
    for i0 in T.serial(2):
        for i1 in T.serial(2):
            a[tx // 64, tx % 64, 0, i1] = A[i0, tx // 64, tx % 64, 0, i1]
        for i2 in T.serial(2):
            d[tx // 64, 0, 0, i2] = C[i0, tx // 64, 0, 0, i2]
        Tx.cta.max(d, a, axes=(1,), accum=False, dispatch="cross_warp")
        for i3 in T.serial(2):
            B[i0, tx // 64, tx % 64, 0, i3] = d[tx // 64, 0, 0, i3]
