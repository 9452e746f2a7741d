//! How noisy a machine is: the A/A test. One copying kernel is timed as if it were two candidates, the
//! way finalists are, and told apart the way the choice does. Whatever difference is found is false.

use crate::backend::{Arg, Compiler, Dim, Language, Plan, PlanLaunch, PlanParam, Role, Source};
use crate::ir::DType;
use crate::log::TIE;
use crate::log::stats::{Median, median, paired, quantile, spread};
use crate::runner::{Candidate, DeviceState, Problem, Runner};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Elements per block of the copy.
const BLOCK: i64 = 4096;
/// A difference that a quiet machine shows in no more than one trial of a hundred.
const SMALL: f64 = 0.01;

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

/// How much to try.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AaSettings {
    /// Bytes that are copied.
    pub bytes: u64,
    /// Trials, each with its own load and warm-up.
    pub trials: usize,
    /// Turns of each trial.
    pub turns: usize,
    /// No new trial begins after this time; at least one is made.
    pub limit: Duration,
}

/// What an A/A test found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AaReport {
    /// Bytes that are copied.
    pub bytes: u64,
    /// Trials made.
    pub trials: usize,
    /// Turns of each trial.
    pub turns: usize,
    /// Median time of the copy, in microseconds.
    pub median_us: f64,
    /// Read and written bytes over that time, in GB/s.
    pub copy_gbps: f64,
    /// Spread of single samples as a share of their median, the middle of the trials.
    pub spread: f64,
    /// Half the 95 % interval of a trial's difference, as a share, the middle of the trials.
    pub interval: f64,
    /// Difference that half of the trials stay below, as a share.
    pub difference_p50: f64,
    /// Difference that 99 of 100 trials stay below, as a share.
    pub difference_p99: f64,
    /// Share of the trials with a difference under 1 %.
    pub under_one_percent: f64,
    /// Trials in which the choice would have called the two different.
    pub false_differences: usize,
    /// How often batches were taken again because something disturbed them.
    pub repeats: u32,
    /// What the device was doing in the last trial, where it tells.
    pub state: Option<DeviceState>,
}

impl AaReport {
    /// True when measurements on this machine can be trusted to a percent.
    pub fn is_quiet(&self) -> bool {
        self.under_one_percent >= 0.99
    }
}

/// One trial: the same kernel twice.
struct Trial {
    median_ns: f64,
    spread: f64,
    difference: f64,
    interval: f64,
    different: bool,
    state: Option<DeviceState>,
}

/// Runs an A/A test of a copying kernel on a target (`cuda:sm_90a`, `cpu:x86-64-v3`).
///
/// # Errors
/// A sentence, when the kernel can't be compiled or run.
pub fn aa_test(
    compiler: &dyn Compiler,
    runner: &mut dyn Runner,
    target: &str,
    settings: &AaSettings,
) -> Result<AaReport, String> {
    let blocks = (settings.bytes as i64 / 4 / BLOCK).max(1);
    let copy = copy(compiler, target, blocks)?;
    let bytes = (4 * BLOCK * blocks) as u64;
    let problem = Problem { bytes: Some(2 * bytes), ..Problem::default() };
    runner.prepare(&problem).map_err(|e| e.message)?;
    let start = Instant::now();
    let mut trials = vec![];
    while trials.is_empty() || (trials.len() < settings.trials && start.elapsed() < settings.limit) {
        trials.push(trial(runner, &copy, settings.turns)?);
    }
    Ok(report(bytes, settings.turns, &trials))
}

fn trial(runner: &mut dyn Runner, copy: &Candidate, turns: usize) -> Result<Trial, String> {
    let twice = [Candidate { id: 0, ..copy.clone() }, Candidate { id: 1, ..copy.clone() }];
    let timed = runner.time_interleaved(&twice, turns).into_iter().collect::<Result<Vec<_>, _>>();
    let timed = timed.map_err(|e| e.message)?;
    let [a, b] = &timed[..] else { return Err("the copy was not timed twice".to_string()) };
    let (Some(first), Some(second)) = (Median::of(&a.samples_ns), Median::of(&b.samples_ns)) else {
        return Err("the copy was timed without samples".to_string());
    };
    // As the choice does: the one with the faster median is the best, is the other a tie?
    let (slow, fast) = if first.value > second.value { (a, b) } else { (b, a) };
    let found = paired(&slow.samples_ns, &fast.samples_ns);
    let found = found.ok_or("the two series of the copy are not equally long")?;
    Ok(Trial {
        median_ns: first.value,
        spread: spread(&a.samples_ns).unwrap_or(0.0),
        difference: found.difference.abs(),
        interval: (found.high - found.low) / 2.0,
        different: !found.ties(TIE),
        state: timed.into_iter().next_back().and_then(|t| t.state),
    })
}

fn report(bytes: u64, turns: usize, trials: &[Trial]) -> AaReport {
    let middle = |of: fn(&Trial) -> f64| median(&trials.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0);
    let differences: Vec<f64> = trials.iter().map(|t| t.difference).collect();
    let below = |share| quantile(&differences, share).unwrap_or(0.0);
    let median_ns = middle(|t| t.median_ns);
    AaReport {
        bytes,
        trials: trials.len(),
        turns,
        median_us: median_ns / 1e3,
        copy_gbps: (2 * bytes) as f64 / median_ns,
        spread: middle(|t| t.spread),
        interval: middle(|t| t.interval),
        difference_p50: below(0.5),
        difference_p99: below(0.99),
        under_one_percent: differences.iter().filter(|d| **d < SMALL).count() as f64 / trials.len() as f64,
        false_differences: trials.iter().filter(|t| t.different).count(),
        repeats: trials.iter().filter_map(|t| t.state.as_ref()).map(|s| s.repeats).sum(),
        state: trials.iter().next_back().and_then(|t| t.state.clone()),
    }
}

/// The compiled copy.
fn copy(compiler: &dyn Compiler, target: &str, blocks: i64) -> Result<Candidate, String> {
    let cuda = target.starts_with("cuda:");
    let (text, language) = if cuda { (CUDA, Language::Cuda) } else { (C, Language::C) };
    let symbols = vec!["copy".to_string()];
    let source = Source { text: text.to_string(), language, target: target.to_string(), symbols };
    let file = compiler.compile(&source).map_err(|e| e.message)?.path;
    Ok(Candidate { id: 0, file, plan: plan(blocks, cuda) })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::fake::{FakeCompiler, FakeRunner};
    use crate::runner::{RunError, RunFailure};

    fn with(runner: FakeRunner, limit: Duration) -> Result<AaReport, String> {
        let folder = tempfile::tempdir().unwrap();
        let compiler = FakeCompiler::new(folder.path());
        let mut runner = runner;
        let settings = AaSettings { bytes: 1 << 20, trials: 200, turns: 15, limit };
        aa_test(&compiler, &mut runner, "cpu:test", &settings)
    }

    fn noisy(share: f64) -> AaReport {
        with(FakeRunner::new(|_| Ok(1e6)).noisy(share, 7), Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn known_noise_is_found_again() {
        let quiet = noisy(0.004);
        assert_eq!((quiet.trials, quiet.turns, quiet.bytes), (200, 15, 1 << 20));
        assert!((quiet.median_us - 1000.0).abs() < 1.0 && (quiet.copy_gbps - 2.097).abs() < 0.01, "{quiet:?}");
        assert!((quiet.spread - 0.004).abs() < 0.001, "{quiet:?}");
        assert!(quiet.is_quiet() && quiet.false_differences == 0, "{quiet:?}");
        assert!(quiet.difference_p50 < quiet.difference_p99 && quiet.difference_p99 < 0.01, "{quiet:?}");
        assert!((0.001..0.006).contains(&quiet.interval), "{quiet:?}");
    }

    /// Where the noise is larger than the band, the interval keeps luck from being called a difference.
    #[test]
    fn a_noisy_machine_is_called_so_and_seldom_sees_what_is_not_there() {
        let loud = noisy(0.06);
        assert!(!loud.is_quiet() && loud.under_one_percent < 0.7, "{loud:?}");
        assert!(loud.difference_p99 > 0.03 && loud.false_differences <= 16, "{loud:?}");
    }

    #[test]
    fn time_ends_it_after_one_trial_and_failures_are_sentences() {
        let short = with(FakeRunner::new(|_| Ok(1e6)), Duration::ZERO).unwrap();
        assert_eq!((short.trials, short.difference_p99, short.under_one_percent), (1, 0.0, 1.0));
        let broken = FakeRunner::new(|_| Err(RunError::new(RunFailure::Crashed, "gone")));
        assert_eq!(with(broken, Duration::ZERO), Err("gone".to_string()));
    }
}
