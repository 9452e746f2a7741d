//! What `compute_at` and `reverse_compute_at` share: what may move, and where it lands.

use super::{regions, tree};
use crate::ir::{BinOp, Block, Expr, ExprKind, IterKind, Name, PrimFunc, Stmt};
use crate::schedule::{Draft, Failure};

/// Fails with `complete_or_reduction_block` unless the block computes whole elements from its
/// iterators: spatial iterators and an init for its reduction iterators, no blocks inside.
pub fn check_block(block: &Block) -> Result<(), Failure> {
    let fail = |why: &str| Err(Failure::new("complete_or_reduction_block", &block.name, why));
    if block.iters.iter().any(|it| it.kind == IterKind::Opaque) {
        return fail("it has an opaque iterator");
    }
    if block.iters.iter().any(|it| !it.min.is_int(0)) {
        return fail("an iterator does not start at 0");
    }
    if block.iters.iter().any(|it| it.kind == IterKind::Reduce) && block.init.is_empty() {
        return fail("it reduces without an init; move it before decomposing it");
    }
    let mut inner = false;
    block.body.iter().for_each(|s| s.visit(&mut |s| inner |= matches!(s, Stmt::Block(_))));
    if inner || !block.matches.is_empty() {
        return fail("it holds other blocks or aliases");
    }
    Ok(())
}

/// The one buffer that a block writes, or `one_output`.
pub fn output(block: &Block) -> Result<Name, Failure> {
    let written = tree::writes(block);
    let mut names = written.into_iter();
    match (names.next(), names.next()) {
        (Some(name), None) => Ok(name),
        _ => Err(Failure::new("one_output", &block.name, "it does not write exactly one buffer")),
    }
}

/// Fails with `plain_nest` where something else than loops lies around the block.
pub fn check_plain(d: &Draft, block: &Name) -> Result<(), Failure> {
    let path = tree::path(&d.func, block).unwrap_or_default();
    let plain = path.iter().rev().skip(1).all(|s| matches!(s, Stmt::For(_)));
    Failure::unless(plain, "plain_nest", block, || "something else than loops is around the block".to_string())
}

/// True when `block` lies under loop `at`.
pub fn is_under(func: &PrimFunc, block: &Name, at: &Name) -> bool {
    tree::loops_around(func, block).iter().any(|l| l.var == *at)
}

/// Fails with `block_outside_loop` where the block already lies under the loop.
pub fn check_outside(d: &Draft, block: &Name, at: &Name) -> Result<(), Failure> {
    Failure::unless(!is_under(&d.func, block, at), "block_outside_loop", block, || {
        format!("it already lies under loop `{at}`")
    })
}

/// Fails with `reduction_inside` where a loop at or outside `at` feeds a reduction of `block`,
/// which is then not complete inside `at`.
pub fn check_reduction_inside(d: &Draft, block: &Block, at: &Name) -> Result<(), Failure> {
    let around = tree::loops_around(&d.func, &block.name);
    let end = around.iter().position(|l| l.var == *at).map_or(0, |i| i + 1);
    regions::loops_feeding(block, IterKind::Reduce, &around[..end]).first().map_or(Ok(()), |l| {
        let why = format!("its reduction loop `{l}` is not inside `{at}`, so the result is not complete there");
        Err(Failure::new("reduction_inside", &block.name, why))
    })
}

/// The iterator that an index is, with what is added to it: `v + c`, or `c` without a variable.
pub fn shifted_iter<'a>(block: &'a Block, index: &Expr) -> Option<(&'a Name, Expr)> {
    let zero = || Expr::int(0, index.dtype());
    let iter = |e: &Expr| block.as_iter(e).map(|it| &it.var);
    if let Some(v) = iter(index) {
        return Some((v, zero()));
    }
    let ExprKind::Binary { op, a, b } = index.kind() else { return None };
    let free = |e: &Expr| !block.iters.iter().any(|it| e.uses_var(&it.var));
    match op {
        BinOp::Add if free(b) => iter(a).map(|v| (v, b.clone())),
        BinOp::Add if free(a) => iter(b).map(|v| (v, a.clone())),
        BinOp::Sub if free(b) => iter(a).map(|v| (v, zero() - b.clone())),
        _ => None,
    }
}
