//! What may be typed.
//!
//! Stands in a circle with `simulate`, which has arguments of its own and takes the common ones.

use super::import::args::Import;
use super::log::args::Log;
use super::new::args::New;
use super::simulate::Simulate;
use crate::assemble::Constant;
use crate::job::select::Choice;
use crate::tune::search;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Finds the fastest correct kernel for a tensor function and remembers it.
#[derive(Parser, Debug)]
#[command(name = "daylight", version, about, max_term_width = 80)]
#[command(after_help = "Exit codes: 0 done, 1 the work failed, 2 usage, 3 input not understood or refused, \
4 device or tool missing, 130 ended by Ctrl-C, 143 by SIGTERM.\n\nExample:\n  daylight tune examples/mean.py --trials 64")]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Args, Debug, Default)]
pub struct Common {
    /// One JSON object per function on standard output; everything else goes to standard error
    #[arg(long, global = true, display_order = 900)]
    pub json: bool,
    /// Values of symbolic extents, such as n=512,m=8; for tune and apply-best several, as in n=1,8,64
    #[arg(long, global = true, display_order = 901, value_name = "N=V,...")]
    pub bind: Vec<String>,
    /// Only the function of this name, of files that hold several; may be repeated
    #[arg(long, global = true, display_order = 902, value_name = "NAME")]
    pub function: Vec<String>,
    /// Round every value as the function says, as `T.func_attr({"daylight.strict": True})` does: no float16 or bfloat16 kept
    /// in float32, no relaxed arithmetic
    #[arg(long, global = true, display_order = 903)]
    pub strict: bool,
    /// Folder of knob tables that replace the built-in ones of the same rule
    #[arg(long, global = true, display_order = 904, value_name = "DIR")]
    pub schedules: Option<PathBuf>,
    /// Folder for compiled artifacts and fetched tools [default: ~/.cache/daylight]
    #[arg(long, global = true, display_order = 905, value_name = "DIR")]
    pub cache: Option<PathBuf>,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Read functions and say whether they can be scheduled, by which rule, and how much work they are
    #[command(after_help = "Example:\n  daylight check tests/workloads --json")]
    Check(Check),
    /// Show why rules accept or decline a function, or its text at any stage
    #[command(after_help = "Example:\n  daylight explain examples/mean.py --target cuda:sm_90a --emit cuda")]
    Explain(Explain),
    /// Write a function for a common operation, with sizes, types and what follows it
    #[command(after_help = "Example:
  daylight new matmul --m n --n 4096 --k 4096 --dtype bfloat16 --out mul.py")]
    New(New),
    /// Find the fastest kernel of each function by measuring, and log every outcome
    #[command(after_help = "Example:\n  daylight tune examples/mean.py --device cpu --trials 64")]
    Tune(Tune),
    /// Count the calls of a module's functions in a step of the model, and tune all of them as one job
    #[command(after_help = "Example:
  daylight import model.py --entry decode --bind n=16            # lists the calls
  daylight import model.py --entry decode --bind n=16 --trials 500")]
    Import(Import),
    /// Run a function once on .npy files
    #[command(after_help = "Example:\n  daylight run examples/mean.py --inputs in --outputs out
  daylight run examples/row_sums.py --device sim:sm_90 --inputs in --outputs out
  (in/00_A.npy is the first parameter's value, out/01_B.npy becomes the second's)")]
    Run(Run),
    /// Check candidates against the reference, on the device or in the simulator, without timing
    #[command(after_help = "Example:\n  daylight verify examples/mean.py --target sim:sm_90 --candidates 5")]
    Verify(Verify),
    /// Time the log's best kernel, the default, a point chosen by hand and others' kernels turn by turn in one run
    #[command(
        after_help = "Example:\n  daylight bench examples/mean.py --baseline default,mine.cu:mean --out bench.jsonl
  (mine.cu has a first line such as // daylight: grid=(2048,1,1) block=(256,1,1))"
    )]
    Bench(Bench),
    /// Write the best kernels as files that a program is built with
    #[command(
        after_help = "Example:\n  daylight apply-best examples/mean.py --log tuning-logs --target cpu --out lib",
        override_usage = "daylight apply-best --log <L> --target <T,...> --out <DIR> <FILE>..."
    )]
    ApplyBest(ApplyBest),
    /// Write a log's report
    #[command(after_help = "Example:\n  daylight report --log tuning-logs --out report")]
    Report(Report),
    /// Say what was found on this machine, what is missing and how to get it
    #[command(after_help = "Example:\n  daylight doctor --fetch-nvrtc")]
    Doctor(Doctor),
    /// Show, check, join, shrink and export tuning logs
    #[command(after_help = "Example:\n  daylight log show tuning-logs --best")]
    Log(Log),
    /// Replay searches against the log of an exhaustive run: how soon would they have found the best
    #[command(after_help = "Example:\n  daylight simulate tests/workloads --log tests/data --markdown")]
    Simulate(Simulate),
    /// Show or empty the folder of compiled artifacts
    #[command(after_help = "Example:\n  daylight cache clean --older-than 30")]
    Cache(Cache),
    /// Write what a shell needs to complete commands and options
    #[command(after_help = "Example:\n  daylight completions zsh > ~/.zfunc/_daylight")]
    Completions(Completions),
    /// Write manual pages
    #[command(after_help = "Example:\n  daylight man --out ~/.local/share/man/man1")]
    Man(Man),
    /// Serve as a worker process of another daylight
    #[command(hide = true, after_help = "Example:\n  daylight worker compile")]
    Worker {
        /// What to do
        kind: WorkerKind,
    },
}

/// What a worker does.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum WorkerKind {
    /// Compile programs
    Compile,
    /// Check and time candidates
    Measure,
}

/// Folder of the log where none is named.
pub const LOG: &str = "tuning-logs";

#[derive(Args, Debug)]
pub struct Check {
    /// Files or folders of TVMScript
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Target for which the rule is named
    #[arg(long, value_name = "T", default_value = "cuda:sm_90a")]
    pub target: String,
}

#[derive(Args, Debug)]
pub struct Choose {
    /// Only this rule, or one of its forms
    #[arg(long, value_name = "R")]
    pub rule: Option<String>,
    /// Value of a knob, such as threads=256 or hint=evict_first; may be repeated
    #[arg(long, value_name = "KNOB=VALUE")]
    pub set: Vec<String>,
}

impl Choose {
    /// What was chosen.
    pub fn choice(&self) -> Choice {
        Choice { rule: self.rule.clone(), set: self.set.clone() }
    }
}

#[derive(Args, Debug)]
pub struct Explain {
    /// Files or folders of TVMScript
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What to build for: cuda:sm_90a, cpu, sim:sm_90, ...
    #[arg(long, value_name = "T")]
    pub target: String,
    #[command(flatten)]
    pub choose: Choose,
    /// What to print
    #[arg(long, value_enum, default_value = "decisions")]
    pub emit: Emit,
    /// With --emit kernel: the kernels as they are after this pass of lowering, such as flatten
    #[arg(long, value_name = "PASS")]
    pub after: Option<String>,
}

/// A stage whose text can be shown.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emit {
    /// What each rule says, and its knobs; of a tile program what each variant says to each call
    Decisions,
    /// The scheduled function
    Tir,
    /// The schedule's steps
    Trace,
    /// The lowered kernels
    Kernel,
    /// CUDA C++
    Cuda,
    /// C
    C,
    /// PTX assembly
    Ptx,
    /// The compiled CUDA binary
    Cubin,
    /// Machine code as text
    Sass,
}

#[derive(Args, Debug)]
pub struct Tune {
    /// Files or folders of TVMScript
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// auto, cpu, cuda, cuda:N, or cuda:all for all GPUs of one model together
    #[arg(long, value_name = "D", default_value = "auto")]
    pub device: String,
    /// Tune for this target, which the device named can run, such as cpu:x86-64-v3 on a machine of level 4
    #[arg(long, value_name = "T")]
    pub target: Option<String>,
    /// Measure nothing: rank for --target, compile the best candidates, log scores and no times
    #[arg(long, requires = "target",
        conflicts_with_all = ["device", "time_limit", "weights", "retry_failed", "search", "patience"])]
    pub no_measure: bool,
    /// Log file, or folder with one file per target
    #[arg(long, value_name = "L", default_value = LOG)]
    pub log: PathBuf,
    /// Candidates per function [default: 64, with --no-measure 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub trials: Option<u32>,
    /// Seconds for all functions together, shared by calls times the gap to the floor
    #[arg(long, value_name = "S")]
    pub time_limit: Option<f64>,
    /// File of lines name,calls: how often each function is called in one step of the model
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Try again what failed in earlier runs
    #[arg(long)]
    pub retry_failed: bool,
    /// Seed of sampling and inputs
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// guided, random or exhaustive
    #[arg(long, value_name = "NAME", default_value = search::NAMES[0])]
    pub search: String,
    /// Measured candidates without progress after which the search ends [default: all trials are used]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub patience: Option<u32>,
    /// Compilers at a time [default: one per core]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// Measure kernels that start while those before them end, as `apply-best --overlap` makes them: for GPUs from sm_90 on
    #[arg(long, conflicts_with = "no_measure")]
    pub overlap: bool,
    /// With --overlap: tensors that no kernel writes while those run, such as weights, which they may read early
    #[arg(long, value_name = "FUNCTION.TENSOR", value_delimiter = ',', requires = "overlap")]
    pub constant: Vec<Constant>,
    /// This run's share of the functions, for job arrays; `daylight log merge` joins the logs
    #[arg(long, value_name = "K/N", default_value = "1/1")]
    pub shard: String,
}

#[derive(Args, Debug)]
pub struct Run {
    /// File with one function
    pub file: PathBuf,
    /// auto, cpu, cuda or cuda:N; sim:sm_90 for the simulator, which needs no GPU
    #[arg(long, value_name = "D", default_value = "auto")]
    pub device: String,
    /// Log to take the best kernel from; without it the default is run
    #[arg(long, value_name = "L")]
    pub log: Option<PathBuf>,
    #[command(flatten)]
    pub choose: Choose,
    /// Folder of NN_<param>.npy files, NN the parameter's position
    #[arg(long, value_name = "DIR")]
    pub inputs: PathBuf,
    /// Folder for the outputs
    #[arg(long, value_name = "DIR")]
    pub outputs: PathBuf,
}

#[derive(Args, Debug)]
pub struct Bench {
    /// Files or folders of TVMScript
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// auto, cpu, cuda or cuda:N
    #[arg(long, value_name = "D", default_value = "auto")]
    pub device: String,
    /// Log file or folder to take the best kernel of this device from
    #[arg(long, value_name = "L", default_value = LOG)]
    pub log: PathBuf,
    /// A point chosen by hand, also timed
    #[command(flatten)]
    pub choose: Choose,
    /// Also timed: default, cublas, a kernel FILE.cu:SYMBOL (FILE.c:SYMBOL on the CPU), or the best of another log
    #[arg(long, value_name = "B,...", value_delimiter = ',', default_value = "default")]
    pub baseline: Vec<String>,
    /// Seed of inputs
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// File to append a line of JSON for each function to, which `daylight report --bench` reads
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Verify {
    /// Files or folders of TVMScript
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// sim:sm_90 for the simulator, else the target of a device that is there
    #[arg(long, value_name = "T")]
    pub target: String,
    /// Simulate so many blocks of the last launch, all of those before it, and compare what they write
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub blocks: Option<u64>,
    /// Simulate all blocks of a large function, not a twin of it with smaller sizes
    #[arg(long, conflicts_with = "blocks")]
    pub whole: bool,
    /// Candidates besides the defaults
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub candidates: u32,
    /// Verify the function with other sizes in place of its own
    #[arg(long, value_name = "KIND")]
    pub sizes: Option<Sizes>,
    /// Seed of sampling and inputs
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
}

/// Sizes that schedules do not divide.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sizes {
    /// Odd, not prime
    Odd,
    /// Prime
    Prime,
    /// One where the function allows it, else the smallest
    One,
}

#[derive(Args, Debug)]
pub struct ApplyBest {
    /// Files or folders of TVMScript
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Log file or folder
    #[arg(long, value_name = "L")]
    pub log: PathBuf,
    /// Targets, separated by commas
    #[arg(long, value_name = "T,...", required = true, value_delimiter = ',')]
    pub target: Vec<String>,
    /// The machine whose records count, where the log holds several of a target
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,
    /// Folder for the files
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// What to write besides kernels and manifest
    #[arg(long, value_enum, value_delimiter = ',', default_value = "rust")]
    pub emit: Vec<EmitFiles>,
    /// With --emit c: name of the header and the source, with which all that they declare begins
    #[arg(long, value_name = "NAME", default_value = "kernels")]
    pub c_name: String,
    /// Fail where a kernel is not exactly the one that was measured
    #[arg(long)]
    pub require_exact: bool,
    /// kernels.rs also has the threads of the crate rayon for kernels of the CPU
    #[arg(long)]
    pub rayon: bool,
    /// One cubin for the GPUs of a family (sm_100f for sm_100a and sm_103a) whose kernels are the same
    #[arg(long)]
    pub family: bool,
    /// Kernels of GPUs start while what was launched before them in the stream ends, from sm_90 on
    #[arg(long)]
    pub overlap: bool,
    /// With --overlap: tensors that no kernel writes while those run, such as weights, which they may read early
    #[arg(long, value_name = "FUNCTION.TENSOR", value_delimiter = ',', requires = "overlap")]
    pub constant: Vec<Constant>,
    /// Simulate every kernel before it is written: for logs of others
    #[arg(long)]
    pub verify: bool,
}

/// Files that `apply-best` writes on request.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum EmitFiles {
    /// kernels.rs, typed launch functions
    Rust,
    /// kernels.h and kernels.c, launch functions in C11
    C,
    /// The generated CUDA text of kernels that were compiled
    Text,
    /// The scheduled functions as TVMScript
    Tvm,
    /// link.rs, by which the build script of a program compiles and links the C kernels without Daylight
    Link,
}

#[derive(Args, Debug)]
pub struct Report {
    /// Log file or folder
    #[arg(long, value_name = "L", default_value = LOG)]
    pub log: PathBuf,
    /// Folder for the report
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// What `daylight bench --out` wrote: adds who else was timed; may be repeated
    #[arg(long, value_name = "FILE")]
    pub bench: Vec<PathBuf>,
    /// Files or folders of the log's functions, for the roofline of records that do not say what there is to do
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub functions: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Cache {
    #[command(subcommand)]
    pub action: CacheAction,
}

/// What to do with the cache.
#[derive(Subcommand, Debug)]
pub enum CacheAction {
    /// Say where it is and how large
    #[command(after_help = "Example:\n  daylight cache show")]
    Show,
    /// Remove compiled artifacts; what was fetched stays
    #[command(after_help = "Example:\n  daylight cache clean --older-than 30")]
    Clean {
        /// Only those written so many days ago or earlier
        #[arg(long, value_name = "DAYS", default_value_t = 0)]
        older_than: u32,
    },
}

#[derive(Args, Debug)]
pub struct Completions {
    /// bash, elvish, fish, powershell or zsh
    pub shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub struct Man {
    /// Folder for the pages
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

#[derive(Args, Debug)]
pub struct Doctor {
    /// Fetch NVRTC and its disassembler into the cache, through pip
    #[arg(long)]
    pub fetch_nvrtc: bool,
    /// Measure the noise of a device: auto, cpu, cuda or cuda:N
    #[arg(long, value_name = "D")]
    pub device: Option<String>,
}
