//! Random tile calls: dispatch never panics, and whatever a variant accepts is lowered, runs without
//! a fault and computes what the reference interpreter does.
//!
//! `TILE_RANDOM=first,count` runs other cases than the usual ones.

mod any;
mod call;
mod program;
mod rng;
mod space;

use crate::tile::case::{arguments, target};
use daylight::interp::{Mode, Scalars, Tensor, run_device};
use daylight::ir::device::{DStmt, DeviceFunc};
use daylight::ir::{DType, TileCall};
use daylight::lower::lower_device;
use daylight::sim::{self, SimOptions};
use rng::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};

const TARGETS: [&str; 5] = ["cuda:sm_80", "cuda:sm_90a", "cuda:sm_100a", "cuda:sm_103a", "cuda:sm_120a"];

/// The first case and how many there are.
fn cases(usual: u64) -> (u64, u64) {
    let text = std::env::var("TILE_RANDOM").unwrap_or_default();
    let numbers: Vec<u64> = text.split(',').filter_map(|n| n.parse().ok()).collect();
    match numbers.as_slice() {
        [first, count] => (*first, *count),
        _ => (0, usual),
    }
}

/// Runs cases, panics caught, and fails with all that went wrong.
fn all(usual: u64, one: impl Fn(u64) -> Result<bool, String>) -> u64 {
    let (first, count) = cases(usual);
    let (mut wrong, mut ran) = (vec![], 0);
    for seed in first..first + count {
        match catch_unwind(AssertUnwindSafe(|| one(seed))) {
            Ok(Ok(did)) => ran += u64::from(did),
            Ok(Err(why)) => wrong.push(format!("case {seed}: {why}")),
            Err(cause) => {
                let text = cause.downcast_ref::<String>().cloned();
                let text = text.or_else(|| cause.downcast_ref::<&str>().map(|s| s.to_string()));
                wrong.push(format!("case {seed} panics: {}", text.unwrap_or_default()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} cases\n{}", wrong.len(), wrong.join("\n\n"));
    ran
}

#[test]
fn accepted_calls_compute_what_the_reference_does() {
    let ran = all(400, one_program);
    println!("{ran} variants ran");
    assert!(ran > 0);
}

#[test]
fn no_call_makes_dispatch_panic() {
    all(1500, any::one_call);
}

/// True where a variant ran.
fn one_program(seed: u64) -> Result<bool, String> {
    let mut rng = Rng::new(seed);
    let Some(program) = call::program(&mut rng) else { return Ok(false) };
    let id = rng.pick(&TARGETS);
    let args = arguments(&program);
    let Ok((_, decisions)) = lowered(&program, id)? else { return Ok(false) };
    let own = decisions.iter().find(|d| is_own(&d.call)).ok_or("the call was not decided")?;
    let mut names: Vec<&str> = own.verdicts.iter().filter(|v| v.refusals.is_empty()).map(|v| v.variant).collect();
    names.retain(|n| own.call.forced.as_ref().is_none_or(|f| f == n));
    let mut want: Vec<Tensor> = args.iter().map(widened).collect();
    let stored = match run_device(&program, &mut want, &Scalars::new(), Mode::F64) {
        Ok(stored) => stored,
        Err(why) => {
            return Err(format!(
                "the reference refuses what {} accepts on {id}: {why}\n{}",
                names.join(", "),
                text(&program)
            ));
        }
    };
    for name in names {
        let forced = force(&program, name);
        let (p, _) = lowered(&forced, id)?.map_err(|e| format!("`{name}` accepted, but not if forced: {e}"))?;
        dump(&format!("{seed} {name} {id}\n{p}\n"));
        if std::env::var("TILE_DUMP_ONLY").is_ok() {
            continue;
        }
        let mut first: Option<Vec<Tensor>> = None;
        for seed in 0..3 {
            let mut got = args.clone();
            let options = SimOptions { seed, replicas: true, ..SimOptions::default() };
            sim::run(&p, &mut got, &Scalars::new(), &options)
                .map_err(|e| format!("`{name}` on {id}: {e}\n{}\n{p}", text(&program)))?;
            match &first {
                None => first = Some(got),
                Some(f) if *f == got => {}
                Some(_) => {
                    return Err(format!(
                        "`{name}` on {id}: the order of threads changes the result\n{}\n{p}",
                        text(&program)
                    ));
                }
            }
        }
        if std::env::var("TILE_DUMP_ONLY").is_ok() {
            continue;
        }
        let got = first.unwrap_or_default();
        for (k, at) in stored.iter().enumerate().flat_map(|(k, all)| all.iter().map(move |at| (k, *at as usize))) {
            if !near(&got[k], &want[k], at) {
                let (o, r) = (got[k].get_f64(at), want[k].get_f64(at));
                return Err(format!(
                    "`{name}` on {id}: element {at} of parameter {k} is {o}, the reference has {r}\n{}\n{p}",
                    text(&program)
                ));
            }
        }
    }
    Ok(true)
}

fn near(got: &Tensor, want: &Tensor, at: usize) -> bool {
    if !got.dtype.is_float() {
        return got.get_i64(at) == want.get_i64(at);
    }
    let (o, r) = (got.get_f64(at), want.get_f64(at));
    let unit = match got.dtype {
        DType::F64 => 1e-12,
        DType::F32 => 6e-8,
        DType::F16 => 4.9e-4,
        _ => 3.9e-3,
    };
    let overflows = o.is_infinite() && got.dtype == DType::F16 && r.abs() > 65504.0 && (o > 0.0) == (r > 0.0);
    overflows
        || (o - r).abs() <= 8.0 * unit * r.abs().max(1.0) + 2e-5 * r.abs().max(1.0)
        || o == r
        || o.is_nan() && r.is_nan()
}

fn widened(t: &Tensor) -> Tensor {
    if t.dtype.is_float() { Tensor::from_f64(DType::F64, &t.shape, &t.to_f64()) } else { t.clone() }
}

/// True for the call that the case is about.
fn is_own(call: &TileCall) -> bool {
    let name = call.dst.buffer.as_str();
    name.starts_with('d')
        && !call.args.iter().any(|a| matches!(a, daylight::ir::TileArg::Tile(t) if t.buffer.as_str().starts_with("In")))
}

fn force(program: &DeviceFunc, variant: &str) -> DeviceFunc {
    fn list(body: &[DStmt], variant: &str) -> Vec<DStmt> {
        let one = |s: &DStmt| match s {
            DStmt::Tile(call) if is_own(call) => {
                DStmt::Tile(Box::new(TileCall { forced: Some(variant.into()), ..(**call).clone() }))
            }
            DStmt::For(l) => DStmt::For(l.with_body(list(&l.body, variant))),
            DStmt::If { cond, then, otherwise } => {
                DStmt::If { cond: cond.clone(), then: list(then, variant), otherwise: otherwise.clone() }
            }
            other => other.clone(),
        };
        body.iter().map(one).collect()
    }
    DeviceFunc { body: list(&program.body, variant), ..program.clone() }
}

type Lowered = (daylight::ir::kernel::Program, Vec<daylight::tile::Decision>);

/// `Ok(Err)` where a call has no variant; `Err` where accepted calls are not lowered.
fn lowered(program: &DeviceFunc, id: &str) -> Result<Result<Lowered, String>, String> {
    match lower_device(program, &target(id)) {
        Ok(p) => Ok(Ok(p)),
        // several calls together may need more shared memory than there is
        Err(e) if e.pass == "dispatch" || e.why.contains("bytes of shared memory") => Ok(Err(e.to_string())),
        Err(e) => Err(format!("on {id}: {e}\n{}", text(program))),
    }
}

/// What a failing case says of its program.
fn text(program: &DeviceFunc) -> String {
    let mut out = format!("block {:?}\n", program.block);
    for b in &program.func.buffers {
        let shape: Vec<i64> = b.shape.iter().filter_map(daylight::ir::Expr::as_int).collect();
        let layout = b.layout.as_ref().map(|l| l.to_string()).unwrap_or_default();
        out.push_str(&format!("{} {} {shape:?} {} {layout}\n", b.name, b.dtype, b.scope.name()));
    }
    fn calls(body: &[DStmt], under: &str, out: &mut String) {
        for s in body {
            match s {
                DStmt::Tile(c) => out.push_str(&format!("{under}{c} {:?} {:?}\n", c.scope, c.forced)),
                DStmt::For(l) => calls(&l.body, under, out),
                DStmt::If { cond, then, .. } => {
                    calls(then, &format!("if {}: ", daylight::analysis::index_text(cond)), out)
                }
                _ => {}
            }
        }
    }
    calls(&program.body, "", &mut out);
    out
}

pub fn dump(text: &str) {
    use std::io::Write;
    if let Ok(path) = std::env::var("TILE_DUMP") {
        let mut f = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        f.write_all(text.as_bytes()).unwrap();
    }
}
