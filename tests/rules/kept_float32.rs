//! Values of 16 bits that stay in a kernel are kept in float32: results are right and nearer to the real numbers, nothing is
//! rounded between steps, and what may not be relaxed is not, nor is anything of a strict function.

use super::harness::{Case, arguments, check_all, difference, read, target};
use crate::common::arm::arm;
use daylight::assemble::Schedulable;
use daylight::codegen;
use daylight::interp::{self, Mode};
use daylight::ir::{DType, PrimFunc};
use daylight::lower::lower;
use daylight::rules::Prepared;
use daylight::sim;
use daylight::target::Kind;
use rand::prelude::*;

/// The steps that round otherwise than a function says.
const RELAXING: [&str; 3] = ["keep_float32", "relax_arithmetic", "online_reductions"];

const ROWS: [&str; 2] = ["general_reduction.rows", "general_reduction.cpu"];
const ELEMENTS: [&str; 2] = ["fallback.cuda", "fallback.cpu"];

fn case(name: &str, text: String, length: i64) -> Case {
    Case { name: name.to_string(), text, extents: vec![], length }
}

/// Softmax of bfloat16 as topi writes it, every step of which rounds.
fn softmax([m, n]: [i64; 2]) -> Case {
    let text = format!(
        "@T.prim_func
def softmax(X: T.Buffer(({m}, {n}), \"bfloat16\"), O: T.Buffer(({m}, {n}), \"bfloat16\")):
    M = T.sblock_alloc_buffer(({m},), \"bfloat16\")
    E = T.sblock_alloc_buffer(({m}, {n}), \"bfloat16\")
    S = T.sblock_alloc_buffer(({m},), \"bfloat16\")
    for i, k in T.grid({m}, {n}):
        with T.sblock(\"max\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                M[vi] = T.bfloat16(-3.3895313892515355e+38)
            M[vi] = T.max(M[vi], X[vi, vk])
    for i, j in T.grid({m}, {n}):
        with T.sblock(\"exp\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            E[vi, vj] = T.exp(X[vi, vj] - M[vi])
    for i, k in T.grid({m}, {n}):
        with T.sblock(\"sum\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                S[vi] = T.bfloat16(0)
            S[vi] = S[vi] + E[vi, vk]
    for i, j in T.grid({m}, {n}):
        with T.sblock(\"norm\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            O[vi, vj] = E[vi, vj] / S[vi]
"
    );
    case(&format!("softmax {m}x{n}"), text, n)
}

/// Elements in a chain of float16, of which the last is stored as `out` of the value `last`.
fn chain([m, n]: [i64; 2], out: &str, last: &str) -> Case {
    let text = format!(
        "@T.prim_func
def chain(X: T.Buffer(({m}, {n}), \"float16\"), B: T.Buffer(({n},), \"float16\"), O: T.Buffer(({m}, {n}), \"{out}\")):
    Y = T.sblock_alloc_buffer(({m}, {n}), \"float16\")
    for i, j in T.grid({m}, {n}):
        with T.sblock(\"scale\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            Y[vi, vj] = X[vi, vj] * T.float16(0.3) + B[vj]
    for i, j in T.grid({m}, {n}):
        with T.sblock(\"last\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            O[vi, vj] = {last}
"
    );
    case(&format!("chain {m}x{n} {last}"), text, 0)
}

const TANH: &str = "Y[vi, vj] * T.float16(0.5) * (T.float16(1) + T.tanh(Y[vi, vj]))";

/// Rows scaled by their mean of squares, then `last` of each element.
fn rms([m, n]: [i64; 2], out: &str, last: &str) -> Case {
    let text = format!(
        "@T.prim_func
def rms(X: T.Buffer(({m}, {n}), \"float16\"), O: T.Buffer(({m}, {n}), \"{out}\")):
    S = T.sblock_alloc_buffer(({m},), \"float16\")
    for i, k in T.grid({m}, {n}):
        with T.sblock(\"sum\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                S[vi] = T.float16(0)
            S[vi] = S[vi] + X[vi, vk] * X[vi, vk]
    for i, j in T.grid({m}, {n}):
        with T.sblock(\"last\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            O[vi, vj] = {last}
"
    );
    case(&format!("rms {m}x{n} {last}"), text, n)
}

const SCALED: &str = "X[vi, vj] * T.rsqrt(S[vi] * T.float16(0.125) + T.float16(0.5))";

/// Odd, prime, tiny, whole and broken steps of threads.
const SHAPES: [[i64; 2]; 6] = [[1, 64], [7, 33], [5, 131], [3, 2], [2, 512], [17, 24]];

#[test]
fn results_are_right() {
    check_all(SHAPES.map(softmax).into(), &ROWS);
    check_all(SHAPES.map(|s| rms(s, "float16", SCALED)).into(), &ROWS);
    check_all(SHAPES.map(|s| chain(s, "float16", TANH)).into(), &ELEMENTS);
}

/// The kernels of a rule's default as text, its steps, and its largest error against float64.
struct Made {
    text: String,
    trace: Vec<String>,
    /// The types of what one launch leaves for another.
    workspaces: Vec<DType>,
    error: f64,
}

fn made(case: &Case, func: &PrimFunc, rule: &str) -> Made {
    let target = target(if rule.ends_with("cpu") { "cpu" } else { "cuda:sm_90a" });
    let input = Prepared::new(func).unwrap_or_else(|d| panic!("{}: {}", case.name, d.reason.text));
    let arm = arm(rule, &input, &target);
    let s = arm.schedule(&arm.default().expect("a default")).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let program = lower(s.func(), &target, &[]).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let args = arguments(func, case, &mut StdRng::seed_from_u64(3));
    let (mut got, mut want) = (args.clone(), args);
    interp::run(func, &mut want, &Default::default(), Mode::F64).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let options = sim::SimOptions { seed: 7, ..Default::default() };
    sim::run(&program, &mut got, &Default::default(), &options).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let error = got.iter().zip(&want).map(|(g, w)| difference(g, w)).fold(0.0, f64::max);
    let text = match target.kind {
        Kind::Cuda => codegen::cuda(&program),
        Kind::Cpu => codegen::c(&program, target.vector_bytes),
    };
    let workspaces = program.workspaces.iter().map(|w| w.dtype).collect();
    Made { text, trace: s.trace().iter().map(|s| s.to_string()).collect(), workspaces, error }
}

fn relaxes(trace: &[String]) -> bool {
    trace.iter().any(|t| RELAXING.iter().any(|name| t.starts_with(name)))
}

/// The lines of kernels that round to 16 bits, each with how often.
fn roundings(text: &str) -> Vec<(&str, usize)> {
    let count = |l: &str| l.matches("_from_f32").count() + l.matches("dl_round_").count();
    let kernels =
        text.lines().skip_while(|l| !l.contains("const") || !l.contains("restrict") || l.starts_with("static"));
    kernels.map(|l| (l, count(l))).filter(|(_, n)| *n > 0).collect()
}

#[test]
fn nothing_is_rounded_between_steps() {
    let cases = [
        (softmax([4, 512]), ROWS, "p1"),
        (rms([4, 512], "float16", SCALED), ROWS, "p1"),
        (chain([4, 512], "float16", TANH), ELEMENTS, "p2"),
    ];
    for (case, forms, out) in &cases {
        for form in forms {
            let func = read(case);
            let (free, strict) = (made(case, &func, form), made(case, &func.strict(), form));
            assert!(free.trace.iter().any(|t| t.starts_with("keep_float32")), "{} {form}", case.name);
            assert!(!relaxes(&strict.trace), "{} {form}: {:?}", case.name, strict.trace);
            assert!(free.error < strict.error, "{} {form}: {:.2e}, strict {:.2e}", case.name, free.error, strict.error);
            let stores = |(line, n): &(&str, usize)| *n == 1 && line.contains(out);
            assert!(roundings(&free.text).iter().all(stores), "{} {form}:\n{}", case.name, free.text);
            assert!(!roundings(&strict.text).iter().all(stores), "{} {form}:\n{}", case.name, strict.text);
        }
    }
}

/// What a value of this kind is made of is rounded as the function says: kernels are those of the strict function.
#[test]
fn what_may_not_be_relaxed_is_not() {
    let to_int = |e: &str| format!("T.Cast(\"int8\", {e})");
    let elements = [
        ("int8", to_int("Y[vi, vj] * T.float16(5)")),
        ("int8", to_int("T.round(Y[vi, vj] * T.float16(5))")),
        ("float16", "T.round(Y[vi, vj] * T.float16(5))".to_string()),
        ("float16", "T.floor(Y[vi, vj] * T.float16(5))".to_string()),
        ("float16", "T.Select(Y[vi, vj] > T.float16(0.5), Y[vi, vj], T.float16(0))".to_string()),
        ("float16", "T.if_then_else(Y[vi, vj] * T.float16(2) == X[vi, vj], T.float16(1), T.float16(2))".to_string()),
        ("bool", "Y[vi, vj] * T.float16(2) < X[vi, vj]".to_string()),
    ];
    let rows = [("int8", to_int(SCALED)), ("float16", format!("T.round({SCALED})"))];
    let elements = elements.iter().map(|(out, last)| (chain([7, 33], out, last), ELEMENTS));
    let rows = rows.iter().map(|(out, last)| (rms([7, 33], out, last), ROWS));
    for (case, forms) in elements.chain(rows) {
        for form in forms {
            let func = read(&case);
            let (free, strict) = (made(&case, &func, form), made(&case, &func.strict(), form));
            assert!(!free.trace.iter().any(|t| t.starts_with("keep_float32")), "{} {form}", case.name);
            assert_eq!(free.text, strict.text, "{} {form}", case.name);
        }
    }
}

/// What one launch leaves for another has the type that the function says, and is rounded once.
#[test]
fn what_another_launch_reads_is_rounded() {
    let text = "@T.prim_func
def halves(X: T.Buffer((7, 33), \"float16\"), O: T.Buffer((7, 33), \"float16\")):
    Y = T.sblock_alloc_buffer((7, 33), \"float16\")
    for i, j in T.grid(7, 33):
        with T.sblock(\"first\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            if vj < 20:
                Y[vi, vj] = X[vi, vj] * T.float16(0.3) + T.float16(0.1)
            else:
                Y[vi, vj] = X[vi, vj] * T.float16(0.7) + T.float16(0.1)
    for i, j in T.grid(7, 33):
        with T.sblock(\"second\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            O[vi, vj] = Y[vi, 32 - vj] * T.float16(0.3) + Y[6 - vi, vj]
";
    let case = case("halves", text.to_string(), 0);
    for form in ELEMENTS {
        let made = made(&case, &read(&case), form);
        assert_eq!(made.trace.iter().filter(|t| t.starts_with("keep_float32")).count(), 2, "{:?}", made.trace);
        assert_eq!(made.workspaces, [DType::F16], "{}", made.text);
    }
}

#[test]
fn a_strict_function_takes_no_trace_that_relaxes() {
    let case = softmax([4, 512]);
    let free = read(&case);
    let made = made(&case, &free, "general_reduction.rows");
    assert!(relaxes(&made.trace));
    let subject = |f: &PrimFunc| Schedulable::new(f, f, target("cuda:sm_90a")).expect("it is accepted");
    assert!(subject(&free).replay(&made.trace).is_ok());
    let why = subject(&free.clone().strict()).replay(&made.trace).expect_err("it is strict").to_string();
    assert!(why.contains("not_strict"), "{why}");
    // A log of before the step was there has traces without it.
    let before: Vec<String> = made.trace.iter().filter(|t| !t.starts_with("keep_float32")).cloned().collect();
    let before: Vec<String> = before.into_iter().filter(|t| !t.starts_with("relax_arithmetic")).collect();
    assert!(subject(&free).replay(&before).is_ok());
    assert!(subject(&free.strict()).replay(&before).is_ok());
}
