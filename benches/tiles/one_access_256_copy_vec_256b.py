# from tvm.script import tirx as T
# from tvm.script import tirx as Tx

@T.prim_func
def one_access_256(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (512,), "float16", align=32)
    B = T.match_buffer(B_ptr, (512,), "float16", align=32)
    T.device_entry()
    T.cta_id([1])
    tid = T.thread_id([32])
    R_1 = T.alloc_buffer((16,), "float16", scope="local")
    Tx.thread.copy(R_1, A[tid * 16:tid * 16 + 16], dispatch="vec_256b")
    Tx.thread.copy(B[tid * 16:tid * 16 + 16], R_1, dispatch="vec_256b")
