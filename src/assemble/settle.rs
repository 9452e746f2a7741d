//! The untuned choice, where there is a compiler: among the points that measured candidates promise most of, by what their
//! kernels take. How many registers that is, only the compiler tells.

use super::{Schedulable, caught};
use crate::backend::{Compiler, Resources, Source};
use crate::rules::prior::learned::features::Compiled;
use crate::rules::{Arm, Knobs};

/// What the kernels of a candidate take, as its judges want to know it; `None` of those that spill registers, which are no choice,
/// and of C, which has none.
pub fn compiled(res: Resources) -> Option<Compiled> {
    let is_choice = res.spill == 0 && res.regs > 0;
    is_choice.then_some(Compiled { registers: res.regs, shared_bytes: res.smem })
}

impl Schedulable {
    /// Compiles the choices of a rule and lets one of them be its default ([`Arm::settle`]). What does not compile is no choice.
    pub fn settle(&self, arm: &Arm, compiler: &dyn Compiler) {
        arm.settle(|some| {
            let made: Vec<Option<Source>> = some.iter().map(|knobs| self.text(arm, knobs)).collect();
            let texts: Vec<Source> = made.iter().flatten().cloned().collect();
            // As many results as texts, in their order.
            let mut results = compiler.compile_many(&texts).into_iter();
            let mut taken = |made: &Option<Source>| compiled(made.as_ref().and_then(|_| results.next())?.ok()?.res);
            made.iter().map(&mut taken).collect()
        });
    }

    fn text(&self, arm: &Arm, knobs: &Knobs) -> Option<Source> {
        Some(caught(|| self.candidate(arm, knobs)).ok()?.ok()?.source)
    }
}
