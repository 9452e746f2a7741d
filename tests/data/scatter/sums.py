@T.prim_func(s_tir=True)
def sums(p: T.Buffer((12,), "int32"), a: T.Buffer((12, 130), "float32"), x: T.Buffer((16,), "float32")):
    for i, k in T.grid(12, 130):
        with T.sblock("sums"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                x[p[vi]] = T.float32(0.0)
            x[p[vi]] = x[p[vi]] + a[vi, vk]
