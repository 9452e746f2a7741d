//! Errors of the reader, and the source they point into.

use std::fmt;

/// Why a text could not be read, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReadError {
    /// Name of the input, as the caller gave it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// One sentence: what is wrong and what was expected.
    pub message: String,
    /// The line of the source, shortened when it is very long.
    pub source_line: String,
    /// Where the caret stands under `source_line`, in characters from 0.
    pub caret: usize,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        writeln!(f, "    {}", self.source_line)?;
        write!(f, "    {:caret$}^", "", caret = self.caret)
    }
}

impl std::error::Error for ReadError {}

/// A part of the source, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    /// Line and column of its beginning, from 1; columns in characters.
    pub fn place(self, text: &str) -> (usize, usize) {
        let mut at = self.start.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let line_start = text[..at].rfind('\n').map_or(0, |k| k + 1);
        (text[..line_start].matches('\n').count() + 1, text[line_start..at].chars().count() + 1)
    }
}

/// A problem at a place of the source; it becomes a [`ReadError`] where the file is known.
#[derive(Debug)]
pub(super) struct Problem {
    pub at: Span,
    pub message: String,
}

/// Makes a problem.
pub(super) fn problem<T>(at: Span, message: impl Into<String>) -> Result<T, Problem> {
    Err(Problem { at, message: message.into() })
}

impl Problem {
    /// The error with file, line, column and the source line.
    pub fn locate(self, text: &str, file: &str) -> ReadError {
        let mut at = self.at.start.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let line_start = text[..at].rfind('\n').map_or(0, |k| k + 1);
        let line_end = text[at..].find('\n').map_or(text.len(), |k| at + k);
        let (line, column) = self.at.place(text);
        let before = column - 1;
        let (source_line, caret) = excerpt(text[line_start..line_end].trim_end(), before);
        ReadError { file: file.to_string(), line, column, message: self.message, source_line, caret }
    }
}

/// The part of a line around column `at` that fits a terminal, without control characters, and
/// where the column is in it.
fn excerpt(line: &str, at: usize) -> (String, usize) {
    const WIDTH: usize = 100;
    let start = if at < WIDTH { 0 } else { at - WIDTH / 2 };
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = line.chars().skip(start).take(WIDTH).map(clean).collect();
    let mut caret = at - start;
    if start > 0 {
        shown.insert_str(0, "...");
        caret += 3;
    }
    if line.chars().nth(start + WIDTH).is_some() {
        shown.push_str("...");
    }
    (shown, caret)
}
