# from tvm.script import tirx as T
# from tvm.script import tirx as Tx

@T.prim_func
def ldgsts_int8(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (12, 40), "int8")
    B = T.match_buffer(B_ptr, (12, 40), "int8")
    T.device_entry()
    T.cta_id([1])
    T.thread_id([40])
    M = T.alloc_buffer((12, 40), "int8", scope="shared")
    Tx.cta.copy_async(M, A, dispatch="ldgsts")
    T.ptx.cp.async_.commit_group()
    T.ptx.cp.async_.wait_group(0)
    T.cuda.cta_sync()
    Tx.cta.copy(B, M)
