//! Reductions inside of spatial blocks, as adaptive pooling has them, as one block each: all outputs take as many
//! steps as the longest reduction, and steps beyond an output's own add nothing.
//!
//! The outer block may reduce over axes of its own, as pools do whose windows are alike along some axes; it then has
//! the init.
//!
//! before: `b0: v0 = i; for k in n(v0): b1: v1 = v0, v2 = k of n(v0); y[v1] = y[v1] + x[v2]`
//! after:  `for k in most: b1: v0 = i, v2 = k of most; y[v0] = y[v0] + if_then_else(v2 < n(v0), x[v2], 0)`

use crate::analysis::walk::map_blocks;
use crate::analysis::{Combiner, Ranges, simplify};
use crate::ir::{BinOp, Block, Expr, ExprKind, For, ForKind, IterKind, IterVar, Name, PrimFunc, Stmt};

/// Outputs whose own reductions are counted to find the longest.
const MOST_OUTPUTS: i64 = 1 << 14;

/// The function with reductions inside of blocks as blocks, where they have this form.
pub fn unnest(f: &PrimFunc) -> PrimFunc {
    PrimFunc { body: map_blocks(&f.body, &one), ..f.clone() }
}

/// The loops and the block that an outer block becomes.
fn one(outer: &Block) -> Option<Stmt> {
    let plain = outer.matches.is_empty() && outer.allocs.is_empty() && outer.guard.is_none();
    let known = outer.iters.iter().all(|i| i.kind != IterKind::Opaque && i.min.is_int(0));
    let (loops, inner) = nest(&outer.body).filter(|_| plain && known)?;
    let init = start(outer, inner)?;
    let drives = |l: &For, it: &IterVar| it.binding.uses_var(&l.var);
    let (reduced, fixed): (Vec<&IterVar>, Vec<&IterVar>) =
        inner.iters.iter().partition(|it| loops.iter().any(|l| drives(l, it)));
    let (mut iters, mut steps, mut inside) = (outer.iters.clone(), vec![], vec![]);
    for it in &reduced {
        let own = loops.iter().find(|l| it.binding.as_var() == Some(&l.var));
        let l = own.filter(|_| it.kind == IterKind::Reduce && it.min.is_int(0))?;
        let most = longest(&it.extent, &outer.iters)?;
        inside.extend((!it.extent.is_int(most)).then(|| Expr::binary(BinOp::Lt, it.var_expr(), it.extent.clone())));
        steps.push((l.var.clone(), Expr::int(most, l.dtype)));
        iters.push(IterVar { extent: Expr::int(most, it.dtype), ..(*it).clone() });
    }
    let reduces = |e: &Expr| outer.as_iter(e).is_some_and(|it| it.kind == IterKind::Reduce);
    let of_outer = |it: &&IterVar| it.kind == IterKind::Spatial || reduces(&it.binding);
    let all = steps.len() == loops.len() && fixed.iter().all(of_outer);
    let body = guarded(inner, init, inside).filter(|_| all)?;
    // An iterator that no loop inside drives has one value.
    let value = |n: &Name| fixed.iter().find(|it| it.var == *n).map(|it| it.binding.clone());
    let placed = |list: &[Stmt]| list.iter().map(|s| s.subst(&value)).collect();
    let (init, body) = (placed(init), placed(&[body]));
    let block = Block { iters, regions: None, init, body, ..inner.clone() };
    Some(steps.into_iter().rev().fold(Stmt::Block(block), |s, (var, n)| Stmt::For(For::serial(var, n, vec![s]))))
}

/// The init of the reduction: that of the inner block under spatial iterators alone, else that of the outer one.
fn start<'a>(outer: &'a Block, inner: &'a Block) -> Option<&'a [Stmt]> {
    let reduces = outer.iters.iter().any(|it| it.kind == IterKind::Reduce);
    let (mine, other) = if reduces { (outer, inner) } else { (inner, outer) };
    (!mine.init.is_empty() && other.init.is_empty()).then_some(&mine.init)
}

/// Serial loops and the reduction in them, where nothing else is there.
fn nest(body: &[Stmt]) -> Option<(Vec<&For>, &Block)> {
    match body {
        [Stmt::Block(b)] => (b.guard.is_none() && b.matches.is_empty()).then_some((vec![], b)),
        [Stmt::For(l)] if l.kind == ForKind::Serial && l.min.is_int(0) => {
            let (loops, b) = nest(&l.body)?;
            Some(([vec![l], loops].concat(), b))
        }
        _ => None,
    }
}

/// The largest value of an extent over all values of the iterators.
fn longest(extent: &Expr, iters: &[IterVar]) -> Option<i64> {
    let used: Vec<(&Name, i64)> = iters
        .iter()
        .filter(|it| extent.uses_var(&it.var))
        .map(|it| Some((&it.var, it.extent.as_int()?)))
        .collect::<Option<_>>()?;
    let outputs = used.iter().try_fold(1i64, |n, (_, extent)| n.checked_mul(*extent))?;
    let value = |mut number: i64| {
        let mut at = vec![];
        for (name, n) in &used {
            at.push((*name, number % n));
            number /= n;
        }
        let digit = |n: &Name| at.iter().find(|(name, _)| *name == n).map(|(_, v)| Expr::int(*v, extent.dtype()));
        simplify(&extent.subst(&digit), &Ranges::default()).as_int()
    };
    let all = (0..outputs.min(MOST_OUTPUTS + 1)).map(value).collect::<Option<Vec<i64>>>()?;
    all.into_iter().max().filter(|n| outputs <= MOST_OUTPUTS && *n > 0)
}

/// The update of the reduction, which adds nothing where a condition does not hold.
fn guarded(b: &Block, init: &[Stmt], conditions: Vec<Expr>) -> Option<Stmt> {
    let ([update], [Stmt::Store { value: start, .. }]) = (&b.body[..], init) else { return None };
    let Some(cond) = conditions.into_iter().reduce(|a, b| Expr::binary(BinOp::And, a, b)) else {
        return Some(update.clone());
    };
    let Stmt::Store { buffer, indices, value } = update else { return None };
    let ExprKind::Binary { op, a, b } = value.kind() else { return None };
    let is_own = |e: &Expr| e.is_element(buffer, indices);
    let (own, term) = if is_own(a) { (a, b) } else { (b, a) };
    let neutral = is_own(own) && Combiner::of(*op)?.neutral(start);
    let (then, otherwise) = (term.clone(), start.clone());
    let term = Expr::new(ExprKind::IfThenElse { cond, then, otherwise });
    let value = Expr::binary(*op, own.clone(), term);
    neutral.then(|| Stmt::Store { buffer: buffer.clone(), indices: indices.clone(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_of_windows_of_several_sizes_is_one_block() {
        let text = "@T.prim_func(s_tir=True)
def main(x: T.Buffer((13,), \"float32\"), y: T.Buffer((5,), \"float32\")):
    for i in range(5):
        with T.sblock(\"outer\"):
            v = T.axis.spatial(5, i)
            for k in range((v * 13 + 17) // 5 - v * 13 // 5):
                with T.sblock(\"sum\"):
                    w = T.axis.spatial((v, v + 1), v)
                    r = T.axis.reduce((v * 13 + 17) // 5 - v * 13 // 5, k)
                    with T.init():
                        y[w] = T.float32(0)
                    y[w] = y[w] + x[w * 13 // 5 + r]
";
        let f = crate::ir::read(text, "pool").expect("reads").remove(0);
        let text = unnest(&f).to_string();
        let update =
            "y[v] = y[v] + T.if_then_else(r < (v * 13 + 17) // 5 - v * 13 // 5, x[v * 13 // 5 + r], T.float32(0.0))";
        assert!(text.contains(update) && text.contains("for i, k in T.grid(5, 4):"), "{text}");
        assert!(crate::analysis::refuse(&unnest(&f)).is_ok(), "{text}");
    }

    #[test]
    fn an_outer_block_that_reduces_has_the_init() {
        let text = "@T.prim_func(s_tir=True)
def main(x: T.Buffer((3, 2, 13), \"float32\"), y: T.Buffer((3, 5), \"float32\")):
    for a, i, b in T.grid(3, 5, 2):
        with T.sblock(\"outer\"):
            va, v, vb = T.axis.remap(\"SSR\", [a, i, b])
            with T.init():
                y[va, v] = T.float32(0)
            for k in range((v * 13 + 17) // 5 - v * 13 // 5):
                with T.sblock(\"sum\"):
                    wa = T.axis.spatial((va, va + 1), va)
                    w = T.axis.spatial((v, v + 1), v)
                    wb = T.axis.reduce((vb, vb + 1), vb)
                    r = T.axis.reduce((v * 13 + 17) // 5 - v * 13 // 5, k)
                    y[wa, w] = y[wa, w] + x[wa, wb, w * 13 // 5 + r]
";
        let f = unnest(&crate::ir::read(text, "pool").expect("reads").remove(0));
        let text = f.to_string();
        assert!(text.contains("for a, i, b, k in T.grid(3, 5, 2, 4):") && text.contains("T.init()"), "{text}");
        assert!(crate::analysis::refuse(&f).is_ok(), "{text}");
    }
}
