//! Bugs in what blocks of a cluster copy for each other.

use super::Bug;
use super::kernels::*;
use daylight::ir::instr::{Instr, Landing, Op};
use daylight::ir::kernel::KStmt;

const SHARED: &str = "tensor_load b0_right[";
const GIVEN_BACK: &str = "mbarrier_arrive empty[prev] of block";

pub const BUGS: &[Bug] = &[
    Bug {
        what: "a slot that one of two blocks gives back",
        kernel: "neighbours",
        sow: |p| arrivals(p, 1),
        says: "",
        statements: &["tensor_load b0_", GIVEN_BACK, "mbarrier_wait full["],
    },
    Bug {
        what: "a slot that each block gives back to the first alone",
        kernel: "neighbours",
        sow: |p| in_place_of(p, GIVEN_BACK, "threadIdx.x", 0),
        says: "",
        statements: &["tensor_load b0_", GIVEN_BACK, "mbarrier_wait full["],
    },
    Bug {
        what: "a slot that is given back to no other block",
        kernel: "neighbours",
        sow: |p| number(p, "if 0 < i2_0 && threadIdx.x % 128 < 2", 0, 2, 1),
        says: "",
        statements: &["mbarrier_wait full[", "mbarrier_wait empty["],
    },
    Bug {
        what: "barriers that another block may not have made yet",
        kernel: "neighbours",
        sow: |p| no_meeting(p, 0),
        says: "is used before it is made a barrier",
        statements: &["mbarrier_wait full[", "mbarrier_wait empty["],
    },
    Bug {
        what: "a block that ends while another gives slots back to it",
        kernel: "neighbours",
        sow: |p| no_meeting(p, 1),
        says: "the thread ends after an access to another block",
        statements: &[""],
    },
    Bug {
        what: "two blocks that copy the same part of a box",
        kernel: "neighbours",
        sow: |p| in_place_of(p, SHARED, "rank", 0),
        says: "",
        statements: &[SHARED],
    },
    Bug {
        what: "bytes of a block's own copies alone",
        kernel: "neighbours",
        sow: |p| number(p, "mbarrier_expect full[slot]", 0, 16384, 12288),
        says: "",
        statements: &["tensor_load b0_", "wgmma", "mbarrier_"],
    },
    Bug {
        what: "a part of a box that lands in one block",
        kernel: "neighbours",
        sow: |p| {
            edit(p, SHARED, 0, |s| match s {
                KStmt::Instr(i) => {
                    let map = i.op.map().expect("a map").clone();
                    let op = Op::TensorLoad { map, to: Landing::Own };
                    vec![KStmt::Instr(Instr { op, ..i.clone() })]
                }
                other => panic!("{other:?} loads no box"),
            });
        },
        says: "deadlock",
        statements: &["mbarrier_wait full["],
    },
];
