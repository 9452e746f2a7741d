//! What is searched: one arm for each rule that takes the function, and the points of its space.

use crate::rules::{Knobs, Space};
use std::fmt;

/// The knob spaces of one function, one per rule that takes it. The default of the first arm is the
/// untuned choice, candidate 0.
pub struct Arms(pub Vec<Space>);

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
    /// The default point of every arm that has one, candidate 0 first.
    pub fn defaults(&self) -> Vec<Point> {
        let points = self.0.iter().enumerate();
        points.filter_map(|(arm, s)| Some(Point { arm, knobs: s.default()? })).collect()
    }

    /// Points of all arms together, legal or not.
    pub fn size(&self) -> u64 {
        self.0.iter().map(Space::size).fold(0, u64::saturating_add)
    }

    /// Every legal point, arm by arm.
    pub fn points(&self) -> impl Iterator<Item = Point> + '_ {
        self.0.iter().enumerate().flat_map(|(arm, s)| s.points().map(move |knobs| Point { arm, knobs }))
    }

    /// The point of that number over all arms, legal or not.
    pub fn point(&self, mut number: u64) -> Option<Point> {
        for (arm, space) in self.0.iter().enumerate() {
            if number < space.size() {
                return Some(Point { arm, knobs: space.point(number) });
            }
            number -= space.size();
        }
        None
    }

    /// True when the point breaks no condition of its space.
    pub fn is_legal(&self, point: &Point) -> bool {
        self.0[point.arm].check(&point.knobs).is_ok()
    }

    /// Legal points one step of one knob away.
    pub fn neighbours(&self, point: &Point) -> Vec<Point> {
        let near = self.0[point.arm].neighbours(&point.knobs);
        near.into_iter().map(|knobs| Point { arm: point.arm, knobs }).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::rules::Knob;

    /// Two arms: `x` in 0..10 without the multiples of 4 (default 5), and `y` in 0..3 (default 0).
    pub fn arms() -> Arms {
        let knob = |name: &str, default, n: i64| Knob {
            name: name.into(),
            unit: String::new(),
            meaning: String::new(),
            default,
            values: (0..n).collect(),
        };
        let x = Space::new("first", 1, vec![knob("x", 5, 10)])
            .require("no_fours", |k| if k.get("x") % 4 == 0 { Err("a multiple of 4".into()) } else { Ok(()) });
        Arms(vec![x, Space::new("second", 1, vec![knob("y", 0, 3)])])
    }

    #[test]
    fn points_of_all_arms() {
        let arms = arms();
        assert_eq!(arms.size(), 13);
        assert_eq!(arms.points().count(), 10);
        assert_eq!(arms.defaults()[0], Point { arm: 0, knobs: Knobs::from([("x", 5)]) });
        assert_eq!(arms.point(11), Some(Point { arm: 1, knobs: Knobs::from([("y", 1)]) }));
        assert_eq!(arms.point(13), None);
    }
}
