# Each step fills 4 x 32 floats of shared memory, transposed, from rows of 61, which no vector divides.
@T.prim_func
def f(a: T.Buffer((32, 61), "float32"), b: T.Buffer((64, 32), "float32")):
    s = T.alloc_buffer((64, 32), "float32", scope="shared")
    for i in T.thread_binding(1, thread="blockIdx.x"):
        for k in T.serial(16, annotations={"stages": 3}):
            for x in T.thread_binding(32, thread="threadIdx.x"):
                for v in T.unroll(4):
                    with T.block("fill"):
                        vk = T.axis.spatial(64, k * 4 + x % 4)
                        vx = T.axis.spatial(32, v * 8 + x // 4)
                        s[vk, vx] = T.if_then_else(vk < 61, a[vx, vk], T.float32(0))
            for x in T.thread_binding(32, thread="threadIdx.x"):
                for v in T.unroll(4):
                    with T.block("use"):
                        vk = T.axis.spatial(64, k * 4 + v)
                        vx = T.axis.spatial(32, x)
                        b[vk, vx] = s[vk, vx]
