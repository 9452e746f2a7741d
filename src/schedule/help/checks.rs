//! Preconditions that several primitives share.

use super::tree;
use crate::ir::{Block, Expr, For, ForKind, IterKind, Name, PrimFunc, Stmt};
use crate::schedule::Failure;
use std::collections::BTreeSet;

/// `serial_loop`: the loop was not yet bound, vectorised, unrolled or made parallel.
pub fn serial_loop(l: &For) -> Result<(), Failure> {
    let how = match l.kind {
        ForKind::Serial => return Ok(()),
        ForKind::Parallel => "parallel",
        ForKind::Vectorized => "vectorized",
        ForKind::Unrolled => "unrolled",
        ForKind::Thread(tag) => &format!("bound to {}", tag.name()),
    };
    let why = format!("loop `{}` is already {how}; take this step before that one", l.var);
    Err(Failure::new("serial_loop", &l.var, why))
}

/// `no_annotations`: nothing would be lost when the loop is replaced.
pub fn no_annotations(l: &For) -> Result<(), Failure> {
    l.annotations.first().map_or(Ok(()), |(key, _)| {
        let why = format!("loop `{}` is annotated with \"{key}\"; annotate the loops that replace it instead", l.var);
        Err(Failure::new("no_annotations", &l.var, why))
    })
}

/// `zero_min`: the loop starts at 0.
pub fn zero_min(l: &For) -> Result<(), Failure> {
    Failure::unless(l.min.is_int(0), "zero_min", &l.var, || {
        format!("loop `{}` starts at {}, not at 0; normalize the function first", l.var, l.min)
    })
}

/// `serial_loop`, `no_annotations` and `zero_min`: the loop may be replaced by others.
pub fn replaceable(l: &For) -> Result<(), Failure> {
    serial_loop(l)?;
    no_annotations(l)?;
    zero_min(l)
}

/// `blocks_below`: under the loop stand loops and blocks only.
pub fn blocks_below(l: &For) -> Result<(), Failure> {
    fn only_blocks(list: &[Stmt]) -> bool {
        list.iter().all(|s| match s {
            Stmt::For(l) => only_blocks(&l.body),
            Stmt::Block(_) => true,
            Stmt::If { .. }
            | Stmt::While { .. }
            | Stmt::Store { .. }
            | Stmt::Let { .. }
            | Stmt::Evaluate(_)
            | Stmt::Attr { .. }
            | Stmt::Alloc { .. } => false,
        })
    }
    Failure::unless(only_blocks(&l.body), "blocks_below", &l.var, || {
        format!("loop `{}` holds statements outside of blocks, which this step cannot move", l.var)
    })
}

/// The blocks under a loop that are in no other block under it.
pub fn outer_blocks(l: &For) -> Vec<&Block> {
    tree::outermost(&l.body)
}

/// `known_iterators`: the blocks under the loop have spatial and reduction iterators only.
pub fn known_iterators(l: &For) -> Result<(), Failure> {
    for b in outer_blocks(l) {
        if let Some(it) = b.iters.iter().find(|it| it.kind == IterKind::Opaque) {
            let why = format!("iterator `{}` of block `{}` is neither spatial nor a reduction", it.var, b.name);
            return Err(Failure::new("known_iterators", &b.name, why));
        }
    }
    Ok(())
}

/// `spatial_only`: no reduction under the loop runs along it.
pub fn spatial_only(l: &For) -> Result<(), Failure> {
    for b in outer_blocks(l) {
        let along = |kind| b.iters.iter().find(|it| it.kind == kind && it.binding.uses_var(&l.var));
        if let Some(it) = along(IterKind::Reduce) {
            let why = format!(
                "block `{}` reduces along loop `{}` (iterator `{}`); rfactor the loop first",
                b.name, l.var, it.var
            );
            return Err(Failure::new("spatial_only", &l.var, why));
        }
    }
    Ok(())
}

/// `loops_separate`: no block with an init under `l` has spatial and reduction iterators that run
/// along `along` alike; its init would come at a different time for each element.
pub fn loops_separate(l: &For, along: &For) -> Result<(), Failure> {
    for b in outer_blocks(l).into_iter().filter(|b| !b.init.is_empty()) {
        let feeds = |kind| b.iters.iter().any(|it| it.kind == kind && it.binding.uses_var(&along.var));
        let mixed = feeds(IterKind::Spatial) && feeds(IterKind::Reduce);
        Failure::unless(!mixed, "loops_separate", &along.var, || {
            format!(
                "loop `{}` drives spatial and reduction iterators of block `{}`; fuse spatial and reduction loops apart",
                along.var, b.name
            )
        })?;
    }
    Ok(())
}

/// `no_guard`: the block runs on its whole domain.
pub fn no_guard(b: &Block) -> Result<(), Failure> {
    Failure::unless(b.guard.is_none(), "no_guard", &b.name, || {
        format!("block `{}` has a guard; take this step before splits that do not divide", b.name)
    })
}

/// `not_output`: the buffer is an intermediate of the function.
pub fn not_output(func: &PrimFunc, block: &Block, buffer: &Name) -> Result<(), Failure> {
    Failure::unless(!func.is_param(buffer), "not_output", &block.name, || {
        format!("block `{}` writes parameter `{buffer}`, which the caller wants to see", block.name)
    })
}

/// `iterators_only`: the block's body uses its iterators, extents and scalar parameters, but no
/// loop around it, nor an iterator of a block around it.
pub fn iterators_only(func: &PrimFunc, block: &Block) -> Result<(), Failure> {
    let around: BTreeSet<_> = match tree::path(func, &block.name) {
        Some(path) => path[..path.len() - 1].iter().flat_map(|s| variables(s)).collect(),
        None => BTreeSet::new(),
    };
    let mut used = None;
    for s in block.init.iter().chain(&block.body) {
        s.visit(&mut |s| s.for_each_expr(|e| used = used.take().or_else(|| first_of(e, &around))));
    }
    used.map_or(Ok(()), |l| {
        let why = match tree::find_loop(func, &l) {
            Some(_) => {
                format!("the body of block `{}` uses loop `{l}` directly; bind an iterator to it", block.name)
            }
            None => format!("the body of block `{}` uses `{l}`, an iterator of a block around it", block.name),
        };
        Err(Failure::new("iterators_only", &block.name, why))
    })
}

/// The variables that a loop or a block declares.
pub fn variables(s: &Stmt) -> Vec<Name> {
    match s {
        Stmt::For(l) => vec![l.var.clone()],
        Stmt::Block(b) => b.iters.iter().map(|it| it.var.clone()).collect(),
        _ => vec![],
    }
}

fn first_of(e: &Expr, names: &BTreeSet<Name>) -> Option<Name> {
    let mut found = None;
    e.visit(&mut |e| {
        if let Some(v) = e.as_var().filter(|v| names.contains(*v)) {
            found.get_or_insert_with(|| v.clone());
        }
    });
    found
}

/// `rectangular`: no bound of these loops uses another of them.
pub fn rectangular(nest: &[For]) -> Result<(), Failure> {
    for l in nest {
        if let Some(o) = nest.iter().find(|o| l.min.uses_var(&o.var) || l.extent.uses_var(&o.var)) {
            let why = format!("the bounds of loop `{}` depend on loop `{}`", l.var, o.var);
            return Err(Failure::new("rectangular", &l.var, why));
        }
    }
    Ok(())
}

/// `constant_extent`: the trip count is a constant.
pub fn constant_extent(l: &For) -> Result<(), Failure> {
    Failure::unless(l.extent.as_int().is_some(), "constant_extent", &l.var, || {
        format!("the extent of loop `{}` is symbolic; split off a constant factor first", l.var)
    })
}
