//! What happens to the device while samples are taken. A batch that was disturbed is taken again; one
//! that stays disturbed is kept, with the state beside it.

use crate::runner::DeviceState;
use crate::runner::device::Outcome;

/// Times that a disturbed batch is taken again.
const MOST_REPEATS: u32 = 2;
/// A clock that falls by more than this share disturbs.
const CLOCK_FALL: f64 = 0.05;

/// True when something slowed the device between two readings: a reason to throttle appeared, the
/// clock of the multiprocessors fell, another process came.
pub fn disturbed(before: &DeviceState, after: &DeviceState) -> bool {
    let appeared = after.throttle.iter().any(|reason| !before.throttle.contains(reason));
    let fell = f64::from(after.sm_mhz) < (1.0 - CLOCK_FALL) * f64::from(before.sm_mhz);
    appeared || fell || after.processes > before.processes
}

/// Remembers how the device was when it was last looked at.
#[derive(Default)]
pub struct Watch {
    last: Option<DeviceState>,
}

impl Watch {
    /// Forgets the last state, before a long pause.
    pub fn forget(&mut self) {
        self.last = None;
    }

    /// Takes a batch, again while the device was disturbed meanwhile. `state` reads the device, once
    /// before the first batch and once after each, as reading costs time; where it gives nothing the
    /// batch stands. A batch that is `beside_the_point` is not looked after at all.
    ///
    /// # Errors
    /// The first error of `batch`.
    pub fn steady<T>(
        &mut self,
        state: &mut dyn FnMut() -> Option<DeviceState>,
        batch: &mut dyn FnMut() -> Outcome<T>,
        beside_the_point: fn(&T) -> bool,
    ) -> Outcome<(T, Option<DeviceState>)> {
        if self.last.is_none() {
            self.last = state();
        }
        let mut repeats = 0;
        loop {
            let taken = batch()?;
            if beside_the_point(&taken) {
                return Ok((taken, None));
            }
            let now = state();
            let before = std::mem::replace(&mut self.last, now.clone());
            let was_disturbed = before.zip(now.as_ref()).is_some_and(|(before, now)| disturbed(&before, now));
            if !was_disturbed || repeats == MOST_REPEATS {
                return Ok((taken, now.map(|now| DeviceState { repeats, ..now })));
            }
            repeats += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::{RunError, RunFailure};

    fn state(sm_mhz: u32, throttle: &[&str], processes: u32) -> DeviceState {
        let throttle = throttle.iter().map(|t| t.to_string()).collect();
        DeviceState { sm_mhz, mem_mhz: 3201, temperature_c: 40, throttle, processes, repeats: 0 }
    }

    #[test]
    fn what_slows_disturbs_and_what_stays_does_not() {
        let quiet = state(1980, &[], 0);
        assert!(!disturbed(&quiet, &quiet));
        assert!(!disturbed(&quiet, &state(1900, &[], 0)), "4 % are within the steps of the clock");
        assert!(disturbed(&quiet, &state(1860, &[], 0)));
        assert!(disturbed(&quiet, &state(1980, &["hw_thermal"], 0)));
        assert!(disturbed(&quiet, &state(1980, &[], 1)));
        let capped = state(1500, &["sw_power_cap"], 2);
        assert!(!disturbed(&capped, &capped), "a state that lasts is the machine's");
        assert!(!disturbed(&capped, &quiet), "what goes away slows nothing");
        assert!(disturbed(&capped, &state(1500, &["sw_power_cap", "sw_thermal"], 2)));
    }

    /// Runs batches 1, 2, ... against states; gives the batch that stood, its state, and how many
    /// states were read.
    fn run(watch: &mut Watch, states: &[DeviceState]) -> (u32, Option<DeviceState>, usize) {
        let (mut batches, mut reads) = (0, 0);
        let mut read = || {
            reads += 1;
            states.get(reads - 1).cloned()
        };
        let mut batch = || {
            batches += 1;
            Ok(batches)
        };
        let (taken, state) = watch.steady(&mut read, &mut batch, |_| false).unwrap();
        (taken, state, reads)
    }

    #[test]
    fn a_disturbed_batch_is_repeated_twice_at_most() {
        let (quiet, slow) = (state(1980, &[], 0), state(1500, &["hw_slowdown"], 0));
        let mut watch = Watch::default();
        assert_eq!(run(&mut watch, &[quiet.clone(), quiet.clone()]), (1, Some(quiet.clone()), 2));
        // The state after one batch is the state before the next.
        let repeated = DeviceState { repeats: 1, ..slow.clone() };
        assert_eq!(run(&mut watch, &[slow.clone(), slow.clone()]), (2, Some(repeated), 2));
        watch.forget();
        let worse = |mhz| state(mhz, &[], 0);
        let (taken, kept, reads) = run(&mut watch, &[worse(1980), worse(1800), worse(1600), worse(1400)]);
        assert_eq!((taken, kept.map(|s| (s.sm_mhz, s.repeats)), reads), (3, Some((1400, 2)), 4));
    }

    #[test]
    fn nothing_known_nothing_repeated_and_errors_pass() {
        let mut watch = Watch::default();
        assert_eq!(run(&mut watch, &[]), (1, None, 2));
        let mut reads = 0;
        let mut read = || {
            reads += 1;
            Some(state(1980, &[], reads))
        };
        assert_eq!(watch.steady(&mut read, &mut || Ok(1), |_| true).unwrap(), (1, None));
        assert_eq!(reads, 1, "a dropped candidate is not looked after");
        let mut fail = || Err::<u32, _>(RunError::new(RunFailure::LaunchFailed, "no"));
        assert!(watch.steady(&mut || None, &mut fail, |_| false).is_err());
    }
}
