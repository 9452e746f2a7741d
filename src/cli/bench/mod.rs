//! `daylight bench`: the log's best kernel, the default, a point chosen by hand and others' kernels under one clock.
//!
//! `contenders` finds and compiles who takes part, each made of what `booth` holds; `kernel_file` reads kernels of the user's own, `library`
//! asks cuBLASLt, `show` says what came out. What is timed, and how, is `measure::contest`.

mod booth;
mod contenders;
mod kernel_file;
mod library;
mod show;

use super::args;
use super::context::Context;
use super::output;
use crate::analysis::work;
use crate::files::scratch::Scratch;
use crate::job::{Device, Exit, Failure, Input, guarded};
use crate::log::{self, ErrorNorms, Record, Work};
use crate::machine::Watch;
use crate::measure::{Entry, contest};
use crate::report::{Bench, Contender};
use crate::runner::{Candidate, Runner};
use crate::target::Kind;
use crate::tune::problem;
use crate::tune::reference::takes_long;
use booth::{Booth, Missed};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Seconds that the turns of all contenders of a function may take.
const SECONDS: f64 = 2.0;

/// Runs the command.
pub fn run(cx: &Context, a: &args::Bench) -> Result<Exit, Failure> {
    let inputs = cx.load(&a.files)?;
    let records = records(a)?;
    let mut device = cx.device(&a.device)?;
    if device.target.kind == Kind::Cpu {
        device.target.copy_gbps = cx.machine.measure_bandwidth();
    }
    output::note(&format!("benching on {}", device.describe()));
    let mut worst = Exit::Done;
    for input in inputs {
        if cx.stop().load(Ordering::Relaxed) {
            break;
        }
        let done = match input {
            Ok(input) => guarded(&input.name, || one(cx, a, &input, &records, &mut device)),
            Err(e) => Err(e.failure),
        };
        match done {
            Ok(exit) => worst = worst.max(exit),
            Err(f) => {
                output::note(&format!("daylight: {}", f.message));
                worst = worst.max(f.exit);
            }
        }
    }
    Ok(cx.ended(worst))
}

/// The records of the log; none where the usual log is not there yet.
fn records(a: &args::Bench) -> Result<Vec<Record>, Failure> {
    if !a.log.exists() && a.log == Path::new(args::LOG) {
        return Ok(vec![]);
    }
    let log = log::read(&a.log).map_err(Failure::usage)?;
    log.skipped.iter().for_each(|s| output::note(&s.to_string()));
    Ok(log.records)
}

fn one(cx: &Context, a: &args::Bench, input: &Input, records: &[Record], device: &mut Device) -> Result<Exit, Failure> {
    let subject = input.schedulable(&device.target)?;
    input.require_bound()?;
    let folder = Scratch::new().map_err(|e| Failure::usage(format!("no temporary folder: {e}")))?;
    let given = problem::given(&input.func, &input.bind, a.seed);
    if let Some(why) = takes_long(&subject.prepared.func, &given) {
        output::note(&format!("{}: {why}", input.name));
    }
    let (stated, floor_us) = problem::problem(&subject, &given, folder.path()).map_err(Failure::usage)?;
    device.runner().prepare(&stated).map_err(|e| Failure::missing(e.message))?;
    let found = work(&subject.prepared.func);
    let mut bench = Bench {
        schema: 1,
        file: input.file.clone(),
        name: input.name.clone(),
        workload: input.key.clone(),
        bind: input.bind.clone(),
        target: device.target.id.clone(),
        env: device.env()?,
        policy: device.policy(),
        seed: a.seed,
        unix_s: Watch::unix_s(),
        floor_us,
        work: Work::of(found.flops, found.bytes),
        contenders: vec![],
    };
    let booth = Booth { cx, input, subject: &subject, records, folder: folder.path() };
    let mut ready: Vec<(usize, Candidate)> = vec![];
    let mut exit = Exit::Done;
    for (i, (contender, candidate)) in booth.contenders(a, device)?.into_iter().enumerate() {
        bench.contenders.push(contender);
        match candidate {
            Ok(candidate) => ready.push((i, candidate)),
            Err(missed) => exit = exit.max(miss(&mut bench.contenders[i], missed)),
        }
    }
    let candidates: Vec<Candidate> = ready.iter().map(|(_, c)| c.clone()).collect();
    for ((i, _), entry) in ready.iter().zip(contest(device.runner(), &candidates, SECONDS)) {
        exit = exit.max(enter(&mut bench.contenders[*i], entry));
    }
    bench.compare();
    show::print(cx.json, &bench);
    a.out.as_deref().map_or(Ok(()), |path| append(path, &bench))?;
    Ok(exit)
}

/// Notes what a contender gave.
fn enter(contender: &mut Contender, entry: Entry) -> Exit {
    match entry {
        Ok((errors, timing)) => {
            contender.err = Some(ErrorNorms::of(errors.l2, errors.max));
            contender.samples_ns = timing.samples_ns;
            contender.status = "ok".into();
            Exit::Done
        }
        Err(e) => miss(contender, e.into()),
    }
}

/// Notes why a contender has no time.
fn miss(contender: &mut Contender, missed: Missed) -> Exit {
    contender.status = missed.status.into();
    contender.reason = Some(missed.reason);
    missed.exit
}

/// Appends the line of a function with one write.
fn append(path: &Path, bench: &Bench) -> Result<(), Failure> {
    let cannot = |e: std::io::Error| Failure::usage(format!("cannot write the bench {}: {e}", path.display()));
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(cannot)?;
    file.write_all(format!("{}\n", show::line(bench)).as_bytes()).map_err(cannot)
}
