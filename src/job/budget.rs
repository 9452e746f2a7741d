//! Shares a time limit among functions: by how often each is called and how far it is from the best
//! that the hardware could do.

/// What is known of a function before its turn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Claim {
    /// Calls per step.
    pub calls: f64,
    /// Time of the untuned choice in microseconds.
    pub default_us: Option<f64>,
    /// Time that a good kernel needs in microseconds.
    pub floor_us: Option<f64>,
}

/// Even a function that is at its floor gets this share of its time's weight: floors are estimates.
const LEAST_GAP: f64 = 0.02;

impl Claim {
    /// Microseconds per step that tuning may save: calls times the gap between default and floor.
    /// Without a floor the whole time counts, without a time nothing is known and nothing claimed.
    pub fn gain(&self) -> f64 {
        let Some(default) = self.default_us else { return 0.0 };
        let gap = default - self.floor_us.unwrap_or(0.0);
        self.calls * gap.max(LEAST_GAP * default)
    }
}

/// The order in which functions take their turns, largest gain first; ties in the given order.
pub fn order(claims: &[Claim]) -> Vec<usize> {
    let mut turns: Vec<usize> = (0..claims.len()).collect();
    turns.sort_by(|a, b| claims[*b].gain().total_cmp(&claims[*a].gain()).then(a.cmp(b)));
    turns
}

/// Seconds for the first of the functions still to come, of `left` seconds for all of them. What it does
/// not use goes to the later ones. Where nothing may be gained all get the same.
pub fn share(left: f64, to_come: &[Claim]) -> f64 {
    let all: f64 = to_come.iter().map(Claim::gain).sum();
    let Some(first) = to_come.first() else { return 0.0 };
    let part = if all > 0.0 { first.gain() / all } else { 1.0 / to_come.len() as f64 };
    left.max(0.0) * part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(calls: f64, default: f64, floor: f64) -> Claim {
        Claim { calls, default_us: Some(default), floor_us: Some(floor) }
    }

    #[test]
    fn time_goes_where_it_may_be_gained() {
        let claims = [claim(1.0, 110.0, 100.0), claim(32.0, 20.0, 10.0), claim(1.0, 50.0, 20.0)];
        assert_eq!(claims.map(|c| c.gain()), [10.0, 320.0, 30.0]);
        assert_eq!(order(&claims), [1, 2, 0]);
        let turns: Vec<Claim> = order(&claims).into_iter().map(|i| claims[i]).collect();
        assert_eq!(share(36.0, &turns), 32.0);
        assert_eq!(share(4.0, &turns[1..]), 3.0);
        assert_eq!(share(1.0, &turns[2..]), 1.0);
    }

    #[test]
    fn what_is_at_its_floor_or_unknown_claims_little() {
        assert_eq!(claim(1.0, 90.0, 100.0).gain(), 1.8);
        let unknown = Claim { calls: 9.0, default_us: None, floor_us: None };
        assert_eq!(unknown.gain(), 0.0);
        assert_eq!(share(10.0, &[unknown, unknown]), 5.0);
        assert_eq!(share(10.0, &[]), 0.0);
        assert_eq!(share(-1.0, &[unknown]), 0.0);
    }
}
