//! Expressions to bytecode.

use super::code::{Op, Slot};
use super::compile::Compiler;
use crate::interp::{round_to, wrap_int};
use crate::ir::{BinOp, DType, Expr, ExprKind, Intrin};

impl Compiler {
    /// Code for an expression; the slot that holds its value until the next statement.
    pub(super) fn expr(&mut self, e: &Expr) -> Slot {
        match e.kind() {
            ExprKind::Int { value, dtype } => self.constant(wrap_int(*value, *dtype) as u64),
            ExprKind::Float { bits, dtype } => self.constant(round_to(f64::from_bits(*bits), *dtype).to_bits()),
            ExprKind::Var { name, .. } => self.read_var(name),
            ExprKind::Load { buffer, indices, .. } => {
                let (array, index) = (self.array(buffer), self.expr(&indices[0]));
                self.op(|d| Op::Load { d, array, index })
            }
            ExprKind::Unary { op, arg } => {
                let (op, dtype, a) = (*op, arg.dtype(), self.expr(arg));
                self.op(|d| Op::Unary { op, dtype, d, a })
            }
            ExprKind::Binary { op: op @ (BinOp::And | BinOp::Or), a, b } => self.logical(*op, a, b),
            ExprKind::Binary { op, a, b } => {
                let (op, dtype, a, b) = (*op, a.dtype(), self.expr(a), self.expr(b));
                if dtype.is_float() {
                    self.op(|d| Op::Float { op, dtype, d, a, b })
                } else {
                    self.op(|d| Op::Int { op, dtype, d, a, b })
                }
            }
            ExprKind::Select { cond, then, otherwise } => {
                let (c, a, b) = (self.expr(cond), self.expr(then), self.expr(otherwise));
                self.op(|d| Op::Select { d, c, a, b })
            }
            ExprKind::IfThenElse { cond, then, otherwise } => self.branch(cond, then, otherwise),
            ExprKind::Cast { dtype, arg } => {
                let (from, to, a) = (arg.dtype(), *dtype, self.expr(arg));
                self.op(|d| Op::Cast { from, to, d, a })
            }
            ExprKind::Reinterpret { dtype, arg } => {
                let (from, to, a) = (arg.dtype(), *dtype, self.expr(arg));
                self.op(|d| Op::Reinterpret { from, to, d, a })
            }
            ExprKind::Call { op, args, dtype } => self.call(*op, args, *dtype),
            ExprKind::Let { var, value, body } => {
                let value = self.expr(value);
                self.bind(var, value);
                self.expr(body)
            }
            ExprKind::Str(_) | ExprKind::Extern { .. } => panic!("a kernel has no strings and no extern calls: {e:?}"),
        }
    }

    fn call(&mut self, op: Intrin, args: &[Expr], to: DType) -> Slot {
        let from = args[0].dtype();
        let first = self.expr(&args[0]);
        let mut slots = [first; 3];
        for (slot, arg) in slots.iter_mut().zip(args).skip(1) {
            *slot = self.expr(arg);
        }
        self.op(|d| Op::Call { op, from, to, d, args: slots })
    }

    /// The right side is evaluated only where it decides.
    fn logical(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Slot {
        let d = self.lasting();
        let a = self.expr(a);
        self.emit(Op::Mov { d, a });
        let jump = match op {
            BinOp::And => self.emit(Op::JumpIfZero { c: d, to: 0 }),
            _ => self.emit(Op::JumpIfNot { c: d, to: 0 }),
        };
        let b = self.expr(b);
        self.emit(Op::Mov { d, a: b });
        self.patch(jump);
        d
    }

    fn branch(&mut self, cond: &Expr, then: &Expr, otherwise: &Expr) -> Slot {
        let d = self.lasting();
        let c = self.expr(cond);
        let skip = self.emit(Op::JumpIfZero { c, to: 0 });
        let a = self.expr(then);
        self.emit(Op::Mov { d, a });
        let end = self.emit(Op::Jump { to: 0 });
        self.patch(skip);
        let b = self.expr(otherwise);
        self.emit(Op::Mov { d, a: b });
        self.patch(end);
        d
    }
}
