//! Takes function calls and divisions that no step of a loop changes out of it (loop-invariant code motion).
//!
//! A compiler leaves them where a condition is around them, as it does not know that one of the steps meets it: the
//! logarithm of a sum is then taken again by every step of an unrolled loop, in registers that its loads want.
//! Such a value may read constants, scalars, and registers of known index that every thread has written before.
//!
//! before: `unroll u < 4 { if c(u) { p1[u] = p0[u] - log(r[0]) } }`
//! after:  `let inv = log(r[0]); unroll u < 4 { if c(u) { p1[u] = p0[u] - inv } }`

use super::batch::written;
use crate::ir::device::{DFor, DStmt, map_list};
use crate::ir::instr::Access;
use crate::ir::{BinOp, Expr, ExprKind, Name};
use crate::lower::nest::Nest;
use std::collections::BTreeSet;

/// Goes through every loop, outer ones first.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    list(nest, &mut BTreeSet::new(), body)
}

/// `defined` are the buffers that every thread has written when it comes to these statements, and then those when it has
/// gone through them.
fn list(nest: &mut Nest, defined: &mut BTreeSet<Name>, body: Vec<DStmt>) -> Vec<DStmt> {
    let mut out = vec![];
    for s in body {
        match s {
            DStmt::For(l) => {
                let runs = l.live.is_none() && l.extent.as_int().is_some_and(|n| n > 0);
                let l = without_invariants(nest, defined, l, &mut out);
                let mut inside = defined.clone();
                out.push(DStmt::For(l).map_lists(|body| list(nest, &mut inside, body)));
                if runs {
                    *defined = inside;
                }
            }
            s @ DStmt::If { .. } => out.push(s.map_lists(|body| list(nest, &mut defined.clone(), body))),
            s => {
                s.for_each_access(|name, _, access| defined.extend((access == Access::Write).then(|| name.clone())));
                out.push(s);
            }
        }
    }
    out
}

/// The loop with scalars in place of its invariant values, and those scalars before it.
fn without_invariants(nest: &mut Nest, defined: &BTreeSet<Name>, l: DFor, before: &mut Vec<DStmt>) -> DFor {
    let own = Changed::by(&l, defined);
    let mut values: Vec<Expr> = vec![];
    for s in &l.body {
        s.visit(&mut |s| s.for_each_expr(|e| own.collect(nest, e, &mut values)));
    }
    if values.is_empty() {
        return l;
    }
    let mut named = |value: Expr| {
        let name = nest.fresh("inv");
        before.push(DStmt::Let { var: name.clone(), value: value.clone() });
        let scalar = Expr::var(name, value.dtype());
        (value, scalar)
    };
    let named: Vec<(Expr, Expr)> = values.into_iter().map(&mut named).collect();
    l.with_body(map_list(&l.body, &mut |e| e.replaced_all(&named)))
}

/// What differs from one step of a loop to another: names that it gives, and buffers that it writes.
struct Changed<'a> {
    names: BTreeSet<Name>,
    buffers: BTreeSet<Name>,
    /// Buffers that every thread has written before.
    defined: &'a BTreeSet<Name>,
}

impl<'a> Changed<'a> {
    fn by(l: &DFor, defined: &'a BTreeSet<Name>) -> Changed<'a> {
        let mut names = BTreeSet::from([l.var.clone()]);
        for s in &l.body {
            s.visit(&mut |s| names.extend(given(s).cloned()));
        }
        Changed { names, buffers: written(&l.body), defined }
    }

    /// The largest invariant values in an expression that are worth a scalar, each once.
    fn collect(&self, nest: &Nest, e: &Expr, out: &mut Vec<Expr>) {
        if !self.keeps(nest, e) {
            e.for_each_child(|c| self.collect(nest, c, out));
        } else if e.any(&|part| is_slow(part)) && !out.contains(e) {
            out.push(e.clone());
        }
    }

    /// True for a value that is the same in every step, and defined before the first.
    fn keeps(&self, nest: &Nest, e: &Expr) -> bool {
        let itself = match e.kind() {
            ExprKind::Int { .. } | ExprKind::Float { .. } => true,
            ExprKind::Var { name, .. } => !self.names.contains(name),
            ExprKind::Load { buffer, indices, .. } => {
                let known = indices.iter().all(|i| i.as_int().is_some());
                known && nest.is_local(buffer) && self.defined.contains(buffer) && !self.buffers.contains(buffer)
            }
            // It may be by zero where a condition does not hold that is around it.
            ExprKind::Binary { op, .. } => !op.is_rounded_division(),
            ExprKind::Unary { .. }
            | ExprKind::Select { .. }
            | ExprKind::IfThenElse { .. }
            | ExprKind::Cast { .. }
            | ExprKind::Reinterpret { .. }
            | ExprKind::Call { .. } => true,
            ExprKind::Str(_) | ExprKind::Extern { .. } | ExprKind::Let { .. } => false,
        };
        let mut all = itself;
        e.for_each_child(|c| all = all && self.keeps(nest, c));
        all
    }
}

/// The scalar that a statement declares or assigns to.
fn given(s: &DStmt) -> Option<&Name> {
    match s {
        DStmt::Assign { var, .. } | DStmt::Shuffle { dst: var, .. } => Some(var),
        s => s.declared(),
    }
}

/// True for what takes more than an instruction or two.
fn is_slow(e: &Expr) -> bool {
    matches!(e.kind(), ExprKind::Call { .. } | ExprKind::Binary { op: BinOp::Div, .. })
}
