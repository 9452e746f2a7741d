//! Two logs compared: which functions became slower or faster from one to the other.
//!
//! Of each function the winners' times are compared, whatever candidates these are: what would ship then, and now. A
//! change counts where it is larger than chance: beyond the 95 % interval of the samples and what they wander by, beyond what functions that did
//! not change differ by from run to run, which the middle of all changes tells, and beyond the 2 % within which two
//! runs choose either of two kernels.

use crate::log::{self, Median, Policy, Record, Timing};
use std::collections::BTreeMap;

/// Normal deviations from run to run that a change exceeds: of a thousand functions that stay as they are, less than one
/// does.
const DEVIATIONS: f64 = 3.5;
/// What the spread from run to run is taken for at most, so that many changes do not hide each other.
const MOST_SPREAD: f64 = 0.008;

/// What became of a function's time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// It takes longer.
    Slower,
    /// It takes less time.
    Faster,
    /// No difference beyond chance.
    Same,
}

impl Verdict {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::Same => "same",
        }
    }
}

/// One function in both logs.
#[derive(Clone, PartialEq, Debug)]
pub struct Change<'a> {
    /// The winner before.
    pub before: Timing<'a>,
    /// The winner after.
    pub after: Timing<'a>,
    /// Time after over time before, less 1, with its 95 % interval: 0.03 is three percent slower.
    pub change: Median,
    /// What that means.
    pub verdict: Verdict,
}

impl Change<'_> {
    /// Half the interval.
    pub fn margin(&self) -> f64 {
        (self.change.high - self.change.low) / 2.0
    }
}

/// What two logs differ in.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Diff<'a> {
    /// Functions that have a time in both, those that became slower most first.
    pub changes: Vec<Change<'a>>,
    /// A record of each function that has a time in the first log, and records but no time in the second.
    pub lost: Vec<&'a Record>,
    /// Functions of the first log that the second knows nothing of.
    pub only_before: Vec<&'a Record>,
    /// Functions that have a time in the second log alone.
    pub only_after: Vec<&'a Record>,
    /// Standard deviation of times from run to run, as a share.
    pub spread: f64,
}

impl Diff<'_> {
    /// The functions that became slower or faster.
    pub fn changed(&self) -> impl Iterator<Item = &Change<'_>> {
        self.changes.iter().filter(|c| c.verdict != Verdict::Same)
    }

    /// How many functions became slower or faster, or did not.
    pub fn verdicts(&self) -> String {
        let [slower, faster, same] = [Verdict::Slower, Verdict::Faster, Verdict::Same]
            .map(|v| self.changes.iter().filter(|c| c.verdict == v).count());
        format!("{slower} slower, {faster} faster, {same} the same within chance")
    }

    /// Geometric mean of times after over times before; 1 without functions.
    pub fn mean(&self) -> f64 {
        let logs: f64 = self.changes.iter().map(|c| c.change.value.ln_1p()).sum();
        (logs / self.changes.len().max(1) as f64).exp()
    }

    /// True where a function became slower by more than a share, or has no kernel any more.
    pub fn fails_above(&self, share: f64) -> bool {
        let worse = |c: &Change| c.verdict == Verdict::Slower && c.change.value > share;
        self.changes.iter().any(worse) || !self.lost.is_empty()
    }
}

/// What must agree so that two times may be compared: function, sizes, target, device, policy. Versions of Daylight,
/// compiler and driver may differ: their effect is what is asked for.
type Key<'a> = (&'a str, &'a BTreeMap<String, i64>, &'a str, &'a str, &'a Policy);

fn key(r: &Record) -> Key<'_> {
    (&r.workload.key, &r.bind, &r.target, &r.env.gpu, &r.policy)
}

/// One function in one log.
struct Side<'a> {
    any: &'a Record,
    winner: Option<Timing<'a>>,
}

/// The functions of a log; of one measured with several versions the newest counts.
fn sides(records: &[Record]) -> BTreeMap<Key<'_>, Side<'_>> {
    let mut out: BTreeMap<Key, Side> = BTreeMap::new();
    for group in log::selections(records).values() {
        let side = Side { any: group[0], winner: log::choose(group) };
        let age = |s: &Side| (s.winner.is_some(), s.winner.map_or(s.any.unix_s, |w| w.record.unix_s));
        match out.get(&key(group[0])) {
            Some(other) if age(other) >= age(&side) => {}
            _ => drop(out.insert(key(group[0]), side)),
        }
    }
    out
}

/// Compares two logs.
pub fn diff<'a>(before: &'a [Record], after: &'a [Record]) -> Diff<'a> {
    let (old, mut new) = (sides(before), sides(after));
    let mut out = Diff::default();
    for (key, side) in &old {
        let Some(was) = side.winner else { continue };
        match new.get(key) {
            None => out.only_before.push(side.any),
            Some(Side { winner: None, any }) => out.lost.push(any),
            Some(Side { winner: Some(is), .. }) => out.changes.extend(change(was, *is)),
        }
    }
    new.retain(|k, s| s.winner.is_some() && old.get(k).is_none_or(|o| o.winner.is_none()));
    out.only_after = new.values().map(|s| s.any).collect();
    out.spread = spread(&out.changes);
    for c in &mut out.changes {
        c.verdict = verdict(&c.change, out.spread);
    }
    out.changes.sort_by(|a, b| b.change.value.total_cmp(&a.change.value).then_with(|| name(a).cmp(name(b))));
    out
}

fn name<'a>(c: &Change<'a>) -> &'a str {
    &c.after.record.workload.name
}

/// The quotient of two medians. Their uncertainties, and what each series wanders by, add up as those of independent
/// numbers.
fn change<'a>(before: Timing<'a>, after: Timing<'a>) -> Option<Change<'a>> {
    let (old, new) = (&before.record.samples_ns, &after.record.samples_ns);
    let (a, b) = (Median::of(old)?, Median::of(new)?);
    let wandering = 1.96 * log::drift(old).hypot(log::drift(new));
    let (ratio, half) = (b.value / a.value, a.uncertainty().hypot(b.uncertainty()).hypot(wandering));
    let change = Median { value: ratio - 1.0, low: ratio * (1.0 - half) - 1.0, high: ratio * (1.0 + half) - 1.0 };
    Some(Change { before, after, change, verdict: Verdict::Same })
}

/// Functions from which on their middle tells how much times differ from run to run.
const SEVERAL: usize = 8;

/// The standard deviation of changes of functions that stay as they are, from the middle of all, about no change.
fn spread(changes: &[Change]) -> f64 {
    if changes.len() < SEVERAL {
        return 0.0;
    }
    let sizes: Vec<f64> = changes.iter().map(|c| c.change.value.ln_1p().abs()).collect();
    log::median(&sizes).map_or(0.0, |m| (1.4826 * m).min(MOST_SPREAD))
}

fn verdict(change: &Median, spread: f64) -> Verdict {
    let least = log::TIE.max(DEVIATIONS * spread);
    if change.value > least && change.low > 0.0 {
        Verdict::Slower
    } else if change.value < -least && change.high < 0.0 {
        Verdict::Faster
    } else {
        Verdict::Same
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Outcome, Workload};

    fn record(name: &str, ns: f64) -> Record {
        let workload = Workload {
            key: format!("{:032x}", name.len() * 1000 + usize::from(name.as_bytes()[0])),
            name: name.into(),
        };
        let samples_ns = (0..15).map(|i| ns * (1.0 + 0.001 * f64::from(i % 5))).collect();
        Record { samples_ns, ..Record::new(workload, BTreeMap::new(), "cuda:sm_90a", Outcome::Ok) }
    }

    #[test]
    fn what_changed_and_what_did_not() {
        let before = [record("a", 100.0), record("bb", 200.0), record("ccc", 300.0), record("dddd", 50.0)];
        let mut after = vec![record("a", 104.0), record("bb", 188.0), record("ccc", 301.0), record("eeeee", 9.0)];
        let found = diff(&before, &after);
        let verdicts: Vec<(&str, Verdict)> = found.changes.iter().map(|c| (name(c), c.verdict)).collect();
        assert_eq!(verdicts, [("a", Verdict::Slower), ("ccc", Verdict::Same), ("bb", Verdict::Faster)]);
        assert_eq!((found.only_before.len(), found.only_after.len(), found.lost.len()), (1, 1, 0));
        assert!(found.fails_above(0.03) && !found.fails_above(0.05));
        after.push(Record { outcome: Outcome::WrongResult, samples_ns: vec![], ..record("dddd", 1.0) });
        let found = diff(&before, &after);
        assert!(found.only_before.is_empty() && found.lost.len() == 1 && found.fails_above(0.5), "no kernel any more");
    }

    #[test]
    fn what_samples_scatter_by_is_no_change() {
        let noisy = |ns: f64| {
            let samples_ns = [0.9, 1.2, 0.95, 1.1, 1.0, 1.3].iter().map(|f| f * ns).collect();
            Record { samples_ns, ..record("a", ns) }
        };
        let (before, after) = ([noisy(100.0)], [noisy(106.0)]);
        assert_eq!(diff(&before, &after).changes[0].verdict, Verdict::Same);
    }

    #[test]
    fn other_machines_and_policies_are_other_times() {
        let (mut a, b) = (record("a", 100.0), record("a", 200.0));
        a.policy.id = "warm".into();
        let (before, after) = ([a], [b]);
        let found = diff(&before, &after);
        assert!(found.changes.is_empty() && found.only_before.len() == 1 && found.only_after.len() == 1);
    }
}
