//! The parts of tf32 that factors of float32 are split into.

use super::operands::Product;
use crate::ir::{BinOp, DType, Expr};

/// Bits of a float32 that tf32 has.
const HIGH: i64 = 0xffff_e000;

/// That all operands are what is split.
///
/// # Errors
/// Where one is of another type.
pub(super) fn float32(p: &Product) -> Result<(), String> {
    match [&p.d, &p.a, &p.b].map(|x| x.view.dtype) {
        [DType::F32, DType::F32, DType::F32] => Ok(()),
        [d, a, b] => Err(format!("{a} times {b} into {d}, and what is split into parts of tf32 is float32")),
    }
}

/// What is left of a number without the bits that tf32 has.
pub(super) fn rest(x: Expr) -> Expr {
    let high = float(Expr::binary(BinOp::BitAnd, bits(x.clone()), word(HIGH)));
    x - high
}

pub(super) fn word(n: i64) -> Expr {
    Expr::int(n, DType::U32)
}

pub(super) fn bits(x: Expr) -> Expr {
    Expr::reinterpret(DType::U32, x)
}

pub(super) fn float(x: Expr) -> Expr {
    Expr::reinterpret(DType::F32, x)
}
