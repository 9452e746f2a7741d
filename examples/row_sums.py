# A tile program: each of four warps sums rows of 256 numbers, held by its lanes in eight registers each.
# Try `daylight explain examples/row_sums.py --target cuda:sm_90a --emit decisions`.
from tvm.script import tirx as T
from tvm.script import tirx as Tx
from tvm.tirx.layout import S, R, TileLayout, laneid

held = TileLayout(S[(32, 8) : (1 @ laneid, 1)])
shared_by_lanes = TileLayout(S[(1,) : (1,)] + R[32 : 1 @ laneid])


@T.prim_func
def row_sums(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (256, 32, 8), "float32")
    B = T.match_buffer(B_ptr, (256,), "float32")
    T.device_entry()
    bx = T.cta_id([16])
    T.thread_id([128])
    warp = T.warp_id([4])
    lane = T.lane_id([32])
    numbers = T.alloc_buffer((32, 8), "float32", scope="local", layout=held)
    total = T.alloc_buffer((1,), "float32", scope="local", layout=shared_by_lanes)
    for i in T.serial(4):
        row = bx * 16 + warp * 4 + i
        Tx.warp.copy(numbers, A[row, 0:32, 0:8])
        Tx.warp.sum(total, numbers, axes=(0, 1))
        if lane == 0:
            B[row] = total[0]
