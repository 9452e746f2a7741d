//! Turns lets inside expressions into lets before their statement.
//!
//! A let stays inside (its value put in place) where taking it out would load from memory that the
//! expression only reads under a condition.
//!
//! before: `out[i] = let x = a[i] * 2.0 in x * x`
//! after:  `let x = a[i] * 2.0; out[i] = x * x`

use crate::ir::device::DStmt;
use crate::ir::{Expr, ExprKind, Name};
use crate::lower::fact::replicated::loads;
use crate::lower::nest::Nest;
use std::collections::BTreeSet;

/// Takes every let of a launch out of its expression.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    list(&mut Lets { nest, used: BTreeSet::new() }, body)
}

struct Lets<'n, 'a> {
    nest: &'n mut Nest<'a>,
    /// Names that a statement has taken already: a block that was copied brings them again.
    used: BTreeSet<Name>,
}

fn list(lets: &mut Lets, body: Vec<DStmt>) -> Vec<DStmt> {
    let mut out = vec![];
    for s in body {
        let mut found = vec![];
        let s = s.map_own_exprs(&mut |e| lets.pull(e, false, &mut found)).map_lists(|inner| list(lets, inner));
        out.extend(found);
        out.push(s);
    }
    out
}

impl Lets<'_, '_> {
    /// The expression without lets; those taken out are added to `found`.
    fn pull(&mut self, e: &Expr, conditional: bool, found: &mut Vec<DStmt>) -> Expr {
        match e.kind() {
            ExprKind::Let { var, value, body } => {
                let value = self.pull(value, conditional, found);
                if conditional && reads(&value) {
                    let body = body.subst(&|n| (n == var).then(|| value.clone()));
                    return self.pull(&body, conditional, found);
                }
                let own = if self.used.insert(var.clone()) { var.clone() } else { self.nest.fresh(var.as_str()) };
                self.used.insert(own.clone());
                let renamed = rename(body, var, &own);
                found.push(DStmt::Let { var: own, value });
                self.pull(&renamed, conditional, found)
            }
            ExprKind::IfThenElse { cond, then, otherwise } => Expr::new(ExprKind::IfThenElse {
                cond: self.pull(cond, conditional, found),
                then: self.pull(then, true, found),
                otherwise: self.pull(otherwise, true, found),
            }),
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
            | ExprKind::Extern { .. } => e.map_children(|c| self.pull(c, conditional, found)),
        }
    }
}

/// The same expression with a variable renamed, whatever dtype it is read at.
fn rename(e: &Expr, from: &Name, to: &Name) -> Expr {
    if from == to {
        return e.clone();
    }
    if let ExprKind::Var { name, dtype } = e.kind() {
        return if name == from { Expr::var(to.clone(), *dtype) } else { e.clone() };
    }
    e.map_children(|c| rename(c, from, to))
}

fn reads(e: &Expr) -> bool {
    let mut all = BTreeSet::new();
    loads(e, &mut all);
    !all.is_empty()
}
