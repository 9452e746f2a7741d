//! The point that stands without a measurement: the default of the table of the first rule that takes the function, or
//! the point, or the rule, of which the prior promises much more.

use super::prior::learned::CHOICES;
use super::{Knobs, Space};

/// A default is left for one that promises to take less than this part of its time: the prior is not surer, and
/// a default of the table has been measured more often than most points.
const WORTH: f64 = 0.98;

/// The same for the default of another rule than the first that takes a function. What rules do is less alike than points
/// of one are, and the prior less sure of it (docs/search.md).
const WORTH_OF_A_RULE: f64 = 0.6;
/// The same where both are products in tiles on tensor cores, whose times one model promises.
const WORTH_OF_TILES: f64 = 0.8;

/// The same where trees that were grown from measured candidates judge the defaults.
const WORTH_OF_A_JUDGE: f64 = 0.95;

/// How many points of a rule a judge looks at, in the order of the prior: those of shared times, too, since a judge may tell them
/// apart.
const FIRST: usize = 200;
/// In how many knobs points differ at most that it looks at next to the best of those.
const NEAR: usize = 3;

/// Says how long a point takes, in any unit or its logarithm; nothing of points that it does not know.
pub type Judge<'a> = &'a dyn Fn(&Knobs) -> Option<f64>;

/// Position of the rule whose default stands, by what a judge says of each.
pub fn judged(first: f64, others: impl IntoIterator<Item = Option<f64>>) -> usize {
    shortest(WORTH_OF_A_JUDGE * first, others)
}

/// Position of the first rule, or of the shortest time below `most`.
fn shortest(most: f64, others: impl IntoIterator<Item = Option<f64>>) -> usize {
    let timed = others.into_iter().enumerate().filter_map(|(i, ns)| Some((ns?, i + 1)));
    timed.filter(|(ns, _)| *ns < most).min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |(_, at)| at)
}

/// Position of the rule whose default stands: the first, or the one whose default takes much less than that of the first.
/// `first` and `others` are what the prior promises in nanoseconds; where nobody can tell the time of the first, it stands,
/// and one without a time takes no part. `tiled` says that all of them are products in tiles.
pub fn rule(first: Option<f64>, others: impl IntoIterator<Item = Option<f64>>, tiled: bool) -> usize {
    let Some(before) = first else { return 0 };
    let worth = if tiled { WORTH_OF_TILES } else { WORTH_OF_A_RULE };
    shortest(worth * before, others)
}

/// `start`, or the legal point with the shortest time where that is much shorter; of several, the one that differs in
/// the fewest knobs. A start that has no time is left alone. A `judge` takes the shortest of the first points and of those near it,
/// unless it says nothing of the one that stands; after it come some of which it says the next shortest times.
pub fn improve(space: &Space, start: Knobs, time: impl Fn(&Knobs) -> Option<f64>, judge: Option<Judge>) -> Vec<Knobs> {
    let Some(before) = time(&start) else { return vec![start] };
    let points = space.points();
    let mut timed: Vec<(f64, usize, &Knobs)> =
        points.iter().filter_map(|k| Some((time(k)?, differ(k, &start), k))).collect();
    timed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let shortest = timed.first().filter(|(ns, ..)| *ns < WORTH * before);
    let stands = shortest.map_or(&start, |(.., point)| *point);
    let Some((judge, promised)) = judge.and_then(|judge| Some((judge, judge(stands)?))) else {
        return vec![stands.clone()];
    };
    let points: Vec<&Knobs> = timed.into_iter().map(|(.., k)| k).collect();
    climbed((promised, stands), &points, judge).into_iter().cloned().collect()
}

/// The point of which a judge says the shortest time: of `stands`, of which it says that time, and the first of `points`; then of
/// those near the best, as long as one of them is better. After it the next best of all that were looked at.
fn climbed<'a>(stands: (f64, &'a Knobs), points: &[&'a Knobs], judge: Judge) -> Vec<&'a Knobs> {
    let mut said: Vec<Option<Option<f64>>> = vec![None; points.len()];
    let mut shortest = |among: &mut dyn Iterator<Item = usize>, before: (f64, &'a Knobs)| {
        among.fold(before, |best, i| match *said[i].get_or_insert_with(|| judge(points[i])) {
            Some(time) if time < best.0 => (time, points[i]),
            _ => best,
        })
    };
    let mut best = shortest(&mut (0..points.len().min(FIRST)), stands);
    loop {
        let mut near = (0..points.len()).filter(|i| differ(points[*i], best.1) <= NEAR);
        let next = shortest(&mut near, best);
        if next.0 == best.0 {
            break;
        }
        best = next;
    }
    let said = points.iter().zip(said).filter_map(|(k, said)| Some((said??, *k)));
    let mut others: Vec<(f64, &Knobs)> = [stands].into_iter().chain(said).collect();
    others.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut out = vec![best.1];
    for (_, k) in others {
        if out.len() < CHOICES && !out.contains(&k) {
            out.push(k);
        }
    }
    out
}

/// In how many knobs points of one space differ.
fn differ(a: &Knobs, b: &Knobs) -> usize {
    a.0.values().zip(b.0.values()).filter(|(a, b)| a != b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Knob;

    fn first(space: &Space, start: Knobs, time: impl Fn(&Knobs) -> Option<f64>, judge: Option<Judge>) -> Knobs {
        improve(space, start, time, judge).remove(0)
    }

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
    fn the_shortest_time_wins_and_knobs_that_do_not_matter_stay() {
        let far = |k: &Knobs| Some(100.0 + ((k.get("x") - 5).abs() * 10) as f64);
        assert_eq!(first(&space(), from(0, 3), far, None), from(5, 3));
    }

    #[test]
    fn a_judge_chooses_among_the_first_and_those_near() {
        let knob = |name: &str| Knob { name: name.into(), default: 0, values: (0..10).collect(), ..Knob::default() };
        let space = Space::new("test", 1, ["a", "b", "c", "d"].map(knob).to_vec());
        let at = |a, b, c, d| Knobs::from([("a", a), ("b", b), ("c", c), ("d", d)]);
        let sum = |k: &Knobs| k.0.values().sum::<i64>() as f64;
        let time = |k: &Knobs| Some(100.0 - sum(k));
        // Those with the largest sums come first; a judge that turns the order round goes on from these to the other end.
        let turned = |k: &Knobs| Some(10.0 + sum(k));
        assert_eq!(first(&space, at(9, 9, 9, 9), time, Some(&turned)), at(0, 0, 0, 0));
        // One good point is found three knobs away, and not four.
        let good = |good: Knobs| move |k: &Knobs| Some(if *k == good { 1.0 } else { 50.0 });
        assert_eq!(first(&space, at(9, 9, 9, 9), time, Some(&good(at(9, 0, 0, 0)))), at(9, 0, 0, 0));
        assert_eq!(first(&space, at(9, 9, 9, 9), time, Some(&good(at(0, 0, 0, 0)))), at(9, 9, 9, 9));
        let knob = Knob { name: "x".into(), default: 0, values: (0..1000).collect(), ..Knob::default() };
        let space = Space::new("test", 1, vec![knob]);
        let at = |x: i64| Knobs::from([("x", x)]);
        let time = |k: &Knobs| Some((2000 - k.get("x")) as f64);
        let turned = |k: &Knobs| Some((10 + k.get("x")) as f64);
        // Where all are near each other, it goes on from the first to the last.
        assert_eq!(first(&space, at(0), time, Some(&turned)), at(0));
        // One that promises less of none, or says nothing of what stands, changes nothing.
        let alike = |_: &Knobs| Some(1e4);
        let silent = |k: &Knobs| turned(k).filter(|_| k.get("x") != 999);
        assert_eq!(first(&space, at(0), time, Some(&alike)), at(999));
        assert_eq!(first(&space, at(0), time, Some(&silent)), at(999));
        // Points of one time are told apart.
        let alike = |_: &Knobs| Some(100.0);
        assert_eq!(first(&space, at(3), alike, Some(&turned)), at(0));
    }

    #[test]
    fn the_next_best_come_after_the_best() {
        let knob = Knob { name: "x".into(), default: 0, values: (0..1000).collect(), ..Knob::default() };
        let space = Space::new("test", 1, vec![knob]);
        let at = |x: i64| Knobs::from([("x", x)]);
        let time = |k: &Knobs| Some((2000 - k.get("x")) as f64);
        let odd = |k: &Knobs| Some((10 + k.get("x")) as f64).filter(|_| k.get("x") % 2 == 1);
        let choices = improve(&space, at(0), time, Some(&odd));
        assert_eq!(choices, (0..16).map(|i| at(2 * i + 1)).collect::<Vec<_>>());
        // Nothing but what stands where nobody judges, and what stands among them where it is one of the best.
        assert_eq!(improve(&space, at(0), time, None), [at(999)]);
        let equal = |_: &Knobs| Some(1.0);
        let choices = improve(&space, at(999), time, Some(&equal));
        assert_eq!((choices.len(), &choices[..2]), (CHOICES, &[at(999), at(998)][..]));
    }

    #[test]
    fn another_rule_has_to_promise_much_more() {
        assert_eq!(rule(Some(10.0), [Some(7.0), Some(5.0), Some(4.0)], false), 3);
        assert_eq!(rule(Some(10.0), [Some(7.0), None, Some(12.0)], false), 0);
        assert_eq!(rule(Some(10.0), [Some(7.0), None, Some(12.0)], true), 1);
        assert_eq!(rule(None, [Some(1.0)], true), 0);
        assert_eq!((judged(10.0, [Some(9.6), None, Some(11.0)]), judged(10.0, [Some(9.5), None, Some(8.0)])), (0, 3));
        assert_eq!((rule(Some(10.0), [None], true), rule(Some(10.0), [], true)), (0, 0));
    }

    #[test]
    fn a_default_stays_where_little_is_promised_or_nothing_known() {
        let little = |k: &Knobs| Some(1000.0 - k.get("z") as f64);
        assert_eq!(first(&space(), from(0, 0), little, None), from(0, 0));
        assert_eq!(first(&space(), from(0, 0), |_| None, None), from(0, 0));
    }
}
