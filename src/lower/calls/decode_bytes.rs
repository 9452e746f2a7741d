//! Values of one byte of a packed word as float16, both at once: a loop marked `unpack_pairs` whose byte differs between
//! lanes.
//!
//! The byte comes into both halves of a register below the exponents of a power of two; one half keeps the lower value,
//! the other the upper one, 16 times as large. A fused multiply-add takes the power and the zero point away (exact), a
//! product of two float16 brings in the scale.
//!
//! Rounding: as the function says, once, where the scale multiplies: the bits are those of the loop.
//!
//! before: `unroll v < 2 { r[v] = (float16(w >> (lane % 4 * 8 + v * 4) & 15) - 7.0) * s }`
//! after:  `x = prmt(w, 0x64646464, 0x4040 + lane % 4 * 0x101); r[0:2] = fma2(x & 0x64f0640f, (1, 1/16), (-1031, -71)) * (s, s)`
//!
//! Declines (`None`): values of another form or type, fields that are not the two halves of a byte, a zero point that is
//! no small integer. The loop stays a loop.

use super::unpack::at;
use super::unpack_pairs::{both, coefficients, half, is_small, packed};
use crate::analysis::{bounds, linear, multiple_of, simplify};
use crate::ir::device::{DFor, DKind, DStmt};
use crate::ir::instr::{At, Instr, Op, PackedOp};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name, Scope};
use crate::lower::nest::Nest;

/// Bits of a value, of a byte, of a word.
const BITS: [i64; 3] = [4, 8, 32];
/// The upper byte of a float16 of 1024, four times.
const POWERS: i64 = 0x6464_6464;
/// The lower value in one half, the upper one in the other.
const KEPT: i64 = 0x64f0_640f;
/// Byte 0 and byte 4 in turn, and one more of the first.
const SELECTOR: [i64; 2] = [0x4040, 0x0101];

/// The straight code of a marked loop.
pub fn run(nest: &mut Nest, l: &DFor) -> Option<Vec<DStmt>> {
    let [DStmt::Store { buffer, indices, value, .. }] = l.body.as_slice() else { return None };
    let ([to], true, DKind::Unrolled) = (indices.as_slice(), l.extent.is_int(2), l.kind) else { return None };
    let (step, _) = linear(to, &l.var, &nest.ranges)?;
    let to = simplify(&at(nest, to, &l.var, 0), &nest.ranges);
    if !nest.is_local(buffer) || value.loads(buffer) || !step.is_int(1) || multiple_of(&to, &nest.ranges) % 2 != 0 {
        return None;
    }
    let [low, high] = [0, 1].map(|v| Value::of(&at(nest, value, &l.var, v)));
    let (low, high) = (low?, high?);
    let byte = byte(nest, [&low.shift, &high.shift])?;
    let same = low.word == high.word && low.scale == high.scale && low.zero == high.zero;
    same.then(|| emit(nest, (buffer, to), low, &byte))
}

/// `(float16(word >> shift & 15) - zero) * scale`.
struct Value {
    word: Expr,
    shift: Expr,
    zero: f64,
    scale: Option<Expr>,
}

impl Value {
    fn of(e: &Expr) -> Option<Value> {
        match e.kind() {
            ExprKind::Binary { op: BinOp::Mul, a, b } => {
                let scaled = |e: &Expr, scale: &Expr| Some(Value { scale: Some(scale.clone()), ..Value::unscaled(e)? });
                scaled(a, b).or_else(|| scaled(b, a))
            }
            _ => Value::unscaled(e),
        }
    }

    fn unscaled(e: &Expr) -> Option<Value> {
        let (e, zero) = match e.kind() {
            ExprKind::Binary { op: BinOp::Sub, a, b } => (a, b.as_float()?),
            _ => (e, 0.0),
        };
        let ExprKind::Cast { dtype: DType::F16, arg } = e.kind() else { return None };
        let ExprKind::Binary { op: BinOp::BitAnd, a, b: mask } = arg.kind() else { return None };
        let ExprKind::Binary { op: BinOp::Shr, a: word, b: shift } = a.kind() else { return None };
        let known = mask.is_int((1 << BITS[0]) - 1) && word.dtype() == DType::U32 && is_small(zero);
        known.then(|| Value { word: word.clone(), shift: shift.clone(), zero, scale: None })
    }
}

/// The number of the byte whose halves begin at these bits.
fn byte(nest: &Nest, shifts: [&Expr; 2]) -> Option<Expr> {
    let [value, byte, word] = BITS;
    let [low, high] = shifts.map(|e| simplify(&Expr::cast(DType::I64, index(e).clone()), &nest.ranges));
    let apart = simplify(&(high - low.clone()), &nest.ranges);
    let (least, most) = bounds(&low, &nest.ranges)?;
    let whole = apart.is_int(value) && multiple_of(&low, &nest.ranges) % byte == 0 && least >= 0 && most < word;
    whole.then(|| simplify(&Expr::binary(BinOp::FloorDiv, low, Expr::i64(byte)), &nest.ranges))
}

/// What was converted between types of integers, which makes no difference to numbers that are small.
fn index(e: &Expr) -> &Expr {
    match e.kind() {
        ExprKind::Cast { dtype, arg } if dtype.is_int() && arg.dtype().is_int() => index(arg),
        _ => e,
    }
}

/// Both values to their place in the buffer.
fn emit(nest: &mut Nest, (buffer, to): (&Name, Expr), value: Value, byte: &Expr) -> Vec<DStmt> {
    let mut made = |what: &str, dtype, n| nest.scratch(&format!("{buffer}_{what}"), dtype, Expr::i64(n), Scope::Local);
    let bytes = made("bytes", DType::U32, 1);
    let [two, units, zeros, scales] = ["two", "units", "zeros", "scale"].map(|what| made(what, DType::F16, 2));
    let u32s = |n: i64| Expr::int(n, DType::U32);
    let selector = Expr::cast(DType::U32, byte.clone() * Expr::i64(SELECTOR[1]) + Expr::i64(SELECTOR[0]));
    let [low, high] = [0, BITS[0] as u32].map(|place| coefficients(place, 0, value.zero));
    let mut out = both(&units, [low.0, high.0].map(half)).to_vec();
    out.extend(both(&zeros, [low.1, high.1].map(half)));
    let first = Expr::i64(0);
    let spread = [value.word, u32s(POWERS), selector];
    out.push(DStmt::Instr(Instr::new(Op::Prmt, [At::new(&bytes, first.clone())], spread)));
    let kept = Expr::binary(BinOp::BitAnd, Expr::load(bytes, vec![first.clone()], DType::U32), u32s(KEPT));
    out.push(DStmt::Instr(Instr::new(Op::Halves, [At::new(&two, first.clone())], [kept])));
    let to = At::new(buffer, to);
    let into = |op, last: Vec<&Name>| {
        let places = [to.clone()].into_iter().chain(last.into_iter().map(|n| At::new(n, first.clone())));
        DStmt::Instr(Instr::new(Op::PackedF16(op), places.collect::<Vec<_>>(), []))
    };
    match value.scale {
        None => out.push(into(PackedOp::Fma, vec![&two, &units, &zeros])),
        Some(scale) => {
            out.push(packed(PackedOp::Fma, &two, &two, &units, Some(&zeros)));
            out.extend(both(&scales, [scale.clone(), scale]));
            out.push(into(PackedOp::Mul, vec![&two, &scales]));
        }
    }
    out
}
