//! How noisy a machine is: one copying kernel timed against itself.

use crate::backend::{
    Arg, Candidate, Compiler, Dim, Language, Plan, PlanLaunch, PlanParam, Problem, Role, Runner, Source,
};
use crate::ir::DType;
use crate::log::stats::{median, spread};

/// Elements per block of the copy.
const BLOCK: i64 = 4096;
/// Samples of each side.
const ROUNDS: usize = 25;

const CUDA: &str = "extern \"C\" __global__ void __launch_bounds__(256) copy(const float4* a, float4* b) {
  for (int i = threadIdx.x; i < 1024; i += 256) b[blockIdx.x * 1024ll + i] = a[blockIdx.x * 1024ll + i];
}
";

const C: &str = "void copy(void *const *buffers, const long long *scalars, long long begin, long long end) {
  const float *a = buffers[0];
  float *b = buffers[1];
  (void)scalars;
  for (long long i = begin * 4096; i < end * 4096; i++) b[i] = a[i];
}
";

/// What a kernel's times look like beside its own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Noise {
    /// Median of a copy, in microseconds.
    pub median_us: f64,
    /// Read and written bytes over that time, in GB/s.
    pub copy_gbps: f64,
    /// Spread of single samples, as a share of the median.
    pub spread: f64,
    /// Difference between the medians of two interleaved series of the same kernel, as a share.
    pub difference: f64,
}

/// Times a copy of `bytes` against itself on a target (`cuda:sm_90a`, `cpu:x86-64-v3`).
///
/// # Errors
/// A sentence, when the kernel can't be compiled or run.
pub fn noise(compiler: &dyn Compiler, runner: &mut dyn Runner, target: &str, bytes: u64) -> Result<Noise, String> {
    let cuda = target.starts_with("cuda:");
    let (text, language) = if cuda { (CUDA, Language::Cuda) } else { (C, Language::C) };
    let symbols = vec!["copy".to_string()];
    let source = Source { text: text.to_string(), language, target: target.to_string(), symbols };
    let file = compiler.compile(&source).map_err(|e| e.message)?.path;
    let blocks = (bytes as i64 / 4 / BLOCK).max(1);
    let candidate = Candidate { id: 0, file, plan: plan(blocks, cuda) };
    runner.prepare(&Problem::default()).map_err(|e| e.message)?;
    let sides = runner.time_interleaved(&[candidate.clone(), candidate], ROUNDS);
    let sides = sides.into_iter().map(|t| t.map(|t| t.samples_ns)).collect::<Result<Vec<_>, _>>();
    let sides = sides.map_err(|e| e.message)?;
    let medians: Vec<f64> = sides.iter().filter_map(|s| median(s)).collect();
    let [a, b] = medians[..] else { return Err("the copy was not timed".to_string()) };
    Ok(Noise {
        median_us: a / 1e3,
        copy_gbps: (2 * 4 * BLOCK * blocks) as f64 / a,
        spread: spread(&sides[0]).unwrap_or(0.0),
        difference: (a - b).abs() / a.min(b),
    })
}

fn plan(blocks: i64, cuda: bool) -> Plan {
    let param = |index, name: &str, role| PlanParam {
        index,
        name: name.to_string(),
        dtype: DType::F32,
        shape: vec![Dim::Const(blocks * BLOCK)],
        role,
    };
    let one = || Dim::Const(1);
    let launch = PlanLaunch {
        symbol: "copy".to_string(),
        grid: [Dim::Const(blocks), one(), one()],
        block: [Dim::Const(if cuda { 256 } else { 1 }), one(), one()],
        cluster: [one(), one(), one()],
        dynamic_smem: Dim::Const(0),
        pdl: false,
        args: vec![Arg::Param { param: 0 }, Arg::Param { param: 1 }],
    };
    Plan { params: vec![param(0, "a", Role::In), param(1, "b", Role::Out)], workspaces: vec![], launches: vec![launch] }
}
