//! Which loops of a nest become iterators of the block that it is made into.

use crate::analysis::Ranges;
use crate::analysis::sound::{Site, keeps_apart, sites};
use crate::analysis::walk::fresh;
use crate::ir::{Block, Expr, For, ForKind, IterKind, IterVar, Name, PrimFunc, Stmt};
use std::collections::BTreeSet;

/// The block of some statements, in the loops that become its iterators.
pub fn block(f: &PrimFunc, name: Name, list: Vec<Stmt>, used: &mut BTreeSet<Name>) -> Stmt {
    let (loops, body) = nest(list);
    let own = chosen(f, &loops, &body);
    let mut iters: Vec<IterVar> = vec![];
    let (mut around, mut inside): (Vec<For>, Vec<For>) = (vec![], vec![]);
    for (l, own) in loops.into_iter().zip(own) {
        if own {
            let (var, dtype, extent) = (fresh(used, "v"), l.dtype, l.extent.clone());
            let min = Expr::int(0, dtype);
            iters.push(IterVar { var, dtype, min, extent, kind: IterKind::Spatial, binding: l.var_expr() });
            around.push(l);
        } else {
            inside.push(l);
        }
    }
    let value = |n: &Name| {
        let k = around.iter().position(|l| l.var == *n)?;
        let it = iters[k].var_expr();
        Some(if around[k].min.is_int(0) { it } else { it + around[k].min.clone() })
    };
    let nested = inside.into_iter().rev().fold(body, |body, l| vec![Stmt::For(For { body, ..l })]);
    let (mut allocs, mut body) = (vec![], vec![]);
    nested.iter().for_each(|s| body.extend(in_order(&s.subst(&value), &mut allocs)));
    let b = Stmt::Block(Block { allocs, ..Block::new(name, iters, body) });
    let zero = |l: &For| Expr::int(0, l.dtype);
    around.into_iter().rev().fold(b, |s, l| Stmt::For(For { min: zero(&l), kind: ForKind::Serial, body: vec![s], ..l }))
}

/// Loops around each other with nothing beside them, without their bodies, and what is in the innermost.
fn nest(mut list: Vec<Stmt>) -> (Vec<For>, Vec<Stmt>) {
    let mut loops = vec![];
    loop {
        match list.pop() {
            Some(Stmt::For(mut l)) if list.is_empty() => {
                list = std::mem::take(&mut l.body);
                loops.push(l);
            }
            last => {
                list.extend(last);
                return (loops, list);
            }
        }
    }
}

/// Which of the loops are iterators, from the outermost on.
fn chosen(f: &PrimFunc, loops: &[For], body: &[Stmt]) -> Vec<bool> {
    let whole = loops.iter().rev().fold(body.to_vec(), |body, l| vec![Stmt::For(For { body, ..l.clone() })]);
    let all = sites(&Block::new(Name::new("nest"), vec![], whole));
    let (shared, ranges) = (shared(&all, body), Ranges::of_func(f));
    let mut own: Vec<bool> = vec![];
    for (at, l) in loops.iter().enumerate() {
        // Bounds of an iterator are those of all iterations.
        let square = loops[..at].iter().all(|o| !l.extent.uses_var(&o.var) && !l.min.uses_var(&o.var));
        let before = loops[..at].iter().zip(&own).filter(|(_, own)| **own).map(|(o, _)| step(o));
        let iters: Vec<IterVar> = before.chain([step(l)]).collect();
        let iters: Vec<&IterVar> = iters.iter().collect();
        let word = l.kind == ForKind::Parallel && own.iter().all(|own| *own);
        let apart = |s: &Vec<&Site>| keeps_apart(s, &iters, &ranges) || (word && by_word(f, s));
        own.push(square && shared.iter().all(apart));
    }
    own
}

/// The accesses to each buffer that is stored to and lives longer than an iteration.
fn shared<'s>(all: &'s [Site], body: &[Stmt]) -> Vec<Vec<&'s Site>> {
    let mut private = BTreeSet::new();
    let mut note = |s: &Stmt| {
        if let Stmt::Alloc { buffer } = s {
            private.insert(buffer.clone());
        }
    };
    body.iter().for_each(|s| s.visit(&mut note));
    let stored: BTreeSet<&Name> = all.iter().filter(|s| s.is_store).map(|s| &s.buffer).collect();
    let stored = stored.into_iter().filter(|b| !private.contains(*b));
    stored.map(|b| all.iter().filter(|s| s.buffer == *b).collect()).collect()
}

/// A loop as an iterator over its range.
fn step(l: &For) -> IterVar {
    let (min, extent) = (l.min.clone(), l.extent.clone());
    IterVar { var: l.var.clone(), dtype: l.dtype, min, extent, kind: IterKind::Spatial, binding: l.var_expr() }
}

/// True where the author of a parallel loop answers for its iterations: places are data, or sizes are not known.
fn by_word(f: &PrimFunc, sites: &[&Site]) -> bool {
    let updates = |s: &&&Site| s.is_store || sites.iter().any(|o| o.is_store && s.is_where(o));
    !f.extents.is_empty()
        || (sites.iter().any(|s| s.depends_on_data()) && sites.iter().filter(|s| !updates(s)).count() == 0)
}

/// A statement of a body: its loops run in order, and its private arrays are the block's.
fn in_order(s: &Stmt, allocs: &mut Vec<Name>) -> Option<Stmt> {
    let mut list = |all: &[Stmt]| all.iter().filter_map(|s| in_order(s, allocs)).collect::<Vec<_>>();
    match s {
        Stmt::For(l) => {
            let kind = if l.kind == ForKind::Parallel { ForKind::Serial } else { l.kind };
            Some(Stmt::For(For { kind, body: list(&l.body), ..l.clone() }))
        }
        Stmt::If { cond, then, otherwise } => {
            Some(Stmt::If { cond: cond.clone(), then: list(then), otherwise: list(otherwise) })
        }
        Stmt::While { cond, body } => Some(Stmt::While { cond: cond.clone(), body: list(body) }),
        Stmt::Alloc { buffer } => {
            allocs.push(buffer.clone());
            None
        }
        s => Some(s.clone()),
    }
}
