from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def sums(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 64))
    B = T.match_buffer(b, (n,))
    for i, k in T.grid(n, 64):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
