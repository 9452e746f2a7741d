//! Standard output for results, standard error for everything else. A closed pipe is no error;
//! results that cannot be written, on a full disk, end the program.

use crate::job::Exit;
use std::io::{self, ErrorKind, Write};

/// Writes a line of results.
pub fn line(text: &str) {
    written(writeln!(io::stdout().lock(), "{text}"));
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
    let _ = writeln!(io::stderr().lock(), "{text}");
}
