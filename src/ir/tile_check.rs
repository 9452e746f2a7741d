//! Which tiles go together in a call.

use super::{TileArg, TileCall, TileOp};

impl TileCall {
    /// Checks that the extents of destination and operands fit the operation: copies take as many
    /// elements in the same shape (extents of 1 do not count), reductions leave what is not
    /// reduced, matrix products agree on their depth, elementwise operands are broadcast as NumPy
    /// does. The error is a sentence.
    pub fn conforms(&self) -> Result<(), String> {
        let name = self.op.name();
        if self.args.len() != self.op.arity() {
            return Err(format!("{name} takes {} operands, but {} are given", self.op.arity(), self.args.len()));
        }
        let tiles: Vec<&[i64]> = self.args.iter().filter_map(extents).collect();
        let dst = self.dst.extent.as_slice();
        match self.op {
            TileOp::Copy | TileOp::CopyAsync | TileOp::PermuteLayout => match tiles.as_slice() {
                [src] if squeezed(src) == squeezed(dst) => Ok(()),
                [src] => Err(format!("{name} copies a tile of extents {src:?} to one of {dst:?}; they must agree")),
                _ => Err(format!("{name} takes a part of a buffer")),
            },
            TileOp::Sum | TileOp::Prod | TileOp::Max | TileOp::Min => self.reduces(&tiles),
            TileOp::Gemm => self.multiplies(&tiles),
            TileOp::Zero | TileOp::Fill => Ok(()),
            TileOp::Cast
            | TileOp::Reciprocal
            | TileOp::Sqrt
            | TileOp::Exp
            | TileOp::Exp2
            | TileOp::Log2
            | TileOp::Silu
            | TileOp::Add
            | TileOp::Sub
            | TileOp::Mul
            | TileOp::Fdiv
            | TileOp::Maximum
            | TileOp::Minimum
            | TileOp::Fma => match tiles.iter().find(|t| !broadcasts(t, dst)) {
                None => Ok(()),
                Some(t) => Err(format!("an operand of extents {t:?} does not broadcast to the destination's {dst:?}")),
            },
        }
    }

    fn reduces(&self, tiles: &[&[i64]]) -> Result<(), String> {
        let name = self.op.name();
        let [src] = tiles else { return Err(format!("{name} takes a part of a buffer")) };
        if self.axes.is_empty() || self.axes.iter().any(|a| *a >= src.len()) {
            return Err(format!("{name} reduces axes {:?} of a tile of {} dimensions", self.axes, src.len()));
        }
        let kept = src.iter().enumerate().filter(|(k, _)| !self.axes.contains(k)).map(|(_, n)| *n);
        let left: i64 = kept.product();
        if left == self.dst.len() {
            return Ok(());
        }
        Err(format!(
            "{name} over axes {:?} of extents {src:?} leaves {left} values, but the destination has {}",
            self.axes,
            self.dst.len()
        ))
    }

    /// `[m, n] = [m, k] [k, n]`, either factor transposed where the call says so.
    fn multiplies(&self, tiles: &[&[i64]]) -> Result<(), String> {
        let [a, b] = tiles else { return Err("gemm takes two parts of buffers".to_string()) };
        let matrix = |t: &[i64], what: &str| match t {
            [outer @ .., r, c] if outer.iter().all(|n| *n == 1) => Ok((*r, *c)),
            _ => Err(format!("the {what} of gemm has extents {t:?}, which are no matrix")),
        };
        let turned = |(r, c), key: &str| if self.flag(key) { (c, r) } else { (r, c) };
        let (m, n) = matrix(&self.dst.extent, "destination")?;
        let (am, ak) = turned(matrix(a, "first operand")?, "transpose_A");
        let (bk, bn) = turned(matrix(b, "second operand")?, "transpose_B");
        if (am, bn) == (m, n) && ak == bk {
            return Ok(());
        }
        Err(format!("gemm of {am}x{ak} and {bk}x{bn} matrices does not give {m}x{n}"))
    }

    /// True where a named argument is `True`.
    pub fn flag(&self, key: &str) -> bool {
        matches!(self.config.get(key), Some(super::AttrValue::Bool(true)))
    }
}

fn extents(a: &TileArg) -> Option<&[i64]> {
    match a {
        TileArg::Tile(t) => Some(&t.extent),
        TileArg::Scalar(_) => None,
    }
}

/// Extents without those of 1.
fn squeezed(extents: &[i64]) -> Vec<i64> {
    extents.iter().copied().filter(|n| *n != 1).collect()
}

/// True where NumPy would broadcast `a` to `to`; leading extents of 1 do not count.
fn broadcasts(a: &[i64], to: &[i64]) -> bool {
    let extra = a.len().saturating_sub(to.len());
    a[..extra].iter().all(|n| *n == 1) && a[extra..].iter().rev().zip(to.iter().rev()).all(|(x, y)| x == y || *x == 1)
}
