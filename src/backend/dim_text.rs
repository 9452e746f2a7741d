//! The text of an extent: written for manifests, for Rust and for C, read back from manifests.

use crate::ir::text::{Arg, arg};
use crate::ir::{BinOp, DType, Expr, ExprKind};

/// What an extent is written in.
pub(super) enum Notation<'a> {
    /// That of manifests, which is Python's.
    Text,
    /// Rust over `i64` variables, which the function gives for each name.
    Rust(&'a dyn Fn(&str) -> String),
    /// C over `int64_t` variables, with functions `dl_div`, `dl_mod`, `dl_min` and `dl_max`.
    C(&'a dyn Fn(&str) -> String),
}

impl Notation<'_> {
    /// The functions that floor division, its remainder, the lesser and the greater are; `None` where the first two are
    /// operators.
    fn functions(&self) -> Option<[&'static str; 4]> {
        match self {
            Notation::Text => None,
            Notation::Rust(_) => Some(["i64::div_euclid", "i64::rem_euclid", "i64::min", "i64::max"]),
            Notation::C(_) => Some(["dl_div", "dl_mod", "dl_min", "dl_max"]),
        }
    }

    /// An integer. What stands beside other literals has to be as wide as they all together in C.
    fn int(&self, value: i64) -> (String, Level) {
        match self {
            Notation::Text if value < 0 => (format!("({value})"), Level::Atom),
            Notation::Text => (value.to_string(), Level::Atom),
            Notation::Rust(_) => (value.to_string(), if value < 0 { Level::Sum } else { Level::Atom }),
            Notation::C(_) => (format!("{value}LL"), if value < 0 { Level::Sum } else { Level::Atom }),
        }
    }

    fn variable(&self, name: &str) -> String {
        match self {
            Notation::Text => name.to_string(),
            Notation::Rust(ident) | Notation::C(ident) => ident(name),
        }
    }
}

/// Binding strength of what was written: a sum, a product, or something atomic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Sum,
    Product,
    Atom,
}

/// The text; `None` for what is no expression over extents.
pub(super) fn write(e: &Expr, notation: &Notation<'_>) -> Option<String> {
    leveled(e, notation).map(|(text, _)| text)
}

fn leveled(e: &Expr, notation: &Notation<'_>) -> Option<(String, Level)> {
    let (op, a, b) = match e.kind() {
        ExprKind::Int { value, .. } => return Some(notation.int(*value)),
        ExprKind::Var { name, .. } => return Some((notation.variable(name.as_str()), Level::Atom)),
        ExprKind::Binary { op, a, b } => (*op, leveled(a, notation)?, leveled(b, notation)?),
        _ => return None,
    };
    let functions = notation.functions();
    let infix = |symbol: &str, level: Level| {
        let wrapped = |text: &str, wrap: bool| if wrap { format!("({text})") } else { text.to_string() };
        let strict = if functions.is_some() { Level::Sum } else { level };
        (format!("{} {symbol} {}", wrapped(&a.0, a.1 < level), wrapped(&b.0, b.1 <= strict)), level)
    };
    let call = |name: &str| (format!("{name}({}, {})", a.0, b.0), Level::Atom);
    Some(match op {
        BinOp::Add => infix("+", Level::Sum),
        BinOp::Sub => infix("-", Level::Sum),
        BinOp::Mul => infix("*", Level::Product),
        BinOp::FloorDiv => functions.map_or_else(|| infix("//", Level::Product), |[div, ..]| call(div)),
        BinOp::FloorMod => functions.map_or_else(|| infix("%", Level::Product), |[_, rem, ..]| call(rem)),
        BinOp::Min => call(functions.map_or("min", |[.., min, _]| min)),
        BinOp::Max => call(functions.map_or("max", |[.., max]| max)),
        _ => return None,
    })
}

/// The expression that a text says, over `i64` variables.
pub(super) fn read(text: &str) -> Result<Expr, String> {
    expr(&arg(text)?)
}

fn expr(arg: &Arg) -> Result<Expr, String> {
    let pair = |op, a, b| Ok(Expr::binary(op, expr(a)?, expr(b)?));
    match arg {
        Arg::Word(name) => Ok(Expr::var(name.as_str(), DType::I64)),
        Arg::Int(value) => Ok(Expr::i64(*value)),
        Arg::Binary(op, a, b) => pair(*op, a, b),
        Arg::Call(name, args) => match (name.as_str(), args.as_slice()) {
            ("min", [a, b]) => pair(BinOp::Min, a, b),
            ("max", [a, b]) => pair(BinOp::Max, a, b),
            _ => Err(format!("{name}(...) is no function of extents")),
        },
        Arg::Float(_) | Arg::Str(_) | Arg::List(_) | Arg::Dict(_) => Err("expected integers and extents".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> Option<String> {
        write(&read(text).ok()?, &Notation::Rust(&|n| n.to_string()))
    }

    #[test]
    fn operators_become_rust() {
        for (text, want) in [
            ("7", "7"),
            ("n", "n"),
            ("(n + 255) // 256", "i64::div_euclid(n + 255, 256)"),
            ("n * 4 * m", "n * 4 * m"),
            ("n * (4 * m)", "n * 4 * m"),
            ("(n + 1) * (m - 2)", "(n + 1) * (m - 2)"),
            ("n - (m - 1)", "n - (m - 1)"),
            ("min(n // 2, m % 8) + 1", "i64::min(i64::div_euclid(n, 2), i64::rem_euclid(m, 8)) + 1"),
            ("max(n, (-3))", "i64::max(n, -3)"),
        ] {
            assert_eq!(rust(text).as_deref(), Some(want));
        }
    }

    #[test]
    fn operators_become_c() {
        let c = |text: &str| write(&read(text).ok()?, &Notation::C(&|n| n.to_string()));
        for (text, want) in [
            ("(n + 255) // 256", "dl_div(n + 255LL, 256LL)"),
            ("100000 * 100000 * n", "100000LL * 100000LL * n"),
            ("min(n % 8, 3) - (m - 1)", "dl_min(dl_mod(n, 8LL), 3LL) - (m - 1LL)"),
            ("max(n, (-3))", "dl_max(n, -3LL)"),
        ] {
            assert_eq!(c(text).as_deref(), Some(want));
        }
    }

    #[test]
    fn what_was_written_reads_back() {
        for text in ["n * (4 * m)", "n // 2 % 3 * (m - (k + 1))", "min(n, (-3)) + (n - 1) // (2 * m)", "(-1) * n"] {
            assert_eq!(write(&read(text).unwrap(), &Notation::Text).as_deref(), Some(text));
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        for text in ["", "n +", "(n", "n m", "min(n)", "n ? 2"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
