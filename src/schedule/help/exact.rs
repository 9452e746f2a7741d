//! Values that nothing may round otherwise than the function says: those that an integer, a comparison or a rounding
//! is made of. A unit in the last place of such a value may change the result by a whole.

use crate::ir::{BinOp, Expr, ExprKind, Intrin, Name, PrimFunc, Stmt};
use std::collections::BTreeSet;

/// True where the result jumps when an operand changes by little.
pub fn jumps(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Cast { dtype, arg } => arg.dtype().is_float() && !dtype.is_float(),
        ExprKind::Reinterpret { .. } | ExprKind::Extern { .. } => true,
        ExprKind::Binary { op, a, .. } => {
            a.dtype().is_float()
                && !matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Min | BinOp::Max)
        }
        ExprKind::Call { op, .. } => matches!(
            op,
            Intrin::Floor
                | Intrin::Ceil
                | Intrin::Round
                | Intrin::Nearbyint
                | Intrin::Trunc
                | Intrin::Fmod
                | Intrin::IsNan
                | Intrin::IsInf
        ),
        ExprKind::Int { .. }
        | ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Var { .. }
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Let { .. } => false,
    }
}

/// The buffers whose values end in something that jumps, by way of others too.
pub fn buffers(func: &PrimFunc) -> BTreeSet<Name> {
    let mut found = BTreeSet::new();
    let mut stores: Vec<(Name, Expr)> = vec![];
    func.visit(&mut |s| {
        s.for_each_expr(|e| under_jumps(e, &mut found));
        match s {
            Stmt::Store { buffer, value, .. } => stores.push((buffer.clone(), value.clone())),
            Stmt::If { cond, .. } | Stmt::While { cond, .. } => loads(cond, &mut found),
            // What becomes of what is named here is not followed.
            Stmt::Let { value, .. } => loads(value, &mut found),
            Stmt::For(_) | Stmt::Block(_) | Stmt::Evaluate(_) | Stmt::Attr { .. } | Stmt::Alloc { .. } => {}
        }
    });
    loop {
        let before = found.len();
        for (_, value) in stores.iter().filter(|(buffer, _)| found.contains(buffer)).cloned().collect::<Vec<_>>() {
            loads(&value, &mut found);
        }
        if found.len() == before {
            return found;
        }
    }
}

/// What is loaded anywhere under something that jumps.
fn under_jumps(e: &Expr, found: &mut BTreeSet<Name>) {
    if jumps(e) {
        return loads(e, found);
    }
    if let ExprKind::Let { value, body, .. } = e.kind()
        && body.any(&jumps)
    {
        loads(value, found);
    }
    e.for_each_child(|c| under_jumps(c, found));
}

fn loads(e: &Expr, found: &mut BTreeSet<Name>) {
    found.extend(super::tree::loaded(e));
}
