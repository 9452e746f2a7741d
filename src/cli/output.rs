//! Standard output for results, standard error for everything else. A closed pipe is no error;
//! results that cannot be written, on a full disk, end the program.

use crate::job::Exit;
use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};

/// Writes a line of results.
pub fn line(text: &str) {
    written(writeln!(io::stdout().lock(), "{}", plain(text)));
}

/// The text with control characters spelled out, as JSON spells them: names in logs and functions are other
/// people's, and a terminal would obey them.
fn plain(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(obeyed) {
        return text.into();
    }
    let spelled = |c: char| if obeyed(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    text.chars().map(spelled).collect::<String>().into()
}

/// Writes text of results as it is.
pub fn text(text: &str) {
    bytes(text.as_bytes());
}

/// Writes bytes of results as they are.
pub fn bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    written(out.write_all(bytes).and_then(|()| out.flush()));
}

fn written(result: io::Result<()>) {
    match result {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            note(&format!("daylight: cannot write the results to standard output: {e}"));
            std::process::exit(i32::from(Exit::Usage.code()));
        }
        Ok(()) | Err(_) => {}
    }
}

/// Writes a line for the person at the terminal.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", plain(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_nothing_to_obey() {
        assert_eq!(plain("a\tb\nc"), "a\tb\nc");
        assert_eq!(plain("\u{1b}[2Jx\r\u{9b}1m"), "\\u001b[2Jx\\u000d\\u009b1m");
    }
}
