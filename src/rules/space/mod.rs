//! A knob space: the values of each knob for one function on one target, and the named predicates
//! that say which combinations are legal.

pub mod knob_values;
pub mod knobs;
pub mod limits;
pub mod outline;
pub mod outlines;
mod settings;
pub mod tables;
pub mod tiles;
mod walk;

use super::Knobs;
use crate::ir::Reason;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use walk::Verdicts;

/// One knob, resolved for a target.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Knob {
    /// Name, unique in the space.
    pub name: String,
    /// Unit of the value; empty for a choice.
    pub unit: String,
    /// What it changes.
    pub meaning: String,
    /// Names of the values from 0 on, of a knob that is a choice.
    pub choices: Vec<String>,
    /// Value of candidate 0 where that is legal.
    pub default: i64,
    /// Value that records have which are older than the knob; `None` for the default.
    pub older: Option<i64>,
    /// Values to try, in the order to try them.
    pub values: Vec<i64>,
}

/// What depends on a point.
pub trait At<T>: Fn(&Knobs) -> T + Send + Sync + 'static {}

impl<T, F: Fn(&Knobs) -> T + Send + Sync + 'static> At<T> for F {}

/// Whether a point is legal; the text is the reason why not.
type Check = Result<(), String>;

/// A named condition on a combination of knobs.
pub struct Constraint {
    /// Name of the predicate, as logged with pruned candidates.
    pub name: &'static str,
    /// True where breaking it only makes a candidate slow.
    soft: bool,
    check: Box<dyn At<Check>>,
}

impl Constraint {
    fn holds(&self, knobs: &Knobs) -> Result<(), Reason> {
        (self.check)(knobs).map_err(|text| Reason::new(self.name, text))
    }
}

/// How many points a space has, and what became of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Census {
    /// All combinations of values.
    pub points: u64,
    /// Those that break no condition.
    pub legal: u64,
    /// The others, by the first condition that they break.
    pub ruled_out: BTreeMap<&'static str, u64>,
}

impl Knob {
    /// The least value that means something: 1 of counts and sizes, 0 of choices and where it is among the values.
    fn least(&self) -> i64 {
        if self.choices.is_empty() { self.values.iter().copied().min().unwrap_or(1).min(1) } else { 0 }
    }
}

impl Census {
    /// Adds the points of another space.
    pub fn add(&mut self, other: &Census) {
        self.points += other.points;
        self.legal += other.legal;
        for (name, n) in &other.ruled_out {
            *self.ruled_out.entry(name).or_default() += n;
        }
    }
}

/// The knob space of a rule form for one function on one target.
pub struct Space {
    /// Rule form, such as `reduction.inner`.
    pub form: &'static str,
    /// Version of the form's table.
    pub version: u32,
    /// The knobs in table order.
    pub knobs: Vec<Knob>,
    constraints: Vec<Constraint>,
    /// The knobs are those of a table, of which none is below its least value.
    counts: bool,
}

impl Space {
    /// A space without conditions.
    pub fn new(form: &'static str, version: u32, knobs: Vec<Knob>) -> Space {
        Space { form, version, knobs, constraints: vec![], counts: false }
    }

    /// The space of a table, whose knobs are counts and sizes.
    pub(super) fn of_counts(self) -> Space {
        Space { counts: true, ..self }
    }

    /// Adds a named condition.
    pub fn require(mut self, name: &'static str, check: impl At<Check>) -> Space {
        self.constraints.push(Constraint { name, soft: false, check: Box::new(check) });
        self
    }

    /// Adds a named condition that only keeps slow candidates out of the search.
    pub fn prefer(mut self, name: &'static str, check: impl At<Check>) -> Space {
        self.constraints.push(Constraint { name, soft: true, check: Box::new(check) });
        self
    }

    /// Gives a knob another default than its table does; a knob of another name changes nothing.
    pub fn with_default(mut self, knob: &str, default: i64) -> Space {
        self.knobs.iter_mut().filter(|k| k.name == knob).for_each(|k| k.default = default);
        self
    }

    /// The names of the conditions in the order in which they are asked, each with whether it only keeps slow
    /// candidates out of the search.
    pub fn conditions(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.constraints.iter().map(|c| (c.name, c.soft))
    }

    /// Drops conditions that were only preferred, last one first, until a point is legal: odd and
    /// tiny functions have slow candidates only.
    pub fn settle(mut self) -> Space {
        while !self.has_points() {
            let Some(last) = self.constraints.iter().rposition(|c| c.soft) else { break };
            self.constraints.remove(last);
        }
        self
    }

    /// The first condition that the point breaks, or `Ok`. A value outside the table is legal if the
    /// conditions hold: `--set` may go beyond the values that are searched.
    pub fn check(&self, knobs: &Knobs) -> Result<(), Reason> {
        self.counted(knobs)?;
        self.constraints.iter().try_for_each(|c| c.holds(knobs))
    }

    /// Conditions divide by knobs, so this is asked before them.
    fn counted(&self, knobs: &Knobs) -> Result<(), Reason> {
        let low = |k: &&Knob| self.counts && knobs.find(&k.name).is_some_and(|n| n < k.least());
        match self.knobs.iter().find(low) {
            None => Ok(()),
            Some(k) => Err(Reason::new("knob_range", format!("`{}` is at least {}", k.name, k.least()))),
        }
    }

    /// The first condition that the point breaks, leaving out those that only keep slow candidates out of
    /// the search.
    pub fn possible(&self, knobs: &Knobs) -> Result<(), Reason> {
        self.counted(knobs)?;
        self.constraints.iter().filter(|c| !c.soft).try_for_each(|c| c.holds(knobs))
    }

    /// Number of points, legal or not.
    pub fn size(&self) -> u64 {
        self.knobs.iter().map(|k| k.values.len() as u64).product()
    }

    /// The point of that number in row-major order of the knobs' values.
    pub fn point(&self, mut number: u64) -> Knobs {
        let mut knobs = self.start();
        for k in self.knobs.iter().rev() {
            let n = k.values.len() as u64;
            if let Some(value) = knobs.0.get_mut(&k.name) {
                *value = k.values[(number % n) as usize];
            }
            number /= n;
        }
        knobs
    }

    /// The table's default, legal or not.
    fn start(&self) -> Knobs {
        Knobs(self.knobs.iter().map(|k| (k.name.clone(), k.default)).collect())
    }

    /// All legal points, in row-major order.
    pub fn points(&self) -> Vec<Knobs> {
        self.census().0
    }

    /// All legal points, in row-major order, and how many others there are by the condition that they break.
    pub fn census(&self) -> (Vec<Knobs>, Census) {
        let (mut legal, mut broken) = (vec![], vec![0; self.constraints.len()]);
        Verdicts::new(self).walk(|run| {
            match run.broken {
                Some(condition) => broken[condition] += run.length,
                None => legal.push(run.first.clone()),
            }
            ControlFlow::Continue(())
        });
        let mut census = Census { points: self.size(), legal: legal.len() as u64, ..Census::default() };
        for (c, n) in self.constraints.iter().zip(broken).filter(|(_, n)| *n > 0) {
            *census.ruled_out.entry(c.name).or_default() += n;
        }
        (legal, census)
    }

    fn has_points(&self) -> bool {
        let mut found = false;
        Verdicts::new(self).walk(|run| {
            found = run.broken.is_none();
            if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        found
    }

    /// Candidate 0: the table's default where it is legal, else the legal point nearest to it,
    /// counted in steps along each knob's values, the first of several in row-major order. `None` where no
    /// point is legal.
    pub fn default(&self) -> Option<Knobs> {
        let knobs = self.start();
        if self.check(&knobs).is_ok() {
            return Some(knobs);
        }
        let mut axes: Vec<Axis> = vec![];
        let mut reach = 0;
        for knob in self.knobs.iter().rev() {
            let values = knob.values.len();
            let home = knob.values.iter().position(|v| *v == knob.default).unwrap_or(values);
            axes.push(Axis { values, home, inner: reach });
            reach += home.max(values.saturating_sub(home + 1));
        }
        axes.reverse();
        // The nearest ones first: all points of a large space would be looked at for one that is mostly near.
        let mut verdicts = Verdicts::new(self);
        (1..=reach).any(|steps| first_at(&mut verdicts, &axes, 0, steps)).then(|| verdicts.into_point())
    }
}

/// Moves to the first legal point in row-major order that is exactly so many steps along the axes from `from` on away
/// from the default.
fn first_at(verdicts: &mut Verdicts<'_>, axes: &[Axis], from: usize, steps: usize) -> bool {
    let Some(axis) = axes.get(from) else { return verdicts.legal() };
    (0..axis.values).any(|digit| {
        let taken = axis.home.abs_diff(digit);
        if taken > steps || steps - taken > axis.inner {
            return false;
        }
        verdicts.set(from, digit);
        first_at(verdicts, axes, from + 1, steps - taken)
    })
}

/// A knob as an axis that the nearest legal point is looked for along.
struct Axis {
    /// How many values it has.
    values: usize,
    /// Position of the default among the values; their number where it is none of them.
    home: usize,
    /// Most steps that the knobs after it can take together.
    inner: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knob(name: &str, default: i64, values: &[i64]) -> Knob {
        Knob { name: name.into(), default, values: values.to_vec(), ..Knob::default() }
    }

    fn space() -> Space {
        let knobs = vec![knob("threads", 256, &[64, 128, 256]), knob("unroll", 4, &[1, 2, 4])];
        Space::new("test", 1, knobs).require("fits", |k| {
            let n = k.get("threads") * k.get("unroll");
            if n <= 512 { Ok(()) } else { Err(format!("{n} elements exceed 512")) }
        })
    }

    #[test]
    fn default_moves_to_the_nearest_legal_point() {
        assert_eq!(space().default(), Some(Knobs::from([("threads", 128), ("unroll", 4)])));
    }

    #[test]
    fn the_default_is_the_nearest_of_all_points() {
        let values = |n: i64| (0..n).collect::<Vec<i64>>();
        for seed in 0..2000i64 {
            let (a, b, c) = (seed % 5, seed / 5 % 7, seed / 35 % 4);
            let knobs = vec![knob("a", a, &values(4)), knob("b", b, &values(6)), knob("c", c, &values(3))];
            let odd = move |k: &Knobs| (k.get("a") * 31 + k.get("b") * 17 + k.get("c") * 7 + seed) % 11 == 0;
            let space =
                Space::new("test", 1, knobs).require("odd", move |k| if odd(k) { Ok(()) } else { Err("".into()) });
            let far = |k: &Knobs| [("a", a), ("b", b), ("c", c)].map(|(n, d)| k.get(n).abs_diff(d)).iter().sum::<u64>();
            let start = Knobs::from([("a", a), ("b", b), ("c", c)]);
            let want = if odd(&start) { Some(start) } else { space.points().into_iter().min_by_key(far) };
            assert_eq!(space.default(), want, "seed {seed}");
        }
        assert_eq!(space().require("never", |_| Err("no".into())).default(), None);
    }

    #[test]
    fn points_are_the_legal_ones_in_order() {
        let text: Vec<String> = space().points().iter().map(|k| k.to_string()).collect();
        assert_eq!(text.len(), 8);
        assert_eq!(text[0], "threads=64 unroll=1");
        assert_eq!(text[7], "threads=256 unroll=2");
    }

    #[test]
    fn an_empty_space_gives_up_what_was_only_preferred() {
        let s = space().prefer("many", |k| if k.get("threads") > 1000 { Ok(()) } else { Err("few".into()) });
        let point = Knobs::from([("threads", 64), ("unroll", 1)]);
        assert_eq!((s.check(&point).unwrap_err().predicate.as_ref(), s.possible(&point)), ("many", Ok(())));
        assert_eq!(s.points().len(), 0);
        assert_eq!(s.settle().points().len(), 8);
    }

    #[test]
    fn an_illegal_point_names_its_predicate() {
        let e = space().check(&Knobs::from([("threads", 256), ("unroll", 4)])).unwrap_err();
        assert_eq!((e.predicate.as_ref(), e.text.as_str()), ("fits", "1024 elements exceed 512"));
    }
}
