# The last of three steps has one row of its four.
@T.prim_func
def f(a: T.Buffer((9, 32), "float32"), b: T.Buffer((32,), "float32")):
    r = T.alloc_buffer((9, 32), "float32", scope="local")
    s = T.alloc_buffer((32,), "float32", scope="local")
    for t in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("zero"):
            vt = T.axis.spatial(32, t)
            s[vt] = T.float32(0)
        for k in T.serial(3):
            for u in T.unroll(4, annotations={"batch_loads": 1}):
                with T.block("load"):
                    vt = T.axis.spatial(32, t)
                    vi = T.axis.spatial(9, k * 4 + u)
                    T.where(k * 4 + u < 9)
                    r[vi, vt] = a[vi, vt]
                with T.block("sum"):
                    vt = T.axis.spatial(32, t)
                    vi = T.axis.reduce(9, k * 4 + u)
                    T.where(k * 4 + u < 9)
                    s[vt] = s[vt] + r[vi, vt]
        with T.block("store"):
            vt = T.axis.spatial(32, t)
            b[vt] = s[vt]
