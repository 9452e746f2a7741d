@T.prim_func(s_tir=True)
def masked(keep: T.Buffer((50,), "int8"), a: T.Buffer((50, 6), "float32"), x: T.Buffer((50, 6), "float32")):
    for i, j in T.grid(50, 6):
        with T.sblock("masked"):
            vi, vj = T.axis.remap("SS", [i, j])
            if keep[vi] > T.int8(0):
                x[vi, vj] = a[vi, vj]
