//! Ten faults among right kernels, with real compilers and worker processes on the CPU, and with fake
//! ones: each costs itself and little time, and the run finds what it would have found without them.

use crate::common;
#[path = "faults/mod.rs"]
mod kit;

use daylight::backend::{CompileFailure, Compiler, Language, LocalCompiler, Places, Plan, Source, Tools};
use daylight::runner::fake::{FakeCompiler, FakeRunner};
use daylight::runner::worker::WorkerFault;
use daylight::runner::{CompilePool, Limits, Problem, RunError, RunFailure, WorkerCommand};
use kit::lab::{Work, judge, judge_right};
use kit::{Fault, Kind, Lab, report, texts};
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

const CPU: &str = if cfg!(target_arch = "x86_64") { "cpu:x86-64-v3" } else { "cpu:aarch64" };

#[test]
fn ten_faults_cost_themselves_alone() {
    let worker = env!("CARGO_BIN_EXE_daylight").into();
    let lab = Lab::new(None, worker, None, Duration::from_secs(3)).expect("a C compiler");
    let (rows, problems) = report(&lab).expect("the runs end");
    for row in &rows {
        eprintln!("{row}");
    }
    let bad: Vec<String> = rows.iter().flat_map(|r| r.problems.iter().map(|p| format!("{}: {p}", r.name))).collect();
    assert!(bad.is_empty() && problems.is_empty(), "{bad:#?} {problems:#?}");
}

/// The same ten by outcome, in no time.
#[test]
fn ten_faults_with_fakes() {
    let folder = tempfile::tempdir().unwrap();
    let source = |spin: i64, fault: Option<Fault>| {
        let text = match fault {
            None => format!("{}", 1000 + spin),
            Some(Fault::EndlessCompile) => "#hang".to_string(),
            Some(fault) => fault.name().to_string(),
        };
        let (language, target) = (Language::C, "fake".to_string());
        (Source { text, language, target, symbols: vec![] }, Plan::default())
    };
    let work = Work {
        faults: &Fault::ALL,
        text: &source,
        problem: Problem::default(),
        policy: "fake-v1",
        quiet: false,
        log: folder.path().join("log"),
    };
    let compiler = FakeCompiler::new(folder.path().join("cache"));
    let mut runner = FakeRunner::new(verdict);
    let starts = runner.starts();
    let (summary, records) = work.tune(&compiler, &mut runner).expect("the run ends");
    for fault in Fault::ALL {
        assert_eq!(judge(&records, fault, Kind::Cpu).2, [] as [String; 0], "{}", fault.name());
    }
    assert_eq!(judge_right(&summary, &records), [] as [String; 0]);
    assert!(summary.seconds < 2.0, "{} s", summary.seconds);
    // Once, and after each fault that a process does not survive.
    assert_eq!(starts.load(Ordering::Relaxed), 9);
}

/// The time that a text names, or what a worker would make of the fault that it names.
fn verdict(text: &str) -> Result<f64, RunError> {
    let Some(fault) = Fault::ALL.into_iter().find(|f| f.name() == text) else {
        return Ok(text.parse().expect("a time"));
    };
    let (_, words) = fault.expected(Kind::Cpu);
    Err(match fault {
        Fault::EndlessLoop => WorkerFault::TimedOut(Duration::from_secs(10)).into(),
        Fault::Garbage => WorkerFault::Garbage("garbage".to_string()).into(),
        Fault::WrongNumbers => RunError::new(RunFailure::WrongResult, words),
        Fault::IllegalAccess
        | Fault::MisalignedAccess
        | Fault::Trap
        | Fault::Exit
        | Fault::Abort
        | Fault::HugeAllocation
        | Fault::EndlessCompile => WorkerFault::Died(words.to_string()).into(),
    })
}

/// One compile worker with a folder of its own.
struct Bench {
    folder: tempfile::TempDir,
    tools: Tools,
}

impl Bench {
    fn new(language: Language) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let tools = Tools::find(&Places::of(|k| std::env::var_os(k), None), language);
        Bench { tools: Tools { artifacts: folder.path().join("artifacts"), ..tools }, folder }
    }

    fn pool(&self, limits: Limits) -> CompilePool {
        let command = WorkerCommand::daylight(env!("CARGO_BIN_EXE_daylight"), "compile");
        CompilePool::new(command, self.tools.clone(), 1, limits)
    }
}

fn right(number: u32) -> Source {
    let source = texts::source(Kind::Cpu, CPU, 0, None, false);
    Source { text: format!("// {number}\n{}", source.text), ..source }
}

/// State, parent's id and group of a process.
fn stat(pid: &str) -> Option<(String, String, String)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = text.rsplit_once(") ")?.1.split(' ').map(str::to_string);
    Some((words.next()?, words.next()?, words.next()?))
}

/// Running processes that `pick` chooses, with their groups.
fn processes(pick: impl Fn(&str, &str) -> bool) -> BTreeSet<(String, String)> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    let running = entries.filter_map(|pid| {
        let (state, _, group) = stat(&pid)?;
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        (state != "Z" && pick(&command, &group)).then_some((pid, group))
    });
    running.collect()
}

/// The folder for temporary files of a worker.
fn scratch_of(pid: &str) -> Option<PathBuf> {
    let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).ok()?;
    environment.split('\0').find_map(|v| v.strip_prefix("TMPDIR=")).map(PathBuf::from)
}

#[test]
fn an_endless_compilation_leaves_no_process_and_no_file_behind() {
    let mut bench = Bench::new(Language::C);
    // A name by which its processes are told from those of other tests.
    let cc = bench.folder.path().join("cc");
    std::os::unix::fs::symlink(bench.tools.cc.clone().expect("a C compiler"), &cc).unwrap();
    bench.tools.cc = Ok(cc.clone());
    let pool = bench.pool(Limits { compile: Duration::from_secs(3), ..Limits::default() });
    pool.compile(&right(0)).expect("the worker starts");
    let bomb = texts::source(Kind::Cpu, CPU, 0, Some(Fault::EndlessCompile), false);
    let name = cc.display().to_string();
    let (error, group, scratch) = std::thread::scope(|scope| {
        let compiling = scope.spawn(|| pool.compile(&bomb).unwrap_err());
        let (mut group, mut scratch) = (None, None);
        while !compiling.is_finished() {
            group = processes(|command, _| command.contains(&name)).into_iter().next().map(|p| p.1).or(group);
            scratch = group.as_ref().and_then(|leader| scratch_of(leader)).or(scratch);
            std::thread::sleep(Duration::from_millis(20));
        }
        (compiling.join().unwrap(), group.expect("the compiler ran"), scratch.expect("the worker has a folder"))
    });
    assert_eq!(error.failure, CompileFailure::TimedOut, "{error}");
    let left = || processes(|_, of| of == group);
    assert!(soon(|| left().is_empty()), "of the group {group} there are still {:?}", left());
    assert!(!scratch.exists(), "{} is still there", scratch.display());
    pool.compile(&right(1)).expect("a new worker compiles");
}

#[test]
fn a_compiler_that_allocates_without_end_fails_alone() {
    let bench = Bench::new(Language::C);
    let pool = bench.pool(Limits { compile_bytes: Some(256 << 20), ..Limits::default() });
    // Expands to nothing, 2^60 times; the compiler remembers where.
    let macros: String = (1..=60).map(|i| format!("#define M{i} M{} M{}\n", i - 1, i - 1)).collect();
    let text = format!("#define M0\n{macros}M60\n{}", right(0).text);
    let error = pool.compile(&Source { text, ..right(0) }).unwrap_err();
    assert_eq!(error.failure, CompileFailure::Rejected, "{error}");
    assert!(error.message.contains("memory"), "{error}");
    pool.compile(&right(1)).expect("the worker lives");
}

/// A parent that is killed closes the pipe: its compile worker ends, and the compiler with it.
#[test]
fn a_compiler_ends_with_the_parent_of_its_worker() {
    let bench = Bench::new(Language::C);
    let mut worker = Command::new(env!("CARGO_BIN_EXE_daylight"));
    worker.args(["worker", "compile"]).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
    let scratch = bench.folder.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let mut worker = worker.env("TMPDIR", &scratch).env("DAYLIGHT_WORKER_SCRATCH", &scratch).spawn().unwrap();
    let mut pipe = worker.stdin.take().unwrap();
    let bomb = texts::source(Kind::Cpu, CPU, 0, Some(Fault::EndlessCompile), false);
    for (id, body) in
        [serde_json::json!({"setup": bench.tools}), serde_json::json!({"compile": bomb})].iter().enumerate()
    {
        writeln!(pipe, "{}", serde_json::json!({"v": 1, "id": id, "body": body})).unwrap();
    }
    let group = worker.id().to_string();
    let running = |command: &str| processes(|c, of| of == group && c.contains(command)).len();
    assert!(soon(|| running("kernel.c") > 0), "the compiler runs");
    drop(pipe);
    assert!(soon(|| worker.try_wait().unwrap().is_some()), "the worker outlived its parent");
    assert!(soon(|| running("") == 0), "the compiler outlived the worker");
    assert!(!scratch.exists(), "temporary files outlived the worker");
}

/// Waits ten seconds for something.
fn soon(mut so: impl FnMut() -> bool) -> bool {
    (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        so()
    })
}

#[test]
fn nvrtc_that_allocates_without_end_fails_alone() {
    let bench = Bench::new(Language::Cuda);
    if let Err(why) = &bench.tools.nvrtc {
        return common::skip(why);
    }
    let pool = bench.pool(Limits { compile_bytes: Some(384 << 20), ..Limits::default() });
    let right = texts::source(Kind::Cuda, "cuda:sm_90a", 100, None, false);
    let macros: String = (1..=40).map(|i| format!("#define M{i} M{} M{}\n", i - 1, i - 1)).collect();
    let text =
        format!("#define M0 n = n * n + 1;\n{macros}__device__ int f(int n) {{ M40 return n; }}\n{}", right.text);
    let error = pool.compile(&Source { text, ..right.clone() }).unwrap_err();
    assert!(error.message.contains("memory"), "{error}");
    pool.compile(&right).expect("the worker lives or has been replaced");
}

#[test]
fn the_cuda_texts_compile_but_for_the_endless_one() {
    let bench = Bench::new(Language::Cuda);
    if let Err(why) = &bench.tools.nvrtc {
        return common::skip(why);
    }
    let text = |fault| texts::source(Kind::Cuda, "cuda:sm_90a", 100, fault, false);
    let local = LocalCompiler::new(bench.tools.clone());
    for fault in [None].into_iter().chain(Fault::ALL.map(Some)).filter(|f| *f != Some(Fault::EndlessCompile)) {
        local.compile(&text(fault)).unwrap_or_else(|e| panic!("{fault:?}: {e}"));
    }
    let pool = bench.pool(Limits { compile: Duration::from_secs(2), ..Limits::default() });
    let error = pool.compile(&text(Some(Fault::EndlessCompile))).unwrap_err();
    assert_eq!(error.failure, CompileFailure::TimedOut, "{error}");
    pool.compile(&text(None)).expect("a new worker compiles");
}
