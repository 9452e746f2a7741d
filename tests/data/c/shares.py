from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def shares(A: T.Buffer((16, 65536), "float32"), B: T.Buffer((16, 65536), "float32")):
    S = T.sblock_alloc_buffer((16,))
    for i, k in T.grid(16, 65536):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]
    for i, k in T.grid(16, 65536):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = A[vi, vk] / S[vi]
