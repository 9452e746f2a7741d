//! What a rule is asked about: a function, or some blocks of one, on a target.

use super::{Prepared, Rule, Space, Spaces};
use crate::analysis::{Decline, Facts};
use crate::ir::{Name, Reason, Stmt};
use crate::schedule::Schedule;
use crate::target::Target;

/// A function that a rule may take.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The rule.
    pub rule: &'static Rule,
    /// The schedule to go on from: every block that may be inlined is.
    pub start: &'a Schedule,
    /// The facts of its function.
    pub facts: &'a Facts,
    /// What it is scheduled for.
    pub target: &'a Target,
    /// The blocks to schedule, where these are not all.
    pub(super) own: Option<&'a [Name]>,
    /// The first rule that takes all of the function.
    pub(super) whole: Option<&'static str>,
    /// Only rules of last resort are asked: no other makes a kernel.
    pub(super) resort: bool,
    /// All knob tables.
    pub(super) spaces: &'a Spaces,
}

impl<'a> Ask<'a> {
    /// Asks about all of a function.
    pub fn of(rule: &'static Rule, input: &'a Prepared, target: &'a Target, spaces: &'a Spaces) -> Ask<'a> {
        Ask {
            rule,
            start: &input.start,
            facts: &input.start_facts,
            target,
            own: None,
            whole: None,
            resort: false,
            spaces,
        }
    }

    /// The rule's word against the function.
    pub fn no(&self, predicate: &'static str, text: impl Into<String>) -> Decline {
        Decline { by: self.rule.name, reason: Reason::new(predicate, text) }
    }

    /// True for a block that is the rule's to schedule.
    pub fn owns(&self, block: &Name) -> bool {
        self.own.is_none_or(|own| own.contains(block))
    }

    /// The blocks that are the rule's, in program order.
    pub fn blocks(&self) -> Vec<Name> {
        self.start.blocks().into_iter().filter(|b| self.owns(b)).collect()
    }

    /// The first of its blocks that has loops inside.
    pub(super) fn serial_block(&self) -> Option<Name> {
        let mut found = None;
        self.start.func().visit(&mut |s| {
            if let Stmt::Block(b) = s
                && b.is_serial()
                && self.owns(&b.name)
            {
                found.get_or_insert_with(|| b.name.clone());
            }
        });
        found
    }

    /// The rule's knobs on the target, without conditions.
    pub(super) fn space(&self) -> Space {
        self.spaces.space(self.rule.name, self.target)
    }
}
