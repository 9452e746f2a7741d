//! Runs the Python parser.

use super::diagnose::first_error;
use super::error::{Problem, Span, problem};
use std::ops::ControlFlow;
use tree_sitter::{ParseOptions, ParseState, Parser, Tree};

/// The tree of a text without syntax errors. `heads` are ends of beginnings that are whole statements.
/// They are parsed first: the parser does not always say that it recovers from errors, which takes
/// long if a large text has many.
pub(super) fn tree_of(text: &str, heads: &[usize]) -> Result<Tree, Problem> {
    let mut parser = Parser::new();
    if let Err(e) = parser.set_language(&tree_sitter_python::LANGUAGE.into()) {
        return problem(Span::default(), format!("the Python grammar does not fit the parser: {e}"));
    }
    for end in heads {
        tree_to_first_error(&mut parser, &text[..*end])?;
    }
    tree_to_first_error(&mut parser, text)
}

/// The parser is stopped where it says that it met an error: what it would do to recover is of no
/// use here and can take minutes on a large hostile text.
fn tree_to_first_error(parser: &mut Parser, text: &str) -> Result<Tree, Problem> {
    parser.reset();
    let mut error_at = None;
    let mut stop_at_error = |state: &ParseState| {
        if state.has_error() {
            error_at = Some(state.current_byte_offset());
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let options = ParseOptions::new().progress_callback(&mut stop_at_error);
    let bytes = text.as_bytes();
    let tree = parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options));
    match tree.as_ref().map(|t| first_error(t.root_node(), text)) {
        Some(Some(found)) => return Err(found),
        Some(None) => return tree.map_or_else(|| problem(Span::default(), "the Python parser gave up"), Ok),
        None => {}
    }
    parser.reset();
    let at = error_at.unwrap_or(0);
    let head = &text[..end_of_line(text, at)];
    let found = parser.parse(head, None).and_then(|t| first_error(t.root_node(), head));
    Err(found.unwrap_or(Problem { at: Span { start: at, end: at + 1 }, message: "syntax error".to_string() }))
}

/// The end of the line that holds byte `at`, not much further on.
fn end_of_line(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    let far = (at + 1000).min(text.len());
    let line = text.as_bytes()[at..far].iter().position(|b| *b == b'\n').map_or(far, |k| at + k);
    (line..=text.len()).find(|k| text.is_char_boundary(*k)).unwrap_or(text.len())
}
