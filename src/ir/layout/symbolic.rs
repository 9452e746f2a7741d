//! A layout applied to expressions, for code generation: `int64` arithmetic on the indices, with a
//! division or remainder only where an index has to be split.

use super::canon::{group, merged};
use super::{Axis, Iter, TileLayout};
use crate::ir::ops::fold;
use crate::ir::{BinOp, DType, Expr};

/// A layout taken apart along the dimensions of a shape that it fits: the places of elements at symbolic
/// indices, of which there is one for each dimension, within the shape.
#[derive(Clone, PartialEq, Debug)]
pub struct Over {
    layout: TileLayout,
    shape: Vec<i64>,
    /// The iters of each dimension; `None` where one lies across two.
    groups: Option<Vec<Vec<Iter>>>,
}

impl TileLayout {
    /// The layout over a shape of its size.
    pub fn over(&self, shape: &[i64]) -> Result<Over, String> {
        self.check_shape(shape)?;
        Ok(Over { groups: group(&merged(&self.shard), shape), shape: shape.to_vec(), layout: self.clone() })
    }

    /// [`Over::memory`] for a tensor of `shape`.
    pub fn memory_offset(&self, shape: &[i64], indices: &[Expr]) -> Result<Expr, String> {
        Ok(self.indexed(shape, indices)?.memory(indices))
    }

    /// [`Over::value`] for a tensor of `shape`.
    pub fn axis_value(&self, axis: Axis, shape: &[i64], indices: &[Expr]) -> Result<Expr, String> {
        Ok(self.indexed(shape, indices)?.value(axis, indices))
    }

    fn indexed(&self, shape: &[i64], indices: &[Expr]) -> Result<Over, String> {
        let over = self.over(shape)?;
        if indices.len() != shape.len() {
            return Err(format!("{} indices are given for the {} dimensions of {shape:?}", indices.len(), shape.len()));
        }
        Ok(over)
    }
}

impl Over {
    /// The layout.
    pub fn layout(&self) -> &TileLayout {
        &self.layout
    }

    /// The shape.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The element offset on `m` of an element, swizzled where the layout is; of its first place, if
    /// there are replicas.
    pub fn memory(&self, indices: &[Expr]) -> Expr {
        let offset = self.value(Axis::M, indices);
        let Some((from, to, mask)) = self.layout.swizzle.filter(|s| s.swizzle_len() > 0).map(|s| s.bits()) else {
            return offset;
        };
        let int = |n: u32| Expr::i64(i64::from(n));
        let group = binary(BinOp::BitAnd, binary(BinOp::Shr, offset.clone(), int(from)), Expr::i64(mask));
        binary(BinOp::BitXor, offset, binary(BinOp::Shl, group, int(to)))
    }

    /// The value on an axis, before any swizzle, of an element.
    pub fn value(&self, axis: Axis, indices: &[Expr]) -> Expr {
        let indices = indices.iter().map(to_i64);
        let sum = match &self.groups {
            Some(groups) => {
                groups.iter().zip(indices).fold(Expr::i64(0), |sum, (group, i)| add_terms(sum, group, &i, axis))
            }
            None => {
                let flat = self
                    .shape
                    .iter()
                    .zip(indices)
                    .fold(Expr::i64(0), |n, (e, i)| binary(BinOp::Add, binary(BinOp::Mul, n, Expr::i64(*e)), i));
                add_terms(Expr::i64(0), &merged(&self.layout.shard), &flat, axis)
            }
        };
        binary(BinOp::Add, sum, Expr::i64(self.layout.offset.get(&axis).copied().unwrap_or(0)))
    }
}

/// Adds to `sum` what the iters give on an axis for element `index` of their dimension.
fn add_terms(mut sum: Expr, iters: &[Iter], index: &Expr, axis: Axis) -> Expr {
    let mut inside = iters.iter().map(|it| it.extent).product::<i64>();
    for (k, it) in iters.iter().enumerate() {
        inside /= it.extent;
        if it.axis != axis || it.stride == 0 {
            continue;
        }
        let above = binary(BinOp::FloorDiv, index.clone(), Expr::i64(inside));
        // the outermost iter takes what is left of an index that is within the shape
        let c = if k == 0 { above } else { binary(BinOp::FloorMod, above, Expr::i64(it.extent)) };
        sum = binary(BinOp::Add, sum, binary(BinOp::Mul, c, Expr::i64(it.stride)));
    }
    sum
}

/// The expression as `int64`.
pub(super) fn to_i64(e: &Expr) -> Expr {
    match e.as_int() {
        Some(v) => Expr::i64(v),
        None => Expr::cast(DType::I64, e.clone()),
    }
}

/// The operator, with constants and neutral elements folded.
pub(super) fn binary(op: BinOp, a: Expr, b: Expr) -> Expr {
    fold(op, &a, &b).unwrap_or_else(|| Expr::binary(op, a, b))
}
