//! Expressions, one thread at a time.

use super::{Machine, Result};
use crate::interp::op::InterpError;
use crate::interp::round::{round_to, wrap_int};
use crate::interp::scalar::{apply_call, apply_cast, apply_float, apply_int, apply_reinterpret, apply_unary};
use crate::ir::{BinOp, DType, Expr, ExprKind, Intrin, Name};

impl Machine<'_> {
    /// The value of an expression in thread `t`.
    pub(super) fn eval(&mut self, e: &Expr, t: usize) -> Result<u64> {
        match e.kind() {
            ExprKind::Int { value, dtype } => Ok(wrap_int(*value, *dtype) as u64),
            ExprKind::Float { bits, dtype } => Ok(round_to(f64::from_bits(*bits), *dtype).to_bits()),
            ExprKind::Var { name, .. } => {
                let values = self.vars.get(name).ok_or_else(|| InterpError::UnknownExtent(name.clone()))?;
                Ok(values[t])
            }
            ExprKind::Load { buffer, indices, .. } => {
                let at = self.element(buffer, indices, t)?;
                let value = self.memory.read(buffer, at, &[t])?;
                value.ok_or_else(|| self.unwritten(buffer, at))
            }
            ExprKind::Unary { op, arg } => {
                let a = self.eval(arg, t)?;
                Ok(apply_unary(*op, arg.dtype(), a))
            }
            ExprKind::Binary { op, a, b } => self.binary(*op, a, b, t),
            ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise } => {
                if self.eval(cond, t)? != 0 { self.eval(then, t) } else { self.eval(otherwise, t) }
            }
            ExprKind::Cast { dtype, arg } => {
                let (from, a) = (arg.dtype(), self.eval(arg, t)?);
                let to = if from.is_float() { self.float(*dtype) } else { *dtype };
                Ok(apply_cast(from, to, a))
            }
            ExprKind::Reinterpret { dtype, arg } => {
                let a = self.eval(arg, t)?;
                Ok(apply_reinterpret(arg.dtype(), *dtype, a))
            }
            ExprKind::Call { op, args, dtype } => self.call(*op, args, *dtype, t),
            ExprKind::Let { var, value, body } => {
                let value = self.eval(value, t)?;
                let threads = self.threads;
                self.vars.entry(var.clone()).or_insert_with(|| vec![0; threads])[t] = value;
                self.eval(body, t)
            }
            ExprKind::Extern { callee, .. } => Err(InterpError::Unsupported(format!("calls of `{callee}`"))),
            ExprKind::Str(_) => Err(InterpError::Unsupported("strings".to_string())),
        }
    }

    fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr, t: usize) -> Result<u64> {
        let x = self.eval(a, t)?;
        match op {
            BinOp::And if x == 0 => return Ok(0),
            BinOp::Or if x != 0 => return Ok(1),
            _ => {}
        }
        let y = self.eval(b, t)?;
        let dtype = a.dtype();
        if dtype.is_float() {
            return Ok(apply_float(op, self.float(dtype), x, y));
        }
        Ok(apply_int(op, dtype, x, y))
    }

    fn call(&mut self, op: Intrin, args: &[Expr], dtype: DType, t: usize) -> Result<u64> {
        let mut values = [0; 3];
        for (v, a) in values.iter_mut().zip(args) {
            *v = self.eval(a, t)?;
        }
        let from = args.first().map_or(dtype, Expr::dtype);
        Ok(apply_call(op, from, self.float(dtype), values))
    }

    /// The number of the element that an access of thread `t` means.
    pub(super) fn element(&mut self, buffer: &Name, indices: &[Expr], t: usize) -> Result<usize> {
        let mut index = vec![];
        for e in indices {
            index.push(self.eval(e, t)? as i64);
        }
        let space = self.memory.space(buffer)?;
        match space.element(&index) {
            Some(at) => Ok(at),
            None => Err(InterpError::OutOfBounds { buffer: self.user(buffer), index, shape: space.shape.clone() }),
        }
    }

    /// The error of a read of something that nothing has written.
    pub(super) fn unwritten(&self, buffer: &Name, at: usize) -> InterpError {
        let mut index = vec![];
        let mut rest = at as i64;
        if let Ok(space) = self.memory.space(buffer) {
            for n in space.shape.iter().rev() {
                index.push(rest % n);
                rest /= n;
            }
        }
        index.reverse();
        InterpError::Unwritten { buffer: self.user(buffer), index }
    }
}
