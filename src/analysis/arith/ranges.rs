//! What is known about variables.

use super::bounds::interval;
use crate::analysis::Interval;
use crate::ir::{Block, DType, Expr, For, Name, PrimFunc};
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

    /// The symbolic extents of a function, each at least 1.
    pub fn of_func(f: &PrimFunc) -> Ranges {
        let mut r = Ranges::new();
        for e in &f.extents {
            let top = if e.dtype == DType::I32 { i32::MAX as i64 } else { i64::MAX };
            r.set_interval(e.name.clone(), Interval::new(1, top));
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
        self.vars.insert(var, VarRange { interval, below: None });
    }

    /// States `min <= var < min + extent`, replacing what was known. The extent may be symbolic.
    pub fn set_span(&mut self, var: Name, min: &Expr, extent: &Expr) {
        let (from, size) = (interval(min, self), interval(extent, self));
        let hi = (from + size).hi;
        // An empty range is never run, so any claim about it holds; keep lo <= hi all the same.
        let hi = if hi == i64::MAX { hi } else { (hi - 1).max(from.lo) };
        let below =
            (extent.as_int().is_none()).then(|| crate::analysis::simplify(&(min.clone() + extent.clone()), self));
        self.vars.insert(var, VarRange { interval: Interval::new(from.lo, hi), below });
    }

    /// Adds the variable of a loop.
    pub fn enter_loop(&mut self, l: &For) {
        self.set_span(l.var.clone(), &l.min, &l.extent);
    }

    /// Adds the iterators of a block by their domains, narrowed by what their bindings can be.
    pub fn enter_block(&mut self, b: &Block) {
        for it in &b.iters {
            let bound = interval(&it.binding, self);
            self.set_span(it.var.clone(), &it.min, &it.extent);
            if let Some(v) = self.vars.get_mut(&it.var) {
                v.interval = v.interval.meet(bound);
            }
        }
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
