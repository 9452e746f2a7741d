# The logarithm of a register in a guarded loop, and a quotient of one that the loop changes.
@T.prim_func
def f(a: T.Buffer((120,), "float32"), b: T.Buffer((120,), "float32")):
    s = T.alloc_buffer((1,), "float32", scope="local")
    r = T.alloc_buffer((1,), "float32", scope="local")
    for i in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("sums"):
            v = T.axis.spatial(32, i)
            s[0] = a[v] + T.float32(1)
        for j in T.unroll(4):
            with T.block("last"):
                v = T.axis.spatial(120, j * 32 + i)
                T.where(j * 32 + i < 120)
                r[0] = a[v]
            with T.block("out"):
                v = T.axis.spatial(120, j * 32 + i)
                T.where(j * 32 + i < 120)
                b[v] = T.float32(1) / r[0] - T.log(s[0])
