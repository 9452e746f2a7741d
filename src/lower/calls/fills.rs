//! Fills of shared memory that the hardware makes, through tensor maps.
//!
//! A schedule marks a nest over a tile in shared memory with `tile = "copy_async"`, to be carried out by the block
//! as a whole: each element is one of a tensor, or zero outside of it. It becomes a call, which counts what
//! lands on a barrier in shared memory; the pass `roles` says who makes it and who waits. Neighbouring dimensions
//! of the tensor that the nest walks through as one are joined.
//!
//! before: `for i < 128, k < 64 { s[i, k] = if_then_else(m + i < 300, a[(m + i) // 3, (m + i) % 3, k0 + k], 0) }`
//! after:  `Tx.thread.copy_async(s[0:128, 0:64], a[m:m + 128, k0:k0 + 64], mbar=full[0])`, `a` of 300 rows
//!
//! The schedule is at fault where a nest has another form.
//!
//! Stands in a circle with `fragments`, of whose pass it is a part.

use super::fragments::{PASS, tile};
use super::part_loops::perfect;
use crate::analysis::{index_text, linear, simplify};
use crate::ir::device::{DFor, DStmt, LeafOp, conjuncts};
use crate::ir::{BinOp, DType, ExecScope, Expr, ExprKind, Name, Scope, Tile, TileArg, TileCall, TileOp};
use crate::lower::LowerError;
use crate::lower::nest::Nest;
use crate::lower::pass::pipeline::copied;

/// The barrier that counts what lands, where a launch has such fills.
pub fn barrier(nest: &mut Nest, body: &[DStmt]) -> Option<Name> {
    let marked = |s: &DStmt| match s {
        DStmt::For(l) => l.tile.as_ref().is_some_and(|t| t.op == LeafOp::Tile(TileOp::CopyAsync)),
        _ => false,
    };
    let mut fills = false;
    body.iter().for_each(|s| s.visit(&mut |s| fills |= marked(s)));
    fills.then(|| nest.scratch("full", DType::U64, Expr::i64(1), Scope::Shared))
}

/// The call that a marked nest is.
pub fn call(nest: &mut Nest, l: &DFor, counted: Option<&Name>) -> Result<TileCall, LowerError> {
    let no = |why: &str| LowerError::new(PASS, &l.var, format!("no fill through a tensor map: {why}"));
    let (loops, body) = perfect(l);
    let ([DStmt::Store { buffer, indices, value, .. }], [outer, inner]) = (body, &loops[..]) else {
        return Err(no("it is not one element of a tile of two loops"));
    };
    let (cond, load) = copied(value).ok_or_else(|| no("what it stores is no element of a tensor, or zero"))?;
    let ExprKind::Load { buffer: from, indices: at, .. } = load.kind() else {
        return Err(no("what it stores is computed"));
    };
    let joined = Joined::of(nest, from, at, [outer, inner]).ok_or_else(|| no("the tensor is not plain"))?;
    if let Some(other) = cond.into_iter().flat_map(conjuncts).find(|c| !joined.says(nest, c)) {
        return Err(no(&format!("`{}` is not that an index lies within the tensor", index_text(&other))));
    }
    let part = |name, indices: &[Expr]| tile(nest, name, indices, [outer, inner]).map(|(t, _)| t);
    let dst = part(buffer, indices).ok_or_else(|| no("it fills no tile"))?;
    let src = part(from, &joined.indices).ok_or_else(|| no("it reads no tile of the tensor"))?;
    if nest.joined.insert(from.clone(), joined.shape.clone()).is_some_and(|old| old != joined.shape) {
        return Err(no("another fill joins other dimensions of the tensor"));
    }
    let mut call = TileCall::new(TileOp::CopyAsync, ExecScope::Thread, dst, vec![TileArg::Tile(src)]);
    call.forced = Some("tma".to_string());
    let counted = counted.ok_or_else(|| no("nothing counts what lands"))?;
    call.operands.insert("mbar".into(), TileArg::Tile(Tile::whole(counted, &[1])));
    Ok(call)
}

/// A tensor with the dimensions joined that two loops walk through as one.
struct Joined {
    indices: Vec<Expr>,
    shape: Vec<Expr>,
    /// As they were.
    own: Vec<(Expr, i64)>,
}

impl Joined {
    fn of(nest: &Nest, name: &Name, indices: &[Expr], loops: [&(Name, i64); 2]) -> Option<Joined> {
        let b = nest.buffers.get(name).filter(|b| b.strides.is_empty() && b.elem_offset.is_none())?;
        let sizes = b.shape.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>()?;
        let own: Vec<(Expr, i64)> = indices.iter().cloned().zip(sizes).collect();
        let mut out: Vec<(Expr, i64)> = vec![];
        for (index, size) in &own {
            match out.pop() {
                Some((before, n)) if !walks(nest, &before, loops) => {
                    let both = before * Expr::i64(*size) + index.clone();
                    out.push((simplify(&both, &nest.ranges), n * size));
                }
                before => out.extend(before.into_iter().chain([(index.clone(), *size)])),
            }
        }
        let (indices, shape) = out.into_iter().map(|(at, n)| (at, Expr::i64(n))).unzip();
        Some(Joined { indices, shape, own })
    }

    /// True for a condition that says no more than that some neighbouring indices lie within the tensor.
    fn says(&self, nest: &Nest, cond: &Expr) -> bool {
        let cond = simplify(cond, &nest.ranges);
        (0..self.own.len()).any(|first| {
            let (mut at, mut n) = (Expr::i64(0), 1);
            self.own[first..].iter().any(|(index, size)| {
                at = simplify(&(at.clone() * Expr::i64(*size) + index.clone()), &nest.ranges);
                n *= size;
                simplify(&Expr::binary(BinOp::Lt, at.clone(), Expr::i64(n)), &nest.ranges) == cond
            })
        })
    }
}

/// True for an index that takes adjacent values with one loop, or the same one in all steps.
fn walks(nest: &Nest, index: &Expr, loops: [&(Name, i64); 2]) -> bool {
    let used: Vec<&Name> = loops.iter().map(|(v, _)| v).filter(|v| index.uses_var(v)).collect();
    match used.as_slice() {
        [] => true,
        [var] => linear(index, var, &nest.ranges).is_some_and(|(step, _)| step.is_int(1)),
        _ => false,
    }
}
