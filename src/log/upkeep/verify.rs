//! What is wrong with a log: damaged lines, layouts of the future, fields that contradict each other.

use crate::log::scan::scan;
use crate::log::{Outcome, Record, Skipped, files};
use std::path::Path;

/// What a check of a log found.
#[derive(Clone, Default, Debug)]
pub struct Checked {
    /// Intact records, those with problems included.
    pub records: usize,
    /// Each problem with its file and line.
    pub problems: Vec<Skipped>,
}

/// Checks every line of a log, a file or a folder: its checksum, its layout, and that its outcome
/// agrees with its fields.
///
/// # Errors
/// A sentence when a file cannot be read.
pub fn verify(path: &Path) -> Result<Checked, String> {
    let mut checked = Checked::default();
    for file in files(path)? {
        for (line, found) in scan(&file)? {
            let whys = match found {
                Ok(record) => {
                    checked.records += 1;
                    record.problems()
                }
                Err(e) => vec![e.to_string()],
            };
            checked.problems.extend(whys.into_iter().map(|why| Skipped { file: file.clone(), line, why }));
        }
    }
    Ok(checked)
}

impl Record {
    /// Contradictions between the record's fields, one sentence each; none in what Daylight writes.
    pub fn problems(&self) -> Vec<String> {
        let outcome = self.outcome.name();
        let timed = self.outcome == Outcome::Ok;
        let predicted = self.outcome == Outcome::Predicted;
        let not_finite = self.err.is_some_and(|e| e.l2.is_none() || e.max.is_none());
        let key = &self.workload.key;
        let checks = [
            (timed && self.samples_ns.is_empty(), "the outcome is ok, but there are no samples".to_string()),
            (!timed && !self.samples_ns.is_empty(), format!("the outcome is {outcome}, but there are samples")),
            (self.samples_ns.iter().any(|s| *s <= 0.0), "a sample is not above 0".to_string()),
            (timed && not_finite, "the outcome is ok, but the error is not finite".to_string()),
            (predicted && self.score.is_none(), "the outcome is predicted, but there is no score".to_string()),
            (!predicted && self.score.is_some(), format!("the outcome is {outcome}, but there is a score")),
            (timed && self.reason.is_some(), "the outcome is ok, but there is a reason for failure".to_string()),
            (
                !timed && !predicted && self.reason.is_none(),
                format!("the outcome is {outcome}, but there is no reason for it"),
            ),
            (
                key.len() != 32 || !key.bytes().all(|b| b.is_ascii_hexdigit()),
                format!("the workload's key \"{key}\" is not of 32 hexadecimal digits"),
            ),
        ];
        checks.into_iter().filter(|(bad, _)| *bad).map(|(_, why)| why).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::line::tests::record;
    use crate::log::{ErrorNorms, SCHEMA, Workload};

    #[test]
    fn good_records_have_no_problems() {
        let failed = |outcome| Record { outcome, reason: Some("why".into()), ..record(1, &[]) };
        let mut good = vec![record(1, &[5.0])];
        good.extend(Outcome::ALL.into_iter().filter(|o| !matches!(o, Outcome::Ok | Outcome::Predicted)).map(failed));
        good.push(Record { outcome: Outcome::Predicted, score: Some(0.5), ..record(1, &[]) });
        for r in good {
            assert_eq!(r.problems(), Vec::<String>::new(), "{}", r.outcome.name());
        }
    }

    #[test]
    fn each_contradiction_is_named() {
        let ok = || record(1, &[5.0]);
        let crashed = || Record { outcome: Outcome::Crashed, reason: Some("died".into()), ..record(1, &[]) };
        let predicted = || Record { outcome: Outcome::Predicted, score: Some(0.5), ..record(1, &[]) };
        let nan = Some(ErrorNorms { l2: Some(0.0), max: None });
        let cases = [
            (Record { samples_ns: vec![], ..ok() }, "ok, but there are no samples"),
            (Record { samples_ns: vec![0.0], ..ok() }, "a sample is not above 0"),
            (Record { err: nan, ..ok() }, "the error is not finite"),
            (Record { reason: Some("?".into()), ..ok() }, "there is a reason for failure"),
            (Record { score: Some(1.0), ..ok() }, "ok, but there is a score"),
            (Record { samples_ns: vec![1.0], ..crashed() }, "crashed, but there are samples"),
            (Record { reason: None, ..crashed() }, "crashed, but there is no reason"),
            (Record { samples_ns: vec![1.0], ..predicted() }, "predicted, but there are samples"),
            (Record { score: None, ..predicted() }, "predicted, but there is no score"),
            (Record { workload: Workload::default(), ..ok() }, "the workload's key \"\" is not of 32"),
        ];
        for (r, says) in cases {
            let found = r.problems();
            assert!(found.len() == 1 && found[0].contains(says), "{says}: {found:?}");
        }
    }

    #[test]
    fn problems_have_file_and_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let lines = [
            record(1, &[5.0]).to_line(),
            "garbage\n".into(),
            Record { schema: SCHEMA + 1, ..record(2, &[5.0]) }.to_line(),
            record(3, &[]).to_line(),
        ];
        std::fs::write(&path, lines.concat()).unwrap();
        let checked = verify(&path).unwrap();
        assert_eq!(checked.records, 2);
        let found: Vec<usize> = checked.problems.iter().map(|p| p.line).collect();
        assert_eq!(found, [2, 3, 4]);
        assert!(checked.problems[1].why.contains("schema 4") && checked.problems[2].why.contains("no samples"));
    }
}
