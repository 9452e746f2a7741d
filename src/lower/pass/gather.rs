//! Loads the adjacent elements that an unrolled loop reads one by one in vector accesses.
//!
//! Where a store in an unrolled loop reads `p[base + v]` for every `v`, from memory that the kernel
//! does not write, and under conditions that do not depend on `v`, a vector copy into registers
//! goes before the loop, under the same conditions.
//!
//! before: `unroll v < 4 { r[v] = p0[threadIdx.x*4 + v] * p0[threadIdx.x*4 + v + 512] }`
//! after:  `copy4 p0_vec[0] <- p0[threadIdx.x*4]; copy4 p0_vec_1[0] <- p0[threadIdx.x*4 + 512];`
//!         `unroll v < 4 { r[v] = p0_vec[v] * p0_vec_1[v] }`

use super::batch::written;
use super::vectorize;
use crate::analysis::{linear, simplify};
use crate::ir::device::{DFor, DKind, DStmt, and, guarded, index_var};
use crate::ir::{DType, Expr, ExprKind, Name, Scope, UnOp};
use crate::lower::fact::replicated::loads;
use crate::lower::nest::Nest;
use std::collections::BTreeSet;

/// Longest loop whose loads are gathered: one access of 32 bytes of 8-bit elements.
const MAX_STEPS: i64 = 32;

/// Gathers the loads of every unrolled loop.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    let written = written(&body);
    list(nest, &written, body)
}

fn list(nest: &mut Nest, written: &BTreeSet<Name>, body: Vec<DStmt>) -> Vec<DStmt> {
    let one = |s: DStmt| match s {
        DStmt::For(l) if l.kind == DKind::Unrolled && is_leaf(&l) => unrolled(nest, written, l),
        s => vec![s.map_lists(|inner| list(nest, written, inner))],
    };
    body.into_iter().flat_map(one).collect()
}

/// True for a short loop over stores alone, some of them perhaps under conditions.
fn is_leaf(l: &DFor) -> bool {
    fn plain(s: &DStmt) -> bool {
        match s {
            DStmt::Store { .. } => true,
            DStmt::If { then, otherwise, .. } => then.iter().chain(otherwise).all(plain),
            _ => false,
        }
    }
    l.extent.as_int().is_some_and(|n| n > 1 && n <= MAX_STEPS) && l.body.iter().all(plain)
}

fn unrolled(nest: &mut Nest, written: &BTreeSet<Name>, l: DFor) -> Vec<DStmt> {
    let mut gather = Gather { nest, written, l: &l, found: vec![], copies: vec![], bound: vec![] };
    let body = gather.list(&l.body, None);
    let mut out = gather.copies;
    out.push(DStmt::For(l.with_body(body)));
    out
}

/// A load and the array that holds its elements.
struct Found {
    buffer: Name,
    index: Expr,
    cond: Option<Expr>,
    array: Name,
}

struct Gather<'g, 'a> {
    nest: &'g mut Nest<'a>,
    written: &'g BTreeSet<Name>,
    l: &'g DFor,
    found: Vec<Found>,
    copies: Vec<DStmt>,
    /// Variables that lets around the current expression bind.
    bound: Vec<Name>,
}

impl Gather<'_, '_> {
    fn list(&mut self, body: &[DStmt], cond: Option<&Expr>) -> Vec<DStmt> {
        body.iter().map(|s| self.stmt(s, cond)).collect()
    }

    fn stmt(&mut self, s: &DStmt, cond: Option<&Expr>) -> DStmt {
        if let DStmt::If { cond: own, then, otherwise } = s {
            let (yes, no) = (both(cond, own), both(cond, &negated(own, self.nest)));
            return DStmt::If {
                cond: self.expr(own, cond),
                then: self.list(then, Some(&yes)),
                otherwise: self.list(otherwise, Some(&no)),
            };
        }
        s.map_exprs(&mut |e| self.expr(e, cond))
    }

    fn expr(&mut self, e: &Expr, cond: Option<&Expr>) -> Expr {
        match e.kind() {
            ExprKind::Load { buffer, indices, dtype } if indices.len() == 1 => {
                self.load(buffer, &indices[0], *dtype, cond).unwrap_or_else(|| e.clone())
            }
            ExprKind::IfThenElse { cond: own, then, otherwise } => {
                let (yes, no) = (both(cond, own), both(cond, &negated(own, self.nest)));
                Expr::new(ExprKind::IfThenElse {
                    cond: self.expr(own, cond),
                    then: self.expr(then, Some(&yes)),
                    otherwise: self.expr(otherwise, Some(&no)),
                })
            }
            ExprKind::Let { var, value, body } => {
                let value = self.expr(value, cond);
                self.bound.push(var.clone());
                let body = self.expr(body, cond);
                self.bound.pop();
                Expr::new(ExprKind::Let { var: var.clone(), value, body })
            }
            ExprKind::Int { .. }
            | ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::Var { .. }
            | ExprKind::Load { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Binary { .. }
            | ExprKind::Select { .. }
            | ExprKind::Cast { .. }
            | ExprKind::Reinterpret { .. }
            | ExprKind::Call { .. }
            | ExprKind::Extern { .. } => e.map_children(|c| self.expr(c, cond)),
        }
    }

    /// The element of the array that holds what this load reads, if it can be gathered.
    fn load(&mut self, buffer: &Name, index: &Expr, dtype: DType, cond: Option<&Expr>) -> Option<Expr> {
        let var = &self.l.var;
        let pure = |e: &Expr| {
            let free = !e.uses_var(var) && !self.bound.iter().any(|b| e.uses_var(b));
            free && self.reads_constants(e)
        };
        if !self.nest.is_global(buffer) || self.written.contains(buffer) || !cond.is_none_or(pure) {
            return None;
        }
        linear(index, var, &self.nest.ranges).filter(|(c, rest)| c.is_int(1) && pure(rest))?;
        let known = self.found.iter().find(|f| f.buffer == *buffer && f.index == *index && f.cond.as_ref() == cond);
        let array = match known {
            Some(f) => f.array.clone(),
            None => self.copy(buffer, index, dtype, cond)?,
        };
        Some(Expr::load(array, vec![index_var(var)], dtype))
    }

    /// True when what an expression reads from memory, if anything, never changes in this kernel.
    fn reads_constants(&self, e: &Expr) -> bool {
        let mut all = BTreeSet::new();
        loads(e, &mut all);
        all.iter().all(|b| self.nest.is_global(b) && !self.written.contains(b))
    }

    fn copy(&mut self, buffer: &Name, index: &Expr, dtype: DType, cond: Option<&Expr>) -> Option<Name> {
        let array = self.nest.scratch(&format!("{buffer}_vec"), dtype, self.l.extent.clone(), Scope::Local);
        let value = Expr::load(buffer.clone(), vec![index.clone()], dtype);
        let store = DStmt::store(array.clone(), vec![index_var(&self.l.var)], value);
        let one = DFor::new(self.l.var.clone(), self.l.extent.clone(), DKind::Vectorized, vec![store]);
        let Some(copy) = vectorize::as_copy(self.nest, &one) else {
            self.nest.buffers.remove(&array);
            return None;
        };
        self.copies.extend(guarded(cond.cloned(), copy));
        let found = Found { buffer: buffer.clone(), index: index.clone(), cond: cond.cloned(), array: array.clone() };
        self.found.push(found);
        Some(array)
    }
}

fn both(outer: Option<&Expr>, own: &Expr) -> Expr {
    and(outer.cloned(), Some(own.clone())).unwrap_or_else(|| own.clone())
}

fn negated(cond: &Expr, nest: &Nest) -> Expr {
    simplify(&Expr::unary(UnOp::Not, cond.clone()), &nest.ranges)
}
