//! Whether a function rounds: else its results are exact, whatever the schedule. And what it would make of floats that become
//! integers, had they been rounded otherwise.

use crate::analysis::roles;
use crate::ir::{BinOp, Expr, ExprKind, Intrin, Name, Param, PrimFunc, Role, Stmt};
use std::collections::BTreeSet;

/// True when the function does arithmetic on floats that rounds.
pub(super) fn rounds(func: &PrimFunc) -> bool {
    coarsest(func) > 0.0
}

/// The largest unit roundoff of what the function rounds to; 0 where it does not round.
pub(super) fn coarsest(func: &PrimFunc) -> f64 {
    let mut most = 0.0f64;
    let mut look = |e: &Expr| {
        e.visit(&mut |e| {
            if is_rounding(e) {
                most = most.max(e.dtype().roundoff());
            }
        });
    };
    func.visit(&mut |s| s.for_each_expr(&mut look));
    most
}

pub(super) fn is_rounding(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Binary { op: BinOp::Min | BinOp::Max, .. } => false,
        ExprKind::Binary { .. } => e.dtype().is_float(),
        ExprKind::Call {
            op: Intrin::Fabs | Intrin::CopySign | Intrin::Floor | Intrin::Ceil | Intrin::Trunc, ..
        } => false,
        ExprKind::Call { .. } => e.dtype().is_float(),
        ExprKind::Cast { dtype, arg } => dtype.is_float() && dtype.roundoff() > arg.dtype().roundoff(),
        ExprKind::Int { .. }
        | ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Var { .. }
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => false,
    }
}

/// A function in which floats that become integers are moved by a part of themselves and of a size.
pub(super) fn moved(func: &PrimFunc, by: f64, size: f64) -> PrimFunc {
    let inputs = roles(func).into_iter().zip(&func.params).filter_map(|(role, p)| match p {
        Param::Buffer(name) if role == Role::In => Some(name),
        _ => None,
    });
    let moved = Moved { inputs: inputs.collect(), by, size };
    PrimFunc { body: func.body.iter().map(|s| moved.stmt(s)).collect(), ..func.clone() }
}

/// How floats that become integers are moved.
struct Moved<'a> {
    /// The tensors that the function only reads.
    inputs: BTreeSet<&'a Name>,
    /// The part.
    by: f64,
    /// The size.
    size: f64,
}

/// The float that becomes an integer, or a whole number, there.
fn becomes_whole(e: &Expr) -> Option<&Expr> {
    match e.kind() {
        ExprKind::Cast { dtype, arg } if !dtype.is_float() && arg.dtype().is_float() => Some(arg),
        ExprKind::Call {
            op: Intrin::Round | Intrin::Nearbyint | Intrin::Floor | Intrin::Ceil | Intrin::Trunc,
            args,
            ..
        } => args.first(),
        _ => None,
    }
}

/// True where whole numbers are made inside: what becomes of them is exact.
fn is_whole(e: &Expr) -> bool {
    let mut found = false;
    e.visit(&mut |e| found |= becomes_whole(e).is_some());
    found
}

impl Moved<'_> {
    fn stmt(&self, s: &Stmt) -> Stmt {
        match s {
            Stmt::Store { buffer, indices, value } => {
                Stmt::Store { buffer: buffer.clone(), indices: indices.clone(), value: self.value(value) }
            }
            _ => s.map_body(|s| self.stmt(s)),
        }
    }

    /// A value; what stands in indices stays, as it says where to read.
    fn value(&self, e: &Expr) -> Expr {
        match e.kind() {
            ExprKind::Load { .. } => e.clone(),
            _ if becomes_whole(e).is_some_and(|arg| self.is_computed(arg) && !is_whole(arg)) => {
                e.map_children(|arg| self.moved(self.value(arg)))
            }
            _ => e.map_children(|c| self.value(c)),
        }
    }

    /// A float a little off, but what is whole: that is exact.
    fn moved(&self, e: Expr) -> Expr {
        let dtype = e.dtype();
        let call = |op| Expr::call(op, vec![e.clone()], dtype);
        let off = e.clone() + (call(Intrin::Fabs) + Expr::float(self.size, dtype)) * Expr::float(self.by, dtype);
        let cond = Expr::binary(BinOp::Eq, e.clone(), call(Intrin::Trunc));
        Expr::new(ExprKind::Select { cond, then: e, otherwise: off })
    }

    /// True for a value that was rounded.
    fn is_computed(&self, e: &Expr) -> bool {
        let mut found = false;
        e.visit(&mut |e| {
            let made = matches!(e.kind(), ExprKind::Load { buffer, .. } if !self.inputs.contains(buffer));
            found |= made || is_rounding(e);
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True where the value of a store becomes another.
    fn is_moved(value: &str) -> bool {
        let text = format!(
            "@T.prim_func(s_tir=True)\ndef main(x: T.Buffer((9,), \"float16\"), n: T.Buffer((9,), \"int32\"), o: T.Buffer((9,), \"int32\")):\n    \
             for i in range(9):\n        with T.sblock(\"o\"):\n            v = T.axis.spatial(9, i)\n            o[v] = {value}\n"
        );
        let func = crate::ir::read(&text, "moved").expect("reads").remove(0);
        moved(&func, 0.01, 2.0) != func
    }

    #[test]
    fn sums_that_become_integers_are_moved_and_nothing_exact_is() {
        assert!(is_moved("T.Cast(\"int32\", x[v] + x[v])"));
        assert!(is_moved("T.Cast(\"int32\", T.round(x[v] * T.float16(0.3)))"));
        assert!(is_moved("n[T.Cast(\"int32\", x[v])] + T.Cast(\"int32\", x[v] * x[v])"));
        assert!(!is_moved("T.Cast(\"int32\", x[v])"), "no rounding decides what it becomes");
        assert!(!is_moved("n[T.Cast(\"int32\", x[v] + x[v])]"), "an index would be another");
        assert!(!is_moved("n[v] + 1"));
    }
}
