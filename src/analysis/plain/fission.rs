//! Loops of its own for each block that stands under a condition or shares its loops with others, as appending to a cache
//! does; the condition moves into the block.
//!
//! before: `for i, j: if p[i] != -1: { block a(v0 = i, v1 = j): x[p[v0], v1] = ..; block b(v2 = i, v3 = j): y[p[v2], v3] = .. }`
//! after:  `for i, j: block a(v0 = i, v1 = j): if p[v0] != -1: x[p[v0], v1] = ..`
//!         `for l0, l1: block b(v2 = l0, v3 = l1): if p[v2] != -1: y[p[v2], v3] = ..`

use crate::analysis::access::{reads, writes};
use crate::analysis::walk::{fresh, names};
use crate::ir::{Block, Expr, For, ForKind, IterVar, Name, PrimFunc, Stmt};
use std::collections::BTreeSet;

/// The function in which no block stands under a condition, and blocks that do not depend on each other share no
/// loops, where they have this form.
pub fn fission(f: &PrimFunc) -> PrimFunc {
    let mut used = names(f);
    let body = f.body.iter().flat_map(|s| separated(s, &mut used).unwrap_or_else(|| vec![s.clone()]));
    PrimFunc { body: body.collect(), ..f.clone() }
}

/// What is around a block.
#[derive(Clone, Default)]
struct Around<'a> {
    loops: Vec<&'a For>,
    conditions: Vec<&'a Expr>,
}

type Piece<'a> = (Around<'a>, &'a Block);

/// The statements that one becomes; `None` where nothing is to do, or nothing can be done.
fn separated(s: &Stmt, used: &mut BTreeSet<Name>) -> Option<Vec<Stmt>> {
    let mut pieces = vec![];
    collect(s, &Around::default(), &mut pieces)?;
    let is_own = pieces.len() < 2 && pieces.iter().all(|(around, _)| around.conditions.is_empty());
    if is_own || !independent(&pieces) {
        return None;
    }
    pieces.iter().enumerate().map(|(n, piece)| alone(piece, n > 0, used)).collect()
}

/// The blocks in plain loops and conditions; `None` where there is anything else.
fn collect<'a>(s: &'a Stmt, around: &Around<'a>, found: &mut Vec<Piece<'a>>) -> Option<()> {
    let mut inner = around.clone();
    match s {
        Stmt::For(l) if l.kind == ForKind::Serial && l.annotations.is_empty() => {
            inner.loops.push(l);
            l.body.iter().try_for_each(|s| collect(s, &inner, found))
        }
        Stmt::If { cond, then, otherwise } if otherwise.is_empty() => {
            inner.conditions.push(cond);
            then.iter().try_for_each(|s| collect(s, &inner, found))
        }
        Stmt::Block(b) => {
            found.push((inner, b));
            Some(())
        }
        _ => None,
    }
}

/// True where no block reads or stores what another stores, and no condition reads it.
fn independent(pieces: &[Piece]) -> bool {
    let stored = |b: &Block| writes(b).into_iter().map(|w| w.buffer).collect::<Vec<Name>>();
    let touched = |b: &Block| reads(b).into_iter().map(|r| r.buffer).chain(stored(b)).collect::<Vec<Name>>();
    pieces.iter().enumerate().all(|(n, (_, block))| {
        let mine = stored(block);
        let others = pieces.iter().enumerate().filter(|(m, _)| *m != n);
        let apart = others.into_iter().all(|(_, (_, o))| touched(o).iter().all(|b| !mine.contains(b)));
        let decided = pieces.iter().flat_map(|(around, _)| &around.conditions);
        apart && decided.into_iter().all(|c| mine.iter().all(|b| !c.loads(b)))
    })
}

/// A block in its loops, which get other names if `renamed`, with its conditions inside.
fn alone((around, block): &Piece, renamed: bool, used: &mut BTreeSet<Name>) -> Option<Stmt> {
    let block = guarded(block, around)?;
    let vars: Vec<(&For, Name)> =
        around.loops.iter().map(|l| (*l, if renamed { fresh(used, "l") } else { l.var.clone() })).collect();
    let other = |n: &Name| {
        let (l, var) = vars.iter().find(|(l, _)| l.var == *n)?;
        Some(Expr::var(var.clone(), l.dtype))
    };
    let nest = vars.iter().rev();
    let all =
        nest.fold(Stmt::Block(block), |s, (l, var)| Stmt::For(For { var: var.clone(), body: vec![s], ..(*l).clone() }));
    Some(if renamed { all.subst(&other) } else { all })
}

/// The block with the conditions around it inside, over its iterators.
fn guarded(block: &Block, around: &Around) -> Option<Block> {
    if around.conditions.is_empty() {
        return Some(block.clone());
    }
    let iterator = |n: &Name| block.iters.iter().find(|it| it.binding.as_var() == Some(n)).map(IterVar::var_expr);
    let plain = block.init.is_empty() && block.guard.is_none() && block.matches.is_empty();
    let bound = |c: &&Expr| around.loops.iter().all(|l| !c.uses_var(&l.var) || iterator(&l.var).is_some());
    if !plain || !around.conditions.iter().all(bound) {
        return None;
    }
    let under = |then, c: &&Expr| vec![Stmt::If { cond: c.subst(&iterator), then, otherwise: vec![] }];
    let body = around.conditions.iter().rev().fold(block.body.clone(), under);
    Some(Block { body, regions: None, ..block.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> PrimFunc {
        let text = format!(
            "@T.prim_func(s_tir=True)\ndef main(p: T.Buffer((4,), \"int32\"), a: T.Buffer((4, 8), \"float32\"), \
             x: T.Buffer((9, 8), \"float32\"), y: T.Buffer((9, 8), \"float32\")):\n{body}"
        );
        crate::ir::read(&text, "t.py").expect("reads").remove(0)
    }

    const BOTH: &str = "    for i, j in T.grid(4, 8):
        if p[i] != -1:
            with T.sblock(\"x\"):
                vi, vj = T.axis.remap(\"SS\", [i, j])
                x[p[vi], vj] = a[vi, vj]
            with T.sblock(\"y\"):
                vi, vj = T.axis.remap(\"SS\", [i, j])
                y[p[vi], vj] = a[vi, vj]
";

    #[test]
    fn blocks_under_one_condition_get_it_and_loops_each() {
        let text = fission(&read(BOTH)).to_string();
        assert_eq!(text.matches("for ").count(), 2, "{text}");
        assert_eq!(text.matches("if p[v").count(), 2, "{text}");
    }

    #[test]
    fn what_depends_on_the_other_stays() {
        for (from, to) in [("y[p[vi], vj] = a[vi, vj]", "y[p[vi], vj] = x[0, vj]"), ("x[p[vi], vj]", "p[vi]")] {
            let f = read(&BOTH.replace(from, to).replace("p[vi] = a[vi, vj]", "p[vi] = 0"));
            assert_eq!(fission(&f).to_string(), f.to_string());
        }
    }
}
