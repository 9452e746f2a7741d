//! Integer expressions at given values of their variables.

use crate::ir::{BinOp, DType, Expr, ExprKind, Name, UnOp};

/// Variables with values.
pub type Env<'a> = [(&'a Name, i64)];

/// The value of an expression; `None` where it depends on something else, or has none.
pub fn value(e: &Expr, env: &Env) -> Option<i64> {
    match e.kind() {
        ExprKind::Int { value, .. } => Some(*value),
        ExprKind::Var { name, .. } => env.iter().find(|(n, _)| *n == name).map(|(_, v)| *v),
        ExprKind::Unary { op, arg } => {
            let v = value(arg, env)?;
            match op {
                UnOp::Neg => v.checked_neg(),
                UnOp::Not => Some(i64::from(v == 0)),
                UnOp::BitNot => Some(!v),
            }
        }
        ExprKind::Binary { op: op @ (BinOp::And | BinOp::Or), a, b } => logic(*op, value(a, env), value(b, env)),
        ExprKind::Binary { op, a, b } if !a.dtype().is_float() => op.of_ints(value(a, env)?, value(b, env)?),
        ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise } => {
            value(if value(cond, env)? != 0 { then } else { otherwise }, env)
        }
        ExprKind::Cast { dtype, arg } if matches!(dtype, DType::I32 | DType::I64) && !arg.dtype().is_float() => {
            value(arg, env)
        }
        ExprKind::Let { var, value: v, body } => value(body, &[env, &[(var, value(v, env)?)]].concat()),
        ExprKind::Binary { .. }
        | ExprKind::Cast { .. }
        | ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Load { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. } => None,
    }
}

/// `and` and `or` where one side may be unknown.
fn logic(op: BinOp, a: Option<i64>, b: Option<i64>) -> Option<i64> {
    let decides = i64::from(op == BinOp::Or);
    let truth = |v: Option<i64>| v.map(|v| i64::from(v != 0));
    match (truth(a), truth(b)) {
        (Some(v), _) | (_, Some(v)) if v == decides => Some(decides),
        (Some(_), Some(_)) => Some(1 - decides),
        _ => None,
    }
}
