//! What a function computes, by the plainest means: its loops in order, a vector for each buffer, numbers as `f64` and
//! `i128`. Shares no code with the interpreter and the generators.

use daylight::interp::{Scalar, Scalars, Tensor};
use daylight::ir::{BinOp, Block, DType, Expr, ExprKind, Intrin, IterKind, Name, Param, PrimFunc, Stmt, UnOp};
use std::collections::BTreeMap;

/// Why there is no result.
#[derive(Debug)]
pub enum Stop {
    /// docs/correctness.md gives it no meaning: a division by zero, a shift too far, an integer that a float does not fit.
    Undefined(&'static str),
    /// The function should have been refused: an element outside, or one that nothing has stored.
    Wrong(String),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Value {
    Int(i128),
    Float(f64),
}

struct Array {
    shape: Vec<i64>,
    values: Vec<Value>,
    written: Vec<bool>,
    /// Which block stored last, and at which values of its spatial iterators.
    by: Vec<Option<(Name, Vec<i128>)>>,
    /// It holds something before the function runs.
    given: bool,
}

/// The elements of a parameter, and which of them were stored.
pub type Stored = (Vec<f64>, Vec<bool>);

/// The parameters after the function has run, in order, and which of their elements it stored.
pub fn evaluate(f: &PrimFunc, inputs: &[Tensor], scalars: &Scalars) -> Result<Vec<Stored>, Stop> {
    let mut machine = Machine { arrays: BTreeMap::new(), scope: vec![], here: (Name::new(""), vec![]) };
    for b in &f.buffers {
        let shape: Vec<i64> = b.shape.iter().map(|e| e.as_int().expect("sizes are known")).collect();
        let len = shape.iter().product::<i64>() as usize;
        let zero = if b.dtype.is_float() { Value::Float(0.0) } else { Value::Int(0) };
        let array = Array {
            shape,
            values: vec![zero; len],
            written: vec![false; len],
            by: vec![None; len],
            given: f.is_param(&b.name),
        };
        machine.arrays.insert(b.name.clone(), array);
    }
    for (b, t) in f.buffer_params().zip(inputs) {
        let array = machine.arrays.get_mut(&b.name).expect("it was made");
        for (i, v) in array.values.iter_mut().enumerate() {
            *v = if b.dtype.is_float() { Value::Float(t.get_f64(i)) } else { wrap(t.get_i64(i).into(), b.dtype) };
        }
    }
    machine.scope = scalars.iter().map(|(name, s)| (name.clone(), scalar(*s))).collect();
    machine.list(&f.body)?;
    let plain = |v: &Value| match v {
        Value::Int(i) => *i as f64,
        Value::Float(x) => *x,
    };
    let results = f.params.iter().filter_map(|p| match p {
        Param::Buffer(name) => Some(&machine.arrays[name]),
        Param::Scalar { .. } => None,
    });
    Ok(results.map(|a| (a.values.iter().map(plain).collect(), a.written.clone())).collect())
}

fn scalar(s: Scalar) -> Value {
    match s {
        Scalar::Int(i) => Value::Int(i.into()),
        Scalar::Float(x) => Value::Float(x),
    }
}

struct Machine {
    arrays: BTreeMap<Name, Array>,
    /// Variables, the innermost last.
    scope: Vec<(Name, Value)>,
    /// The block that runs, and its spatial iterators.
    here: (Name, Vec<i128>),
}

impl Machine {
    fn list(&mut self, body: &[Stmt]) -> Result<(), Stop> {
        let depth = self.scope.len();
        body.iter().try_for_each(|s| self.statement(s))?;
        self.scope.truncate(depth);
        Ok(())
    }

    fn statement(&mut self, s: &Stmt) -> Result<(), Stop> {
        match s {
            Stmt::For(l) => {
                let (first, count) = (self.int(&l.min)?, self.int(&l.extent)?);
                for i in first..first + count {
                    self.scope.push((l.var.clone(), Value::Int(i)));
                    self.list(&l.body)?;
                    self.scope.pop();
                }
                Ok(())
            }
            Stmt::Block(b) => self.block(b),
            Stmt::If { cond, then, otherwise } => {
                let taken = if self.int(cond)? != 0 { then } else { otherwise };
                self.list(taken)
            }
            Stmt::Store { buffer, indices, value } => {
                let value = self.value(value)?;
                let at = self.place(buffer, indices)?;
                let array = self.arrays.get_mut(buffer).expect("a buffer");
                if array.by[at].as_ref().is_some_and(|b| b.0 == self.here.0 && b.1 != self.here.1) {
                    return Err(Stop::Wrong(format!("two iterations store to element {at} of {buffer}")));
                }
                array.values[at] = value;
                array.written[at] = true;
                array.by[at] = Some(self.here.clone());
                Ok(())
            }
            Stmt::Let { var, value } => {
                let value = self.value(value)?;
                self.scope.push((var.clone(), value));
                Ok(())
            }
            Stmt::While { .. } | Stmt::Evaluate(_) | Stmt::Attr { .. } | Stmt::Alloc { .. } => {
                Err(Stop::Wrong("a statement that is refused".to_string()))
            }
        }
    }

    /// The init of a block runs where all reduced iterators have their first value.
    fn block(&mut self, b: &Block) -> Result<(), Stop> {
        let depth = self.scope.len();
        let mut first = true;
        let mut spatial = vec![];
        for it in &b.iters {
            let (value, min) = (self.int(&it.binding)?, self.int(&it.min)?);
            spatial.extend((it.kind == IterKind::Spatial).then_some(value));
            first &= it.kind != IterKind::Reduce || value == min;
            self.scope.push((it.var.clone(), Value::Int(value)));
        }
        let runs = b.guard.as_ref().map_or(Ok(1), |g| self.int(g))?;
        if runs != 0 {
            self.here = (b.name.clone(), spatial);
            if first {
                self.list(&b.init)?;
            }
            self.list(&b.body)?;
        }
        self.scope.truncate(depth);
        Ok(())
    }

    /// Where an element lies in its vector.
    fn place(&mut self, buffer: &Name, indices: &[Expr]) -> Result<usize, Stop> {
        let at = indices.iter().map(|e| self.int(e)).collect::<Result<Vec<i128>, Stop>>()?;
        let shape = &self.arrays[buffer].shape;
        let mut flat = 0;
        for (i, n) in at.iter().zip(shape) {
            if !(0..i128::from(*n)).contains(i) {
                return Err(Stop::Wrong(format!("{buffer}{at:?} is outside of {shape:?}")));
            }
            flat = flat * i128::from(*n) + i;
        }
        Ok(flat as usize)
    }

    fn int(&mut self, e: &Expr) -> Result<i128, Stop> {
        match self.value(e)? {
            Value::Int(i) => Ok(i),
            Value::Float(x) => Err(Stop::Wrong(format!("the float {x} as an integer"))),
        }
    }

    fn float(&mut self, e: &Expr) -> Result<f64, Stop> {
        match self.value(e)? {
            Value::Int(i) => Err(Stop::Wrong(format!("the integer {i} as a float"))),
            Value::Float(x) => Ok(x),
        }
    }

    fn value(&mut self, e: &Expr) -> Result<Value, Stop> {
        Ok(match e.kind() {
            ExprKind::Int { value, dtype } => wrap((*value).into(), *dtype),
            ExprKind::Float { bits, dtype } => Value::Float(rounded(f64::from_bits(*bits), *dtype)),
            ExprKind::Var { name, .. } => {
                let found = self.scope.iter().rev().find(|(n, _)| n == name);
                found.ok_or_else(|| Stop::Wrong(format!("{name} has no value")))?.1
            }
            ExprKind::Load { buffer, indices, .. } => {
                let at = self.place(buffer, indices)?;
                let array = &self.arrays[buffer];
                if !array.given && !array.written[at] {
                    return Err(Stop::Wrong(format!("element {at} of {buffer} is read and not written")));
                }
                array.values[at]
            }
            ExprKind::Unary { op, arg } => match (op, self.value(arg)?) {
                (UnOp::Not, Value::Int(i)) => Value::Int(i128::from(i == 0)),
                (UnOp::BitNot, Value::Int(i)) => wrap(!i, e.dtype()),
                (UnOp::Neg, Value::Int(i)) => wrap(-i, e.dtype()),
                (UnOp::Neg, Value::Float(x)) => Value::Float(-x),
                (UnOp::Not | UnOp::BitNot, Value::Float(_)) => return Err(Stop::Wrong("not of a float".to_string())),
            },
            ExprKind::Binary { op: op @ (BinOp::And | BinOp::Or), a, b } => {
                let left = self.int(a)? != 0;
                let decided = left == (*op == BinOp::Or);
                Value::Int(i128::from(if decided { left } else { self.int(b)? != 0 }))
            }
            ExprKind::Binary { op, a, b } => match (self.value(a)?, self.value(b)?) {
                (Value::Int(a), Value::Int(b)) => wrap(integers(*op, a, b, e.dtype())?, e.dtype()),
                (Value::Float(a), Value::Float(b)) => floats(*op, a, b)?,
                (a, b) => return Err(Stop::Wrong(format!("{a:?} with {b:?}"))),
            },
            ExprKind::Select { cond, then, otherwise } => {
                let (then, otherwise) = (self.value(then)?, self.value(otherwise)?);
                if self.int(cond)? != 0 { then } else { otherwise }
            }
            ExprKind::IfThenElse { cond, then, otherwise } => {
                let taken = if self.int(cond)? != 0 { then } else { otherwise };
                self.value(taken)?
            }
            ExprKind::Cast { dtype, arg } => cast(self.value(arg)?, *dtype)?,
            ExprKind::Reinterpret { .. } => return Err(Stop::Undefined("bits of a value")),
            ExprKind::Call { op, args, .. } => self.call(*op, args, e.dtype())?,
            ExprKind::Let { var, value, body } => {
                let value = self.value(value)?;
                self.scope.push((var.clone(), value));
                let result = self.value(body)?;
                self.scope.pop();
                result
            }
            ExprKind::Extern { .. } | ExprKind::Str(_) => {
                return Err(Stop::Wrong("a call that is refused".to_string()));
            }
        })
    }

    fn call(&mut self, op: Intrin, args: &[Expr], dtype: DType) -> Result<Value, Stop> {
        if !args.iter().all(|a| a.dtype().is_float()) || !(dtype.is_float() || dtype == DType::Bool) {
            return Err(Stop::Undefined("a function of integers"));
        }
        let x = self.float(&args[0])?;
        let y = args.get(1).map_or(Ok(0.0), |e| self.float(e))?;
        let z = args.get(2).map_or(Ok(0.0), |e| self.float(e))?;
        Ok(Value::Float(match op {
            Intrin::Exp => x.exp(),
            Intrin::Exp2 | Intrin::Ex2Approx => x.exp2(),
            Intrin::RcpApprox => 1.0 / x,
            Intrin::Exp10 => 10f64.powf(x),
            Intrin::Log => x.ln(),
            Intrin::Log2 => x.log2(),
            Intrin::Log10 => x.log10(),
            Intrin::Log1p => x.ln_1p(),
            Intrin::Sqrt => x.sqrt(),
            Intrin::Rsqrt => 1.0 / x.sqrt(),
            Intrin::Sin => x.sin(),
            Intrin::Cos => x.cos(),
            Intrin::Tan => x.tan(),
            Intrin::Sinh => x.sinh(),
            Intrin::Cosh => x.cosh(),
            Intrin::Tanh => x.tanh(),
            Intrin::Asin => x.asin(),
            Intrin::Acos => x.acos(),
            Intrin::Atan => x.atan(),
            Intrin::Atan2 => x.atan2(y),
            Intrin::Asinh => x.asinh(),
            Intrin::Acosh => x.acosh(),
            Intrin::Atanh => x.atanh(),
            Intrin::Erf => erf(x),
            Intrin::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Intrin::Pow => x.powf(y),
            Intrin::Fabs => x.abs(),
            Intrin::Floor => x.floor(),
            Intrin::Ceil => x.ceil(),
            Intrin::Round | Intrin::Nearbyint => x.round_ties_even(),
            Intrin::Trunc => x.trunc(),
            Intrin::Fma => x * y + z,
            Intrin::Fmod => x % y,
            Intrin::Hypot => x.hypot(y),
            Intrin::CopySign => x.copysign(y),
            Intrin::IsNan => return Ok(Value::Int(i128::from(x.is_nan()))),
            Intrin::IsInf => return Ok(Value::Int(i128::from(x.is_infinite()))),
            Intrin::PopCount | Intrin::Clz => return Err(Stop::Undefined("a function of integers")),
        }))
    }
}

/// By its series, all terms of which have one sign.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI
}

fn bits(dtype: DType) -> u32 {
    if dtype == DType::Bool { 1 } else { 8 * dtype.bytes() as u32 }
}

/// An integer in its type.
fn wrap(value: i128, dtype: DType) -> Value {
    let modulus = 1i128 << bits(dtype);
    let low = value.rem_euclid(modulus);
    Value::Int(if dtype.is_signed() && low >= modulus / 2 { low - modulus } else { low })
}

/// A constant, or an integer that becomes a float.
fn rounded(x: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => half::f16::from_f64(x).to_f64(),
        DType::BF16 => half::bf16::from_f64(x).to_f64(),
        DType::F32 => f64::from(x as f32),
        _ => x,
    }
}

fn cast(value: Value, dtype: DType) -> Result<Value, Stop> {
    Ok(match value {
        Value::Int(i) if dtype.is_float() => Value::Float(rounded(i as f64, dtype)),
        Value::Int(i) if dtype == DType::Bool => Value::Int(i128::from(i != 0)),
        Value::Int(i) => wrap(i, dtype),
        Value::Float(x) if dtype.is_float() => Value::Float(x),
        Value::Float(x) if dtype == DType::Bool => Value::Int(i128::from(x != 0.0)),
        Value::Float(x) if x.is_finite() && wrap(x as i128, dtype) == Value::Int(x as i128) => Value::Int(x as i128),
        Value::Float(_) => return Err(Stop::Undefined("a float as an integer that cannot hold it")),
    })
}

/// A remainder with the sign of the divisor.
fn floor_mod(a: i128, b: i128) -> i128 {
    (a % b + b) % b
}

fn integers(op: BinOp, a: i128, b: i128, dtype: DType) -> Result<i128, Stop> {
    let divides =
        |f: fn(i128, i128) -> i128| if b == 0 { Err(Stop::Undefined("a division by zero")) } else { Ok(f(a, b)) };
    let width = i128::from(bits(dtype));
    let shifts = |f: fn(i128, i128) -> i128| {
        if (0..width).contains(&b) { Ok(f(a, b)) } else { Err(Stop::Undefined("a shift by the width or more")) }
    };
    Ok(match op {
        BinOp::Add => a + b,
        BinOp::Sub => a - b,
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::Div | BinOp::TruncDiv => divides(|a, b| a / b)?,
        BinOp::TruncMod => divides(|a, b| a % b)?,
        BinOp::FloorDiv => divides(|a, b| (a - floor_mod(a, b)) / b)?,
        BinOp::FloorMod => divides(floor_mod)?,
        BinOp::Min => a.min(b),
        BinOp::Max => a.max(b),
        BinOp::Eq => i128::from(a == b),
        BinOp::Ne => i128::from(a != b),
        BinOp::Lt => i128::from(a < b),
        BinOp::Le => i128::from(a <= b),
        BinOp::Gt => i128::from(a > b),
        BinOp::Ge => i128::from(a >= b),
        BinOp::And => i128::from(a != 0 && b != 0),
        BinOp::Or => i128::from(a != 0 || b != 0),
        BinOp::BitAnd => a & b,
        BinOp::BitOr => a | b,
        BinOp::BitXor => a ^ b,
        BinOp::Shl => shifts(|a, b| a << b)?,
        BinOp::Shr => shifts(|a, b| a >> b)?,
    })
}

fn floats(op: BinOp, a: f64, b: f64) -> Result<Value, Stop> {
    let nan = a.is_nan() || b.is_nan();
    let truth = |t: bool| Ok(Value::Int(i128::from(t)));
    Ok(Value::Float(match op {
        BinOp::Add => a + b,
        BinOp::Sub => a - b,
        BinOp::Mul => a * b,
        BinOp::Div => a / b,
        BinOp::Min | BinOp::Max if nan => return Err(Stop::Undefined("a minimum of no number")),
        BinOp::Min => a.min(b),
        BinOp::Max => a.max(b),
        BinOp::Eq => return truth(a == b),
        BinOp::Ne => return truth(a != b),
        BinOp::Lt => return truth(a < b),
        BinOp::Le => return truth(a <= b),
        BinOp::Gt => return truth(a > b),
        BinOp::Ge => return truth(a >= b),
        BinOp::FloorDiv
        | BinOp::FloorMod
        | BinOp::TruncDiv
        | BinOp::TruncMod
        | BinOp::And
        | BinOp::Or
        | BinOp::BitAnd
        | BinOp::BitOr
        | BinOp::BitXor
        | BinOp::Shl
        | BinOp::Shr => return Err(Stop::Undefined("an operator of integers on floats")),
    }))
}
