//! Grows the trees of `src/rules/prior/learned` from logs, or judges them by such. No GPU is needed.
//!
//! `fit_prior grow LOG:FOLDER... > trees.bin`, `fit_prior grow-compiled LOG:FOLDER... > trees-compiled.bin`, `fit_prior judge trees.bin
//! trees-compiled.bin LOG:FOLDER...`: each log with the folder of its functions (TVMScript). Judged is which of the measured candidates
//! is chosen, over the best measured one: by the model by hand, by that and the trees, and by those that know registers among the first
//! of these.
//! `fit_prior untuned LOG:FOLDER...` says the same of what is built untuned: of all points, by the trees that are built in.

mod changed;
mod grow;
mod untuned;

use daylight::assemble::{self, Schedulable};
use daylight::ir;
use daylight::log::{self, Record};
use daylight::rules::prior;
use daylight::rules::prior::learned::features::{Candidate, Compiled};
use daylight::rules::prior::learned::{self, BY_HAND, CHOICES, TOGETHER, features, trees::Forest};
use daylight::rules::{Knobs, Outline, Spaces, arms, verdicts};
use daylight::target::{HostCpu, Target};
use daylight::tune::replay::{Replay, as_logged};
use daylight::tune::{Arms, Point};
use grow::Row;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

/// Candidates that a function must have.
const LEAST: usize = 3;

/// How many times as long as the best of a function a candidate is said to take whose kernel spills registers: searches do not
/// measure these, and trees that have never seen one choose it. 24 of 1,712 drawn functions had such a default (H200), which took
/// 1.0 to 2.6 times as long as the best.
const SPILLED: f64 = 1.5;

/// How much a candidate counts whose kernel has another text today than the one that was measured, or that was measured on another
/// GPU than most: docs/search.md says what it changes.
const APART: f64 = 0.2;

/// A measured candidate.
struct Sample {
    rule: &'static str,
    knobs: Knobs,
    function: learned::function::Function,
    outline: Outline,
    ns: f64,
    model: f64,
    /// How much it counts.
    counts: f64,
    /// What its kernels take, where that is known and they do not spill registers.
    compiled: Option<Compiled>,
}

impl Sample {
    /// As it is seen before its kernels are compiled, or after that.
    fn candidate(&self, compiled: bool) -> Candidate<'_> {
        Candidate {
            rule: self.rule,
            knobs: &self.knobs,
            function: &self.function,
            outline: &self.outline,
            ns: self.model,
            compiled: self.compiled.filter(|_| compiled),
        }
    }
}

struct Function {
    name: String,
    gpu: String,
    target: Target,
    samples: Vec<Sample>,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match &args[..] {
        ["grow", logs @ ..] => {
            print(&grown(&all(logs), false));
        }
        ["grow-compiled", logs @ ..] => {
            print(&grown(&all(logs), true));
        }
        ["judge", trees, compiled, logs @ ..] => {
            let forest = |file: &str| Forest::read(&std::fs::read(file).expect("a readable file")).expect("trees");
            judge([forest(trees), forest(compiled)], &all(logs));
        }
        ["untuned", logs @ ..] => untuned::print(logs),
        _ => println!(
            "usage: fit_prior grow LOG:FOLDER... | grow-compiled LOG:FOLDER... | judge TREES COMPILED LOG:FOLDER... | untuned LOG:FOLDER..."
        ),
    }
}

fn print(forest: &Forest) {
    std::io::stdout().write_all(&forest.write()).expect("it is written");
}

fn grown(functions: &[Function], compiled: bool) -> Forest {
    let names = names(functions, compiled);
    let rows = rows(&names, functions, compiled);
    eprintln!("grown from {} candidates", rows.len());
    grow::forest(names, &rows)
}

fn all(logs: &[&str]) -> Vec<Function> {
    let all: Vec<Function> = logs.par_iter().flat_map(|l| functions(l)).collect();
    eprintln!("{} functions, {} candidates", all.len(), all.iter().map(|f| f.samples.len()).sum::<usize>());
    all
}

/// The functions of `LOG:FOLDER` of which the log has enough.
fn functions(arg: &str) -> Vec<Function> {
    let (log, folder) = arg.split_once(':').expect("LOG:FOLDER");
    of_each(log, folder, function).into_iter().filter(|f| f.samples.len() >= LEAST).collect()
}

/// What `of` says of each function of a log, given its file and its records.
fn of_each<T: Send>(log: &str, folder: &str, of: impl Fn(&Path, &[&Record]) -> Option<T> + Sync) -> Vec<T> {
    let records = log::read(Path::new(log)).expect("a log").records;
    let mut each: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    records.iter().for_each(|r| each.entry(&r.workload.name).or_default().push(r));
    each.par_iter().filter_map(|(name, records)| of(&Path::new(folder).join(format!("{name}.py")), records)).collect()
}

/// The function of a file, and the rules that take it on the device of these records, that whose default is built untuned first.
fn taken(path: &Path, records: &[&Record]) -> Option<(Schedulable, Arms)> {
    let text = std::fs::read_to_string(path).ok()?;
    let func = ir::read(&text, &path.display().to_string()).ok()?.remove(0);
    let env = &records[0].env;
    let target = Target::parse(&records[0].target, &HostCpu::default()).ok()?.measured_as(env.sms, 0, 0.0);
    let subject = Schedulable::new(&func, &func, target.clone()).ok()?;
    let list = arms(verdicts(&subject.prepared, &target, &Spaces::built_in()));
    Some((subject, Arms::new(as_logged(list, records), target)))
}

/// A function with what was measured of it.
fn function(path: &Path, records: &[&Record]) -> Option<Function> {
    let (subject, arms) = taken(path, records)?;
    let (replay, target) = (Replay::new(&arms, records)?, arms.target.clone());
    let changed = changed::kinds(&subject, &arms, &replay);
    let sample = |(point, ns): (&Point, f64)| {
        let arm = arms.of(point);
        let outline = arm.outline(&point.knobs)?;
        let model = prior::ns(&outline, &target);
        let (rule, function) = (arm.space.form, arm.candidate(&point.knobs, &outline, model).function);
        let counts = if changed.contains(&changed::Kind::of(point)) { APART } else { 1.0 };
        let compiled = replay.resources(point).and_then(assemble::compiled);
        let (knobs, function) = (point.knobs.clone(), *function);
        let sample = Sample { rule, knobs, function, outline, ns, model, counts, compiled };
        (model.is_finite() && ns > 0.0).then_some(sample)
    };
    let spilled = replay.spilled().map(|point| (point, SPILLED * replay.best_ns()));
    let mut samples: Vec<Sample> = replay.timed().chain(spilled).filter_map(sample).collect();
    // the order of arms is that of the trees that stand: what is grown is not to depend on it
    samples.sort_by(|a, b| (a.rule, &a.knobs.0).cmp(&(b.rule, &b.knobs.0)));
    let (name, gpu) = (path.file_stem()?.to_string_lossy().into_owned(), records[0].env.gpu.clone());
    Some(Function { name, gpu, target, samples })
}

/// What trees are to look at: outlines, and the rules and knobs of these functions; where kernels are `compiled`, what they take.
fn names(functions: &[Function], compiled: bool) -> Vec<String> {
    let samples = || functions.iter().flat_map(|f| &f.samples);
    let rules: BTreeSet<&str> = samples().map(|s| s.rule).collect();
    let knobs: BTreeSet<&str> = samples().flat_map(|s| s.knobs.0.iter().map(|(name, _)| &**name)).collect();
    functions.first().map_or(vec![], |f| features::names(rules, knobs, compiled, &f.target))
}

/// Of each candidate how far it is behind the best of its function, without what the model by hand is to say; where kernels are to be
/// `compiled`, of each of which it is known what they take.
fn rows(names: &[String], functions: &[Function], compiled: bool) -> Vec<Row> {
    let usual = usual(functions);
    let of = |f: &Function| {
        let gpu = if f.gpu == usual { 1.0 } else { APART };
        let (best, first) = (best(&f.samples), f.samples.iter().map(|s| s.model).fold(f64::INFINITY, f64::min));
        let row = |s: &Sample| Row {
            numbers: features::of(names, &s.candidate(compiled), &f.target),
            wanted: (s.ns / best).ln() - BY_HAND * (s.model / first).ln(),
            weight: gpu * s.counts * best / s.ns,
        };
        f.samples.iter().filter(|s| !compiled || s.compiled.is_some()).map(row).collect::<Vec<Row>>()
    };
    functions.par_iter().flat_map(of).collect()
}

/// The GPU of most functions.
fn usual(functions: &[Function]) -> &str {
    let mut of: BTreeMap<&str, usize> = BTreeMap::new();
    functions.iter().for_each(|f| *of.entry(&f.gpu).or_default() += 1);
    of.into_iter().max_by_key(|(_, n)| *n).map_or("", |(gpu, _)| gpu)
}

fn best(samples: &[Sample]) -> f64 {
    samples.iter().map(|s| s.ns).fold(f64::INFINITY, f64::min)
}

/// The time of the candidate that is chosen.
type Way = fn(&[Forest; 2], &Function) -> Option<f64>;

fn judge(forests: [Forest; 2], functions: &[Function]) {
    let ways = [("model by hand", by_model as Way), ("trees", by_trees), ("trees that know registers", by_compiled)];
    let share = |of: Way, f: &Function| Some(best(&f.samples) / of(&forests, f)?);
    for (name, of) in ways {
        let shares: Vec<f64> = functions.iter().filter_map(|f| share(of, f)).collect();
        println!("{name}: {}", in_all(&shares));
    }
    for f in functions {
        let [hand, trees, compiled] = ways.map(|(_, of)| share(of, f).unwrap_or(f64::NAN));
        println!("{} {hand:.3} {trees:.3} {compiled:.3}", f.name);
    }
}

/// Shares of the best in one line.
fn in_all(shares: &[f64]) -> String {
    let n = shares.len().max(1) as f64;
    let mean = (shares.iter().map(|s| s.ln()).sum::<f64>() / n).exp();
    let within = |part: f64| shares.iter().filter(|s| **s * part >= 1.0).count() as f64 / n * 100.0;
    let (ten, quarter) = (within(1.1), within(1.25));
    format!("{mean:.4} of the best, N = {n}, {ten:.0} % within 10 %, {quarter:.0} % within 25 %")
}

fn by_model(_: &[Forest; 2], f: &Function) -> Option<f64> {
    f.samples.iter().min_by(|a, b| a.model.total_cmp(&b.model)).map(|s| s.ns)
}

fn by_trees([forest, _]: &[Forest; 2], f: &Function) -> Option<f64> {
    in_order(forest, f).first().map(|(_, s)| s.ns)
}

/// What trees say of each candidate, the shortest first.
fn in_order<'f>(forest: &Forest, f: &'f Function) -> Vec<(f64, &'f Sample)> {
    let said = |s: &'f Sample| (learned::log_time_by(forest, &s.candidate(false), &f.target), s);
    let mut all: Vec<(f64, &Sample)> = f.samples.iter().map(said).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// As [`daylight::rules::Arm::settle`] among the measured candidates: of the first few the one that those trees choose that know how many
/// registers there are; of the next few where nobody knows that of any, or all spill.
fn by_compiled([forest, compiled]: &[Forest; 2], f: &Function) -> Option<f64> {
    let order = in_order(forest, f);
    let said = |(_, s): &(f64, &Sample)| {
        s.compiled?;
        Some((learned::log_time_by(compiled, &s.candidate(true), &f.target), s.ns))
    };
    let best = |some: &[(f64, &Sample)]| some.iter().filter_map(said).min_by(|a, b| a.0.total_cmp(&b.0));
    let known = order[..order.len().min(CHOICES)].chunks(TOGETHER).find_map(best).map(|(_, ns)| ns);
    known.or(order.first().map(|(_, s)| s.ns))
}
