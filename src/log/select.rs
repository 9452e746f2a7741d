//! Which records answer a question: by workload, extents, target, environment and policy.
//! A record from another architecture, machine or way of measuring never does.

use super::{Env, Policy, Record};
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

/// What makes two records of one selection speak of the same candidate.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CandidateId {
    /// The rule.
    pub rule: String,
    /// Version of its table.
    pub rule_version: u32,
    /// The point of the space.
    pub knobs: BTreeMap<String, i64>,
}

impl Record {
    /// The candidate that the record is about.
    pub fn candidate(&self) -> CandidateId {
        CandidateId { rule: self.rule.clone(), rule_version: self.rule_version, knobs: self.knobs.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::tests::record;
    use super::*;

    #[test]
    fn another_architecture_machine_size_or_policy_is_a_miss() {
        let r = record(1, &[1.0]);
        let bind = r.bind.clone();
        let key = r.workload.key.clone();
        let q = Query { key: &key, bind: &bind, target: "cuda:sm_90a", env: Some(&r.env), policy: Some(&r.policy) };
        assert!(q.matches(&r));
        assert!(!q.matches(&Record { target: "cuda:sm_80".into(), ..r.clone() }));
        assert!(!q.matches(&Record { bind: [("n".to_string(), 8)].into(), ..r.clone() }));
        let other = Env { driver: "1".into(), ..r.env.clone() };
        assert!(!q.matches(&Record { env: other.clone(), ..r.clone() }));
        assert!(Query { env: None, ..q.clone() }.matches(&Record { env: other, ..r.clone() }));
        let warm = Policy { id: "warm".into(), flags: vec![] };
        assert!(!q.matches(&Record { policy: warm, ..r.clone() }));
    }
}
