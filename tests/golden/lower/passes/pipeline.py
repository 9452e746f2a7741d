# Each step fills 128 floats of shared memory, 16 bytes a thread, and reads another thread's.
@T.prim_func
def f(a: T.Buffer((16, 128), "float32"), b: T.Buffer((16, 128), "float32")):
    s = T.alloc_buffer((16, 128), "float32", scope="shared")
    for i in T.thread_binding(1, thread="blockIdx.x"):
        for k in T.serial(16, annotations={"stages": 3}):
            for x in T.thread_binding(32, thread="threadIdx.x"):
                for v in T.vectorized(4):
                    with T.block("fill"):
                        vk = T.axis.spatial(16, k)
                        vx = T.axis.spatial(128, x * 4 + v)
                        s[vk, vx] = a[vk, vx]
            for x in T.thread_binding(32, thread="threadIdx.x"):
                for v in range(4):
                    with T.block("use"):
                        vk = T.axis.spatial(16, k)
                        vx = T.axis.spatial(128, x * 4 + v)
                        b[vk, vx] = s[vk, 127 - vx]
