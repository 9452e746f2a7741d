//! The CUDA device, where there is one: right kernels, every way of being wrong, both clocks. Each
//! test needs an NVIDIA GPU with its driver, and says that it was skipped without one.

use crate::common;
use daylight::backend::{
    Arg, Compiler, Dim, Language, LocalCompiler, Places, Plan, PlanLaunch, PlanParam, PlanWorkspace, Role, Source,
    Tools, plan::Init,
};
use daylight::ir::DType;
use daylight::measure::{
    AaSettings, Expected, Setup, Tolerance, WorkerRunner, expected::ExpectedOutput, inputs, stats::median,
};
use daylight::runner::cpu::CpuDevice;
use daylight::runner::device::Device;
use daylight::runner::{
    Candidate, DeviceFacts, Limits, Problem, RunError, RunFailure, Runner, WorkerCommand, cuda, element,
};
use std::collections::BTreeMap;
use std::time::Duration;

const ROWS: usize = 2048;
const COLUMNS: usize = 8192;

/// Row sums of a 2048 x 8192 matrix of floats: one block of 256 threads per row.
struct Bench {
    folder: tempfile::TempDir,
    compiler: LocalCompiler,
    target: String,
}

impl Bench {
    /// `None`, with a message, where there is no device or no NVRTC.
    fn new() -> Option<Bench> {
        let no_gpu = |why: &str| common::skip_without_gpu(&format!("needs an NVIDIA GPU and its driver: {why}"));
        let devices = cuda::devices().map_err(|e| no_gpu(&e.message)).ok()?;
        let first = devices.first().or_else(|| {
            no_gpu("no CUDA device");
            None
        })?;
        let suffix = if first.cc.0 >= 9 { "a" } else { "" };
        let folder = tempfile::tempdir().unwrap();
        let mut places = Places::of(|k| std::env::var_os(k), None);
        places.cache = folder.path().join("cache");
        let tools = Tools::find(&places, Language::Cuda);
        tools.nvrtc.clone().map_err(|why| common::skip(&why)).ok()?;
        let target = format!("cuda:sm_{}{}{suffix}", first.cc.0, first.cc.1);
        Some(Bench { folder, compiler: LocalCompiler::new(tools), target })
    }

    fn candidate(&self, body: &str) -> Candidate {
        let text = format!(
            "extern \"C\" __global__ void __launch_bounds__(256) f(const float* __restrict__ a, float* __restrict__ b, float* w, int n) {{\n  __shared__ float s[8]; extern __shared__ float big[];\n{body}\n}}\n"
        );
        let symbols = vec!["f".to_string()];
        let source = Source { text, language: Language::Cuda, target: self.target.clone(), symbols };
        let file = self.compiler.compile(&source).unwrap().path;
        Candidate { id: 1, file, plan: plan() }
    }

    fn right(&self) -> Candidate {
        self.candidate(&row_sum(""))
    }

    fn problem(&self) -> Problem {
        let input = inputs::tensor(DType::F32, ROWS * COLUMNS, 5, 0, None);
        let sum = |r: usize| (0..COLUMNS).map(|c| element::get(DType::F32, &input, r * COLUMNS + c)).sum();
        let points: Vec<u64> = (0..64).chain(ROWS as u64 - 64..ROWS as u64).collect();
        let values = points.iter().map(|r| sum(*r as usize)).collect();
        let tolerance = Tolerance::of(DType::F32, DType::F32, COLUMNS as u64);
        let output = ExpectedOutput { param: 1, points: Some(points), values, tolerance };
        let path = self.folder.path().join("expected");
        Expected { outputs: vec![output] }.write(&path).unwrap();
        let extents = BTreeMap::from([("n".to_string(), COLUMNS as i64)]);
        let bytes = Some((ROWS * COLUMNS * 4 + ROWS * 4) as u64);
        Problem { extents, seed: 5, expected: Some(path), bytes, ..Problem::default() }
    }

    fn runner(&self, setup: Setup) -> WorkerRunner {
        let command = WorkerCommand::daylight(env!("CARGO_BIN_EXE_daylight"), "measure");
        let limits = Limits { execute: Duration::from_secs(5), ..Limits::default() };
        let mut runner = WorkerRunner::new(command, setup, limits);
        runner.prepare(&self.problem()).unwrap();
        runner
    }
}

/// The row sum with something done before the result is stored.
fn row_sum(extra: &str) -> String {
    format!(
        "  const float4* row = reinterpret_cast<const float4*>(a + (long long)blockIdx.x * n);
  float x = 0;
  for (int i = threadIdx.x; i < n / 4; i += 256) {{ float4 v = row[i]; x += v.x + v.y + v.z + v.w; }}
  for (int d = 16; d; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0) {{
    float t = 0;
    for (int i = 0; i < 8; i++) t += s[i];
    {extra}
    b[blockIdx.x] = t;
  }}"
    )
}

fn plan() -> Plan {
    let param = |index, name: &str, shape: Vec<Dim>, role| PlanParam {
        index,
        name: name.to_string(),
        dtype: DType::F32,
        shape,
        role,
    };
    let rows = || Dim::Const(ROWS as i64);
    let one = || Dim::Const(1);
    Plan {
        params: vec![
            param(0, "A", vec![rows(), Dim::Expr("n".to_string())], Role::In),
            param(1, "B", vec![rows()], Role::Out),
        ],
        workspaces: vec![PlanWorkspace { bytes: Dim::Expr("n * 4".to_string()), init: Init::ZeroEach }],
        launches: vec![PlanLaunch {
            symbol: "f".to_string(),
            grid: [rows(), one(), one()],
            block: [Dim::Const(256), one(), one()],
            cluster: [one(), one(), one()],
            dynamic_smem: Dim::Const(0),
            pdl: false,
            args: vec![
                Arg::Param { param: 0 },
                Arg::Param { param: 1 },
                Arg::Workspace { workspace: 0 },
                Arg::Scalar { scalar: "n".to_string(), dtype: DType::I32 },
            ],
        }],
    }
}

fn check(runner: &mut WorkerRunner, candidate: &Candidate) -> RunError {
    runner.execute(candidate).unwrap_err()
}

pub fn both_clocks_time_a_right_kernel() {
    let Some(bench) = Bench::new() else { return };
    let mut candidate = bench.right();
    candidate.plan.workspaces[0].init = Init::None;
    for setup in [Setup::cuda(0), Setup::cuda_events(0)] {
        let mut runner = bench.runner(setup);
        let errors = runner.execute(&candidate).unwrap();
        assert!(errors.l2 < 1e-4, "{errors:?}");
        let timing = runner.time(&candidate, None).unwrap();
        let ns = median(&timing.samples_ns).unwrap();
        eprintln!(
            "{}: {:.2} us, {} samples: {:?}",
            timing.policy,
            ns / 1e3,
            timing.samples_ns.len(),
            timing.samples_ns
        );
        assert!(ns > 1e3 && ns < 1e6, "{timing:?}");
        let dropped = runner.time(&candidate, Some(ns / 2.0)).unwrap();
        assert!(dropped.dropped, "{dropped:?}");
        let turns = runner.time_interleaved(&[candidate.clone(), candidate.clone()], 9);
        let medians: Vec<f64> = turns.iter().map(|t| median(&t.as_ref().unwrap().samples_ns).unwrap()).collect();
        eprintln!("interleaved: {medians:?}");
        assert!((medians[0] / medians[1] - 1.0).abs() < 0.1, "a kernel against itself: {medians:?}");
    }
}

pub fn large_shared_memory_and_a_zeroed_workspace_work() {
    let Some(bench) = Bench::new() else { return };
    let mut runner = bench.runner(Setup::cuda(0));
    let body = row_sum("big[20000] = t; t = big[20000] + w[7];");
    let mut candidate = bench.candidate(&body);
    candidate.plan.launches[0].dynamic_smem = Dim::Const(90_000);
    runner.execute(&candidate).unwrap();
    runner.time(&candidate, None).unwrap();
    candidate.plan.launches[0].dynamic_smem = Dim::Const(400_000);
    let error = check(&mut runner, &candidate);
    assert_eq!((error.failure, error.outcome()), (RunFailure::LaunchFailed, "launch_failed"));
    candidate.plan.launches[0].dynamic_smem = Dim::Const(0);
    candidate.plan.launches[0].block[0] = Dim::Const(2048);
    assert_eq!(check(&mut runner, &candidate).failure, RunFailure::LaunchFailed);
    runner.execute(&bench.right()).unwrap();
}

pub fn wrong_kernels_cost_themselves_alone() {
    let Some(bench) = Bench::new() else { return };
    let mut runner = bench.runner(Setup::cuda(0));
    let wrong = check(&mut runner, &bench.candidate(&row_sum("if (blockIdx.x == 17) t = 0;")));
    assert!(wrong.failure == RunFailure::WrongResult && wrong.message.contains("element 17 "), "{wrong}");
    let unwritten = check(&mut runner, &bench.candidate(&row_sum("if (blockIdx.x == 17) return;")));
    assert!(unwritten.message.contains("is NaN"), "{unwritten}");
    let outside = check(&mut runner, &bench.candidate(&row_sum("b[gridDim.x + blockIdx.x % 2] = 1;")));
    assert!(outside.message.contains("wrote after the buffer of `B`"), "{outside}");
    runner.execute(&bench.right()).unwrap();
}

pub fn broken_contexts_and_endless_kernels_are_replaced() {
    let Some(bench) = Bench::new() else { return };
    let mut runner = bench.runner(Setup::cuda(0));
    let illegal = check(&mut runner, &bench.candidate(&row_sum("*reinterpret_cast<volatile float*>(16) = t;")));
    assert_eq!(illegal.failure, RunFailure::LaunchFailed);
    assert!(illegal.message.contains("ILLEGAL_ADDRESS"), "{illegal}");
    runner.execute(&bench.right()).unwrap();
    let misaligned = "*reinterpret_cast<float2*>(reinterpret_cast<char*>(b) + 4) = make_float2(t, t);";
    let misaligned = check(&mut runner, &bench.candidate(&row_sum(misaligned)));
    assert!(misaligned.message.contains("MISALIGNED"), "{misaligned}");
    let trap = check(&mut runner, &bench.candidate(&row_sum("asm volatile(\"trap;\");")));
    assert_eq!(trap.failure, RunFailure::LaunchFailed);
    let endless = check(&mut runner, &bench.candidate(&row_sum("while (*(volatile int*)w == 0) {}")));
    assert_eq!((endless.failure, endless.outcome()), (RunFailure::TimedOut, "timed_out"));
    runner.execute(&bench.right()).unwrap();
}

/// The bound: the same kernel differs from itself by less than 1 % in 99 of 100 trials.
pub fn a_kernel_against_itself_shows_the_noise() {
    let Some(bench) = Bench::new() else { return };
    let mut runner = bench.runner(Setup::cuda(0));
    for bytes in [256 << 20, 1 << 20] {
        let settings = AaSettings { bytes, trials: 100, turns: 15, limit: Duration::from_secs(20) };
        let report = daylight::measure::aa_test(&bench.compiler, &mut runner, &bench.target, &settings).unwrap();
        eprintln!("{report:?}");
        assert!(report.is_quiet() && report.false_differences <= 1, "{report:?}");
        assert!(report.trials >= 50, "{report:?}");
    }
}

/// NVML watches the device that CUDA numbers zero.
pub fn the_state_comes_with_the_samples() {
    let Some(bench) = Bench::new() else { return };
    let mut runner = bench.runner(Setup::cuda(0));
    let timing = runner.time(&bench.right(), None).unwrap();
    match cuda::observe(0) {
        Err(why) => common::skip(&why),
        Ok(seen) => {
            eprintln!("{:?}; {seen:?}", timing.state);
            let state = timing.state.expect("the worker sees what this process sees");
            assert!(state.sm_mhz > 100 && state.mem_mhz > 100 && state.temperature_c < 120, "{state:?}");
            assert!(seen.next < Duration::from_millis(20), "{seen:?}");
        }
    }
}

/// What measuring a candidate costs, step by step of the runner.
pub fn a_candidate_is_measured_in_a_few_graphs() {
    let Some(bench) = Bench::new() else { return };
    let mut runner = bench.runner(Setup::cuda(0));
    let candidate = bench.right();
    runner.execute(&candidate).unwrap();
    runner.time(&candidate, None).unwrap();
    let clock = std::time::Instant::now();
    runner.execute(&candidate).unwrap();
    let checked = clock.elapsed();
    let timing = runner.time(&candidate, None).unwrap();
    let timed = clock.elapsed() - checked;
    let best = median(&timing.samples_ns).unwrap();
    let clock = std::time::Instant::now();
    let dropped = runner.time(&candidate, Some(best / 2.5)).unwrap();
    let dropped_in = clock.elapsed();
    eprintln!("checked in {checked:?}, timed in {timed:?} ({:?}), dropped in {dropped_in:?}", timing.samples_ns);
    assert!(dropped.dropped && dropped.samples_ns.len() == 1, "{dropped:?}");
    assert!(timed < Duration::from_millis(100), "{timed:?}");
}

/// Elements picked and areas compared where they lie: the host always, the GPU where there is one.
pub fn results_are_looked_at_on_the_device() {
    look_at_results(&mut CpuDevice::new(DeviceFacts::default()));
    if Bench::new().is_some() {
        look_at_results(&mut cuda::CudaDevice::open(0).unwrap());
    }
}

fn look_at_results(device: &mut dyn Device) {
    const BYTES: usize = (1 << 20) + 16;
    let pattern: Vec<u8> = (0..BYTES).map(|i| (i * 31 + i / 251) as u8).collect();
    let (a, b) = (device.allocate(BYTES).unwrap(), device.allocate(BYTES).unwrap());
    device.upload(a.at, &pattern).unwrap();
    for size in [1, 2, 4, 8] {
        let last = (BYTES / size - 1) as u64;
        let points: Vec<u64> = (0..5000).map(|i| (i * 7919) % last).chain([0, last]).collect();
        let mut found = vec![0; points.len() * size];
        device.gather(a.at, size, &points, &mut found).unwrap();
        for (p, element) in points.iter().zip(found.chunks(size)) {
            assert_eq!(element, &pattern[*p as usize * size..][..size], "element {p} of {size} bytes");
        }
    }
    device.copy(b.at, a.at, BYTES).unwrap();
    assert!(!device.differ(a.at, b.at, BYTES).unwrap());
    for at in [0, 77, 12_345, BYTES - 1] {
        device.upload(b.at + at as u64, &[pattern[at] ^ 0x40]).unwrap();
        assert!(device.differ(a.at, b.at, BYTES).unwrap(), "byte {at}");
        device.upload(b.at + at as u64, &[pattern[at]]).unwrap();
    }
    assert!(!device.differ(a.at, b.at, BYTES).unwrap() && !device.differ(a.at, b.at + 1, 0).unwrap());
    device.free(a);
    device.free(b);
}
