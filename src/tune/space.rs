//! What is searched: one arm for each rule that takes the function, and the points of its space.

use super::search::Landscape;
use crate::rules::{Arm, Census, Knobs, prior};
use crate::target::Target;
use std::fmt;
use std::sync::OnceLock;

/// The rules that take one function, each with its knob space. The default of the first is the untuned
/// choice, candidate 0.
pub struct Arms {
    /// The untuned choice first, the others in the order of the rules.
    pub list: Vec<Arm>,
    /// What the function is tuned for.
    pub target: Target,
    /// Found when first asked for.
    listed: OnceLock<(Vec<Point>, Census)>,
    landscape: OnceLock<Landscape>,
}

/// A point of one arm's space.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Point {
    /// Position in [`Arms`].
    pub arm: usize,
    /// The knobs.
    pub knobs: Knobs,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.knobs)
    }
}

impl Arms {
    /// The rules that take a function on a target.
    pub fn new(list: Vec<Arm>, target: Target) -> Arms {
        Arms { list, target, listed: OnceLock::new(), landscape: OnceLock::new() }
    }

    /// The rule of a point, with its space.
    pub fn of(&self, point: &Point) -> &Arm {
        &self.list[point.arm]
    }

    /// The default point of every arm that has one, candidate 0 first.
    pub fn defaults(&self) -> Vec<Point> {
        let arms = self.list.iter().enumerate();
        arms.filter_map(|(arm, a)| Some(Point { arm, knobs: a.default()? })).collect()
    }

    /// The time in nanoseconds that the prior promises of a point, for comparing points; `None` where it has no outline.
    pub fn guess_ns(&self, point: &Point) -> Option<f64> {
        self.of(point).outline(&point.knobs).map(|o| prior::ns(&o, &self.target)).filter(|ns| ns.is_finite())
    }

    /// Points of all arms together, legal or not.
    pub fn size(&self) -> u64 {
        self.list.iter().map(|a| a.space.size()).fold(0, u64::saturating_add)
    }

    /// Every legal point, arm by arm.
    pub fn points(&self) -> &[Point] {
        &self.listed().0
    }

    /// How many points there are, and which conditions rule the others out.
    pub fn census(&self) -> &Census {
        &self.listed().1
    }

    /// What is known of every legal point before anything is measured.
    pub fn landscape(&self) -> &Landscape {
        self.landscape.get_or_init(|| Landscape::of(self))
    }

    fn listed(&self) -> &(Vec<Point>, Census) {
        self.listed.get_or_init(|| {
            let (mut points, mut census) = (vec![], Census::default());
            for (arm, Arm { space, .. }) in self.list.iter().enumerate() {
                let (legal, counts) = space.census();
                points.extend(legal.into_iter().map(|knobs| Point { arm, knobs }));
                census.add(&counts);
            }
            (points, census)
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::rules::made_up::made_up;
    use crate::rules::{Knob, Space};
    use crate::target::HostCpu;

    /// Two arms: `x` in 0..10 without the multiples of 4 (default 5), and `y` in 0..3 (default 0).
    pub fn arms() -> Arms {
        let knob = |name: &str, default, n: i64| Knob {
            name: name.into(),
            default,
            values: (0..n).collect(),
            ..Knob::default()
        };
        let x = Space::new("first", 1, vec![knob("x", 5, 10)])
            .require("no_fours", |k| if k.get("x") % 4 == 0 { Err("a multiple of 4".into()) } else { Ok(()) });
        let target = Target::parse("cuda:sm_90a", &HostCpu::default()).unwrap();
        let list = [x, Space::new("second", 1, vec![knob("y", 0, 3)])].map(|space| made_up(space, &target));
        Arms::new(list.into(), target)
    }

    #[test]
    fn points_of_all_arms() {
        let arms = arms();
        assert_eq!(arms.size(), 13);
        assert_eq!(arms.points().len(), 10);
        assert_eq!((arms.census().points, arms.census().legal), (13, 10));
        assert_eq!(arms.census().ruled_out.get("no_fours"), Some(&3));
        assert_eq!(arms.defaults()[0], Point { arm: 0, knobs: Knobs::from([("x", 5)]) });
    }
}
