from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def gemv(A: T.Buffer((256, 384), "float32"), x: T.Buffer((384,), "float32"), y: T.Buffer((256,), "float32")):
    for i, k in T.grid(256, 384):
        with T.sblock("y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                y[vi] = T.float32(0)
            y[vi] = y[vi] + A[vi, vk] * x[vk]
