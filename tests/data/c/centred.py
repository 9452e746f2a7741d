from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def centred(h0: T.handle, h1: T.handle, s: T.float32):
    n = T.int64()
    A = T.match_buffer(h0, (5, n), "float32")
    B = T.match_buffer(h1, (5, n), "float32")
    total = T.sblock_alloc_buffer((n,), "float32")
    for j, k in T.grid(n, 5):
        with T.sblock("total"):
            v, w = T.axis.remap("SR", [j, k])
            with T.init():
                total[v] = T.float32(0)
            total[v] = total[v] + A[w, v]
    for i, j in T.grid(5, n):
        with T.sblock("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[v, w] * s - total[w]
