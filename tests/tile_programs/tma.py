# Boxes of a matrix whose last ones end beyond it, doubled on their way through swizzled shared memory.
from tvm.tirx.layout import SwizzleLayout

@T.prim_func
def tma(x: T.handle, y: T.handle):
    A = T.match_buffer(x, (50, 96), "float16")
    B = T.match_buffer(y, (50, 96), "float16")
    T.device_entry(); bx, by = T.cta_id([2, 4]); tx = T.thread_id([128])
    box = T.alloc_buffer((16, 64), "float16", scope="shared", layout=SwizzleLayout(3, 3, 3))
    bar = T.alloc_buffer((1,), "uint64", scope="shared")
    if tx == 0:
        T.ptx.mbarrier.init(bar.ptr_to([0]), 2)
        T.ptx.fence.mbarrier_init()
    T.cuda.cta_sync()
    if tx == 0:
        T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 2048)
        Tx.copy_async(box, A[by * 16:by * 16 + 16, bx * 64:bx * 64 + 64], mbar=bar[0], dispatch="tma")
    if tx == 1:
        T.ptx.mbarrier.arrive(bar.ptr_to([0]))
    T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
    Tx.cta.add(box, box, box)
    T.ptx.fence.proxy_async("shared::cta")
    T.cuda.cta_sync()
    if tx == 0:
        Tx.copy_async(B[by * 16:by * 16 + 16, bx * 64:bx * 64 + 64], box, dispatch="tma")
        T.ptx.cp_async.bulk.commit_group()
        T.ptx.cp_async.bulk.wait_group(0, read=True)
        T.ptx.cp_async.bulk.wait_group(0)
