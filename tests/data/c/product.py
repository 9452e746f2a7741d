from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def product(A: T.Buffer((1024, 2048), "float16"), B: T.Buffer((2048, 1536), "float16"), O: T.Buffer((1024, 1536), "float32")):
    for i, j, k in T.grid(1024, 1536, 2048):
        with T.sblock("O"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                O[vi, vj] = T.float32(0.0)
            O[vi, vj] = O[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])
