//! Blocks as the statements that they run.
//!
//! before: `for i, k: block(v = i, w = k reduced): init: y[v] = 0; y[v] = y[v] + x[v, w]`
//! after:  `for i, k: if k == 0: y[i] = 0; y[i] = y[i] + x[i, k]`

use crate::ir::{BinOp, Block, Expr, For, ForKind, IterKind, Name, Stmt};
use std::collections::BTreeSet;

/// The statements of a tree without its blocks; `None` where it has guards, aliases, threads, attributes with a
/// meaning, calls, or arrays that are not private.
///
/// A loop that drives a spatial iterator of an outermost block is parallel: its author said so.
pub fn statements(s: &Stmt) -> Option<Vec<Stmt>> {
    let mut parallel = BTreeSet::new();
    spatial(s, &mut parallel);
    Dissolve { parallel }.stmt(s)
}

/// The loops that drive spatial iterators of outermost blocks.
fn spatial(s: &Stmt, found: &mut BTreeSet<Name>) {
    match s {
        Stmt::Block(b) => {
            let own = b.iters.iter().filter(|it| it.kind == IterKind::Spatial);
            found.extend(own.filter_map(|it| it.binding.as_var().cloned()));
        }
        s => s.for_each_child(|c| spatial(c, found)),
    }
}

struct Dissolve {
    parallel: BTreeSet<Name>,
}

impl Dissolve {
    fn list(&self, list: &[Stmt]) -> Option<Vec<Stmt>> {
        let mut out = vec![];
        for s in list {
            out.extend(self.stmt(s)?);
        }
        Some(out)
    }

    fn stmt(&self, s: &Stmt) -> Option<Vec<Stmt>> {
        Some(match s {
            Stmt::For(l) => vec![Stmt::For(self.loop_(l)?)],
            Stmt::Block(b) => self.block(b)?,
            Stmt::If { cond, then, otherwise } => {
                vec![Stmt::If { cond: cond.clone(), then: self.list(then)?, otherwise: self.list(otherwise)? }]
            }
            Stmt::While { cond, body } => vec![Stmt::While { cond: cond.clone(), body: self.list(body)? }],
            // What an IR builder says of the order of statements, which they have anyway.
            Stmt::Attr { key, body, .. } if &**key == "pragma_scope" => self.list(body)?,
            Stmt::Evaluate(e) if e.as_int().is_some() => vec![],
            Stmt::Attr { .. } | Stmt::Evaluate(_) => return None,
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Alloc { .. } => vec![s.clone()],
        })
    }

    fn loop_(&self, l: &For) -> Option<For> {
        let kind = match l.kind {
            ForKind::Serial if self.parallel.contains(&l.var) => ForKind::Parallel,
            ForKind::Serial | ForKind::Parallel => l.kind,
            ForKind::Vectorized | ForKind::Unrolled | ForKind::Thread(_) => return None,
        };
        let body = self.list(&l.body)?;
        l.annotations.is_empty().then(|| For { kind, body, ..l.clone() })
    }

    fn block(&self, b: &Block) -> Option<Vec<Stmt>> {
        let known = b.iters.iter().all(|it| it.kind != IterKind::Opaque);
        let plain = b.guard.is_none() && b.matches.is_empty() && b.allocs.is_empty();
        if !known || !plain {
            return None;
        }
        let (init, body) = (self.list(&b.init)?, self.list(&b.body)?);
        let mut out = match first_step(b) {
            Some(cond) if !init.is_empty() => vec![Stmt::If { cond, then: init, otherwise: vec![] }],
            _ => init,
        };
        out.extend(body);
        let value = |n: &Name| b.iter(n).map(|it| it.binding.clone());
        Some(out.iter().map(|s| s.subst(&value)).collect())
    }
}

/// "Every reduction iterator is at its first value."
fn first_step(b: &Block) -> Option<Expr> {
    let reduce = b.iters.iter().filter(|it| it.kind == IterKind::Reduce);
    let first = reduce.map(|it| Expr::binary(BinOp::Eq, it.var_expr(), it.min.clone()));
    first.reduce(|a, b| Expr::binary(BinOp::And, a, b))
}
