//! Which kernels of a logged function are no longer those that were measured.

use daylight::assemble::Schedulable;
use daylight::tune::replay::Replay;
use daylight::tune::{Arms, Point};
use std::collections::{BTreeMap, BTreeSet};

/// Candidates that a change of rules, passes or variants is taken to change together: those of one rule that have the row in the
/// same place and the same vectors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    arm: usize,
    row: Option<i64>,
    vector: Option<i64>,
}

impl Kind {
    /// That of a point.
    pub fn of(point: &Point) -> Kind {
        let [row, vector] = ["row", "vector"].map(|name| point.knobs.find(name));
        Kind { arm: point.arm, row, vector }
    }
}

/// The kinds of which the kernel of a candidate, the first in the order of knobs, has another text than the one in the log, or cannot
/// be made any more.
pub fn kinds(subject: &Schedulable, arms: &Arms, replay: &Replay) -> BTreeSet<Kind> {
    let mut first: BTreeMap<Kind, &Point> = BTreeMap::new();
    for (point, _) in replay.timed() {
        first.entry(Kind::of(point)).or_insert(point);
    }
    let same = |point: &Point| {
        let made = subject.candidate(arms.of(point), &point.knobs).ok()?;
        Some(made.source.hash() == replay.text(point)?)
    };
    first.into_iter().filter(|(_, point)| same(point) != Some(true)).map(|(kind, _)| kind).collect()
}
