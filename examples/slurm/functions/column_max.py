from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def column_max(A: T.Buffer((256, 128), "float32"), B: T.Buffer((128,), "float32")):
    for j, k in T.grid(128, 256):
        with T.sblock("B"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                B[vj] = T.min_value("float32")
            B[vj] = T.max(B[vj], A[vk, vj])
