//! What a line may hold: a record that is complete in itself, or (`brief`) one that refers to other lines, or what is
//! referred to.

use super::brief::{Brief, Shared};
use super::seal::{LineError, ZEROS, check_sum, digits, not_a_record, sealed};
use super::stats::rounded;
use super::{ErrorNorms, OLDEST, Record, SCHEMA, older};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// What a line holds.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Line {
    /// A record that is complete in itself.
    Whole(Box<Record>),
    /// A record that refers to what it shares with others.
    Brief(Brief),
    /// What records refer to.
    Shared(Shared),
}

/// The part of a line that every schema shares, and what tells one kind from another.
#[derive(Deserialize)]
struct Head {
    schema: Option<u32>,
    of: Option<IgnoredAny>,
    id: Option<IgnoredAny>,
}

/// Reads a line, with or without its newline.
///
/// # Errors
/// As [`Record::from_line`].
pub(super) fn parse(line: &str) -> Result<Line, LineError> {
    let line = line.trim_end_matches(['\n', '\r']);
    check_sum(line)?;
    let head: Head = json(line)?;
    Ok(match (head.schema, head.of, head.id) {
        // Its layout is that of the line that it refers to.
        (None, Some(_), _) => Line::Brief(json(line)?),
        (Some(SCHEMA), _, Some(_)) => Line::Shared(json(line)?),
        (Some(SCHEMA), ..) => Line::Whole(Box::new(json(line)?)),
        (Some(OLDEST..SCHEMA), ..) => Line::Whole(Box::new(json::<Record>(line)?.upgraded())),
        (Some(newer), ..) => return Err(LineError::Newer(newer)),
        (None, None, _) => return Err(not_a_record("it has no `schema`")),
    })
}

fn json<T: DeserializeOwned>(line: &str) -> Result<T, LineError> {
    serde_json::from_str(line).map_err(|e| not_a_record(&e.to_string()))
}

impl Record {
    /// The record as a line that is complete in itself, newline included, with the checksum filled in. Log files hold
    /// shorter ones.
    pub fn to_line(&self) -> String {
        let record = self.rounded();
        sealed(|crc32c| Record { crc32c, ..record.clone() })
    }

    /// The record with a zeroed checksum and floats of nine digits, which print and parse to the same
    /// bits in every JSON library.
    pub(super) fn rounded(&self) -> Record {
        let mut r = Record { crc32c: ZEROS.into(), ..self.clone() };
        r.samples_ns.iter_mut().for_each(|s| *s = nine_digits(*s).unwrap_or(0.0));
        r.err = r.err.map(|e| ErrorNorms { l2: e.l2.and_then(nine_digits), max: e.max.and_then(nine_digits) });
        r.floor_us = r.floor_us.and_then(nine_digits);
        r.score = r.score.and_then(nine_digits);
        r
    }

    /// Reads a line that is complete in itself, with or without its newline. A line of an older layout gives the record
    /// that this version would have written.
    ///
    /// # Errors
    /// [`LineError::Damaged`] for a line that is torn, changed or no complete record,
    /// [`LineError::Newer`] for an intact line of a later schema.
    pub fn from_line(line: &str) -> Result<Record, LineError> {
        match parse(line)? {
            Line::Whole(record) => Ok(*record),
            Line::Brief(_) | Line::Shared(_) => Err(not_a_record("it is a part of one")),
        }
    }

    /// The record of an older layout as this version would have written it.
    fn upgraded(mut self) -> Record {
        self.schema = SCHEMA;
        self.knobs = older::present(&self.knobs);
        self.with_checksum()
    }

    /// The record with the checksum of its line.
    pub(super) fn with_checksum(mut self) -> Record {
        let line = self.to_line();
        self.crc32c = digits(&line).map(|at| line[at].to_string()).unwrap_or_default();
        self
    }
}

/// The number with the digits that the log keeps; `None` for what is not finite, which JSON cannot say.
pub(super) fn nine_digits(x: f64) -> Option<f64> {
    rounded(x, 9)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::*;
    use super::*;

    /// A plain good record: candidate `x` with these samples.
    pub fn record(x: i64, samples_ns: &[f64]) -> Record {
        let workload = Workload { key: "0123456789abcdef0123456789abcdef".into(), name: "mean".into() };
        Record {
            env: Env { gpu: "NVIDIA H200".into(), cc: "9.0".into(), sms: 132, ..Env::default() },
            policy: Policy { id: "cold-l2-graph-1".into(), flags: vec![] },
            rule: "reduction.inner".into(),
            rule_version: 1,
            knobs: [("threads".to_string(), x.into())].into(),
            trace: vec!["split(i1, [None, 4])".into()],
            source_hash: Some(format!("{x:032x}")),
            cubin_hash: Some(format!("{x:032x}")),
            res: Some(Resources { regs: 32, spill: 0, smem: 0 }),
            samples_ns: samples_ns.to_vec(),
            err: Some(ErrorNorms { l2: Some(1e-7), max: Some(1e-6) }),
            unix_s: 1_700_000_000,
            floor_us: Some(10.0),
            ..Record::new(workload, [("n".to_string(), 512)].into(), "cuda:sm_90a", Outcome::Ok)
        }
    }

    #[test]
    fn a_line_reads_back() {
        let r =
            Record { reason: Some("a \"crc32c\":\"12345678\" in text\nand a newline".into()), ..record(64, &[1.5]) };
        let line = r.to_line();
        assert_eq!(line.matches('\n').count(), 1);
        let back = Record::from_line(&line).unwrap();
        assert_eq!(Record { crc32c: String::new(), ..back.clone() }, r);
        assert_eq!(back.to_line(), line);
    }

    #[test]
    fn fields_that_are_absent_leave_no_trace() {
        let plain = record(64, &[1.5]).to_line();
        assert!(!plain.contains("state") && !plain.contains("score"), "{plain}");
        let state = DeviceState { sm_mhz: 1980, throttle: vec!["sw_power_cap".into()], ..DeviceState::default() };
        let full = Record { state: Some(state), score: Some(1.0 / 3.0), ..record(64, &[1.5]) };
        let back = Record::from_line(&full.to_line()).unwrap();
        assert_eq!((&back.state, back.score), (&full.state, Some(0.333333333)));
        assert_eq!(back.to_line(), full.to_line());
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_noticed() {
        let line = record(64, &[1.5, 2.5]).to_line();
        let line = line.trim_end();
        for cut in 0..line.len() {
            assert!(matches!(Record::from_line(&line[..cut]), Err(LineError::Damaged(_))), "cut at {cut}");
        }
        for at in 0..line.len() {
            let mut bytes = line.as_bytes().to_vec();
            bytes[at] ^= 1;
            if let Ok(text) = String::from_utf8(bytes) {
                assert!(Record::from_line(&text).is_err(), "flip at {at}");
            }
        }
    }

    #[test]
    fn floats_survive_any_number_of_round_trips() {
        let samples: Vec<f64> = (1..200).map(|i| 1e6 / i as f64).collect();
        let err = ErrorNorms { l2: Some(1.0 / 3e7), max: Some(f64::NAN) };
        let line = Record { err: Some(err), ..record(1, &samples) }.to_line();
        assert_eq!(Record::from_line(&line).unwrap().to_line(), line);
        assert_eq!(Record::from_line(&line).unwrap().err.unwrap().max, None);
    }

    #[test]
    fn a_newer_schema_is_named() {
        let line = Record { schema: SCHEMA + 1, ..record(64, &[1.0]) }.to_line();
        let e = Record::from_line(&line).unwrap_err();
        assert_eq!(e, LineError::Newer(SCHEMA + 1));
        assert!(e.to_string().contains("update daylight"));
    }

    #[test]
    fn outcomes_are_named_as_in_the_log() {
        for o in Outcome::ALL {
            assert_eq!(serde_json::to_string(&o).unwrap(), format!("\"{}\"", o.name()));
        }
    }
}
