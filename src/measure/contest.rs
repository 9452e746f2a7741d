//! Several contenders for one function under one clock: each checked, those that are right timed turn by turn.

use crate::log::stats::median;
use crate::runner::{Candidate, Errors, RunError, RunFailure, Runner, Timing};

/// Fewest and most turns.
const TURNS: (usize, usize) = (5, 60);
/// A sample lasts about this long, however short the kernel.
const SAMPLE_NS: f64 = 2.2e6;

/// Nanoseconds that one turn of these takes, by the median times of their runs.
pub fn turn_ns(medians_ns: impl IntoIterator<Item = f64>) -> f64 {
    medians_ns.into_iter().map(|ns| ns.max(SAMPLE_NS)).sum()
}

/// Turns of so many nanoseconds that fit into some seconds, five at least and sixty at most.
pub fn turns_within(seconds: f64, turn_ns: f64) -> usize {
    ((seconds * 1e9 / turn_ns.max(1.0)) as usize).clamp(TURNS.0, TURNS.1)
}

/// What one contender gave: how right it is, and its samples, of which the n-th is of the n-th turn.
pub type Entry = Result<(Errors, Timing), RunError>;

/// Checks each contender, times each alone to know how long a turn is, and then times those that are right turn by turn for
/// about so many seconds. What is wrong, or fails, has no time and takes no turn. One entry for each.
pub fn contest(runner: &mut dyn Runner, contenders: &[Candidate], seconds: f64) -> Vec<Entry> {
    let alone: Vec<Result<(Errors, f64), RunError>> = contenders.iter().map(|c| checked(runner, c)).collect();
    let turns = turns_within(seconds, turn_ns(alone.iter().flatten().map(|(_, ns)| *ns)));
    let right = contenders.iter().zip(&alone).filter(|(_, a)| a.is_ok()).map(|(c, _)| c.clone());
    let right: Vec<Candidate> = right.collect();
    let mut timings = runner.time_interleaved(&right, turns).into_iter();
    let lost = || Err(RunError::new(RunFailure::Crashed, "its time is missing"));
    let mut timed = |errors| timings.next().unwrap_or_else(lost).map(|timing| (errors, timing));
    alone.into_iter().map(|a| a.and_then(|(errors, _)| timed(errors))).collect()
}

/// The fastest of some candidates that are alike, each timed alone, with its position. The list ends where a candidate is a
/// bad request: it was not there.
///
/// # Errors
/// Why the first one failed, where none is right.
pub fn fastest(
    runner: &mut dyn Runner,
    candidates: impl Iterator<Item = Candidate>,
) -> Result<(usize, Candidate), RunError> {
    let mut best: Option<(f64, usize, Candidate)> = None;
    let mut failed = None;
    for (i, candidate) in candidates.enumerate() {
        match checked(runner, &candidate) {
            Ok((_, ns)) if best.as_ref().is_none_or(|(least, ..)| ns < *least) => best = Some((ns, i, candidate)),
            Ok(_) => {}
            Err(e) if matches!(e.failure, RunFailure::BadRequest | RunFailure::DeviceMissing) => {
                failed.get_or_insert(e);
                break;
            }
            Err(e) => drop(failed.get_or_insert(e)),
        }
    }
    let none = || failed.unwrap_or_else(|| RunError::new(RunFailure::BadRequest, "there is no candidate"));
    best.map(|(_, i, candidate)| (i, candidate)).ok_or_else(none)
}

/// Runs a candidate once for its result and several times for its median in nanoseconds.
fn checked(runner: &mut dyn Runner, candidate: &Candidate) -> Result<(Errors, f64), RunError> {
    let errors = runner.execute(candidate)?;
    let timing = runner.time(candidate, None)?;
    Ok((errors, median(&timing.samples_ns).unwrap_or(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Plan;
    use crate::runner::fake::FakeRunner;
    use std::path::Path;

    /// Candidates whose files hold their times, or what is wrong with them.
    fn candidates(folder: &Path, texts: &[&str]) -> Vec<Candidate> {
        let one = |(i, text): (usize, &&str)| {
            let file = folder.join(i.to_string());
            std::fs::write(&file, text).expect("write");
            Candidate { id: i as u64, file, plan: Plan::default() }
        };
        texts.iter().enumerate().map(one).collect()
    }

    fn runner() -> FakeRunner {
        FakeRunner::new(|text| match text {
            "wrong" => Err(RunError::new(RunFailure::WrongResult, "`B` is wrong")),
            "absent" => Err(RunError::new(RunFailure::BadRequest, "no such algorithm")),
            "missing" => Err(RunError::new(RunFailure::DeviceMissing, "no library")),
            ns => ns.parse().map_err(|_| RunError::new(RunFailure::Crashed, "no time")),
        })
    }

    #[test]
    fn what_is_wrong_has_no_time_and_the_others_have_theirs() {
        let folder = tempfile::tempdir().expect("a folder");
        let all = candidates(folder.path(), &["5e6", "wrong", "1e6", "missing"]);
        let entries = contest(&mut runner(), &all, 0.1);
        let samples = |i: usize| entries[i].as_ref().map(|(_, t)| t.samples_ns.clone()).map_err(|e| e.failure);
        // 5 ms and the 2.2 ms of a sample make a turn.
        assert_eq!((samples(0), samples(2)), (Ok(vec![5e6; 13]), Ok(vec![1e6; 13])));
        assert_eq!((samples(1), samples(3)), (Err(RunFailure::WrongResult), Err(RunFailure::DeviceMissing)));
        assert!(contest(&mut runner(), &[], 0.1).is_empty());
    }

    #[test]
    fn the_fastest_is_taken_and_the_list_ends_where_it_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let take = |texts: &[&str]| {
            let found = fastest(&mut runner(), candidates(folder.path(), texts).into_iter());
            found.map(|(i, c)| (i, c.id)).map_err(|e| e.failure)
        };
        assert_eq!(take(&["9", "wrong", "7", "8", "absent", "1"]), Ok((2, 2)));
        assert_eq!(take(&["wrong", "absent"]), Err(RunFailure::WrongResult));
        assert_eq!(take(&["missing", "1"]), Err(RunFailure::DeviceMissing));
        assert_eq!(take(&[]), Err(RunFailure::BadRequest));
    }

    #[test]
    fn turns_fit_the_time() {
        assert_eq!((turns_within(0.6, 1e9), turns_within(0.6, 2e7), turns_within(0.6, 0.0)), (5, 30, 60));
        assert_eq!(turn_ns([1e3, 5e6]), 7.2e6);
    }
}
