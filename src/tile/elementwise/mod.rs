//! Operations on the elements of a tile: constants, conversions, functions of one operand, sums,
//! products, quotients, extremes, `fma`. Operands are tiles, broadcast to the destination as NumPy
//! does, or scalars.
//!
//! A result is rounded once, to nearest even, in the destination's type; `max` and `min` of a NaN give
//! the other operand.

mod cast_vec2;
mod f32x2;
mod operand;
mod ops;
mod reg;
mod registers;
mod smem;

use super::Variant;

/// The variants.
pub(super) static TABLE: &[Variant] = &[f32x2::VARIANT, cast_vec2::VARIANT, reg::VARIANT, smem::VARIANT];
