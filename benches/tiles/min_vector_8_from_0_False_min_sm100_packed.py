# from tvm.script import tirx as T
# from tvm.script import tirx as Tx

@T.prim_func
def k(A_ptr: T.handle, C_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (8,), "float32")
    C = T.match_buffer(C_ptr, (1,), "float32")
    B = T.match_buffer(B_ptr, (1,), "float32")
    T.device_entry()
    T.cta_id([1])
    T.thread_id([1])
    a = T.alloc_buffer((8,), "float32", scope="local")
    d = T.alloc_buffer((1,), "float32", scope="local")
    for i0 in T.serial(8):
        a[i0] = A[i0]
    d[0] = C[0]
    Tx.thread.min(d, a, axes=(0,), accum=False, dispatch="sm100_packed")
    B[0] = d[0]
