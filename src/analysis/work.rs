//! Arithmetic and memory traffic of a function, as the program states them.

use super::traffic::bytes;
use crate::ir::{BinOp, Expr, ExprKind, Name, PrimFunc, Stmt, UnOp};
use std::collections::BTreeSet;

/// How much a function has to do. `None` where a symbolic extent is not bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// Arithmetic operations on tensor data, loop by loop: a multiply and an add are two;
    /// elementary functions, minima, comparisons and shifts one each; casts, selections and index
    /// arithmetic are free, and so are inits. Of two branches the longer one counts.
    pub flops: Option<u64>,
    /// Every input read once plus every output written once; of an input that is read in part,
    /// that part.
    pub bytes: Option<u64>,
}

/// The work of a function, bound or not.
pub fn work(f: &PrimFunc) -> Work {
    let mut counter = Counter { tainted: BTreeSet::new() };
    Work { flops: counter.stmts(&f.body), bytes: bytes(f) }
}

/// Counts operations on values that come from tensors.
struct Counter {
    /// Let variables whose value comes from a tensor.
    tainted: BTreeSet<Name>,
}

/// The operations of an expression, and whether its value comes from a tensor.
#[derive(Clone, Copy, Default)]
struct Cost {
    ops: u64,
    data: bool,
}

impl Cost {
    fn and(self, other: Cost) -> Cost {
        Cost { ops: self.ops + other.ops, data: self.data || other.data }
    }

    /// One more operation, if there is data in it.
    fn operation(self) -> Cost {
        Cost { ops: self.ops + self.data as u64, ..self }
    }
}

impl Counter {
    fn stmts(&mut self, list: &[Stmt]) -> Option<u64> {
        list.iter().try_fold(0u64, |sum, s| sum.checked_add(self.stmt(s)?))
    }

    fn stmt(&mut self, s: &Stmt) -> Option<u64> {
        match s {
            Stmt::For(l) => {
                let body = self.stmts(&l.body);
                if body == Some(0) {
                    return body;
                }
                let trips = u64::try_from(l.extent.as_int()?.max(0)).ok()?;
                body?.checked_mul(trips)
            }
            Stmt::Block(b) => self.stmts(&b.body),
            Stmt::If { cond, then, otherwise } => {
                let branches = self.stmts(then)?.max(self.stmts(otherwise)?);
                Some(self.expr(cond).ops + branches)
            }
            Stmt::Store { value, .. } => Some(self.expr(value).ops),
            Stmt::Let { var, value } => {
                let cost = self.bind(var, value);
                Some(cost.ops)
            }
            Stmt::Evaluate(_) | Stmt::Alloc { .. } => Some(0),
            Stmt::Attr { body, .. } => self.stmts(body),
            Stmt::While { .. } => None,
        }
    }

    fn bind(&mut self, var: &Name, value: &Expr) -> Cost {
        let cost = self.expr(value);
        if cost.data {
            self.tainted.insert(var.clone());
        }
        cost
    }

    fn expr(&mut self, e: &Expr) -> Cost {
        match e.kind() {
            ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Str(_) => Cost::default(),
            ExprKind::Var { name, .. } => Cost { ops: 0, data: self.tainted.contains(name) },
            ExprKind::Load { .. } => Cost { ops: 0, data: true },
            ExprKind::Unary { op: UnOp::Not, arg } => self.expr(arg),
            ExprKind::Unary { op: UnOp::Neg | UnOp::BitNot, arg } => self.expr(arg).operation(),
            ExprKind::Binary { op: BinOp::And | BinOp::Or, a, b } => self.expr(a).and(self.expr(b)),
            ExprKind::Binary { a, b, .. } => self.expr(a).and(self.expr(b)).operation(),
            ExprKind::Select { cond, then, otherwise } => {
                self.expr(cond).and(self.expr(then)).and(self.expr(otherwise))
            }
            ExprKind::IfThenElse { cond, then, otherwise } => {
                let (cond, x, y) = (self.expr(cond), self.expr(then), self.expr(otherwise));
                Cost { ops: cond.ops + x.ops.max(y.ops), data: cond.data || x.data || y.data }
            }
            ExprKind::Cast { arg, .. } | ExprKind::Reinterpret { arg, .. } => self.expr(arg),
            ExprKind::Call { args, .. } => args.iter().fold(Cost::default(), |c, a| c.and(self.expr(a))).operation(),
            ExprKind::Extern { args, .. } => args.iter().fold(Cost::default(), |c, a| c.and(self.expr(a))),
            ExprKind::Let { var, value, body } => {
                let value = self.bind(var, value);
                let body = self.expr(body);
                Cost { ops: value.ops + body.ops, data: body.data }
            }
        }
    }
}
