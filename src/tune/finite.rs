//! Inputs whose results are numbers: sums of packed weights, products of large ones leave float16 where nothing is wrong with
//! a kernel, and infinities tell nothing of the elements that made them. Floating inputs are then drawn smaller.

use super::draw::{Given, inputs};
use super::output::{outputs, place};
use crate::interp::{self, Mode, Tensor, scalar_ops};
use crate::ir::{DType, Expr, PrimFunc};

/// How many times inputs are halved at each try, and how often.
const STEP: u32 = 4;
const TRIES: u32 = 4;

/// Scalar operations up to which every element is computed.
const MOST: u64 = 20_000_000;

/// Elements that are looked at beyond that, and how large they may be where the others are not known.
const SAMPLE: u64 = 64;
const LARGE: f64 = 20_000.0;

/// `given` with inputs halved until no result is infinite that would not be if the function's types held all numbers.
/// Where that never is, or the function cannot be evaluated, it stays.
pub(super) fn settle(func: &PrimFunc, given: Given) -> Given {
    if !overflows_early(func) {
        return given;
    }
    let fits = if scalar_ops(func) > MOST { small } else { finite };
    let tries = (0..TRIES).map(|k| Given { halvings: STEP * k, ..given.clone() });
    tries.into_iter().find(|g| fits(func, g) == Some(true)).unwrap_or(given)
}

/// Whether some of the results lie well within float16; `None` without a value.
fn small(func: &PrimFunc, given: &Given) -> Option<bool> {
    let found = inputs(func, given, true).ok()?;
    for o in outputs(func).iter().filter(|o| o.dtype == DType::F16) {
        let t = &found.tensors[o.tensor];
        let n = t.len() as u64;
        let places: Vec<Vec<i64>> = (0..SAMPLE.min(n)).map(|i| place(i * n / SAMPLE.min(n), &t.shape)).collect();
        let values = interp::sample(func, &found.tensors, &found.scalars, &o.name, &places).ok()?;
        if values.iter().flatten().any(|v| v.is_finite() && v.abs() > LARGE) {
            return Some(false);
        }
    }
    Some(true)
}

/// True where a float16 is computed or kept. Greater types do not overflow for inputs near 1, smaller ones saturate.
fn overflows_early(func: &PrimFunc) -> bool {
    let mut found = func.buffers.iter().any(|b| b.dtype == DType::F16);
    func.visit(&mut |s| s.for_each_expr(&mut |e: &Expr| e.visit(&mut |e| found |= e.dtype() == DType::F16)));
    found
}

/// Whether every result is finite, rounded step by step, that is without rounding; `None` without a value.
fn finite(func: &PrimFunc, given: &Given) -> Option<bool> {
    let run = |mode| -> Option<Vec<Tensor>> {
        let found = inputs(func, given, mode == Mode::F64).ok()?;
        let mut tensors = found.tensors;
        interp::run(func, &mut tensors, &found.scalars, mode).ok()?;
        Some(tensors)
    };
    let rounded = run(Mode::Exact)?;
    let infinite = |t: &Tensor| t.dtype.is_float() && (0..t.len()).any(|i| !t.get_f64(i).is_finite());
    if !rounded.iter().any(infinite) {
        return Some(true);
    }
    let wide = run(Mode::F64)?;
    let lost = |(r, w): (&Tensor, &Tensor)| {
        let lost = |i| w.get_f64(i).is_finite() && !r.get_f64(i).is_finite();
        r.dtype.is_float() && (0..r.len()).any(lost)
    };
    Some(!rounded.iter().zip(&wide).any(lost))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as weights: 512 products of up to 255 and a normal number, scaled by 100, leave float16.
    #[test]
    fn packed_weights_stay_in_float16() {
        let text = "from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\ndef f(W: T.Buffer((8, 512), \"uint8\"), \
                    X: T.Buffer((512,), \"float16\"), Y: T.Buffer((8,), \"float16\")):\n    for i, k in T.grid(8, 512):\n        \
                    with T.sblock(\"b\"):\n            v, r = T.axis.remap(\"SR\", [i, k])\n            with T.init():\n                \
                    Y[v] = T.float16(0)\n            \
                    Y[v] = Y[v] + T.Cast(\"float16\", W[v, r]) * X[r] * T.float16(100)\n";
        let func = crate::ir::read(text, "t.py").expect("reads").remove(0);
        let given = Given { seed: 1, ..Given::default() };
        assert_eq!(finite(&func, &given), Some(false));
        let given = settle(&func, given);
        assert_eq!((finite(&func, &given), given.halvings), (Some(true), STEP));
    }

    #[test]
    fn meant_infinities_are_left() {
        let text = "from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\ndef f(X: T.Buffer((64,), \"float16\"), \
                    Y: T.Buffer((64,), \"float16\")):\n    for i in range(64):\n        with T.sblock(\"b\"):\n            \
                    v = T.axis.spatial(64, i)\n            Y[v] = X[v] / (X[v] - X[v])\n";
        let func = crate::ir::read(text, "t.py").expect("reads").remove(0);
        assert_eq!(settle(&func, Given::default()).halvings, 0);
    }
}
