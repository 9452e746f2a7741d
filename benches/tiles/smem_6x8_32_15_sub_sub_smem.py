# from tvm.script import tirx as T
# from tvm.script import tirx as Tx

@T.prim_func
def k(A_ptr: T.handle, B_ptr: T.handle, C_ptr: T.handle, D_ptr: T.handle):
    A = T.match_buffer(A_ptr, (6, 8), "float32")
    B = T.match_buffer(B_ptr, (6, 8), "float32")
    C = T.match_buffer(C_ptr, (6, 8), "float32")
    D = T.match_buffer(D_ptr, (6, 8), "float32")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([32])
    a = T.alloc_buffer((6, 8), "float32", scope="shared")
    b = T.alloc_buffer((6, 8), "float32", scope="shared")
    d = T.alloc_buffer((6, 8), "float32", scope="shared")
    for i0 in T.serial(2):
        if i0 * 32 + tx < 48:
            a[(i0 * 32 + tx) // 8, (i0 * 32 + tx) % 8] = A[(i0 * 32 + tx) // 8, (i0 * 32 + tx) % 8]
            b[(i0 * 32 + tx) // 8, (i0 * 32 + tx) % 8] = B[(i0 * 32 + tx) // 8, (i0 * 32 + tx) % 8]
            d[(i0 * 32 + tx) // 8, (i0 * 32 + tx) % 8] = C[(i0 * 32 + tx) // 8, (i0 * 32 + tx) % 8]
    T.cuda.cta_sync()
    Tx.cta.sub(d, a, b[1:2, 0:8], dispatch="smem")
    for i1 in T.serial(2):
        if i1 * 32 + tx < 48:
            D[(i1 * 32 + tx) // 8, (i1 * 32 + tx) % 8] = d[(i1 * 32 + tx) // 8, (i1 * 32 + tx) % 8]
