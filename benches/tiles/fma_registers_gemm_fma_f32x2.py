# from tvm.script import tirx as T
# from tvm.script import tirx as Tx

@T.prim_func
def k(A_ptr: T.handle, B_ptr: T.handle, C_ptr: T.handle, D_ptr: T.handle):
    A = T.match_buffer(A_ptr, (6, 3), "float32")
    B = T.match_buffer(B_ptr, (3, 4), "float32")
    C = T.match_buffer(C_ptr, (6, 4), "float32")
    D = T.match_buffer(D_ptr, (6, 4), "float32")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([3])
    a = T.alloc_buffer((2, 3), "float32", scope="local")
    b = T.alloc_buffer((3, 4), "float32", scope="local")
    d = T.alloc_buffer((2, 4), "float32", scope="local")
    for i0 in T.serial(2):
        for i1 in T.serial(3):
            a[i0, i1] = A[tx * 2 + i0, i1]
    for i2 in T.serial(3):
        for i3 in T.serial(4):
            b[i2, i3] = B[i2, i3]
    for i4 in T.serial(2):
        for i5 in T.serial(4):
            d[i4, i5] = C[tx * 2 + i4, i5]
    T.cuda.cta_sync()
    Tx.thread.gemm(d, a, b, dispatch="fma_f32x2")
    for i6 in T.serial(2):
        for i7 in T.serial(4):
            D[tx * 2 + i6, i7] = d[i6, i7]
