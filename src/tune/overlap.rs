//! What the devices did with their time: how long they worked and what they waited for, from the moment
//! the first candidate reached them.

use std::collections::BTreeMap;
use std::sync::Mutex;

/// What a device without work waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    course: Mutex<Course>,
    overlap: Mutex<Overlap>,
}

/// What a device without work would have waited for, over time.
#[derive(Default)]
struct Course {
    /// True while the cause is compiling, false while it is the search.
    compiling: bool,
    /// When that began.
    since: f64,
    /// Seconds before that.
    before: Spent,
}

/// Seconds that went by while a device without work would have waited for each cause.
#[derive(Clone, Copy, Default)]
pub(super) struct Spent {
    search: f64,
    compiling: f64,
}

impl Course {
    fn spent(&self, now: f64) -> Spent {
        let more = (now - self.since).max(0.0);
        let Spent { search, compiling } = self.before;
        match self.compiling {
            true => Spent { search, compiling: compiling + more },
            false => Spent { search: search + more, compiling },
        }
    }
}

impl Waits {
    /// Says what a device without work waits for from now on.
    pub fn set(&self, cause: Cause, now: &dyn Fn() -> f64) {
        let mut course = self.course.lock().expect("no thread panics while it holds the accounts");
        let compiling = cause == Cause::Compile;
        if compiling != course.compiling {
            let now = now();
            *course = Course { compiling, since: now, before: course.spent(now) };
        }
    }

    /// The state of the accounts now, for [`Waits::add`].
    pub fn spent(&self, now: f64) -> Spent {
        self.course.lock().expect("no thread panics while it holds the accounts").spent(now)
    }

    /// Adds a wait between two states, and the seconds of work after it. A wait that began while the search
    /// thought and went on while its points were compiled is divided.
    pub fn add(&self, from: Spent, to: Spent, busy: f64) {
        let mut overlap = self.overlap.lock().expect("no thread panics while it holds the accounts");
        overlap.busy_s += busy;
        let waits = [(Cause::Search, to.search - from.search), (Cause::Compile, to.compiling - from.compiling)];
        for (cause, seconds) in waits {
            *overlap.waited_s.entry(cause.name()).or_default() += seconds.max(0.0);
        }
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
        waits.add(Spent::default(), Spent::default(), 3.0);
        let free = waits.spent(3.0);
        waits.set(Cause::Compile, &|| 3.25);
        waits.set(Cause::Compile, &|| 3.5);
        waits.add(free, waits.spent(4.0), 4.0);
        let overlap = waits.overlap();
        assert_eq!(overlap.busy_share(), Some(0.875));
        assert_eq!((overlap.waited_s["compiling"], overlap.waited_s["search"]), (0.75, 0.25));
    }
}
