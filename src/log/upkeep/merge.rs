//! The union of several logs: commutative, associative, idempotent.

use crate::log::{LogFile, Record};

/// One log with every record of the inputs once, in an order that depends on the records alone.
/// Identity is the whole line, so nothing is lost.
pub fn merge(logs: &[LogFile]) -> Vec<Record> {
    let mut lines: Vec<(&Record, String)> = logs.iter().flat_map(|l| &l.records).map(|r| (r, r.to_line())).collect();
    lines.sort_by(|(a, la), (b, lb)| (a.unix_s, &a.workload.key, la).cmp(&(b.unix_s, &b.workload.key, lb)));
    lines.dedup_by(|(_, a), (_, b)| a == b);
    lines.into_iter().map(|(r, _)| r.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::line::tests::record;

    fn log(records: Vec<Record>) -> LogFile {
        LogFile { records, skipped: vec![] }
    }

    #[test]
    fn merging_is_a_semilattice() {
        let at = |x: i64, unix_s| Record { unix_s, ..record(x, &[x as f64]) };
        let a = log(vec![at(1, 30), at(2, 10)]);
        let b = log(vec![at(2, 10), at(3, 20)]);
        let c = log(vec![at(4, 5), at(1, 30)]);
        let m = |logs: &[&LogFile]| log(merge(&logs.iter().map(|&l| l.clone()).collect::<Vec<_>>()));
        let ab = m(&[&a, &b]);
        assert_eq!(ab.records.len(), 3);
        assert_eq!(ab.records, m(&[&b, &a]).records);
        assert_eq!(m(&[&ab, &c]).records, m(&[&a, &m(&[&b, &c])]).records);
        assert_eq!(m(&[&ab, &ab]).records, ab.records);
        assert_eq!(m(&[&ab]).records, ab.records);
    }
}
