//! A scan before parsing: sizes and nesting that no real function has are refused, because
//! recursive code over such trees would overflow the stack. Brackets that do not match are found
//! here too, since the parser would point at what follows them. So are runs of comments and
//! continued lines, which the parser's scanner reads again from each of their lines.

use super::error::{Problem, Span, problem};

/// Largest input in bytes.
const MAX_BYTES: usize = 8 << 20;
/// Deepest nesting of brackets, of indentation, and longest chain of unary operators.
pub(super) const MAX_NESTING: usize = 200;
/// Most bytes between code that the parser may read again, summed over the comments and continued
/// lines of a text: 7000 empty continued lines in a row, or 1200 lines of commented code.
const MAX_REREAD: usize = 50_000_000;
/// Size of the first beginning of a text that is worth parsing alone, in bytes.
const FIRST_HEAD: usize = 1 << 14;

/// Refuses what is too large or nested too deep. The scan knows strings and comments, so that
/// brackets inside them do not count. The answer: ends of ever longer beginnings of the text, each
/// whole statements, so that a syntax error in a beginning is one of the text.
pub(super) fn check(text: &str) -> Result<Vec<usize>, Problem> {
    if text.len() > MAX_BYTES {
        let message = format!("the input has {} bytes; the limit is {MAX_BYTES}", text.len());
        return problem(Span::default(), message);
    }
    let mut scan = Scan { text: text.as_bytes(), indents: vec![0], ..Scan::default() };
    scan.run()?;
    Ok(scan.heads)
}

#[derive(Default)]
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    /// Places of the brackets that are open.
    brackets: Vec<usize>,
    unary: usize,
    indents: Vec<usize>,
    /// End of the last code: what is no blank, comment or continuation.
    code_end: usize,
    /// What the parser reads again, see `MAX_REREAD`.
    reread: usize,
    heads: Vec<usize>,
    /// The last logical line: its indentation, and whether it is a decorator.
    last_line: (usize, bool),
}

impl Scan<'_> {
    fn run(&mut self) -> Result<(), Problem> {
        self.line_start()?;
        while let Some(&c) = self.text.get(self.at) {
            match c {
                b'#' => self.skip_comment()?,
                b'\\' if self.continues() => self.continuation()?,
                b'\n' => {
                    self.at += 1;
                    self.line_start()?;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                c => self.code(c)?,
            }
        }
        match self.brackets.last() {
            Some(open) => self.unmatched(*open, "is never closed"),
            None => Ok(()),
        }
    }

    fn code(&mut self, c: u8) -> Result<(), Problem> {
        match c {
            b'"' | b'\'' => self.skip_string(c),
            b'(' | b'[' | b'{' => self.open()?,
            b')' | b']' | b'}' => self.close(c)?,
            b'-' | b'+' | b'~' => self.operator()?,
            c if c.is_ascii_alphabetic() || c == b'_' => self.word()?,
            _ => {
                self.unary = 0;
                self.at += 1;
            }
        }
        self.code_end = self.at;
        Ok(())
    }

    fn unmatched(&self, at: usize, why: &str) -> Result<(), Problem> {
        let bracket = char::from(self.text[at]);
        problem(Span { start: at, end: at + 1 }, format!("syntax error: this `{bracket}` {why}"))
    }

    fn too_deep(&self, what: &str) -> Result<(), Problem> {
        problem(
            Span { start: self.at, end: self.at + 1 },
            format!("{what} is nested more than {MAX_NESTING} levels deep, which no schedulable function needs"),
        )
    }

    fn open(&mut self) -> Result<(), Problem> {
        self.brackets.push(self.at);
        if self.brackets.len() > MAX_NESTING {
            return self.too_deep("the expression");
        }
        self.unary = 0;
        self.at += 1;
        Ok(())
    }

    fn close(&mut self, bracket: u8) -> Result<(), Problem> {
        let opens = match bracket {
            b')' => b'(',
            b']' => b'[',
            _ => b'{',
        };
        match self.brackets.pop() {
            Some(open) if self.text[open] == opens => {}
            Some(open) => {
                let open = char::from(self.text[open]);
                return self.unmatched(self.at, &format!("cannot close `{open}`"));
            }
            None => return self.unmatched(self.at, "closes nothing"),
        }
        self.unary = 0;
        self.at += 1;
        Ok(())
    }

    fn operator(&mut self) -> Result<(), Problem> {
        self.unary += 1;
        if self.unary > MAX_NESTING {
            return self.too_deep("the expression");
        }
        self.at += 1;
        Ok(())
    }

    /// A name or keyword; `not`, `lambda` and `else` nest as unary operators do.
    fn word(&mut self) -> Result<(), Problem> {
        let start = self.at;
        while self.text.get(self.at).is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_') {
            self.at += 1;
        }
        if matches!(&self.text[start..self.at], b"not" | b"await") {
            self.unary += 1;
            if self.unary > MAX_NESTING {
                return self.too_deep("the expression");
            }
        } else {
            self.unary = 0;
        }
        Ok(())
    }

    fn skip_comment(&mut self) -> Result<(), Problem> {
        while self.text.get(self.at).is_some_and(|c| *c != b'\n') {
            self.at += 1;
        }
        self.count_reread()
    }

    /// True at a backslash that ends its line.
    fn continues(&self) -> bool {
        let rest = &self.text[self.at + 1..];
        rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
    }

    /// The next line goes on with this logical line: its indentation means nothing.
    fn continuation(&mut self) -> Result<(), Problem> {
        self.at += if self.text[self.at + 1] == b'\r' { 3 } else { 2 };
        self.count_reread()
    }

    fn count_reread(&mut self) -> Result<(), Problem> {
        self.reread += self.at.saturating_sub(self.code_end);
        if self.reread <= MAX_REREAD {
            return Ok(());
        }
        let message = "too many comments and continued lines follow one another without code between them; remove some";
        problem(Span { start: self.at - 1, end: self.at }, message)
    }

    fn skip_string(&mut self, quote: u8) {
        let triple = self.text[self.at..].starts_with(&[quote; 3]);
        self.at += if triple { 3 } else { 1 };
        self.unary = 0;
        while let Some(&c) = self.text.get(self.at) {
            match c {
                b'\\' => self.at += 2,
                b'\n' if !triple => return,
                c if c == quote && !triple => {
                    self.at += 1;
                    return;
                }
                c if c == quote && self.text[self.at..].starts_with(&[quote; 3]) => {
                    self.at += 3;
                    return;
                }
                _ => self.at += 1,
            }
        }
    }

    /// Counts levels of indentation at the start of a logical line.
    fn line_start(&mut self) -> Result<(), Problem> {
        let (line, mut width) = (self.at, 0);
        while let Some(c @ (b' ' | b'\t')) = self.text.get(self.at) {
            width += if *c == b'\t' { 8 - width % 8 } else { 1 };
            self.at += 1;
        }
        let blank = matches!(self.text.get(self.at), None | Some(b'\n' | b'\r' | b'#'));
        if blank || !self.brackets.is_empty() {
            return Ok(());
        }
        self.unary = 0;
        self.head(line, width);
        while self.indents.last().is_some_and(|last| *last > width) {
            self.indents.pop();
        }
        if self.indents.last().is_none_or(|last| *last < width) {
            self.indents.push(width);
        }
        if self.indents.len() > MAX_NESTING {
            return self.too_deep("the statement");
        }
        Ok(())
    }
}

impl Scan<'_> {
    /// Notes that a beginning may end before the line that starts at `line`, of indentation `width`:
    /// no header or decorator is left without what belongs to it, no statement without its clauses.
    fn head(&mut self, line: usize, width: usize) {
        let rest = &self.text[self.at..];
        let (last_width, decorator) = std::mem::replace(&mut self.last_line, (width, rest.starts_with(b"@")));
        let wanted = self.heads.last().map_or(FIRST_HEAD, |h| 2 * h);
        let clauses: [&[u8]; 4] = [b"el", b"except", b"finally", b"case"];
        let inside = width > last_width || decorator || clauses.iter().any(|c| rest.starts_with(c));
        if line >= wanted && !inside {
            self.heads.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_brackets_indents_and_chains_are_refused() {
        let deep = |open: &str, n: usize| open.repeat(n);
        for text in [deep("(", 201), deep("[", 1000), deep("-", 201), deep("not ", 201), deep("~ ", 100_000)] {
            assert!(check(&text).is_err());
        }
        let stairs: String = (0..300).map(|k| format!("{}if x:\n", " ".repeat(k))).collect();
        assert!(check(&stairs).is_err());
    }

    #[test]
    fn brackets_that_do_not_match_are_named() {
        for (text, at, message) in
            [("f(a[1)", 5, "cannot close `[`"), ("x)", 1, "closes nothing"), ("f(\"(\"", 1, "is never closed")]
        {
            let p = check(text).expect_err(text);
            assert_eq!(p.at.start, at);
            assert!(p.message.contains(message), "{}", p.message);
        }
    }

    #[test]
    fn ordinary_depth_and_brackets_in_strings_pass() {
        assert!(check(&format!("{}{}", "(".repeat(200), ")".repeat(200))).is_ok());
        assert!(check(&format!("x = \"{}\"\n# {}", "(".repeat(500), "[".repeat(500))).is_ok());
        assert!(check(&"x = (1)\n".repeat(1000)).is_ok());
    }
}
