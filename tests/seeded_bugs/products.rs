//! Bugs in products of warpgroups whose first operand each step decodes into registers.

use super::kernels::*;
use super::{Bug, find};

const WORDS: &[Bug] = &[
    Bug {
        what: "registers of an operand written while products read them",
        kernel: "words",
        sow: |p| remove(p, "wgmma_wait 0", 0),
        says: "which an unfinished matrix instruction uses",
        statements: &["b0_right["],
    },
    Bug {
        what: "no fence after registers of an operand were written",
        kernel: "words",
        sow: |p| remove(p, "wgmma_fence", 0),
        says: "no fence after it",
        statements: &["wgmma.m64n48k16"],
    },
    Bug {
        what: "a slot given back by the first warp alone",
        kernel: "words",
        sow: |p| {
            arrivals(p, 1);
            number(p, "if threadIdx.x % 32 == 0", 0, 32, 128);
        },
        says: "race: nothing orders",
        statements: &["tensor_load p1_shared["],
    },
    Bug {
        what: "a slot given back by a warp whose lanes have not met",
        kernel: "words",
        sow: |p| remove(p, "barrier warp", 0),
        says: "race: nothing orders",
        statements: &["tensor_load p1_shared["],
    },
    Bug {
        what: "an arrival too few for a slot to be given back",
        kernel: "words",
        sow: |p| arrivals(p, 5),
        says: "deadlock",
        statements: &["mbarrier_wait full[", "mbarrier_wait empty["],
    },
];

#[test]
fn bugs_in_products_of_registers_are_found() {
    find(WORDS);
}
