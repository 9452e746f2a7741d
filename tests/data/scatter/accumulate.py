@T.prim_func(s_tir=True)
def accumulate(p: T.Buffer((30,), "int32"), a: T.Buffer((30, 18), "float32"), x: T.Buffer((8, 18), "float32")):
    for i, j in T.grid(30, 18):
        with T.sblock("accumulate"):
            vi, vj = T.axis.remap("RS", [i, j])
            x[p[vi], vj] = x[p[vi], vj] + a[vi, vj]
