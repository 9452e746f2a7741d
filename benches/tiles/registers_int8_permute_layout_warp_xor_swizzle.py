# from tvm.script import tirx as T
# from tvm.script import tirx as Tx
# from tvm.tirx.layout import *

@T.prim_func
def registers_int8(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (32, 8), "int8")
    B = T.match_buffer(B_ptr, (32, 8), "int8")
    T.device_entry()
    T.cta_id([1])
    T.thread_id([32])
    R_1 = T.alloc_buffer((32, 8), "int8", scope="local", layout=TileLayout(S[(32, 8) : (1 @ laneid, 1)]))
    Q = T.alloc_buffer((32, 8), "int8", scope="local", layout=TileLayout(S[(8, 4, 8) : (1, 8 @ laneid, 1 @ laneid)]))
    Tx.warp.copy(R_1, A)
    Tx.warp.permute_layout(Q, R_1, dispatch="warp_xor_swizzle")
    Tx.warp.copy(B, Q)
