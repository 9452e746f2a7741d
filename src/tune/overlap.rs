//! What the devices did with their time: how long they worked and what they waited for, from the moment
//! the first candidate reached them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

/// What a device without work waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Cause {
    /// The search, and the log: nothing compiles.
    Search,
    /// Building and compiling.
    Compile,
}

impl Cause {
    fn name(self) -> &'static str {
        match self {
            Cause::Search => "search",
            Cause::Compile => "compiling",
        }
    }
}

/// Seconds of all devices together while candidates were tried.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Overlap {
    /// Checking and timing candidates.
    pub busy_s: f64,
    /// Waiting, by what for: `compiling` or `search`.
    pub waited_s: BTreeMap<&'static str, f64>,
    /// Building and compiling, all threads together.
    pub compile_s: f64,
}

impl Overlap {
    /// Share of the time after the first candidate in which the devices worked; `None` if they never did.
    pub fn busy_share(&self) -> Option<f64> {
        let all = self.busy_s + self.waited_s.values().sum::<f64>();
        (all > 0.0).then(|| self.busy_s / all)
    }
}

/// The accounts that the measuring threads keep.
#[derive(Default)]
pub(super) struct Waits {
    /// The cause of a wait that begins now: 0 search, 1 compiling.
    now: AtomicU8,
    overlap: Mutex<Overlap>,
}

impl Waits {
    /// Says what a device that runs out of work waits for from now on.
    pub fn set(&self, cause: Cause) {
        self.now.store(u8::from(cause == Cause::Compile), Ordering::Relaxed);
    }

    /// What a wait that begins now is for.
    pub fn cause(&self) -> Cause {
        if self.now.load(Ordering::Relaxed) == 1 { Cause::Compile } else { Cause::Search }
    }

    /// Adds a wait and the work after it, in seconds.
    pub fn add(&self, cause: Cause, waited: f64, busy: f64) {
        let mut overlap = self.overlap.lock().expect("no thread panics while it holds the accounts");
        overlap.busy_s += busy;
        *overlap.waited_s.entry(cause.name()).or_default() += waited;
    }

    /// Adds the seconds that a thread took to build and compile a point.
    pub fn add_compile(&self, seconds: f64) {
        self.overlap.lock().expect("no thread panics while it holds the accounts").compile_s += seconds;
    }

    /// The accounts so far.
    pub fn overlap(&self) -> Overlap {
        self.overlap.lock().expect("no thread panics while it holds the accounts").clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_time() {
        let waits = Waits::default();
        assert_eq!(waits.overlap().busy_share(), None);
        waits.add(waits.cause(), 0.0, 3.0);
        waits.set(Cause::Compile);
        waits.add(waits.cause(), 1.0, 4.0);
        let overlap = waits.overlap();
        assert_eq!(overlap.busy_share(), Some(0.875));
        assert_eq!(overlap.waited_s["compiling"], 1.0);
    }
}
