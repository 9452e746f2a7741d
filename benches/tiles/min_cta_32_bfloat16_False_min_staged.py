# from tvm.script import tirx as T
# from tvm.script import tirx as Tx
# from tvm.tirx.layout import *

@T.prim_func
def k(A_ptr: T.handle, C_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (32, 2, 3), "bfloat16")
    C = T.match_buffer(C_ptr, (32, 3), "bfloat16")
    B = T.match_buffer(B_ptr, (32, 3), "bfloat16")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([32])
    a = T.alloc_buffer((32, 2, 3), "bfloat16", scope="local", layout=TileLayout(S[(32, 2, 3) : (1 @ tx, 3, 1)]))
    d = T.alloc_buffer((1, 3), "bfloat16", scope="local", layout=TileLayout(S[(1, 3) : (1, 1)] + R[32 : 1 @ tx]))
    for i0 in T.serial(2):
        for i1 in T.serial(3):
            a[tx, i0, i1] = A[tx, i0, i1]
    for i2 in T.serial(3):
        d[0, i2] = C[0, i2]
    Tx.cta.min(d, a, axes=(0, 1), accum=False, dispatch="staged")
    for i3 in T.serial(3):
        B[tx, i3] = d[0, i3]
