//! What may be typed after `daylight import`.

use crate::cli::args::LOG;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct Import {
    /// A module as TVM prints it, with its relax functions
    #[arg(value_name = "MODULE")]
    pub module: PathBuf,
    /// The relax function that is a step [default: the only one, or main]
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
    /// Leave out this function, such as one that prepares weights when a model is loaded; may be repeated
    #[arg(long, value_name = "NAME")]
    pub skip: Vec<String>,
    /// Only list the functions and their calls, as without --trials and --time-limit
    #[arg(long)]
    pub list: bool,
    /// auto, cpu, cuda, cuda:N, or cuda:all for all GPUs of one model together
    #[arg(long, value_name = "D", default_value = "auto")]
    pub device: String,
    /// Candidates for all functions together, shared by calls times the gap to the floor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub trials: Option<u32>,
    /// Seconds for all functions together, shared alike
    #[arg(long, value_name = "S")]
    pub time_limit: Option<f64>,
    /// Log file, or folder with one file per target
    #[arg(long, value_name = "L", default_value = LOG)]
    pub log: PathBuf,
    /// Seed of sampling and inputs
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Compilers at a time [default: one per core]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
}
