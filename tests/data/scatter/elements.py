@T.prim_func(s_tir=True)
def elements(p: T.Buffer((7, 13), "int32"), a: T.Buffer((7, 13), "bfloat16"), x: T.Buffer((11, 13), "bfloat16")):
    for i, j in T.grid(7, 13):
        with T.sblock("elements"):
            vi, vj = T.axis.remap("SS", [i, j])
            x[p[vi, vj], vj] = a[vi, vj]
