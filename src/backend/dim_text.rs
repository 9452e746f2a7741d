//! The text of an extent: written for manifests and for Rust, read back from manifests.

use crate::ir::{BinOp, DType, Expr, ExprKind, Name};

/// What an extent is written in.
pub(super) enum Notation<'a> {
    /// That of manifests, which is Python's.
    Text,
    /// Rust over `i64` variables, which the function gives for each name.
    Rust(&'a dyn Fn(&str) -> String),
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
    let (op, a, b) = match (e.kind(), notation) {
        (ExprKind::Int { value, .. }, Notation::Text) if *value < 0 => {
            return Some((format!("({value})"), Level::Atom));
        }
        (ExprKind::Int { value, .. }, Notation::Rust(_)) if *value < 0 => return Some((value.to_string(), Level::Sum)),
        (ExprKind::Int { value, .. }, _) => return Some((value.to_string(), Level::Atom)),
        (ExprKind::Var { name, .. }, Notation::Text) => return Some((name.to_string(), Level::Atom)),
        (ExprKind::Var { name, .. }, Notation::Rust(ident)) => return Some((ident(name.as_str()), Level::Atom)),
        (ExprKind::Binary { op, a, b }, _) => (*op, leveled(a, notation)?, leveled(b, notation)?),
        _ => return None,
    };
    let is_rust = matches!(notation, Notation::Rust(_));
    let infix = |symbol: &str, level: Level| {
        let wrapped = |text: &str, wrap: bool| if wrap { format!("({text})") } else { text.to_string() };
        let strict = if is_rust { Level::Sum } else { level };
        (format!("{} {symbol} {}", wrapped(&a.0, a.1 < level), wrapped(&b.0, b.1 <= strict)), level)
    };
    let call = |name: &str| {
        let path = if is_rust { "i64::" } else { "" };
        (format!("{path}{name}({}, {})", a.0, b.0), Level::Atom)
    };
    Some(match op {
        BinOp::Add => infix("+", Level::Sum),
        BinOp::Sub => infix("-", Level::Sum),
        BinOp::Mul => infix("*", Level::Product),
        BinOp::FloorDiv if is_rust => call("div_euclid"),
        BinOp::FloorMod if is_rust => call("rem_euclid"),
        BinOp::FloorDiv => infix("//", Level::Product),
        BinOp::FloorMod => infix("%", Level::Product),
        BinOp::Min => call("min"),
        BinOp::Max => call("max"),
        _ => return None,
    })
}

/// The expression that a text says, over `i64` variables.
pub(super) fn read(text: &str) -> Result<Expr, String> {
    let mut p = Parser { text: text.as_bytes(), at: 0, depth: 0, atoms: 0 };
    let e = p.sum()?;
    p.skip_space();
    if p.at < text.len() { Err(format!("unexpected text at column {}", p.at + 1)) } else { Ok(e) }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
    /// Numbers and names so far: a tree of them is walked by recursion.
    atoms: u32,
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

    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > 200 { Err("nested deeper than 200 levels".into()) } else { Ok(()) }
    }

    /// Operands joined by operators of one strength, from the left.
    fn chain(
        &mut self,
        operators: &[(&str, BinOp)],
        operand: fn(&mut Self) -> Result<Expr, String>,
    ) -> Result<Expr, String> {
        let mut left = operand(self)?;
        while let Some((_, op)) = operators.iter().find(|(token, _)| self.eat(token)) {
            left = Expr::binary(*op, left, operand(self)?);
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expr, String> {
        self.deeper()?;
        let e = self.chain(&[("+", BinOp::Add), ("-", BinOp::Sub)], Self::product)?;
        self.depth -= 1;
        Ok(e)
    }

    fn product(&mut self) -> Result<Expr, String> {
        self.chain(&[("*", BinOp::Mul), ("//", BinOp::FloorDiv), ("%", BinOp::FloorMod)], Self::atom)
    }

    fn atom(&mut self) -> Result<Expr, String> {
        if self.eat("(") {
            let e = self.sum()?;
            self.expect(")")?;
            return Ok(e);
        }
        if self.eat("-") {
            self.deeper()?;
            let e = self.atom()?;
            self.depth -= 1;
            return Ok(e.as_int().map_or_else(|| Expr::i64(0) - e.clone(), |v| Expr::i64(-v)));
        }
        self.atoms += 1;
        if self.atoms > 1000 {
            return Err("longer than 1000 numbers and names".into());
        }
        let word = self.word()?;
        match word.as_str() {
            "min" if self.eat("(") => self.pair(BinOp::Min),
            "max" if self.eat("(") => self.pair(BinOp::Max),
            w if w.as_bytes()[0].is_ascii_digit() => {
                w.parse().map(Expr::i64).map_err(|_| format!("`{w}` is not an integer"))
            }
            w => Ok(Expr::var(Name::new(w), DType::I64)),
        }
    }

    fn pair(&mut self, op: BinOp) -> Result<Expr, String> {
        let a = self.sum()?;
        self.expect(",")?;
        let b = self.sum()?;
        self.expect(")")?;
        Ok(Expr::binary(op, a, b))
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
