# The threads and steps of the launch are all below the limit.
@T.prim_func
def f(a: T.Buffer((128, 8), "float32"), b: T.Buffer((128, 8), "float32")):
    for i in T.thread_binding(128, thread="threadIdx.x"):
        for j in range(8):
            with T.block("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                if vi * 8 + vj < 1024:
                    b[vi, vj] = a[vi, vj]
