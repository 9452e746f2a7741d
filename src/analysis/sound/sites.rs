//! The places of a block where elements are read and stored, in the order they run, each with the conditions
//! under which it does.

use super::points::Points;
use crate::analysis::{Ranges, index_text};
use crate::ir::{BinOp, Block, Buffer, Expr, ExprKind, For, IterKind, IterVar, Name, PrimFunc, Scope, Stmt, UnOp};

/// A load or store.
pub struct Site {
    pub buffer: Name,
    /// One index per dimension, over the block's iterators.
    pub indices: Vec<Expr>,
    /// All of these hold where it runs.
    pub guards: Vec<Expr>,
    /// The loops inside the block around it, outer to inner.
    pub steps: Vec<IterVar>,
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

    /// The ranges inside its loops and under its conditions.
    pub fn ranges(&self, of_block: &Ranges) -> Ranges {
        let mut inside = of_block.clone();
        self.steps.iter().for_each(|it| inside.set_span(it.var.clone(), &it.min, &it.extent));
        self.guards.iter().fold(inside, |r, g| r.assuming(g))
    }

    /// Iterations of the block and of its loops to try the access at, over those that decide where it goes.
    pub fn points<'a>(&'a self, block: &'a Block) -> Option<Points<'a>> {
        let used = |it: &&IterVar| self.exprs().any(|e| e.uses_var(&it.var));
        Points::of(block.iters.iter().chain(&self.steps).filter(used), self.exprs())
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

/// True for a buffer that each iteration of a block has for itself.
pub fn is_private(f: &PrimFunc, b: &Block, buffer: &Name) -> bool {
    b.allocs.contains(buffer) && f.find_buffer(buffer).is_some_and(|own| own.scope == Scope::Local)
}

/// All sites of a block.
pub fn sites(b: &Block) -> Vec<Site> {
    let guards = b.guard.iter().cloned().collect();
    let mut walk = Walk { lets: vec![], guards, steps: vec![], found: vec![] };
    walk.list(&b.init);
    walk.list(&b.body);
    walk.found
}

struct Walk {
    lets: Vec<(Name, Expr)>,
    guards: Vec<Expr>,
    steps: Vec<IterVar>,
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
            Stmt::For(l) => self.steps_of(l),
            Stmt::While { cond, body } => {
                self.expr(cond);
                self.list(body);
            }
            Stmt::Attr { body, .. } => self.list(body),
            // Refused before.
            Stmt::Block(_) | Stmt::Alloc { .. } => {}
        }
    }

    fn steps_of(&mut self, l: &For) {
        self.expr(&l.min);
        self.expr(&l.extent);
        let (min, extent) = (self.plain(&l.min), self.plain(&l.extent));
        let binding = l.var_expr();
        self.steps.push(IterVar { var: l.var.clone(), dtype: l.dtype, min, extent, kind: IterKind::Spatial, binding });
        self.list(&l.body);
        self.steps.pop();
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
        let (guards, steps) = (self.guards.clone(), self.steps.clone());
        self.found.push(Site { buffer: buffer.clone(), indices, guards, steps, is_store });
    }
}

fn not(e: &Expr) -> Expr {
    Expr::unary(UnOp::Not, e.clone())
}
