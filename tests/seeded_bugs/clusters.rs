//! Bugs in what the blocks of a cluster do to each other.

use super::Bug;
use super::kernels::*;
use daylight::ir::instr::{At, Instr, Op};
use daylight::ir::kernel::{Barrier, KStmt, Program};
use daylight::ir::{BinOp, DType, Expr, ExprKind};

const LOAD: &str = "cluster_load1 p1_rf_local_1[";
const PART: &str = "p1_rf[threadIdx.x] = p1_rf_local[0]";
const STORE: &str = "cluster_store t0_slots[rank] of block threadIdx.x";
const SLOT: &str = "t0_sum[0] = t0_slots[0]";

/// The second reduction over the cluster takes the slots of the first.
fn reuse_slots(p: &mut Program) {
    edit(p, "cluster_store t1_slots", 0, |s| match s {
        KStmt::Instr(i) if i.op == Op::ClusterStore => {
            let dst = At::new(&"t0_slots".into(), i.places[0].index.clone());
            vec![KStmt::Instr(Instr { places: vec![dst], ..i.clone() })]
        }
        other => panic!("{other:?} is no store to another block"),
    });
    for head in ["t1_sum[0] = t1_slots[0]", "t1_sum[0] = t1_sum[0] + t1_slots["] {
        exprs(p, head, 0, &|e| match e.kind() {
            ExprKind::Load { buffer, indices, dtype } if buffer.as_str() == "t1_slots" => {
                Some(Expr::load("t0_slots", indices.to_vec(), *dtype))
            }
            _ => None,
        });
    }
}

/// Has threads arrive without a release.
fn no_release(p: &mut Program, nth: usize) {
    edit(p, "cluster arrive", nth, |_| vec![KStmt::Barrier(Barrier::ClusterArrive { release: false })]);
}

pub const BUGS: &[Bug] = &[
    Bug {
        what: "no barrier of the cluster between a store and its reader",
        kernel: "normalized",
        sow: |p| no_meeting(p, 1),
        says: "t0_slots[",
        statements: &[STORE, SLOT],
    },
    Bug {
        what: "a reader that does not wait",
        kernel: "normalized",
        sow: |p| remove(p, "cluster wait", 1),
        says: "t0_slots[",
        statements: &[STORE, SLOT],
    },
    Bug {
        what: "an arrival that does not release a store",
        kernel: "normalized",
        sow: |p| no_release(p, 1),
        says: "race: nothing orders this read of `t0_slots[",
        statements: &[STORE, SLOT],
    },
    Bug {
        what: "a wait that no arrival comes before",
        kernel: "normalized",
        sow: |p| remove(p, "cluster arrive", 1),
        says: "a phase that it has not arrived for",
        statements: &["cluster wait"],
    },
    Bug {
        what: "a barrier of the cluster that half of the threads arrive at",
        kernel: "normalized",
        sow: |p| {
            edit(p, "cluster arrive", 1, |s| {
                let cond = Expr::binary(BinOp::Lt, thread("x"), Expr::i32(32));
                vec![KStmt::If { cond, then: vec![s.clone()], otherwise: vec![] }]
            });
        },
        says: "a phase that it has not arrived for",
        statements: &["cluster wait"],
    },
    Bug {
        what: "a store to a block that may not run yet",
        kernel: "normalized",
        sow: |p| no_meeting(p, 0),
        says: "the other block may not have started",
        statements: &[STORE],
    },
    Bug {
        what: "a block that ends after a store, which nothing keeps the other from",
        kernel: "normalized",
        sow: |p| {
            edit(p, "t1[0] = t1_sum[0]", 0, |s| {
                let (dst, peer) = (At::new(&"t0_slots".into(), Expr::i32(0)), Expr::i32(1));
                let value = Expr::load("t0_sum", vec![Expr::i32(0)], DType::F32);
                let store = KStmt::Instr(Instr::new(Op::ClusterStore, [dst], [peer, value]));
                let is = |var: &str, n| Expr::binary(BinOp::Eq, Expr::var(var, DType::I32), Expr::i32(n));
                let cond = Expr::binary(BinOp::And, is("threadIdx.x", 5), is("rank", 1));
                vec![KStmt::If { cond, then: vec![store], otherwise: vec![] }, s.clone()]
            });
        },
        says: "the thread ends after an access to another block",
        statements: &[""],
    },
    Bug {
        what: "two blocks that store to one slot",
        kernel: "normalized",
        sow: |p| in_place_of(p, STORE, "rank", 0),
        says: "race: nothing orders this write of `t0_slots[0]`",
        statements: &["cluster_store t0_slots[0]"],
    },
    Bug {
        what: "a block that stores to itself alone",
        kernel: "normalized",
        sow: |p| number(p, "if threadIdx.x < 2", 0, 2, 1),
        says: "which nothing has written",
        statements: &[STORE],
    },
    Bug {
        what: "a store beyond the cluster",
        kernel: "normalized",
        sow: |p| number(p, "if threadIdx.x < 2", 0, 2, 3),
        says: "block 2 of a cluster of 2",
        statements: &[STORE],
    },
    Bug {
        what: "slots of a reduction that other blocks still read",
        kernel: "normalized",
        sow: reuse_slots,
        says: "race: nothing orders this",
        statements: &[STORE],
    },
    Bug {
        what: "parts of a row that overlap",
        kernel: "normalized",
        sow: |p| in_place_of(p, "p1[cluster * 200", "rank", 0),
        says: "race: nothing orders this write of `p1[",
        statements: &["p1[cluster * 200"],
    },
    Bug {
        what: "a load from a block that may not have started",
        kernel: "column_parts",
        sow: |p| no_meeting(p, 0),
        says: "the other block may not have started",
        statements: &[LOAD],
    },
    Bug {
        what: "a part that is stored without a release",
        kernel: "column_parts",
        sow: |p| no_release(p, 0),
        says: "race: nothing orders this read of `p1_rf[",
        statements: &[LOAD, PART],
    },
    Bug {
        what: "a block that ends while others load its part",
        kernel: "column_parts",
        sow: |p| no_meeting(p, 1),
        says: "the thread ends after an access to another block",
        statements: &[""],
    },
    Bug {
        what: "a block that does not wait for those that load its part",
        kernel: "column_parts",
        sow: |p| remove(p, "cluster wait", 1),
        says: "the thread ends without waiting at the barrier of the cluster",
        statements: &[""],
    },
    Bug {
        what: "a part that is loaded twice, and another not at all",
        kernel: "column_parts",
        sow: |p| exprs(p, LOAD, 0, &|e| e.as_var().is_some_and(|n| n.as_str() == "ax0_7").then(|| Expr::i32(0))),
        says: "",
        statements: &["of block 0", "p1_local[0] = p1_local[0] + p1_rf_local_1["],
    },
];
