# The first loop picks registers, the second is within the steps asked for, the third is not.
@T.prim_func
def f(a: T.Buffer((32, 4), "float32"), b: T.Buffer((32, 4), "float32"), c: T.Buffer((32, 100), "float32")):
    t = T.alloc_buffer((4,), "float32", scope="local")
    for i in T.thread_binding(32, thread="threadIdx.x"):
        for j in range(4):
            with T.block("read"):
                vi, vj = T.axis.remap("SS", [i, j])
                t[vj] = a[vi, vj]
        for j in T.serial(4, annotations={"pragma_auto_unroll_max_step": 16}):
            with T.block("same"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj]
        for j in T.serial(100, annotations={"pragma_auto_unroll_max_step": 16}):
            with T.block("long"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = t[0]
