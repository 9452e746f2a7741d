//! Text of expressions.

use super::literal;
use super::names::Names;
use crate::ir::ops::{self, Prec};
use crate::ir::{BinOp, Expr, ExprKind, UnOp};

/// The expression on its own.
pub(super) fn text(e: &Expr, names: &Names) -> String {
    let mut out = String::new();
    write(&mut out, e, names);
    out
}

/// Several expressions, separated by commas.
pub(super) fn list(items: &[Expr], names: &Names) -> String {
    items.iter().map(|e| text(e, names)).collect::<Vec<_>>().join(", ")
}

/// Indices of a load or store: `i, j`, or `()` for a scalar.
pub(super) fn indices(items: &[Expr], names: &Names) -> String {
    if items.is_empty() { "()".to_string() } else { list(items, names) }
}

/// A tuple of expressions, `(n,)` when there is one.
pub(super) fn tuple(items: &[String]) -> String {
    match items {
        [one] => format!("({one},)"),
        _ => format!("({})", items.join(", ")),
    }
}

/// The operator's strength where the expression prints as one.
fn prec(e: &Expr) -> Prec {
    match e.kind() {
        ExprKind::Binary { op, a, b } if prints_as_symbol(*op, a, b) => ops::info(*op).prec,
        ExprKind::Unary { op: UnOp::Not, .. } => Prec::Not,
        ExprKind::Unary { op: UnOp::Neg | UnOp::BitNot, .. } => Prec::Unary,
        _ => Prec::Atom,
    }
}

/// True where Python's operator builds this very node when the text is read again.
fn prints_as_symbol(op: BinOp, a: &Expr, b: &Expr) -> bool {
    let info = ops::info(op);
    !info.symbol.is_empty() && ops::fold(op, a, b).is_none() && (op != BinOp::Div || a.dtype().is_float())
}

fn write(out: &mut String, e: &Expr, names: &Names) {
    match e.kind() {
        ExprKind::Int { value, dtype } => out.push_str(&literal::int(*value, *dtype)),
        ExprKind::Float { bits, dtype } => out.push_str(&literal::float(*bits, *dtype)),
        ExprKind::Str(s) => out.push_str(&literal::string(s)),
        ExprKind::Var { name, .. } => out.push_str(&names.get(name)),
        ExprKind::Load { buffer, indices: index, .. } => {
            out.push_str(&format!("{}[{}]", names.get(buffer), indices(index, names)));
        }
        ExprKind::Unary { op, arg } => write_unary(out, *op, arg, names),
        ExprKind::Binary { op, a, b } => write_binary(out, *op, a, b, names),
        ExprKind::Select { cond, then, otherwise } => write_call(out, "Select", &[cond, then, otherwise], names),
        ExprKind::IfThenElse { cond, then, otherwise } => {
            write_call(out, "if_then_else", &[cond, then, otherwise], names);
        }
        ExprKind::Cast { dtype, arg } => out.push_str(&format!("T.Cast(\"{dtype}\", {})", text(arg, names))),
        ExprKind::Reinterpret { dtype, arg } => {
            out.push_str(&format!("T.reinterpret(\"{dtype}\", {})", text(arg, names)));
        }
        ExprKind::Call { op, args, .. } => out.push_str(&format!("T.{}({})", op.name(), list(args, names))),
        ExprKind::Extern { callee, args, .. } => write_extern(out, callee, args, names),
        ExprKind::Let { var, value, body } => {
            let (var, value, body) = (names.get(var), text(value, names), text(body, names));
            out.push_str(&format!("T.Let({body}, where={{{var}: {value}}})"));
        }
    }
}

fn write_call(out: &mut String, name: &str, args: &[&Expr], names: &Names) {
    let args: Vec<_> = args.iter().map(|e| text(e, names)).collect();
    out.push_str(&format!("T.{name}({})", args.join(", ")));
}

fn write_nested(out: &mut String, e: &Expr, parens: bool, names: &Names) {
    if parens {
        out.push('(');
    }
    write(out, e, names);
    if parens {
        out.push(')');
    }
}

fn write_unary(out: &mut String, op: UnOp, arg: &Expr, names: &Names) {
    let (symbol, own) = match op {
        UnOp::Neg => ("-", Prec::Unary),
        UnOp::Not => ("not ", Prec::Not),
        UnOp::BitNot => ("~", Prec::Unary),
    };
    out.push_str(symbol);
    // `-3` is a literal, not the negation of one.
    let literal = op != UnOp::Not && (arg.as_int().is_some() || arg.as_float().is_some());
    write_nested(out, arg, literal || prec(arg) < own, names);
}

fn write_binary(out: &mut String, op: BinOp, a: &Expr, b: &Expr, names: &Names) {
    let info = ops::info(op);
    if !prints_as_symbol(op, a, b) {
        return write_call(out, info.node, &[a, b], names);
    }
    // Python chains comparisons, so a comparison inside one is always bracketed.
    let left = prec(a) < info.prec || (info.prec == Prec::Compare && prec(a) == Prec::Compare);
    write_nested(out, a, left, names);
    out.push_str(&format!(" {} ", info.symbol));
    write_nested(out, b, prec(b) <= info.prec, names);
}

/// Calls of everything else. A few spellings are not calls: `A.data`, `A.access_ptr(..)`,
/// `[a, b]`, `lambda x: ..`, `key=value`.
fn write_extern(out: &mut String, callee: &str, args: &[Expr], names: &Names) {
    match (callee, args) {
        ("[]", items) => out.push_str(&format!("[{}]", list(items, names))),
        ("lambda", [body]) => {
            let ExprKind::Str(s) = body.kind() else { return };
            out.push_str(&format!("lambda {s}"));
        }
        (callee, [base, rest @ ..]) if callee.starts_with('.') => {
            let ExprKind::Load { buffer, .. } = base.kind() else { return };
            out.push_str(&format!("{}{}", names.get(buffer), callee.trim_end_matches("()")));
            if callee.ends_with("()") {
                out.push_str(&format!("({})", list(rest, names)));
            }
        }
        (callee, [value]) if callee.ends_with('=') => out.push_str(&format!("{callee}{}", text(value, names))),
        (callee, args) => out.push_str(&format!("T.{callee}({})", list(args, names))),
    }
}
