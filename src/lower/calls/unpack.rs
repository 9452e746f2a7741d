//! Sums of products with values that are packed in integers: a loop marked `unpack`.
//!
//! The loop adds `x[v] * f(bits of w[v // n]) * s` to one register for every `v`. It becomes straight code in
//! which
//! - a field of bits becomes a float without a conversion instruction and without a shift: or-ed in place
//!   into the mantissa of a power of two, which is then taken away together with the zero point (exact);
//! - what is the same for adjacent `v` (a scale) multiplies their sum, once.
//!
//! Rounding: products and sums are fused multiply-adds of float32. The sum of the values that share a scale
//! is rounded before the scale multiplies it, which is a reassociation and no loss of range.
//!
//! before: `unroll v < 8 { acc[0] = acc[0] + x[v] * ((float32(w[0] >> v*4 & 15) - 7.0) * s[0]) }`
//! after:  `part = 0.0; part = fma(x[0], as_float(w[0] & 15 | 0x4b000000) - 8388615.0, part); ...;`
//!         `acc[0] = fma(part, s[0], acc[0])`
//!
//! Declines (`None`): the loop has another form and stays a loop.

use super::unpack_pairs;
use crate::analysis::simplify;
use crate::ir::device::{DFor, DKind, DStmt};
use crate::ir::{BinOp, DType, Expr, ExprKind, Intrin, Name};
use crate::lower::fact::reducer::{Update, update_of};
use crate::lower::nest::Nest;

/// Bits of the mantissa of float32.
const MANTISSA: u32 = 23;
/// Exponent of a float32 whose lowest mantissa bit is one.
const UNIT_EXPONENT: i64 = 150;

/// The straight code of a marked loop; with `pairs`, products in pairs of float16 where they can be.
pub fn run(nest: &mut Nest, l: &DFor, pairs: bool) -> Option<Vec<DStmt>> {
    let n = l.extent.as_int().filter(|_| l.kind == DKind::Unrolled)?;
    let [s] = l.body.as_slice() else { return None };
    let up = update_of(s).filter(|up| up.op == BinOp::Add && nest.is_local(&up.buffer))?;
    let [to] = up.indices.as_slice() else { return None };
    if to.uses_var(&l.var) || up.term.dtype() != DType::F32 {
        return None;
    }
    let terms: Vec<Vec<Expr>> = (0..n).map(|v| factors(&at(nest, &up.term, &l.var, v))).collect();
    let mut out = vec![];
    for group in groups(&terms) {
        let in_pairs = if pairs { unpack_pairs::sum(nest, &up.buffer, &group.terms) } else { None };
        let (terms, part) = in_pairs.unwrap_or_else(|| sum(nest, &up, &group));
        out.extend(terms);
        out.push(add(&up, &group, part));
    }
    Some(out)
}

/// An expression at one value of the loop variable, its indices and shifts simplified.
pub fn at(nest: &Nest, e: &Expr, var: &Name, v: i64) -> Expr {
    let value = |name: &Name| (name == var).then(|| Expr::i64(v));
    settled(nest, &e.subst(&value))
}

fn settled(nest: &Nest, e: &Expr) -> Expr {
    let e = e.map_children(|c| settled(nest, c));
    match e.kind() {
        ExprKind::Load { buffer, indices, dtype } => {
            let indices = indices.iter().map(|i| simplify(i, &nest.ranges)).collect();
            Expr::load(buffer.clone(), indices, *dtype)
        }
        ExprKind::Cast { dtype, arg } if !dtype.is_float() => match simplify(arg, &nest.ranges).as_int() {
            Some(n) if n >= 0 => Expr::int(n, *dtype),
            _ => e,
        },
        _ => e,
    }
}

/// The factors of a product.
fn factors(e: &Expr) -> Vec<Expr> {
    match e.kind() {
        ExprKind::Binary { op: BinOp::Mul, a, b } if e.dtype() == DType::F32 => {
            let mut all = factors(a);
            all.extend(factors(b));
            all
        }
        _ => vec![e.clone()],
    }
}

/// Adjacent terms that share factors: these, and the others of each term.
struct Group {
    shared: Vec<Expr>,
    terms: Vec<Vec<Expr>>,
}

/// Factors that the first two terms share are those that groups are made by.
fn groups(terms: &[Vec<Expr>]) -> Vec<Group> {
    let slow: Vec<bool> = match terms {
        [a, b, ..] if a.len() == b.len() => a.iter().zip(b).map(|(a, b)| a == b).collect(),
        _ => vec![],
    };
    let is_slow = |i: usize| slow.get(i).copied().unwrap_or(false);
    let mut out: Vec<Group> = vec![];
    for term in terms {
        let part = |wanted: bool| -> Vec<Expr> {
            let own = term.iter().enumerate().filter(|(i, _)| is_slow(*i) == wanted);
            own.map(|(_, e)| e.clone()).collect()
        };
        let (shared, own) = (part(true), part(false));
        match out.last_mut() {
            Some(g) if g.shared == shared => g.terms.push(own),
            _ => out.push(Group { shared, terms: vec![own] }),
        }
    }
    out
}

/// The buffer that a marked loop adds to, if it has that form.
pub fn target(l: &DFor) -> Option<Name> {
    match l.body.as_slice() {
        [s] => update_of(s).map(|up| up.buffer),
        _ => None,
    }
}

/// The sum of the terms of one group: statements, and the value after them.
fn sum(nest: &mut Nest, up: &Update, group: &Group) -> (Vec<DStmt>, Expr) {
    let part = nest.fresh(&format!("{}_part", up.buffer));
    let own = Expr::var(part.clone(), DType::F32);
    let mut out = vec![DStmt::Var { var: part.clone(), dtype: DType::F32, init: Some(Expr::float(0.0, DType::F32)) }];
    for term in &group.terms {
        let value = plus(&term.iter().map(unpacked).collect::<Vec<_>>(), own.clone());
        out.push(DStmt::Assign { var: part.clone(), value });
    }
    (out, own)
}

/// Adds the sum of one group, times what its terms share, to the register.
fn add(up: &Update, group: &Group, part: Expr) -> DStmt {
    let mut all = vec![part];
    all.extend(group.shared.iter().map(unpacked));
    let old = Expr::load(up.buffer.clone(), up.indices.clone(), DType::F32);
    DStmt::store(up.buffer.clone(), up.indices.clone(), plus(&all, old))
}

/// The product of some factors added to `to`, the last multiplication fused.
fn plus(factors: &[Expr], to: Expr) -> Expr {
    match factors {
        [] => to + Expr::float(1.0, DType::F32),
        [one] => to + one.clone(),
        [first, rest @ ..] => {
            let rest = rest.iter().cloned().reduce(|a, b| a * b).unwrap_or_else(|| Expr::float(1.0, DType::F32));
            Expr::call(Intrin::Fma, vec![first.clone(), rest, to], DType::F32)
        }
    }
}

/// The expression with its fields of bits made floats in place.
fn unpacked(e: &Expr) -> Expr {
    if let Some((bits, offset)) = Field::of(e).map(|f| f.in_mantissa()) {
        return bits - Expr::float(offset, DType::F32);
    }
    let e = e.map_children(unpacked);
    if let ExprKind::Binary { op: BinOp::Sub, a, b } = e.kind()
        && let ExprKind::Binary { op: BinOp::Sub, a: bits, b: offset } = a.kind()
        && let (ExprKind::Reinterpret { .. }, Some(x), Some(y)) = (bits.kind(), offset.as_float(), b.as_float())
        && y.fract() == 0.0
        && y.abs() <= f64::from(1 << 11)
        && x + y < f64::from(1 << (MANTISSA + 1))
    {
        return bits.clone() - Expr::float(x + y, DType::F32);
    }
    e
}

/// Some adjacent bits of a 32-bit word, converted to float32.
pub struct Field {
    pub word: Expr,
    pub shift: u32,
    pub width: u32,
}

impl Field {
    /// `float32(word >> shift & mask)`, by way of float16 or not.
    pub fn of(e: &Expr) -> Option<Field> {
        let ExprKind::Cast { dtype: DType::F32, arg } = e.kind() else { return None };
        Field::half(arg).or_else(|| Field::bits(arg))
    }

    /// `float16(word >> shift & mask)`.
    pub fn half(e: &Expr) -> Option<Field> {
        match e.kind() {
            ExprKind::Cast { dtype: DType::F16, arg } => Field::bits(arg),
            _ => None,
        }
    }

    /// `word >> shift & mask`.
    fn bits(e: &Expr) -> Option<Field> {
        let ExprKind::Binary { op: BinOp::BitAnd, a: word, b: mask } = e.kind() else { return None };
        let past = mask.as_int().filter(|m| *m > 0)?.checked_add(1)?;
        let (word, shift) = match word.kind() {
            ExprKind::Binary { op: BinOp::Shr, a, b } => {
                (a, u32::try_from(b.as_int()?).ok().filter(|shift| *shift < 32)?)
            }
            _ => (word, 0),
        };
        let width = past.trailing_zeros();
        let fits = past.count_ones() == 1 && width <= 11 && shift + width <= 32;
        (fits && word.dtype() == DType::U32).then(|| Field { word: word.clone(), shift, width })
    }

    /// The field or-ed into the mantissa of a power of two, and that power.
    fn in_mantissa(&self) -> (Expr, f64) {
        let high = self.shift + self.width > MANTISSA;
        let (word, shift) = if high {
            (Expr::binary(BinOp::Shr, self.word.clone(), Expr::int(16, DType::U32)), self.shift - 16)
        } else {
            (self.word.clone(), self.shift)
        };
        let mask = ((1i64 << self.width) - 1) << shift;
        let one = Expr::int((UNIT_EXPONENT - i64::from(shift)) << MANTISSA, DType::U32);
        let bits = Expr::binary(BinOp::BitAnd, word, Expr::int(mask, DType::U32));
        let bits = Expr::binary(BinOp::BitOr, bits, one);
        let power = f64::from(1u32 << (MANTISSA - shift));
        (Expr::reinterpret(DType::F32, bits), power)
    }
}
