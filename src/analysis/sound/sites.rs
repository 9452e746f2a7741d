//! The places of a block where elements are read and stored, in the order they run, each with the conditions
//! under which it does.

use crate::analysis::{Ranges, index_text};
use crate::ir::{BinOp, Block, Buffer, Expr, ExprKind, Name, PrimFunc, Stmt, UnOp};

/// A load or store.
pub struct Site {
    pub buffer: Name,
    /// One index per dimension, over the block's iterators.
    pub indices: Vec<Expr>,
    /// All of these hold where it runs.
    pub guards: Vec<Expr>,
    pub is_store: bool,
}

impl Site {
    /// True where an index or a condition is read from a tensor.
    pub fn depends_on_data(&self) -> bool {
        self.indices.iter().chain(&self.guards).any(Expr::has_load)
    }

    /// True where both go to the same element of the same buffer in every iteration.
    pub fn is_where(&self, other: &Site) -> bool {
        self.buffer == other.buffer && self.indices == other.indices
    }

    /// True for a load of an element that the block stores.
    pub fn updates(&self, all: &[Site]) -> bool {
        !self.is_store && all.iter().any(|o| o.is_store && self.is_where(o))
    }

    /// The ranges under its conditions.
    pub fn ranges(&self, of_block: &Ranges) -> Ranges {
        self.guards.iter().fold(of_block.clone(), |r, g| r.assuming(g))
    }

    /// The expressions that decide where it goes.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.indices.iter().chain(&self.guards)
    }

    /// What it does, for people: `reads A[v0 + 1]`.
    pub fn text(&self, f: &PrimFunc) -> String {
        let named = |e: &Expr| {
            let user = |n: &Name| Some(Expr::var(f.display_name(n), e.dtype()));
            index_text(&e.subst(&user))
        };
        let verb = if self.is_store { "stores to" } else { "reads" };
        let list: Vec<String> = self.indices.iter().map(named).collect();
        format!("{verb} `{}[{}]`", f.display_name(&self.buffer), list.join(", "))
    }
}

/// An element with its buffer's name, for people.
pub fn element(f: &PrimFunc, buffer: &Buffer, at: &[i64]) -> String {
    let list: Vec<String> = at.iter().map(i64::to_string).collect();
    format!("`{}[{}]`", f.display_name(&buffer.name), list.join(", "))
}

/// All sites of a block.
pub fn sites(b: &Block) -> Vec<Site> {
    let mut walk = Walk { lets: vec![], guards: b.guard.iter().cloned().collect(), found: vec![] };
    walk.list(&b.init);
    walk.list(&b.body);
    walk.found
}

struct Walk {
    lets: Vec<(Name, Expr)>,
    guards: Vec<Expr>,
    found: Vec<Site>,
}

impl Walk {
    fn list(&mut self, list: &[Stmt]) {
        let outer = self.lets.len();
        list.iter().for_each(|s| self.stmt(s));
        self.lets.truncate(outer);
    }

    fn stmt(&mut self, s: &Stmt) {
        match s {
            Stmt::Store { buffer, indices, value } => {
                self.expr(value);
                indices.iter().for_each(|i| self.expr(i));
                self.note(buffer, indices, true);
            }
            Stmt::Let { var, value } => {
                self.expr(value);
                let value = self.plain(value);
                self.lets.push((var.clone(), value));
            }
            Stmt::If { cond, then, otherwise } => {
                self.expr(cond);
                self.under(cond.clone(), |w| w.list(then));
                self.under(not(cond), |w| w.list(otherwise));
            }
            Stmt::Evaluate(e) => self.expr(e),
            // Refused before.
            Stmt::For(_) | Stmt::Block(_) | Stmt::While { .. } | Stmt::Attr { .. } | Stmt::Alloc { .. } => {}
        }
    }

    fn expr(&mut self, e: &Expr) {
        match e.kind() {
            ExprKind::Load { buffer, indices, .. } => {
                indices.iter().for_each(|i| self.expr(i));
                self.note(buffer, indices, false);
            }
            ExprKind::IfThenElse { cond, then, otherwise } => {
                self.expr(cond);
                self.under(cond.clone(), |w| w.expr(then));
                self.under(not(cond), |w| w.expr(otherwise));
            }
            ExprKind::Binary { op: op @ (BinOp::And | BinOp::Or), a, b } => {
                self.expr(a);
                self.under(if *op == BinOp::And { a.clone() } else { not(a) }, |w| w.expr(b));
            }
            ExprKind::Let { var, value, body } => {
                self.expr(value);
                let plain = self.plain(value);
                self.lets.push((var.clone(), plain));
                self.expr(body);
                self.lets.pop();
            }
            _ => e.for_each_child(|c| self.expr(c)),
        }
    }

    fn under(&mut self, cond: Expr, inner: impl FnOnce(&mut Walk)) {
        let cond = self.plain(&cond);
        self.guards.push(cond);
        inner(self);
        self.guards.pop();
    }

    /// The expression over iterators alone.
    fn plain(&self, e: &Expr) -> Expr {
        if self.lets.is_empty() {
            return e.clone();
        }
        e.subst(&|n| self.lets.iter().rev().find(|(var, _)| var == n).map(|(_, value)| value.clone()))
    }

    fn note(&mut self, buffer: &Name, indices: &[Expr], is_store: bool) {
        let indices = indices.iter().map(|i| self.plain(i)).collect();
        self.found.push(Site { buffer: buffer.clone(), indices, guards: self.guards.clone(), is_store });
    }
}

fn not(e: &Expr) -> Expr {
    Expr::unary(UnOp::Not, e.clone())
}
