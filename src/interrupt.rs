//! Ctrl-C and SIGTERM: the first one asks the work to end and keep what it has, the second one kills.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);
static TERMINATED: AtomicBool = AtomicBool::new(false);

/// True where it was SIGTERM that asked.
pub fn by_sigterm() -> bool {
    TERMINATED.load(Ordering::Relaxed)
}

/// The flag that the first Ctrl-C or SIGTERM sets; installs the handler.
pub fn flag() -> &'static AtomicBool {
    #[cfg(unix)]
    unix::install();
    &ASKED
}

#[cfg(unix)]
mod unix {
    use super::{ASKED, Ordering, TERMINATED};
    use std::ffi::c_int;

    const SIGINT: c_int = 2;
    const SIGTERM: c_int = 15;
    const DEFAULT: usize = 0;

    unsafe extern "C" {
        /// C's `signal`: the handler is a function's address, or 0 for the default action.
        fn signal(number: c_int, handler: usize) -> usize;
    }

    /// Only touches an atomic and `signal`, both of which a handler may do.
    extern "C" fn on_interrupt(number: c_int) {
        ASKED.store(true, Ordering::Relaxed);
        TERMINATED.store(number == SIGTERM, Ordering::Relaxed);
        // SAFETY: `signal` may be called from a handler.
        unsafe { signal(number, DEFAULT) };
    }

    pub fn install() {
        let handler: extern "C" fn(c_int) = on_interrupt;
        for number in [SIGINT, SIGTERM] {
            // SAFETY: the handler has C's calling convention and lives as long as the program.
            unsafe { signal(number, handler as usize) };
        }
    }
}
