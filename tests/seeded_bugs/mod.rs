//! Bugs sown into right kernels, each a small change such as a rule or a pass could make by mistake. Every
//! one is found under every order of threads, and the report names a statement that the change touched.
//! The kernels without them, and those of the corpus, are accused of nothing.

mod clusters;
mod corpus;
mod kernels;
mod multicast;
mod products;
mod tensor;

use daylight::ir::instr::{Instr, Op, Sync};
use daylight::ir::kernel::{Barrier, KStmt, Program, ShuffleMode};
use daylight::ir::{BinOp, Expr, ExprKind};
use kernels::*;

/// A bug: what it is, in which kernel, how it is made, and what a report has to hold: the kind of finding
/// and one of the statements.
struct Bug {
    what: &'static str,
    kernel: &'static str,
    sow: fn(&mut Program),
    says: &'static str,
    statements: &'static [&'static str],
}

const STAGE: &str = "p1_local_sum_stage[threadIdx.x // 32] = p1_local_sum_acc";
const BROADCAST: &str = "float32 p1_local_sum_sum = p1_local_sum_stage[threadIdx.x % 8]";

fn shuffle(p: &mut Program, head: &str, to: u32, lanes: u32) {
    edit(p, head, 0, |s| match s {
        KStmt::Shuffle { dst, value, .. } => {
            let (mode, dst, value) = (ShuffleMode::Xor(to), dst.clone(), value.clone());
            vec![KStmt::Shuffle { dst, mode, value, width: lanes }]
        }
        other => panic!("{other:?} is no shuffle"),
    });
}

/// Exchanges the thread indices along x and y.
fn swapped(p: &mut Program, head: &str) {
    exprs(p, head, 0, &|e| match e.kind() {
        ExprKind::Var { name, .. } if name.as_str() == "threadIdx.x" => Some(thread("y")),
        ExprKind::Var { name, .. } if name.as_str() == "threadIdx.y" => Some(thread("x")),
        _ => None,
    });
}

/// Has a block be the last when so many have arrived.
fn arrivals(p: &mut Program, blocks: u32) {
    edit(p, "last_block", 0, |s| match s {
        KStmt::Instr(i) => vec![KStmt::Instr(Instr { op: Op::LastBlock { of: blocks }, ..i.clone() })],
        other => panic!("{other:?} is no arrival"),
    });
}

const REDUCTIONS: &[Bug] = &[
    Bug {
        what: "no barrier between the warps' sums and their reader",
        kernel: "row_sums",
        sow: |p| remove(p, "barrier block", 0),
        says: "p1_local_sum_stage[",
        statements: &[STAGE, BROADCAST],
    },
    Bug {
        what: "a broadcast read before the barrier",
        kernel: "row_sums",
        sow: |p| move_before(p, BROADCAST, "barrier block"),
        says: "p1_local_sum_stage[",
        statements: &[STAGE, BROADCAST],
    },
    Bug {
        what: "a tail guard that lets one element more be read",
        kernel: "row_sums",
        sow: |p| number(p, "if i1_1 * 256", 0, 7, 8),
        says: "index 5155 lies outside `p0`",
        statements: &["p0_local_last[i1_1] = p0["],
    },
    Bug {
        what: "a tail guard that drops one element",
        kernel: "row_sums",
        sow: |p| number(p, "if i1_1 * 256", 1, 7, 6),
        says: "wrong result",
        statements: &["if i1_1 * 256 + threadIdx.x < 6"],
    },
    Bug {
        what: "a dropped load of the reduction",
        kernel: "row_sums",
        sow: |p| number(p, "unroll int32 red < 4", 0, 4, 3),
        says: "wrong result",
        statements: &["unroll int32 red < 3"],
    },
    Bug {
        what: "a shuffle within too few lanes",
        kernel: "row_sums",
        sow: |p| shuffle(p, "p1_local_sum_other = shuffle.xor16", 16, 16),
        says: "wrong result",
        statements: &["p1_local_sum_other = shuffle.xor16(p1_local_sum_acc, width 16)"],
    },
    Bug {
        what: "a wrong distance in a tree of shuffles",
        kernel: "row_sums",
        sow: |p| shuffle(p, "p1_local_sum_other = shuffle.xor1(", 6, 32),
        says: "wrong result",
        statements: &["p1_local_sum_other = shuffle.xor6(p1_local_sum_acc, width 32)"],
    },
    Bug {
        what: "an accumulator without a start",
        kernel: "row_sums",
        sow: |p| remove(p, "p1_rf[0] = 0.0", 0),
        says: "read of `p1_rf[0]`, which nothing has written",
        statements: &["p1_rf[0] = p1_rf[0] + p0_local[red]"],
    },
    Bug {
        what: "two blocks that write one element",
        kernel: "row_sums",
        sow: |p| {
            exprs(p, "p1[blockIdx.x] =", 0, &|e| match e.kind() {
                ExprKind::Var { .. } => Some(Expr::binary(BinOp::FloorDiv, e.clone(), Expr::i32(2))),
                _ => None,
            });
        },
        says: "race: nothing orders this write of `p1[0]` and the write by thread (0, 0, 0) of block (0, 0, 0)",
        statements: &["p1[blockIdx.x // 2] = p1_local[0]"],
    },
    Bug {
        what: "a barrier in a branch of one thread",
        kernel: "row_sums",
        sow: |p| {
            edit(p, "p1[blockIdx.x] =", 0, |s| vec![KStmt::Barrier(Barrier::Block), s.clone()]);
        },
        says: "divergent barrier",
        statements: &["barrier block"],
    },
    Bug {
        what: "too few threads for the row",
        kernel: "row_sums",
        sow: |p| p.launches[0].block[0] = 128,
        says: "which nothing has written",
        statements: &[BROADCAST],
    },
    Bug {
        what: "a second store of the result by another thread",
        kernel: "row_sums",
        sow: |p| {
            edit(p, "if threadIdx.x == 0", 0, |s| {
                let cond = Expr::binary(BinOp::Eq, thread("x"), Expr::i32(33));
                let KStmt::If { then, .. } = s else { panic!("a condition") };
                vec![s.clone(), KStmt::If { cond, then: then.clone(), otherwise: vec![] }]
            });
        },
        says: "race: nothing orders this write of `p1[0]` and the write by thread",
        statements: &["p1[blockIdx.x] = p1_local[0]"],
    },
    Bug {
        what: "a register that is taken before the loop that fills it",
        kernel: "row_sums",
        sow: |p| move_before(p, "p1_local_acc[0] = p1_rf[0]", "unroll int32 i1_1"),
        says: "wrong result",
        statements: &["p1_local_acc[0] = p1_rf[0]"],
    },
    Bug {
        what: "swapped thread indices",
        kernel: "column_sums",
        sow: |p| swapped(p, "p1_local_sum_stage["),
        says: "wrong result",
        statements: &["p1_local_sum_stage[threadIdx.x * 8 + threadIdx.y] = p1_local_sum_acc"],
    },
    Bug {
        what: "a dropped partial sum",
        kernel: "column_sums",
        sow: |p| number(p, "unroll int32 i < 7", 0, 7, 6),
        says: "wrong result",
        statements: &["unroll int32 i < 6"],
    },
    Bug {
        what: "a workspace that is read before the launch that writes it",
        kernel: "product_parts",
        sow: |p| p.launches.swap(0, 1),
        says: "read of `b0_result_rf[",
        statements: &["b0_result[0] = b0_result[0] + b0_result_rf["],
    },
    Bug {
        what: "a block that is not the last and takes itself for that",
        kernel: "full_sum",
        sow: |p| arrivals(p, 1),
        says: "read of `p1_rf[",
        statements: &["p1_rf_1[0] = p1_rf_1[0] + p1_rf[threadIdx.x]"],
    },
    Bug {
        what: "a last block that waits for one more",
        kernel: "full_sum",
        sow: |p| arrivals(p, 9),
        says: "nothing has written",
        statements: &["p1"],
    },
    Bug {
        what: "a block that arrives before its results are there",
        kernel: "full_sum",
        sow: |p| remove(p, "barrier block", 1),
        says: "race: nothing orders this read of `p1_rf[",
        statements: &["p1_rf_1[0] = p1_rf_1[0] + p1_rf[threadIdx.x]"],
    },
    Bug {
        what: "threads that ask whether their block is the last before it is known",
        kernel: "full_sum",
        sow: |p| remove(p, "barrier block", 2),
        says: "last[0]",
        statements: &["if last[0] != 0"],
    },
    Bug {
        what: "partial sums that start from nothing",
        kernel: "full_sum",
        sow: |p| remove(p, "p1_rf_1[0] = 0.0", 0),
        says: "read of `p1_rf_1[0]`, which nothing has written",
        statements: &["p1_rf_1[0] = p1_rf_1[0] + p1_rf[threadIdx.x]"],
    },
    Bug {
        what: "parts of a row that overlap by one element",
        kernel: "full_sum",
        sow: |p| number(p, "if blockIdx.x * 8193", 1, 8193, 8194),
        says: "wrong result",
        statements: &["threadIdx.x < 8194"],
    },
];

const TILES: &[Bug] = &[
    Bug {
        what: "no barrier between the tile and its transposed reader",
        kernel: "transposed",
        sow: |p| remove(p, "barrier block", 0),
        says: "p0_shared[",
        statements: &["p0_shared[ax0_1", "] = p0_shared["],
    },
    Bug {
        what: "a swizzle that the reader does not share",
        kernel: "transposed",
        sow: |p| number(p, "p0_shared[ax0_1", 0, 64, 32),
        says: "p0_shared[",
        statements: &["p0_shared[ax0_1"],
    },
    Bug {
        what: "a store behind the end of a row",
        kernel: "transposed",
        sow: |p| number(p, "if i1_1_i0_1_i1_2_f_0", 0, 45, 46),
        says: "",
        statements: &["p1_local[i1_3] = p0_shared_local[i1_3]", "copy2 p1["],
    },
    Bug {
        what: "no wait for the copies of a stage",
        kernel: "staged",
        sow: |p| remove(p, "cp_async_wait 1", 0),
        says: "while an asynchronous copy to it is on its way",
        statements: &["t1_acc = t1_acc + t0["],
    },
    Bug {
        what: "a wait that leaves one group too many",
        kernel: "staged",
        sow: |p| edit(p, "cp_async_wait 1", 0, |_| vec![KStmt::Instr(Instr::from(Sync::CpAsyncWait { left: 2 }))]),
        says: "while an asynchronous copy to it is on its way",
        statements: &["t1_acc = t1_acc + t0["],
    },
    Bug {
        what: "no barrier after the wait",
        kernel: "staged",
        sow: |p| remove(p, "barrier block", 0),
        says: "t0[",
        statements: &["t1_acc = t1_acc + t0["],
    },
    Bug {
        what: "no barrier before a stage is filled anew",
        kernel: "staged",
        sow: |p| {
            remove(p, "barrier block", 1);
            remove(p, "barrier block", 1);
        },
        says: "race: nothing orders",
        statements: &["cp_async16 t0["],
    },
    Bug {
        what: "the stage that is read is filled",
        kernel: "staged",
        sow: |p| {
            exprs(p, "cp_async16 t0[(i0 + 1) % 2", 0, &|e| match e.kind() {
                ExprKind::Binary { op: BinOp::FloorMod, b, .. } if b.is_int(2) => {
                    Some(Expr::binary(BinOp::FloorMod, Expr::var("i0", e.dtype()), b.clone()))
                }
                _ => None,
            });
        },
        says: "t0[",
        statements: &["cp_async16 t0[i0 % 2 * 256", "t1_acc = t1_acc + t0["],
    },
    Bug {
        what: "the phase before the one that the copy completes",
        kernel: "bulk",
        sow: |p| {
            edit(p, "mbarrier_wait", 0, |s| match s {
                KStmt::Instr(i) if i.op == Op::Sync(Sync::MbarrierWait) => {
                    let ([bar], [parity]) = i.operands();
                    let one = Expr::int(1, parity.dtype());
                    vec![KStmt::Instr(Instr::new(Sync::MbarrierWait, [bar.clone()], [one - parity.clone()]))]
                }
                other => panic!("{other:?} waits for nothing"),
            });
        },
        says: "t0[",
        statements: &["t1_acc = t1_acc + t0["],
    },
    Bug {
        what: "half of the bytes announced",
        kernel: "bulk",
        sow: |p| number(p, "mbarrier_expect t2[0]", 0, 1024, 512),
        says: "deadlock",
        statements: &["mbarrier_wait t2["],
    },
    Bug {
        what: "no fence before a bulk store",
        kernel: "bulk",
        sow: |p| remove(p, "async_fence", 0),
        says: "with no asynchronous fence after it",
        statements: &["bulk_store p1["],
    },
    Bug {
        what: "a barrier of warps where the block has to meet",
        kernel: "bulk",
        sow: |p| {
            remove(p, "barrier block", 1);
            edit(p, "barrier block", 1, |_| vec![KStmt::Barrier(Barrier::Warp)]);
        },
        says: "race: nothing orders",
        statements: &["bulk_load t0[(i0 + 1) % 2 * 256]"],
    },
];

/// Every seed finds the bug, and some statement is named.
fn find(bugs: &[Bug]) {
    let mut failures = vec![];
    for bug in bugs {
        let right = Right::by_name(bug.kernel);
        let mut program = right.program.clone();
        (bug.sow)(&mut program);
        for (seed, found) in right.found(&program).into_iter().enumerate() {
            let text = found.unwrap_or_else(|| "nothing".into());
            let named = bug.statements.iter().any(|s| text.contains(s));
            if !named || !text.contains(bug.says) {
                failures.push(format!("{} in {}, seed {seed}: found {text}", bug.what, bug.kernel));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn bugs_in_reductions_are_found() {
    find(REDUCTIONS);
}

#[test]
fn bugs_in_clusters_are_found() {
    find(clusters::BUGS);
}

#[test]
fn bugs_in_boxes_that_blocks_share_are_found() {
    find(multicast::BUGS);
}

#[test]
fn bugs_in_tiles_and_copies_are_found() {
    find(TILES);
}

#[test]
fn kernels_without_a_bug_are_not_accused() {
    for name in [
        "row_sums",
        "column_sums",
        "full_sum",
        "transposed",
        "normalized",
        "staged",
        "bulk",
        "words",
        "neighbours",
        "product_parts",
        "issued",
        "scaled_pair",
    ] {
        let right = Right::by_name(name);
        for found in right.found(&right.program) {
            assert_eq!(found, None, "{name}");
        }
    }
}
