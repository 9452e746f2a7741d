//! Failures grouped by reason, for `daylight log show --losers`.

use crate::log::{Outcome, Record};
use std::collections::BTreeMap;

/// Failures of one kind.
pub struct Group<'a> {
    pub outcome: Outcome,
    /// What the reasons have in common: the name of the predicate that ruled the candidates out, or the
    /// first line with `#` in place of numbers.
    pub reason: String,
    pub count: usize,
    /// The first of them.
    pub example: &'a Record,
}

/// The failures by outcome and reason, most frequent first.
pub fn groups<'a>(records: &[&'a Record]) -> Vec<Group<'a>> {
    let mut found: BTreeMap<(Outcome, String), (usize, &Record)> = BTreeMap::new();
    for r in records.iter().filter(|r| !matches!(r.outcome, Outcome::Ok | Outcome::Predicted)) {
        found.entry((r.outcome, kind(r))).or_insert((0, r)).0 += 1;
    }
    let group = |((outcome, reason), (count, example))| Group { outcome, reason, count, example };
    let mut out: Vec<Group> = found.into_iter().map(group).collect();
    out.sort_by_key(|g| std::cmp::Reverse(g.count));
    out
}

fn kind(r: &Record) -> String {
    let first = r.reason.as_deref().and_then(|text| text.lines().next()).unwrap_or("no reason given");
    match (r.outcome, first.split_once(": ")) {
        (Outcome::Pruned, Some((predicate, _))) => predicate.to_string(),
        _ => without_numbers(first),
    }
}

/// The text with each number, and each word that starts like one, as `#`.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let continues = out.ends_with(|p: char| p.is_alphanumeric() || p == '_');
        if c.is_ascii_digit() && !continues {
            while rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '.').is_some() {}
            out.push('#');
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::without_numbers;

    #[test]
    fn numbers_do_not_tell_reasons_apart() {
        assert_eq!(
            without_numbers("parameter 1 holds -3.5e7 where 2 was expected"),
            "parameter # holds -# where # was expected"
        );
        assert_eq!(without_numbers("kernel_2 at 0x7ffe: sm_90a"), "kernel_2 at #: sm_90a");
        assert_eq!(without_numbers(""), "");
    }
}
