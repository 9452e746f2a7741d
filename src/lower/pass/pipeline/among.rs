//! Copies of a later step among the parts of a computation, not all of them before it.
//!
//! A warp that starts many copies at once waits until shared memory has taken them, and its loads for the products
//! stand behind them. Where the computation is a loop of [`LEAST`] parts or more, each part begins with its share.
//!
//! before: `for u < 8 unrolled { cp_async s[u] }; for k < 16 unrolled { use s }`
//! after:  `for k < 16 unrolled { if k % 2 == 0 { cp_async s[k / 2] }; use s }`

use super::fills::at_step;
use crate::analysis::simplify;
use crate::ir::device::{DFor, DKind, DStmt, guarded, index_var};
use crate::ir::{BinOp, Expr};
use crate::lower::nest::Nest;

/// Parts of a computation between which copies are dealt out.
const LEAST: i64 = 8;

/// A computation of some parts.
pub struct Among<'c> {
    /// The loop of which the parts are the steps.
    l: &'c DFor,
    parts: i64,
    /// Which of them runs.
    part: Expr,
}

impl<'c> Among<'c> {
    /// A computation that is one loop over enough parts of several statements each.
    pub fn of(compute: &'c [DStmt]) -> Option<Among<'c>> {
        let [DStmt::For(l)] = compute else { return None };
        let parts = l.extent.as_int().filter(|n| *n >= LEAST)?;
        let written_out = l.kind == DKind::Unrolled && l.live.is_none() && l.body.len() > 1;
        written_out.then(|| Among { l, parts, part: index_var(&l.var) })
    }

    /// The computation with copies dealt out to its parts; `None` where a loop of them has no equal shares.
    pub fn with(&self, nest: &mut Nest, copies: &[DStmt]) -> Option<Vec<DStmt>> {
        let body = [self.list(nest, copies)?, self.l.body.clone()].concat();
        Some(vec![DStmt::For(self.l.with_body(body))])
    }

    /// What one part does of statements.
    fn list(&self, nest: &mut Nest, body: &[DStmt]) -> Option<Vec<DStmt>> {
        let own: Option<Vec<_>> = body.iter().map(|s| self.one(nest, s)).collect();
        Some(own?.concat())
    }

    fn one(&self, nest: &mut Nest, s: &DStmt) -> Option<Vec<DStmt>> {
        match s {
            DStmt::If { cond, then, otherwise } if otherwise.is_empty() => {
                let then = self.list(nest, then)?;
                Some(guarded(Some(cond.clone()), then))
            }
            DStmt::For(l) => self.steps(nest, l),
            s => Some(self.every(nest, self.parts, vec![s.clone()])),
        }
    }

    /// As many steps of a loop in each part, or one in each of so many.
    fn steps(&self, nest: &mut Nest, l: &DFor) -> Option<Vec<DStmt>> {
        let steps = l.extent.as_int().filter(|_| l.live.is_none())?;
        if steps == self.parts {
            return Some(at_step(nest, &l.body, &l.var, &self.part));
        }
        if steps % self.parts == 0 {
            let each = steps / self.parts;
            let var = nest.loop_var(l.var.as_str(), each);
            let step = self.part.clone() * Expr::i64(each) + index_var(&var);
            let body = at_step(nest, &l.body, &l.var, &step);
            return Some(vec![DStmt::unrolled(&var, each, body)]);
        }
        let every = (self.parts % steps == 0).then_some(self.parts / steps)?;
        let step = Expr::binary(BinOp::FloorDiv, self.part.clone(), Expr::i64(every));
        let body = at_step(nest, &l.body, &l.var, &step);
        Some(self.every(nest, every, body))
    }

    /// Statements in one of so many parts.
    fn every(&self, nest: &Nest, parts: i64, then: Vec<DStmt>) -> Vec<DStmt> {
        let turn = Expr::binary(BinOp::FloorMod, self.part.clone(), Expr::i64(parts));
        guarded(Some(simplify(&Expr::binary(BinOp::Eq, turn, Expr::i64(0)), &nest.ranges)), then)
    }
}
