//! Bugs of the protocol of tensor memory, each sown into a right kernel: every order of threads finds it. The kernels
//! without them are accused of nothing.

use crate::codegen_programs::*;
use crate::intrinsic_programs::*;
use daylight::interp::{Scalars, Tensor};
use daylight::ir::DType;
use daylight::ir::instr::{CtaGroup, Instr, Tcgen05};
use daylight::ir::kernel::*;
use daylight::lower::verify_program;
use daylight::sim::{self, SimOptions};

const PRODUCT: &str = "tcgen05_mma.m128n16k16";
const LOAD: &str = "tcgen05_load.x2";

pub fn run(case: &Case, seed: u64) -> Result<Tensor, String> {
    let mut args = case.args();
    let options = SimOptions { seed, ..SimOptions::default() };
    sim::run(&case.program, &mut args, &Scalars::new(), &options).map_err(|e| e.to_string())?;
    Ok(args.pop().expect("an output"))
}

/// The right kernel, changed.
fn changed(change: impl FnOnce(&mut Vec<KStmt>)) -> Case {
    let mut case = tensor_product(DType::F16, 16);
    change(&mut case.program.launches[0].kernel.body);
    case
}

/// A statement of the kernel, or of a condition or loop in it, that begins so; what `change` makes of its list.
pub fn at_statement(body: &mut Vec<KStmt>, head: &str, change: &mut dyn FnMut(&mut Vec<KStmt>, usize)) -> bool {
    let leaf = |s: &KStmt| !matches!(s, KStmt::If { .. } | KStmt::For { .. });
    if let Some(at) = body.iter().position(|s| leaf(s) && s.head().contains(head)) {
        change(body, at);
        return true;
    }
    body.iter_mut().any(|s| match s {
        KStmt::If { then: inside, .. } | KStmt::For { body: inside, .. } => at_statement(inside, head, change),
        _ => false,
    })
}

/// Others in place of the statement that begins so.
pub fn in_place(body: &mut Vec<KStmt>, head: &str, with: impl Fn(&KStmt) -> Vec<KStmt>) {
    let done = at_statement(body, head, &mut |list, at| {
        let old = list.remove(at);
        list.splice(at..at, with(&old));
    });
    assert!(done, "no `{head}`");
}

/// What the thread does that issues products.
fn of_first_thread(body: &[KStmt]) -> Vec<KStmt> {
    let multiplies = |s: &KStmt| match s {
        KStmt::If { then, .. } if then.iter().any(|s| s.head().contains(PRODUCT)) => Some(then.clone()),
        _ => None,
    };
    body.iter().find_map(multiplies).expect("a product")
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

pub fn clean(case: &Case) {
    verify_program(&case.program, &target_of(100)).unwrap_or_else(|e| panic!("{e}"));
    for seed in 0..3 {
        case.check(&run(case, seed).unwrap_or_else(|e| panic!("{e}")));
    }
}

fn tensor(op: Tcgen05, places: &[daylight::ir::instr::At]) -> KStmt {
    does(Instr::new(op, places, []))
}

#[test]
fn right_kernels_of_tensor_memory_give_the_results_of_plain_arithmetic() {
    tensor_cases().iter().for_each(clean);
    clean(&tensor_int8());
    pair_cases().iter().for_each(clean);
}

#[test]
fn other_targets_have_no_tensor_memory() {
    for sm in [90, 120] {
        let why = verify_program(&tensor_product(DType::F16, 16).program, &target_of(sm)).expect_err("a refusal");
        let why = why.to_string();
        assert!(why.contains("has no tensor memory") || why.contains("compute capability 100"), "{why}");
    }
}

#[test]
fn only_instructions_access_tensor_memory() {
    let case = changed(|body| body.push(store("d", t(), ldt("r", c(0), DType::F32))));
    let why = verify_program(&case.program, &target_of(100)).expect_err("a store").to_string();
    assert!(why.contains("only instructions access tensor memory"), "{why}");
}

#[test]
fn columns_are_given_back() {
    found(&without("tcgen05_dealloc"), &["tcgen05_alloc", "the block ends with 32 columns not given back"]);
    let twice = tensor(Tcgen05::Dealloc { columns: 32, group: CtaGroup::One }, &[at("d", c(0))]);
    found(&after("tcgen05_dealloc", &twice), &["`d` is used in columns that the block has not taken"]);
}

#[test]
fn columns_are_taken_and_found_before_they_are_used() {
    found(&without("tcgen05_find"), &[PRODUCT, "`d` is used before the thread has found its columns"]);
    found(&without("tcgen05_alloc"), &["tcgen05_find", "read of `word[0]`"]);
    let again = tensor(Tcgen05::Alloc { columns: 32, group: CtaGroup::One }, &[at("word", c(0))]);
    found(&after("tcgen05_relinquish", &again), &["takes columns after it said that it takes no more"]);
    let case = changed(|body| {
        at_statement(body, "tcgen05_alloc", &mut |list, at| {
            let all = tensor(
                Tcgen05::Alloc { columns: 512, group: CtaGroup::One },
                &[crate::intrinsic_programs::at("word", c(0))],
            );
            list.insert(at, all);
        });
    });
    found(&case, &["32 columns are taken where 512 of 512 are"]);
}

#[test]
fn what_threads_store_needs_a_fence_of_the_asynchronous_proxy() {
    found(&without("async_fence"), &[PRODUCT, "asynchronous read of `a[", "no asynchronous fence after it"]);
}

#[test]
fn columns_are_found_behind_a_barrier() {
    found(&without("barrier block"), &["word[0]"]);
}

#[test]
fn sums_are_not_read_before_their_barrier() {
    found(&without("mbarrier_wait"), &[LOAD]);
}

#[test]
fn products_are_committed() {
    found(&without("tcgen05_commit"), &["deadlock", "`bar[0]` still lacks 1 arrivals"]);
    let mut case = again(true, true, false);
    let body = &mut case.program.launches[0].kernel.body;
    body.remove(body.iter().rposition(|s| s.head().contains("mbarrier_wait")).expect("a wait"));
    found(&case, &["tcgen05_dealloc", "nothing orders this write of `d[0]`", "the matrix instruction of warpgroup 0"]);
}

#[test]
fn a_fence_stands_after_the_barrier() {
    // the first one is of the thread that issues products, which orders its own
    let case = changed(|body| {
        let at = body.iter().position(|s| s.head().contains("tcgen05_fence_after")).expect("a fence");
        body.remove(at);
    });
    found(&case, &[LOAD, "no fence after the barrier stands before this access to `d`"]);
}

#[test]
fn registers_of_loads_are_waited_for() {
    found(&without("tcgen05_wait_loads"), &["at `p2[", "access to `r[", "which an unfinished matrix instruction uses"]);
}

#[test]
fn a_warp_reads_its_own_lanes() {
    let case = changed(|body| {
        at_statement(body, LOAD, &mut |list, at| {
            let to = crate::intrinsic_programs::at("r", c(0));
            let from = crate::intrinsic_programs::at("d", c(0));
            list[at] = tensor(Tcgen05::Load { count: 2 }, &[to, from]);
        });
    });
    found(&case, &[LOAD, "a warp begins at lane 0; this one reaches lanes"]);
}

/// The right kernel whose sums start from what threads store, changed.
fn started(change: impl FnOnce(&mut Vec<KStmt>)) -> Case {
    let mut case = started_product(DType::F16, 16);
    change(&mut case.program.launches[0].kernel.body);
    case
}

fn started_without(head: &str) -> Case {
    started(|body| assert!(at_statement(body, head, &mut |list, at| drop(list.remove(at))), "no `{head}`"))
}

#[test]
fn stores_are_waited_for() {
    clean(&started(|_| ()));
    let early = ["`d[0]` is used before the warp has waited for its store"];
    found(&started_without("tcgen05_wait_stores"), &[&[PRODUCT], &early[..]].concat());
    // nor are they read by the warp that stored them, nor stored again
    for again in [
        tensor(Tcgen05::Load { count: 2 }, &[at("r", c(0)), at("d", div(t(), 32) * c(32))]),
        tensor(Tcgen05::Store { count: 2 }, &[at("d", div(t(), 32) * c(32)), at("r", c(0))]),
    ] {
        let case = started(|body| {
            at_statement(body, "tcgen05_store", &mut |list, at| list.insert(at + 1, again.clone()));
        });
        found(&case, &["is used before the warp has waited for its store"]);
    }
    let left = changed(|body| {
        let last = tensor(Tcgen05::Store { count: 2 }, &[at("d", div(t(), 32) * c(32)), at("r", c(0))]);
        at_statement(body, "tcgen05_wait_loads", &mut |list, at| list.insert(at + 1, last.clone()));
    });
    found(&left, &["tcgen05_dealloc", "is used before the warp has waited for its store"]);
}

#[test]
fn stores_are_known_to_the_thread_that_multiplies() {
    let fenced = started(|body| {
        // the first one stands after the stores
        assert!(at_statement(body, "tcgen05_fence_before", &mut |list, at| drop(list.remove(at))));
    });
    found(&fenced, &[PRODUCT, "no fence before the barrier stands after the access to `d`"]);
    let after = started(|body| {
        assert!(at_statement(body, "tcgen05_fence_after", &mut |list, at| drop(list.remove(at))));
    });
    found(&after, &["no fence after the barrier stands before this access to `d`"]);
    let barrier = started(|body| {
        let at = body.iter().position(|s| s.head().contains("tcgen05_fence_before")).expect("a fence");
        assert!(body.remove(at + 1).head().contains("barrier block"));
    });
    for seed in 0..6 {
        run(&barrier, seed).expect_err("a product before all have stored");
    }
}

#[test]
fn a_warp_stores_to_its_own_lanes() {
    let case = started(|body| {
        at_statement(body, "tcgen05_store", &mut |list, n| {
            list[n] = tensor(Tcgen05::Store { count: 2 }, &[at("d", c(0)), at("r", c(0))]);
        });
    });
    found(&case, &["tcgen05_store.x2", "a warp begins at lane 0; this one reaches lanes"]);
}

#[test]
fn operands_are_not_overwritten_before_the_barrier() {
    let write = store("a", t() * c(2), ldt("p0", t(), DType::F16));
    let both = ["nothing orders this write of `a[0]`", "the read by the matrix instruction of warpgroup 0", PRODUCT];
    found(&after("tcgen05_commit", &write), &both);
    clean(&after("mbarrier_wait", &write));
}

/// The kernel that multiplies once more into the same sums, after an arrival of each thread that has read them.
fn again(fence_before: bool, fence_after: bool, arrive_late: bool) -> Case {
    use daylight::ir::instr::Sync;
    let mut case = changed(|body| {
        let product = of_first_thread(body);
        let other = || at("read", c(0));
        let init = does(Instr::new(Sync::MbarrierInit { arrivals: 128 }, [other()], []));
        at_statement(body, "mbarrier_init", &mut |list, at| list.insert(at, init.clone()));
        let wait = does(Instr::new(Sync::MbarrierWait, [other()], [c(0)]));
        let mut more = vec![wait];
        more.extend(product.into_iter().filter(|s| fence_after || !s.head().contains("fence_after")));
        let last = body.iter().position(|s| s.head().contains("tcgen05_fence_before")).expect("a fence");
        let arrive = does(Instr::new(Sync::MbarrierArrive, [other()], []));
        let all = does(Instr::new(Sync::MbarrierWait, [bar()], [c(1)]));
        body.splice(last + 1..last + 1, [arrive.clone(), first(more), all]);
        if !fence_before {
            body.remove(last);
        }
        if arrive_late {
            let at = body.iter().position(|s| s.head().contains("mbarrier_arrive")).expect("an arrival");
            let arrive = body.remove(at);
            let wait = body.iter().position(|s| s.head().contains("tcgen05_wait_loads")).expect("a wait");
            body.insert(wait, arrive);
        }
    });
    case.program.launches[0].kernel.arrays.push(shared("read", DType::U64, 1));
    case
}

#[test]
fn sums_are_overwritten_when_all_have_read_them() {
    clean(&again(true, true, false));
    found(&again(false, true, false), &[PRODUCT, "no fence before the barrier stands after the access to `d`"]);
    found(&again(true, false, false), &[PRODUCT, "no fence after the barrier stands before this access to `d`"]);
    let early = again(true, true, true);
    for seed in 0..6 {
        run(&early, seed).expect_err("an arrival before the loads are there");
    }
}
