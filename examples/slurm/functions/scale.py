from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def scale(A: T.Buffer((64, 1024), "float32"), B: T.Buffer((64, 1024), "float32")):
    for i, j in T.grid(64, 1024):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(0.5)
