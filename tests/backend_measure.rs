//! The measuring worker on the CPU: right kernels, and every way of being wrong.

use daylight::backend::{
    Arg, Compiler, Dim, Language, LocalCompiler, Places, Plan, PlanLaunch, PlanParam, PlanWorkspace, Role, Source,
    Tools, plan::Init,
};
use daylight::ir::DType;
use daylight::measure::{AaSettings, Expected, Setup, Tolerance, WorkerRunner, expected::ExpectedOutput, inputs};
use daylight::runner::{Candidate, DeviceFacts, Limits, Problem, RunError, RunFailure, Runner, WorkerCommand, element};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const N: usize = 3000;
const BLOCKS: i64 = 30;
const SIGNATURE: &str = "void f(void *const *buffers, const long *scalars, long begin, long end)";

/// `p1[i] = 2 * p0[i]` with `p1` of `n` floats, in 30 blocks.
struct Bench {
    folder: tempfile::TempDir,
    compiler: LocalCompiler,
    next: std::cell::Cell<u64>,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::of(|k| std::env::var_os(k), Some(folder.path().join("cache")));
        let compiler = LocalCompiler::new(Tools::find(&places, Language::C));
        Bench { folder, compiler, next: std::cell::Cell::new(0) }
    }

    fn candidate(&self, body: &str) -> Candidate {
        let target = if cfg!(target_arch = "x86_64") { "cpu:x86-64-v3" } else { "cpu:aarch64" };
        let text = format!(
            "{SIGNATURE} {{\n  const float *a = buffers[0]; float *b = buffers[1]; long n = scalars[0];\n  (void)a; (void)b; (void)n;\n{body}\n}}\n"
        );
        let symbols = vec!["f".to_string()];
        let source = Source { text, language: Language::C, target: target.to_string(), symbols };
        let file = self.compiler.compile(&source).unwrap().path;
        self.next.set(self.next.get() + 1);
        Candidate { id: self.next.get(), file, plan: plan() }
    }

    fn right(&self) -> Candidate {
        self.candidate("  for (long i = begin * 100; i < end * 100; i++) b[i] = 2 * a[i];")
    }

    fn problem(&self) -> Problem {
        let input = inputs::tensor(DType::F32, N, 5, 0, None);
        let values = (0..N).map(|i| 2.0 * element::get(DType::F32, &input, i)).collect();
        let output = ExpectedOutput { param: 1, points: None, values, tolerance: Tolerance::EXACT };
        let path = self.folder.path().join("expected");
        Expected { outputs: vec![output] }.write(&path).unwrap();
        let extents = BTreeMap::from([("n".to_string(), N as i64)]);
        Problem { extents, seed: 5, expected: Some(path), ..Problem::default() }
    }

    fn runner(&self) -> WorkerRunner {
        let command = WorkerCommand::daylight(env!("CARGO_BIN_EXE_daylight"), "measure");
        let facts = DeviceFacts {
            name: "test".to_string(),
            kind: "cpu".to_string(),
            l2_bytes: 1 << 20,
            ..DeviceFacts::default()
        };
        let limits = Limits { execute: Duration::from_secs(3), ..Limits::default() };
        let mut runner = WorkerRunner::new(command, Setup::cpu(facts), limits);
        runner.prepare(&self.problem()).unwrap();
        runner
    }
}

fn plan() -> Plan {
    let n = || Dim::Expr("n".to_string());
    let param = |index, name: &str, role| PlanParam {
        index,
        name: name.to_string(),
        dtype: DType::F32,
        shape: vec![n()],
        role,
    };
    let one = || Dim::Const(1);
    Plan {
        params: vec![param(0, "A", Role::In), param(1, "B", Role::Out)],
        workspaces: vec![PlanWorkspace { bytes: Dim::Expr("n * 4".to_string()), init: Init::None }],
        launches: vec![PlanLaunch {
            symbol: "f".to_string(),
            grid: [Dim::Const(BLOCKS), one(), one()],
            block: [one(), one(), one()],
            cluster: [one(), one(), one()],
            dynamic_smem: Dim::Const(0),
            pdl: false,
            args: vec![
                Arg::Param { param: 0 },
                Arg::Param { param: 1 },
                Arg::Workspace { workspace: 0 },
                Arg::Scalar { scalar: "n".to_string(), dtype: DType::I64 },
            ],
        }],
    }
}

fn check(runner: &mut WorkerRunner, candidate: &Candidate) -> RunError {
    runner.execute(candidate).unwrap_err()
}

#[test]
fn a_right_kernel_is_timed_with_raw_samples() {
    let bench = Bench::new();
    let mut runner = bench.runner();
    let candidate = bench.right();
    let errors = runner.execute(&candidate).unwrap();
    assert_eq!((errors.l2, errors.max), (0.0, 0.0));
    let timing = runner.time(&candidate, None).unwrap();
    assert_eq!(timing.policy, "cpu-rotate-v2");
    assert!(timing.samples_ns.len() >= 11 && timing.samples_ns.iter().all(|s| *s > 0.0), "{timing:?}");
    let slow = bench.candidate(
        "  volatile long x = 0; for (long k = 0; k < 2000000; k++) x += k;\n  for (long i = begin * 100; i < end * 100; i++) b[i] = 2 * a[i];",
    );
    runner.execute(&slow).unwrap();
    let best = daylight::measure::stats::median(&timing.samples_ns).unwrap();
    let dropped = runner.time(&slow, Some(best)).unwrap();
    assert!(dropped.dropped && dropped.samples_ns.len() <= 3, "{dropped:?}");
}

#[test]
fn wrong_numbers_are_described() {
    let bench = Bench::new();
    let mut runner = bench.runner();
    let wrong = bench.candidate("  for (long i = begin * 100; i < end * 100; i++) b[i] = i == 1234 ? 7 : 2 * a[i];");
    let error = check(&mut runner, &wrong);
    assert_eq!((error.failure, error.outcome()), (RunFailure::WrongResult, "wrong_result"));
    assert!(error.message.contains("`B` is wrong") && error.message.contains("element 1234 is 7"), "{error}");
    let lazy = bench.candidate("  for (long i = begin * 100; i < end * 100 - 1; i++) b[i] = 2 * a[i];");
    assert!(check(&mut runner, &lazy).message.contains("is NaN"), "unwritten outputs are poison");
    runner.execute(&bench.right()).unwrap();
}

#[test]
fn writing_outside_is_noticed_and_does_not_poison_the_next_candidate() {
    let bench = Bench::new();
    let mut runner = bench.runner();
    let after = bench.candidate("  for (long i = begin * 100; i < end * 100 + (end == 30); i++) b[i] = 2 * a[i];");
    let error = check(&mut runner, &after);
    assert_eq!(error.failure, RunFailure::WrongResult);
    assert!(error.message.contains("wrote after the buffer of `B`"), "{error}");
    let before =
        bench.candidate("  for (long i = begin * 100 - (begin == 0); i < end * 100; i++) b[i] = 2 * a[i < 0 ? 0 : i];");
    assert!(check(&mut runner, &before).message.contains("before the buffer of `B`"));
    let vandal = bench.candidate("  for (long i = begin * 100; i < end * 100; i++) ((float *)a)[i] = b[i] = 9;");
    assert_eq!(check(&mut runner, &vandal).failure, RunFailure::WrongResult);
    runner.execute(&bench.right()).unwrap();
}

#[test]
fn crashes_cost_one_candidate() {
    let bench = Bench::new();
    let mut runner = bench.runner();
    let segv = check(&mut runner, &bench.candidate("  *(volatile int *)8 = 1;"));
    assert_eq!((segv.failure, segv.outcome()), (RunFailure::Crashed, "crashed"));
    assert!(segv.message.contains("SIGSEGV"), "{segv}");
    let exit = check(&mut runner, &bench.candidate("  extern void _exit(int); _exit(42);"));
    assert!(exit.message.contains("exit code 42"), "{exit}");
    let abort = check(&mut runner, &bench.candidate("  __builtin_trap();"));
    assert_eq!(abort.failure, RunFailure::Crashed);
    runner.execute(&bench.right()).unwrap();
}

#[test]
fn an_endless_loop_is_timed_out() {
    let bench = Bench::new();
    let mut runner = bench.runner();
    let error = check(&mut runner, &bench.candidate("  for (volatile int i = 0;;) i++;"));
    assert_eq!((error.failure, error.outcome()), (RunFailure::TimedOut, "timed_out"));
    runner.execute(&bench.right()).unwrap();
}

#[test]
fn what_a_kernel_prints_does_not_disturb_the_pipe() {
    let bench = Bench::new();
    let mut runner = bench.runner();
    let chatty = bench.candidate(
        "  extern int puts(const char *); extern int fflush(void *); puts(\"{}\"); fflush(0);\n  for (long i = begin * 100; i < end * 100; i++) b[i] = 2 * a[i];",
    );
    runner.execute(&chatty).unwrap();
}

#[test]
fn garbage_on_the_pipe_costs_one_candidate() {
    let bench = Bench::new();
    let mut runner = bench.runner();
    // The worker's private copy of the pipe is one of the low descriptors.
    let saboteur = bench.candidate(
        "  extern long write(int, const void *, unsigned long); for (int d = 3; d < 40; d++) write(d, \"garbage\\n\", 8);",
    );
    let error = check(&mut runner, &saboteur);
    assert_eq!(error.failure, RunFailure::Crashed);
    assert!(error.message.contains("no reply: garbage"), "{error}");
    runner.execute(&bench.right()).unwrap();
}

#[test]
fn a_missing_function_or_file_is_a_sentence() {
    let bench = Bench::new();
    let mut runner = bench.runner();
    let mut candidate = bench.right();
    candidate.plan.launches[0].symbol = "g".to_string();
    let error = check(&mut runner, &candidate);
    assert_eq!((error.failure, error.outcome()), (RunFailure::LaunchFailed, "launch_failed"));
    assert!(error.message.contains("no function `g`"), "{error}");
    candidate.file = PathBuf::from("/nonexistent.so");
    assert_eq!(check(&mut runner, &candidate).failure, RunFailure::LaunchFailed);
    let mut unbound = bench.problem();
    unbound.extents.clear();
    runner.prepare(&unbound).unwrap();
    assert!(check(&mut runner, &bench.right()).message.contains("no value for `n`"));
}

#[test]
fn a_workspace_larger_than_the_memory_is_refused_before_it_is_allocated() {
    let bench = Bench::new();
    let mut runner = bench.runner();
    for bytes in [10 << 40, i64::MAX] {
        let mut candidate = bench.right();
        candidate.plan.workspaces[0].bytes = Dim::Const(bytes);
        let error = check(&mut runner, &candidate);
        assert_eq!((error.failure, error.outcome()), (RunFailure::LaunchFailed, "launch_failed"));
        assert!(error.message.contains("bytes of memory, of which"), "{error}");
    }
    runner.execute(&bench.right()).unwrap();
}

#[test]
fn impossible_times_are_refused() {
    let bench = Bench::new();
    let mut runner = bench.runner();
    let problem = Problem { flops: Some(1_000_000_000), peak_flops: Some(1.0), ..bench.problem() };
    runner.prepare(&problem).unwrap();
    let error = runner.time(&bench.right(), None).unwrap_err();
    assert_eq!(error.failure, RunFailure::Impossible);
}

#[test]
fn finalists_are_interleaved_and_a_crash_among_them_spares_the_others() {
    let bench = Bench::new();
    let mut runner = bench.runner();
    let timings = runner.time_interleaved(&[bench.right(), bench.right()], 6);
    assert!(timings.iter().all(|t| t.as_ref().is_ok_and(|t| t.samples_ns.len() == 6)), "{timings:?}");
    let crash = bench.candidate("  *(volatile int *)8 = 1;");
    let timings = runner.time_interleaved(&[bench.right(), crash, bench.right()], 3);
    assert!(timings[0].is_ok() && timings[2].is_ok());
    assert_eq!(timings[1].as_ref().unwrap_err().failure, RunFailure::Crashed);
}

#[test]
fn files_go_in_and_out() {
    let bench = Bench::new();
    let mut runner = bench.runner();
    let (input, output) = (bench.folder.path().join("a"), bench.folder.path().join("b"));
    let floats = |f: &dyn Fn(usize) -> f32| (0..N).flat_map(|i| f(i).to_le_bytes()).collect::<Vec<u8>>();
    std::fs::write(&input, floats(&|i| i as f32)).unwrap();
    let (inputs, outputs) = (BTreeMap::from([(0, input.clone())]), BTreeMap::from([(1, output.clone())]));
    runner.run_files(&bench.right(), &inputs, &outputs).unwrap();
    assert_eq!(std::fs::read(&output).unwrap(), floats(&|i| 2.0 * i as f32));
    std::fs::write(&input, [0; 12]).unwrap();
    let error = runner.run_files(&bench.right(), &inputs, &outputs).unwrap_err();
    assert!(error.message.contains("has 12 bytes, `A` needs 12000"), "{error}");
}

/// On a machine without a driver the answer is a sentence; with one, its facts.
#[test]
fn cuda_is_there_or_a_sentence() {
    let command = WorkerCommand::daylight(env!("CARGO_BIN_EXE_daylight"), "measure");
    let mut runner = WorkerRunner::new(command, Setup::cuda(0), Limits::default());
    match runner.device() {
        Ok(facts) => assert!(facts.sms > 0 && facts.l2_bytes > 0 && facts.cc.0 >= 7, "{facts:?}"),
        Err(error) => {
            assert_eq!(error.failure, RunFailure::DeviceMissing);
            assert!(!error.message.is_empty());
        }
    }
}

#[test]
fn a_kernel_against_itself_shows_the_noise() {
    let bench = Bench::new();
    let mut runner = bench.runner();
    let target = if cfg!(target_arch = "x86_64") { "cpu:x86-64-v3" } else { "cpu:aarch64" };
    let settings = AaSettings { bytes: 4 << 20, trials: 3, turns: 5, limit: Duration::from_secs(5) };
    let report = daylight::measure::aa_test(&bench.compiler, &mut runner, target, &settings).unwrap();
    assert!((1..=3).contains(&report.trials) && report.bytes == 4 << 20, "{report:?}");
    assert!(report.median_us > 0.0 && report.copy_gbps > 0.1 && report.spread >= 0.0, "{report:?}");
    assert!(report.difference_p50 <= report.difference_p99, "{report:?}");
}

/// A parent that is killed closes the pipe: its worker ends, even inside a kernel that does not.
#[test]
fn a_worker_ends_with_its_parent() {
    use std::io::Write;
    let bench = Bench::new();
    let endless = bench.candidate("  for (volatile int i = 0;;) i++;");
    let mut worker = std::process::Command::new(env!("CARGO_BIN_EXE_daylight"))
        .args(["worker", "measure"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut pipe = worker.stdin.take().unwrap();
    let setup = Setup::cpu(DeviceFacts::default());
    let requests = [
        serde_json::json!({"setup": setup}),
        serde_json::json!({"prepare": bench.problem()}),
        serde_json::json!({"execute": endless}),
    ];
    for (id, body) in requests.iter().enumerate() {
        writeln!(pipe, "{}", serde_json::json!({"v": 1, "id": id, "body": body})).unwrap();
    }
    std::thread::sleep(Duration::from_millis(700));
    assert!(worker.try_wait().unwrap().is_none(), "the kernel runs");
    drop(pipe);
    let gone = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        worker.try_wait().unwrap().is_some()
    });
    assert!(gone, "the worker outlived its parent");
}
