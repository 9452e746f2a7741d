//! Rules that are asked for a function, and rules that are made up.

use daylight::analysis::Decline;
use daylight::ir;
use daylight::rules::{Accepted, Arm, Found, Knobs, Outline, Prepared, Space, Spaces, verdicts};
use daylight::schedule::{Schedule, ScheduleError};
use daylight::target::Target;

/// What a rule says of a function.
pub fn ask(rule: &str, input: &Prepared, target: &Target) -> Result<Arm, Decline> {
    let all = verdicts(input, target, &Spaces::built_in());
    all.into_iter().find(|v| v.rule == rule).unwrap_or_else(|| panic!("no rule `{rule}`")).arm
}

/// A rule that takes the function.
pub fn arm(rule: &str, input: &Prepared, target: &Target) -> Arm {
    ask(rule, input, target).unwrap_or_else(|d| panic!("{d}"))
}

/// A rule that schedules nothing, with its space.
pub fn made_up(space: Space, target: &Target) -> Arm {
    let text = "@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\")):\n    T.evaluate(0)\n";
    let func = ir::read(text, "f.py").unwrap_or_else(|e| panic!("{e}")).remove(0);
    Arm::new(space, Found::new(Schedule::new(func), Nothing), target)
}

struct Nothing;

impl Accepted for Nothing {
    fn constrain(&self, space: Space, _: &Target) -> Space {
        space
    }

    fn schedule(&self, _: &mut Schedule, _: &Knobs) -> Result<(), ScheduleError> {
        Ok(())
    }

    fn outline(&self, _: &Knobs) -> Option<Outline> {
        None
    }
}
