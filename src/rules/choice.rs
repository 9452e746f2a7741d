//! The point that stands without a measurement: from the default of the table to where the prior sees the shortest
//! time, one or two knobs at a time.

use super::{Knobs, Space};

/// A default is left for one that promises to take less than this part of its time: the prior is not surer.
const WORTH: f64 = 0.9;
/// A step has to promise as much, or it only follows rounding.
const STEP: f64 = 0.99;
/// Steps at most: every one changes two knobs, and there are a dozen.
const STEPS: usize = 16;

/// Points a knob away at most for which pairs of knobs are looked at: kernels in pieces have the knobs of all of
/// them, which were chosen piece by piece.
const MANY: usize = 64;

/// `start`, or the legal point to which steps of one or two knobs lead from there, each to the neighbour with the
/// shortest time. What has no time is left alone.
pub fn improve(space: &Space, start: Knobs, time: impl Fn(&Knobs) -> Option<f64>) -> Knobs {
    let Some(before) = time(&start) else { return start };
    let (mut at, mut best) = (start.clone(), before);
    for _ in 0..STEPS {
        let near = neighbours(space, &at).into_iter().filter_map(|k| Some((time(&k)?, k)));
        match near.min_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((ns, point)) if ns < STEP * best => (at, best) = (point, ns),
            Some(_) | None => break,
        }
    }
    if best < WORTH * before { at } else { start }
}

/// The legal points that differ in one or two knobs, the first ones first.
fn neighbours(space: &Space, at: &Knobs) -> Vec<Knobs> {
    let one = |from: &Knobs, skip: usize| -> Vec<(usize, Knobs)> {
        let knobs = space.knobs.iter().enumerate().skip(skip);
        let moves = knobs.flat_map(|(i, k)| k.values.iter().map(move |v| (i, k, *v)));
        moves.filter(|(_, k, v)| from.get(&k.name) != *v).map(|(i, k, v)| (i, from.with(&k.name, v))).collect()
    };
    let singles = one(at, 0);
    let few = if singles.len() <= MANY { &singles[..] } else { &[] };
    let pairs: Vec<Knobs> = few.iter().flat_map(|(i, k)| one(k, i + 1)).map(|(_, k)| k).collect();
    let all = singles.into_iter().map(|(_, k)| k).chain(pairs);
    all.filter(|k| space.check(k).is_ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Knob;

    fn space() -> Space {
        let knob = |name: &str| Knob { name: name.into(), default: 0, values: (0..8).collect(), ..Knob::default() };
        // Only together do the knobs reach points that are legal.
        let knobs = vec![knob("x"), knob("y"), knob("z")];
        Space::new("test", 1, knobs)
            .require("alike", |k| if k.get("x") == k.get("y") { Ok(()) } else { Err("they differ".into()) })
    }

    fn from(x: i64, z: i64) -> Knobs {
        Knobs::from([("x", x), ("y", x), ("z", z)])
    }

    #[test]
    fn two_knobs_move_together_to_the_shortest_time() {
        let far = |k: &Knobs| Some(100.0 + ((k.get("x") - 5).abs() * 10 + (k.get("z") - 3).abs() * 10) as f64);
        assert_eq!(improve(&space(), from(0, 0), far), from(5, 3));
    }

    #[test]
    fn a_default_stays_where_little_is_promised_or_nothing_known() {
        let little = |k: &Knobs| Some(100.0 - k.get("z") as f64);
        assert_eq!(improve(&space(), from(0, 0), little), from(0, 0));
        assert_eq!(improve(&space(), from(0, 0), |_| None), from(0, 0));
    }
}
