//! What a spatial block moves: how it reads each tensor, and what it writes.

use super::shape::is_plain;
use crate::analysis::{Access, Facts};
use crate::ir::{Block, Buffer, Expr, ExprKind, Name, Stmt};
use crate::rules::space::outlines::Moves;
use crate::schedule::Schedule;
use std::collections::{BTreeMap, BTreeSet};

/// The distinct elements that a block reads, in order of first occurrence.
pub fn reads_of(s: &Schedule, block: &Name) -> Vec<Access> {
    Facts::of(s.func()).block(block).map(|b| b.reads.clone()).unwrap_or_default()
}

/// Bytes of so many elements of each tensor that is read, if constant.
pub fn bytes_of(s: &Schedule, reads: &[Access], elements: Option<i64>) -> Option<i64> {
    let size = |a: &Access| s.func().buffer(&a.buffer).dtype.bytes() as i64;
    reads.iter().try_fold(0i64, |n, a| n.checked_add(elements?.checked_mul(size(a))?))
}

/// The tensors that `fits` holds for wherever they are read, all read at plain indices and under no
/// condition: these may be staged as they are.
pub fn staged(reads: &[Access], block: &Block, fits: impl Fn(&Access) -> bool) -> Vec<Name> {
    let lazy = lazy_buffers(block);
    let mut out: Vec<Name> = vec![];
    for a in reads {
        let all = reads.iter().filter(|o| o.buffer == a.buffer).all(|o| is_plain(o) && fits(o));
        if all && !lazy.contains(&a.buffer) && !out.contains(&a.buffer) {
            out.push(a.buffer.clone());
        }
    }
    out
}

/// True when `var` indexes the last dimension and no other.
pub fn ends_in(access: &Access, var: &Name) -> bool {
    let uses: Vec<bool> = access.indices.iter().map(|e| e.uses_var(var)).collect();
    uses.iter().filter(|u| **u).count() == 1 && uses.last() == Some(&true)
}

/// Every tensor read once, but no more of it than the outputs ask for: an element each, or where neighbours in `inner` read
/// elements that are far from each other, what comes along with it.
pub fn moves(s: &Schedule, reads: &[Access], out: &Buffer, inner: Option<&Name>) -> Option<Moves> {
    let elements = out.len()?;
    let looked_up = |e: &Expr| e.any(&|e| matches!(e.kind(), ExprKind::Load { .. }));
    let along = |a: &Access| inner.is_none_or(|i| ends_in(a, i)) && !a.indices.last().is_some_and(looked_up);
    let most = |a: &Access| elements.saturating_mul(if along(a) { 1 } else { 8 });
    let read = reads_once(s, reads, most)?;
    Some(Moves { elements, dtype: out.dtype, loads: reads.len() as i64, scattered: 0, apart: 0, row: None, read })
}

/// True when elements that differ by one in `var` are far from each other: `var` indexes a dimension, and not the last
/// that is longer than 1.
pub fn is_scattered(s: &Schedule, access: &Access, var: &Name) -> bool {
    let shape = &s.func().buffer(&access.buffer).shape;
    let mut longer = access.indices.iter().zip(shape).rev().filter(|(_, extent)| !extent.is_int(1));
    let last = longer.next();
    last.is_some_and(|(index, _)| !index.uses_var(var)) && longer.any(|(index, _)| index.uses_var(var))
}

/// How many tensors are read, and their bytes if constant.
pub fn read_once(s: &Schedule, reads: &[Access]) -> Option<(i64, i64)> {
    let names: BTreeSet<&Name> = reads.iter().map(|a| &a.buffer).collect();
    Some((names.len() as i64, reads_once(s, reads, |_| i64::MAX)?))
}

/// Bytes of the tensors that are read, if constant: of each, those of the elements that its accesses ask for at most.
fn reads_once(s: &Schedule, reads: &[Access], most: impl Fn(&Access) -> i64) -> Option<i64> {
    let mut asked: BTreeMap<&Name, i64> = BTreeMap::new();
    for a in reads {
        let sum = asked.entry(&a.buffer).or_default();
        *sum = sum.saturating_add(most(a));
    }
    asked.into_iter().try_fold(0i64, |bytes, (name, most)| {
        let decl = s.func().buffer(name);
        bytes.checked_add(decl.len()?.min(most).saturating_mul(decl.dtype.bytes() as i64))
    })
}

/// The one element that a block writes, where it is that of the iterators, in a buffer of exactly
/// their extents that no other block writes.
pub fn whole_write(s: &Schedule, block: &Block) -> Option<Access> {
    let facts = Facts::of(s.func());
    let [write] = &facts.block(&block.name)?.writes[..] else { return None };
    let shape = &s.func().buffer(&write.buffer).shape;
    let whole = write.indices.iter().zip(shape).all(|(index, extent)| {
        let iter = block.iters.iter().find(|i| index.as_var() == Some(&i.var));
        iter.is_some_and(|i| i.extent == *extent) || (index.is_int(0) && extent.is_int(1))
    });
    let writers = facts.blocks.iter().filter(|b| b.writes.iter().any(|w| w.buffer == write.buffer));
    (whole && block.always_stores(&write.buffer) && writers.count() == 1).then(|| write.clone())
}

/// Buffers read under a condition, where reading more than is asked for may be out of bounds.
fn lazy_buffers(block: &Block) -> Vec<Name> {
    let mut out = vec![];
    for stmt in &block.body {
        stmt.visit(&mut |s| {
            if matches!(s, Stmt::If { .. }) {
                s.visit(&mut |inner| inner.for_each_expr(|e| collect(e, true, &mut out)));
            }
            s.for_each_expr(|e| collect(e, false, &mut out));
        });
    }
    out
}

fn collect(e: &Expr, lazy: bool, out: &mut Vec<Name>) {
    if let ExprKind::Load { buffer, .. } = e.kind()
        && lazy
    {
        out.push(buffer.clone());
    }
    let inside = lazy || matches!(e.kind(), ExprKind::IfThenElse { .. });
    e.for_each_child(|c| collect(c, inside, out));
}
