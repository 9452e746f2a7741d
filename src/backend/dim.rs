//! Extents of a [`Plan`](super::Plan): integers, or expressions over the function's extents written
//! with `+ - * // % min max`, so that a loader in any language can evaluate them.

use crate::ir::{BinOp, Expr, ExprKind, Name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A size that is known, or an expression over extent names.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Dim {
    /// A constant.
    Const(i64),
    /// An expression, such as `(n + 255) // 256`.
    Expr(String),
}

impl Dim {
    /// Writes an expression of the IR as a dimension; `name` gives the name of each extent.
    ///
    /// # Errors
    /// A sentence, when the expression holds anything but integers, extents, `+ - * // %`, `min`
    /// and `max`.
    pub fn of(expr: &Expr, name: &dyn Fn(&Name) -> String) -> Result<Dim, String> {
        let (text, _) = write(expr, name)?;
        Ok(match eval(&Dim::Expr(text.clone()), &BTreeMap::new()) {
            Ok(value) => Dim::Const(value),
            Err(_) => Dim::Expr(text),
        })
    }

    /// The value of a constant.
    pub fn as_const(&self) -> Option<i64> {
        match self {
            Dim::Const(v) => Some(*v),
            Dim::Expr(_) => None,
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Const(v) => write!(f, "{v}"),
            Dim::Expr(s) => f.write_str(s),
        }
    }
}

impl From<i64> for Dim {
    fn from(value: i64) -> Dim {
        Dim::Const(value)
    }
}

/// Binding strength of what was written: a sum, a product, or something atomic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Sum,
    Product,
    Atom,
}

fn write(expr: &Expr, name: &dyn Fn(&Name) -> String) -> Result<(String, Level), String> {
    match expr.kind() {
        ExprKind::Int { value, .. } if *value < 0 => Ok((format!("({value})"), Level::Atom)),
        ExprKind::Int { value, .. } => Ok((value.to_string(), Level::Atom)),
        ExprKind::Var { name: n, .. } => Ok((name(n), Level::Atom)),
        ExprKind::Cast { arg, .. } => write(arg, name),
        ExprKind::Binary { op, a, b } => write_binary(*op, a, b, name),
        ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => Err(format!("the extent {expr:?} can't be written with + - * // % min max")),
    }
}

fn write_binary(op: BinOp, a: &Expr, b: &Expr, name: &dyn Fn(&Name) -> String) -> Result<(String, Level), String> {
    let (left, la) = write(a, name)?;
    let (right, lb) = write(b, name)?;
    let infix = |symbol: &str, level: Level| {
        let left = if la < level { format!("({left})") } else { left.clone() };
        let right = if lb <= level { format!("({right})") } else { right.clone() };
        Ok((format!("{left} {symbol} {right}"), level))
    };
    match op {
        BinOp::Add => infix("+", Level::Sum),
        BinOp::Sub => infix("-", Level::Sum),
        BinOp::Mul => infix("*", Level::Product),
        // Extents are not negative, so truncating and flooring agree.
        BinOp::FloorDiv | BinOp::TruncDiv => infix("//", Level::Product),
        BinOp::FloorMod | BinOp::TruncMod => infix("%", Level::Product),
        BinOp::Min => Ok((format!("min({left}, {right})"), Level::Atom)),
        BinOp::Max => Ok((format!("max({left}, {right})"), Level::Atom)),
        BinOp::Shl if b.as_int().is_some_and(|s| (0..31).contains(&s)) => {
            write_binary(BinOp::Mul, a, &Expr::i64(1 << b.as_int().unwrap_or(0)), name)
        }
        BinOp::Shr if b.as_int().is_some_and(|s| (0..31).contains(&s)) => {
            write_binary(BinOp::FloorDiv, a, &Expr::i64(1 << b.as_int().unwrap_or(0)), name)
        }
        BinOp::Div
        | BinOp::Eq
        | BinOp::Ne
        | BinOp::Lt
        | BinOp::Le
        | BinOp::Gt
        | BinOp::Ge
        | BinOp::And
        | BinOp::Or
        | BinOp::BitAnd
        | BinOp::BitOr
        | BinOp::BitXor
        | BinOp::Shl
        | BinOp::Shr => Err(format!("an extent can't hold the operator {op:?}")),
    }
}

/// The value of a dimension for given extents.
///
/// # Errors
/// A sentence, on an unknown extent, a syntax error, division by zero or overflow.
pub fn eval(dim: &Dim, extents: &BTreeMap<String, i64>) -> Result<i64, String> {
    match dim {
        Dim::Const(v) => Ok(*v),
        Dim::Expr(text) => {
            let mut p = Parser { text: text.as_bytes(), at: 0, extents, depth: 0 };
            let value = p.sum().map_err(|why| format!("extent `{text}`: {why}"))?;
            p.skip_space();
            if p.at < p.text.len() {
                return Err(format!("extent `{text}`: unexpected text at column {}", p.at + 1));
            }
            Ok(value)
        }
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    extents: &'a BTreeMap<String, i64>,
    depth: u32,
}

impl Parser<'_> {
    fn skip_space(&mut self) {
        while self.text.get(self.at).is_some_and(|c| c.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Consumes `token` if it comes next.
    fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.text[self.at..].starts_with(token.as_bytes());
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) { Ok(()) } else { Err(format!("expected `{token}` at column {}", self.at + 1)) }
    }

    fn sum(&mut self) -> Result<i64, String> {
        self.depth += 1;
        if self.depth > 200 {
            return Err("nested deeper than 200 levels".to_string());
        }
        let mut value = self.product()?;
        loop {
            value = if self.eat("+") {
                checked(value.checked_add(self.product()?))?
            } else if self.eat("-") {
                checked(value.checked_sub(self.product()?))?
            } else {
                self.depth -= 1;
                return Ok(value);
            };
        }
    }

    fn product(&mut self) -> Result<i64, String> {
        let mut value = self.atom()?;
        loop {
            value = if self.eat("*") {
                checked(value.checked_mul(self.atom()?))?
            } else if self.eat("//") {
                floor_div(value, self.atom()?)?
            } else if self.eat("%") {
                let b = self.atom()?;
                checked(value.checked_sub(checked(floor_div(value, b)?.checked_mul(b))?))?
            } else {
                return Ok(value);
            };
        }
    }

    fn atom(&mut self) -> Result<i64, String> {
        if self.eat("(") {
            let value = self.sum()?;
            self.expect(")")?;
            return Ok(value);
        }
        if self.eat("-") {
            self.depth += 1;
            if self.depth > 200 {
                return Err("nested deeper than 200 levels".to_string());
            }
            return checked(self.atom()?.checked_neg());
        }
        let word = self.word()?;
        match word.as_str() {
            "min" | "max" if self.eat("(") => self.pair(word == "min"),
            w if w.as_bytes()[0].is_ascii_digit() => w.parse().map_err(|_| format!("`{w}` is not an integer")),
            w => self.extents.get(w).copied().ok_or_else(|| format!("no value for `{w}`; bind it")),
        }
    }

    fn pair(&mut self, min: bool) -> Result<i64, String> {
        let a = self.sum()?;
        self.expect(",")?;
        let b = self.sum()?;
        self.expect(")")?;
        Ok(if min { a.min(b) } else { a.max(b) })
    }

    fn word(&mut self) -> Result<String, String> {
        self.skip_space();
        let rest = &self.text[self.at..];
        let len = rest.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == b'_' || **c >= 128).count();
        if len == 0 {
            return Err(format!("expected a number or an extent at column {}", self.at + 1));
        }
        self.at += len;
        Ok(String::from_utf8_lossy(&rest[..len]).into_owned())
    }
}

fn checked(value: Option<i64>) -> Result<i64, String> {
    value.ok_or_else(|| "the value does not fit in 64 bits".to_string())
}

fn floor_div(a: i64, b: i64) -> Result<i64, String> {
    if b == 0 {
        return Err("division by zero".to_string());
    }
    let q = checked(a.checked_div(b))?;
    Ok(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;

    fn at(text: &str, n: i64) -> Result<i64, String> {
        eval(&Dim::Expr(text.to_string()), &BTreeMap::from([("n".to_string(), n)]))
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
        assert_eq!(at(&dim.to_string(), 1000), Ok(4 * (1000 - (3 - 1000))));
        assert_eq!(Dim::of(&(div(c(1000), c(256)) * c(-2)), &name), Ok(Dim::Const(-6)));
        assert!(Dim::of(&Expr::float(1.0, DType::F32), &name).is_err());
    }

    #[test]
    fn serde_is_an_integer_or_a_string() {
        let dims = vec![Dim::Const(4), Dim::Expr("n * 2".to_string())];
        let text = serde_json::to_string(&dims).unwrap();
        assert_eq!(text, r#"[4,"n * 2"]"#);
        assert_eq!(serde_json::from_str::<Vec<Dim>>(&text).unwrap(), dims);
    }
}
