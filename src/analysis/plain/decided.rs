//! Conditions that hold for every value of their iterators, or for none, and so choose nothing.
//!
//! A function with sizes known at run time guards what it reads; with the sizes bound, the guard often always holds, and
//! what it guards is a plain element again.
//!
//! before: `y[i] = T.if_then_else(i < 4096, x[i], 0)` over `i < 1024`
//! after:  `y[i] = x[i]`

use crate::analysis::walk::{has_block, map_blocks};
use crate::analysis::{Ranges, simplify};
use crate::ir::{Block, Expr, ExprKind, PrimFunc, Stmt};

/// The function without selections whose condition is decided by the ranges of iterators.
pub fn decide(f: &PrimFunc) -> PrimFunc {
    let ranges = Ranges::of_func(f);
    let decided = |b: &Block| {
        if has_block(&b.body) {
            return None;
        }
        let mut ranges = ranges.clone();
        ranges.enter_block(b);
        let body: Vec<Stmt> = b.body.iter().map(|s| s.map_exprs(&mut |e| chosen(e, &ranges))).collect();
        Some(Stmt::Block(Block { body, ..b.clone() }))
    };
    PrimFunc { body: map_blocks(&f.body, &decided), ..f.clone() }
}

fn chosen(e: &Expr, ranges: &Ranges) -> Expr {
    let e = e.map_children(|inner: &Expr| chosen(inner, ranges));
    match e.kind() {
        ExprKind::IfThenElse { cond, then, otherwise } | ExprKind::Select { cond, then, otherwise } => {
            match simplify(cond, ranges).as_int() {
                Some(0) => otherwise.clone(),
                Some(_) => then.clone(),
                None => e,
            }
        }
        _ => e,
    }
}
