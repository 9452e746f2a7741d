# Asynchronous copies of four parts of a row into shared memory, all but the last where the scalar is positive.
@T.prim_func
def pipeline(x: T.handle, y: T.handle, n: T.int32):
    A = T.match_buffer(x, (4, 64), "float32")
    B = T.match_buffer(y, (4, 64), "float32")
    T.device_entry(); T.cta_id([1]); tx = T.thread_id([32])
    parts = T.alloc_buffer((4, 64), "float32", scope="shared")
    for i in T.serial(4):
        Tx.cta.copy_async(parts[i, 0:64], A[i, 0:64], predicate=(i < 3 or n > 0), fill_mode="zero")
        T.ptx.cp_async.commit_group()
    T.ptx.cp_async.wait_group(0)
    T.cuda.cta_sync()
    Tx.cta.copy(B, parts)
