//! `daylight log diff` on real times of one H200: the finalists of fifty functions, of which one log has the first half of
//! the turns and the other the second, and a slowdown planted in one of them.

use daylight::log::{self, Record, Writer, drift, median};
use daylight::report::{Verdict, diff};
use std::path::Path;
use std::process::Command;

/// The winners of functions, as measured in the first half of their turns and in the second. `steady`: of fifty whose
/// times did not follow the clock, which under load wanders by up to 20 %; else of all.
fn halves(steady: bool) -> [Vec<Record>; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tuning-logs/drawn-sm_90a.jsonl.gz");
    let records = log::read(&root).expect("the log").records;
    let winners = log::selections(&records).into_values().filter_map(|g| log::choose(&g)).map(|t| t.record.clone());
    let fit = |r: &Record| r.samples_ns.len() >= 30 && (!steady || drift(&r.samples_ns) < 0.003);
    let winners: Vec<Record> = winners.filter(fit).take(if steady { 50 } else { usize::MAX }).collect();
    assert!(winners.len() == 50 || !steady && winners.len() > 100, "{}", winners.len());
    let half = |r: &Record, second: bool| {
        let (a, b) = r.samples_ns.split_at(r.samples_ns.len() / 2);
        Record { samples_ns: if second { b } else { a }.to_vec(), ..r.clone() }
    };
    [false, true].map(|second| winners.iter().map(|r| half(r, second)).collect())
}

fn slower(r: &Record, factor: f64) -> Record {
    Record { samples_ns: r.samples_ns.iter().map(|ns| ns * factor).collect(), ..r.clone() }
}

/// The functions that are said to have changed.
fn changed(before: &[Record], after: &[Record]) -> Vec<(String, Verdict)> {
    let found = diff(before, after);
    assert_eq!(found.changes.len(), before.len());
    let beyond = found.changes.iter().filter(|c| c.verdict != Verdict::Same);
    beyond.map(|c| (c.after.record.workload.key.clone(), c.verdict)).collect()
}

#[test]
fn what_did_not_change_is_the_same() {
    for steady in [true, false] {
        let [before, after] = halves(steady);
        assert_eq!(changed(&before, &after), []);
        assert_eq!(changed(&after, &before), []);
    }
}

#[test]
fn three_percent_in_one_of_fifty_are_found_and_nothing_else() {
    let [before, after] = halves(true);
    let time = |r: &Record| median(&r.samples_ns).expect("samples");
    for at in 0..50 {
        let mut planted = after.clone();
        planted[at] = slower(&after[at], 1.03 * time(&before[at]) / time(&after[at]));
        let key = &after[at].workload.key;
        assert_eq!(changed(&before, &planted), [(key.clone(), Verdict::Slower)], "{}", after[at].workload.name);
    }
}

#[test]
fn the_command_is_a_gate() {
    let folder = tempfile::tempdir().expect("a folder");
    let [before, mut after] = halves(true);
    after[7] = slower(&after[7], 1.06);
    for (name, records) in [("before.jsonl", &before), ("after.jsonl", &after)] {
        let mut writer = Writer::open(&folder.path().join(name)).expect("a log");
        records.iter().for_each(|r| writer.append(r).expect("a line"));
    }
    let run = |words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
        let o = command.args(words.split_whitespace()).current_dir(folder.path()).output().expect("daylight starts");
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        (o.status.code(), text(&o.stdout), text(&o.stderr))
    };
    let name = &after[7].workload.name;
    let (code, out, err) = run("log diff before.jsonl after.jsonl --fail-above 3%");
    assert!(
        code == Some(1) && out.contains("slower") && out.contains(name.as_str()) && out.lines().count() == 2,
        "{out}{err}"
    );
    assert!(
        err.contains("50 functions: 1 slower, 0 faster, 49 the same") && err.contains("slower by more than 3 %"),
        "{err}"
    );
    assert_eq!(run("log diff before.jsonl after.jsonl --fail-above 10%").0, Some(0));
    assert_eq!(run("log diff before.jsonl before.jsonl --fail-above 0").0, Some(0));
    let (_, markdown, _) = run("log diff before.jsonl after.jsonl --markdown");
    assert!(
        markdown.starts_with("1 slower, 0 faster, 49 the same") && markdown.matches("\n| ").count() == 2,
        "{markdown}"
    );
    let (_, json, _) = run("log diff before.jsonl after.jsonl --json");
    let lines: Vec<serde_json::Value> = json.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert!(
        lines.len() == 50 && lines[0]["verdict"] == "slower" && lines[0]["change"].as_f64() > Some(0.04),
        "{}",
        lines[0]
    );
    let (code, _, err) = run("log diff before.jsonl after.jsonl --fail-above some");
    assert!(code == Some(2) && err.contains("expected percent, such as 5%"), "{err}");
}
