//! Copies of a later step among the parts of a computation, not all of them before it.
//!
//! A warp that starts many copies at once waits until shared memory has taken them, and its loads for the products
//! stand behind them. Where the computation is a loop of [`LEAST`] parts or more, each part begins with its share.
//!
//! before: `for u < 8 unrolled { cp_async s[u] }; for k < 16 unrolled { use s }`
//! after:  `for k < 16 unrolled { if k % 2 == 0 { cp_async s[k / 2] }; use s }`

use crate::analysis::simplify;
use crate::ir::device::{DFor, DKind, DStmt, guarded, index_var, map_list};
use crate::ir::{BinOp, Expr, Name};
use crate::lower::nest::Nest;

/// Parts of a computation between which copies are dealt out.
const LEAST: i64 = 8;

/// A computation of some parts.
pub struct Among<'c> {
    /// The loops of which the parts are the steps, outermost first.
    loops: Vec<&'c DFor>,
    parts: i64,
    /// Which of them runs.
    part: Expr,
}

impl<'c> Among<'c> {
    /// A computation that is one loop over enough parts of several statements, or loops one in the other.
    pub fn of(nest: &Nest, compute: &'c [DStmt]) -> Option<Among<'c>> {
        let (mut loops, mut body) = (vec![], compute);
        while let [DStmt::For(l)] = body {
            l.extent.as_int().filter(|_| l.live.is_none())?;
            loops.push(l);
            body = &l.body;
        }
        let unrolled = loops.last().is_some_and(|l| l.kind == DKind::Unrolled) && body.len() > 1;
        let parts = loops.iter().filter_map(|l| l.extent.as_int()).product();
        let part = loops.iter().fold(Expr::i64(0), |at, l| at * l.extent.clone() + index_var(&l.var));
        (unrolled && parts >= LEAST).then(|| Among { loops, parts, part: simplify(&part, &nest.ranges) })
    }

    /// The computation with copies dealt out to its parts; `None` where a loop of them has no equal shares.
    pub fn with(&self, nest: &mut Nest, copies: &[DStmt]) -> Option<Vec<DStmt>> {
        let (inner, around) = self.loops.split_last()?;
        let body = [self.list(nest, copies)?, inner.body.clone()].concat();
        let wrap = |body, l: &&DFor| vec![DStmt::For(l.with_body(body))];
        Some(around.iter().rev().fold(vec![DStmt::For(inner.with_body(body))], wrap))
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
            return Some(at_step(nest, l, &self.part));
        }
        if steps % self.parts == 0 {
            let each = steps / self.parts;
            let var = nest.loop_var(l.var.as_str(), each);
            let body = at_step(nest, l, &(self.part.clone() * Expr::i64(each) + index_var(&var)));
            return Some(vec![DStmt::unrolled(&var, each, body)]);
        }
        let every = (self.parts % steps == 0).then_some(self.parts / steps)?;
        let body = at_step(nest, l, &Expr::binary(BinOp::FloorDiv, self.part.clone(), Expr::i64(every)));
        Some(self.every(nest, every, body))
    }

    /// Statements in one of so many parts.
    fn every(&self, nest: &Nest, parts: i64, then: Vec<DStmt>) -> Vec<DStmt> {
        let turn = Expr::binary(BinOp::FloorMod, self.part.clone(), Expr::i64(parts));
        guarded(Some(simplify(&Expr::binary(BinOp::Eq, turn, Expr::i64(0)), &nest.ranges)), then)
    }
}

/// The body of a loop at one of its steps.
fn at_step(nest: &Nest, l: &DFor, step: &Expr) -> Vec<DStmt> {
    let own = |n: &Name| (*n == l.var).then(|| step.clone());
    map_list(&l.body, &mut |e| match e.uses_var(&l.var) {
        true => simplify(&e.subst(&own), &nest.ranges),
        false => e.clone(),
    })
}
