@T.prim_func(s_tir=True)
def rows(p: T.Buffer((24,), "int64"), a: T.Buffer((24, 24), "float32"), x: T.Buffer((40, 24), "float32")):
    for i, j in T.grid(24, 24):
        with T.sblock("rows"):
            vi, vj = T.axis.remap("SS", [i, j])
            x[p[vi], vj] = a[vi, vj] * T.float32(2.0)
