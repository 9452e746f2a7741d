//! Products of numbers with scales of blocks in tensor memory: right kernels give the results of plain arithmetic, and bugs of
//! the protocol of scales, each sown into one, are found in every order of threads.

use crate::codegen_programs::*;
use crate::intrinsic_programs::*;
use crate::sim_tcgen05::{at_statement, clean, in_place, run};
use daylight::ir::DType;
use daylight::ir::instr::{BlockScaleMma, CtaGroup, Instr, Tcgen05};
use daylight::ir::kernel::*;

const PRODUCT: &str = "tcgen05_mma.m128n16k32.e4m3.e4m3";
const COPY: &str = "tcgen05_copy_scales sfa[";

/// The right kernel, changed.
fn changed(change: impl FnOnce(&mut Vec<KStmt>)) -> Case {
    changed_of(CtaGroup::One, change)
}

/// The same of a block or a pair.
fn changed_of(group: CtaGroup, change: impl FnOnce(&mut Vec<KStmt>)) -> Case {
    let mut case = scaled_product(BlockScaleMma::Mxf8 { a: DType::E4M3, b: DType::E4M3 }, 16, group);
    change(&mut case.program.launches[0].kernel.body);
    case
}

fn without(head: &str) -> Case {
    changed(|body| assert!(at_statement(body, head, &mut |list, at| drop(list.remove(at))), "no `{head}`"))
}

fn after(head: &str, more: &KStmt) -> Case {
    changed(|body| assert!(at_statement(body, head, &mut |list, at| list.insert(at + 1, more.clone())), "no `{head}`"))
}

/// Every seed finds this, and names these.
fn found(case: &Case, says: &[&str]) {
    for seed in 0..6 {
        let text = run(case, seed).expect_err("a bug that nothing finds");
        assert!(says.iter().all(|s| text.contains(s)), "seed {seed}: {text}\nexpected {says:?}");
    }
}

/// A copy to the scales of A.
fn copy() -> KStmt {
    does(Instr::new(Tcgen05::CopyScales { group: CtaGroup::One }, [at("sfa", c(0)), at("sa", c(0))], []))
}

#[test]
fn products_of_every_format_are_those_of_plain_arithmetic() {
    scaled_cases().iter().for_each(clean);
    scaled_pair_cases().iter().for_each(clean);
}

/// Of a pair, with something in place of a statement that begins so.
fn pair_in_place(head: &str, of: impl Fn(&KStmt) -> Vec<KStmt>) -> Case {
    changed_of(CtaGroup::Pair, |body| in_place(body, head, of))
}

/// Each block of a pair has the scales of its rows, and of all columns, in its own tensor memory.
#[test]
fn scales_are_copied_in_both_blocks_of_a_pair() {
    let alone = |s: &KStmt| {
        let KStmt::Instr(i) = s else { panic!("no instruction") };
        vec![does(Instr::new(Tcgen05::CopyScales { group: CtaGroup::One }, i.places.clone(), []))]
    };
    for head in ["tcgen05_copy_scales.pair sfa[", "tcgen05_copy_scales.pair sfb["] {
        let name = if head.contains("sfa") { "read of `sfa[0]`" } else { "read of `sfb[0]`" };
        let product = "tcgen05_mma.m256n16k32.e4m3.e4m3";
        found(&pair_in_place(head, alone), &[product, name]);
        found(&pair_in_place(head, |_| vec![]), &[product, name]);
    }
}

#[test]
fn scales_of_the_second_block_are_in_shared_memory_before_they_are_copied() {
    let of_first = |s: &KStmt| vec![if_(eq(v("blockIdx.x"), 0), vec![s.clone()])];
    found(
        &pair_in_place("async_fence", of_first),
        &["tcgen05_copy_scales", "asynchronous read of `sa[", "no asynchronous fence after it"],
    );
    // the second meeting, after which products are issued, is of those that know what was stored
    let unknown = changed_of(CtaGroup::Pair, |body| {
        let releases = |s: &KStmt| matches!(s, KStmt::Barrier(Barrier::ClusterArrive { release: true }));
        let at = (0..body.len()).filter(|i| releases(&body[*i])).nth(1).expect("a meeting");
        body[at] = KStmt::Barrier(Barrier::ClusterArrive { release: false });
    });
    found(&unknown, &["the other block of the pair is known to have taken its columns"]);
}

#[test]
fn scales_of_the_second_block_are_not_overwritten_before_the_barrier() {
    let write = store("sa", t(), ldt("p2", t(), DType::E8M0));
    let early = pair_in_place("mbarrier_wait", |s| vec![if_(eq(v("blockIdx.x"), 1), vec![write.clone()]), s.clone()]);
    // either before it is read, without a fence, or after that
    found(&early, &["`sa["]);
    let late = pair_in_place("mbarrier_wait", |s| vec![s.clone(), if_(eq(v("blockIdx.x"), 1), vec![write.clone()])]);
    clean(&late);
}

#[test]
fn scales_are_copied_before_the_product() {
    found(&without(COPY), &[PRODUCT, "read of `sfa[0]`"]);
    let late = changed(|body| {
        at_statement(body, COPY, &mut |list, at| drop(list.remove(at)));
        at_statement(body, "tcgen05_commit", &mut |list, at| list.insert(at, copy()));
    });
    found(&late, &[PRODUCT, "read of `sfa[0]`"]);
}

#[test]
fn scales_are_not_overwritten_before_a_barrier_says_that_they_were_read() {
    let both =
        ["tcgen05_copy_scales", "nothing orders this write of `sfa[0]`", "the matrix instruction of warpgroup 0"];
    found(&after("tcgen05_commit", &copy()), &both);
    // the thread that has waited may, and what it copies is waited for by nobody until the columns are given back
    let again = after("tcgen05_wait_loads", &first(vec![copy()]));
    found(&again, &["tcgen05_dealloc", "nothing orders this write of `sfa[0]`"]);
}

#[test]
fn what_threads_store_needs_a_fence_of_the_asynchronous_proxy() {
    found(
        &without("async_fence"),
        &["tcgen05_copy_scales", "asynchronous read of `sa[", "no asynchronous fence after it"],
    );
}

#[test]
fn scales_in_shared_memory_are_not_overwritten_before_the_barrier() {
    let write = store("sa", t(), ldt("p2", t(), DType::E8M0));
    let both = ["nothing orders this write of `sa[0]`", "the read by the matrix instruction of warpgroup 0"];
    found(&after("tcgen05_commit", &write), &both);
    clean(&after("mbarrier_wait", &write));
}

#[test]
fn columns_of_scales_are_whole() {
    let group = CtaGroup::One;
    let part = does(Instr::new(Tcgen05::CopyScales { group }, [at("sfa", c(32)), at("sa", c(0))], []));
    found(&after("tcgen05_fence_after", &part), &["tcgen05_copy_scales", "at lane 32, not at the first"]);
}
