//! What is known about variables.

use crate::analysis::Interval;
use crate::ir::{DType, Expr, Name, Param, PrimFunc};
use std::collections::BTreeMap;

/// What is known about each variable: constant bounds, and for a loop with a symbolic trip count
/// the exclusive upper limit as an expression.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    vars: BTreeMap<Name, VarRange>,
}

#[derive(Clone, Debug)]
struct VarRange {
    interval: Interval,
    below: Option<Expr>,
}

impl Ranges {
    /// Nothing known.
    pub fn new() -> Ranges {
        Ranges::default()
    }

    /// The symbolic extents of a function, each at least 1: those that are parameters, too.
    pub fn of_func(f: &PrimFunc) -> Ranges {
        let mut r = Ranges::new();
        let params = f.params.iter().filter_map(|p| match p {
            Param::Scalar { name, dtype } if dtype.is_int() && f.is_in_shape(name) => Some((name, *dtype)),
            Param::Scalar { .. } | Param::Buffer(_) => None,
        });
        for (name, dtype) in f.extents.iter().map(|e| (&e.name, e.dtype)).chain(params) {
            let top = if dtype == DType::I32 { i32::MAX as i64 } else { i64::MAX };
            r.set_interval(name.clone(), Interval::new(1, top));
        }
        r
    }

    /// States `lo <= var <= hi`, replacing what was known.
    pub fn set(&mut self, var: impl Into<Name>, lo: i64, hi: i64) {
        self.set_interval(var.into(), Interval::new(lo, hi));
    }

    /// States `var >= lo`, replacing what was known.
    pub fn set_at_least(&mut self, var: impl Into<Name>, lo: i64) {
        self.set_interval(var.into(), Interval::new(lo, i64::MAX));
    }

    /// States that `var` lies in an interval, replacing what was known.
    pub fn set_interval(&mut self, var: Name, interval: Interval) {
        self.set_below(var, interval, None);
    }

    /// States that `var` lies in an interval and below an expression, replacing what was known.
    pub(super) fn set_below(&mut self, var: Name, interval: Interval, below: Option<Expr>) {
        self.vars.insert(var, VarRange { interval, below });
    }

    /// The constant bounds of a variable; `None` where nothing is known.
    pub fn get(&self, var: &Name) -> Option<Interval> {
        self.vars.get(var).map(|v| v.interval)
    }

    /// The symbolic exclusive upper limit of a variable, if it has one.
    pub fn below(&self, var: &Name) -> Option<&Expr> {
        self.vars.get(var).and_then(|v| v.below.as_ref())
    }

    /// Keeps what is known and adds that `var` lies in `interval`.
    pub fn narrow(&mut self, var: &Name, interval: Interval) {
        match self.vars.get_mut(var) {
            Some(v) => v.interval = v.interval.meet(interval),
            None => self.set_interval(var.clone(), interval),
        }
    }
}
