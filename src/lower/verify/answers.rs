//! Registers of what a block was told of others that have not started, and shared memory of whether it is the last to arrive: the
//! same in all threads of the block, since nothing but answers, and what all threads share, is put in.

use super::Check;
use crate::ir::Name;
use crate::ir::instr::{Access, Instr, Op};
use crate::ir::kernel::{KStmt, Kernel};
use crate::lower::LowerError;
use crate::lower::fact::warps::Rank;
use std::collections::BTreeSet;

/// The arrays of a kernel's answers.
pub(super) fn of(k: &Kernel) -> BTreeSet<Name> {
    let mut found = BTreeSet::new();
    for s in &k.body {
        s.visit(&mut |s| {
            if let KStmt::Instr(Instr { op: Op::QueryCancel | Op::LastBlock { .. }, places, .. }) = s {
                found.extend(places.first().map(|at| at.array.clone()));
            }
        });
    }
    found
}

impl Check<'_> {
    /// Over what a value of an array may differ.
    pub(super) fn rank_of_element(&self, array: &Name) -> Rank {
        if self.answers.contains(array) { Rank::Block } else { Rank::Thread }
    }

    /// That what is put into an array, and differs over that, may be.
    pub(super) fn put(&self, array: &Name, rank: Rank) -> Result<(), LowerError> {
        match self.answers.contains(array) && rank > Rank::Block {
            true => self.error(array, "an array of answers receives what threads of the block do not share"),
            false => Ok(()),
        }
    }

    /// The same of what an instruction writes.
    pub(super) fn written(&self, i: &Instr) -> Result<(), LowerError> {
        let tells = matches!(i.op, Op::QueryCancel | Op::LastBlock { .. });
        let rank = if tells { Rank::Block } else { Rank::Thread };
        let mut result = Ok(());
        i.for_each_place(|at, access, _| {
            if access == Access::Write && result.is_ok() {
                result = self.put(&at.array, rank);
            }
        });
        result
    }
}
