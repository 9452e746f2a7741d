# from tvm.script import tirx as T
# from tvm.script import tirx as Tx

@T.prim_func
def staged_int8(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (16, 24), "int8")
    B = T.match_buffer(B_ptr, (16, 24), "int8")
    T.device_entry()
    T.cta_id([1])
    T.thread_id([48])
    M = T.alloc_buffer((16, 24), "int8", scope="shared")
    Tx.cta.copy(M, A, dispatch="fallback")
    T.cuda.cta_sync()
    Tx.cta.copy(B, M)
