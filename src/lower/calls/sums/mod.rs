//! Sums of a block's product that its registers alone do not hold while products go on.

pub mod in_tensor;
pub mod in_two;

use crate::ir::Name;
use crate::ir::device::DStmt;

/// Statements with some before and after the one that the products into `d` stand in.
fn around(body: Vec<DStmt>, d: &Name, [before, after]: [Vec<DStmt>; 2]) -> Vec<DStmt> {
    let multiplies = |s: &DStmt| {
        let mut found = false;
        s.visit(&mut |s| found |= matches!(s, DStmt::Tile(call) if call.dst.buffer == *d));
        found
    };
    let with = |s: DStmt| match multiplies(&s) {
        true => [&before[..], &[s], &after].concat(),
        false => vec![s],
    };
    body.into_iter().flat_map(with).collect()
}
