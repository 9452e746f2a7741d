//! Extents of a [`Plan`](super::Plan): integers, or expressions over the function's extents with
//! `+ - * // % min max`, which are written as text so that a loader in any language can evaluate them. A conditional
//! becomes such an expression too, with `min(max(b - a, 0), 1)` for `a < b`.
//!
//! `dim_text` writes and reads that text.

use super::dim_text::{Notation, read, write};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name, UnOp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// A size that is known, or an expression over extent names.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum Dim {
    /// A constant.
    Const(i64),
    /// An expression, such as `(n + 255) // 256`, over the user's names.
    Expr(Expr),
}

/// A dimension in a manifest.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Const(i64),
    Expr(String),
}

impl Dim {
    /// An expression of the IR as a dimension; `name` gives the name of each extent.
    ///
    /// # Errors
    /// A sentence, when the expression holds anything but integers, extents, `+ - * // %`, `min`
    /// and `max`.
    pub fn of(expr: &Expr, name: &dyn Fn(&Name) -> String) -> Result<Dim, String> {
        let expr = plain(expr, name)?;
        Ok(value(&expr, &BTreeMap::new()).map_or(Dim::Expr(expr), Dim::Const))
    }

    /// The value of a constant.
    pub fn as_const(&self) -> Option<i64> {
        match self {
            Dim::Const(v) => Some(*v),
            Dim::Expr(_) => None,
        }
    }

    /// Names that the dimension uses.
    pub fn names(&self) -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        if let Dim::Expr(e) = self {
            e.visit(&mut |e| out.extend(e.as_var().map(Name::to_string)));
        }
        out
    }

    /// A Rust expression of type `i64`; `ident` gives the variable of each name.
    ///
    /// # Errors
    /// A sentence, for what is no expression over extents.
    pub fn rust(&self, ident: &dyn Fn(&str) -> String) -> Result<String, String> {
        self.code(&Notation::Rust(ident), "Rust")
    }

    /// A C expression of type `int64_t`, with functions `dl_div`, `dl_mod`, `dl_min` and `dl_max`; `ident` gives the
    /// variable of each name.
    ///
    /// # Errors
    /// A sentence, for what is no expression over extents.
    pub fn c(&self, ident: &dyn Fn(&str) -> String) -> Result<String, String> {
        self.code(&Notation::C(ident), "C")
    }

    fn code(&self, notation: &Notation<'_>, language: &str) -> Result<String, String> {
        match self {
            Dim::Const(v) => Ok(v.to_string()),
            Dim::Expr(e) => {
                write(e, notation).ok_or_else(|| format!("the extent `{e}` cannot be written in {language}"))
            }
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Const(v) => write!(f, "{v}"),
            Dim::Expr(e) => f.write_str(&write(e, &Notation::Text).unwrap_or_else(|| e.to_string())),
        }
    }
}

impl FromStr for Dim {
    type Err = String;

    fn from_str(text: &str) -> Result<Dim, String> {
        read(text).map(Dim::Expr).map_err(|why| format!("extent `{text}`: {why}"))
    }
}

impl From<i64> for Dim {
    fn from(value: i64) -> Dim {
        Dim::Const(value)
    }
}

impl From<Dim> for Written {
    fn from(dim: Dim) -> Written {
        match dim {
            Dim::Const(v) => Written::Const(v),
            Dim::Expr(_) => Written::Expr(dim.to_string()),
        }
    }
}

impl TryFrom<Written> for Dim {
    type Error = String;

    fn try_from(written: Written) -> Result<Dim, String> {
        match written {
            Written::Const(v) => Ok(Dim::Const(v)),
            Written::Expr(text) => text.parse(),
        }
    }
}

/// The expression with the operators of an extent alone, over the names that `name` gives.
fn plain(expr: &Expr, name: &dyn Fn(&Name) -> String) -> Result<Expr, String> {
    match expr.kind() {
        ExprKind::Int { value, .. } => Ok(Expr::i64(*value)),
        ExprKind::Var { name: n, .. } => Ok(Expr::var(Name::new(name(n)), DType::I64)),
        ExprKind::Cast { arg, .. } => plain(arg, name),
        ExprKind::Binary { op, a, b } => {
            let (a, b) = (plain(a, name)?, plain(b, name)?);
            let power = b.as_int().filter(|s| (0..31).contains(s)).map(|s| Expr::i64(1 << s));
            let (op, b) = match (op, power) {
                (BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Min | BinOp::Max, _) => (*op, b),
                // Extents are not negative, so truncating and flooring agree.
                (BinOp::FloorDiv | BinOp::TruncDiv, _) => (BinOp::FloorDiv, b),
                (BinOp::FloorMod | BinOp::TruncMod, _) => (BinOp::FloorMod, b),
                (BinOp::Shl, Some(power)) => (BinOp::Mul, power),
                (BinOp::Shr, Some(power)) => (BinOp::FloorDiv, power),
                (op, _) => return Err(format!("an extent can't hold the operator {op:?}")),
            };
            Ok(Expr::binary(op, a, b))
        }
        ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise } => {
            let (then, otherwise, holds) = (plain(then, name)?, plain(otherwise, name)?, truth(cond, name)?);
            Ok(holds.clone() * then + (Expr::i64(1) - holds) * otherwise)
        }
        ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => {
            Err(format!("the extent `{expr}` is no expression of sizes with + - * // % min max and conditions"))
        }
    }
}

/// A condition as 1 where it holds and 0 where it does not. Conditionals inside of conditions are none: each would
/// be written twice, and those in them four times.
fn truth(cond: &Expr, name: &dyn Fn(&Name) -> String) -> Result<Expr, String> {
    if has_choice(cond) {
        return Err(format!("an extent can't ask for a conditional, as in `{cond}`"));
    }
    let less = |a: Expr, b: Expr| at_most_one(Expr::binary(BinOp::Max, b - a, Expr::i64(0)));
    let not = |e: Expr| Expr::i64(1) - e;
    match cond.kind() {
        ExprKind::Int { value, .. } => Ok(Expr::i64(i64::from(*value != 0))),
        ExprKind::Unary { op: UnOp::Not, arg } => Ok(not(truth(arg, name)?)),
        ExprKind::Binary { op: BinOp::And, a, b } => Ok(truth(a, name)? * truth(b, name)?),
        ExprKind::Binary { op: BinOp::Or, a, b } => Ok(Expr::binary(BinOp::Max, truth(a, name)?, truth(b, name)?)),
        ExprKind::Binary { op, a, b } => {
            let (a, b) = (plain(a, name)?, plain(b, name)?);
            match op {
                BinOp::Lt => Ok(less(a, b)),
                BinOp::Gt => Ok(less(b, a)),
                BinOp::Le => Ok(not(less(b, a))),
                BinOp::Ge => Ok(not(less(a, b))),
                BinOp::Ne => Ok(at_most_one(Expr::binary(BinOp::Max, a.clone() - b.clone(), b - a))),
                BinOp::Eq => Ok(not(at_most_one(Expr::binary(BinOp::Max, a.clone() - b.clone(), b - a)))),
                op => Err(format!("an extent can't ask for the operator {op:?}")),
            }
        }
        _ => Err(format!("an extent can't ask for `{cond}`")),
    }
}

fn has_choice(e: &Expr) -> bool {
    let mut found = false;
    e.visit(&mut |e| found |= matches!(e.kind(), ExprKind::Select { .. } | ExprKind::IfThenElse { .. }));
    found
}

fn at_most_one(e: Expr) -> Expr {
    Expr::binary(BinOp::Min, e, Expr::i64(1))
}

/// The value of a dimension for given extents.
///
/// # Errors
/// A sentence, on an unknown extent, division by zero or overflow.
pub fn eval(dim: &Dim, extents: &BTreeMap<String, i64>) -> Result<i64, String> {
    match dim {
        Dim::Const(v) => Ok(*v),
        Dim::Expr(e) => value(e, extents).map_err(|why| format!("extent `{dim}`: {why}")),
    }
}

fn value(e: &Expr, extents: &BTreeMap<String, i64>) -> Result<i64, String> {
    match e.kind() {
        ExprKind::Int { value, .. } => Ok(*value),
        ExprKind::Var { name, .. } => {
            extents.get(name.as_str()).copied().ok_or_else(|| format!("no value for `{name}`; bind it"))
        }
        ExprKind::Binary { op, a, b } => {
            let (a, b) = (value(a, extents)?, value(b, extents)?);
            let found = match op {
                BinOp::Add => a.checked_add(b),
                BinOp::Sub => a.checked_sub(b),
                BinOp::Mul => a.checked_mul(b),
                BinOp::Min => Some(a.min(b)),
                BinOp::Max => Some(a.max(b)),
                BinOp::FloorDiv | BinOp::FloorMod if b == 0 => return Err("division by zero".into()),
                BinOp::FloorDiv => a.checked_div(b).map(|q| q - i64::from(a % b != 0 && (a < 0) != (b < 0))),
                BinOp::FloorMod => a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r }),
                op => return Err(format!("an extent can't hold the operator {op:?}")),
            };
            found.ok_or_else(|| "the value does not fit in 64 bits".into())
        }
        _ => Err("it is not made of integers and extents".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, n: i64) -> Result<i64, String> {
        eval(&text.parse()?, &BTreeMap::from([("n".to_string(), n)]))
    }

    #[test]
    fn evaluates_with_python_precedence() {
        assert_eq!(at("(n + 255) // 256 * 4 - 1", 1000), Ok(15));
        assert_eq!(at("-7 // 2 + 0", 0), Ok(-4));
        assert_eq!(at("(0 - 7) % 4", 0), Ok(1));
        assert_eq!(at("min(n, 8) * max(2, n % 3)", 5), Ok(10));
        assert_eq!(at("n", 3), Ok(3));
    }

    #[test]
    fn errors_are_sentences() {
        assert_eq!(at("m + 1", 0), Err("extent `m + 1`: no value for `m`; bind it".to_string()));
        assert_eq!(at("n // 0", 1), Err("extent `n // 0`: division by zero".to_string()));
        assert!(at("n +", 1).is_err());
        assert!(at("n 2", 1).is_err());
        assert!(at("9223372036854775807 + n", 1).is_err());
        assert!(at(&"(".repeat(100_000), 1).is_err());
        assert!(at(&"-".repeat(100_000), 1).is_err());
        assert!(at(&"n + ".repeat(100_000), 1).is_err());
    }

    #[test]
    fn expressions_print_and_evaluate_alike() {
        let n = || Expr::var("n0", DType::I64);
        let name = |_: &Name| "n".to_string();
        let c = Expr::i64;
        let div = |a, b| Expr::binary(BinOp::FloorDiv, a, b);
        let e = div(n() + c(255), c(256)) * (n() - (c(3) - n()));
        let dim = Dim::of(&e, &name).unwrap();
        assert_eq!(dim.to_string(), "(n + 255) // 256 * (n - (3 - n))");
        assert_eq!(dim.to_string().parse(), Ok(dim.clone()));
        assert_eq!(at(&dim.to_string(), 1000), Ok(4 * (1000 - (3 - 1000))));
        assert_eq!(Dim::of(&(div(c(1000), c(256)) * c(-2)), &name), Ok(Dim::Const(-6)));
        assert!(Dim::of(&Expr::float(1.0, DType::F32), &name).is_err());
    }

    #[test]
    fn a_conditional_is_written_without_one() {
        let (n, c) = (|| Expr::var("n", DType::I64), Expr::i64);
        let name = Name::to_string;
        let ops = [BinOp::Lt, BinOp::Le, BinOp::Gt, BinOp::Ge, BinOp::Eq, BinOp::Ne];
        for (op, values) in ops.into_iter().zip([[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1], [0, 1, 0], [1, 0, 1]]) {
            let asked = Expr::binary(op, n(), c(5));
            for cond in [asked.clone(), Expr::binary(BinOp::And, asked.clone(), Expr::bool(true))] {
                let choice = ExprKind::IfThenElse { cond, then: n() * c(2), otherwise: n() - c(1) };
                let dim = Dim::of(&Expr::new(choice), &name).unwrap();
                let (text, want) = (dim.to_string(), |n: i64, v: i64| if v == 1 { n * 2 } else { n - 1 });
                assert_eq!([4, 5, 6].map(|n| at(&text, n).unwrap()), [0, 1, 2].map(|k| want(4 + k as i64, values[k])));
            }
        }
    }

    #[test]
    fn serde_is_an_integer_or_a_string() {
        let dims = vec![Dim::Const(4), "n * 2".parse().unwrap()];
        let text = serde_json::to_string(&dims).unwrap();
        assert_eq!(text, r#"[4,"n * 2"]"#);
        assert_eq!(serde_json::from_str::<Vec<Dim>>(&text).unwrap(), dims);
    }

    #[test]
    fn names_are_found() {
        let found = "min(n0, m) * 4 + k_1 // 2".parse::<Dim>().unwrap().names();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["k_1", "m", "n0"]);
    }
}
