//! Bugs in kernels of roles whose products are issued by one thread, in tensor memory: by a block, and with scales by a pair of
//! blocks.

use super::kernels::*;
use super::{Bug, find};
use daylight::ir::instr::{Instr, Op, Sync};
use daylight::ir::kernel::KStmt;
use daylight::ir::{BinOp, Expr};

const COPY: &str = "tensor_load b0_";
const PRODUCT: &str = "tcgen05_mma";
const LOAD: &str = "tcgen05_load";

const OF_A_BLOCK: &[Bug] = &[
    Bug {
        what: "half of the bytes announced",
        kernel: "issued",
        sow: |p| number(p, "mbarrier_expect full[slot]", 0, 24576, 12288),
        says: "",
        statements: &[COPY, PRODUCT, "mbarrier_"],
    },
    Bug {
        what: "a parity that is not flipped after a round",
        kernel: "issued",
        sow: |p| remove(p, "phase_1 =", 0),
        says: "",
        statements: &[COPY, PRODUCT, "mbarrier_wait empty["],
    },
    Bug {
        what: "a slot given back before its products are issued",
        kernel: "issued",
        sow: |p| move_before(p, "tcgen05_commit empty", "b0_result_tensor[0] = tcgen05_mma"),
        says: "",
        statements: &[COPY, PRODUCT],
    },
    Bug {
        what: "a slot filled without waiting for it",
        kernel: "issued",
        sow: |p| remove(p, "mbarrier_wait empty[slot]", 0),
        says: "",
        statements: &[COPY, PRODUCT, "mbarrier_expect full["],
    },
    Bug {
        what: "products of a slot that is not full",
        kernel: "issued",
        sow: |p| remove(p, "mbarrier_wait full[slot_1]", 0),
        says: "",
        statements: &[COPY, PRODUCT],
    },
    Bug {
        what: "sums read before they are done",
        kernel: "issued",
        sow: |p| remove(p, "mbarrier_wait done", 0),
        says: "",
        statements: &[LOAD],
    },
    Bug {
        what: "sums that are said to be done before the last products",
        kernel: "issued",
        sow: |p| edit(p, "tcgen05_commit done", 0, |s| vec![arrival_of(s)]),
        says: "",
        statements: &[LOAD],
    },
    Bug {
        what: "no fence before sums are read",
        kernel: "issued",
        sow: |p| remove(p, "tcgen05_fence_after", 0),
        says: "no fence after the barrier stands before this access",
        statements: &[LOAD],
    },
    Bug {
        what: "sums used before they are in registers",
        kernel: "issued",
        sow: |p| remove(p, "tcgen05_wait_loads", 0),
        says: "which an unfinished matrix instruction uses",
        statements: &["p2_pair["],
    },
    Bug {
        what: "a warp that reads the lanes of the next",
        kernel: "issued",
        sow: |p| {
            exprs(p, LOAD, 0, &|e| {
                (*e == thread("x")).then(|| Expr::binary(BinOp::BitXor, e.clone(), Expr::int(32, e.dtype())))
            });
        },
        says: "this one reaches lanes",
        statements: &[LOAD],
    },
    Bug {
        what: "columns given back before all have read them",
        kernel: "issued",
        sow: |p| remove(p, "barrier block", 2),
        says: "",
        statements: &["tcgen05_dealloc", LOAD, PRODUCT],
    },
    Bug {
        what: "columns that are not given back",
        kernel: "issued",
        sow: |p| remove(p, "tcgen05_dealloc", 0),
        says: "columns not given back",
        statements: &["tcgen05_alloc"],
    },
    Bug {
        what: "barriers that are waited for before they are made",
        kernel: "issued",
        sow: |p| remove(p, "barrier block", 1),
        says: "is used before it is made a barrier",
        statements: &["mbarrier_wait", "mbarrier_expect"],
    },
];

const OF_A_PAIR: &[Bug] = &[
    Bug {
        what: "scales that are on their way when they are said to be there",
        kernel: "scaled_pair",
        sow: |p| remove(p, "cp_async_wait", 0),
        says: "",
        statements: &["tcgen05_copy_scales", "cp_async4"],
    },
    Bug {
        what: "no fence of the asynchronous proxy after scales have come",
        kernel: "scaled_pair",
        sow: |p| remove(p, "async_fence", 0),
        says: "with no asynchronous fence after it",
        statements: &["tcgen05_copy_scales"],
    },
    Bug {
        what: "scales of lanes that have not met their warp",
        kernel: "scaled_pair",
        sow: |p| remove(p, "barrier warp", 0),
        says: "",
        statements: &["tcgen05_copy_scales"],
    },
    Bug {
        what: "the first block does not know of the second's scales",
        kernel: "scaled_pair",
        sow: |p| {
            edit(p, "mbarrier_init full", 0, |s| fewer(s, 2));
            edit(p, "mbarrier_init full", 1, |s| fewer(s, 2));
            edit(p, "mbarrier_init full", 2, |s| fewer(s, 2));
        },
        says: "",
        statements: &["tcgen05_copy_scales", "mbarrier_", "cp_async4"],
    },
    Bug {
        what: "the second block says to itself that its scales are there",
        kernel: "scaled_pair",
        sow: |p| {
            for nth in 0..3 {
                edit(p, "mbarrier_arrive full", nth, |s| vec![arrival_of(s)]);
            }
        },
        says: "deadlock",
        statements: &["mbarrier_wait"],
    },
    Bug {
        what: "the second block fills a slot that it has not been given back",
        kernel: "scaled_pair",
        sow: |p| edit(p, "mbarrier_wait empty[slot]", 0, |s| vec![of_first_block(s)]),
        says: "",
        statements: &["tensor_load p0_shared", "tensor_load p2_shared", PRODUCT, "a commit arrives at"],
    },
    Bug {
        what: "the second block's warps bring scales to a slot that they have not been given back",
        kernel: "scaled_pair",
        sow: |p| edit(p, "mbarrier_wait empty[slot_2]", 0, |s| vec![of_first_block(s)]),
        says: "",
        statements: &["cp_async4", "tcgen05_copy_scales", "mbarrier_arrive full["],
    },
    Bug {
        what: "a block that ends before the last commits arrive in it",
        kernel: "scaled_pair",
        sow: |p| remove(p, "for int32 each", 0),
        says: "no thread of which waits for it",
        statements: &["tcgen05_commit"],
    },
    Bug {
        what: "blocks of a pair that have not met",
        kernel: "scaled_pair",
        sow: |p| no_meeting(p, 1),
        says: "",
        statements: &["mbarrier_", "tensor_load", "tcgen05_"],
    },
];

/// An arrival of the thread in its own block, at the barrier of a statement.
fn arrival_of(s: &KStmt) -> KStmt {
    match s {
        KStmt::Instr(i) => KStmt::Instr(Instr::new(Sync::MbarrierArrive, [i.places[0].clone()], [])),
        other => panic!("{other:?} is no instruction"),
    }
}

/// A barrier of so many arrivals less.
fn fewer(s: &KStmt, less: u32) -> Vec<KStmt> {
    match s {
        KStmt::Instr(Instr { op: Op::Sync(Sync::MbarrierInit { arrivals }), places, .. }) => {
            vec![KStmt::Instr(Instr::new(Sync::MbarrierInit { arrivals: arrivals - less }, places.clone(), []))]
        }
        other => panic!("{other:?} makes no barrier"),
    }
}

/// What the first block alone does.
fn of_first_block(s: &KStmt) -> KStmt {
    let rank = Expr::var("rank", daylight::ir::DType::I32);
    let cond = Expr::binary(BinOp::Eq, rank, Expr::i32(0));
    KStmt::If { cond, then: vec![s.clone()], otherwise: vec![] }
}

#[test]
fn bugs_in_products_of_one_thread_are_found() {
    find(OF_A_BLOCK);
}

#[test]
fn bugs_in_products_of_a_pair_are_found() {
    find(OF_A_PAIR);
}
