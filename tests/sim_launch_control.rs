//! Blocks that are given the work of others that have not started: right kernels compute all of it once, whatever they are told;
//! bugs of the protocol, each sown into a right kernel, are found.

use crate::codegen_programs::*;
use crate::intrinsic_programs::*;
use crate::sim_tcgen05::{self, at_statement, run};
use daylight::interp::Scalars;
use daylight::ir::instr::{Instr, Op, Sync};
use daylight::ir::kernel::*;
use daylight::lower::{overlapping, verify_program};
use daylight::sim::{self, SimOptions};

/// The right kernel of single blocks, or of pairs, changed.
fn changed(cluster: i64, change: impl FnOnce(&mut Vec<KStmt>)) -> Case {
    let mut case = given_blocks(cluster);
    change(&mut case.program.launches[0].kernel.body);
    case
}

/// With other statements in place of the one that begins so.
fn in_place(cluster: i64, head: &str, with: impl Fn(&KStmt) -> Vec<KStmt>) -> Case {
    changed(cluster, |body| sim_tcgen05::in_place(body, head, with))
}

fn without(cluster: i64, head: &str) -> Case {
    in_place(cluster, head, |_| vec![])
}

/// What a run says, or that it says nothing and the result is right.
fn said(case: &Case, seed: u64) -> Option<String> {
    match run(case, seed) {
        Ok(got) => {
            case.check(&got);
            None
        }
        Err(why) => Some(why),
    }
}

/// Every seed finds this, and says one of these.
fn found(case: &Case, says: &[&str]) {
    for seed in 0..8 {
        let text = said(case, seed).unwrap_or_else(|| panic!("seed {seed}: a bug that nothing finds"));
        assert!(says.iter().any(|s| text.contains(s)), "seed {seed}: {text}\nexpected one of {says:?}");
    }
}

#[test]
fn right_kernels_compute_all_parts() {
    for case in launch_control_cases() {
        for sm in [100, 120] {
            verify_program(&case.program, &target_of(sm)).unwrap_or_else(|e| panic!("{e}"));
        }
        for seed in 0..20 {
            assert_eq!(said(&case, seed), None);
        }
    }
}

#[test]
fn other_targets_give_no_blocks() {
    let why = verify_program(&given_blocks(1).program, &target_of(90)).expect_err("a refusal").to_string();
    assert!(why.contains("compute capability 100"), "{why}");
}

/// How many blocks started is for the seed to say: with one order of events few do, with another most.
#[test]
fn blocks_are_given_away_or_start_by_themselves() {
    let case = given_blocks(1);
    let started = |seed| {
        let options = SimOptions { seed, ..SimOptions::default() };
        let report = sim::run(&case.program, &mut case.args(), &Scalars::new(), &options).expect("a right kernel");
        assert_eq!(report.blocks, 8, "each block has started or was given away");
        report.started
    };
    let all: Vec<u64> = (0..40).map(started).collect();
    let (least, most) = (all.iter().min().expect("runs"), all.iter().max().expect("runs"));
    assert!(*least <= 2 && *most >= 4, "{all:?}");
}

/// Of a sample, blocks are given what is in it.
#[test]
fn a_sample_is_computed_once() {
    let case = given_blocks(2);
    for seed in 0..10 {
        let options = SimOptions { seed, max_blocks: Some(6), ..SimOptions::default() };
        let mut args = case.args();
        let report = sim::run(&case.program, &mut args, &Scalars::new(), &options).expect("a right kernel");
        let written = &report.written[&"p1".into()];
        assert_eq!((report.blocks, written.len()), (6, 6 * 64), "seed {seed}");
        written.iter().for_each(|i| assert_eq!(args[1].get_f64(*i as usize), case.want[*i as usize]));
    }
}

#[test]
fn an_answer_is_read_after_its_barrier() {
    for cluster in [1, 2] {
        let early = ["read of `answer[", "nothing orders this read of `answer["];
        found(&without(cluster, "mbarrier_wait bar[0]"), &early);
    }
}

#[test]
fn an_answer_is_not_overwritten_before_all_have_read_it() {
    for cluster in [1, 2] {
        // one thread less is waited for: its arrival counts for the next answer
        let few = in_place(cluster, "mbarrier_init bar[1]", |s| {
            let KStmt::Instr(Instr { op: Op::Sync(Sync::MbarrierInit { arrivals }), places, .. }) = s else {
                panic!("no barrier")
            };
            vec![does(Instr::new(Sync::MbarrierInit { arrivals: arrivals - 1 }, places.clone(), []))]
        });
        let raced = ["nothing orders this write of `answer[", "and this is one more", "no thread can go on"];
        let found = (0..16).filter_map(|seed| said(&few, seed)).collect::<Vec<_>>();
        assert!(found.len() >= 8, "{} of 16 orders find it", found.len());
        found.iter().for_each(|text| assert!(raced.iter().any(|s| text.contains(s)), "{text}"));
        // nobody is waited for
        let text = ["nothing orders this write of `answer[", "`answer[0]` was overwritten"];
        let unread = without(cluster, "mbarrier_wait bar[1]");
        let found = (0..16).filter_map(|seed| said(&unread, seed)).collect::<Vec<_>>();
        assert!(found.len() >= 12, "{} of 16 orders find it", found.len());
        found.iter().for_each(|t| assert!(text.iter().any(|s| t.contains(s)), "{t}"));
    }
}

#[test]
fn a_barrier_is_told_to_expect_an_answer() {
    for cluster in [1, 2] {
        let lacks = ["`bar[0]` still lacks", "and no thread can go on"];
        found(&without(cluster, "mbarrier_expect"), &lacks);
        let arrives = in_place(cluster, "mbarrier_expect", |s| {
            let KStmt::Instr(i) = s else { panic!("no instruction") };
            vec![does(Instr::new(Sync::MbarrierArrive, i.places.clone(), []))]
        });
        found(&arrives, &[&lacks[..], &["read of `answer[", "nothing orders this read"]].concat());
    }
}

/// A warp that takes the block's own part alone reads one answer: the slot does not get free for a third one.
#[test]
fn all_threads_go_on_with_what_the_block_is_given() {
    for cluster in [1, 2] {
        let case = changed(cluster, |body| {
            let at = body.iter().position(|s| matches!(s, KStmt::For { .. })).expect("a loop");
            let KStmt::For { var, extent, live, kind, body: step } = body[at].clone() else { panic!("a loop") };
            let one = KStmt::For { var: "only".into(), extent: c(1), live: None, kind, body: step.clone() };
            let all = KStmt::For { var, extent, live, kind, body: step };
            body[at] = KStmt::If { cond: lt(t(), c(32)), then: vec![all], otherwise: vec![one] };
        });
        let lacks = ["`bar[1]` still lacks", "not all threads arrive at the barrier of the cluster"];
        let found = (0..16).filter_map(|seed| run(&case, seed).err()).collect::<Vec<_>>();
        assert!(found.len() >= 14, "{} of 16 orders find it", found.len());
        found.iter().for_each(|text| assert!(lacks.iter().any(|s| text.contains(s)), "{text}"));
    }
}

#[test]
fn nobody_asks_again_after_a_refusal() {
    let case = changed(1, |body| {
        let at = body.iter().position(|s| matches!(s, KStmt::For { .. })).expect("a loop");
        let KStmt::For { live, extent, .. } = &mut body[at] else { panic!("a loop") };
        (*live, *extent) = (None, c(16));
        // goes on with its own part
        let query = |s: &KStmt| s.head().contains("query_cancel");
        let KStmt::For { body: step, .. } = &mut body[at] else { panic!("a loop") };
        let at = step.iter().position(query).expect("a query");
        step.insert(at + 1, store("next", c(0), v("blockIdx.x")));
    });
    found(&case, &["asks for another one after it was told that there is none"]);
}

#[test]
fn a_block_does_not_end_before_its_answer_has_come() {
    let mut case = without(1, "mbarrier_wait bar[0]");
    at_statement(&mut case.program.launches[0].kernel.body, "query_cancel", &mut |list, at| {
        list[at] = store("next", c(0), c(-1));
    });
    // it may have come by then
    let found: Vec<String> = (0..8).filter_map(|seed| run(&case, seed).err()).collect();
    assert!(found.len() >= 4, "{} of 8 orders find it", found.len());
    found.iter().for_each(|t| assert!(t.contains("nothing waits for this copy to `answer[0]` before the end"), "{t}"));
}

/// The next launch comes when all blocks have ended: it is not said whether those that never start count among them.
#[test]
fn the_next_launch_waits_for_the_whole_grid() {
    let case = given_blocks(1);
    let early = overlapping(&case.program, &target_of(100), &["p0".into()].into()).to_string();
    assert!(early.contains("grid_wait") && !early.contains("grid_launch"), "{early}");
}

/// A register of answers counts as shared by the threads of a block, so that nothing else may be put in.
#[test]
fn registers_of_answers_hold_what_a_block_shares() {
    let case = changed(1, |body| body.push(store("next", c(0), t())));
    let why = verify_program(&case.program, &target_of(100)).expect_err("a refusal").to_string();
    assert!(why.contains("an array of answers receives what threads of the block do not share"), "{why}");
}
