//! Sigmoids, error functions and hyperbolic tangents of 16-bit results by approximate instructions: every float16 comes out
//! as near to the real number as its type allows, and what is no number stays none.

use super::harness::{Case, read, target};
use crate::common::arm::arm;
use daylight::interp::{self, Tensor};
use daylight::ir::{DType, PrimFunc};
use daylight::lower::lower;
use daylight::rules::Prepared;
use daylight::schedule::Schedule;
use daylight::sim;

/// `value` of each float16 there is.
fn function(value: &str, out: &str) -> PrimFunc {
    let value = value.replace('@', "T.Cast(\"float32\", X[vi, vj])");
    let text = format!(
        "@T.prim_func
def f(X: T.Buffer((256, 256), \"float16\"), O: T.Buffer((256, 256), \"{out}\")):
    for i, j in T.grid(256, 256):
        with T.sblock(\"f\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            O[vi, vj] = T.Cast(\"{out}\", {value})
"
    );
    read(&Case { name: value, text, extents: vec![], length: 0 })
}

const GELU: &str = "@ * T.float32(0.5) * (T.float32(1) + T.erf(@ * T.float32(0.70710678118654757)))";
/// As models write it that take the hyperbolic tangent in its place.
const GELU_TANH: &str =
    "@ * T.float32(0.5) * (T.float32(1) + T.tanh((@ + T.float32(0.044715) * @ * @ * @) * T.float32(0.79788456)))";
const SIGMOID: &str = "T.sigmoid(@)";
const SILU: &str = "@ / (T.float32(1) + T.exp(@ * T.float32(-1)))";

/// The default of `fallback.cuda`.
fn default(func: &PrimFunc) -> Schedule {
    let arm = arm("fallback.cuda", &Prepared::new(func).expect("it is read"), &target("cuda:sm_90a"));
    arm.schedule(&arm.default().expect("a default")).expect("a schedule")
}

/// The ways in which it relaxes a function.
fn ways(func: &PrimFunc) -> Vec<String> {
    let s = default(func);
    let steps = s.trace().iter().map(|s| s.to_string());
    steps.filter_map(|s| Some(s.strip_prefix("relax_arithmetic(b0, ")?.to_string())).collect()
}

/// Every float16, and what the kernel makes of it.
fn by_kernel(func: &PrimFunc) -> Vec<(f64, f64)> {
    let program = lower(default(func).func(), &target("cuda:sm_90a"), &[]).expect("a program");
    let mut x = Tensor::zeros(DType::F16, &[256, 256]);
    (0..1 << 16usize).for_each(|i| x.set_f64(i, interp::float_value(i as u64, DType::F16)));
    let mut args = [x, Tensor::zeros(DType::F16, &[256, 256])];
    sim::run(&program, &mut args, &Default::default(), &sim::SimOptions::default()).expect("it runs");
    args[0].to_f64().into_iter().zip(args[1].to_f64()).collect()
}

/// The largest error in units in the last place of float16, of the numbers that `of` takes; NaNs have to be NaNs.
fn error(rows: &[(f64, f64)], exact: fn(f64) -> f64, of: impl Fn(f64) -> bool) -> f64 {
    let unit = |want: f64| want.abs().max(2f64.powi(-14)).log2().floor().exp2() * 2f64.powi(-10);
    let one = |(x, got): &(f64, f64)| match (exact(*x), *got) {
        (want, got) if want.is_nan() && got.is_nan() || want == got => 0.0,
        (want, got) if want.is_nan() || got.is_nan() => f64::INFINITY,
        (want, got) => (got - want).abs() / unit(want),
    };
    rows.iter().filter(|(x, _)| x.is_nan() || of(*x)).map(one).fold(0.0, f64::max)
}

#[test]
fn every_float16_is_right() {
    let gelu = by_kernel(&function(GELU, "float16"));
    let exact = |x: f64| x * 0.5 * (1.0 + interp::erf(x * std::f64::consts::FRAC_1_SQRT_2));
    // Half a unit is what the type allows; near -3 float32 itself loses of 1 + erf, and 1.7 units at -6.
    assert!(error(&gelu, exact, |x| x > -3.0) < 0.54, "{}", error(&gelu, exact, |x| x > -3.0));
    assert!(error(&gelu, exact, |_| true) < 1.75, "{}", error(&gelu, exact, |_| true));
    let gelu = by_kernel(&function(GELU_TANH, "float16"));
    let exact = |x: f64| x * 0.5 * (1.0 + ((x + 0.044715 * x * x * x) * 0.797_884_560_802_865_4).tanh());
    assert!(error(&gelu, exact, |x| x > -3.0) < 0.53, "{}", error(&gelu, exact, |x| x > -3.0));
    assert!(error(&gelu, exact, |_| true) < 1.75, "{}", error(&gelu, exact, |_| true));
    let sigmoid = by_kernel(&function(SIGMOID, "float16"));
    assert!(error(&sigmoid, |x| 1.0 / (1.0 + (-x).exp()), |_| true) < 0.502);
    let silu = by_kernel(&function(SILU, "float16"));
    assert!(error(&silu, |x| x / (1.0 + (-x).exp()), |_| true) < 0.51);
}

#[test]
fn only_results_of_16_bits_are_approximate() {
    assert_eq!(ways(&function(GELU, "float16")), ["\"erf\")"]);
    assert_eq!(ways(&function(GELU_TANH, "bfloat16")), ["\"tanh\")"]);
    assert_eq!(ways(&function(SILU, "bfloat16")), ["\"logistic\")"]);
    for exact in ["float32", "int8"] {
        assert!(ways(&function(GELU, exact)).is_empty() && ways(&function(SILU, exact)).is_empty());
    }
    assert!(ways(&function(SILU, "float16").strict()).is_empty());
    // Where an absolute error would be large beside the result, and where a comparison is made of it.
    assert!(ways(&function("T.erf(@) + T.tanh(@)", "float16")).is_empty());
    assert!(ways(&function("T.float32(1) + T.erf(@) * T.float32(64)", "float16")).is_empty());
    assert!(ways(&function("T.Select(T.sigmoid(@) > T.float32(0.25), @, T.float32(0))", "float16")).is_empty());
}
