//! A layout applied to expressions, for code generation: `int64` arithmetic on the indices, with a
//! division or remainder only where an index has to be split.

use super::canon::{group, merged};
use super::{Axis, Iter, TileLayout};
use crate::ir::ops::fold;
use crate::ir::{BinOp, DType, Expr};

impl TileLayout {
    /// The element offset on `m` of the element at `indices` of a tensor of `shape`, swizzled where
    /// the layout is; of its first place, if there are replicas. The indices are within the shape.
    pub fn memory_offset(&self, shape: &[i64], indices: &[Expr]) -> Result<Expr, String> {
        let offset = self.axis_value(Axis::M, shape, indices)?;
        let Some((from, to, mask)) = self.swizzle.filter(|s| s.swizzle_len() > 0).map(|s| s.bits()) else {
            return Ok(offset);
        };
        let int = |n: u32| Expr::i64(i64::from(n));
        let group = binary(BinOp::BitAnd, binary(BinOp::Shr, offset.clone(), int(from)), Expr::i64(mask));
        Ok(binary(BinOp::BitXor, offset, binary(BinOp::Shl, group, int(to))))
    }

    /// The value on an axis, before any swizzle, of the element at `indices` of a tensor of `shape`.
    pub fn axis_value(&self, axis: Axis, shape: &[i64], indices: &[Expr]) -> Result<Expr, String> {
        self.check_shape(shape)?;
        if indices.len() != shape.len() {
            return Err(format!("{} indices are given for the {} dimensions of {shape:?}", indices.len(), shape.len()));
        }
        let indices: Vec<Expr> = indices.iter().map(to_i64).collect();
        let iters = merged(&self.shard);
        let mut sum = Expr::i64(0);
        match group(&iters, shape) {
            Some(groups) => {
                for (group, index) in groups.iter().zip(&indices) {
                    sum = add_terms(sum, group, index, axis);
                }
            }
            None => {
                let flat = shape.iter().zip(&indices).fold(Expr::i64(0), |n, (e, i)| {
                    binary(BinOp::Add, binary(BinOp::Mul, n, Expr::i64(*e)), i.clone())
                });
                sum = add_terms(sum, &iters, &flat, axis);
            }
        }
        Ok(binary(BinOp::Add, sum, Expr::i64(self.offset.get(&axis).copied().unwrap_or(0))))
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
