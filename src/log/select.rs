//! Which records answer a question: by workload, extents, target, environment and policy.
//! A record from another architecture, machine or way of measuring never does.

use super::{Env, Policy, Record, Setting};
use std::collections::BTreeMap;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query<'a> {
    /// Workload key.
    pub key: &'a str,
    /// Values of the bound extents.
    pub bind: &'a BTreeMap<String, i64>,
    /// Target id.
    pub target: &'a str,
    /// The machine; `None` takes every machine of the target.
    pub env: Option<&'a Env>,
    /// The way of measuring; `None` takes every one.
    pub policy: Option<&'a Policy>,
}

impl Query<'_> {
    /// True when the record is an answer.
    pub fn matches(&self, r: &Record) -> bool {
        r.workload.key == self.key
            && r.bind == *self.bind
            && r.target == self.target
            && self.env.is_none_or(|e| r.env == *e)
            && self.policy.is_none_or(|p| r.policy == *p)
    }
}

/// The records that answer, in log order.
pub fn select<'a>(records: &'a [Record], query: &Query<'_>) -> Vec<&'a Record> {
    records.iter().filter(|r| query.matches(r)).collect()
}

/// What two records must share so that their times may be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Selection<'a> {
    /// Workload key.
    pub key: &'a str,
    /// Values of the bound extents.
    pub bind: &'a BTreeMap<String, i64>,
    /// Target id.
    pub target: &'a str,
    /// The machine.
    pub env: &'a Env,
    /// The way of measuring.
    pub policy: &'a Policy,
}

/// The records by selection, each group in log order.
pub fn selections<'a>(records: impl IntoIterator<Item = &'a Record>) -> BTreeMap<Selection<'a>, Vec<&'a Record>> {
    let mut out: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
    for r in records {
        out.entry(r.selection()).or_default().push(r);
    }
    out
}

/// What makes two records of one selection speak of the same candidate.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CandidateId {
    /// The rule.
    pub rule: String,
    /// Version of its table.
    pub rule_version: u32,
    /// The point of the space.
    pub knobs: BTreeMap<String, Setting>,
}

impl Record {
    /// The selection that the record belongs to.
    pub fn selection(&self) -> Selection<'_> {
        Selection {
            key: &self.workload.key,
            bind: &self.bind,
            target: &self.target,
            env: &self.env,
            policy: &self.policy,
        }
    }

    /// The candidate that the record is about.
    pub fn candidate(&self) -> CandidateId {
        CandidateId { rule: self.rule.clone(), rule_version: self.rule_version, knobs: self.knobs.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::tests::record;
    use super::super::{Outcome, Workload};
    use super::*;

    /// Every way in which a record may be about something else than `r`.
    fn others(r: &Record) -> Vec<(&'static str, Record)> {
        let env = |change: fn(&mut Env)| {
            let mut other = r.clone();
            change(&mut other.env);
            other
        };
        let policy = |id: &str, flags: &[&str]| {
            let flags = flags.iter().map(|f| f.to_string()).collect();
            Record { policy: Policy { id: id.into(), flags }, ..r.clone() }
        };
        let workload = Workload { key: "f".repeat(32), name: r.workload.name.clone() };
        vec![
            ("workload", Record { workload, ..r.clone() }),
            ("another size", Record { bind: [("n".to_string(), 8)].into(), ..r.clone() }),
            ("no size", Record { bind: BTreeMap::new(), ..r.clone() }),
            ("sm_80", Record { target: "cuda:sm_80".into(), ..r.clone() }),
            ("no suffix", Record { target: "cuda:sm_90".into(), ..r.clone() }),
            ("gpu", env(|e| e.gpu = "NVIDIA H100".into())),
            ("cc", env(|e| e.cc = "9.1".into())),
            ("sms", env(|e| e.sms = 114)),
            ("driver", env(|e| e.driver = "1".into())),
            ("compiler", env(|e| e.nvrtc = "1".into())),
            ("daylight", env(|e| e.daylight = "9".into())),
            ("policy", policy("warm-1", &[])),
            ("policy flags", policy(&r.policy.id, &["fast-math"])),
        ]
    }

    fn query(r: &Record) -> Query<'_> {
        let (env, policy) = (Some(&r.env), Some(&r.policy));
        Query { key: &r.workload.key, bind: &r.bind, target: &r.target, env, policy }
    }

    #[test]
    fn another_architecture_machine_size_or_policy_is_a_miss() {
        let r = record(1, &[1.0]);
        for (what, other) in others(&r) {
            assert!(!query(&r).matches(&other), "{what}");
            assert!(select(std::slice::from_ref(&other), &query(&r)).is_empty(), "{what}");
            assert!(r.selection() != other.selection(), "{what}");
        }
        let named = Record { workload: Workload { name: "other".into(), ..r.workload.clone() }, ..r.clone() };
        assert!(query(&r).matches(&named), "the name is no identity");
    }

    #[test]
    fn asked_for_sm_90a_with_only_sm_80_it_misses() {
        let want = record(1, &[1.0]);
        let log: Vec<Record> = (0..9).map(|x| Record { target: "cuda:sm_80".into(), ..record(x, &[1.0]) }).collect();
        let anywhere = Query { env: None, policy: None, ..query(&want) };
        assert_eq!((select(&log, &query(&want)), select(&log, &anywhere)), (vec![], vec![]));
        assert_eq!(select(&log, &Query { target: "cuda:sm_80", ..query(&want) }).len(), 9);
    }

    #[test]
    fn machine_and_policy_may_be_left_open() {
        let r = record(1, &[1.0]);
        let open = Query { env: None, policy: None, ..query(&r) };
        let found = others(&r).into_iter().filter(|(_, o)| open.matches(o)).count();
        assert_eq!(found, 8); // six of the machine, two of the policy
    }

    #[test]
    fn failures_are_found_as_good_records_are() {
        let good = record(1, &[1.0]);
        let bad = Record { outcome: Outcome::Crashed, reason: Some("died".into()), ..record(2, &[]) };
        let log = [good.clone(), bad.clone()];
        assert_eq!(select(&log, &query(&good)), [&good, &bad]);
        assert_eq!(selections(&log).len(), 1);
    }
}
