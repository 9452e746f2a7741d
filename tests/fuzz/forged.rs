//! Forged records: with right checksums, and a trace, a point, times, hashes or names that no run of ours wrote. What
//! `apply-best` makes of a log with one of them is right in the simulator, or it takes another record or the default.

use super::corpora::{SMALL, target};
use super::mutate::{generator, one, text_mutant};
use super::{count, seed};
use crate::common::apply::{SPACES, untuned};
use crate::common::record::{record, repaired};
use crate::common::schedule::SplitMix;
use crate::schedule_random::random_step;
use daylight::analysis::shrink;
use daylight::apply::{self, Emit, Options, Rung, Unit};
use daylight::assemble::{Schedulable, caught};
use daylight::interp::scalar_ops;
use daylight::job::{Bindings, Input, load};
use daylight::log::{self, Outcome, Record, Setting};
use daylight::measure::Expected;
use daylight::rules::Knobs;
use daylight::schedule::{Schedule, Step};
use daylight::target::{Kind, Target};
use daylight::tune::reference::{Given, expected};
use daylight::tune::{problem, simulate};
use rand::RngExt;
use rand::rngs::StdRng;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Steps of a function, about, and operations that it has at most.
const STEPS: u64 = 1_000;
const MOST: u64 = 10_000;

/// A function on a target, with points of a rule and what it computes.
struct Honest {
    input: Input,
    subject: Schedulable,
    form: String,
    version: u32,
    points: Vec<(Knobs, BTreeMap<String, Setting>, Vec<String>)>,
    given: Given,
    want: Expected,
}

/// Every rule with a small function.
static HONEST: LazyLock<Vec<Honest>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let all: Vec<(Input, Target)> = SMALL
        .iter()
        .filter_map(|s| {
            let file = folder.path().join(format!("{}.py", s.form));
            let small = Some(&s.func).filter(|f| scalar_ops(f) <= MOST).cloned();
            let func = small.or_else(|| shrink(&s.func, STEPS)).filter(|f| scalar_ops(f) <= 4 * MOST)?;
            std::fs::write(&file, func.to_string()).expect("written");
            let input = load(&Bindings::new(), &[file]).ok()?.remove(0).ok()?;
            Some((input, target(s.target)))
        })
        .collect();
    all.into_iter().flat_map(|(input, target)| honest(&input, &target)).collect()
});

fn honest(input: &Input, target: &Target) -> Vec<Honest> {
    let Ok(subject) = input.schedulable(target) else { return vec![] };
    let made = subject.arms(&SPACES).into_iter().take(2).filter_map(|arm| {
        let subject = input.schedulable(target).ok()?;
        let mut rng = generator(seed(), arm.space.form, 0);
        let drawn = (0..30).map(|_| arm.space.point(rng.random::<u64>() % arm.space.size()));
        let legal = arm.space.default().into_iter().chain(drawn.filter(|k| arm.space.check(k).is_ok()));
        let traced = legal.take(4).filter_map(|k| {
            let trace = arm.schedule(&k).ok()?.trace().iter().map(Step::to_string).collect();
            Some((k.clone(), arm.space.settings(&k), trace))
        });
        let points: Vec<_> = traced.collect();
        let given = problem::given(&subject.prepared.func, &input.bind, 3);
        let want = expected(&subject.prepared.func, &subject.prepared.facts, &given).ok()?;
        let (form, version) = (arm.space.form.to_string(), arm.space.version);
        Some(Honest { input: input.clone(), subject, form, version, points, given, want })
            .filter(|h| !h.points.is_empty())
    });
    made.collect()
}

impl Honest {
    /// A record of a point as a run would have written it, but for its hashes.
    fn record(&self, point: usize, ns: f64) -> Record {
        let (_, knobs, trace) = &self.points[point];
        let mut r = record(1, &[ns]);
        (r.workload.key, r.workload.name) = (self.input.key.clone(), self.input.name.clone());
        r.bind = self.input.bind.clone();
        r.target = self.subject.target.table_id();
        (r.rule, r.rule_version) = (self.form.clone(), self.version);
        (r.knobs, r.trace) = (knobs.clone(), trace.clone());
        r
    }
}

/// Takes a part of an honest trace, then whatever a primitive takes, then what is left of the trace.
fn wandering(h: &Honest, trace: &[String], rng: &mut StdRng) -> Vec<String> {
    let steps: Vec<Step> = trace.iter().map(|t| t.parse().expect("a step")).collect();
    let cut = rng.random_range(0..=steps.len());
    let func = h.subject.prepared.func.clone();
    let mut s = Schedule::replay(func, &steps[..cut]).expect("it was taken");
    let mut draws = SplitMix(rng.random());
    for _ in 0..rng.random_range(1..12) {
        drop(s.apply(random_step(s.func(), &mut draws)));
    }
    for step in &steps[cut..] {
        drop(s.apply(step.clone()));
    }
    s.trace().iter().map(Step::to_string).collect()
}

/// A trace that no rule makes of this function.
fn forged_trace(h: &Honest, trace: &[String], rng: &mut StdRng) -> Vec<String> {
    let mut out = trace.to_vec();
    let n = out.len();
    if n == 0 {
        return wandering(h, trace, rng);
    }
    let (a, b) = (rng.random_range(0..n), rng.random_range(0..n));
    match rng.random_range(0..11) {
        0 => drop(out.remove(a)),
        1 => out.insert(b, out[a].clone()),
        2 => out.swap(a, b),
        3 => {
            let binds: Vec<String> = out.iter().filter(|t| t.starts_with("bind(")).cloned().collect();
            out.extend(binds);
        }
        4 => {
            let other = &HONEST[rng.random_range(0..HONEST.len())];
            out = one(&other.points, rng).2.clone();
        }
        5 => out.truncate(a),
        6 => out.retain(|t| !t.starts_with("set_scope(")),
        7 => out[a] = text_mutant(&out[a], rng),
        _ => out = wandering(h, trace, rng),
    }
    out
}

/// One of the ways to forge a record. True where no honest record may lose to it.
fn forge(h: &Honest, r: &mut Record, rng: &mut StdRng) -> bool {
    match rng.random_range(0..10) {
        0 => {
            r.samples_ns = vec![*one(&[0.0, -1.0, f64::NAN, f64::INFINITY, -0.0, f64::NEG_INFINITY], rng)];
            return true;
        }
        1 => {
            r.trace.clear();
            let names: Vec<String> = r.knobs.keys().cloned().collect();
            if !names.is_empty() {
                let value = *one(&[0, -1, 3, 7, 1 << 13, i64::MAX, i64::MIN, 1 << 31], rng);
                r.knobs.insert(one(&names, rng).clone(), value.into());
            }
        }
        2 => {
            let odd = "x\u{1b}[2J\n\"*/ #include \"/etc/passwd\" */\r\0\u{202e}";
            (r.workload.name, r.rule, r.env.nvrtc) = (odd.into(), odd.into(), odd.into());
            r.reason = Some(odd.into());
            r.trace = forged_trace(h, &r.trace, rng);
        }
        3 => {
            r.source_hash = Some("0".repeat(32));
            (r.rule_version, r.round, r.unix_s) = (u32::MAX, u32::MAX, u64::MAX);
            r.trace = forged_trace(h, &r.trace, rng);
        }
        4 => {
            (r.outcome, r.score) = (Outcome::Predicted, Some(*one(&[f64::NEG_INFINITY, -1e308, 0.0], rng)));
            r.trace = forged_trace(h, &r.trace, rng);
        }
        _ => r.trace = forged_trace(h, &r.trace, rng),
    }
    false
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum End {
    /// The forged record was passed over for an honest one or the default.
    PassedOver,
    /// It was applied, and is right.
    Right,
}

#[test]
fn forged_records_give_right_kernels_or_none() {
    let all = count(100);
    let outcome = |n: usize| {
        let mut said = String::new();
        let judged = caught(|| tried(n, &mut said)).unwrap_or_else(|panic| Err(format!("panicked: {panic}")));
        judged.map_err(|why| format!("record {n}: {why}\n{said}"))
    };
    let ends: Vec<Result<End, String>> = (0..all).into_par_iter().map(outcome).collect();
    let mut counts: BTreeMap<End, usize> = BTreeMap::new();
    ends.iter().flatten().for_each(|e| *counts.entry(*e).or_default() += 1);
    eprintln!("{all} forged records of {} rules and functions, seed {}: {counts:?}", HONEST.len(), seed());
    let wrong: Vec<String> = ends.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{} findings\n{}", wrong.len(), wrong.join("\n----\n"));
    assert!(counts.get(&End::Right).is_some_and(|n| *n * 20 > all), "{counts:?}");
}

/// Forged record number `n` in a log of its own, applied and simulated.
fn tried(n: usize, said: &mut String) -> Result<End, String> {
    let mut rng = generator(seed(), "forged", n);
    let h = &HONEST[rng.random_range(0..HONEST.len())];
    let mut forged = h.record(rng.random_range(0..h.points.len()), 1.0);
    let broken = forge(h, &mut forged, &mut rng);
    *said = format!("{} on {}\n{}\n{}", h.form, h.subject.target.id, forged.trace.join("\n"), h.input.func);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log.jsonl");
    let text = h.record(0, 1000.0).to_line() + &repaired(&forged.to_line());
    std::fs::write(&path, text).expect("written");
    let log = log::read(&path)?;
    let unit = applied(h, &log.records)?;
    if unit.rung == Rung::Default || unit.measured_us == Some(1.0) {
        return Ok(End::PassedOver);
    }
    if broken {
        return Err(format!("a time of {:?} won", forged.samples_ns));
    }
    let schedule = h.subject.replay(&unit.trace).map_err(|e| format!("applied and not replayed: {e}"))?;
    let made = h.subject.assemble(&schedule).map_err(|e| format!("applied and not assembled: {e}"))?;
    if made.source.text != unit.text {
        return Err("what is applied differs from what its trace gives".to_string());
    }
    // A nest that a trace binds to no threads is run by all of them: each stores the same.
    let options = simulate::Options { seed: n as u64, replicas: true, ..simulate::Options::default() };
    simulate::check(&h.subject, &made.program, &h.given, &h.want, options)?;
    Ok(End::Right)
}

/// What `apply-best` makes of the records, and that its files hold no control characters.
fn applied(h: &Honest, records: &[Record]) -> Result<Unit, String> {
    let options = Options { records, ..untuned(std::slice::from_ref(&h.subject.target)) };
    let units = apply::units(std::slice::from_ref(&h.input), &options).map_err(|f| f.message)?;
    // Kernels for GPUs are not compiled here, and C has none of those.
    let c = (h.subject.target.kind == Kind::Cpu).then(|| "kernels".to_string());
    for (name, bytes) in apply::files(&units, Emit { rust: true, c, text: true, tvm: true, rayon: false, link: true })?
    {
        let odd = |c: char| c.is_control() && c != '\n';
        if String::from_utf8_lossy(&bytes).contains(odd) || name.contains(odd) {
            return Err(format!("{name} holds control characters"));
        }
    }
    units.into_iter().next().ok_or_else(|| "no unit".to_string())
}
