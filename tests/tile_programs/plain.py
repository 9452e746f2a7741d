# Loads and stores only: two blocks of threads scale and shift rows through registers and shared memory.
from tvm.tirx.layout import S, TileLayout, laneid

@T.prim_func
def plain(x: T.handle, y: T.handle, scale: T.float32):
    A = T.match_buffer(x, (2, 64, 4), "float32")
    B = T.match_buffer(y, (2, 64, 4), "float32", layout=TileLayout(S[(2, 64, 4) : (256, 1, 64)]))
    T.device_entry()
    bx = T.cta_id([2])
    tx = T.thread_id([64])
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    rows = T.alloc_shared((64, 4), "float32", layout=TileLayout(S[(64, 4) : (5, 1)]))
    own = T.alloc_local((4,), "float32")
    held = T.alloc_buffer((32, 2), "float32", scope="local", layout=TileLayout(S[(32, 2) : (1 @ laneid, 1)]))
    for i in T.serial(4):
        own[i] = A[bx, tx, i] * scale
        rows[tx, i] = own[i]
    T.cuda.cta_sync()
    for i in T.serial(2):
        held[lane, i] = rows[63 - tx, i + 2]
    other: T.float32 = rows[63 - tx, 0]
    if warp == 0:
        B[bx, tx, 0] = other
    else:
        B[bx, tx, 0] = own[0]
    if bx == 1:
        B[bx, tx, 1] = T.max(held[lane, 0], held[lane, 1])
