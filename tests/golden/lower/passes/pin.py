# A row of 16-bit values is read before and after the threads meet.
@T.prim_func
def f(a: T.Buffer((32, 8), "float16"), b: T.Buffer((32, 8), "float32")):
    t = T.alloc_buffer((8,), "float16", scope="local")
    s = T.alloc_buffer((32,), "float32", scope="shared")
    for x in T.thread_binding(32, thread="threadIdx.x"):
        for j in T.unroll(8):
            with T.block("read"):
                vx, vj = T.axis.remap("SS", [x, j])
                t[vj] = a[vx, vj]
        with T.block("first"):
            vx = T.axis.spatial(32, x)
            s[vx] = T.Cast("float32", t[0])
        for j in T.unroll(8):
            with T.block("again"):
                vx, vj = T.axis.remap("SS", [x, j])
                b[vx, vj] = T.Cast("float32", t[vj]) + s[31 - vx]
