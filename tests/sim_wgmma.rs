//! Bugs of the protocol of products by warpgroups, each sown into a right kernel: every order of threads finds
//! it. The kernels without them are accused of nothing.

use crate::codegen_programs::*;
use crate::intrinsic_programs::*;
use daylight::interp::{Scalars, Tensor};
use daylight::ir::DType;
use daylight::ir::instr::{Instr, Sync};
use daylight::ir::kernel::*;
use daylight::lower::verify_program;
use daylight::sim::{self, SimOptions};

const PRODUCT: &str = "wgmma.m64n8k16";

fn run(case: &Case, seed: u64) -> Result<Tensor, String> {
    let mut args = case.args();
    let options = SimOptions { seed, ..SimOptions::default() };
    sim::run(&case.program, &mut args, &Scalars::new(), &options).map_err(|e| e.to_string())?;
    Ok(args.pop().expect("an output"))
}

/// The right kernel, changed.
fn changed(change: impl FnOnce(&mut Vec<KStmt>)) -> Case {
    let mut case = wgmma(DType::F16, 8);
    change(&mut case.program.launches[0].kernel.body);
    case
}

fn position(body: &[KStmt], head: &str) -> usize {
    body.iter().position(|s| s.head().contains(head)).unwrap_or_else(|| panic!("no `{head}`"))
}

fn without(head: &str) -> Case {
    changed(|body| drop(body.remove(position(body, head))))
}

/// Every seed finds this, and names these.
fn found(case: &Case, says: &[&str]) {
    for seed in 0..6 {
        let text = run(case, seed).expect_err("a bug that nothing finds");
        assert!(says.iter().all(|s| text.contains(s)), "seed {seed}: {text}\nexpected {says:?}");
    }
}

fn clean(case: &Case) {
    verify_program(&case.program, &target_of(90)).unwrap_or_else(|e| panic!("{e}"));
    for seed in 0..6 {
        case.check(&run(case, seed).unwrap_or_else(|e| panic!("{e}")));
    }
}

#[test]
fn right_kernels_of_warpgroups_give_the_results_of_plain_arithmetic() {
    for case in warpgroup_cases() {
        clean(&case);
    }
}

#[test]
fn registers_that_were_written_need_a_fence() {
    found(&without("wgmma_fence"), &[PRODUCT, "matrix instruction on registers of `d`", "no fence after it"]);
}

#[test]
fn what_threads_store_needs_a_fence_of_the_asynchronous_proxy() {
    found(&without("async_fence"), &[PRODUCT, "asynchronous read of `a[", "no asynchronous fence after it"]);
}

/// The kernel with A brought by asynchronous copies.
fn copied() -> Case {
    changed(|body| {
        let to = at("a", t() * c(8));
        let copy = Instr::cp_async(to, at("p0", t() * c(8)), 16, None, None);
        body.splice(0..1, [does(copy), commit(), wait(0)]);
    })
}

#[test]
fn what_copies_store_needs_a_fence_of_the_asynchronous_proxy() {
    clean(&copied());
    let mut case = copied();
    let body = &mut case.program.launches[0].kernel.body;
    body.remove(position(body, "async_fence"));
    found(&case, &[PRODUCT, "asynchronous read of `a[", "no asynchronous fence after it"]);
}

#[test]
fn sums_are_not_read_before_the_wait() {
    found(&without("wgmma_wait"), &["at `p3[", "access to `d[0]`, which an unfinished matrix instruction uses"]);
}

/// The kernel with its first operand in registers, changed.
fn of_registers(change: impl FnOnce(&mut Vec<KStmt>)) -> Case {
    let mut case = wgmma_registers(DType::F16, 8);
    change(&mut case.program.launches[0].kernel.body);
    case
}

#[test]
fn registers_of_an_operand_are_not_overwritten_before_the_wait() {
    let next = |after: &str| {
        of_registers(|body| {
            let at = position(body, after);
            body.insert(at + 1, store("a", c(7), ldt("p0", t(), DType::F16)));
        })
    };
    found(&next("wgmma_commit"), &["access to `a[7]`, which an unfinished matrix instruction uses"]);
    clean(&next("wgmma_wait"));
}

#[test]
fn registers_of_an_operand_that_were_written_need_a_fence() {
    let case = of_registers(|body| {
        let at = position(body, "wgmma_fence");
        body.insert(at + 1, store("a", c(7), ldt("p0", t() * c(8) + c(7), DType::F16)));
    });
    found(&case, &[PRODUCT, "matrix instruction on registers of `a`", "no fence after it"]);
}

/// Several products read the same registers of an operand one after the other.
#[test]
fn products_share_an_operand_in_registers() {
    let case = of_registers(|body| {
        let at = position(body, PRODUCT);
        body.insert(at, body[at].clone());
    });
    (0..6).for_each(|seed| assert!(run(&case, seed).is_ok()));
}

#[test]
fn operands_are_not_overwritten_before_the_wait() {
    let next = |slot: i64, after: &str| {
        changed(|body| {
            let at = position(body, after);
            body.insert(at + 1, store("a", t() + c(slot * 1024), ldt("p0", t(), DType::F16)));
        })
    };
    let both = ["nothing orders this write of `a[", "the read by the matrix instruction of warpgroup 0", PRODUCT];
    found(&next(0, "wgmma_commit"), &both);
    clean(&next(1, "wgmma_commit"));
    clean(&next(0, "wgmma_wait"));
}

#[test]
fn fills_come_before_products_by_a_barrier() {
    found(&without("barrier block"), &[PRODUCT, "a["]);
}

#[test]
fn a_product_that_nothing_waits_for_is_found() {
    let case = changed(|body| {
        body.pop();
        body.pop();
    });
    found(&case, &[PRODUCT, "nothing waits for"]);
}

#[test]
fn a_group_that_was_not_committed_is_not_waited_for() {
    found(&without("wgmma_commit"), &["at `p3[", "access to `d[0]`, which an unfinished matrix instruction uses"]);
}

#[test]
fn all_warps_of_a_group_take_part() {
    let case = changed(|body| {
        let first = position(body, "wgmma_fence");
        let product: Vec<KStmt> = body.drain(first..).collect();
        body.push(if_(lt(t(), c(96)), product));
    });
    let refused = verify_program(&case.program, &target_of(90)).expect_err("a condition within a group").to_string();
    assert!(refused.contains("under a condition that its threads do not share"), "{refused}");
    found(&case, &["divergent warp instruction"]);
}

#[test]
fn an_older_product_is_waited_for_while_a_newer_goes_on() {
    // the sums of both are the same registers, which the newer still uses
    let case = changed(|body| {
        let product: Vec<KStmt> = body[position(body, "wgmma_fence")..=position(body, "wgmma_commit")].to_vec();
        let at = position(body, "wgmma_wait");
        body.splice(at..=at, product.into_iter().chain([does(Instr::from(Sync::WgmmaWait { left: 1 }))]));
    });
    found(&case, &["at `p3[", "access to `d[0]`, which an unfinished matrix instruction uses"]);
}
