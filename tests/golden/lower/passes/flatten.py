# Two dimensions, a symbolic one outside, and registers.
@T.prim_func
def f(a: T.handle, b: T.Buffer((8, 4), "float32")):
    n = T.int64()
    A = T.match_buffer(a, (n, 8, 4), "float32")
    t = T.alloc_buffer((2, 2), "float32", scope="local")
    for i in T.thread_binding(8, thread="threadIdx.x"):
        for j, k in T.grid(2, 2):
            with T.block("read"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                t[vj, vk] = A[n - 1, vi, vj * 2 + vk]
        for j, k in T.grid(2, 2):
            with T.block("write"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                b[vi, vj * 2 + vk] = t[vj, vk]
