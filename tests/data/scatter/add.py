@T.prim_func(s_tir=True)
def add(p: T.Buffer((10,), "int32"), a: T.Buffer((10, 33), "float32"), x: T.Buffer((20, 33), "float32")):
    for i, j in T.grid(10, 33):
        with T.sblock("add"):
            vi, vj = T.axis.remap("SS", [i, j])
            x[p[vi], vj] = x[p[vi], vj] + a[vi, vj]
