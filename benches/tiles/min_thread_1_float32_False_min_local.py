# from tvm.script import tirx as T
# from tvm.script import tirx as Tx

@T.prim_func
def k(A_ptr: T.handle, C_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (3, 1), "float32")
    C = T.match_buffer(C_ptr, (3,), "float32")
    B = T.match_buffer(B_ptr, (3,), "float32")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([3])
    a = T.alloc_buffer((1,), "float32", scope="local")
    d = T.alloc_buffer((1,), "float32", scope="local")
    for i0 in T.serial(1):
        a[i0] = A[tx, i0]
    d[0] = C[tx]
    Tx.thread.min(d, a, axes=(0,), accum=False, dispatch="local")
    B[tx] = d[0]
