//! Log files as they are written: records in short lines that refer to others. What damage to any line costs.

use crate::common::record::{failure, full, record, warning};
use daylight::log::{self, LogFile, Outcome, Record, Writer};
use std::path::{Path, PathBuf};

/// Records of two functions, by turns, one of them under two rules.
fn some(count: i64) -> Vec<Record> {
    let one = |x: i64| {
        let mut r = if x % 7 == 6 { failure(x, Outcome::Crashed, "why") } else { record(x, &[x as f64 + 0.5, 9.0]) };
        r.workload.name = format!("f{}", x % 2);
        r.workload.key = format!("{:032x}", x % 2);
        r.warnings.extend((x % 5 == 3).then(warning));
        r.rule = if x % 3 == 2 { "other".into() } else { r.rule };
        r
    };
    (0..count).map(one).collect()
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("log.jsonl")
    }

    fn appended(&self, records: &[Record]) -> Vec<u8> {
        let mut writer = Writer::open(&self.path()).expect("the log opens");
        records.iter().for_each(|r| writer.append(r).expect("the record is written"));
        std::fs::read(self.path()).expect("the log is there")
    }

    /// What a file of these bytes holds.
    fn of(&self, bytes: &[u8]) -> LogFile {
        std::fs::write(self.path(), bytes).expect("written");
        log::read(&self.path()).expect("the log reads")
    }
}

fn written(records: &[Record]) -> Vec<String> {
    let mut lines: Vec<String> = records.iter().map(Record::to_line).collect();
    lines.sort();
    lines
}

/// How many of `want` are not in the log, which holds nothing else.
fn lost(log: &LogFile, want: &[Record]) -> usize {
    let (found, want) = (written(&log.records), written(want));
    assert!(found.iter().all(|l| want.binary_search(l).is_ok()), "a record that nobody wrote");
    want.len() - found.len()
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|b| *b == b'\n').collect()
}

fn is_shared(line: &[u8]) -> bool {
    String::from_utf8_lossy(line).contains("\"id\":\"")
}

#[test]
fn what_is_written_short_comes_back_whole() {
    let place = Place::new();
    let records = [some(20), vec![full(), Record { samples_ns: vec![0.0], ..full() }]].concat();
    let bytes = place.appended(&records);
    assert_eq!(lost(&place.of(&bytes), &records), 0);
    assert!(lines(&bytes).iter().any(|l| is_shared(l)));
    log::write(&place.path(), &records).expect("written");
    assert_eq!(lost(&log::read(&place.path()).expect("it reads"), &records), 0);
}

#[test]
fn any_one_damaged_line_costs_one_record_at_most() {
    let place = Place::new();
    let records = some(200);
    let bytes = place.appended(&records);
    let lines = lines(&bytes);
    assert!(lines.iter().filter(|l| is_shared(l)).count() > 10);
    for (at, line) in lines.iter().enumerate() {
        let mut changed = line.to_vec();
        changed[line.len() / 2] ^= 1;
        for damaged in [&[][..], &line[..line.len() / 2], &changed] {
            let log = place.of(&[&lines[..at], &[damaged], &lines[at + 1..]].concat().concat());
            assert!(lost(&log, &records) <= usize::from(!is_shared(line)), "line {}: {:?}", at + 1, log.skipped);
            assert!(damaged.is_empty() || log.skipped.len() == 1, "line {}: {:?}", at + 1, log.skipped);
        }
    }
}

#[test]
fn a_writer_goes_on_behind_any_cut() {
    let place = Place::new();
    let (old, new) = (some(4), vec![record(100, &[1.0]), record(101, &[2.0]), record(102, &[3.0])]);
    let bytes = place.appended(&old);
    let ends: Vec<usize> = lines(&bytes)
        .iter()
        .scan(0, |end, l| {
            *end += l.len();
            Some((*end, is_shared(l)))
        })
        .filter(|e| !e.1)
        .map(|e| e.0)
        .collect();
    for cut in 0..bytes.len() {
        std::fs::write(place.path(), &bytes[..cut]).expect("written");
        place.appended(&new);
        let log = log::read(&place.path()).expect("the log reads");
        // A record that lacks nothing but its newline is whole.
        let whole = ends.iter().filter(|end| cut + 1 >= **end).count();
        assert_eq!(lost(&log, &[&old[..whole], &new].concat()), 0, "cut at {cut}");
        assert!(log.skipped.len() <= 1, "cut at {cut}: {:?}", log.skipped);
    }
}

/// The writer that died had the file open together with another one, which goes on in the torn line.
#[test]
fn another_writer_goes_on_in_a_torn_line() {
    let place = Place::new();
    let (ours, theirs) = (some(3), vec![record(100, &[1.0]), record(101, &[2.0])]);
    let bytes = place.appended(&ours);
    std::fs::remove_file(place.path()).expect("removed");
    let more = place.appended(&theirs);
    for cut in 0..bytes.len() {
        let log = place.of(&[&bytes[..cut], &more].concat());
        let kept = log.records.iter().filter(|r| theirs.iter().any(|t| t.knobs == r.knobs)).count();
        assert_eq!(kept, 2, "cut at {cut}: {:?}", log.skipped);
        assert!(log.skipped.len() <= 1);
    }
}

#[test]
fn the_order_of_lines_and_of_files_does_not_matter() {
    let place = Place::new();
    let records = some(30);
    let bytes = place.appended(&records);
    let mut backward = lines(&bytes);
    backward.reverse();
    assert_eq!(lost(&place.of(&backward.concat()), &records), 0);
    let merged = |logs: &[LogFile]| written(&log::merge(logs));
    let both = place.of(&[&bytes[..], &bytes].concat());
    assert_eq!(merged(&[both]), written(&records), "each record once");
}

#[test]
fn a_record_whose_reference_is_gone_is_told_and_left_out() {
    let place = Place::new();
    let records = some(12);
    let bytes = place.appended(&records);
    let without = |kind: &str| {
        let kept = lines(&bytes).into_iter().filter(|l| !String::from_utf8_lossy(l).contains(kind));
        kept.collect::<Vec<_>>().concat()
    };
    for (kind, gone) in [("\"task\":{", 12), ("\"space\":{", 12), ("\"warning\":{", 2)] {
        let log = place.of(&without(kind));
        assert_eq!((log.records.len(), log.skipped.len()), (12 - gone, gone), "{kind}");
        let why = log.skipped[0].to_string();
        assert!(why.contains("that it refers to is not in the file, or damaged") && why.lines().count() == 1, "{why}");
        assert_eq!(log::verify(&place.path()).expect("it reads").problems.len(), gone);
    }
}

/// Two things by one name: neither is believed.
#[test]
fn names_that_stand_for_two_things_are_not_followed() {
    let place = Place::new();
    let bytes = place.appended(&some(1));
    let text = String::from_utf8(bytes).expect("text");
    let task = text.lines().find(|l| l.contains("\"task\":{")).expect("a task");
    let forged = crate::common::record::repaired(&task.replace("sm_90a", "sm_80"));
    assert_eq!(place.of(format!("{text}{task}\n").as_bytes()).records.len(), 1);
    let log = place.of(format!("{text}{forged}\n").as_bytes());
    assert_eq!((log.records.len(), log.skipped.len()), (0, 1));
}

#[test]
fn parts_that_do_not_belong_together_are_damage() {
    let place = Place::new();
    let text = String::from_utf8(place.appended(&some(1))).expect("text");
    let with = |from: &str, to: &str| {
        let lines = text.lines().map(|l| crate::common::record::repaired(&l.replace(from, to)) + "\n");
        place.of(lines.collect::<String>().as_bytes())
    };
    for (from, to, why) in [
        ("\"at\":[0]", "\"at\":[0,1]", "it has other knobs than its space"),
        ("\"ns\":[", "\"ns\":[999,", "its samples are no numbers"),
        ("\"s\":0", "\"s\":18446744073709551615", "its time is no time"),
        ("\"space\":{", "\"spice\":{", "is of another kind"),
    ] {
        let log = with(from, to);
        assert!(log.records.is_empty() && log.skipped.len() == 1, "{from}: {:?}", log.skipped);
        assert!(log.skipped[0].why.contains(why), "{from}: {:?}", log.skipped);
    }
    assert_eq!(with("\"res\"", "\"more\":1,\"res\"").records.len(), 1, "fields of later versions are passed over");
}

/// What every machine reads alike: the same records give the same bytes.
#[test]
fn the_same_records_give_the_same_bytes() {
    let place = Place::new();
    let write = |name: &str| {
        let path: &Path = &place.0.path().join(name);
        log::write(path, &some(40)).expect("written");
        std::fs::read(path).expect("it is there")
    };
    assert_eq!(write("a.jsonl"), write("b.jsonl"));
}
