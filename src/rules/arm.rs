//! A rule that takes a function: what it found there, which is decided once, and the knobs of that.

use super::prior;
use super::prior::learned::features::{Candidate, Compiled};
use super::prior::learned::{self, function::Function};
use super::{Ask, Knobs, Outline, Space, choice};
use crate::analysis::Decline;
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};
use std::sync::OnceLock;

/// What a rule found in a function that it takes.
pub trait Accepted: Send + Sync {
    /// Adds the named conditions on the knobs, and defaults that depend on the function.
    fn constrain(&self, space: Space, target: &Target) -> Space;

    /// Takes the steps of one legal point. Other blocks may have been scheduled since the function was accepted.
    ///
    /// # Errors
    /// A step whose precondition fails, which is a bug of the rule.
    fn schedule(&self, s: &mut Schedule, knobs: &Knobs) -> Result<(), ScheduleError>;

    /// What the kernels of a legal point look like; `None` where sizes are not constant, or where
    /// nobody can tell.
    fn outline(&self, knobs: &Knobs) -> Option<Outline>;
}

/// What a rule found, and the schedule in which it did.
pub struct Found {
    /// In the form that the rule brought it to.
    pub(super) start: Schedule,
    accepted: Box<dyn Accepted>,
    /// Several kernels may be the better choice.
    pub(super) beside_pieces: bool,
}

impl Found {
    /// What was found in `start`.
    pub fn new(start: Schedule, accepted: impl Accepted + 'static) -> Found {
        Found { start, accepted: Box::new(accepted), beside_pieces: false }
    }

    /// The same, where `pieces` competes if `yes`.
    pub fn beside_pieces(self, yes: bool) -> Found {
        Found { beside_pieces: yes, ..self }
    }
}

/// A rule that takes a function, with its knob space.
pub struct Arm {
    /// The knob space, which only [`Arm::narrow`] changes.
    pub space: Space,
    pub(super) found: Found,
    target: Target,
    /// What measured candidates are told apart by besides what they do.
    function: Function,
    /// Found when first asked for: the prior looks at every point for them.
    choices: OnceLock<Vec<Knobs>>,
    /// The one of the choices that stands since their kernels are compiled.
    settled: OnceLock<Knobs>,
}

impl Arm {
    /// Puts the conditions on the knobs of `space`, of which those that are only preferred are dropped
    /// where no point would be left.
    pub fn new(space: Space, found: Found, target: &Target) -> Arm {
        let space = found.accepted.constrain(space, target).settle();
        let (choices, settled) = (OnceLock::new(), OnceLock::new());
        Arm { space, found, target: target.clone(), function: Function::default(), choices, settled }
    }

    /// The same with a space that `change` has taken points from, of which the default is found anew.
    #[must_use]
    pub fn narrow(mut self, change: impl FnOnce(&mut Space)) -> Arm {
        change(&mut self.space);
        Arm { choices: OnceLock::new(), settled: OnceLock::new(), ..self }
    }

    /// Asks a rule.
    pub(super) fn of(ask: &Ask) -> Result<Arm, Decline> {
        if ask.rule.kind != ask.target.kind {
            return Err(ask.no("target_kind", "it schedules for another kind of target"));
        }
        if let Some(block) = ask.serial_block().filter(|_| !ask.rule.takes_loops_inside()) {
            return Err(
                ask.no("straight_bodies", format!("block `{block}` has loops inside, whose steps have an order"))
            );
        }
        let found = (ask.rule.accept)(ask)?;
        let function = Function::of(ask.start.func(), ask.facts, |block| ask.owns(block));
        Ok(Arm { function, ..Arm::new(ask.space(), found, ask.target) })
    }

    /// Candidate 0, and what is built where no log says more: the space's default, unless the prior promises much
    /// more of another point; it is believed of GPUs, where a kernel waits for memory or is a product in tiles, and, with
    /// what measured candidates say of it, where there are such. These choose again among a few once [`Arm::settle`] tells what
    /// the kernels of those take.
    pub fn default(&self) -> Option<Knobs> {
        self.settled.get().or_else(|| self.choices().first()).cloned()
    }

    /// The points that may become the default once their kernels are compiled: that which stands until then, and, where measured candidates
    /// say something of it, the next ones by these. None where no point is legal.
    pub fn choices(&self) -> &[Knobs] {
        let learned = |k: &Knobs| self.log_time(k);
        let judge = learned::is_known(&self.target).then_some(&learned as choice::Judge);
        self.choices.get_or_init(|| self.improved(judge))
    }

    /// Lets that of the [`Arm::choices`] be the default whose kernels promise the shortest time. `compile` says what the kernels of a few of them
    /// take, and nothing of those that are no choice, such as what spills registers; it is asked of the next few where none of the first is one,
    /// and of nothing where there is one choice alone. The first time counts.
    pub fn settle(&self, compile: impl Fn(&[Knobs]) -> Vec<Option<Compiled>>) {
        if self.choices().len() < 2 || self.settled.get().is_some() {
            return;
        }
        let best = |some: &[Knobs]| {
            let said = some.iter().cloned().zip(compile(some));
            let said = said
                .filter_map(|(knobs, compiled)| Some((self.log_time_where(&knobs, Some(compiled?), |_| true)?, knobs)));
            said.min_by(|a, b| a.0.total_cmp(&b.0))
        };
        if let Some((_, knobs)) = self.choices().chunks(learned::TOGETHER).find_map(best) {
            self.settled.get_or_init(|| knobs);
        }
    }

    /// The same by the prior alone, where what measured candidates say leaves something out.
    pub(super) fn default_by_hand(&self) -> Option<Knobs> {
        self.improved(None).into_iter().next()
    }

    fn improved(&self, judge: Option<choice::Judge>) -> Vec<Knobs> {
        let start = self.space.default();
        start.map_or(vec![], |start| choice::improve(&self.space, start, |k| self.known_ns(k), judge))
    }

    /// The time in nanoseconds that the prior promises of a point; `None` where it is not believed.
    fn known_ns(&self, knobs: &Knobs) -> Option<f64> {
        let (target, judged) = (&self.target, learned::is_known(&self.target));
        let known =
            |o: &Outline| target.kind == Kind::Cuda && (prior::is_known(o, target) || judged && prior::is_judged(o));
        self.outline(knobs).filter(known).map(|o| prior::ns(&o, target))
    }

    /// Logarithm of the time of a point by what measured candidates say, in a unit that all points of a function have in common
    /// ([`learned::log_time`]); `None` where they say nothing: of targets and rules that none is of, of sizes that are not constant, and,
    /// of elements of other types than the measured ones, of points that want more registers than there are.
    pub fn log_time(&self, knobs: &Knobs) -> Option<f64> {
        let measured = self.function.is_of_measured_types();
        self.log_time_where(knobs, None, |o| measured || prior::has_registers(o, &self.target))
    }

    /// The same, to put points of a search in order: of those that want more registers than there are few but good ones were
    /// measured, so that all of them seem good.
    pub fn log_time_in_order(&self, knobs: &Knobs) -> Option<f64> {
        self.log_time_where(knobs, None, |o| prior::has_registers(o, &self.target))
    }

    fn log_time_where(
        &self,
        knobs: &Knobs,
        compiled: Option<Compiled>,
        fits: impl Fn(&Outline) -> bool,
    ) -> Option<f64> {
        let target = Some(&self.target).filter(|t| learned::is_known(t))?;
        let outline = self.outline(knobs).filter(|o| prior::is_judged(o) && fits(o))?;
        let ns = Some(prior::ns(&outline, target)).filter(|ns| ns.is_finite())?;
        learned::log_time(&Candidate { compiled, ..self.candidate(knobs, &outline, ns) }, target)
    }

    /// A point as those see it that judge by measured candidates: with its outline, and the time that the prior suggests.
    pub fn candidate<'a>(&'a self, knobs: &'a Knobs, outline: &'a Outline, ns: f64) -> Candidate<'a> {
        Candidate { rule: self.space.form, knobs, function: &self.function, outline, ns, compiled: None }
    }

    /// The same of the default, as a time.
    pub(super) fn judged(&self) -> Option<f64> {
        self.log_time(&self.default()?).map(f64::exp)
    }

    /// The same of the default of a product in tiles; `None` of all else.
    pub(super) fn tiled_ns(&self) -> Option<f64> {
        // Asked of the table's default first: that of other rules need not be found.
        self.outline(&self.space.default()?).filter(prior::is_tiled)?;
        self.known_ns(&self.default()?).filter(|ns| ns.is_finite())
    }

    /// The time in nanoseconds that the prior suggests of the default on a GPU, believed or not; `None` where nobody can tell.
    pub(super) fn guess_ns(&self) -> Option<f64> {
        let outline = self.outline(&self.default()?).filter(prior::is_judged)?;
        (self.target.kind == Kind::Cuda).then(|| prior::ns(&outline, &self.target)).filter(|ns| ns.is_finite())
    }

    /// The schedule at one legal point.
    ///
    /// # Errors
    /// A step whose precondition fails, which is a bug of the rule.
    pub fn schedule(&self, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let mut s = self.found.start.clone();
        self.go_on(&mut s, knobs)?;
        Ok(s)
    }

    /// The same, going on from a schedule in which other blocks have been scheduled.
    pub(super) fn go_on(&self, s: &mut Schedule, knobs: &Knobs) -> Result<(), ScheduleError> {
        self.found.accepted.schedule(s, knobs)
    }

    /// What the kernels of a legal point look like, as far as that is known without scheduling it.
    pub fn outline(&self, knobs: &Knobs) -> Option<Outline> {
        self.found.accepted.outline(knobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::made_up::outlined;
    use crate::rules::space::tiles::Tiles;
    use crate::rules::{Knob, LaunchOutline, stands};
    use crate::target::HostCpu;

    fn knob_x() -> Space {
        Space::new("made_up", 1, vec![Knob { name: "x".into(), values: (0..8).collect(), ..Knob::default() }])
    }

    fn reads(bytes: i64) -> Option<Outline> {
        Some(Outline::one(LaunchOutline { read: bytes, load_bytes: 16, in_flight: 64, ..LaunchOutline::default() }))
    }

    fn hopper() -> Target {
        Target::parse("cuda:sm_90a", &HostCpu::default()).unwrap()
    }

    #[test]
    fn a_narrower_space_has_a_default_of_its_own() {
        let arm = outlined(knob_x(), &hopper(), |k| reads((8 - k.get("x")) << 28));
        assert_eq!(arm.default(), Some(Knobs::from([("x", 7)])));
        let arm = arm.narrow(|space| space.knobs[0].values = vec![0, 1]);
        assert_eq!(arm.default(), Some(Knobs::from([("x", 1)])));
    }

    #[test]
    fn a_choice_whose_kernels_are_known_to_be_good_becomes_the_default() {
        let measured = |target: &Target| {
            let knobs = vec![Knob { name: "vector".into(), default: 1, values: (1..33).collect(), ..Knob::default() }];
            outlined(Space::new("reduction.inner", 1, knobs), target, |k| reads(k.get("vector") << 28))
        };
        let alone = |arm: &Arm, which: usize| {
            let (taken, only) = (Compiled { registers: 40, shared_bytes: 0 }, arm.choices()[which].clone());
            arm.settle(|some| some.iter().map(|k| Some(taken).filter(|_| *k == only)).collect());
            arm.default().expect("a legal point")
        };
        let arm = measured(&hopper());
        let (first, choices) = (arm.default(), arm.choices().to_vec());
        assert!(choices.len() == 16 && first.as_ref() == choices.first(), "{choices:?}");
        arm.settle(|some| vec![None; some.len()]);
        assert_eq!(arm.default(), first, "nothing is known of any");
        assert_eq!(alone(&arm, 9), choices[9], "where none of eight is a choice the next are asked for");
        assert_eq!(alone(&arm, 1), choices[9], "the first time counts");
        let arm = arm.narrow(|space| space.knobs[0].values = vec![1, 2]);
        assert_eq!((arm.choices().len(), alone(&arm, 1)), (2, arm.choices()[1].clone()));
        // Where nobody measured anything there is nothing to choose.
        let other = measured(&Target::parse("cuda:sm_80", &HostCpu::default()).unwrap());
        assert_eq!(other.choices().len(), 1);
        assert_eq!(outlined(knob_x(), &hopper(), |k| reads(k.get("x"))).choices().len(), 1);
    }

    /// By the prior, and by what measured candidates say.
    #[test]
    fn only_a_product_in_tiles_takes_the_place_of_the_first_rule() {
        for target in [Target::parse("cuda:sm_80", &HostCpu::default()).unwrap(), hopper()] {
            let arm = |outline| outlined(knob_x(), &target, outline);
            let (slow, fast) = (arm(|_| reads(1 << 32)), arm(|_| reads(1 << 12)));
            let tiled = arm(|_| {
                let tiles = Tiles { tiles: 1, fills: 1, ahead: 1, row: 128, ..Tiles::default() };
                Some(Outline::one(LaunchOutline { tiles: Some(tiles), ..LaunchOutline::default() }))
            });
            assert!(fast.guess_ns() < tiled.guess_ns() && tiled.guess_ns() < slow.guess_ns());
            assert_eq!(stands(&[&slow, &fast]), 0, "{}", target.id);
            assert_eq!(stands(&[&slow, &fast, &tiled]), 2, "{}", target.id);
            assert_eq!(stands(&[&tiled, &slow]), 0, "{}", target.id);
        }
    }
}
