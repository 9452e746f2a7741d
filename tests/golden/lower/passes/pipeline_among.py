# Eight parts of a step each use two tiles. One is filled in four copies, one in sixteen: every second part begins with one of the
# first, each with two of the other.
@T.prim_func
def f(a: T.Buffer((32, 61), "float32"), d: T.Buffer((128, 64), "float32"), b: T.Buffer((128, 32), "float32"), c: T.Buffer((128, 64), "float32")):
    s = T.alloc_buffer((128, 32), "float32", scope="shared")
    r = T.alloc_buffer((128, 64), "float32", scope="shared")
    for i in T.thread_binding(1, thread="blockIdx.x"):
        for k in T.serial(16, annotations={"stages": 3}):
            for x in T.thread_binding(64, thread="threadIdx.x"):
                for v in T.unroll(4):
                    with T.block("fill"):
                        vk = T.axis.spatial(128, k * 8 + x % 8)
                        vx = T.axis.spatial(32, v * 8 + x // 8)
                        s[vk, vx] = T.if_then_else(vk < 61, a[vx, vk], T.float32(0))
            for x in T.thread_binding(64, thread="threadIdx.x"):
                for v in T.unroll(16):
                    with T.block("fill_other"):
                        vk = T.axis.spatial(128, k * 8 + v // 2)
                        vx = T.axis.spatial(64, v % 2 * 32 + x % 32)
                        r[vk, vx] = d[vk, vx]
            for x in T.thread_binding(64, thread="threadIdx.x"):
                for v in T.unroll(8):
                    with T.block("use"):
                        vk = T.axis.spatial(128, k * 8 + v)
                        vx = T.axis.spatial(32, x // 2)
                        b[vk, vx] = s[vk, vx]
                    with T.block("use_other"):
                        vk = T.axis.spatial(128, k * 8 + v)
                        vx = T.axis.spatial(64, x)
                        c[vk, vx] = r[vk, vx]
