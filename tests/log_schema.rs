//! The layouts of a log line that are read, as golden files: what they mean, and that they stay.

use crate::common::golden;
use crate::common::record::{failure, full, predicted, record};
use daylight::log::{self, OLDEST, Outcome, Record, SCHEMA};
use std::path::{Path, PathBuf};

fn file(schema: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/log/schema-{schema}.jsonl"))
}

fn read(schema: u32) -> Vec<Record> {
    let log = log::read(&file(schema)).expect("the golden log reads");
    assert_eq!(log.skipped, []);
    log.records
}

/// What the golden file of the present layout holds: every field, every outcome.
fn present() -> Vec<Record> {
    vec![
        full(),
        record(64, &[20_000.5]),
        failure(128, Outcome::Pruned, "shared_memory: needs 65536 bytes of 49152"),
        failure(192, Outcome::CompileFailed, "kernel.cu(3): error: identifier \"x\" is undefined\nand more"),
        failure(256, Outcome::LaunchFailed, "CUDA_ERROR_INVALID_VALUE"),
        failure(320, Outcome::WrongResult, "wrong result: parameter 1 holds NaN where 2.5 was expected"),
        failure(384, Outcome::TimedOut, "no answer after 10 s"),
        failure(448, Outcome::Crashed, "the worker died of signal 11"),
        predicted(512, 0.125),
        chosen(),
    ]
}

/// A point with a choice, which layout 1 had as a number.
fn chosen() -> Record {
    Record {
        knobs: [("hint".to_string(), "evict_first".into()), ("rows".to_string(), 2.into())].into(),
        ..record(2, &[9.0])
    }
}

/// The fields that layout 0 did not have, as they are read from it.
fn without_new_fields(r: Record) -> Record {
    Record { round: 0, default: false, floor_us: None, work: None, state: None, score: None, warnings: vec![], ..r }
}

/// Everything but the checksum, which depends on the layout.
fn plain(r: &Record) -> Record {
    Record { crc32c: String::new(), ..r.clone() }
}

#[test]
fn the_present_layout_reads_and_writes_back_to_the_same_bytes() {
    let lines: String = present().iter().map(Record::to_line).collect();
    golden(&format!("golden/log/schema-{SCHEMA}.jsonl"), &lines);
    let records = read(SCHEMA);
    assert_eq!(records.iter().map(plain).collect::<Vec<_>>().len(), present().len());
    for (got, want) in records.iter().zip(present()) {
        let rounded = Record { samples_ns: got.samples_ns.clone(), ..want.clone() };
        assert_eq!(plain(got), rounded);
        for (a, b) in got.samples_ns.iter().zip(&want.samples_ns) {
            assert!((a - b).abs() <= 1e-8 * b, "nine digits are kept: {a}, {b}");
        }
    }
    let again: String = records.iter().map(Record::to_line).collect();
    assert_eq!(again, std::fs::read_to_string(file(SCHEMA)).expect("the golden log is text"));
}

#[test]
fn the_layout_before_is_the_present_one_without_names() {
    let (old, new) = (read(1), read(SCHEMA));
    assert_eq!(old.iter().map(plain).collect::<Vec<_>>(), new[..old.len()].iter().map(plain).collect::<Vec<_>>());
    assert_eq!((old.len() + 1, plain(&new[old.len()])), (new.len(), chosen()));
    let line = chosen().to_line();
    assert!(line.contains("\"knobs\":{\"hint\":\"evict_first\",\"rows\":2}"), "{line}");
}

#[test]
fn the_oldest_layout_reads_and_is_written_as_the_present_one() {
    assert_eq!((OLDEST, SCHEMA), (0, 2));
    let records = read(OLDEST);
    assert_eq!(records.len(), 2);
    assert_eq!(plain(&records[0]), plain(&without_new_fields(read(SCHEMA)[0].clone())));
    assert_eq!(plain(&records[1]), plain(&without_new_fields(read(SCHEMA)[2].clone())));
    for r in &records {
        let line = r.to_line();
        assert!(line.starts_with(&format!("{{\"schema\":{SCHEMA},\"crc32c\":\"{}\"", r.crc32c)), "{line}");
        assert_eq!(Record::from_line(&line).as_ref(), Ok(r), "an old record is as one written today");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let converted = folder.path().join("new.jsonl");
    log::write(&converted, &records).expect("the log is written");
    let both = [log::read(&file(OLDEST)), log::read(&converted)].map(|l| l.expect("the log reads"));
    assert_eq!(log::merge(&both).len(), 2, "one record in two layouts is one record");
}

#[test]
fn a_layout_of_the_future_is_refused_with_a_sentence() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("future.jsonl");
    let next = Record { schema: SCHEMA + 1, ..full() };
    std::fs::write(&path, record(1, &[5.0]).to_line() + &next.to_line()).expect("write the log");
    let want =
        format!("{}:2: the record has schema 3 and this daylight reads up to 2; update daylight", path.display());
    assert_eq!(log::read(&path).expect_err("the log is refused"), want);
}

/// Work came to layout 2 after it was made: records without it are what they were, and one with it reads back.
#[test]
fn work_is_written_where_it_is_known() {
    let known = Record { work: Some(log::Work { flops: 1 << 40, bytes: 3 }), ..full() };
    let line = known.to_line();
    assert!(line.contains("\"work\":{\"flops\":1099511627776,\"bytes\":3}"), "{line}");
    assert_eq!(Record::from_line(&line).map(|r| r.work), Ok(known.work));
    assert!(!full().to_line().contains("\"work\""));
}
