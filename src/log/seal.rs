//! Lines of text with a checksum.
//!
//! The checksum is crc32c over the line's bytes, without the newline, with the eight digits of the
//! `crc32c` field set to zero.

use super::record::SCHEMA;
use serde::Serialize;
use std::fmt;

pub(super) const ZEROS: &str = "00000000";
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

/// The line, newline included, of what `with` gives for a checksum.
pub(super) fn sealed<T: Serialize>(with: impl Fn(String) -> T) -> String {
    let mut line = serde_json::to_string(&with(ZEROS.into())).expect("a line holds only what JSON can say");
    let sum = format!("{:08x}", crc32c::crc32c(line.as_bytes()));
    let at = digits(&line).expect("the line holds the checksum field").start;
    line.replace_range(at..at + ZEROS.len(), &sum);
    line.push('\n');
    line
}

pub(super) fn not_a_record(why: &str) -> LineError {
    LineError::Damaged(format!("not a record: {why}"))
}

pub(super) fn check_sum(line: &str) -> Result<(), LineError> {
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
pub(super) fn digits(line: &str) -> Option<std::ops::Range<usize>> {
    let start = line.find(FIELD)? + FIELD.len();
    let range = start..start + ZEROS.len();
    let text = line.get(range.clone())?;
    text.bytes().all(|b| b.is_ascii_hexdigit()).then_some(range)
}
