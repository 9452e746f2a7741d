# Indices of all kinds, control flow, lets, partial regions.
from tvm.tirx.layout import S, TileLayout, laneid, warpid

N = 64
half = slice(0, 32)

@T.prim_func
def threads(x: T.handle, y: T.handle, scale: T.float32):
    A = T.match_buffer(x, (2, N), "float32")
    B = T.match_buffer(y, (2, 2 * N), "float32")
    T.func_attr({"note": "kept"})
    T.device_entry()
    bx, by = T.cta_id([2, 3])
    tx = T.thread_id([256])
    wg = T.warpgroup_id([2])
    warp = T.warp_id([8])
    lane = T.lane_id([32])
    S0 = T.alloc_shared((2, N), "float32", layout=TileLayout(S[(2, 64) : (64, 1)]))
    L = T.alloc_local((4,), "float32")
    W = T.alloc_buffer((8, 32), "float32", scope="local", layout=TileLayout(S[(8, 32) : (1 @ warpid, 1 @ laneid)]))
    base = bx * 8
    alpha: T.float32 = scale * 2.0
    for i, j in T.grid(2, 2):
        L[2 * i + j] = T.float32(i) + alpha
    for k in T.serial(1, 4, annotations={"pragma_auto_unroll_max_step": 4}):
        L[k] += L[k - 1]
    if wg == 0 and lane < 16:
        Tx.warp.copy(S0[by % 2, half], A[bx, 32:N])
    elif tx == 200:
        S0[0, lane] = T.if_then_else(lane > 3, L[0], A[0, warp])
    else:
        pass
    T.cuda.warpgroup_sync(8 + 1)
    T.cuda.warp_sync()
    for q in T.unroll(4):
        Tx.add(L[q:q + 1], L[q:q + 1], alpha)
        Tx.fma(L[q:q + 1], L[q:q + 1], A[0, q + base], 2)
    Tx.cta.fill(W, 1.5)
    Tx.cta.max(S0[0, 0:1], S0[1, :], axes=1, accum=True, dispatch="shared")
    Tx.cta.copy(B[0, base:base + 32], S0[1, half], cache="streaming", valid=tx < 7, vec=[1, 2])
