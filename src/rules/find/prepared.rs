//! What rules are asked about: a function that was accepted and normalized.

use crate::analysis::{
    Decline, Facts, assign, decide, extrema, fission, normalize, plain_views, refuse, serial, unnest, without_empty,
};
use crate::ir::PrimFunc;
use crate::schedule::Schedule;

/// A function ready for rules: accepted, normalized, with its facts.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The normalized function, its reductions of one step as assignments, those of truth values as extrema; schedules and traces start from it.
    pub func: PrimFunc,
    /// The facts of the normalized function.
    pub facts: Facts,
    /// The schedule that a rule goes on from: every block that may be inlined is.
    pub(crate) start: Schedule,
    /// The facts of its function.
    pub(crate) start_facts: Facts,
}

impl Prepared {
    /// Refuses or normalizes a function as read.
    ///
    /// # Errors
    /// The named predicate for which the function can't be scheduled.
    pub fn new(func: &PrimFunc) -> Result<Prepared, Decline> {
        let func = serial(&fission(&unnest(&plain_views(&without_empty(func)))));
        refuse(&func)?;
        let func = extrema(&normalize(&decide(&func))?);
        let facts = Facts::of(&func);
        let func = assign(&func);
        let start = inline_all(&func);
        Ok(Prepared { start_facts: Facts::of(start.func()), start, func, facts })
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
