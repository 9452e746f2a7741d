//! Elementary functions over vectors of float32, where a call per lane would be ten times slower.
//! A test measures their errors: `exp` is within 2 units in the last place of the exact value,
//! `sigmoid`, `tanh` and `erf` are within 3.

use super::prelude::Prelude;
use crate::ir::{DType, Intrin};

/// Name of the vector function for lanes of float32, if there is one. `t` and `i` are the vector
/// types of float32 and int32.
pub(super) fn function(prelude: &mut Prelude, op: Intrin, lanes: u32, t: &str, i: &str) -> Option<String> {
    match op {
        Intrin::Exp => Some(exp(prelude, lanes, t, i)),
        Intrin::Sigmoid => Some(sigmoid(prelude, lanes, t, i)),
        Intrin::Tanh => Some(tanh(prelude, lanes, t, i)),
        Intrin::Erf => Some(erf(prelude, lanes, t, i)),
        Intrin::Fabs => Some(add(prelude, "dl_abs", t, lanes, &[&format!("return ({t})(({i})x & 2147483647);")])),
        _ => None,
    }
}

fn add(prelude: &mut Prelude, name: &str, t: &str, lanes: u32, body: &[&str]) -> String {
    let name = format!("{name}_f32x{lanes}");
    prelude.add(&name, |_| {
        let lines: String = body.iter().map(|l| format!("\n  {l}")).collect();
        format!("static inline __attribute__((always_inline)) {t} {name}({t} x) {{{lines}\n}}")
    })
}

/// `e^x = 2^n e^r` with `n` the nearest integer to `x / ln 2`; a polynomial of degree 7 for `e^r`
/// (the coefficients of Moshier's Cephes library). The power is applied by the instruction for that, else
/// in halves, so that results below the normal numbers are right too.
fn exp(prelude: &mut Prelude, lanes: u32, t: &str, i: &str) -> String {
    let mut order = |max| super::vector_order::ordered(prelude, max, DType::F32, lanes, t, i);
    let (max, min) = (order(true), order(false));
    // An operand that is no number comes out of both.
    let body = [
        &format!("x = {min}(({t}){{0}} + 89.0f, {max}(({t}){{0}} - 104.0f, x));") as &str,
        &format!("{t} n = x * 1.44269504f + 12582912.0f;"),
        "n = n - 12582912.0f;",
        &format!("{t} r = (x - n * 0.693359375f) + n * 2.12194440e-4f;"),
        &format!("{t} p = r * 1.9875691500e-4f + 1.3981999507e-3f;"),
        "p = p * r + 8.3334519073e-3f;",
        "p = p * r + 4.1665795894e-2f;",
        "p = p * r + 1.6666665459e-1f;",
        "p = p * r + 5.0000001201e-1f;",
        &format!("p = p * (r * r) + r + 1.0f;{}", scaled(lanes, t, i)),
    ];
    add(prelude, "dl_exp", t, lanes, &body)
}

/// The lines that return `p 2^n`.
fn scaled(lanes: u32, t: &str, i: &str) -> String {
    let halves = format!(
        "\n  {i} k = __builtin_convertvector(n, {i}), h = k >> 1;\n  return p * ({t})((h + 127) << 23) * ({t})((k - h + 127) << 23);"
    );
    let (feature, call) = match lanes {
        16 => ("__AVX512F__", "__builtin_ia32_scalefps512_mask(p, n, p, -1, 4)"),
        8 => ("__AVX512VL__", "__builtin_ia32_scalefps256_mask(p, n, p, -1)"),
        4 => ("__AVX512VL__", "__builtin_ia32_scalefps128_mask(p, n, p, -1)"),
        _ => return halves,
    };
    format!("\n#if defined({feature}) && !defined(__clang__)\n  return ({t}){call};\n#else{halves}\n#endif")
}

fn sigmoid(prelude: &mut Prelude, lanes: u32, t: &str, i: &str) -> String {
    let exp = exp(prelude, lanes, t, i);
    add(prelude, "dl_sigmoid", t, lanes, &[&format!("return 1.0f / (1.0f + {exp}(-x));")])
}

/// A lane of `a` where the mask is set, else of `b`.
fn select(prelude: &mut Prelude, lanes: u32, t: &str, i: &str) -> String {
    let name = format!("dl_pick_f32x{lanes}");
    prelude.add(&name, |_| {
        format!(
            "static inline __attribute__((always_inline)) {t} {name}({i} m, {t} a, {t} b) \
             {{ return ({t})((m & ({i})a) | (~m & ({i})b)); }}"
        )
    })
}

/// `1 - 2 / (e^2|x| + 1)`, near zero an odd polynomial (Cephes).
fn tanh(prelude: &mut Prelude, lanes: u32, t: &str, i: &str) -> String {
    let (exp, pick) = (exp(prelude, lanes, t, i), select(prelude, lanes, t, i));
    let body = [
        &format!("{i} sign = ({i})x & (-2147483647 - 1);") as &str,
        &format!("{t} a = ({t})(({i})x ^ sign), z = x * x;"),
        &format!("{t} p = z * -5.70498872745e-3f + 2.06390887954e-2f;"),
        "p = p * z - 5.37397155531e-2f;",
        "p = p * z + 1.33314422036e-1f;",
        "p = p * z - 3.33332819422e-1f;",
        &format!("{t} far = ({t})(({i})(1.0f - 2.0f / ({exp}(a + a) + 1.0f)) | sign);"),
        &format!("return {pick}(a < 0.625f, p * z * x + x, far);"),
    ];
    add(prelude, "dl_tanh", t, lanes, &body)
}

/// Below 1 an odd polynomial, above it `1 - e^(-x^2) q(1 / (1 + |x|))`; both fitted at Chebyshev
/// nodes, to 1.4e-9 and 6.5e-9.
fn erf(prelude: &mut Prelude, lanes: u32, t: &str, i: &str) -> String {
    let (exp, pick) = (exp(prelude, lanes, t, i), select(prelude, lanes, t, i));
    let body = [
        &format!("{i} sign = ({i})x & (-2147483647 - 1);") as &str,
        &format!("{t} a = ({t})(({i})x ^ sign), z = x * x, u = 1.0f / (a + 1.0f);"),
        &format!("{t} p = z * 7.882497448e-5f - 8.018855006e-4f;"),
        "p = p * z + 5.189312156e-3f;",
        "p = p * z - 2.685432881e-2f;",
        "p = p * z + 1.1283597350e-1f;",
        "p = p * z - 3.7612625957e-1f;",
        "p = p * z + 1.1283791065f;",
        &format!("{t} q = u * -1.651667058e-1f + 8.901695609e-1f;"),
        "q = q * u - 1.476737738f;",
        "q = q * u + 7.076961398e-1f;",
        "q = q * u + 4.802003205e-1f;",
        "q = q * u + 5.730406046e-1f;",
        "q = q * u - 3.897616989e-4f;",
        &format!("{t} far = ({t})(({i})(1.0f - q * {exp}(-z)) | sign);"),
        &format!("return {pick}(a < 1.0f, p * x, far);"),
    ];
    add(prelude, "dl_erf", t, lanes, &body)
}
