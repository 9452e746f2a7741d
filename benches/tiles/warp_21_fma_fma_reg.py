# from tvm.script import tirx as T
# from tvm.script import tirx as Tx
# from tvm.tirx.layout import *

@T.prim_func
def k(A_ptr: T.handle, B_ptr: T.handle, C_ptr: T.handle, D_ptr: T.handle):
    A = T.match_buffer(A_ptr, (32, 8), "float32")
    B = T.match_buffer(B_ptr, (32, 8), "float32")
    C = T.match_buffer(C_ptr, (32, 8), "float32")
    D = T.match_buffer(D_ptr, (32, 8), "float32")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([32])
    a = T.alloc_buffer((32, 8), "float32", scope="local", layout=TileLayout(S[(32, 8) : (1 @ laneid, 1)]))
    b = T.alloc_buffer((32, 8), "float32", scope="local", layout=TileLayout(S[(32, 8) : (1 @ laneid, 1)]))
    d = T.alloc_buffer((32, 8), "float32", scope="local", layout=TileLayout(S[(32, 8) : (1 @ laneid, 1)]))
    c = T.alloc_buffer((32, 1), "float32", scope="local", layout=TileLayout(S[(32, 1) : (1 @ laneid, 1)]))
    c[tx, 0] = B[tx, 3]
    for i0 in T.serial(8):
        a[tx, i0] = A[tx, i0]
        b[tx, i0] = B[tx, i0]
        d[tx, i0] = C[tx, i0]
    Tx.warp.fma(d, a, c, b, dispatch="reg")
    for i1 in T.serial(8):
        D[tx, i1] = d[tx, i1]
