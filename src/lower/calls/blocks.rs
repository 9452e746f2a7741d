//! Factors of products that stay as they are stored, numbers and the scales of blocks of them apart, for the variants
//! `mma_block_scale` and `tcgen05_block_scale`.
//!
//! What the values of a factor are made of is read off the nest that computes them, and the nest goes. What was staged
//! where the tile leaves the tensor is zero (`words`).
//!
//! before: `for i < 64, k < 64 { a[i, k] = e2m1(q[m + i, k0 + k // 2], k % 2) * s[m + i, g0 + k // 16] }`
//!         `Tx.cta.gemm(d, a, b, accum=True)`
//! after:  `Tx.cta.gemm(d, q[m:m + 64, k0:k0 + 32], .., accum=True, sfa=s[m:m + 64, g0:g0 + 4], ..)`
//!
//! Stands in a circle with `fragments`, of whose pass it is a part.

use super::fragments::tile;
use super::part_loops::{perfect, touches};
use super::sums::in_tensor;
use crate::analysis::{Access, Blocked, simplify};
use crate::ir::device::{DFor, DStmt, LeafOp, index_var};
use crate::ir::{Expr, Name, Tile};
use crate::lower::nest::Nest;
use crate::lower::pass::pipeline::copied;

/// The variants of products.
const VARIANTS: [&str; 2] = ["mma_block_scale", in_tensor::SCALED];

/// True for a variant of products whose factors stay so.
pub fn takes(variant: &Option<String>) -> bool {
    variant.as_deref().is_some_and(|v| VARIANTS.contains(&v))
}

/// What a factor is made of.
pub struct Parts {
    /// The numbers, by lines along K.
    pub codes: Tile,
    /// The scales, by lines along K.
    pub scales: Tile,
}

/// What the values of a factor are made of, by the nest of the launch that computes them.
///
/// # Errors
/// Where there is no such nest, or it computes other values.
pub fn of(nest: &mut Nest, launch: &[DStmt], factor: &Name) -> Result<Parts, String> {
    let l = computed(launch, factor).ok_or_else(|| format!("no nest of the block computes `{factor}`"))?;
    let no = |why: &str| format!("`{factor}` is no factor of numbers with scales of blocks: {why}");
    let (loops, body) = perfect(l);
    let ([DStmt::Store { value, .. }], [row, k]) = (body, loops.as_slice()) else {
        return Err(no("its nest is not one store in two loops"));
    };
    let value = copied(value).map(|(_, value)| Blocked::of(value));
    let found = value.flatten().ok_or_else(|| no("its values are no numbers of 4 or 8 bits times a scale"))?;
    let mut part =
        |access: &Access, per: i64| part(nest, access, (row, k), per).ok_or_else(|| no("its parts are no tiles"));
    Ok(Parts { codes: part(&found.codes, found.packed())?, scales: part(&found.scales, found.block())? })
}

/// The nest, marked as one of the block, that stores to a tile.
fn computed<'a>(body: &'a [DStmt], name: &Name) -> Option<&'a DFor> {
    body.iter().find_map(|s| match s {
        DStmt::For(l) if is_nest(l) => touches(s, name).then_some(l).filter(|l| computes(l, name)),
        s => s.lists().into_iter().find_map(|inner| computed(inner, name)),
    })
}

fn is_nest(l: &DFor) -> bool {
    l.tile.as_ref().is_some_and(|t| t.op == LeafOp::Elementwise && t.warps.is_some())
}

/// True for a nest whose one statement stores to a tile.
pub fn computes(l: &DFor, name: &Name) -> bool {
    matches!(perfect(l).1, [DStmt::Store { buffer, .. }] if buffer == name)
}

/// The tile that an access takes in all steps, one element for each `per` steps of the inner loop.
fn part(nest: &mut Nest, access: &Access, (row, k): (&(Name, i64), &(Name, i64)), per: i64) -> Option<Tile> {
    let (last, outer) = access.indices.split_last()?;
    let at = |nest: &Nest, step: i64| simplify(&last.subst(&|v| (*v == k.0).then(|| Expr::i64(step))), &nest.ranges);
    let first = at(nest, 0);
    let distance = |step: i64| simplify(&(at(nest, step) - first.clone()), &nest.ranges).as_int();
    if k.1 % per != 0 || !(0..k.1).all(|step| distance(step) == Some(step / per)) {
        return None;
    }
    let element = (nest.loop_var("k", k.1 / per), k.1 / per);
    let indices = [outer, &[first + index_var(&element.0)]].concat();
    tile(nest, &access.buffer, &indices, [row, &element]).filter(|(_, turned)| !turned).map(|(tile, _)| tile)
}
