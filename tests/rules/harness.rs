//! What tests of rules share: each function's default point and random ones are scheduled, compared with
//! the unscheduled function in the interpreter, lowered and run in the simulator.

use crate::common::arm::arm;
use daylight::interp::{self, Mode, Scalar, Tensor};
use daylight::ir::kernel::Program;
use daylight::ir::{self, DType, PrimFunc};
use daylight::lower::lower;
use daylight::rules::{Arm, Knobs, Prepared, Space, Spaces, verdicts};
use daylight::sim;
use daylight::target::{HostCpu, Target};
use rand::prelude::*;
use std::collections::BTreeMap;

/// A function and what it is called in messages.
pub struct Case {
    /// Name with the shape.
    pub name: String,
    /// TVMScript.
    pub text: String,
    /// Values of symbolic extents, by name.
    pub extents: Vec<(&'static str, i64)>,
    /// Elements per reduction; 0 where nothing is reduced.
    pub length: i64,
}

/// Random points per rule and function, besides the default one.
pub const POINTS: usize = 10;

pub fn target(id: &str) -> Target {
    Target::parse(id, &HostCpu { arch: "x86-64-v3".into(), ..HostCpu::default() }).expect("a known target")
}

pub fn read(case: &Case) -> PrimFunc {
    ir::read(&case.text, &case.name).unwrap_or_else(|e| panic!("{}: {e}", case.name)).remove(0)
}

/// Seeded inputs, zeros for what is only written: small integers for integers, else normal-like.
pub fn arguments(func: &PrimFunc, case: &Case, rng: &mut StdRng) -> Vec<Tensor> {
    let extent = |e: &ir::Expr| match (e.as_int(), e.as_var()) {
        (Some(n), _) => n,
        (None, Some(v)) => case.extents.iter().find(|(n, _)| *n == func.display_name(v)).expect("a bound extent").1,
        (None, None) => panic!("{}: extents are constants or names", case.name),
    };
    let make = |b: &ir::Buffer| {
        let shape: Vec<i64> = b.shape.iter().map(extent).collect();
        let n: i64 = shape.iter().product();
        // Words of 32 bits, and bytes, are bits of packed values.
        if matches!(b.dtype, DType::U32 | DType::U8) {
            return Tensor::from_f64(
                b.dtype,
                &shape,
                &(0..n).map(|_| f64::from(rng.random::<u32>())).collect::<Vec<_>>(),
            );
        }
        let values: Vec<f64> = (0..n).map(|_| rng.random_range(-8i32..=8) as f64 / 8.0 + 1.0).collect();
        let scaled: Vec<f64> =
            if b.dtype.is_float() { values } else { values.iter().map(|v| (v * 8.0).round()).collect() };
        Tensor::from_f64(b.dtype, &shape, &scaled)
    };
    func.buffer_params().map(make).collect()
}

/// The value of integer parameters.
pub const COUNT: i64 = 29;

/// A small value for each scalar parameter.
pub fn scalars(func: &PrimFunc) -> BTreeMap<ir::Name, Scalar> {
    let value = |p: &ir::Param| match p {
        ir::Param::Scalar { name, dtype } if dtype.is_float() => Some((name.clone(), Scalar::Float(0.5))),
        ir::Param::Scalar { name, .. } => Some((name.clone(), Scalar::Int(COUNT))),
        ir::Param::Buffer(_) => None,
    };
    func.params.iter().filter_map(value).collect()
}

pub fn points(space: &Space, rng: &mut StdRng) -> Vec<Knobs> {
    let legal: Vec<Knobs> = space.points();
    let mut out: Vec<Knobs> = space.default().into_iter().collect();
    out.extend(legal.sample(rng, POINTS).cloned());
    out
}

/// Largest difference relative to the larger of the values and 1.
pub fn difference(a: &Tensor, b: &Tensor) -> f64 {
    let pairs = a.to_f64().into_iter().zip(b.to_f64());
    pairs
        .map(|(x, y)| if x == y { 0.0 } else { (x - y).abs() / y.abs().max(1.0) })
        .fold(0.0, |m, d| if d > m || d.is_nan() { d } else { m })
}

/// Results of products and long 16-bit sums differ by rounding of the types stored and the order.
pub fn tolerance(func: &Prepared, out: &Tensor) -> f64 {
    let stored = func.facts.blocks.iter().flat_map(|b| &b.writes).map(|w| func.func.buffer(&w.buffer).dtype);
    let coarsest = stored.filter(|d| d.is_float()).map(|d| d.roundoff()).fold(0.0, f64::max);
    if out.dtype.is_float() { 16.0 * coarsest + 1e-5 } else { 0.0 }
}

pub fn check_point(
    arm: &Arm,
    case: &Case,
    input: &Prepared,
    target: &Target,
    knobs: &Knobs,
    args: &[Tensor],
    want: &[Tensor],
) -> Program {
    let at = format!("{} {} {} {knobs}", case.name, arm.space.form, target.id);
    let s = arm.schedule(knobs).unwrap_or_else(|e| panic!("{at}: {e}"));
    ir::verify(s.func()).unwrap_or_else(|e| panic!("{at}: {e:?}"));
    let mut got = args.to_vec();
    interp::run(s.func(), &mut got, &scalars(s.func()), Mode::Exact)
        .unwrap_or_else(|e| panic!("{at}: {e}\n{}", s.func()));
    compare(&format!("{at} interpreted"), input, &got, want);
    let trace: Vec<String> = s.trace().iter().map(|s| s.to_string()).collect();
    let program = lower(s.func(), target, &trace).unwrap_or_else(|e| panic!("{at}: {e}\n{}", s.func()));
    let mut got = args.to_vec();
    let bound =
        |name| case.extents.iter().find(|(n, _)| *n == input.func.display_name(name)).expect("a bound extent").1;
    let extents = input.func.extents.iter().map(|e| (e.name.clone(), Scalar::Int(bound(&e.name))));
    let extents = extents.chain(scalars(&input.func)).collect();
    let options = sim::SimOptions { seed: 7, ..Default::default() };
    sim::run(&program, &mut got, &extents, &options).unwrap_or_else(|e| panic!("{at}: {e}\n{program}"));
    compare(&format!("{at} simulated"), input, &got, want);
    program
}

/// Checks one point of one rule; gives its program.
pub fn check_at(case: &Case, rule: &str, target_id: &str, knobs: Knobs) -> Program {
    let func = read(case);
    let input =
        Prepared::new(&func).unwrap_or_else(|d| panic!("{}: {}: {}", case.name, d.reason.predicate, d.reason.text));
    let args = arguments(&func, case, &mut StdRng::seed_from_u64(1));
    let mut want = args.clone();
    interp::run(&func, &mut want, &Default::default(), Mode::F64).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let target = target(target_id);
    let arm = arm(rule, &input, &target);
    arm.space.possible(&knobs).unwrap_or_else(|e| panic!("{}: {}: {}", case.name, e.predicate, e.text));
    check_point(&arm, case, &input, &target, &knobs, &args, &want)
}

/// A rule on sm_90a, and its default point with some knobs changed.
fn point_at(case: &Case, rule: &str, knobs: &[(&str, i64)]) -> (Arm, Knobs) {
    let arm = arm(rule, &Prepared::new(&read(case)).expect("a function"), &target("cuda:sm_90a"));
    let mut point = arm.space.default().expect("a legal point");
    for (name, value) in knobs {
        point = point.with(name, *value);
    }
    (arm, point)
}

/// The kernels of one point on sm_90a, as text.
pub fn kernel_at(case: &Case, rule: &str, knobs: &[(&str, i64)]) -> String {
    let (arm, point) = point_at(case, rule, knobs);
    let s = arm.schedule(&point).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    lower(s.func(), &target("cuda:sm_90a"), &[]).unwrap_or_else(|e| panic!("{}: {e}", case.name)).to_string()
}

/// Why a point is not legal.
pub fn refusal(case: &Case, rule: &str, knobs: &[(&str, i64)]) -> String {
    let (arm, point) = point_at(case, rule, knobs);
    arm.space.check(&point).expect_err("an illegal point").text
}

pub fn compare(at: &str, input: &Prepared, got: &[Tensor], want: &[Tensor]) {
    for (g, w) in got.iter().zip(want) {
        let d = difference(g, w);
        assert!(d <= tolerance(input, w), "{at}: differs by {d:.2e}");
    }
}

/// Checks every rule that accepts the function; returns their names.
pub fn check(case: &Case, targets: &[&str]) -> Vec<String> {
    let func = read(case);
    let input =
        Prepared::new(&func).unwrap_or_else(|d| panic!("{}: {}: {}", case.name, d.reason.predicate, d.reason.text));
    let mut rng = StdRng::seed_from_u64(case.name.len() as u64);
    let args = arguments(&func, case, &mut rng);
    let mut want = args.clone();
    interp::run(&func, &mut want, &Default::default(), Mode::F64).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let mut taken = vec![];
    for id in targets {
        let target = target(id);
        for v in verdicts(&input, &target, &Spaces::built_in()) {
            let Ok(arm) = v.arm else { continue };
            taken.push(v.rule.to_string());
            for knobs in points(&arm.space, &mut rng).into_iter().chain(arm.default()) {
                check_point(&arm, case, &input, &target, &knobs, &args, &want);
            }
        }
    }
    taken
}

/// Checks each function under every rule that takes it; those named in `want` must be among them.
pub fn check_all(cases: Vec<Case>, want: &[&str]) {
    use rayon::prelude::*;
    cases.par_iter().for_each(|case| {
        let taken = check(case, &["cuda:sm_90a", "cpu"]);
        let has = |names: &[&str]| names.iter().all(|n| taken.iter().any(|t| t == n));
        // A reduction of one element is a copy.
        let is_copy = case.length == 1 && has(&["fallback.cuda", "fallback.cpu"]);
        assert!(has(want) || is_copy, "{}: {taken:?}, but {:?}", case.name, declines(case, want));
    });
}

/// What the rules that do not take the function say.
fn declines(case: &Case, rules: &[&str]) -> Vec<String> {
    let Ok(input) = Prepared::new(&read(case)) else { return vec![] };
    let asked = ["cuda:sm_90a", "cpu"].map(target);
    let all = asked.iter().flat_map(|t| verdicts(&input, t, &Spaces::built_in()));
    let named = all.filter(|v| rules.contains(&v.rule));
    let said = named.filter_map(|v| v.arm.err()).filter(|d| d.reason.predicate != "target_kind");
    said.map(|d| format!("{}: {}: {}", d.by, d.reason.predicate, d.reason.text)).collect()
}
