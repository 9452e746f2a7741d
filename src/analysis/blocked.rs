//! Factors of which each block along an axis has a scale: numbers of 8 bits, or of 4 that lie two in a byte, times a
//! load that is the same for all of a block.
//!
//! How numbers of 4 bits are decoded is not asked: their value is computed for every byte and both halves of it, and
//! has to be that of `float4_e2m1fn`.

use super::{Access, narrow};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name};

/// The numbers of `float4_e2m1fn` without sign.
const E2M1: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Numbers times scales.
#[derive(Clone, PartialEq, Debug)]
pub struct Blocked {
    /// Where the numbers are: elements of `float8_e4m3fn` or `float8_e5m2`, or bytes of two numbers.
    pub codes: Access,
    /// Their type.
    pub element: DType,
    /// Where the scales are.
    pub scales: Access,
    /// Their type.
    pub scale: DType,
}

impl Blocked {
    /// What a value is made of, if the instructions that take scales of blocks compute it exactly.
    pub fn of(value: &Expr) -> Option<Blocked> {
        let value = narrow(value);
        let ExprKind::Binary { op: BinOp::Mul, a, b } = value.kind() else { return None };
        let found = [(a, b), (b, a)].into_iter().find_map(|(codes, scale)| {
            let (scales, scale) = load(&narrow(scale))?;
            let (codes, element) = codes_of(&narrow(codes))?;
            Some(Blocked { codes, element, scales, scale })
        })?;
        let held = match (found.element, found.scale) {
            (DType::U8, DType::E4M3) => value.dtype() != DType::F64,
            (DType::U8 | DType::E4M3 | DType::E5M2, DType::E8M0) => matches!(value.dtype(), DType::BF16 | DType::F32),
            _ => false,
        };
        held.then_some(found)
    }

    /// Numbers in an element of memory.
    pub fn packed(&self) -> i64 {
        if self.element == DType::U8 { 2 } else { 1 }
    }

    /// Numbers with one scale.
    pub fn block(&self) -> i64 {
        if self.scale == DType::E4M3 { 16 } else { 32 }
    }
}

fn load(e: &Expr) -> Option<(Access, DType)> {
    match e.kind() {
        ExprKind::Load { buffer, indices, dtype } => {
            Some((Access { buffer: buffer.clone(), indices: indices.clone() }, *dtype))
        }
        _ => None,
    }
}

fn codes_of(e: &Expr) -> Option<(Access, DType)> {
    if let Some((access, dtype @ (DType::E4M3 | DType::E5M2))) = load(e) {
        return Some((access, dtype));
    }
    let mut loads: Vec<Expr> = vec![];
    e.visit(&mut |x| {
        if matches!(x.kind(), ExprKind::Load { .. }) && !loads.contains(x) {
            loads.push(x.clone());
        }
    });
    let [byte] = loads.as_slice() else { return None };
    let (access, DType::U8) = load(byte)? else { return None };
    let own = e.replaced(byte, &Expr::var(BYTE, DType::U8));
    let mut vars: Vec<Name> = vec![];
    own.visit(&mut |x| vars.extend(x.as_var().filter(|v| v.as_str() != BYTE && !vars.contains(v)).cloned()));
    let [k] = vars.as_slice() else { return None };
    let is_number = |byte: i64, at: i64| {
        let code = (byte >> (at % 2 * 4)) as usize;
        let size = E2M1[code % 8];
        value(&own, &|v| Some(if v == k { at } else { byte }))
            == Some(Val::Float(if code & 8 != 0 { -size } else { size }))
    };
    // what is the same of both halves of a byte is the same of all bytes
    let all = (0..256).all(|byte| is_number(byte, 0) && is_number(byte, 1));
    (all && (2..64).all(|at| is_number(0x5c, at))).then_some((access, DType::U8))
}

/// What stands for the byte.
const BYTE: &str = "byte";

#[derive(Clone, Copy, PartialEq, Debug)]
enum Val {
    Int(i64),
    Float(f64),
}

/// The value of an expression over integers; `None` where it is not computed exactly, or by other operations than
/// decoding takes.
fn value(e: &Expr, var: &dyn Fn(&Name) -> Option<i64>) -> Option<Val> {
    let of = |e: &Expr| value(e, var);
    let chosen = |cond: &Expr, then: &Expr, otherwise: &Expr| match of(cond)? {
        Val::Int(0) => of(otherwise),
        _ => of(then),
    };
    match e.kind() {
        ExprKind::Int { value, .. } => Some(Val::Int(*value)),
        ExprKind::Float { .. } => e.as_float().map(Val::Float),
        ExprKind::Var { name, .. } => var(name).map(Val::Int),
        ExprKind::Binary { op, a, b } => match (of(a)?, of(b)?) {
            (Val::Int(a), Val::Int(b)) => integers(*op, a, b).and_then(|v| wrapped(v, e.dtype())).map(Val::Int),
            (Val::Float(a), Val::Float(b)) => floats(*op, a, b, e.dtype()),
            _ => None,
        },
        ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise } => {
            chosen(cond, then, otherwise)
        }
        ExprKind::Cast { dtype, arg } => match of(arg)? {
            Val::Int(v) if dtype.is_float() => exact(v as f64, *dtype),
            Val::Int(v) => wrapped(v, *dtype).map(Val::Int),
            Val::Float(v) => exact(v, *dtype),
        },
        ExprKind::Reinterpret { dtype: DType::F16, arg } if arg.dtype() == DType::U16 => match of(arg)? {
            Val::Int(bits) => half(bits).map(Val::Float),
            Val::Float(_) => None,
        },
        ExprKind::Unary { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Load { .. }
        | ExprKind::Str(_)
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => None,
    }
}

fn integers(op: BinOp, a: i64, b: i64) -> Option<i64> {
    let by = u32::try_from(b).ok().filter(|b| *b < 32);
    match op {
        BinOp::Add => a.checked_add(b),
        BinOp::Sub => a.checked_sub(b),
        BinOp::Mul => a.checked_mul(b),
        BinOp::FloorDiv | BinOp::TruncDiv if a >= 0 && b > 0 => Some(a / b),
        BinOp::FloorMod | BinOp::TruncMod if a >= 0 && b > 0 => Some(a % b),
        BinOp::BitAnd => Some(a & b),
        BinOp::BitOr => Some(a | b),
        BinOp::BitXor => Some(a ^ b),
        BinOp::Shl => by.and_then(|by| a.checked_mul(1 << by)),
        BinOp::Shr => by.map(|by| a >> by),
        BinOp::Eq => Some(i64::from(a == b)),
        BinOp::Ne => Some(i64::from(a != b)),
        BinOp::Lt => Some(i64::from(a < b)),
        BinOp::Le => Some(i64::from(a <= b)),
        BinOp::Gt => Some(i64::from(a > b)),
        BinOp::Ge => Some(i64::from(a >= b)),
        _ => None,
    }
}

/// An integer as its type holds it, where that is unsigned or it fits.
fn wrapped(v: i64, dtype: DType) -> Option<i64> {
    let bits = 8 * dtype.bytes() as u32;
    match dtype {
        DType::Bool => (v == 0 || v == 1).then_some(v),
        d if d.is_unsigned() && bits < 64 => Some(v & ((1 << bits) - 1)),
        d if d.is_int() => (v.unsigned_abs() < 1 << (bits - 1).min(62)).then_some(v),
        _ => None,
    }
}

fn floats(op: BinOp, a: f64, b: f64, dtype: DType) -> Option<Val> {
    match op {
        BinOp::Add => exact(a + b, dtype),
        BinOp::Sub => exact(a - b, dtype),
        BinOp::Mul => exact(a * b, dtype),
        _ => None,
    }
}

/// A number that float16, bfloat16 and wider types hold exactly: few bits, of moderate size.
fn exact(v: f64, dtype: DType) -> Option<Val> {
    let wide = matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
    let few = v.to_bits() & ((1 << 45) - 1) == 0 && (v == 0.0 || (2f64.powi(-14)..65504.0).contains(&v.abs()));
    (wide && few).then_some(Val::Float(v))
}

/// The number that bits of float16 are, subnormal ones included.
fn half(bits: i64) -> Option<f64> {
    let (sign, exponent, fraction) = (bits >> 15 & 1, (bits >> 10 & 31) as i32, (bits & 1023) as f64);
    let size = match exponent {
        31 => return None,
        0 => fraction * 2f64.powi(-24),
        e => (1024.0 + fraction) * 2f64.powi(e - 25),
    };
    Some(if sign == 1 { -size } else { size })
}
