//! The layouts of a log line that are read, as golden files: what they mean, and that they stay.

use crate::common::golden;
use crate::common::record::{failure, full, predicted, record};
use daylight::log::{self, Encoder, OLDEST, Outcome, Record, SCHEMA};
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
        worked(),
    ]
}

/// A point with a choice, which layout 1 had as a number.
fn chosen() -> Record {
    Record {
        knobs: [("hint".to_string(), "evict_first".into()), ("rows".to_string(), 2.into())].into(),
        ..record(2, &[9.0])
    }
}

/// A record that says what there is to do, which came to layout 2 after it was made.
fn worked() -> Record {
    Record { work: Some(log::Work { flops: 1 << 40, bytes: 3 }), ..record(96, &[7.5]) }
}

/// The fields that layout 0 did not have, as they are read from it.
fn without_new_fields(r: Record) -> Record {
    Record {
        round: 0,
        default: false,
        floor_us: None,
        work: None,
        state: None,
        launches: None,
        score: None,
        warnings: vec![],
        run: String::new(),
        ..r
    }
}

/// Everything but the checksum, which depends on the layout.
fn plain(r: &Record) -> Record {
    Record { crc32c: String::new(), ..r.clone() }
}

#[test]
fn the_present_layout_reads_and_writes_back_to_the_same_bytes() {
    let mut encoder = Encoder::default();
    let lines: String = present().iter().map(|r| encoder.lines(r)).collect();
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
    let mut encoder = Encoder::default();
    let again: String = records.iter().map(|r| encoder.lines(r)).collect();
    assert_eq!(again, std::fs::read_to_string(file(SCHEMA)).expect("the golden log is text"));
}

#[test]
fn the_layout_before_has_the_same_records_in_lines_of_their_own() {
    let (old, new) = (read(2), read(SCHEMA));
    let without_run = |r: &Record| Record { run: String::new(), ..r.clone() };
    let whole = |r| Record::from_line(&without_run(r).to_line()).expect("a line");
    assert_eq!(old, new[..old.len()].iter().map(whole).collect::<Vec<_>>());
    assert_eq!((old.len() + 1, plain(&new[old.len()])), (new.len(), plain(&worked())));
    let mut encoder = Encoder::default();
    let short: usize = new[..old.len()].iter().map(|r| encoder.lines(r).len()).sum();
    let long: usize = old.iter().map(|r| r.to_line().len()).sum();
    assert!(short * 3 < long * 2, "{short} bytes of {long}");
}

#[test]
fn layout_1_is_layout_2_without_names() {
    let (old, new) = (read(1), read(2));
    assert_eq!(old.iter().map(plain).collect::<Vec<_>>(), new[..old.len()].iter().map(plain).collect::<Vec<_>>());
    assert_eq!((old.len() + 1, plain(&new[old.len()])), (new.len(), chosen()));
    let line = chosen().to_line();
    assert!(line.contains("\"knobs\":{\"hint\":\"evict_first\",\"rows\":2}"), "{line}");
}

#[test]
fn the_oldest_layout_reads_and_is_written_as_the_present_one() {
    assert_eq!((OLDEST, SCHEMA), (0, 3));
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
        format!("{}:2: the record has schema 4 and this daylight reads up to 3; update daylight", path.display());
    assert_eq!(log::read(&path).expect_err("the log is refused"), want);
}

/// Records without work are what they were, and those with it have it once for all of them.
#[test]
fn work_is_written_where_it_is_known() {
    let (line, work) = (worked().to_line(), "\"work\":{\"flops\":1099511627776,\"bytes\":3}");
    assert!(line.contains(work), "{line}");
    assert_eq!(Record::from_line(&line).map(|r| r.work), Ok(worked().work));
    assert!(!full().to_line().contains("\"work\""));
    let mut encoder = Encoder::default();
    let lines: Vec<String> =
        (0..9).map(|i| encoder.lines(&Record { knobs: record(i, &[]).knobs, ..worked() })).collect();
    assert_eq!(lines.concat().matches(work).count(), 2, "in task lines alone");
    assert_eq!(read(SCHEMA).last().map(|r| r.work), Some(worked().work));
}
