//! Everything that reads what others wrote, each with what it is given: a mutant is answered or refused with a
//! sentence, in bounded time and memory (`bounded`). The manifest is written here and read by nobody here.

use super::bounded::{reading, tried};
use super::corpora::{FUNCTIONS, LINES, SMALL, TABLES, TARGETS, TILES, TRACES, target};
use super::mutate::{mutant, one, text_mutant};
use crate::common::record::repaired;
use crate::{ir_robust, tile_programs};
use daylight::analysis::Decline;
use daylight::assemble::Schedulable;
use daylight::cli::npy::{self, Npy};
use daylight::ir::layout::{Axis, TileLayout};
use daylight::ir::{self, DType};
use daylight::job::select::{self, Choice};
use daylight::measure::Setup;
use daylight::rules::Spaces;
use daylight::runner::worker::{WorkerCommand, WorkerFault, WorkerProcess};
use daylight::runner::{DeviceFacts, RunError, Timing};
use daylight::{log, report};
use flate2::{Compression, write::GzEncoder};
use rand::RngExt;
use rand::rngs::StdRng;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A reader with its mutants.
pub struct Reader {
    pub name: &'static str,
    /// Mutants of a usual run.
    pub usual: usize,
    /// Makes a mutant and reads it; true where it was answered, false where it was refused with a sentence.
    pub read: fn(&mut StdRng) -> bool,
}

pub const READERS: [Reader; 12] = [
    Reader { name: "function", usual: 1500, read: function },
    Reader { name: "rules", usual: 250, read: rules },
    Reader { name: "tile", usual: 1500, read: tile },
    Reader { name: "table", usual: 300, read: table },
    Reader { name: "trace", usual: 500, read: trace },
    Reader { name: "log", usual: 1500, read: log_file },
    Reader { name: "npy", usual: 2000, read: array },
    Reader { name: "layout", usual: 2000, read: layout },
    Reader { name: "set", usual: 500, read: set },
    Reader { name: "bind", usual: 60, read: bind },
    Reader { name: "request", usual: 60, read: request },
    Reader { name: "reply", usual: 60, read: reply },
];

/// A test for each reader: they run side by side.
macro_rules! tests {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            tried(READERS.iter().find(|r| r.name == stringify!($name)).expect("a reader"));
        }
    )*};
}

mod each {
    use super::{READERS, tried};
    tests! { function rules tile table trace log npy layout set bind request reply }
}

/// A refusal is a sentence.
fn sentence(why: &str) -> bool {
    assert!(why.len() > 5 && !why.contains("this is a bug"), "no sentence: {why:?}");
    false
}

fn function(rng: &mut StdRng) -> bool {
    let original = one(&FUNCTIONS, rng);
    let text = text_mutant(original, rng);
    reading(text.as_bytes());
    ir_robust::survives(&text)
}

/// What is read is scheduled by every rule that takes it, and lowered.
fn rules(rng: &mut StdRng) -> bool {
    let text = text_mutant(&one(&SMALL, rng).text, rng);
    reading(text.as_bytes());
    let Ok(mut all) = ir::read(&text, "t.py") else { return false };
    let (f, target) = (all.remove(0), target(TARGETS[rng.random_range(0..2)]));
    let subject = match Schedulable::new(&f, &f, target) {
        Ok(subject) => subject,
        Err(Decline { reason, .. }) => return sentence(&reason.text),
    };
    let arms = subject.arms(&Spaces::built_in());
    for arm in &arms {
        let Some(knobs) = arm.space.default() else { continue };
        let made = subject.candidate(arm, &knobs);
        drop(made.map_err(|why| sentence(&why.text)));
    }
    !arms.is_empty()
}

fn tile(rng: &mut StdRng) -> bool {
    let original = one(&TILES, rng);
    let text = text_mutant(original, rng);
    reading(text.as_bytes());
    tile_programs::survives(&text, &target("cuda:sm_100a"))
}

/// A table that is read gives points, and a rule takes its steps at the default.
fn table(rng: &mut StdRng) -> bool {
    let (form, text) = one(&TABLES, rng);
    let text = mutant(text.as_bytes(), rng);
    reading(&text);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("t.toml"), &text).expect("written");
    let spaces = match Spaces::with_folder(folder.path()) {
        Ok(spaces) => spaces,
        Err(why) => return sentence(&why),
    };
    for s in SMALL.iter().filter(|s| s.form == *form) {
        let subject = Schedulable::new(&s.func, &s.func, target(s.target)).expect("it is taken");
        for arm in subject.arms(&spaces).iter().filter(|a| a.space.form == *form) {
            let drawn = arm.space.point(rng.random::<u64>() % arm.space.size().max(1));
            let legal = Some(drawn).filter(|k| arm.space.check(k).is_ok());
            for knobs in arm.space.default().into_iter().chain(legal) {
                drop(subject.candidate(arm, &knobs).map_err(|why| sentence(&why.text)));
            }
        }
    }
    true
}

/// A trace that can be replayed gives a function that is lowered or not.
fn trace(rng: &mut StdRng) -> bool {
    let traced = one(&TRACES, rng);
    let text = text_mutant(&traced.trace.join("\n"), rng);
    reading(text.as_bytes());
    let steps: Vec<String> = text.lines().map(str::to_string).collect();
    match traced.subject.replay(&steps) {
        Ok(schedule) => {
            drop(traced.subject.assemble(&schedule).map_err(|why| sentence(&why.text)));
            true
        }
        Err(why) => sentence(&why.text),
    }
}

/// A log in which half of the mutants have the checksum that they would need.
fn log_file(rng: &mut StdRng) -> bool {
    let lines: Vec<&String> = (0..rng.random_range(1..4)).map(|_| one(&LINES, rng)).collect();
    let text: String = lines.into_iter().map(String::as_str).collect();
    let mut bytes = mutant(text.as_bytes(), rng);
    if rng.random() {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        bytes = text.split_inclusive('\n').map(repaired).collect::<String>().into_bytes();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let packed = rng.random_range(0..6) == 0;
    let path = folder.path().join(if packed { "l.jsonl.gz" } else { "l.jsonl" });
    if packed {
        let mut encoder = GzEncoder::new(vec![], Compression::default());
        encoder.write_all(&bytes).expect("packed");
        bytes = mutant(&encoder.finish().expect("packed"), rng);
    }
    reading(&bytes);
    std::fs::write(&path, &bytes).expect("written");
    let log = match log::read(&path) {
        Ok(log) => log,
        Err(why) => return sentence(&why),
    };
    for skipped in &log.skipped {
        sentence(&skipped.to_string());
    }
    let all: Vec<&log::Record> = log.records.iter().collect();
    assert!(log::best_timings(&all).len() >= usize::from(log::choose(&all).is_some()));
    assert!(log::selections(all.clone()).len() <= all.len());
    drop(report::csv(&report::rows(&log.records)).map_err(|why| sentence(&why)));
    all.iter().for_each(|r| drop(log::Record::from_line(&r.to_line()).expect("what was read can be written")));
    !all.is_empty()
}

fn array(rng: &mut StdRng) -> bool {
    let shape = [(0..3), (1..5), (2..9)].map(|r| rng.random_range(r));
    let descr = *one(&["f4", "f2", "i8", "u1", "b1"], rng);
    let width: usize = descr[1..].parse().expect("a width");
    let data = vec![7; shape.iter().product::<i64>() as usize * width];
    let bytes = mutant(&Npy { descr: descr.into(), shape: shape.to_vec(), data }.to_bytes(), rng);
    reading(&bytes);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.npy");
    std::fs::write(&path, &bytes).expect("written");
    drop(npy::read_as(&path, DType::F32, &shape).map_err(|why| sentence(&why.message)));
    match npy::parse(&bytes) {
        Ok(a) => a.shape.iter().all(|n| *n >= 0),
        Err(why) => sentence(&why),
    }
}

const LAYOUTS: [&str; 8] = [
    "S[(32, 8) : (1 @ laneid, 1)]",
    "T.TileLayout(T.S[(4, 8) : (8, 1)])",
    "S[8 : 4 @ laneid] + R[4 : 1 @ laneid]",
    "S[(2, 2)] + 5 + -1 @ laneid + 1 @ m",
    "S[1 : 1] + R[(8, 4) : (4 @ laneid, 1 @ laneid)] + 2 @ warpid",
    "ComposeLayout(SwizzleLayout(3, 2, 3), TileLayout(S[(8, 32)]))",
    "T.ComposeLayout(3, 3, 3, T.TileLayout(T.S[(8, 64)]))",
    "ComposeLayout(3, 3, 3, S[(8, 64)], swizzle_inner=False)",
];

/// A layout that is read holds each of its elements somewhere, and reads back from its print.
fn layout(rng: &mut StdRng) -> bool {
    let original = one(&LAYOUTS, rng);
    let text = text_mutant(original, rng);
    reading(text.as_bytes());
    let layout = match TileLayout::parse(&text) {
        Ok(layout) => layout,
        Err(why) => return sentence(&why),
    };
    assert_eq!(TileLayout::parse(&layout.to_string()).as_ref(), Ok(&layout));
    assert_eq!(TileLayout::parse(&layout.call_text()).as_ref(), Ok(&layout));
    for at in [0, layout.size() / 2, layout.size() - 1] {
        let places = layout.positions(at);
        assert_eq!((places.first(), places.len() as i64), (Some(&layout.apply(at)), layout.replicas()));
        for (axis, _) in Axis::ALL {
            let (low, high) = layout.range(axis);
            let inside = |p: &daylight::ir::layout::Point| (low..=high).contains(&p.get(axis));
            assert!(places.iter().all(inside), "{axis} at {at}");
            assert!(layout.span(axis) >= 1);
        }
    }
    drop((layout.canonical(), layout.unswizzled(), layout.fit(&[layout.size()])));
    true
}

/// Knobs by hand, at which a rule takes its steps or which it refuses.
fn set(rng: &mut StdRng) -> bool {
    let traced = one(&TRACES, rng);
    let space = &traced.arm.space;
    let default = space.default().expect("a legal point");
    let text = text_mutant(&space.show(&default).replace(' ', ","), rng);
    reading(text.as_bytes());
    let choose = Choice { rule: None, set: vec![text] };
    match select::point(std::slice::from_ref(&traced.arm), &choose) {
        Ok((arm, knobs)) => {
            drop(traced.subject.candidate(arm, &knobs).map_err(|why| sentence(&why.text)));
            true
        }
        Err(why) => sentence(&why.message),
    }
}

const SYMBOLIC: &str = "@T.prim_func(s_tir=True)
def sums(a: T.handle, b: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m))
    B = T.match_buffer(b, (n,))
    for i, k in T.grid(n, m):
        with T.sblock(\"b\"):
            v, w = T.axis.remap(\"SR\", [i, k])
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + A[v, w]
";

/// Values of sizes on the command line.
fn bind(rng: &mut StdRng) -> bool {
    let text = text_mutant("n=512,m=8", rng).replace('\0', "%");
    reading(text.as_bytes());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("f.py");
    std::fs::write(&file, SYMBOLIC).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
    command.arg("explain").arg(&file).args(["--emit", "cuda", "--target", TARGETS[rng.random_range(0..2)]]);
    let Ok(out) = command.arg(format!("--bind={text}")).output() else { return false }; // too long
    let said = String::from_utf8_lossy(&out.stderr);
    let code = out.status.code();
    assert!(matches!(code, Some(0..=3)) && !said.contains("panicked"), "{code:?}: {said}");
    if code == Some(0) { true } else { sentence(&said) }
}

/// The worker's side of the protocol: compilers that are not there, a device that is.
fn request(rng: &mut StdRng) -> bool {
    let cpu = Setup::cpu(DeviceFacts { name: "a CPU".into(), kind: "cpu".into(), sms: 2, ..DeviceFacts::default() });
    let device = serde_json::to_string(&cpu).expect("JSON");
    let tools = r#"{"nvrtc":{"Err":"none"},"cc":{"Err":"none"},"artifacts":"artifacts"}"#;
    let source = r#"{"text":"int x;","language":"c","target":"cpu:x86-64-v3","symbols":["f"]}"#;
    let inputs = r#"[{"index":0,"name":"A","dtype":"float32","shape":[8,16],"role":"in"}]"#;
    let problem = r#"{"extents":{"n":8},"scalars":{},"seed":1,"ranges":{"0":{"low":0,"high":7}},"expected":null,"bytes":64,"flops":64,"peak_flops":null}"#;
    let measures = [("setup", device.as_str()), ("prepare", problem), ("inputs", inputs)];
    let compiles = [("setup", tools), ("compile", source)];
    let (kind, asked) = if rng.random() { ("compile", &compiles[..]) } else { ("measure", &measures[..]) };
    let text: Vec<String> =
        asked.iter().map(|(what, body)| format!("{{\"v\":1,\"id\":7,\"body\":{{\"{what}\":{body}}}}}\n")).collect();
    let mut bytes = mutant(text.concat().as_bytes(), rng);
    if !bytes.ends_with(b"\n") {
        bytes.push(b'\n');
    }
    reading(&bytes);
    let lines = bytes.iter().filter(|b| **b == b'\n').count();
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
    // When its input ends a worker ends with its group.
    command.args(["worker", kind]).current_dir(&folder).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("a worker");
    let mut input = child.stdin.take().expect("its input");
    drop(input.write_all(&bytes)); // it may have ended
    let mut out = BufReader::new(child.stdout.take().expect("its output"));
    let (mut replies, mut line) = (0, vec![]);
    while replies < lines && out.read_until(b'\n', &mut line).expect("its output") > 0 {
        replies += 1;
        let reply: serde_json::Value = serde_json::from_slice(&line).expect("a reply");
        assert!(reply["v"] == 1 && reply["body"] != serde_json::Value::Null, "{reply}");
        line.clear();
    }
    // A worker whose input ends has no last words.
    let open = Some(input).filter(|_| replies < lines);
    let mut said = String::new();
    child.stderr.take().expect("its errors").read_to_string(&mut said).expect("text");
    let status = child.wait().expect("it ends");
    drop(open);
    assert!(!said.contains("panicked") && !said.contains("overflow"), "{status}: {said}");
    if replies < lines { sentence(&said) } else { true }
}

/// The parent's side: what a worker writes in place of its reply, the id of the request in it.
fn reply(rng: &mut StdRng) -> bool {
    let timing = Timing { policy: "cpu-1".into(), samples_ns: vec![1.5, 2.5], ..Timing::default() };
    let body = serde_json::to_string(&Ok::<_, RunError>(timing)).expect("JSON");
    let bytes = mutant(format!("{{\"v\":1,\"id\":ID,\"body\":{body}}}\n").as_bytes(), rng);
    reading(&bytes);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("reply");
    std::fs::write(&file, &bytes).expect("written");
    let script = "read -r line; id=${line#*\\\"id\\\":}; LC_ALL=C sed \"s/ID/${id%%,*}/\" \"$0\"";
    let args = vec!["-c".into(), script.into(), file.into()];
    let mut worker = WorkerProcess::start(&WorkerCommand { program: "sh".into(), args }, None).expect("a worker");
    match worker.ask::<_, Result<Timing, RunError>>(&"time", Duration::from_secs(10)) {
        Ok(Ok(timing)) => timing.policy.len() < 1000,
        Ok(Err(why)) => sentence(&why.message),
        Err(WorkerFault::TimedOut(_)) => panic!("a reply that does not end"),
        Err(why) => sentence(&why.to_string()),
    }
}
