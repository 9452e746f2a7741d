//! The loops of a tile program: their ranges are noted, and vector loops are unrolled, because the wide
//! accesses of a tile program are those of its tile calls.
//!
//! before: `vector v < 4 { A[v] = 0 }`
//! after:  `unroll v < 4 { A[v] = 0 }`

use crate::ir::Expr;
use crate::ir::device::{DKind, DStmt};
use crate::lower::nest::Nest;

/// Takes every loop in a list and the lists inside it.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    let one = |mut s: DStmt| {
        if let DStmt::For(l) = &mut s {
            nest.ranges.set_span(l.var.clone(), &Expr::i64(0), &l.extent);
            l.kind = if l.kind == DKind::Serial { DKind::Serial } else { DKind::Unrolled };
        }
        s.map_lists(|inner| run(nest, inner))
    };
    body.into_iter().map(one).collect()
}
