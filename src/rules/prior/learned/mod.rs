//! What measured candidates say besides the model by hand: how far a candidate is behind the best of its function, from boosted
//! trees over rule, knobs, outline and function.
//!
//! The trees are grown by `benches/fit_prior` from the logs of drawn functions that docs/search.md lists, all of GPUs of compute
//! capability 9.0, and are asked for no others, nor for rules of which nothing was measured: they look at one launch alone, and know
//! nothing of what is gained where the launches of pieces are one. They add to a part of what the model by hand says: of points of which nobody measured
//! the like trees know nothing, and without that part they take some for good that are slow by far.

pub mod features;
pub mod function;
pub mod trees;

use crate::target::{Kind, Target};
use features::Candidate;
use std::sync::OnceLock;
use trees::Forest;

/// Part of the logarithm of a time that the model by hand says; trees say the rest.
pub const BY_HAND: f64 = 0.25;

/// True where measured candidates are of such a GPU.
pub fn is_known(target: &Target) -> bool {
    target.kind == Kind::Cuda && target.has.wgmma && !target.has.tcgen05
}

/// Points of a rule of which measured candidates promise the shortest times, what stands among them; the compiler says more of these.
pub const CHOICES: usize = 16;

/// How many of them are compiled together. Of 3,574 logged functions trees that know registers choose 0.9845 of the best among the first four,
/// 0.9855 among eight and no more among sixteen (docs/search.md).
pub const TOGETHER: usize = 8;

/// Logarithm of the time of a candidate, in a unit that all candidates of a function have in common: times the best that the
/// model by hand says of any of them, to the power of what is not [`BY_HAND`], it is nanoseconds. `None` where nothing of the rule was
/// measured.
///
/// Where kernels are compiled trees say it that know what they take: for candidates of which the others think alike, and that spill no
/// registers, since of such alone they were grown. What is compiled compares with what is compiled.
pub fn log_time(candidate: &Candidate, target: &Target) -> Option<f64> {
    let forest = if candidate.compiled.is_some() { forest_compiled() } else { forest() };
    let forest = Some(forest).filter(|f| features::are_of(&f.seen.names, candidate.rule))?;
    Some(log_time_by(forest, candidate, target))
}

/// The same by any trees.
pub fn log_time_by(forest: &Forest, candidate: &Candidate, target: &Target) -> f64 {
    BY_HAND * candidate.ns.ln() + forest.sum(&features::of(&forest.seen.names, candidate, target))
}

fn forest_compiled() -> &'static Forest {
    static FOREST: OnceLock<Forest> = OnceLock::new();
    FOREST.get_or_init(|| Forest::read(include_bytes!("trees-compiled.bin")).expect("a test reads it"))
}

fn forest() -> &'static Forest {
    static FOREST: OnceLock<Forest> = OnceLock::new();
    FOREST.get_or_init(|| Forest::read(include_bytes!("trees.bin")).expect("a test reads it"))
}

#[cfg(test)]
mod tests {
    use super::features::Compiled;
    use super::function::Function;
    use super::*;
    use crate::rules::{Knobs, LaunchOutline, Outline, RULES};
    use crate::target::HostCpu;

    fn at(name: &str) -> Target {
        Target::parse(name, &HostCpu::default()).unwrap()
    }

    /// After a change of what is looked at, the trees have to be grown again.
    #[test]
    fn the_trees_look_at_what_is_there() {
        for (forest, compiled) in [(forest(), false), (forest_compiled(), true)] {
            let of_outlines = features::names([], [], compiled, &at("cuda:sm_90a"));
            assert_eq!(forest.seen.names[..of_outlines.len()], of_outlines);
            assert_eq!(forest.seen.names.len(), forest.seen.edges.len());
            assert!(!forest.trees.is_empty());
        }
    }

    #[test]
    fn all_rules_and_knobs_that_they_know_exist() {
        let exists = |name: &&String| match name.split_once(' ') {
            Some(("rule", rule)) => RULES.iter().any(|r| r.name == rule),
            Some((_, knob)) => RULES.iter().any(|r| r.table.contains(&format!("name = \"{knob}\""))),
            None => true,
        };
        let names = [forest(), forest_compiled()].into_iter().flat_map(|f| &f.seen.names);
        let strangers: Vec<&String> = names.filter(|name| !exists(name)).collect();
        assert!(strangers.is_empty(), "{strangers:?}");
    }

    #[test]
    fn hopper_alone_is_known() {
        let known =
            ["cuda:sm_90a", "cuda:sm_80", "cuda:sm_100a", "cuda:sm_120a", "cpu:x86-64-v3"].map(|t| is_known(&at(t)));
        assert_eq!(known, [true, false, false, false, false]);
    }

    #[test]
    fn trees_say_a_factor_and_the_model_by_hand_a_part() {
        let (knobs, function) = (Knobs::default(), Function::default());
        for read in [1 << 12, 1 << 22, 1 << 32] {
            let outline = Outline::one(LaunchOutline { read, ..LaunchOutline::default() });
            let of = |rule| {
                let (knobs, function, outline) = (&knobs, &function, &outline);
                Candidate { rule, knobs, function, outline, ns: 1e4, compiled: None }
            };
            let log_time = |rule| super::log_time(&of(rule), &at("cuda:sm_90a"));
            let compiled = |rule, registers| {
                let compiled = Some(Compiled { registers, shared_bytes: 0 });
                super::log_time(&Candidate { compiled, ..of(rule) }, &at("cuda:sm_90a"))
            };
            assert_eq!((log_time("pieces.cuda"), compiled("pieces.cuda", 32)), (None, None));
            let said = log_time("reduction.inner").expect("it was measured") - BY_HAND * 1e4_f64.ln();
            assert!(said.abs() < 3.0, "{said}");
            let [few, many] = [24, 255].map(|n| compiled("reduction.inner", n).expect("it was measured"));
            assert!(few != many && (few - many).abs() < 3.0, "{few} {many}");
        }
    }
}
