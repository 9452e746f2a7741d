# A warp squares an 8x8 tile in registers; each row is held by four lanes, and all of them store it.
from tvm.tirx.layout import R, S, TileLayout, laneid

r_layout = TileLayout(S[(8, 8) : (1 @ laneid, 1)] + R[4 : 8 @ laneid]); fs = (slice(0, 8), slice(0, 8))

@T.prim_func
def replicas(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (8, 8), "float32"); B = T.match_buffer(B_ptr, (8, 8), "float32")
    T.device_entry(); T.cta_id([1]); T.lane_id([32]); tid = T.thread_id([32])
    Q = T.alloc_buffer((8, 8), "float32", scope="local", layout=r_layout)
    Tx.warp.copy(Q[fs], A[fs])
    Tx.warp.mul(Q[fs], Q[fs], Q[fs])
    Tx.warp.copy(B[fs], Q[fs])
