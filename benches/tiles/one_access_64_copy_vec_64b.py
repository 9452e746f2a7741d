# from tvm.script import tirx as T
# from tvm.script import tirx as Tx

@T.prim_func
def one_access_64(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (128,), "float16", align=32)
    B = T.match_buffer(B_ptr, (128,), "float16", align=32)
    T.device_entry()
    T.cta_id([1])
    tid = T.thread_id([32])
    R_1 = T.alloc_buffer((4,), "float16", scope="local")
    Tx.thread.copy(R_1, A[tid * 4:tid * 4 + 4], dispatch="vec_64b")
    Tx.thread.copy(B[tid * 4:tid * 4 + 4], R_1, dispatch="vec_64b")
