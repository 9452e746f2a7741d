# from tvm.script import tirx as T
# from tvm.script import tirx as Tx
# from tvm.tirx.layout import *

@T.prim_func
def tile(A_ptr: T.handle, B_ptr: T.handle, C_ptr: T.handle, D_ptr: T.handle):
    A = T.match_buffer(A_ptr, (T.int64(128), T.int64(32)), "float16")
    B = T.match_buffer(B_ptr, (T.int64(96), T.int64(32)), "float16")
    C = T.match_buffer(C_ptr, (T.int64(128), T.int64(96)), "float32")
    D = T.match_buffer(D_ptr, (T.int64(128), T.int64(96)), "float32")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    a = T.alloc_buffer((T.int64(128), T.int64(32)), "float16", scope="shared", layout=ComposeLayout(SwizzleLayout(3, 1, 3), TileLayout(S[(128, 2, 16) : (16, 2048, 1)])))
    b = T.alloc_buffer((T.int64(96), T.int64(32)), "float16", scope="shared", layout=ComposeLayout(SwizzleLayout(3, 1, 3), TileLayout(S[(96, 2, 16) : (16, 1536, 1)])))
    d = T.alloc_buffer((T.int64(128), T.int64(96)), "float32", scope="tmem", layout=TileLayout(S[(128, 96) : (1 @ TLane, 1 @ TCol)]))
    r = T.alloc_buffer((T.int64(128), T.int64(96)), "float32", scope="local", layout=TileLayout(S[(4, 2, 2, 8, 12, 4, 2) : (1 @ warpid, 48, 2, 4 @ laneid, 4, 1 @ laneid, 1)]))
    bar = T.alloc_buffer((T.int64(1),), "uint64", scope="shared")
    if tx == 0:
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), T.uint32(1))
        T.ptx.fence.mbarrier_init.release.cluster()
    for A_s in T.serial(32):
        a[(A_s * 128 + tx) // 32, (A_s * 128 + tx) % 32] = A[(A_s * 128 + tx) // 32, (A_s * 128 + tx) % 32]
    for B_s in T.serial(24):
        b[(B_s * 128 + tx) // 32, (B_s * 128 + tx) % 32] = B[(B_s * 128 + tx) // 32, (B_s * 128 + tx) % 32]
    T.ptx.fence.proxy.async_.shared__cta()
    T.cuda.cta_sync()
    for C_x in T.unroll(4):
        for C_y in T.unroll(24):
            r[tx // 32 * 32 + (C_x // 2 * 16 + (C_x % 2 * 8 + tx % 32 // 4)), C_y // 2 * 8 + (tx % 32 % 4 * 2 + C_y % 2)] = C[tx // 32 * 32 + (C_x // 2 * 16 + (C_x % 2 * 8 + tx % 32 // 4)), C_y // 2 * 8 + (tx % 32 % 4 * 2 + C_y % 2)]
    Tx.cta.copy(d, r, dispatch="tcgen05_store")
    T.cuda.cta_sync()
    Tx.cta.gemm(d, a, b, accum=True, mbar=bar.ptr_to([0]), transpose_A=False, transpose_B=True, dispatch="tcgen05")
    T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
    T.cuda.cta_sync()
    Tx.cta.copy(r, d)
    for D_x in T.unroll(4):
        for D_y in T.unroll(24):
            D[tx // 32 * 32 + (D_x // 2 * 16 + (D_x % 2 * 8 + tx % 32 // 4)), D_y // 2 * 8 + (tx % 32 % 4 * 2 + D_y % 2)] = r[tx // 32 * 32 + (D_x // 2 * 16 + (D_x % 2 * 8 + tx % 32 // 4)), D_y // 2 * 8 + (tx % 32 % 4 * 2 + D_y % 2)]
