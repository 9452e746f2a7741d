@T.prim_func(s_tir=True)
def points(p: T.Buffer((5, 2), "int64"), a: T.Buffer((5, 9), "float32"), x: T.Buffer((12, 17, 9), "float32")):
    for i, j in T.grid(5, 9):
        with T.sblock("points"):
            vi, vj = T.axis.remap("SS", [i, j])
            x[p[vi, 0], p[vi, 1], vj] = a[vi, vj] + T.float32(1.0)
