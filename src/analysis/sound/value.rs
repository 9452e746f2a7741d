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
        ExprKind::Binary { op, a, b } if !a.dtype().is_float() => binary(*op, value(a, env)?, value(b, env)?),
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

fn binary(op: BinOp, a: i64, b: i64) -> Option<i64> {
    let shift = || u32::try_from(b).ok().filter(|s| *s < 63);
    let floor = |a: i64, b: i64| {
        let q = a.checked_div(b)?;
        Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
    };
    Some(match op {
        BinOp::Add => a.checked_add(b)?,
        BinOp::Sub => a.checked_sub(b)?,
        BinOp::Mul => a.checked_mul(b)?,
        BinOp::FloorDiv => floor(a, b)?,
        BinOp::FloorMod => a.checked_sub(floor(a, b)?.checked_mul(b)?)?,
        BinOp::TruncDiv => a.checked_div(b)?,
        BinOp::TruncMod => a.checked_rem(b)?,
        BinOp::Min => a.min(b),
        BinOp::Max => a.max(b),
        BinOp::Eq => i64::from(a == b),
        BinOp::Ne => i64::from(a != b),
        BinOp::Lt => i64::from(a < b),
        BinOp::Le => i64::from(a <= b),
        BinOp::Gt => i64::from(a > b),
        BinOp::Ge => i64::from(a >= b),
        BinOp::BitAnd => a & b,
        BinOp::BitOr => a | b,
        BinOp::BitXor => a ^ b,
        BinOp::Shl => a.checked_mul(1 << shift()?)?,
        BinOp::Shr => a >> shift()?,
        BinOp::Div | BinOp::And | BinOp::Or => return None,
    })
}
