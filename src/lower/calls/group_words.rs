//! Values of packed words that the warpgroups of a block decode into their registers, for products of the variant
//! `wgmma_words`.
//!
//! Each lane takes words of a row by loads of 16 bytes from shared memory, the same in the four lanes of a quad, and
//! decodes one byte of each (`decode_bytes`). Scales come from memory first, those of a whole step, into registers of
//! their own; rows outside of the tensor have those of the last one (`clamped`).
//!
//! before: `for j < 128, k < 64 { a[j, k] = float16(w[j, k // 8] >> ..) * s[n + j, step] }`
//! after:  `for x < 2, g < 1 { r[x] = s[row(x), step] }`
//!         `for x < 2, c < 2 { for t < 4 { q[t] = w[row(x), 4 c + t] }; for t < 4, v < 2 { a[..] = float16(q[t] >> ..) * r[x] } }`
//!
//! Stands in a circle with `fragments` and `part_loops`, of whose pass it is a part.

use super::clamped;
use super::sums::in_two;
use super::words::{or_zero, scale_of, word_of};
use crate::analysis::simplify;
use crate::ir::device::{DFor, DKind, DStmt, LeafOp, TileMark, all_of, index_var};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name, Scope};
use crate::lower::nest::Nest;
use crate::lower::pass::pipeline::copied;

/// The variant of products.
pub const VARIANT: &str = "wgmma_words";
/// Those whose factors both come from shared memory.
const BOTH_SHARED: [&str; 3] = ["wgmma", "wgmma_two_level", in_two::VARIANT];

/// True for variants by warpgroups.
pub fn by_groups(variant: &Option<String>) -> bool {
    variant.as_deref().is_some_and(|v| v == VARIANT || BOTH_SHARED.contains(&v))
}

/// Words of one load.
const LOAD: i64 = 4;
/// Values of a word that a lane holds.
const PAIR: i64 = 2;

/// The loops over `rows` of a thread and the `n` words of each, which loops `x` and `y` count: `body` stores value `v`
/// of a word. `row` is the place of a value's row in its tile.
pub fn decoded(
    nest: &mut Nest,
    row: &Expr,
    (x, rows): (&Name, i64),
    (y, n): (&Name, i64),
    v: &Name,
    body: &[DStmt],
) -> Option<Vec<DStmt>> {
    let [DStmt::Store { buffer, indices, value, hint }] = body else { return None };
    let (cond, value) = copied(value)?;
    let cond = cond.map(|c| simplify(c, &nest.ranges));
    if n % LOAD != 0 || cond.as_ref().is_some_and(|c| c.uses_var(y) || c.uses_var(v)) {
        return None;
    }
    let [c, t, again] = [("c", n / LOAD), ("t", LOAD), ("t", LOAD)].map(|(stem, n)| nest.loop_var(stem, n));
    let number = index_var(&c) * Expr::i64(LOAD) + index_var(&t);
    let scale = scale_of(nest, value).map(|(own, _)| (of_rows(nest, &cond, &own, row), own));
    let scales = scale.as_ref().and_then(|s| Scales::of(nest, s, v, buffer, (x, rows), (y, n)));
    let value = match (&scales, &scale) {
        (Some(s), _) => s.named(nest, value, x, &number),
        (None, Some((read, own))) => value.replaced(own, read),
        (None, None) => value.clone(),
    };
    let at = |nest: &Nest, e: &Expr| simplify(&e.subst(&|n| (n == y).then(|| number.clone())), &nest.ranges);
    let value = at(nest, &value);
    let word = word_of(nest, &value, v, &t)?;
    let held = nest.scratch(&format!("{buffer}_words"), DType::U32, Expr::i64(LOAD), Scope::Local);
    let renamed = word.subst(&|n| (*n == t).then(|| index_var(&again)));
    let load = DStmt::Store { buffer: held.clone(), indices: vec![index_var(&again)], value: renamed, hint: *hint };
    let own = Expr::load(held, vec![index_var(&t)], DType::U32);
    let indices = indices.iter().map(|i| at(nest, i)).collect();
    let value = DStmt::Store { buffer: buffer.clone(), indices, value: value.replaced(&word, &own), hint: *hint };
    let mark = TileMark { op: LeafOp::UnpackPairs, variant: None, warps: None };
    let values = DFor { tile: Some(mark), ..DFor::new(v.clone(), Expr::i64(PAIR), DKind::Unrolled, vec![value]) };
    let load = DStmt::For(DFor::new(again, Expr::i64(LOAD), DKind::Vectorized, vec![load]));
    let words = DStmt::unrolled(&t, LOAD, vec![DStmt::For(values)]);
    let all = DStmt::unrolled(x, rows, vec![DStmt::unrolled(&c, n / LOAD, vec![load, words])]);
    Some(scales.map(|s| s.load).into_iter().chain([all]).collect())
}

/// A scale as it is read, wherever its row lies.
fn of_rows(nest: &Nest, cond: &Option<Expr>, scale: &Expr, row: &Expr) -> Expr {
    let (left, scale) = clamped::rows(nest, cond.as_ref(), scale, row);
    or_zero(&all_of(left), &scale)
}

/// Scales of a step, in registers.
struct Scales {
    /// The load of one, as the value has it.
    own: Expr,
    /// The loops that load all.
    load: DStmt,
    held: Name,
    /// Scales of a row, and words that share one.
    each: [i64; 2],
}

impl Scales {
    /// Of values of which whole loads of words share a scale in memory: as it is read, and as the value has it.
    fn of(
        nest: &mut Nest,
        (read, own): &(Expr, Expr),
        v: &Name,
        buffer: &Name,
        (x, rows): (&Name, i64),
        (y, n): (&Name, i64),
    ) -> Option<Scales> {
        let at = |nest: &Nest, word: &Expr| indices_at(nest, own, y, word);
        let places: Vec<Vec<Expr>> = (0..n).map(|word| at(nest, &Expr::i64(word))).collect();
        let shared = places.iter().take_while(|p| **p == places[0]).count() as i64;
        let whole = places.chunks(shared as usize).all(|c| c.len() as i64 == shared && c.iter().all(|p| *p == c[0]));
        if shared % LOAD != 0 || !whole || places.iter().flatten().any(|e| e.uses_var(v)) {
            return None;
        }
        let groups = n / shared;
        let [row, group] = [("x", rows), ("g", groups)].map(|(stem, n)| nest.loop_var(stem, n));
        let held = nest.scratch(&format!("{buffer}_scales"), own.dtype(), Expr::i64(rows * groups), Scope::Local);
        let first = index_var(&group) * Expr::i64(shared);
        let here = |n: &Name| if n == x { Some(index_var(&row)) } else { (n == y).then(|| first.clone()) };
        let value = simplify(&read.subst(&here), &nest.ranges);
        let to = index_var(&row) * Expr::i64(groups) + index_var(&group);
        let store = DStmt::store(held.clone(), vec![to], value);
        let load = DStmt::unrolled(&row, rows, vec![DStmt::unrolled(&group, groups, vec![store])]);
        Some(Scales { own: own.clone(), load, held, each: [groups, shared] })
    }

    /// The value with the scale in registers of row `x` and word `number`.
    fn named(&self, nest: &Nest, value: &Expr, x: &Name, number: &Expr) -> Expr {
        let [groups, shared] = self.each;
        let group = Expr::binary(BinOp::FloorDiv, number.clone(), Expr::i64(shared));
        let at = simplify(&(index_var(x) * Expr::i64(groups) + group), &nest.ranges);
        value.replaced(&self.own, &Expr::load(self.held.clone(), vec![at], self.own.dtype()))
    }
}

/// The indices of a load at one word.
fn indices_at(nest: &Nest, load: &Expr, y: &Name, word: &Expr) -> Vec<Expr> {
    let ExprKind::Load { indices, .. } = load.kind() else { return vec![] };
    let at = |e: &Expr| simplify(&e.subst(&|n| (n == y).then(|| word.clone())), &nest.ranges);
    indices.iter().map(at).collect()
}
