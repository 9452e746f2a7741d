//! Llama's decoder with kernels that Daylight compiled into the program.

#[cfg(feature = "cuda")]
mod bench;
mod config;
mod device;
mod generate;
mod kernels {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}
mod model;
mod source;
mod weights;

use clap::{Parser, Subcommand};
use device::{Device, Error};
use std::io::Write;
use std::path::PathBuf;

/// The shape that the kernels were built for.
const CONFIG: &str = include_str!(concat!(env!("OUT_DIR"), "/config.toml"));

#[derive(Parser)]
#[command(version, about)]
struct Args {
    /// Weights in safetensors, bfloat16; packed or converted as the configuration says.
    #[arg(long, global = true)]
    weights: Option<PathBuf>,
    /// Weights made up from this number, where there is no file.
    #[arg(long, global = true, default_value_t = 0)]
    seed: u32,
    /// Fewer layers than the configuration says.
    #[arg(long, global = true)]
    layers: Option<usize>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Goes on with prompts.
    Generate {
        /// Numbers of tokens, as in 1,2,3; may be given several times.
        #[arg(long, required = true, value_parser = tokens)]
        prompt: Vec<Tokens>,
        /// Tokens to find for each.
        #[arg(long, default_value_t = 16)]
        steps: usize,
        /// Where the probabilities of all tokens go, as float32 of the machine.
        #[arg(long)]
        probabilities: Option<PathBuf>,
    },
    /// Times steps and prompts, and each function against its floor.
    #[cfg(feature = "cuda")]
    Bench,
}

#[derive(Clone)]
struct Tokens(Vec<i32>);

fn tokens(text: &str) -> Result<Tokens, std::num::ParseIntError> {
    text.split(',').map(|t| t.trim().parse()).collect::<Result<_, _>>().map(Tokens)
}

fn main() -> std::process::ExitCode {
    match run(Args::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("llama: {e}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<(), Error> {
    let mut config = config::Config::parse(CONFIG)?;
    config.layers = args.layers.unwrap_or(config.layers);
    let mut source = match &args.weights {
        Some(path) => source::Source::file(path)?,
        None => source::Source::Seed(args.seed),
    };
    let mut model = model::Model::load(config, Device::open()?, &mut source)?;
    match args.command {
        Command::Generate { prompt, steps, probabilities } => {
            let prompts: Vec<Vec<i32>> = prompt.into_iter().map(|p| p.0).collect();
            let mut file = probabilities.map(std::fs::File::create).transpose()?;
            let dump = file.as_mut().map(|f| f as &mut dyn Write);
            for list in generate::generate(&mut model, &prompts, steps, dump)? {
                println!("{}", list.iter().map(i32::to_string).collect::<Vec<_>>().join(","));
            }
            Ok(())
        }
        #[cfg(feature = "cuda")]
        Command::Bench => bench::bench(&mut model),
    }
}
