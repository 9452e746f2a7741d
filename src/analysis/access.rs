//! What a block reads and writes, element by element.

use super::walk::visit_exprs;
use super::{Ranges, simplify};
use crate::ir::{Block, Buffer, DType, Expr, ExprKind, Name, Stmt};
use std::collections::BTreeSet;

/// One element access of a block: a buffer at an index over the block's iterators.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// The buffer.
    pub buffer: Name,
    /// One index per dimension.
    pub indices: Vec<Expr>,
}

impl Access {
    /// The variables in the indices.
    pub fn vars(&self) -> BTreeSet<Name> {
        let mut found = BTreeSet::new();
        for e in &self.indices {
            e.visit(&mut |e| found.extend(e.as_var().cloned()));
        }
        found
    }

    /// How many of the block's iterators the indices use.
    pub fn count_iters(&self, block: &Block) -> usize {
        let vars = self.vars();
        block.iters.iter().filter(|it| vars.contains(&it.var)).count()
    }

    /// The row-major element offset in `buffer`, simplified.
    pub fn offset(&self, buffer: &Buffer, ranges: &Ranges) -> Expr {
        let dtype = self.indices.iter().chain(&buffer.shape).map(Expr::dtype).find(|d| *d == DType::I64);
        let dtype = dtype.unwrap_or(DType::I32);
        let sum = self.indices.iter().zip(&buffer.shape).fold(Expr::int(0, dtype), |at, (i, extent)| {
            at * Expr::cast(dtype, extent.clone()) + Expr::cast(dtype, i.clone())
        });
        simplify(&sum, ranges)
    }
}

/// The elements that a block's statements load, in order of first occurrence, without those that
/// it also stores (an accumulator is no input).
pub(super) fn reads(b: &Block) -> Vec<Access> {
    let own = writes(b);
    let mut found: Vec<Access> = vec![];
    let mut note = |e: &Expr| {
        if let ExprKind::Load { buffer, indices, .. } = e.kind() {
            let access = Access { buffer: buffer.clone(), indices: indices.clone() };
            if !own.contains(&access) && !found.contains(&access) {
                found.push(access);
            }
        }
    };
    visit_exprs(&b.init, &mut note);
    visit_exprs(&b.body, &mut note);
    found
}

/// The elements that a block stores, each once.
pub(super) fn writes(b: &Block) -> Vec<Access> {
    let mut found: Vec<Access> = vec![];
    for s in b.body.iter().chain(&b.init) {
        s.visit(&mut |s| {
            if let Stmt::Store { buffer, indices, .. } = s {
                let access = Access { buffer: buffer.clone(), indices: indices.clone() };
                if !found.contains(&access) {
                    found.push(access);
                }
            }
        });
    }
    found
}

/// An index expression for people, without the dtypes of its constants: `v0*20 + v1`.
pub fn index_text(e: &Expr) -> String {
    narrow(e).to_string().replace(" * ", "*")
}

/// The expression with every `int64` constant as `int32`, which prints bare.
fn narrow(e: &Expr) -> Expr {
    match e.kind() {
        ExprKind::Int { value, dtype: DType::I64 } => Expr::i32(*value),
        _ => e.map_children(narrow),
    }
}
