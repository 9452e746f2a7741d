# The last of four blocks has 5 elements of its 32.
@T.prim_func
def f(a: T.Buffer((101,), "float32"), b: T.Buffer((101,), "float32")):
    r = T.alloc_buffer((101,), "float32", scope="local")
    for x in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            for v in T.vectorized(4):
                with T.block("load"):
                    vi = T.axis.spatial(101, x * 32 + t * 4 + v)
                    T.where(x * 32 + t * 4 + v < 101)
                    r[vi] = a[vi]
            for v in T.vectorized(4):
                with T.block("store"):
                    vi = T.axis.spatial(101, x * 32 + t * 4 + v)
                    T.where(x * 32 + t * 4 + v < 101)
                    b[vi] = r[vi]
