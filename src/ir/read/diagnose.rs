//! Turns tree-sitter's error nodes into one sentence.

use super::error::{Problem, Span};
use tree_sitter::Node as Cst;

/// The first syntax error of a tree, if there is one.
pub(super) fn first_error(root: Cst, text: &str) -> Option<Problem> {
    let mut node = root;
    if !node.has_error() {
        return None;
    }
    // Down to the innermost node that holds the first error.
    loop {
        if node.is_error() || node.is_missing() {
            break;
        }
        let mut cursor = node.walk();
        match node.children(&mut cursor).find(|c| c.has_error() || c.is_missing()) {
            Some(c) => node = c,
            None => break,
        }
    }
    Some(describe(node, text))
}

/// The end of the line above, where that opens a block and its colon is missing.
fn colon_is_missing(at: usize, text: &str) -> Option<Problem> {
    let above = text.get(..at)?.trim_end();
    let line = above.rsplit('\n').next()?.trim_start();
    let opens = ["for ", "with ", "def ", "if ", "while ", "class "].iter().any(|word| line.starts_with(word));
    let closed = line.matches(['(', '[']).count() == line.matches([')', ']']).count();
    let end = above.len();
    (opens && closed && !line.ends_with([':', ','])).then(|| Problem {
        at: Span { start: end, end: end + 1 },
        message: "syntax error: `:` is missing at the end of this line".into(),
    })
}

fn describe(n: Cst, text: &str) -> Problem {
    if let Some(found) = colon_is_missing(offending(n).start, text) {
        return found;
    }
    if n.is_missing() {
        let at = Span { start: n.start_byte(), end: n.start_byte() + 1 };
        return Problem { at, message: format!("syntax error: expected {}", what(n.kind())) };
    }
    let at = offending(n);
    let found = text.get(at.start..at.end).unwrap_or("");
    let message = if found.trim().is_empty() || at.start >= text.trim_end().len() {
        format!("syntax error: the text ends here; expected {}", expected(n))
    } else {
        format!("syntax error at `{}`; expected {}", shorten(found), expected(n))
    };
    Problem { at, message }
}

/// The first token inside the error that the parser could not place: the one after everything that
/// it had recognised, or the first.
fn offending(n: Cst) -> Span {
    let mut cursor = n.walk();
    let child = n.children(&mut cursor).find(|c| c.is_error()).unwrap_or(n);
    Span { start: child.start_byte(), end: child.end_byte() }
}

/// What the parser would have accepted at the error.
fn expected(n: Cst) -> String {
    let language = n.language();
    let state = n.prev_sibling().map_or_else(|| n.parse_state(), |p| p.next_parse_state());
    let mut options: Vec<String> = vec![];
    if let Some(mut found) = language.lookahead_iterator(state) {
        options =
            found.iter_names().filter(|s| *s != "ERROR" && *s != "end" && !s.starts_with('_')).map(what).collect();
        let mut names = options.clone();
        names.sort();
        names.dedup();
        options = names;
    }
    match options.as_slice() {
        [] => "a Python statement of TVMScript".to_string(),
        [one] => one.clone(),
        [rest @ .., last] if options.len() <= 6 => format!("{} or {last}", rest.join(", ")),
        _ => "a valid Python expression or statement".to_string(),
    }
}

/// A grammar symbol in words.
fn what(symbol: &str) -> String {
    if symbol.starts_with(|c: char| c.is_ascii_lowercase()) && symbol.len() > 3 {
        format!("{} {}", article(symbol), symbol.replace('_', " "))
    } else {
        format!("`{symbol}`")
    }
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or("").trim();
    let short: String = line.chars().filter(|c| !c.is_control()).take(30).collect();
    if short.len() < line.len() { format!("{short}...") } else { short }
}
