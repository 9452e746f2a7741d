//! Arithmetic on slots, one operation at a time. A slot holds the bits of an `f64` for floats, of an
//! `i64` for integers; results are rounded or wrapped to their type.

use super::math::{binary, unary};
use super::round::{
    float_bits, float_to_int, float_value, floor_div, int_to_f64, int_to_float, round_to, shift_left, shift_right,
    shift_right_u64, wrap_int,
};
use crate::ir::{BinOp, DType, Intrin, UnOp};

/// The float in a slot.
pub fn float(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// A float32 number as tensor cores multiply it (tf32): without its low 13 bits.
pub fn tf32(bits: u64) -> u64 {
    f64::from(f32::from_bits((float(bits) as f32).to_bits() & !0x1fff)).to_bits()
}

fn rounded(v: f64, dtype: DType) -> u64 {
    round_to(v, dtype).to_bits()
}

/// The slot for the stored bits of an element.
pub fn from_stored(bits: u64, dtype: DType) -> u64 {
    if dtype.is_float() { float_value(bits, dtype).to_bits() } else { wrap_int(bits as i64, dtype) as u64 }
}

/// The stored bits of an element for a slot.
pub fn to_stored(slot: u64, dtype: DType) -> u64 {
    if dtype.is_float() { float_bits(float(slot), dtype) } else { slot }
}

/// A unary operator.
pub fn apply_unary(op: UnOp, dtype: DType, a: u64) -> u64 {
    match op {
        UnOp::Neg if dtype.is_float() => (-float(a)).to_bits(),
        UnOp::Neg => wrap_int((a as i64).wrapping_neg(), dtype) as u64,
        UnOp::Not => (a == 0) as u64,
        UnOp::BitNot => wrap_int(!(a as i64), dtype) as u64,
    }
}

/// A binary operator of integers; a quotient or remainder by 0 is 0.
pub fn apply_int(op: BinOp, dtype: DType, a: u64, b: u64) -> u64 {
    let (x, y) = (a as i64, b as i64);
    // 64-bit unsigned values are compared and divided as such; narrower ones are non-negative.
    let unsigned = dtype == DType::U64;
    let less = if unsigned { a < b } else { x < y };
    if (op == BinOp::Div || op.is_rounded_division()) && y == 0 {
        return 0;
    }
    let value = match op {
        BinOp::Add => x.wrapping_add(y),
        BinOp::Sub => x.wrapping_sub(y),
        BinOp::Mul => x.wrapping_mul(y),
        BinOp::Div | BinOp::FloorDiv | BinOp::TruncDiv if unsigned => (a / b) as i64,
        BinOp::FloorMod | BinOp::TruncMod if unsigned => (a % b) as i64,
        BinOp::Div | BinOp::TruncDiv => x.wrapping_div(y),
        BinOp::TruncMod => x.wrapping_rem(y),
        BinOp::FloorDiv => floor_div(x, y),
        BinOp::FloorMod => x.wrapping_sub(floor_div(x, y).wrapping_mul(y)),
        BinOp::Min => {
            if less {
                x
            } else {
                y
            }
        }
        BinOp::Max => {
            if less {
                y
            } else {
                x
            }
        }
        BinOp::Eq => return (x == y) as u64,
        BinOp::Ne => return (x != y) as u64,
        BinOp::Lt => return less as u64,
        BinOp::Ge => return !less as u64,
        BinOp::Gt => return (!less && x != y) as u64,
        BinOp::Le => return (less || x == y) as u64,
        BinOp::And => return (x != 0 && y != 0) as u64,
        BinOp::Or => return (x != 0 || y != 0) as u64,
        BinOp::BitAnd => x & y,
        BinOp::BitOr => x | y,
        BinOp::BitXor => x ^ y,
        BinOp::Shl => shift_left(x, y),
        BinOp::Shr if unsigned => shift_right_u64(a, b) as i64,
        BinOp::Shr => shift_right(x, y),
    };
    wrap_int(value, dtype) as u64
}

/// A binary operator of floats.
///
/// # Panics
/// For operators of integers only.
pub fn apply_float(op: BinOp, dtype: DType, a: u64, b: u64) -> u64 {
    let (x, y) = (float(a), float(b));
    let value = match op {
        BinOp::Add => x + y,
        BinOp::Sub => x - y,
        BinOp::Mul => x * y,
        BinOp::Div => x / y,
        BinOp::FloorDiv => (x / y).floor(),
        BinOp::FloorMod => x - y * (x / y).floor(),
        BinOp::TruncDiv => (x / y).trunc(),
        BinOp::TruncMod => x % y,
        BinOp::Min => x.min(y),
        BinOp::Max => x.max(y),
        BinOp::Eq => return (x == y) as u64,
        BinOp::Ne => return (x != y) as u64,
        BinOp::Lt => return (x < y) as u64,
        BinOp::Le => return (x <= y) as u64,
        BinOp::Gt => return (x > y) as u64,
        BinOp::Ge => return (x >= y) as u64,
        BinOp::And | BinOp::Or | BinOp::BitAnd | BinOp::BitOr | BinOp::BitXor | BinOp::Shl | BinOp::Shr => {
            panic!("{op:?} of floats passed verification")
        }
    };
    rounded(value, dtype)
}

/// A value conversion.
pub fn apply_cast(from: DType, to: DType, a: u64) -> u64 {
    match (from.is_float(), to.is_float()) {
        (true, true) => rounded(float(a), to),
        (true, false) => float_to_int(float(a), to) as u64,
        (false, true) => int_to_float(a as i64, from, to).to_bits(),
        (false, false) => wrap_int(a as i64, to) as u64,
    }
}

/// A bit conversion.
pub fn apply_reinterpret(from: DType, to: DType, a: u64) -> u64 {
    from_stored(to_stored(a, from), to)
}

/// A mathematical function of arguments of type `from`.
///
/// # Panics
/// Never: every function takes one, two or three arguments.
pub fn apply_call(op: Intrin, from: DType, to: DType, args: [u64; 3]) -> u64 {
    let as_float = |a: u64| if from.is_float() { float(a) } else { int_to_f64(a as i64, from) };
    let [x, y, z] = args.map(as_float);
    let spare = 64 - 8 * from.bytes() as u32;
    let field = args[0] << spare >> spare;
    match op {
        Intrin::IsNan => return x.is_nan() as u64,
        Intrin::IsInf => return x.is_infinite() as u64,
        Intrin::PopCount => return u64::from(field.count_ones()),
        Intrin::Clz => return u64::from(field.leading_zeros() - spare),
        Intrin::Fma => return apply_cast(DType::F64, to, x.mul_add(y, z).to_bits()),
        _ => {}
    }
    let value = match (unary(op), binary(op)) {
        (Some(f), _) => f(x),
        (None, Some(f)) => f(x, y),
        (None, None) => panic!("`T.{}` has neither one nor two arguments", op.name()),
    };
    apply_cast(DType::F64, to, value.to_bits())
}
