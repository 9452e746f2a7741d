# from tvm.script import tirx as T
# from tvm.script import tirx as Tx

@T.prim_func
def k(A_ptr: T.handle, C_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (4, 8), "float32")
    C = T.match_buffer(C_ptr, (4,), "float32")
    B = T.match_buffer(B_ptr, (4,), "float32")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([32])
    a = T.alloc_buffer((4, 8), "float32", scope="shared")
    d = T.alloc_buffer((4,), "float32", scope="shared")
    for i0 in T.serial(1):
        if i0 * 32 + tx < 32:
            a[(i0 * 32 + tx) // 8 % 4, (i0 * 32 + tx) % 8] = A[(i0 * 32 + tx) // 8 % 4, (i0 * 32 + tx) % 8]
    for i1 in T.serial(1):
        if i1 * 32 + tx < 4:
            d[(i1 * 32 + tx) % 4] = C[(i1 * 32 + tx) % 4]
    T.cuda.cta_sync()
    Tx.cta.sum(d, a, axes=(1,), accum=False, dispatch="shared")
    T.cuda.cta_sync()
    for i2 in T.serial(1):
        if i2 * 32 + tx < 4:
            B[(i2 * 32 + tx) % 4] = d[(i2 * 32 + tx) % 4]
