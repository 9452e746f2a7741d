//! Every point of a space, and the first condition that each breaks.
//!
//! A space has up to millions of points, and most of its conditions look at three or four of its knobs. So a condition
//! is asked once for all points that agree in what it looks at, which `knob_values` tells, and a walk passes over
//! points that differ only in what nobody looked at. Conditions have to depend on nothing but the point.

use super::knob_values::{bit, looked_at};
use super::{Knob, Space};
use crate::rules::Knobs;
use std::ops::ControlFlow;

/// Answers of one condition that are remembered at most.
const MOST: usize = 1 << 21;

/// Points that follow each other and break the same condition first, or none.
pub(super) struct Run<'a> {
    /// The first of them.
    pub first: &'a Knobs,
    /// How many there are.
    pub length: u64,
    /// Position of the condition that all of them break; `None` where this is one legal point.
    pub broken: Option<usize>,
}

/// What the conditions of a space say of its points.
pub(super) struct Verdicts<'a> {
    space: &'a Space,
    point: Knobs,
    /// For each knob its place in the order of names, and which of its values the point has.
    digits: Vec<(usize, usize)>,
    /// One for each condition.
    memos: Vec<Memo>,
}

/// What one condition said.
#[derive(Default)]
struct Memo {
    /// The places of the knobs that it has ever looked at, as `looked_at` tells them.
    looks_at: u64,
    /// Those knobs by their numbers in the table, each with how far its values are apart in `said`.
    strides: Vec<(usize, usize)>,
    /// How many knobs of the table, from the first on, have all of those among them.
    last: usize,
    /// Whether it holds, by the values of those knobs.
    said: Vec<Option<bool>>,
    /// It was asked at the point already, and holds.
    held: bool,
}

impl Memo {
    /// Has the condition look at these knobs as well; what it said before is then asked again.
    fn widen(&mut self, seen: u64, knobs: &[Knob], digits: &[(usize, usize)]) {
        self.looks_at |= seen;
        let mut size = 1;
        self.strides.clear();
        for (i, knob) in knobs.iter().enumerate().filter(|(i, _)| self.looks_at & bit(digits[*i].0) != 0) {
            self.strides.push((i, size));
            size *= knob.values.len();
            self.last = i + 1;
        }
        // One that looks at nearly everything is asked at every point: there is nothing to remember.
        self.said = if size <= MOST { vec![None; size] } else { vec![] };
    }

    fn place(&self, digits: &[(usize, usize)]) -> usize {
        self.strides.iter().map(|(i, stride)| digits[*i].1 * stride).sum()
    }
}

impl<'a> Verdicts<'a> {
    /// Starts with nothing known, at some point.
    pub fn new(space: &'a Space) -> Verdicts<'a> {
        let point = space.start();
        let place = |k: &Knob| point.0.iter().position(|(name, _)| *name == k.name).unwrap_or(0);
        let digits = space.knobs.iter().map(|k| (place(k), 0)).collect();
        let memos = space.constraints.iter().map(|_| Memo { said: vec![None], ..Memo::default() }).collect();
        Verdicts { space, point, digits, memos }
    }

    /// Goes through all points in row-major order of the knobs' values until `see` breaks.
    pub fn walk(mut self, mut see: impl FnMut(Run<'_>) -> ControlFlow<()>) {
        if self.space.size() == 0 {
            return;
        }
        (0..self.digits.len()).for_each(|i| self.set(i, 0));
        loop {
            let (broken, last) = self.judge();
            let length = if broken.is_some() { self.left(last) } else { 1 };
            if see(Run { first: &self.point, length, broken }).is_break() || !self.advance(last) {
                return;
            }
        }
    }

    /// Moves to the `digit`th value of a knob, and forgets what was said of that knob and of those after it.
    pub fn set(&mut self, knob: usize, digit: usize) {
        self.move_to(knob, digit);
        self.memos.iter_mut().filter(|m| m.last > knob).for_each(|m| m.held = false);
    }

    fn move_to(&mut self, knob: usize, digit: usize) {
        self.digits[knob].1 = digit;
        self.point.0.set_at(self.digits[knob].0, self.space.knobs[knob].values[digit]);
    }

    /// Whether the point is legal.
    pub fn legal(&mut self) -> bool {
        self.judge().0.is_none()
    }

    /// The first condition that the point breaks, and how many knobs in table order, from the first on, may matter to
    /// that: all of them at a legal point.
    fn judge(&mut self) -> (Option<usize>, usize) {
        let mut last = 0;
        for i in 0..self.memos.len() {
            if !self.memos[i].held {
                self.memos[i].held = self.holds(i);
            }
            last = last.max(self.memos[i].last);
            if !self.memos[i].held {
                return (Some(i), last);
            }
        }
        (None, self.digits.len())
    }

    fn holds(&mut self, condition: usize) -> bool {
        let memo = &mut self.memos[condition];
        if let Some(Some(said)) = memo.said.get(memo.place(&self.digits)) {
            return *said;
        }
        let (said, seen) = looked_at(|| (self.space.constraints[condition].check)(&self.point).is_ok());
        if seen & !memo.looks_at != 0 {
            memo.widen(seen, &self.space.knobs, &self.digits);
        }
        let place = memo.place(&self.digits);
        if let Some(entry) = memo.said.get_mut(place) {
            *entry = Some(said);
        }
        said
    }

    /// Points from this one on that agree with it in the first `same` knobs.
    fn left(&self, same: usize) -> u64 {
        let inner = self.space.knobs[same..].iter().zip(&self.digits[same..]);
        let (all, before) = inner.fold((1, 0), |(all, before), (knob, (_, digit))| {
            let n = knob.values.len() as u64;
            (all * n, before * n + *digit as u64)
        });
        all - before
    }

    /// Moves to the next point that differs in the first `same` knobs; false where this was the last.
    fn advance(&mut self, same: usize) -> bool {
        let more = |i: &usize| self.digits[*i].1 + 1 < self.space.knobs[*i].values.len();
        let Some(step) = (0..same).rev().find(more) else { return false };
        (step + 1..self.digits.len()).for_each(|inner| self.move_to(inner, 0));
        self.set(step, self.digits[step].1 + 1);
        true
    }

    /// The point.
    pub fn into_point(self) -> Knobs {
        self.point
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number below `n`, another one each time.
    fn draw(state: &mut u64, n: u64) -> i64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((*state >> 33) % n) as i64
    }

    /// A space whose conditions look at some knobs, in turn or only where others allow it.
    fn random(state: &mut u64) -> Space {
        let knob = |i: usize, n: i64| Knob { name: format!("k{i}"), values: (0..n).collect(), ..Knob::default() };
        let knobs: Vec<Knob> = (0..1 + draw(state, 5) as usize).map(|i| knob(i, 1 + draw(state, 4))).collect();
        let names = knobs.len() as u64 + 1;
        let mut space = Space::new("test", 1, knobs);
        for name in ["first", "second", "third"] {
            let [a, b, c] = [0; 3].map(|_| format!("k{}", draw(state, names)));
            let (seed, few) = (draw(state, 40), 2 + draw(state, 5));
            space = space.require(name, move |k| {
                let of = |name: &str| k.find(name).unwrap_or(1);
                let looks =
                    (of(&a) + seed) % 3 > 0 || (of(&b) * 5 + seed) % few > 0 || k.with(&c, 1).find(&b) == Some(1);
                if looks && (of(&c) * 3 + seed) % few > 0 { Ok(()) } else { Err("no".into()) }
            });
        }
        space
    }

    #[test]
    fn a_walk_sees_what_asking_at_every_point_says() {
        let mut state = 7;
        for _ in 0..400 {
            let space = random(&mut state);
            let mut number = 0;
            Verdicts::new(&space).walk(|run| {
                assert_eq!(run.first, &space.point(number));
                for at in number..number + run.length {
                    let first = space.constraints.iter().position(|c| c.holds(&space.point(at)).is_err());
                    assert_eq!(run.broken, first, "point {at}");
                }
                number += run.length;
                ControlFlow::Continue(())
            });
            assert_eq!(number, space.size());
        }
    }

    #[test]
    fn a_condition_is_asked_once_for_what_it_looks_at() {
        let knobs = ["a", "b", "c"].map(|n| Knob { name: n.into(), values: (0..8).collect(), ..Knob::default() });
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let count = asked.clone();
        let space = Space::new("test", 1, knobs.into()).require("odd", move |k| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if k.get("b") % 2 == 1 { Ok(()) } else { Err("even".into()) }
        });
        assert_eq!((space.points().len(), asked.load(std::sync::atomic::Ordering::Relaxed)), (256, 8));
    }
}
