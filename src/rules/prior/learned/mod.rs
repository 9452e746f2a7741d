//! What measured candidates say of the model by hand: by what factor it is wrong, from boosted trees over outlines.
//!
//! The trees are grown by `benches/fit_prior` from the logs of drawn functions that docs/search.md lists, all of GPUs of compute
//! capability 9.0, and are asked for no others. They tell the first of few candidates that the model by hand takes for
//! good apart, and rules from each other; among all points they would have to say something of such as nobody measured.

pub mod features;
pub mod trees;

use crate::rules::Outline;
use crate::target::{Kind, Target};
use std::sync::OnceLock;
use trees::Forest;

/// True where measured candidates are of such a GPU.
pub fn is_known(target: &Target) -> bool {
    target.kind == Kind::Cuda && target.has.wgmma && !target.has.tcgen05
}

/// Nanoseconds of a candidate of which the model by hand says `ns`.
pub fn ns(outline: &Outline, ns: f64, target: &Target) -> f64 {
    let numbers: Vec<f32> = features::of(outline, ns, target).into_iter().map(|(_, n)| n).collect();
    ns * forest().sum(&numbers).exp()
}

fn forest() -> &'static Forest {
    static FOREST: OnceLock<Forest> = OnceLock::new();
    FOREST.get_or_init(|| serde_json::from_str(include_str!("trees.json")).expect("a test reads it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::LaunchOutline;
    use crate::target::HostCpu;

    /// After a change of what is looked at, the trees have to be grown again.
    #[test]
    fn the_trees_look_at_what_is_there() {
        let t = Target::parse("cuda:sm_90a", &HostCpu::default()).unwrap();
        let names = features::of(&Outline::one(LaunchOutline::default()), 1e3, &t).into_iter().map(|(name, _)| name);
        assert_eq!(names.collect::<Vec<_>>(), forest().names);
        assert_eq!(forest().names.len(), forest().edges.len());
        assert!(forest().trees.iter().all(|t| t.leaves.len() == t.nodes.len() + 1));
    }

    #[test]
    fn factors_are_near_one_and_asked_of_hopper_alone() {
        let at = |name: &str| Target::parse(name, &HostCpu::default()).unwrap();
        let known =
            ["cuda:sm_90a", "cuda:sm_80", "cuda:sm_100a", "cuda:sm_120a", "cpu:x86-64-v3"].map(|t| is_known(&at(t)));
        assert_eq!(known, [true, false, false, false, false]);
        for read in [1 << 12, 1 << 22, 1 << 32] {
            let outline = Outline::one(LaunchOutline { read, ..LaunchOutline::default() });
            let factor = ns(&outline, 1e4, &at("cuda:sm_90a")) / 1e4;
            assert!((0.2..5.0).contains(&factor), "{factor}");
        }
    }
}
