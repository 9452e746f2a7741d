//! Packed values as float16, two at a time: a loop marked `unpack_pairs` that stores them to registers.
//!
//! A field of bits and the one 16 bits above it are or-ed into the mantissas of two float16 at once; a fused
//! multiply-add takes away the power of two and the zero point (exact), a product of two float16 brings in the
//! scale. No conversion from integers, which GPUs have at a quarter of the rate.
//!
//! Rounding: as the function says, once, where the scale multiplies: the bits are those of the loop.
//!
//! before: `unroll v < 8 { r[v] = (float16(w[0] >> v*4 & 15) - 7.0) * s[0] }`
//! after:  `bits = (w[0] & 0x000f000f) | 0x64006400; v2 = fma2(bits, 1, -1031) * s2; r[0] = v2[0]; r[4] = v2[1]; ...`
//!
//! Declines (`None`): values of another form or type, fields that have no partner 16 bits above, a zero point
//! that is no small integer. The loop stays a loop.

use super::unpack::{self, Field};
use super::unpack_pairs::{Pair, bits, both, coefficients, half, is_small, packed, pairs};
use crate::analysis::simplify;
use crate::ir::device::{DFor, DKind, DStmt};
use crate::ir::instr::PackedOp;
use crate::ir::{BinOp, DType, Expr, ExprKind, Name, Scope};
use crate::lower::nest::Nest;

/// A packed value: `(float16(field) - zero) * scale`.
struct Value {
    field: Field,
    zero: f64,
    scale: Option<Expr>,
}

/// The straight code of a marked loop.
pub fn run(nest: &mut Nest, l: &DFor) -> Option<Vec<DStmt>> {
    let n = l.extent.as_int().filter(|_| l.kind == DKind::Unrolled)?;
    let [DStmt::Store { buffer, indices, value, .. }] = l.body.as_slice() else { return None };
    let [to] = indices.as_slice() else { return None };
    if !nest.is_local(buffer) || value.loads(buffer) {
        return None;
    }
    let values: Vec<Value> = (0..n).map(|v| Value::of(&unpack::at(nest, value, &l.var, v))).collect::<Option<_>>()?;
    let zero = values.first()?.zero;
    if values.iter().any(|v| v.zero != zero) {
        return None;
    }
    let pairs = pairs(&values.iter().map(|v| &v.field).collect::<Vec<_>>())?;
    let to: Vec<Expr> = (0..n).map(|v| simplify(&unpack::at(nest, to, &l.var, v), &nest.ranges)).collect();
    Some(emit(nest, buffer, &to, &values, &pairs))
}

/// The values pair by pair, each to its place in the buffer.
fn emit(nest: &mut Nest, buffer: &Name, to: &[Expr], values: &[Value], pairs: &[Pair]) -> Vec<DStmt> {
    let mut made = |what: &str| nest.scratch(&format!("{buffer}_{what}"), DType::F16, Expr::i64(2), Scope::Local);
    let (two, units, zeros, scales) = (made("two"), made("units"), made("zeros"), made("scales"));
    let (mut out, mut place, mut scaled) = (vec![], None, None);
    for p in pairs {
        let Value { field, zero, .. } = &values[p.fields[0]];
        if place.replace(p.place) != Some(p.place) {
            let (unit, taken) = coefficients(p.place, 0, *zero);
            out.extend(both(&units, [unit, unit].map(half)));
            out.extend(both(&zeros, [taken, taken].map(half)));
        }
        out.push(bits(&two, p, field.width));
        out.push(packed(PackedOp::Fma, &two, &two, &units, Some(&zeros)));
        if let [Some(a), Some(b)] = p.fields.map(|i| values[i].scale.clone()) {
            let own = Some([a.clone(), b.clone()]);
            if scaled != own {
                out.extend(both(&scales, [a, b]));
                scaled = own;
            }
            out.push(packed(PackedOp::Mul, &two, &two, &scales, None));
        }
        for (i, field) in p.fields.into_iter().enumerate() {
            let value = Expr::load(two.clone(), vec![Expr::i64(i as i64)], DType::F16);
            out.push(DStmt::store(buffer.clone(), vec![to[field].clone()], value));
        }
    }
    out
}

impl Value {
    fn of(e: &Expr) -> Option<Value> {
        let scaled = |e: &Expr, scale: &Expr| Some(Value { scale: Some(scale.clone()), ..Value::unscaled(e)? });
        match e.kind() {
            ExprKind::Binary { op: BinOp::Mul, a, b } => scaled(a, b).or_else(|| scaled(b, a)),
            _ => Value::unscaled(e),
        }
    }

    /// A field of bits less its zero point.
    fn unscaled(e: &Expr) -> Option<Value> {
        let (field, zero) = match e.kind() {
            ExprKind::Binary { op: BinOp::Sub, a, b } => (Field::half(a)?, b.as_float()?),
            _ => (Field::half(e)?, 0.0),
        };
        is_small(zero).then_some(Value { field, zero, scale: None })
    }
}
