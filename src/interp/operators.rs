//! Compiles operators, conversions and calls to bytecode.

use super::compile::{Compiler, Result, Val, mismatch};
use super::op::{FloatCmp, FloatOp, IntOp, InterpError, Op, Reg};
use super::{Mode, math};
use crate::ir::{BinOp, DType, Expr, ExprKind, Intrin, UnOp};

impl Compiler<'_> {
    pub fn unary(&mut self, op: UnOp, arg: &Expr) -> Result<Val> {
        let dtype = arg.dtype();
        match (op, self.expr(arg)?) {
            (UnOp::Neg, Val::F(a)) => self.new_float(dtype, |d| Op::NegF { d, a }),
            (UnOp::Neg, Val::I(a)) => self.wrapped(dtype, |d| Op::NegI { d, a }),
            (UnOp::Not, Val::I(a)) => self.new_int(|d| Op::NotI { d, a }),
            (UnOp::BitNot, Val::I(a)) => self.wrapped(dtype, |d| Op::InvertI { d, a }),
            (UnOp::Not | UnOp::BitNot, Val::F(_)) => Err(mismatch()),
        }
    }

    fn wrapped(&mut self, dtype: DType, make: impl Fn(Reg) -> Op) -> Result<Val> {
        let v = self.new_int(make)?;
        if !matches!(dtype, DType::I64 | DType::U64 | DType::Bool) {
            let d = v.int()?;
            self.emit(Op::Wrap { d, a: d, dtype });
        }
        Ok(v)
    }

    pub fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Result<Val> {
        if matches!(op, BinOp::And | BinOp::Or) {
            return self.logic(op, a, b);
        }
        let dtype = a.dtype();
        match (self.expr(a)?, self.expr(b)?) {
            (Val::F(x), Val::F(y)) => self.float_binary(op, x, y, dtype),
            (Val::I(x), Val::I(y)) => {
                let index = dtype == DType::I32 && is_index(a) && is_index(b);
                self.int_binary(op, x, y, if index { DType::I64 } else { dtype })
            }
            _ => Err(mismatch()),
        }
    }

    fn float_binary(&mut self, op: BinOp, a: Reg, b: Reg, dtype: DType) -> Result<Val> {
        let arithmetic = match op {
            BinOp::Add => return self.new_float(dtype, |d| Op::AddF { d, a, b }),
            BinOp::Mul => return self.new_float(dtype, |d| Op::MulF { d, a, b }),
            BinOp::Sub => FloatOp::Sub,
            BinOp::Div => FloatOp::Div,
            BinOp::FloorDiv => FloatOp::FloorDiv,
            BinOp::FloorMod => FloatOp::FloorMod,
            BinOp::TruncDiv => FloatOp::TruncDiv,
            BinOp::TruncMod => FloatOp::TruncMod,
            BinOp::Min => FloatOp::Min,
            BinOp::Max => FloatOp::Max,
            BinOp::Eq => return self.new_int(|d| Op::Compare { op: FloatCmp::Eq, d, a, b }),
            BinOp::Ne => return self.new_int(|d| Op::Compare { op: FloatCmp::Ne, d, a, b }),
            BinOp::Lt => return self.new_int(|d| Op::Compare { op: FloatCmp::Lt, d, a, b }),
            BinOp::Le => return self.new_int(|d| Op::Compare { op: FloatCmp::Le, d, a, b }),
            BinOp::Gt => return self.new_int(|d| Op::Compare { op: FloatCmp::Lt, d, a: b, b: a }),
            BinOp::Ge => return self.new_int(|d| Op::Compare { op: FloatCmp::Le, d, a: b, b: a }),
            BinOp::And | BinOp::Or | BinOp::BitAnd | BinOp::BitOr | BinOp::BitXor | BinOp::Shl | BinOp::Shr => {
                return Err(mismatch());
            }
        };
        self.new_float(dtype, |d| Op::Float { op: arithmetic, d, a, b })
    }

    fn int_binary(&mut self, op: BinOp, a: Reg, b: Reg, dtype: DType) -> Result<Val> {
        let unsigned = dtype == DType::U64;
        let pick = |signed, for_u64| if unsigned { for_u64 } else { signed };
        // (operation, its operands swapped, its result may need wrapping)
        let (op, swap, wraps) = match op {
            BinOp::Add => return self.wrapped(dtype, |d| Op::AddI { d, a, b }),
            BinOp::Mul => return self.wrapped(dtype, |d| Op::MulI { d, a, b }),
            BinOp::Sub => (IntOp::Sub, false, true),
            BinOp::FloorDiv => (pick(IntOp::FloorDiv, IntOp::DivU), false, true),
            BinOp::FloorMod => (pick(IntOp::FloorMod, IntOp::ModU), false, false),
            BinOp::TruncDiv | BinOp::Div => (pick(IntOp::TruncDiv, IntOp::DivU), false, true),
            BinOp::TruncMod => (pick(IntOp::TruncMod, IntOp::ModU), false, false),
            BinOp::Min => (pick(IntOp::Min, IntOp::MinU), false, false),
            BinOp::Max => (pick(IntOp::Max, IntOp::MaxU), false, false),
            BinOp::BitAnd => (IntOp::And, false, false),
            BinOp::BitOr => (IntOp::Or, false, false),
            BinOp::BitXor => (IntOp::Xor, false, false),
            BinOp::Shl => (IntOp::Shl, false, true),
            BinOp::Shr => (pick(IntOp::Shr, IntOp::ShrU), false, false),
            BinOp::Eq => (IntOp::Eq, false, false),
            BinOp::Ne => (IntOp::Ne, false, false),
            BinOp::Lt => (pick(IntOp::Lt, IntOp::LtU), false, false),
            BinOp::Le => (pick(IntOp::Le, IntOp::LeU), false, false),
            BinOp::Gt => (pick(IntOp::Lt, IntOp::LtU), true, false),
            BinOp::Ge => (pick(IntOp::Le, IntOp::LeU), true, false),
            BinOp::And | BinOp::Or => return Err(mismatch()),
        };
        let (a, b) = if swap { (b, a) } else { (a, b) };
        let make = |d| Op::Int { op, d, a, b };
        if wraps { self.wrapped(dtype, make) } else { self.new_int(make) }
    }

    /// `and` and `or` evaluate their right side only where it decides.
    fn logic(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Result<Val> {
        let x = self.expr(a)?.int()?;
        let d = self.fresh(0)?;
        self.emit(Op::MovI { d, a: x });
        let jump = self.here();
        self.emit(if op == BinOp::And { Op::JumpIfZero { c: d, to: 0 } } else { Op::JumpIfNot { c: d, to: 0 } });
        let y = self.expr(b)?.int()?;
        self.emit(Op::MovI { d, a: y });
        let end = self.here();
        self.patch(jump, end);
        Ok(Val::I(d))
    }

    pub fn branch(&mut self, cond: &Expr, then: &Expr, otherwise: &Expr) -> Result<Val> {
        let float = then.dtype().is_float();
        let c = self.expr(cond)?.int()?;
        let r = self.fresh(float as usize)?;
        let d = if float { Val::F(r) } else { Val::I(r) };
        let skip = self.here();
        self.emit(Op::JumpIfZero { c, to: 0 });
        let v = self.expr(then)?;
        self.mov(d, v)?;
        let done = self.here();
        self.emit(Op::Jump { to: 0 });
        let start = self.here();
        self.patch(skip, start);
        let v = self.expr(otherwise)?;
        self.mov(d, v)?;
        let end = self.here();
        self.patch(done, end);
        Ok(d)
    }

    /// In `F64` mode floats are not rounded to narrower types, but integers are: their rounding is
    /// part of what the function says and does not depend on how sums are ordered.
    pub fn cast(&mut self, dtype: DType, arg: &Expr) -> Result<Val> {
        let from = arg.dtype();
        match self.expr(arg)? {
            Val::I(a) if dtype.is_float() => {
                let d = self.fresh(1)?;
                self.emit(Op::IntToFloat { d, a, from, to: dtype });
                Ok(Val::F(d))
            }
            Val::I(a) if dtype.bytes() > from.bytes() && (from.is_unsigned() || dtype.is_signed()) => Ok(Val::I(a)),
            Val::I(a) => self.new_int(|d| Op::Wrap { d, a, dtype }),
            Val::F(a) if !dtype.is_float() => self.new_int(|d| Op::FloatToInt { d, a, dtype }),
            Val::F(a) if self.mode == Mode::F64 || dtype == DType::F64 => Ok(Val::F(a)),
            Val::F(a) => self.new_float(dtype, |d| Op::MovF { d, a }),
        }
    }

    pub fn reinterpret(&mut self, dtype: DType, arg: &Expr) -> Result<Val> {
        let from = arg.dtype();
        match (self.expr(arg)?, dtype.is_float()) {
            (Val::F(a), false) => self.new_int(|d| Op::Bits { d, a, from, to: dtype }),
            (Val::I(a), true) => {
                let d = self.fresh(1)?;
                self.emit(Op::FromBits { d, a, dtype });
                Ok(Val::F(d))
            }
            (Val::I(a), false) => self.new_int(|d| Op::Wrap { d, a, dtype }),
            (Val::F(a), true) => {
                let bits = self.new_int(|d| Op::Bits { d, a, from, to: DType::I64 })?.int()?;
                let d = self.fresh(1)?;
                self.emit(Op::FromBits { d, a: bits, dtype });
                Ok(Val::F(d))
            }
        }
    }

    pub fn call(&mut self, op: Intrin, args: &[Expr], dtype: DType) -> Result<Val> {
        let values = args.iter().map(|a| self.expr(a)).collect::<Result<Vec<_>>>()?;
        match (op, values.as_slice()) {
            (Intrin::PopCount, [Val::I(a)]) => {
                let (a, dtype) = (*a, args[0].dtype());
                self.new_int(|d| Op::PopCount { d, a, dtype })
            }
            (Intrin::Clz, [Val::I(a)]) => {
                let (a, dtype) = (*a, args[0].dtype());
                self.new_int(|d| Op::Clz { d, a, dtype })
            }
            (Intrin::IsNan, [Val::F(a)]) => self.new_int(|d| Op::IsNan { d, a: *a }),
            (Intrin::IsInf, [Val::F(a)]) => self.new_int(|d| Op::IsInf { d, a: *a }),
            (Intrin::Fma, [Val::F(a), Val::F(b), Val::F(c)]) => {
                self.new_float(dtype, |d| Op::Fma { d, a: *a, b: *b, c: *c })
            }
            (_, [Val::F(a)]) if math::unary(op).is_some() => {
                let Some(f) = math::unary(op) else { unreachable!("just looked up") };
                self.new_float(dtype, |d| Op::Call1 { f, d, a: *a })
            }
            (_, [Val::F(a), Val::F(b)]) => self.new_float(dtype, |d| Op::Call2 { op, d, a: *a, b: *b }),
            _ => Err(InterpError::Unsupported(format!("`T.{}` of {} arguments of this type", op.name(), args.len()))),
        }
    }
}

/// Index arithmetic: nothing but variables and constants, taken not to overflow.
fn is_index(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Var { .. } | ExprKind::Int { .. } => true,
        ExprKind::Binary { a, b, .. } => is_index(a) && is_index(b),
        ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Cast { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => false,
    }
}
