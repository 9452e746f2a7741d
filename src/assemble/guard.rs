//! A bug of ours that shows while one function is worked on fails that function and no other.

use super::{Exit, Failure};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

thread_local! {
    /// Guards that this thread is inside of.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Where the last panic of this thread was.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Does the work on the function of that name; a panic is its failure, in one sentence.
///
/// # Errors
/// Those of the work; a panic, with the exit code of work that failed.
pub fn guarded<T>(name: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let done = caught(work);
    done.unwrap_or_else(|bug| {
        let text = format!("{name}: this is a bug of Daylight ({bug}); please report it with the function");
        Err(Failure::new(Exit::Failed, text))
    })
}

/// The result of the work, or what its panic said and where. Nothing is printed.
///
/// # Errors
/// The panic.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let other = panic::take_hook();
        panic::set_hook(Box::new(move |info| if DEPTH.get() > 0 { note(info) } else { other(info) }));
    });
    DEPTH.set(DEPTH.get() + 1);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    done.map_err(|panic| {
        let place = PLACE.take().map_or_else(String::new, |place| format!(" at {place}"));
        format!("{}{place}", message(&*panic))
    })
}

fn note(info: &PanicHookInfo<'_>) {
    PLACE.set(info.location().map(|l| format!("{}:{}", l.file(), l.line())));
}

/// What a panic said, in one line.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
    text.unwrap_or("a panic without a message").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_the_failure_of_one_function() {
        let nothing: Vec<i32> = vec![];
        let first = guarded("first", || if nothing.len() < 9 { panic!("{} of 9", nothing.len()) } else { Ok(0) });
        let first = first.expect_err("it panics");
        assert_eq!(first.exit, Exit::Failed);
        let start = "first: this is a bug of Daylight (0 of 9 at src/assemble/guard.rs:";
        assert!(
            first.message.starts_with(start) && first.message.ends_with("report it with the function"),
            "{first:?}"
        );
        assert_eq!(guarded("second", || Ok(2)), Ok(2));
        let refused = Failure::usage("no");
        assert_eq!(guarded::<i32>("third", || Err(refused.clone())), Err(refused));
    }
}
