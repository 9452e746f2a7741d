//! What is known about the variables at a place, and simplification with it.

use crate::analysis::{Ranges, simplify};
use crate::ir::{Name, PrimFunc, Stmt};

/// What is known about every loop variable and iterator of the function; names are unique, so
/// one table serves for all places.
pub fn everywhere(func: &PrimFunc) -> Ranges {
    let mut ranges = Ranges::of_func(func);
    func.visit(&mut |s| enter(s, &mut ranges));
    ranges
}

/// What is known around the loop or block `name` (itself left out).
pub fn around(func: &PrimFunc, name: &Name) -> Ranges {
    let mut ranges = Ranges::of_func(func);
    let path = super::tree::path(func, name).unwrap_or_default();
    path.iter().rev().skip(1).rev().for_each(|s| enter(s, &mut ranges));
    ranges
}

fn enter(s: &Stmt, ranges: &mut Ranges) {
    match s {
        Stmt::For(l) => ranges.enter_loop(l),
        Stmt::Block(b) => ranges.enter_block(b),
        Stmt::If { .. }
        | Stmt::While { .. }
        | Stmt::Store { .. }
        | Stmt::Let { .. }
        | Stmt::Evaluate(_)
        | Stmt::Attr { .. }
        | Stmt::Alloc { .. } => {}
    }
}

/// Simplifies what places blocks: loop extents, block bindings and guards. Bodies of blocks are
/// left as they are. `ranges` is what is known around `stmt`.
pub fn simplify_control(stmt: &mut Stmt, ranges: &Ranges) {
    match stmt {
        Stmt::For(l) => {
            l.extent = simplify(&l.extent, ranges);
            let mut inner = ranges.clone();
            inner.enter_loop(l);
            l.body.iter_mut().for_each(|s| simplify_control(s, &inner));
        }
        Stmt::Block(b) => {
            b.iters.iter_mut().for_each(|it| it.binding = simplify(&it.binding, ranges));
            b.guard = b.guard.take().map(|g| simplify(&g, ranges)).filter(|g| !g.is_int(1));
        }
        Stmt::If { then, otherwise, .. } => {
            then.iter_mut().chain(otherwise).for_each(|s| simplify_control(s, ranges));
        }
        Stmt::While { body, .. } | Stmt::Attr { body, .. } => {
            body.iter_mut().for_each(|s| simplify_control(s, ranges));
        }
        Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Evaluate(_) | Stmt::Alloc { .. } => {}
    }
}
