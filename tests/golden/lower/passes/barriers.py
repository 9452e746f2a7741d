# A thread reads what another one wrote.
@T.prim_func
def f(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
    s = T.alloc_buffer((64,), "float32", scope="shared")
    for x in T.thread_binding(64, thread="threadIdx.x"):
        with T.block("fill"):
            vx = T.axis.spatial(64, x)
            s[vx] = a[vx]
        with T.block("use"):
            vx = T.axis.spatial(64, x)
            b[vx] = s[63 - vx]
