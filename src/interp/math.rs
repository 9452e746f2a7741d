//! Elementary functions in `f64`.

use crate::ir::Intrin;
use std::f64::consts::{FRAC_2_SQRT_PI, LN_10};

/// A function of one argument; `None` for functions of several, or of integers.
pub fn unary(op: Intrin) -> Option<fn(f64) -> f64> {
    Some(match op {
        Intrin::Exp => f64::exp,
        Intrin::Exp2 => f64::exp2,
        Intrin::Exp10 => |x| if x == x.trunc() && x.abs() < 300.0 { 10f64.powi(x as i32) } else { (x * LN_10).exp() },
        Intrin::Log => f64::ln,
        Intrin::Log2 => f64::log2,
        Intrin::Log10 => f64::log10,
        Intrin::Log1p => f64::ln_1p,
        Intrin::Sqrt => f64::sqrt,
        Intrin::Rsqrt => |x| 1.0 / x.sqrt(),
        Intrin::Sin => f64::sin,
        Intrin::Cos => f64::cos,
        Intrin::Tan => f64::tan,
        Intrin::Sinh => f64::sinh,
        Intrin::Cosh => f64::cosh,
        Intrin::Tanh => f64::tanh,
        Intrin::Asin => f64::asin,
        Intrin::Acos => f64::acos,
        Intrin::Atan => f64::atan,
        Intrin::Asinh => f64::asinh,
        Intrin::Acosh => f64::acosh,
        Intrin::Atanh => f64::atanh,
        Intrin::Erf => erf,
        Intrin::Sigmoid => |x| 1.0 / (1.0 + (-x).exp()),
        Intrin::Fabs => f64::abs,
        Intrin::Floor => f64::floor,
        Intrin::Ceil => f64::ceil,
        // TVM rounds half to even in both.
        Intrin::Round | Intrin::Nearbyint => f64::round_ties_even,
        Intrin::Trunc => f64::trunc,
        Intrin::Ex2Approx => f64::exp2,
        Intrin::RcpApprox => f64::recip,
        Intrin::Atan2
        | Intrin::Pow
        | Intrin::Fma
        | Intrin::Fmod
        | Intrin::Hypot
        | Intrin::CopySign
        | Intrin::IsNan
        | Intrin::IsInf
        | Intrin::PopCount
        | Intrin::Clz => return None,
    })
}

/// A function of two arguments; `None` for the others.
pub fn binary(op: Intrin) -> Option<fn(f64, f64) -> f64> {
    match op {
        Intrin::Atan2 => Some(f64::atan2),
        Intrin::Pow => Some(f64::powf),
        Intrin::Fmod => Some(|a, b| a % b),
        Intrin::Hypot => Some(f64::hypot),
        Intrin::CopySign => Some(f64::copysign),
        Intrin::Exp
        | Intrin::Exp2
        | Intrin::Exp10
        | Intrin::Log
        | Intrin::Log2
        | Intrin::Log10
        | Intrin::Log1p
        | Intrin::Sqrt
        | Intrin::Rsqrt
        | Intrin::Sin
        | Intrin::Cos
        | Intrin::Tan
        | Intrin::Sinh
        | Intrin::Cosh
        | Intrin::Tanh
        | Intrin::Asin
        | Intrin::Acos
        | Intrin::Atan
        | Intrin::Asinh
        | Intrin::Acosh
        | Intrin::Atanh
        | Intrin::Erf
        | Intrin::Sigmoid
        | Intrin::Fabs
        | Intrin::Floor
        | Intrin::Ceil
        | Intrin::Round
        | Intrin::Nearbyint
        | Intrin::Trunc
        | Intrin::Fma
        | Intrin::IsNan
        | Intrin::IsInf
        | Intrin::PopCount
        | Intrin::Clz
        | Intrin::Ex2Approx
        | Intrin::RcpApprox => None,
    }
}

/// The error function, to a few units in the last place.
///
/// Below 3 the series of positive terms `2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1)/(2n+1)!!`
/// (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.6), which loses nothing to
/// cancellation; from 3 to 6 the continued fraction of the complement (7.1.14), evaluated backwards;
/// beyond 6 the result is 1 in double precision.
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    let v = match a {
        _ if x.is_nan() => return x,
        a if a < 3.0 => erf_series(a),
        a if a < 6.0 => 1.0 - erfc_fraction(a),
        _ => 1.0,
    };
    v.copysign(x)
}

fn erf_series(x: f64) -> f64 {
    let square = 2.0 * x * x;
    let (mut term, mut sum) = (x, x);
    let mut odd = 3.0;
    while term > sum * 1e-17 {
        term *= square / odd;
        sum += term;
        odd += 2.0;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// `erfc(x) = exp(-x^2)/sqrt(pi) / (x + (1/2)/(x + 1/(x + (3/2)/(x + ...))))`
fn erfc_fraction(x: f64) -> f64 {
    let tail = (1..=60).rev().fold(x, |f, k| x + 0.5 * k as f64 / f);
    0.5 * FRAC_2_SQRT_PI * (-x * x).exp() / tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_agrees_with_tables() {
        let table = [
            (0.0, 0.0),
            (1e-10, 1.1283791670955126e-10),
            (0.1, 0.1124629160182849),
            (0.5, 0.5204998778130465),
            (1.0, 0.8427007929497149),
            (1.5, 0.9661051464753108),
            (2.0, 0.9953222650189527),
            (2.999, 0.9999777698314002),
            (3.0, 0.9999779095030014),
            (3.5, 0.9999992569016276),
            (5.0, 0.9999999999984626),
            (7.0, 1.0),
        ];
        for (x, want) in table {
            assert!((erf(x) - want).abs() <= 4e-16 * want, "erf({x}) = {:e}, not {want:e}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert!(erf(f64::NAN).is_nan());
        assert_eq!(erf(f64::INFINITY), 1.0);
    }

    #[test]
    fn every_float_function_is_there() {
        for (op, name, arity) in Intrin::ALL {
            let found = match op {
                Intrin::Fma | Intrin::IsNan | Intrin::IsInf | Intrin::PopCount | Intrin::Clz => continue,
                _ => (unary(op).is_some(), binary(op).is_some()),
            };
            assert_eq!(found, (arity == 1, arity == 2), "{name}");
        }
        assert_eq!(unary(Intrin::Exp10).map(|f| f(3.0)), Some(1000.0));
        assert_eq!(unary(Intrin::Nearbyint).map(|f| f(2.5)), Some(2.0));
        assert_eq!(unary(Intrin::Round).map(|f| [2.5, 3.5, -0.5].map(f)), Some([2.0, 4.0, -0.0]));
    }
}
