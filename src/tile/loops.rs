//! Loops that variants emit.

use super::Emit;
use crate::ir::device::{DFor, DKind, DStmt, index_var};
use crate::ir::{Expr, Name};

impl Emit<'_> {
    /// A loop of `n` steps; `body` gets the number of the step.
    pub fn repeat(
        &mut self,
        stem: &str,
        n: i64,
        kind: DKind,
        body: impl FnOnce(&mut Emit, Expr) -> Vec<DStmt>,
    ) -> DStmt {
        let var = self.loop_var(stem, n);
        let body = body(self, index_var(&var));
        DStmt::For(DFor::new(var, Expr::i64(n), kind, body))
    }

    /// The same, without a loop where there is one step.
    pub fn steps(
        &mut self,
        stem: &str,
        n: i64,
        kind: DKind,
        body: impl FnOnce(&mut Emit, Expr) -> Vec<DStmt>,
    ) -> Vec<DStmt> {
        if n == 1 { body(self, Expr::i64(0)) } else { vec![self.repeat(stem, n, kind, body)] }
    }
}

/// A loop that is written out.
pub fn unrolled(var: &Name, extent: i64, body: Vec<DStmt>) -> DStmt {
    DStmt::For(DFor::new(var.clone(), Expr::i64(extent), DKind::Unrolled, body))
}

/// Unrolled loops over the dimensions of a box, without those of one element.
pub struct Loops(Vec<(Name, i64)>);

impl Loops {
    /// Loops over a box of this shape, and the index of an element made of their variables.
    pub fn over(emit: &mut Emit, stem: &str, shape: &[i64]) -> (Loops, Vec<Expr>) {
        let mut loops = vec![];
        let mut index = vec![];
        for n in shape {
            if *n == 1 {
                index.push(Expr::i64(0));
                continue;
            }
            let var = emit.loop_var(stem, *n);
            index.push(index_var(&var));
            loops.push((var, *n));
        }
        (Loops(loops), index)
    }

    /// True where there is one element and no loop.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The loops, the last dimension fastest, around `body`.
    pub fn around(self, body: Vec<DStmt>) -> Vec<DStmt> {
        self.0.into_iter().rev().fold(body, |body, (var, n)| vec![unrolled(&var, n, body)])
    }
}
