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

use super::Knobs;
use crate::ir::Reason;
use crate::parallel;
use std::collections::BTreeMap;

/// Points that one thread looks at in one go.
const CHUNK: u64 = 4096;

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
    pub fn point(&self, number: u64) -> Knobs {
        let mut knobs = Knobs(self.knobs.iter().map(|k| (k.name.clone(), k.default)).collect());
        self.move_to(&mut knobs, number);
        knobs
    }

    /// Turns a point of this space into the one of that number.
    fn move_to(&self, knobs: &mut Knobs, mut number: u64) {
        for k in self.knobs.iter().rev() {
            let n = k.values.len() as u64;
            if let Some(value) = knobs.0.get_mut(&k.name) {
                *value = k.values[(number % n) as usize];
            }
            number /= n;
        }
    }

    /// All legal points, in row-major order.
    pub fn points(&self) -> Vec<Knobs> {
        self.census().0
    }

    /// All legal points, in row-major order, and how many others there are by the condition that they break.
    pub fn census(&self) -> (Vec<Knobs>, Census) {
        let starts: Vec<u64> = (0..self.size()).step_by(CHUNK as usize).collect();
        // All share the names of one.
        let any = Knobs(self.knobs.iter().map(|k| (k.name.clone(), k.default)).collect());
        let chunks = parallel::map(&starts, parallel::cores(), |start| self.census_of(&any, *start, CHUNK));
        let (mut points, mut census) = (vec![], Census::default());
        for (legal, counts) in chunks {
            points.extend(legal);
            census.add(&counts);
        }
        (points, census)
    }

    /// The part of the census that starts at one point and is `n` long at most; `any` is some point.
    fn census_of(&self, any: &Knobs, start: u64, n: u64) -> (Vec<Knobs>, Census) {
        let (mut legal, mut census) = (vec![], Census::default());
        let mut knobs = any.clone();
        self.move_to(&mut knobs, start);
        for number in start..(start + n).min(self.size()) {
            if number > start {
                self.advance(&mut knobs, number);
            }
            census.points += 1;
            match self.constraints.iter().find(|c| c.holds(&knobs).is_err()) {
                None => legal.push(knobs.clone()),
                Some(broken) => *census.ruled_out.entry(broken.name).or_default() += 1,
            }
        }
        census.legal = legal.len() as u64;
        (legal, census)
    }

    /// Turns the point before `number` into the point of that number: only the knobs that change are
    /// written, which is what makes a walk over 100,000 points cheap.
    fn advance(&self, knobs: &mut Knobs, number: u64) {
        let mut rest = number;
        for k in self.knobs.iter().rev() {
            let n = k.values.len() as u64;
            let at = rest % n;
            if let Some(value) = knobs.0.get_mut(&k.name) {
                *value = k.values[at as usize];
            }
            if at != 0 {
                return;
            }
            rest /= n;
        }
    }

    fn has_points(&self) -> bool {
        if self.size() == 0 {
            return false;
        }
        let mut knobs = self.point(0);
        (0..self.size()).any(|number| {
            if number > 0 {
                self.advance(&mut knobs, number);
            }
            self.check(&knobs).is_ok()
        })
    }

    /// Candidate 0: the table's default where it is legal, else the legal point nearest to it,
    /// counted in steps along each knob's values, the first of several in row-major order. `None` where no
    /// point is legal.
    pub fn default(&self) -> Option<Knobs> {
        let mut knobs = Knobs(self.knobs.iter().map(|k| (k.name.clone(), k.default)).collect());
        if self.check(&knobs).is_ok() {
            return Some(knobs);
        }
        let mut axes: Vec<Axis<'_>> = vec![];
        let mut reach = 0;
        for knob in self.knobs.iter().rev() {
            let home = knob.values.iter().position(|v| *v == knob.default).unwrap_or(knob.values.len());
            axes.push(Axis { knob, home, inner: reach });
            reach += home.max(knob.values.len().saturating_sub(home + 1));
        }
        axes.reverse();
        // The nearest ones first: all points of a large space would be looked at for one that is mostly near.
        (1..=reach).any(|steps| self.first_at(&mut knobs, &axes, steps)).then_some(knobs)
    }

    /// Moves `knobs` to the first legal point in row-major order that is exactly so many steps along these
    /// axes away from the default.
    fn first_at(&self, knobs: &mut Knobs, axes: &[Axis<'_>], steps: usize) -> bool {
        let Some((axis, inner)) = axes.split_first() else { return self.check(knobs).is_ok() };
        axis.knob.values.iter().enumerate().any(|(i, value)| {
            let taken = axis.home.abs_diff(i);
            if taken > steps || steps - taken > axis.inner {
                return false;
            }
            knobs.0.insert(axis.knob.name.clone(), *value);
            self.first_at(knobs, inner, steps - taken)
        })
    }
}

/// A knob as an axis that the nearest legal point is looked for along.
struct Axis<'a> {
    knob: &'a Knob,
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
