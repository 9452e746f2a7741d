//! Ctrl-C: the first one asks the work to end and keep what it has, the second one kills.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// The flag that the first Ctrl-C sets; installs the handler.
pub fn flag() -> &'static AtomicBool {
    #[cfg(unix)]
    unix::install();
    &ASKED
}

#[cfg(unix)]
mod unix {
    use super::{ASKED, Ordering};
    use std::ffi::c_int;

    const SIGINT: c_int = 2;
    const DEFAULT: usize = 0;

    unsafe extern "C" {
        /// C's `signal`: the handler is a function's address, or 0 for the default action.
        fn signal(number: c_int, handler: usize) -> usize;
    }

    /// Only touches an atomic and `signal`, both of which a handler may do.
    extern "C" fn on_interrupt(_: c_int) {
        ASKED.store(true, Ordering::Relaxed);
        // SAFETY: `signal` may be called from a handler.
        unsafe { signal(SIGINT, DEFAULT) };
    }

    pub fn install() {
        let handler: extern "C" fn(c_int) = on_interrupt;
        // SAFETY: the handler has C's calling convention and lives as long as the program.
        unsafe { signal(SIGINT, handler as usize) };
    }
}
