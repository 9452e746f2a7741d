//! What rules are asked about: a function that was accepted and normalized, or one piece of it.

use crate::analysis::{Decline, Facts, assign, normalize, refuse};
use crate::ir::{Name, PrimFunc};
use crate::rules::pieces::Cuts;
use crate::schedule::Schedule;

/// A function ready for rules: accepted, normalized, with its facts.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The normalized function, its reductions of one step as assignments; schedules and traces start from it.
    pub func: PrimFunc,
    /// The facts of the normalized function.
    pub facts: Facts,
    /// The schedule that a rule goes on from.
    start: Schedule,
    /// The blocks that a rule is asked for, where these are not all.
    blocks: Option<Vec<Name>>,
    /// The pieces that it was cut into.
    pub(in crate::rules) cuts: Cuts,
}

impl Prepared {
    /// Refuses or normalizes a function as read.
    ///
    /// # Errors
    /// The named predicate for which the function can't be scheduled.
    pub fn new(func: &PrimFunc) -> Result<Prepared, Decline> {
        refuse(func)?;
        let func = normalize(func)?;
        let facts = Facts::of(&func);
        let func = assign(&func);
        Ok(Prepared { start: inline_all(&func), func, facts, blocks: None, cuts: Cuts::default() })
    }

    /// The same function, of which a rule is to schedule `blocks` only, going on from `schedule`.
    pub(in crate::rules) fn piece(&self, schedule: &Schedule, blocks: &[Name]) -> Prepared {
        let (func, facts) = (self.func.clone(), self.facts.clone());
        Prepared { func, facts, start: schedule.clone(), blocks: Some(blocks.to_vec()), cuts: Cuts::default() }
    }

    /// The schedule that a rule goes on from: every block that may be inlined is.
    pub fn start(&self) -> Schedule {
        self.start.clone()
    }

    /// True for a block that is the rule's to schedule.
    pub fn owns(&self, block: &Name) -> bool {
        self.blocks.as_ref().is_none_or(|own| own.contains(block))
    }

    /// The blocks of a schedule that are the rule's, in program order.
    pub fn blocks(&self, s: &Schedule) -> Vec<Name> {
        s.blocks().into_iter().filter(|b| self.owns(b)).collect()
    }
}

/// Inlines every block that may be inlined, producers first.
fn inline_all(func: &PrimFunc) -> Schedule {
    let mut s = Schedule::new(func.clone());
    loop {
        let done = s.blocks().iter().any(|b| s.compute_inline(b).is_ok());
        if !done {
            return s;
        }
    }
}
