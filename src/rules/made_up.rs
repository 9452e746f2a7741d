//! A rule that schedules nothing: for tests of what ranks and searches, here and above.

use super::{Accepted, Arm, Found, Knobs, Outline, Space};
use crate::ir;
use crate::schedule::{Schedule, ScheduleError};
use crate::target::Target;

/// A rule that schedules nothing, with its space.
pub fn made_up(space: Space, target: &Target) -> Arm {
    outlined(space, target, |_| None)
}

/// The same with outlines.
pub fn outlined(space: Space, target: &Target, outline: fn(&Knobs) -> Option<Outline>) -> Arm {
    let text = "@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\")):\n    T.evaluate(0)\n";
    let func = ir::read(text, "f.py").expect("a function").remove(0);
    Arm::new(space, Found::new(Schedule::new(func), Nothing(outline)), target)
}

struct Nothing(fn(&Knobs) -> Option<Outline>);

impl Accepted for Nothing {
    fn constrain(&self, space: Space, _: &Target) -> Space {
        space
    }

    fn schedule(&self, _: &mut Schedule, _: &Knobs) -> Result<(), ScheduleError> {
        Ok(())
    }

    fn outline(&self, knobs: &Knobs) -> Option<Outline> {
        (self.0)(knobs)
    }
}
