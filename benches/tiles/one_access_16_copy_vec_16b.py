# from tvm.script import tirx as T
# from tvm.script import tirx as Tx

@T.prim_func
def one_access_16(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (32,), "float16", align=32)
    B = T.match_buffer(B_ptr, (32,), "float16", align=32)
    T.device_entry()
    T.cta_id([1])
    tid = T.thread_id([32])
    R_1 = T.alloc_buffer((1,), "float16", scope="local")
    Tx.thread.copy(R_1, A[tid:tid + 1], dispatch="vec_16b")
    Tx.thread.copy(B[tid:tid + 1], R_1, dispatch="vec_16b")
