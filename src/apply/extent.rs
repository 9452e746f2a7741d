//! Extents of a plan (`(n + 255) // 256`) as Rust expressions over `i64` variables.

use crate::backend::Dim;
use std::collections::BTreeSet;

/// Names that an extent uses.
pub fn names(dim: &Dim) -> BTreeSet<String> {
    match dim {
        Dim::Const(_) => BTreeSet::new(),
        Dim::Expr(text) => tokens(text)
            .into_iter()
            .filter(|t| t.starts_with(|c: char| c.is_alphabetic() || c == '_') && *t != "min" && *t != "max")
            .map(str::to_string)
            .collect(),
    }
}

/// The extent as a Rust expression of type `i64`; `ident` gives the variable of each name.
///
/// # Errors
/// A sentence, when the text is not an extent.
pub fn rust(dim: &Dim, ident: &dyn Fn(&str) -> String) -> Result<String, String> {
    match dim {
        Dim::Const(v) => Ok(v.to_string()),
        Dim::Expr(text) => {
            let mut p = Translator { tokens: tokens(text), at: 0, ident };
            let out = p.sum().ok_or_else(|| format!("the extent `{text}` cannot be written in Rust"))?;
            match p.peek() {
                None => Ok(out.text),
                Some(t) => Err(format!("the extent `{text}` has an unexpected `{t}`")),
            }
        }
    }
}

/// Words, numbers and operators.
fn tokens(text: &str) -> Vec<&str> {
    let mut out = vec![];
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let n = match first {
            c if word(c) => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            '/' if rest.starts_with("//") => 2,
            c => c.len_utf8(),
        };
        out.push(&rest[..n]);
        rest = rest[n..].trim_start();
    }
    out
}

/// A Rust expression, and whether it needs parentheses as a factor.
struct Piece {
    text: String,
    is_sum: bool,
}

impl Piece {
    fn atom(text: String) -> Piece {
        Piece { text, is_sum: false }
    }

    fn factor(self) -> String {
        if self.is_sum { format!("({})", self.text) } else { self.text }
    }
}

struct Translator<'a> {
    tokens: Vec<&'a str>,
    at: usize,
    ident: &'a dyn Fn(&str) -> String,
}

impl Translator<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).copied()
    }

    fn eat(&mut self, token: &str) -> Option<()> {
        (self.peek()? == token).then(|| self.at += 1)
    }

    fn sum(&mut self) -> Option<Piece> {
        let mut left = self.product()?;
        while let Some(op @ ("+" | "-")) = self.tokens.get(self.at).copied() {
            self.at += 1;
            let right = self.product()?;
            left = Piece { text: format!("{} {op} {}", left.text, right.factor()), is_sum: true };
        }
        Some(left)
    }

    fn product(&mut self) -> Option<Piece> {
        let mut left = self.atom()?;
        while let Some(op @ ("*" | "//" | "%")) = self.tokens.get(self.at).copied() {
            self.at += 1;
            let right = self.atom()?;
            left = Piece::atom(match op {
                "*" => format!("{} * {}", left.factor(), right.factor()),
                "//" => format!("i64::div_euclid({}, {})", left.text, right.text),
                _ => format!("i64::rem_euclid({}, {})", left.text, right.text),
            });
        }
        Some(left)
    }

    fn atom(&mut self) -> Option<Piece> {
        let token = self.tokens.get(self.at).copied()?;
        self.at += 1;
        match token {
            "(" => {
                let inner = self.sum()?;
                self.eat(")")?;
                Some(inner)
            }
            "-" => Some(Piece { text: format!("-{}", self.atom()?.factor()), is_sum: true }),
            "min" | "max" => {
                self.eat("(")?;
                let a = self.sum()?.text;
                self.eat(",")?;
                let b = self.sum()?.text;
                self.eat(")")?;
                Some(Piece::atom(format!("i64::{token}({a}, {b})")))
            }
            t if t.chars().all(|c| c.is_ascii_digit()) => Some(Piece::atom(t.to_string())),
            t if t.starts_with(|c: char| c.is_alphabetic() || c == '_') => Some(Piece::atom((self.ident)(t))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(text: &str) -> Result<String, String> {
        rust(&Dim::Expr(text.into()), &|n| n.to_string())
    }

    #[test]
    fn operators_become_rust() {
        for (text, want) in [
            ("n", "n"),
            ("(n + 255) // 256", "i64::div_euclid(n + 255, 256)"),
            ("n * 4 * m", "n * 4 * m"),
            ("(n + 1) * (m - 2)", "(n + 1) * (m - 2)"),
            ("n - (m - 1)", "n - (m - 1)"),
            ("min(n // 2, m % 8) + 1", "i64::min(i64::div_euclid(n, 2), i64::rem_euclid(m, 8)) + 1"),
            ("max(n, (-3))", "i64::max(n, -3)"),
        ] {
            assert_eq!(translated(text).as_deref(), Ok(want));
        }
        assert_eq!(rust(&Dim::Const(7), &|n| n.to_string()).as_deref(), Ok("7"));
    }

    #[test]
    fn nonsense_is_an_error() {
        for text in ["", "n +", "(n", "n m", "min(n)", "n ? 2"] {
            assert!(translated(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_found() {
        let found = names(&Dim::Expr("min(n0, m) * 4 + k_1 // 2".into()));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["k_1", "m", "n0"]);
    }
}
