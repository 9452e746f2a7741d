//! Reads in a block with loops inside of elements that statements before have not stored to.
//!
//! Its statements are run in their order, for all of its iterations where these are few, else for the first, the middle
//! and the last of each iterator. Only places are followed, no data: a store under a condition that is data counts as
//! left out, a read under one as made.

use super::value::value;
use crate::ir::{BinOp, Block, Expr, ExprKind, For, IterVar, Name, Stmt};
use std::collections::HashSet;

/// Steps of loops that are run at most.
const MOST: i64 = 1 << 20;

/// True where every element of `buffer` that a block reads has been stored to by a statement before, or is one of which
/// `is_written` holds; false where that is not so, or can't be told.
pub fn stores_first(b: &Block, buffer: &Name, is_written: &dyn Fn(&[i64]) -> bool) -> bool {
    let mut run = Run { buffer, is_written, stored: HashSet::new(), env: vec![], left: MOST };
    if run.iterations(&b.iters, &b.body, false).is_some() {
        return true;
    }
    if run.left > 0 {
        return false;
    }
    run = Run { buffer, is_written, stored: HashSet::new(), env: vec![], left: MOST };
    run.iterations(&b.iters, &b.body, true).is_some()
}

/// One run; `None` of a function says that an element is read as it was given, or that nothing can be told.
struct Run<'a> {
    buffer: &'a Name,
    is_written: &'a dyn Fn(&[i64]) -> bool,
    stored: HashSet<Vec<i64>>,
    env: Vec<(&'a Name, i64)>,
    /// Steps that may still be run.
    left: i64,
}

impl<'a> Run<'a> {
    fn iterations(&mut self, iters: &'a [IterVar], body: &'a [Stmt], few: bool) -> Option<()> {
        let Some((it, inner)) = iters.split_first() else { return self.list(body, true) };
        let (min, extent) = (it.min.as_int()?, it.extent.as_int()?);
        let is_chosen = |v: &i64| !few || [0, extent / 2, extent - 1].contains(v);
        (0..extent)
            .filter(is_chosen)
            .try_for_each(|v| self.at(&it.var, min + v, |run| run.iterations(inner, body, few)))
    }

    /// One step of a loop.
    fn at(&mut self, var: &'a Name, v: i64, step: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.left -= 1;
        (self.left > 0).then_some(())?;
        self.env.push((var, v));
        step(self)?;
        self.env.pop();
        Some(())
    }

    fn list(&mut self, list: &'a [Stmt], sure: bool) -> Option<()> {
        let outer = self.env.len();
        list.iter().try_for_each(|s| self.stmt(s, sure))?;
        self.env.truncate(outer);
        Some(())
    }

    fn stmt(&mut self, s: &'a Stmt, sure: bool) -> Option<()> {
        match s {
            Stmt::Store { buffer, indices, value: stored } => {
                self.expr(stored)?;
                indices.iter().try_for_each(|i| self.expr(i))?;
                if buffer == self.buffer && sure {
                    self.stored.extend(self.place(indices));
                }
                Some(())
            }
            Stmt::Let { var, value: bound } => {
                self.expr(bound)?;
                self.env.extend(value(bound, &self.env).map(|v| (var, v)));
                Some(())
            }
            Stmt::If { cond, then, otherwise } => {
                self.expr(cond)?;
                match value(cond, &self.env) {
                    Some(0) => self.list(otherwise, sure),
                    Some(_) => self.list(then, sure),
                    None => self.list(then, false).and_then(|()| self.list(otherwise, false)),
                }
            }
            Stmt::For(l) => self.steps(l, sure),
            Stmt::While { cond, body } => self.expr(cond).and_then(|()| self.list(body, false)),
            Stmt::Evaluate(e) => self.expr(e),
            Stmt::Attr { body, .. } => self.list(body, sure),
            Stmt::Alloc { .. } => Some(()),
            Stmt::Block(_) => None,
        }
    }

    fn steps(&mut self, l: &'a For, sure: bool) -> Option<()> {
        let (min, extent) = (value(&l.min, &self.env)?, value(&l.extent, &self.env)?);
        (0..extent).try_for_each(|v| self.at(&l.var, min + v, |run| run.list(&l.body, sure)))
    }

    fn place(&self, indices: &[Expr]) -> Option<Vec<i64>> {
        indices.iter().map(|i| value(i, &self.env)).collect()
    }

    fn expr(&mut self, e: &'a Expr) -> Option<()> {
        match e.kind() {
            ExprKind::Load { buffer, indices, .. } => {
                indices.iter().try_for_each(|i| self.expr(i))?;
                if buffer != self.buffer {
                    return Some(());
                }
                let at = self.place(indices)?;
                (self.stored.contains(&at) || (self.is_written)(&at)).then_some(())
            }
            ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise } => {
                self.expr(cond)?;
                match value(cond, &self.env) {
                    Some(0) => self.expr(otherwise),
                    Some(_) => self.expr(then),
                    None => self.expr(then).and_then(|()| self.expr(otherwise)),
                }
            }
            ExprKind::Binary { op: op @ (BinOp::And | BinOp::Or), a, b } => {
                self.expr(a)?;
                let decides = value(a, &self.env).is_some_and(|v| (v != 0) == (*op == BinOp::Or));
                if decides { Some(()) } else { self.expr(b) }
            }
            ExprKind::Let { var, value: bound, body } => {
                self.expr(bound)?;
                let outer = self.env.len();
                self.env.extend(value(bound, &self.env).map(|v| (var, v)));
                self.expr(body)?;
                self.env.truncate(outer);
                Some(())
            }
            _ => self.operands(e),
        }
    }

    fn operands(&mut self, e: &'a Expr) -> Option<()> {
        let mut all = vec![];
        e.for_each_child(|c| all.push(c));
        all.into_iter().try_for_each(|c| self.expr(c))
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::Role;

    /// The role of `y`.
    fn role(body: &str) -> Role {
        let text = format!(
            "n = TypeVar(\"n\")\n@T.prim_func(s_tir=True)\ndef main(x: T.Buffer((5, 30), \"float32\"), \
             p: T.Buffer((4,), \"int32\"), z: T.Buffer((n,), \"float32\"), y: T.Buffer((5, 30), \"float32\")):\n{body}"
        );
        crate::analysis::roles(&crate::ir::read(&text, "roles").expect("reads").remove(0))[3]
    }

    #[test]
    fn a_scan_reads_what_it_has_stored() {
        let scan = "    for v in T.parallel(5):
        y[v, 0] = x[v, 0]
        for k in range(29):
            y[v, k + 1] = y[v, k] + x[v, k + 1]
";
        assert_eq!(role(scan), Role::Out);
        assert_eq!(role(&scan.replace("+ x[v, k + 1]", "+ y[v, k + 1]")), Role::Inout);
        let under = |cond: &str| scan.replace("        y[v, 0]", &format!("        if {cond}:\n            y[v, 0]"));
        assert_eq!(role(&under("v < 5")), Role::Out);
        assert_eq!(role(&under("v < 4")), Role::Inout);
        assert_eq!(role(&under("p[0] < 4")), Role::Inout, "nobody knows whether it is stored to");
    }

    #[test]
    fn a_scatter_keeps_what_it_passes_over_unless_all_is_filled_before() {
        let scatter = |first: &str| {
            format!(
                "{first}    for j in T.parallel(30):\n        for k in range(4):\n            \
                 y[p[k], j] = y[p[k], j] + x[k, j]\n"
            )
        };
        let fill = |rows: i64| format!("    for i, j in T.grid({rows}, 30):\n        y[i, j] = T.float32(0)\n");
        assert_eq!(role(&scatter("")), Role::Inout);
        assert_eq!(role(&scatter(&fill(5))), Role::Out);
        assert_eq!(role(&scatter(&fill(4))), Role::Inout);
    }
}
