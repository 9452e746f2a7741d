from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def scaled(A: T.Buffer((100,), "float32"), s: T.float32, B: T.Buffer((100,), "float32")):
    for i in T.serial(100):
        with T.sblock("B"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi] * s
