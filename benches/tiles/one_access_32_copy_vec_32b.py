# from tvm.script import tirx as T
# from tvm.script import tirx as Tx

@T.prim_func
def one_access_32(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (64,), "float16", align=32)
    B = T.match_buffer(B_ptr, (64,), "float16", align=32)
    T.device_entry()
    T.cta_id([1])
    tid = T.thread_id([32])
    R_1 = T.alloc_buffer((2,), "float16", scope="local")
    Tx.thread.copy(R_1, A[tid * 2:tid * 2 + 2], dispatch="vec_32b")
    Tx.thread.copy(B[tid * 2:tid * 2 + 2], R_1, dispatch="vec_32b")
