//! Standard output for results, standard error for everything else. A closed pipe is no error.

use std::io::Write;

/// Writes a line of results.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Writes text of results as it is.
pub fn text(text: &str) {
    bytes(text.as_bytes());
}

/// Writes bytes of results as they are.
pub fn bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Writes a line for the person at the terminal.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
