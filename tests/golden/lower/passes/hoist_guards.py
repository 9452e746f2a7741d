# Two loops under one condition that depends on neither.
@T.prim_func
def f(a: T.Buffer((100, 4), "float32"), b: T.Buffer((100, 4), "float32"), c: T.Buffer((100, 4), "float32")):
    for i in T.thread_binding(128, thread="threadIdx.x"):
        for j in range(4):
            with T.block("b"):
                vi = T.axis.spatial(100, i)
                vj = T.axis.spatial(4, j)
                T.where(i < 100)
                b[vi, vj] = a[vi, vj] + T.float32(1)
        for j in range(4):
            with T.block("c"):
                vi = T.axis.spatial(100, i)
                vj = T.axis.spatial(4, j)
                T.where(i < 100)
                c[vi, vj] = a[vi, vj] * T.float32(2)
