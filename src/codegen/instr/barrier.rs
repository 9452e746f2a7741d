//! Barriers in shared memory, and questions for blocks that have not started, whose answers they count.

use super::{helper, order, ordered, shared};
use crate::codegen::prelude::Prelude;
use crate::ir::instr::Op;

/// An instruction on a barrier and perhaps a number `n`.
fn on_barrier(p: &mut Prelude, name: &str, param: &str, ptx: &str) -> String {
    let address = shared(p);
    let input = if param.is_empty() { "" } else { ", \"r\"(n)" };
    let body = ordered(ptx, "", &format!("\"r\"({address}(b)){input}"));
    helper(p, &format!("dl_mbarrier_{name}"), &format!("void* b{param}"), &body)
}

pub(super) fn init(p: &mut Prelude) -> String {
    on_barrier(p, "init", ", unsigned n", "mbarrier.init.shared.b64 [%0], %1;")
}

pub(super) fn arrive(p: &mut Prelude) -> String {
    on_barrier(p, "arrive", "", "{.reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];}")
}

/// Without `.release.cluster`, which waits until all stores of the thread are in the L2: what a thread that arrives at a
/// peer has read, it has waited for.
pub(super) fn peer_arrive(p: &mut Prelude) -> String {
    let ptx = "{.reg .b32 a; mapa.shared::cluster.u32 a, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [a];}";
    on_barrier(p, "arrive_at_peer", ", unsigned n", ptx)
}

pub(super) fn cp_async_arrive(p: &mut Prelude) -> String {
    on_barrier(p, "cp_async_arrive", "", "cp.async.mbarrier.arrive.noinc.shared.b64 [%0];")
}

pub(super) fn expect(p: &mut Prelude) -> String {
    let ptx = "{.reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;}";
    on_barrier(p, "expect", ", unsigned n", ptx)
}

/// Below sm_90 threads can only ask again and again.
pub(super) fn wait(p: &mut Prelude) -> String {
    let address = shared(p);
    p.add("dl_mbarrier_wait", |_| {
        let ask = |wait: &str| {
            format!(
                "  do asm volatile(\"{{.reg .pred p; mbarrier.{wait}.parity.shared.b64 p, [%1], %2; \
                 selp.u32 %0, 1, 0, p;}}\" : \"=r\"(done) : \"r\"(a), \"r\"(parity) : \"memory\");\n  while (!done);\n"
            )
        };
        format!(
            "static __device__ __forceinline__ void dl_mbarrier_wait(void* b, unsigned parity) {{\n\
             \x20 unsigned a = {address}(b), done;\n\
             #if __CUDA_ARCH__ >= 900\n{}#else\n{}#endif\n}}",
            ask("try_wait"),
            ask("test_wait")
        )
    })
}

/// Asks for a block that has not started.
pub(super) fn try_cancel(p: &mut Prelude, all: bool) -> String {
    let address = shared(p);
    let (suffix, to) = if all { ("_for_all", ".multicast::cluster::all") } else { ("", "") };
    let ptx =
        format!("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{to}.b128 [%0], [%1];");
    let body = ordered(&ptx, "", &format!("\"r\"({address}(answer)), \"r\"({address}(b))"));
    helper(p, &format!("dl_try_cancel{suffix}"), "void* answer, void* b", &body)
}

/// What was answered.
pub(super) fn query_cancel(p: &mut Prelude) -> String {
    let address = shared(p);
    let query = "clusterlaunchcontrol.query_cancel";
    let ptx = format!(
        "{{.reg .pred p; .reg .b128 a; ld.shared.b128 a, [%1]; {query}.is_canceled.pred.b128 p, a; mov.b32 %0, -1; \
         @p {query}.get_first_ctaid::x.b32.b128 %0, a;}}"
    );
    let body = ordered(&ptx, "\"=r\"(*first)", &format!("\"r\"({address}(answer))"));
    helper(p, "dl_query_cancel", "int* first, const void* answer", &body)
}

/// A block arrives where others do. A counter that holds something else first becomes one where none has arrived: whoever
/// is not first to change it finds that another one was. The fence orders what other threads of the block did before a
/// barrier as well (causality order is transitive: PTX ISA, memory consistency model). It is one of acquire and release, since
/// `__threadfence` is sequentially consistent, which takes longer.
pub(super) fn last_block(p: &mut Prelude) -> String {
    let first = Op::FIRST_ARRIVAL;
    let load = ordered("ld.relaxed.gpu.global.u64 %0, [%1];", "\"=l\"(seen)", "\"l\"(arrivals)");
    let add = ordered("atom.add.acquire.gpu.global.u64 %0, [%1], 1;", "\"=l\"(before)", "\"l\"(arrivals)");
    let reset = ordered("st.relaxed.gpu.global.u64 [%0], %1;", "", "\"l\"(arrivals), \"l\"(first)");
    let fence = order("fence.acq_rel.gpu;");
    let body = format!(
        "const unsigned long long first = 0x{first:x}ull; unsigned long long seen, before; {load} {fence} \
         if (seen - first >= of) atomicCAS(arrivals, seen, first); {add} \
         const bool all = before == first + (of - 1); if (all) {reset} *last = all;"
    );
    helper(p, "dl_last_block", "int* last, unsigned long long* arrivals, unsigned of", &body)
}
