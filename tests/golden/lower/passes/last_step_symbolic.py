# How many rows there are is known at run time.
@T.prim_func
def f(pa: T.handle, b: T.Buffer((32,), "float32")):
    n = T.int32()
    a = T.match_buffer(pa, (n, 32), "float32")
    r = T.alloc_buffer((n, 32), "float32", scope="local")
    s = T.alloc_buffer((32,), "float32", scope="local")
    for t in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("zero"):
            vt = T.axis.spatial(32, t)
            s[vt] = T.float32(0)
        for k in T.serial((n + 3) // 4):
            for u in T.unroll(4, annotations={"batch_loads": 1}):
                with T.block("load"):
                    vt = T.axis.spatial(32, t)
                    vi = T.axis.spatial(n, k * 4 + u)
                    T.where(k * 4 + u < n)
                    r[vi, vt] = a[vi, vt]
                with T.block("sum"):
                    vt = T.axis.spatial(32, t)
                    vi = T.axis.reduce(n, k * 4 + u)
                    T.where(k * 4 + u < n)
                    s[vt] = s[vt] + r[vi, vt]
        with T.block("store"):
            vt = T.axis.spatial(32, t)
            b[vt] = s[vt]
