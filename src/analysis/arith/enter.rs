//! What loops and blocks say about their variables.

use super::bounds::interval;
use super::simplify::simplify;
use crate::analysis::{Interval, Ranges};
use crate::ir::{Block, Expr, For, Name};

impl Ranges {
    /// States `min <= var < min + extent`, replacing what was known. The extent may be symbolic.
    pub fn set_span(&mut self, var: Name, min: &Expr, extent: &Expr) {
        let (from, size) = (interval(min, self), interval(extent, self));
        let hi = (from + size).hi;
        // An empty range is never run, so any claim about it holds; keep lo <= hi all the same.
        let hi = if hi == i64::MAX { hi } else { (hi - 1).max(from.lo) };
        let below = extent.as_int().is_none().then(|| simplify(&(min.clone() + extent.clone()), self));
        self.set_below(var, Interval::new(from.lo, hi), below);
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
            self.narrow(&it.var, bound);
        }
    }
}
