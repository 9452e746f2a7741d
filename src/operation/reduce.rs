//! Sums, means and extremes over dimensions.

use super::steps::Steps;
use super::values::{OUT_DTYPE, Opt, SHAPE, accumulator, count_of, default, flag};
use super::{Operation, Values};
use crate::ir::{DType, Expr, PrimFuncBuilder, Reducer};

const OPTIONS: &[Opt] = &[
    SHAPE,
    default("axes", "D,...", "Dimensions that are reduced, from 0, or from the end as -1", "-1"),
    flag("keepdims", "They stay, with size 1"),
    default("dtype", "TYPE", "Type of the input: float32, float16, bfloat16, float64, int8, int32", "float32"),
    OUT_DTYPE,
];

pub(super) const SUM: Operation = Operation {
    name: "sum",
    about: "Sums over dimensions",
    detail: "Sums are kept in float32, of narrow integers in int32, which then is the type of the result.",
    options: OPTIONS,
    example: "sum --shape n,512,768 --axes 0,1 --dtype float16",
    make: |values, f| sums(values, f, false),
};

pub(super) const MEAN: Operation = Operation {
    name: "mean",
    about: "Means over dimensions",
    detail: "Sums are kept in float32.",
    options: OPTIONS,
    example: "mean --shape n,8192 --dtype bfloat16",
    make: |values, f| sums(values, f, true),
};

pub(super) const MAX: Operation = Operation {
    name: "max",
    about: "The largest values over dimensions",
    detail: "Exact, in the type of the input.",
    options: OPTIONS,
    example: "max --shape 64,n --dtype float16",
    make: |values, f| extremes(values, f, Reducer::Max),
};

pub(super) const MIN: Operation = Operation {
    name: "min",
    about: "The smallest values over dimensions",
    detail: "Exact, in the type of the input.",
    options: OPTIONS,
    example: "min --shape 64,n --dtype int32",
    make: |values, f| extremes(values, f, Reducer::Min),
};

/// What is reduced and what stays.
struct Over {
    shape: Vec<Expr>,
    axes: Vec<usize>,
    keep: bool,
}

impl Over {
    fn of(values: &Values, f: &mut PrimFuncBuilder) -> Result<Over, String> {
        let shape = values.sizes("shape", f)?;
        let axes = values.axes("axes", shape.len())?;
        Ok(Over { axes, keep: values.has("keepdims"), shape })
    }

    fn result(&self) -> Vec<Expr> {
        let dims = self.shape.iter().enumerate();
        let kept = dims.filter_map(|(k, e)| match (self.axes.contains(&k), self.keep) {
            (false, _) => Some(e.clone()),
            (true, true) => Some(Expr::i64(1)),
            (true, false) => None,
        });
        kept.collect()
    }

    /// Extents of the reduced dimensions, in their order.
    fn extents(&self) -> Vec<Expr> {
        let reduced = self.shape.iter().enumerate().filter(|(k, _)| self.axes.contains(k));
        reduced.map(|(_, e)| e.clone()).collect()
    }

    /// Indices of the input.
    fn index(&self, at: &[Expr], over: &[Expr]) -> Vec<Expr> {
        let (mut at, mut over) = (at.iter(), over.iter());
        let mut next = |k: usize| match self.axes.contains(&k) {
            true => {
                if self.keep {
                    at.next();
                }
                over.next()
            }
            false => at.next(),
        };
        (0..self.shape.len()).filter_map(&mut next).cloned().collect()
    }
}

fn sums(values: &Values, f: &mut PrimFuncBuilder, mean: bool) -> Result<(), String> {
    let over = Over::of(values, f)?;
    let dtype = if mean { values.float("dtype")? } else { values.dtype("dtype")? };
    let sum = accumulator(dtype);
    let mut steps = Steps::default();
    if mean {
        let count = count_of(&over.extents(), sum);
        steps.then("mean", move |x, _| x / count);
    }
    let out = values.out_dtype(if dtype.is_float() { dtype } else { sum })?;
    reduced(f, &over, (dtype, sum, out), Reducer::Sum, steps);
    Ok(())
}

fn extremes(values: &Values, f: &mut PrimFuncBuilder, reducer: Reducer) -> Result<(), String> {
    let over = Over::of(values, f)?;
    let dtype = values.dtype("dtype")?;
    reduced(f, &over, (dtype, dtype, values.out_dtype(dtype)?), reducer, Steps::default());
    Ok(())
}

fn reduced(f: &mut PrimFuncBuilder, over: &Over, types: (DType, DType, DType), reducer: Reducer, steps: Steps) {
    let (dtype, sum, out) = types;
    let x = f.param("x", dtype, over.shape.clone());
    steps.finish(f, ("y", out), ("reduced", sum), &over.result(), |f, to| {
        f.reduce("reduce", to, &over.extents(), reducer, |at, k| Expr::cast(sum, x.at(over.index(at, k))));
    });
}
