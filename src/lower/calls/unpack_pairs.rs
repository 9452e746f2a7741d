//! Sums of products with packed values, two at a time in float16: a loop marked `unpack_pairs`.
//!
//! For functions that add in float16 themselves. A field of bits and the one 16 bits above it are or-ed
//! into the mantissas of two float16 at once; a fused multiply-add takes away the power of two and the
//! zero point and leaves both values, divided by two to the width of a field (exact, and small enough for
//! the sums: half of |x| per product at most); another adds their products with two elements of `x`.
//! Half of the instructions of the way by float32 (`unpack`).
//!
//! Rounding: a product is not rounded, the sum of the products that share a scale is kept in two float16;
//! sums of these are float32.
//!
//! before: as `unpack`
//! after:  `bits = (w[0] & 0x000f000f) | 0x64006400; v2 = fma2(bits, 1/16, -1031/16);`
//!         `sum2 = fma2(v2, (x[0], x[4]), sum2); ...; acc[0] = fma((sum2[0] + sum2[1]) * 16, s[0], acc[0])`
//!
//! Declines (`None`): fields that have no partner 16 bits above, a zero point that is no small integer,
//! vectors that are not float16.
//!
//! Stands in a circle with `unpack`, which tries it first and whose fields it reads.

use super::unpack::Field;
use crate::analysis::{multiple_of, simplify};
use crate::ir::device::DStmt;
use crate::ir::instr::{At, Instr, Op, PackedOp};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name, Scope};
use crate::lower::nest::Nest;

/// Bits of the mantissa of float16.
const MANTISSA: u32 = 10;
/// Two float16 of 1024, whose lowest mantissa bit is one.
const POWERS: i64 = 0x6400_6400;
/// 2^10, as a number.
const POWER: f64 = 1024.0;
/// Bits by which a word is shifted where its fields lie too high.
const BYTE: u32 = 8;

/// A packed value and what it is multiplied with.
struct Term {
    x: Expr,
    field: Field,
    zero: f64,
}

/// Two fields that are 16 bits apart.
pub struct Pair {
    word: Expr,
    /// The lower field's place in its half of the word, once this is shifted.
    pub place: u32,
    /// Which of the fields they are.
    pub fields: [usize; 2],
}

/// The sum of some products as float32: statements, and the value after them.
pub fn sum(nest: &mut Nest, stem: &Name, terms: &[Vec<Expr>]) -> Option<(Vec<DStmt>, Expr)> {
    let terms: Vec<Term> = terms.iter().map(|t| Term::of(t)).collect::<Option<_>>()?;
    let (width, zero) = terms.first().map(|t| (t.field.width, t.zero))?;
    if terms.iter().any(|t| t.zero != zero) {
        return None;
    }
    let pairs = pairs(&terms.iter().map(|t| &t.field).collect::<Vec<_>>())?;
    let mut made = |what: &str| nest.scratch(&format!("{stem}_{what}"), DType::F16, Expr::i64(2), Scope::Local);
    let (sum, values, xs, scale, zeros) = (made("pair"), made("values"), made("xs"), made("scale"), made("zeros"));
    let mut out = vec![];
    let mut place = None;
    for (n, p) in pairs.into_iter().enumerate() {
        if place != Some(p.place) {
            place = Some(p.place);
            let (unit, taken) = coefficients(p.place, width, zero);
            out.extend(both(&scale, [unit, unit].map(half)));
            out.extend(both(&zeros, [taken, taken].map(half)));
        }
        out.push(bits(&values, &p, width));
        out.push(packed(PackedOp::Fma, &values, &values, &scale, Some(&zeros)));
        out.extend(together(nest, &xs, p.fields.map(|i| &terms[i].x)));
        out.push(match n {
            0 => packed(PackedOp::Mul, &sum, &values, &xs, None),
            _ => packed(PackedOp::Fma, &sum, &values, &xs, Some(&sum)),
        });
    }
    let one = |i| Expr::cast(DType::F32, Expr::load(sum.clone(), vec![Expr::i64(i)], DType::F16));
    let value = (one(0) + one(1)) * Expr::float(f64::from(1u32 << width), DType::F32);
    Some((out, value))
}

/// What a field in the mantissa of a power is multiplied with, and what is added: the field less its zero
/// point, over two to `halvings`, is left. Exact for zero points up to the power.
pub fn coefficients(place: u32, halvings: u32, zero: f64) -> (f64, f64) {
    let unit = 0.5f64.powi((place + halvings) as i32);
    (unit, -(POWER * unit) - zero * 0.5f64.powi(halvings as i32))
}

impl Term {
    /// `float32(x) * (field - zero)`.
    fn of(factors: &[Expr]) -> Option<Term> {
        let [a, b] = factors else { return None };
        let (x, (field, zero)) = match (value(a), value(b)) {
            (None, Some(v)) => (a, v),
            (Some(v), None) => (b, v),
            _ => return None,
        };
        let ExprKind::Cast { dtype: DType::F32, arg } = x.kind() else { return None };
        (is_small(zero) && arg.dtype() == DType::F16).then(|| Term { x: arg.clone(), field, zero })
    }
}

/// True for a zero point that can be taken away together with the power.
pub fn is_small(zero: f64) -> bool {
    zero.fract() == 0.0 && zero.abs() <= POWER
}

/// A field of bits less its zero point.
fn value(e: &Expr) -> Option<(Field, f64)> {
    match e.kind() {
        ExprKind::Binary { op: BinOp::Sub, a, b } => Some((Field::of(a)?, b.as_float()?)),
        _ => Some((Field::of(e)?, 0.0)),
    }
}

/// Every field with the one 16 bits above, those of one place side by side.
pub fn pairs(fields: &[&Field]) -> Option<Vec<Pair>> {
    let width = fields.first()?.width;
    if fields.iter().any(|f| f.width != width) || 2 * width > 16 {
        return None;
    }
    let mut out = vec![];
    for (i, low) in fields.iter().enumerate().filter(|(_, f)| f.shift < 16) {
        let high = fields.iter().position(|f| f.word == low.word && f.shift == low.shift + 16)?;
        let (word, place) = match low.shift + width <= MANTISSA {
            true => (low.word.clone(), low.shift),
            false => (
                Expr::binary(BinOp::Shr, low.word.clone(), Expr::int(i64::from(BYTE), DType::U32)),
                low.shift.checked_sub(BYTE)?,
            ),
        };
        if place + width > MANTISSA {
            return None;
        }
        out.push(Pair { word, place, fields: [i, high] });
    }
    out.sort_by_key(|p| p.place);
    (2 * out.len() == fields.len()).then_some(out)
}

/// Stores two values.
pub fn both(to: &Name, values: [Expr; 2]) -> [DStmt; 2] {
    let [a, b] = values;
    [DStmt::store(to.clone(), vec![Expr::i64(0)], a), DStmt::store(to.clone(), vec![Expr::i64(1)], b)]
}

/// Brings two values together: where both lie in registers, by taking halves of theirs.
fn together(nest: &Nest, to: &Name, values: [&Expr; 2]) -> Vec<DStmt> {
    match values.map(|v| half_of(nest, v)) {
        [Some((a, high)), Some((b, other))] => {
            let op = Op::Pick { high: [high, other] };
            vec![DStmt::Instr(Instr::new(op, [At::new(to, Expr::i64(0)), a, b], []))]
        }
        _ => both(to, values.map(Expr::clone)).into(),
    }
}

/// The pair of registers that a value is in, and whether it is the higher of both.
fn half_of(nest: &Nest, value: &Expr) -> Option<(At, bool)> {
    let ExprKind::Load { buffer, indices, dtype: DType::F16 } = value.kind() else { return None };
    let [at] = indices.as_slice() else { return None };
    nest.is_local(buffer).then_some(())?;
    [false, true].into_iter().find_map(|high| {
        let first = simplify(&(at.clone() - Expr::i64(i64::from(high))), &nest.ranges);
        (multiple_of(&first, &nest.ranges) % 2 == 0).then(|| (At::new(buffer, first), high))
    })
}

/// A number of float16.
pub fn half(v: f64) -> Expr {
    Expr::float(v, DType::F16)
}

/// Two fields in the mantissas of two powers.
pub fn bits(to: &Name, p: &Pair, width: u32) -> DStmt {
    let field = ((1i64 << width) - 1) << p.place;
    let u32s = |v: i64| Expr::int(v, DType::U32);
    let word = Expr::binary(BinOp::BitAnd, p.word.clone(), u32s(field << 16 | field));
    let word = Expr::binary(BinOp::BitOr, word, u32s(POWERS));
    DStmt::Instr(Instr::new(Op::Halves, [At::new(to, Expr::i64(0))], [word]))
}

/// An operation on two float16 at once.
pub fn packed(op: PackedOp, dst: &Name, a: &Name, b: &Name, c: Option<&Name>) -> DStmt {
    let all = [dst, a, b].into_iter().chain(c).map(|name| At::new(name, Expr::i64(0)));
    DStmt::Instr(Instr::new(Op::PackedF16(op), all.collect::<Vec<_>>(), []))
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    /// What is taken away, and every value that is left, is a float16, whatever the field and its zero point.
    #[test]
    fn values_are_exact() {
        for (width, place) in [(4u32, 0u32), (4, 4), (8, 0), (2, 0), (2, 2), (2, 4), (2, 6), (2, 8)] {
            for zero in [-1024.0, -7.0, 0.0, 1.0, 7.0, 8.0, 127.0, 128.0, 1023.0, 1024.0] {
                [0, width].into_iter().for_each(|halvings| check(width, place, halvings, zero));
            }
        }
    }

    fn check(width: u32, place: u32, halvings: u32, zero: f64) {
        let (unit, taken) = coefficients(place, halvings, zero);
        let exact = |v: f64| f16::from_f64(v).to_f64() == v;
        assert!(exact(unit) && exact(taken), "{width} bits at {place}, zero {zero}: {unit}, {taken}");
        for n in 0..1u32 << width {
            let bits = POWER + f64::from(n << place);
            let value = bits * unit + taken;
            let want = (f64::from(n) - zero) * 0.5f64.powi(halvings as i32);
            assert!(exact(bits) && exact(value) && value == want, "{n} of {width} bits at {place}, zero {zero}");
        }
    }
}
