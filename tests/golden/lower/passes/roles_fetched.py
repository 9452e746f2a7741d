# A block for each of four tiles, of which running ones take over those of others: one thread copies and asks, one issues products, a warpgroup stores.
@T.prim_func(s_tir=True)
def f(a: T.Buffer((250, 256), "float16"), b: T.Buffer((256, 128), "float16"), o: T.Buffer((250, 128), "float32")):
    x = T.sblock_alloc_buffer((256, 256), "float16", scope="shared")
    y = T.sblock_alloc_buffer((256, 128), "float16", scope="shared")
    c = T.sblock_alloc_buffer((256, 128), scope="local")
    for t in T.thread_binding(4, thread="blockIdx.x", annotations={"fetched": 1}):
        for i in T.serial(128, annotations={"tile": "elementwise", "warps_m": 4, "warps_n": 1}):
            for j in range(64):
                with T.sblock("zero"):
                    vi = T.axis.spatial(256, t // 2 * 128 + i)
                    vj = T.axis.spatial(128, t % 2 * 64 + j)
                    c[vi, vj] = T.float32(0.0)
        for s in T.serial(4, annotations={"stages": 3, "roles": 1}):
            for i in T.serial(128, annotations={"tile": "copy_async", "warps_m": 4, "warps_n": 1}):
                for k in range(64):
                    with T.sblock("fill_x"):
                        vi = T.axis.spatial(256, t // 2 * 128 + i)
                        vk = T.axis.spatial(256, s * 64 + k)
                        x[vi, vk] = T.if_then_else(vi < 250, a[vi, vk], T.float16(0.0))
            for k in T.serial(64, annotations={"tile": "copy_async", "warps_m": 4, "warps_n": 1}):
                for j in range(64):
                    with T.sblock("fill_y"):
                        vk = T.axis.spatial(256, s * 64 + k)
                        vj = T.axis.spatial(128, t % 2 * 64 + j)
                        y[vk, vj] = b[vk, vj]
            for i in T.serial(128, annotations={"tile": "gemm", "warps_m": 4, "warps_n": 1, "tile_variant": "tcgen05"}):
                for j, k in T.grid(64, 64):
                    with T.sblock("product"):
                        vi = T.axis.spatial(256, t // 2 * 128 + i)
                        vj = T.axis.spatial(128, t % 2 * 64 + j)
                        vk = T.axis.reduce(256, s * 64 + k)
                        c[vi, vj] = c[vi, vj] + T.Cast("float32", x[vi, vk]) * T.Cast("float32", y[vk, vj])
        for i in T.serial(128, annotations={"tile": "elementwise", "warps_m": 4, "warps_n": 1}):
            for j in range(64):
                with T.sblock("store"):
                    vi = T.axis.spatial(256, t // 2 * 128 + i)
                    vj = T.axis.spatial(128, t % 2 * 64 + j)
                    T.where(t // 2 * 128 + i < 250)
                    o[vi, vj] = c[vi, vj]
