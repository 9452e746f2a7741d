//! A record as one line of text with a checksum.
//!
//! The checksum is crc32c over the line's bytes, without the newline, with the eight digits of the
//! `crc32c` field set to zero.

use super::{ErrorNorms, OLDEST, Record, SCHEMA, older};
use serde::Deserialize;
use std::fmt;

const ZEROS: &str = "00000000";
const FIELD: &str = "\"crc32c\":\"";

/// Why a line is not a record.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LineError {
    /// Torn or changed: skipped, the rest of the log stands.
    Damaged(String),
    /// Written by a newer version: the log is refused.
    Newer(u32),
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineError::Damaged(why) => write!(f, "{why}"),
            LineError::Newer(n) => {
                write!(f, "the record has schema {n} and this daylight reads up to {SCHEMA}; update daylight")
            }
        }
    }
}

impl std::error::Error for LineError {}

/// The part of a record that every schema shares.
#[derive(Deserialize)]
struct Head {
    schema: u32,
}

impl Record {
    /// The line, newline included, with the checksum filled in.
    pub fn to_line(&self) -> String {
        let zeroed = self.rounded();
        let mut line = serde_json::to_string(&zeroed).expect("a record holds only what JSON can say");
        let sum = format!("{:08x}", crc32c::crc32c(line.as_bytes()));
        let at = digits(&line).expect("the line holds the checksum field").start;
        line.replace_range(at..at + ZEROS.len(), &sum);
        line.push('\n');
        line
    }

    /// The record with a zeroed checksum and floats of nine digits, which print and parse to the same
    /// bits in every JSON library.
    fn rounded(&self) -> Record {
        let mut r = Record { crc32c: ZEROS.into(), ..self.clone() };
        r.samples_ns.iter_mut().for_each(|s| *s = nine_digits(*s).unwrap_or(0.0));
        r.err = r.err.map(|e| ErrorNorms { l2: e.l2.and_then(nine_digits), max: e.max.and_then(nine_digits) });
        r.floor_us = r.floor_us.and_then(nine_digits);
        r.score = r.score.and_then(nine_digits);
        r
    }

    /// Reads a line, with or without its newline. A line of an older layout gives the record that
    /// this version would have written.
    ///
    /// # Errors
    /// [`LineError::Damaged`] for a line that is torn, changed or no record,
    /// [`LineError::Newer`] for an intact line of a later schema.
    pub fn from_line(line: &str) -> Result<Record, LineError> {
        let line = line.trim_end_matches(['\n', '\r']);
        check_sum(line)?;
        let damaged = |e: serde_json::Error| LineError::Damaged(format!("not a record: {e}"));
        let head: Head = serde_json::from_str(line).map_err(damaged)?;
        let record: Record = match head.schema {
            OLDEST..=SCHEMA => serde_json::from_str(line).map_err(damaged)?,
            newer => return Err(LineError::Newer(newer)),
        };
        Ok(if record.schema == SCHEMA { record } else { record.upgraded() })
    }

    /// The record of an older layout as this version would have written it.
    fn upgraded(mut self) -> Record {
        self.schema = SCHEMA;
        self.knobs = older::present(&self.knobs);
        let line = self.to_line();
        self.crc32c = digits(&line).map(|at| line[at].to_string()).unwrap_or_default();
        self
    }
}

/// The number with the digits that the log keeps; `None` for what is not finite, which JSON cannot say.
pub(super) fn nine_digits(x: f64) -> Option<f64> {
    x.is_finite().then(|| format!("{x:.8e}").parse().expect("a printed float parses"))
}

fn check_sum(line: &str) -> Result<(), LineError> {
    let Some(range) = digits(line) else {
        let what = if line.ends_with('}') { "it has no checksum" } else { "the line is torn" };
        return Err(LineError::Damaged(what.into()));
    };
    let mut zeroed = line.to_string();
    zeroed.replace_range(range.clone(), ZEROS);
    let sum = format!("{:08x}", crc32c::crc32c(zeroed.as_bytes()));
    if sum == line[range] {
        return Ok(());
    }
    let what = if line.ends_with('}') { "its checksum does not match" } else { "the line is torn" };
    Err(LineError::Damaged(what.into()))
}

/// Where the eight digits of the checksum stand.
fn digits(line: &str) -> Option<std::ops::Range<usize>> {
    let start = line.find(FIELD)? + FIELD.len();
    let range = start..start + ZEROS.len();
    let text = line.get(range.clone())?;
    text.bytes().all(|b| b.is_ascii_hexdigit()).then_some(range)
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
