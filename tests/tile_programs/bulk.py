# Row sums: each block brings four rows at a time into one of two stages in bulk, one step ahead, and stores its sums in bulk.
@T.prim_func
def bulk(x: T.handle, y: T.handle):
    A = T.match_buffer(x, (32, 64), "float32")
    B = T.match_buffer(y, (32,), "float32")
    T.device_entry(); bx = T.cta_id([2]); tx = T.thread_id([64])
    rows = T.alloc_buffer((2, 4, 64), "float32", scope="shared")
    sums = T.alloc_buffer((16,), "float32", scope="shared")
    bar = T.alloc_shared((2,), "uint64")
    if tx == 0:
        T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.mbarrier.init(bar.ptr_to([1]), 1)
        T.ptx.fence.mbarrier_init()
    T.cuda.cta_sync()
    if tx == 0:
        T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 1024)
        Tx.copy_async(rows[0, 0:4, 0:64], A[bx * 16:bx * 16 + 4, 0:64], mbar=bar.ptr_to([0]), dispatch="bulk")
    for i in T.serial(4):
        if tx == 0 and i < 3:
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([(i + 1) % 2]), 1024)
            Tx.copy_async(rows[(i + 1) % 2, 0:4, 0:64], A[bx * 16 + i * 4 + 4:bx * 16 + i * 4 + 8, 0:64], mbar=bar.ptr_to([(i + 1) % 2]), dispatch="bulk")
        T.ptx.mbarrier.try_wait(bar.ptr_to([i % 2]), i // 2 % 2)
        Tx.cta.sum(sums[i * 4:i * 4 + 4], rows[i % 2, 0:4, 0:64], axes=(-1,))
        T.cuda.cta_sync()
    T.ptx.fence.proxy_async("shared::cta")
    T.cuda.cta_sync()
    if tx == 0:
        Tx.copy_async(B[bx * 16:bx * 16 + 16], sums, dispatch="bulk")
        T.ptx.cp_async.bulk.commit_group()
        T.ptx.cp_async.bulk.wait_group(0)
