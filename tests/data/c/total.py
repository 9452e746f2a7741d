from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def total(A: T.Buffer((1048576,), "float32"), B: T.Buffer((1,), "float32")):
    for i, k in T.grid(1, 1048576):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vk]
