//! Values of packed words that the warps of a block decode into their registers, for products of the variant
//! `mma_words`.
//!
//! Each lane takes words of a row by loads of 8 bytes from shared memory and decodes them one by one
//! (`decode_pairs`). What was staged where the tile leaves the tensor is zero: values of rows that no result needs
//! are then computed like any others. Where words come straight from memory, for products of the variant `mma_runs`,
//! such rows are read as the last one (`clamped`), and words and scales past the end of the reduced axis are zero.
//!
//! before: `for j < 64, k < 64 { b[j, k] = if_then_else(n + j < 101, float16(w[n + j, k // 8] >> ..) * s[n + j], 0) }`
//! after:  `for x < 2, c < 1 { for t < 2 { r[t] = w[row(x), 2 lane + t] }; for t < 2, v < 8 { b[..] = float16(r[t] >> ..) * s[row(x)] } }`
//!
//! Stands in a circle with `fragments` and `part_loops`, of whose pass it is a part.

use super::part_loops::Held;
use super::{clamped, runs};
use crate::analysis::{linear, simplify};
use crate::ir::device::{DFor, DKind, DStmt, LeafOp, TileMark, and, conjuncts, guarded, index_var};
use crate::ir::layout::words::{QUAD, RUN, WORD};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name, Scope};
use crate::lower::nest::{Nest, is_of_block};
use crate::lower::pass::guards::all_free_of;
use crate::lower::pass::pipeline::copied;
use std::collections::BTreeSet;

/// The variant of products.
pub const VARIANT: &str = "mma_words";

/// The loops over the words of a row, of which loop `y` counts `n` and `v` values: `body` stores one value.
///
/// `row` is the place of a value's row in its tile. Scales are kept `apart` where they multiply sums.
pub fn decoded(
    nest: &mut Nest,
    row: &Expr,
    (y, n): (&Name, i64),
    v: &Name,
    (body, apart): (&[DStmt], Option<Apart>),
) -> Option<DStmt> {
    let [DStmt::Store { buffer, indices, value, hint }] = body else { return None };
    let (cond, value) = copied(value)?;
    let [c, t, again] = [("c", n / RUN), ("t", RUN), ("t", RUN)].map(|(stem, n)| nest.loop_var(stem, n));
    let number = |t: &Name| index_var(&c) * Expr::i64(RUN) + index_var(t);
    let at = |nest: &Nest, e: &Expr, t: &Name| simplify(&e.subst(&|n| (n == y).then(|| number(t))), &nest.ranges);
    let value = at(nest, value, &t);
    // what is staged is zero where a condition fails
    let cond =
        cond.map(|c| at(nest, c, &t)).filter(|_| word_of(nest, &value, v, &t).is_some_and(|w| nest.is_global_load(&w)));
    let (conds, value) = clamped::rows(nest, cond.as_ref(), &value, row);
    let exists = all_free_of(&nest.ranges, conds, &[(t.clone(), RUN), (v.clone(), WORD)])?;
    let word = word_of(nest, &value, v, &t)?;
    let (value, kept) = match (scale_of(nest, &value), apart) {
        (None, None) => (value, None),
        (None, Some(_)) => return None,
        (Some((scale, _)), None) => (value.replaced(&scale, &or_zero(&exists, &scale)), None),
        (Some((scale, bare)), Some(apart)) => (bare, Some(apart.kept(nest, &c, or_zero(&exists, &scale), [&t, v])?)),
    };
    let held = nest.scratch(&format!("{buffer}_words"), DType::U32, Expr::i64(RUN), Scope::Local);
    let renamed = word.subst(&|n| (*n == t).then(|| index_var(&again)));
    let load = runs::filled_or_zero(&held, (&again, RUN), exists, renamed, *hint);
    let own = Expr::load(held, vec![index_var(&t)], DType::U32);
    let indices = indices.iter().map(|i| at(nest, i, &t)).collect();
    let value = DStmt::Store { buffer: buffer.clone(), indices, value: value.replaced(&word, &own), hint: *hint };
    let mark = TileMark { op: LeafOp::UnpackPairs, variant: None, warps: None };
    let values = DFor { tile: Some(mark), ..DFor::new(v.clone(), Expr::i64(WORD), DKind::Unrolled, vec![value]) };
    let words = DStmt::unrolled(&t, RUN, vec![DStmt::For(values)]);
    Some(DStmt::unrolled(&c, n / RUN, kept.into_iter().chain([load, words]).collect()))
}

/// Registers for scales that multiply sums, one for each load of words of a row.
pub struct Apart<'a> {
    pub to: &'a Name,
    /// Counts the rows of a lane.
    pub row: &'a Name,
    pub rows: i64,
}

impl Apart<'_> {
    /// Keeps the scale of load `c`, which all values of its four lanes share: `None` where they have several.
    fn kept(&self, nest: &mut Nest, c: &Name, scale: Expr, values: [&Name; 2]) -> Option<DStmt> {
        let [quad, lane] = [("quad", i64::from(nest.target.warp) / QUAD), ("lane", QUAD)];
        let [quad, lane] = [quad, lane].map(|(stem, n)| nest.loop_var(stem, n));
        let thread = index_var(&quad) * Expr::i64(QUAD) + index_var(&lane);
        let told = scale.subst(&|n| (n.as_str() == "threadIdx.x").then(|| thread.clone()));
        let told = simplify(&told, &nest.ranges);
        if told.uses_var(&lane) || values.iter().any(|v| scale.uses_var(v)) {
            return None;
        }
        let at = index_var(c) * Expr::i64(self.rows) + index_var(self.row);
        Some(DStmt::store(self.to.clone(), vec![at], scale))
    }
}

/// What a value is multiplied with, where it lies in memory, and the value without it.
pub fn scale_of(nest: &Nest, value: &Expr) -> Option<(Expr, Expr)> {
    let ExprKind::Binary { op: BinOp::Mul, a, b } = value.kind() else { return None };
    [(a, b), (b, a)]
        .into_iter()
        .find(|(e, _)| nest.is_global_load(e))
        .map(|(scale, bare)| (scale.clone(), bare.clone()))
}

/// A value, or zero where a condition fails.
pub fn or_zero(cond: &Option<Expr>, value: &Expr) -> Expr {
    let (then, otherwise) = (value.clone(), Expr::constant(0.0, value.dtype()));
    match cond.clone() {
        Some(cond) => Expr::new(ExprKind::IfThenElse { cond, then, otherwise }),
        None => then,
    }
}

/// The load of the word that values `v` lie in, words `t` side by side.
pub fn word_of(nest: &Nest, value: &Expr, v: &Name, t: &Name) -> Option<Expr> {
    let mut found = None;
    value.visit(&mut |e| {
        if let ExprKind::Load { indices, dtype: DType::U32, .. } = e.kind()
            && let Some(last) = indices.last()
            && linear(last, t, &nest.ranges).is_some_and(|(step, _)| step.is_int(1))
            && !e.uses_var(v)
        {
            found = Some(e.clone());
        }
    });
    found
}

/// The statements of a launch with zeros where what the values of `tiles` are made of leaves its tensor.
pub fn filled_with_zeros(nest: &mut Nest, tiles: &[&Held], body: Vec<DStmt>) -> Vec<DStmt> {
    let mut read = BTreeSet::new();
    body.iter().for_each(|s| s.visit(&mut |s| staged(nest, tiles, s, &mut read)));
    let body = all_filled(nest, &read, body);
    let most = tiles.iter().map(|t| t.shape[0]).max().unwrap_or(0);
    for name in &read {
        if let Some(b) = nest.buffers.get_mut(name) {
            // tiles that leave the tensor are staged whole
            b.shape = b.shape.iter().map(|n| simplify(&(n.clone() + Expr::i64(most)), &nest.ranges)).collect();
        }
    }
    body
}

/// The shared memory that a statement decodes one of the tiles from.
fn staged(nest: &Nest, tiles: &[&Held], s: &DStmt, out: &mut BTreeSet<Name>) {
    if let DStmt::Store { buffer, value, .. } = s
        && tiles.iter().any(|t| t.buffer == *buffer)
    {
        value.visit(&mut |e| {
            if let ExprKind::Load { buffer, .. } = e.kind() {
                out.extend(nest.is_shared(buffer).then(|| buffer.clone()));
            }
        });
    }
}

fn all_filled(nest: &Nest, read: &BTreeSet<Name>, body: Vec<DStmt>) -> Vec<DStmt> {
    let mut out = vec![];
    for s in body {
        match s.map_lists(|inner| all_filled(nest, read, inner)) {
            DStmt::If { cond, then, otherwise } if otherwise.is_empty() => {
                let mut own = None;
                let then = conjuncts(&cond).into_iter().fold(then, |then, c| match under(nest, read, &c, &then) {
                    Some(filled) => vec![filled],
                    None => {
                        own = and(own.take(), Some(c));
                        then
                    }
                });
                out.extend(guarded(own, then));
            }
            s => out.push(s),
        }
    }
    out
}

/// A store of one element, or the loop over a vector of them, with zero where the index leaves the tensor, if that is
/// what the condition says.
fn under(nest: &Nest, read: &BTreeSet<Name>, cond: &Expr, then: &[DStmt]) -> Option<DStmt> {
    match then {
        [DStmt::For(l)] if !cond.uses_var(&l.var) => {
            Some(DStmt::For(l.with_body(vec![under(nest, read, cond, &l.body)?])))
        }
        [DStmt::Store { buffer, indices, value, hint }] if read.contains(buffer) => {
            // eight rows that are in the tensor or not together have one condition: `bx * 4 + x < 17`
            let (simplest, shape) = (simplify(cond, &nest.ranges), &nest.buffers.get(buffer)?.shape);
            let same = |(i, n): (&Expr, &Expr)| {
                simplify(&Expr::binary(BinOp::Lt, i.clone(), n.clone()), &nest.ranges) == simplest
            };
            // what says how many threads a fill needs is the same in all blocks
            (indices.iter().zip(shape).any(same) && differs_between_blocks(cond)).then_some(())?;
            let (cond, then) = (cond.clone(), value.clone());
            let otherwise = Expr::constant(0.0, value.dtype());
            let value = Expr::new(ExprKind::IfThenElse { cond, then, otherwise });
            Some(DStmt::Store { buffer: buffer.clone(), indices: indices.clone(), value, hint: *hint })
        }
        _ => None,
    }
}

fn differs_between_blocks(e: &Expr) -> bool {
    e.any(&|e| e.as_var().is_some_and(is_of_block))
}
