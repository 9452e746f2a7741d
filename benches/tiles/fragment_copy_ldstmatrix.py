# from tvm.script import tirx as T
# from tvm.script import tirx as Tx
# from tvm.tirx.layout import *

@T.prim_func
def fragment(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (16, 16), "float16")
    B = T.match_buffer(B_ptr, (16, 16), "float16")
    T.device_entry()
    T.cta_id([1])
    T.thread_id([32])
    M = T.alloc_buffer((16, 16), "float16", scope="shared")
    R_1 = T.alloc_buffer((16, 16), "float16", scope="local", layout=TileLayout(S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)]))
    Q = T.alloc_buffer((16, 16), "float16", scope="local", layout=TileLayout(S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)]))
    Tx.warp.copy(R_1, A)
    Tx.warp.copy(M, R_1)
    T.cuda.cta_sync()
    Tx.warp.copy(Q, M, dispatch="ldstmatrix")
    Tx.warp.copy(R_1, Q)
    Tx.warp.copy(B, R_1)
