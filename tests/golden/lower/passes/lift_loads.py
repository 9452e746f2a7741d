# Two loads in the expression of a quotient, and one that a condition decides on.
@T.prim_func
def f(a: T.Buffer((120, 2), "float32"), c: T.Buffer((120,), "float32"), b: T.Buffer((120,), "float32")):
    for i in T.thread_binding(32, thread="threadIdx.x"):
        for j in T.unroll(4, annotations={"batch_loads": 1}):
            with T.block("gate"):
                v = T.axis.spatial(120, j * 32 + i)
                T.where(j * 32 + i < 120)
                b[v] = a[v, 0] / a[v, 1] + T.if_then_else(v < 100, c[v], T.float32(0)) / T.float32(3)
