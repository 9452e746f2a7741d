# Four loads and four uses, one after the other.
@T.prim_func
def f(a: T.Buffer((4, 32), "float32"), b: T.Buffer((32, 4), "float32")):
    t = T.alloc_buffer((1,), "float32", scope="local")
    for i in T.thread_binding(32, thread="threadIdx.x"):
        for j in T.unroll(4, annotations={"batch_loads": 1}):
            with T.block("read"):
                vi, vj = T.axis.remap("SS", [i, j])
                t[0] = a[vj, vi]
            with T.block("use"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = t[0] * T.float32(2)
