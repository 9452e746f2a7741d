//! Loops over the elements of a box that one thread holds.

use super::Emit;
use crate::ir::device::{DFor, DKind, DStmt, index_var};
use crate::ir::{Expr, Name};

/// Variables for the dimensions of more than one element.
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

    /// The loops, unrolled, the last dimension fastest, around `body`.
    pub fn around(self, body: Vec<DStmt>) -> Vec<DStmt> {
        let one = |body, (var, n)| vec![DStmt::For(DFor::new(var, Expr::i64(n), DKind::Unrolled, body))];
        self.0.into_iter().rev().fold(body, one)
    }
}
