from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def row_sum(A: T.Buffer((96, 512), "float32"), B: T.Buffer((96,), "float32")):
    for i, k in T.grid(96, 512):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
