# from tvm.script import tirx as T
# from tvm.script import tirx as Tx

@T.prim_func
def bulk_rows(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (6, 72), "float32")
    B = T.match_buffer(B_ptr, (6, 72), "float32")
    T.device_entry()
    T.cta_id([1])
    tid = T.thread_id([64])
    M = T.alloc_buffer((6, 64), "float32", scope="shared")
    bar = T.alloc_buffer((1,), "uint64", scope="shared")
    if tid == 0:
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), T.uint32(1))
        T.ptx.fence.mbarrier_init.release.cluster()
    T.cuda.cta_sync()
    if tid == 0:
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(bar.ptr_to([0]), T.uint32(1536))
    Tx.cta.copy_async(M, A[0:6, 8:72], mbar=bar.ptr_to([0]), dispatch="bulk")
    T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
    T.ptx.fence.proxy.async_.shared__cta()
    T.cuda.cta_sync()
    Tx.cta.copy_async(B[0:6, 8:72], M, dispatch="bulk")
    T.ptx.cp.async_.bulk.commit_group()
    T.ptx.cp.async_.bulk.wait_group(0)
    Tx.cta.copy(B[0:6, 0:8], A[0:6, 0:8])
