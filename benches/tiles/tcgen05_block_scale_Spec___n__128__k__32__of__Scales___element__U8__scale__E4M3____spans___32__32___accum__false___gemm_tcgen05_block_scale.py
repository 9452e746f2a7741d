# from tvm.script import tirx as T
# from tvm.script import tirx as Tx
# from tvm.tirx.layout import *

@T.prim_func
def tile(A_ptr: T.handle, B_ptr: T.handle, P_ptr: T.handle, Q_ptr: T.handle, D_ptr: T.handle):
    A = T.match_buffer(A_ptr, (T.int64(128), T.int64(32)), "uint8")
    B = T.match_buffer(B_ptr, (T.int64(128), T.int64(32)), "uint8")
    P = T.match_buffer(P_ptr, (T.int64(128), T.int64(4)), "float8_e4m3fn")
    Q = T.match_buffer(Q_ptr, (T.int64(128), T.int64(4)), "float8_e4m3fn")
    D = T.match_buffer(D_ptr, (T.int64(128), T.int64(128)), "float32")
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    a = T.alloc_buffer((T.int64(128), T.int64(32)), "uint8", scope="shared", layout=ComposeLayout(SwizzleLayout(4, 1, 3), TileLayout(S[(128, 32)])))
    b = T.alloc_buffer((T.int64(128), T.int64(32)), "uint8", scope="shared", layout=ComposeLayout(SwizzleLayout(4, 1, 3), TileLayout(S[(128, 32)])))
    sfa = T.alloc_buffer((T.int64(128), T.int64(4)), "float8_e4m3fn", scope="shared", layout=TileLayout(S[(1, 4, 32, 1, 4) : (512, 4, 16, 512, 1)]))
    sfb = T.alloc_buffer((T.int64(128), T.int64(4)), "float8_e4m3fn", scope="shared", layout=TileLayout(S[(1, 4, 32, 1, 4) : (512, 4, 16, 512, 1)]))
    d = T.alloc_buffer((T.int64(128), T.int64(128)), "float32", scope="tmem", layout=TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)]))
    r = T.alloc_buffer((T.int64(128), T.int64(128)), "float32", scope="local", layout=TileLayout(S[(4, 2, 2, 8, 16, 4, 2) : (1 @ warpid, 64, 2, 4 @ laneid, 4, 1 @ laneid, 1)]))
    bar = T.alloc_buffer((T.int64(1),), "uint64", scope="shared")
    if tx == 0:
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), T.uint32(1))
        T.ptx.fence.mbarrier_init.release.cluster()
    for A_s in T.serial(32):
        a[(A_s * 128 + tx) // 32, (A_s * 128 + tx) % 32] = A[(A_s * 128 + tx) // 32, (A_s * 128 + tx) % 32]
    for B_s in T.serial(32):
        b[(B_s * 128 + tx) // 32, (B_s * 128 + tx) % 32] = B[(B_s * 128 + tx) // 32, (B_s * 128 + tx) % 32]
    for P_s in T.serial(4):
        sfa[(P_s * 128 + tx) // 4, (P_s * 128 + tx) % 4] = P[(P_s * 128 + tx) // 4, (P_s * 128 + tx) % 4]
    for Q_s in T.serial(4):
        sfb[(Q_s * 128 + tx) // 4, (Q_s * 128 + tx) % 4] = Q[(Q_s * 128 + tx) // 4, (Q_s * 128 + tx) % 4]
    T.ptx.fence.proxy.async_.shared__cta()
    T.cuda.cta_sync()
    Tx.cta.gemm(d, a, b, mbar=bar.ptr_to([0]), sfa=sfa, sfb=sfb, transpose_B=True, dispatch="tcgen05_block_scale")
    T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
    T.cuda.cta_sync()
    Tx.cta.copy(r, d)
    for D_x in T.unroll(4):
        for D_y in T.unroll(32):
            D[tx // 32 * 32 + (D_x // 2 * 16 + (D_x % 2 * 8 + tx % 32 // 4)), D_y // 2 * 8 + (tx % 32 % 4 * 2 + D_y % 2)] = r[tx // 32 * 32 + (D_x // 2 * 16 + (D_x % 2 * 8 + tx % 32 // 4)), D_y // 2 * 8 + (tx % 32 % 4 * 2 + D_y % 2)]
