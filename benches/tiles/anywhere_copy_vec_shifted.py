# from tvm.script import tirx as T
# from tvm.script import tirx as Tx

@T.prim_func
def anywhere(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (32, 27), "float16")
    B = T.match_buffer(B_ptr, (32, 24), "float16")
    T.device_entry()
    T.cta_id([1])
    tid = T.thread_id([32])
    R_1 = T.alloc_buffer((24,), "float16", scope="local")
    for i0 in T.unroll(3):
        Tx.thread.copy(R_1[i0 * 8:i0 * 8 + 8], A[tid:tid + 1, 3 + i0 * 8:3 + i0 * 8 + 8], dispatch="vec_shifted")
    Tx.thread.copy(B[tid:tid + 1, 0:24], R_1)
