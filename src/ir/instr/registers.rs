//! Registers that the warpgroups of a block share out again (`setmaxnreg`).

/// Registers of a multiprocessor.
const ALL: i64 = 65_536;
/// Threads of a warpgroup, and the step in which registers are dealt.
const WARPGROUP: i64 = 128;
const STEP: i64 = 8;

/// What a thread of a further warpgroup keeps where it copies, by the warpgroups that compute. A single one has enough without.
const COPYING: [(i64, i64); 3] = [(2, 24), (3, 32), (4, 24)];
/// The same where one of its threads issues products.
const ISSUING: [(i64, i64); 1] = [(2, 40)];

/// Registers of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dealt {
    /// Of the further warpgroup.
    pub kept: u32,
    /// Of those that compute.
    pub taken: u32,
}

impl Dealt {
    /// Where so many warpgroups compute and a further one copies.
    pub fn beside_copies(groups: i64) -> Option<Dealt> {
        Dealt::of(groups, &COPYING)
    }

    /// Where it issues products too.
    pub fn beside_products(groups: i64) -> Option<Dealt> {
        Dealt::of(groups, &ISSUING)
    }

    /// All that a block of so many threads is launched with, where it has a multiprocessor to itself: more would be waited
    /// for for ever.
    fn of(groups: i64, kept: &[(i64, i64)]) -> Option<Dealt> {
        let (_, kept) = *kept.iter().find(|(n, _)| *n == groups)?;
        let launched = ALL / ((groups + 1) * WARPGROUP) / STEP * STEP * (groups + 1);
        let taken = (launched - kept) / groups / STEP * STEP;
        Some(Dealt { kept: kept as u32, taken: taken as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_those_that_a_block_is_launched_with() {
        let copies = [2, 3, 4].map(|n| Dealt::beside_copies(n).map(|d| [d.kept, d.taken]));
        assert_eq!(copies, [Some([24, 240]), Some([32, 160]), Some([24, 112])]);
        assert_eq!(Dealt::beside_products(2), Some(Dealt { kept: 40, taken: 232 }));
        assert_eq!([Dealt::beside_copies(1), Dealt::beside_products(1)], [None, None]);
    }
}
