//! Bugs of the protocol of pairs of blocks, each sown into a right kernel: every order of threads finds it. The kernels without
//! them are accused of nothing (`sim_tcgen05`).

use crate::codegen_programs::*;
use crate::intrinsic_programs::*;
use crate::sim_tcgen05::{self, at_statement, clean, run};
use daylight::ir::DType;
use daylight::ir::instr::{CtaGroup, Instr, Landing, Op, Sync, Tcgen05};
use daylight::ir::kernel::*;
use daylight::lower::verify_program;

const PAIR: CtaGroup = CtaGroup::Pair;

/// The right kernel, changed.
fn changed(change: impl FnOnce(&mut Vec<KStmt>)) -> Case {
    let mut case = pair_product(DType::F16, 32);
    change(&mut case.program.launches[0].kernel.body);
    case
}

/// With something else in place of the instruction of a statement that begins so.
fn in_place(head: &str, of: impl Fn(&Instr) -> Vec<KStmt>) -> Case {
    let of = |s: &KStmt| match s {
        KStmt::Instr(i) => of(i),
        _ => panic!("`{head}` is no instruction"),
    };
    changed(|body| sim_tcgen05::in_place(body, head, of))
}

/// Under the condition that the block has a rank.
fn of_block(head: &str, rank: i64) -> Case {
    in_place(head, |i| vec![if_(eq(v("blockIdx.x"), rank), vec![does(i.clone())])])
}

/// Every seed finds this, and says one of these.
fn found(case: &Case, says: &[&str]) {
    for seed in 0..8 {
        let text = run(case, seed).expect_err("a bug that nothing finds");
        assert!(says.iter().any(|s| text.contains(s)), "seed {seed}: {text}\nexpected one of {says:?}");
    }
}

/// Without one of the three meetings: before columns are taken, after that, and before they are given back.
fn without_meeting(nth: usize) -> Case {
    changed(|body| {
        let arrives = |s: &KStmt| matches!(s, KStmt::Barrier(Barrier::ClusterArrive { .. }));
        let at = (0..body.len()).filter(|i| arrives(&body[*i])).nth(nth).expect("a meeting");
        body.drain(at..at + 2);
    })
}

#[test]
fn boxes_land_in_both_blocks() {
    multicast_cases().iter().for_each(clean);
}

#[test]
fn blocks_of_a_pair_meet() {
    found(&without_meeting(0), &["the other block may not have started"]);
    let unknown = "`d` is used before the other block of the pair is known to have taken its columns";
    found(&without_meeting(1), &[unknown]);
    let early =
        ["nothing orders this write of `d[", "`d` is used after the other block of the pair gave its columns back"];
    found(&without_meeting(2), &early);
}

#[test]
fn meetings_pass_on_what_was_done() {
    let case = changed(|body| {
        for s in body {
            if let KStmt::Barrier(Barrier::ClusterArrive { release }) = s {
                *release = false;
            }
        }
    });
    found(&case, &["nothing orders", "is known to have taken its columns", "which nothing has written"]);
}

#[test]
fn a_commit_reaches_both_blocks() {
    for mask in [0, 1, 2] {
        let case = in_place("tcgen05_commit", |i| {
            vec![does(Instr::new(Tcgen05::Commit { group: PAIR, mask }, i.places.clone(), []))]
        });
        found(&case, &["`bar[1]` still lacks 1 arrivals"]);
    }
}

#[test]
fn a_block_waits_for_the_commits_that_arrive_in_it() {
    let case = in_place("tcgen05_commit", |i| {
        let more = Instr::new(Tcgen05::Commit { group: PAIR, mask: 3 }, [at("bar", c(0))], []);
        vec![does(i.clone()), does(more)]
    });
    found(&case, &["a commit arrives at `bar[0]` of another block, no thread of which waits for it"]);
}

#[test]
fn both_blocks_give_their_columns_back() {
    for rank in [0, 1] {
        found(&of_block("tcgen05_dealloc", rank), &["the block ends with 32 columns not given back"]);
    }
}

#[test]
fn blocks_of_a_pair_take_the_same_columns() {
    let case = in_place("tcgen05_alloc", |i| {
        let of = |rank, columns| {
            let take = Instr::new(Tcgen05::Alloc { columns, group: PAIR }, i.places.clone(), []);
            if_(eq(v("blockIdx.x"), rank), vec![does(take)])
        };
        vec![of(0, 32), of(1, 64)]
    });
    found(&case, &["the blocks of a pair take 32 and 64 columns", "the blocks of a pair take 64 and 32 columns"]);
    let late = "`d` is used before the other block of the pair is known to have taken its columns";
    found(&of_block("tcgen05_alloc", 0), &[late, "read of `word[0]`"]);
}

#[test]
fn the_first_block_issues_products() {
    let case = changed(|body| {
        let multiplies =
            |s: &KStmt| matches!(s, KStmt::If { then, .. } if then.iter().any(|s| matches!(s, KStmt::If { .. })));
        let at = body.iter().rposition(multiplies).expect("the products");
        let KStmt::If { cond, then, .. } = &mut body[at] else { panic!("a condition") };
        *cond = eq(v("blockIdx.x"), 1);
        assert!(at_statement(then, "mbarrier_wait", &mut |list, at| drop(list.remove(at))));
    });
    found(&case, &["products of a pair are issued by its first block"]);
}

#[test]
fn the_first_block_counts_what_lands_in_both() {
    let own = in_place("tensor_load", |i| {
        let map = i.op.map().expect("a map").clone();
        vec![KStmt::Instr(Instr { op: Op::TensorLoad { map, to: Landing::Own }, ..i.clone() })]
    });
    found(&own, &["`bar[0]` still lacks", "and no thread can go on"]);
    let half = in_place("mbarrier_expect", |i| {
        let bytes = i.values[0].as_int().expect("a constant") / 2;
        vec![does(Instr::new(Sync::MbarrierExpect, i.places.clone(), [c(bytes)]))]
    });
    found(&half, &["tcgen05_mma", "`bar[0]` still lacks"]);
}

#[test]
fn both_blocks_wait_for_the_products() {
    // the first statement of that name is of the thread that issues them
    for waits in [0, 1] {
        let case = changed(|body| {
            let at = body.iter().rposition(|s| s.head().contains("mbarrier_wait")).expect("a wait");
            let wait = body.remove(at);
            body.insert(at, if_(eq(v("blockIdx.x"), waits), vec![wait]));
        });
        found(&case, &["tcgen05_load"]);
    }
}

#[test]
fn operands_of_the_second_block_are_not_overwritten_before_its_barrier() {
    let write = |early: bool| {
        changed(|body| {
            let at = body.iter().rposition(|s| s.head().contains("mbarrier_wait")).expect("a wait");
            let store = store("b", t(), ldt("p1", t(), DType::F16));
            body.insert(at + usize::from(!early), if_(eq(v("blockIdx.x"), 1), vec![store]));
        })
    };
    found(
        &write(true),
        &["nothing orders this write of `b[", "nothing orders this asynchronous read of `b[", "of `b["],
    );
    clean(&write(false));
}

#[test]
fn pairs_stand_in_clusters_of_an_even_number_of_blocks() {
    let refused = |change: &dyn Fn(&mut Case), says: &str| {
        let mut case = pair_product(DType::F16, 32);
        change(&mut case);
        let why = verify_program(&case.program, &target_of(100)).expect_err("a refusal").to_string();
        assert!(why.contains(says), "{why}\nexpected {says}");
    };
    let cluster = |n: u32| move |case: &mut Case| case.program.launches[0].cluster = n;
    refused(&cluster(3), "a cluster of 3 blocks has no pairs");
    let plain = in_place("tcgen05_dealloc", |i| {
        vec![does(Instr::new(Tcgen05::Dealloc { columns: 32, group: CtaGroup::One }, i.places.clone(), []))]
    });
    refused(&|case| case.program = plain.program.clone(), "are all of pairs of blocks, or none is");
    let beyond = in_place("tcgen05_commit", |i| {
        vec![does(Instr::new(Tcgen05::Commit { group: PAIR, mask: 4 }, i.places.clone(), []))]
    });
    refused(&|case| case.program = beyond.program.clone(), "it arrives in blocks beyond the 2 of the cluster");
    let alone = changed(|body| body.retain(|s| !matches!(s, KStmt::Barrier(b) if *b != Barrier::Block)));
    let one = |case: &mut Case| {
        case.program = alone.program.clone();
        case.program.launches[0].cluster = 1;
    };
    refused(&one, "it stands in no launch of clusters");
    let narrow = verify_program(&pair_product(DType::F16, 48).program, &target_of(100)).expect_err("a refusal");
    assert!(narrow.to_string().contains("48 columns; expected 32 to 256, a multiple of 32"), "{narrow}");
}
