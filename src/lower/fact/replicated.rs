//! Which register values every thread of an axis reads, so that a reduction knows whether its
//! result is wanted by all threads or by the first alone.
//!
//! A value is wanted by all threads of an axis when a store under a loop bound to that axis reads
//! it, directly or through other registers.

use crate::ir::{Expr, ExprKind, ForKind, Name, Stmt, ThreadTag};
use crate::lower::nest::Nest;
use std::collections::BTreeSet;

/// The buffers that all threads of an axis read.
pub struct Replicated(BTreeSet<(Name, ThreadTag)>);

struct StoreFact {
    buffer: Name,
    reads: BTreeSet<Name>,
    tags: Vec<ThreadTag>,
}

impl Replicated {
    /// Looks through one launch.
    pub fn of(nest: &Nest, s: &Stmt) -> Replicated {
        let mut stores = vec![];
        collect(s, &mut vec![], &mut stores);
        let mut set = BTreeSet::new();
        loop {
            let before = set.len();
            for s in &stores {
                for tag in nest.cluster_axes() {
                    let local_wanted = nest.is_local(&s.buffer) && set.contains(&(s.buffer.clone(), tag));
                    if s.tags.contains(&tag) || local_wanted {
                        set.extend(s.reads.iter().map(|r| (r.clone(), tag)));
                    }
                }
            }
            if set.len() == before {
                return Replicated(set);
            }
        }
    }

    /// True when all threads of some of these axes read `buffer`.
    pub fn any(&self, buffer: &Name, tags: &[ThreadTag]) -> bool {
        tags.iter().any(|t| self.0.contains(&(buffer.clone(), *t)))
    }
}

fn collect(s: &Stmt, tags: &mut Vec<ThreadTag>, out: &mut Vec<StoreFact>) {
    if let Stmt::Store { buffer, indices, value } = s {
        let mut reads = BTreeSet::new();
        indices.iter().chain([value]).for_each(|e| loads(e, &mut reads));
        reads.remove(buffer);
        out.push(StoreFact { buffer: buffer.clone(), reads, tags: tags.clone() });
    }
    let bound = match s {
        Stmt::For(l) => match l.kind {
            ForKind::Thread(tag) => Some(tag),
            ForKind::Serial | ForKind::Parallel | ForKind::Vectorized | ForKind::Unrolled => None,
        },
        Stmt::Block(_)
        | Stmt::If { .. }
        | Stmt::While { .. }
        | Stmt::Store { .. }
        | Stmt::Let { .. }
        | Stmt::Evaluate(_)
        | Stmt::Attr { .. }
        | Stmt::Alloc { .. } => None,
    };
    tags.extend(bound);
    s.for_each_child(|c| collect(c, tags, out));
    if bound.is_some() {
        tags.pop();
    }
}

/// The buffers that an expression loads from.
pub fn loads(e: &Expr, out: &mut BTreeSet<Name>) {
    e.visit(&mut |e| {
        if let ExprKind::Load { buffer, .. } = e.kind() {
            out.insert(buffer.clone());
        }
    });
}
