//! What each parameter is for.

use super::sound::{is_filled_first, is_scattered, reads_as_given};
use super::walk::visit_exprs;
use super::{fission, serial, unnest};
use crate::ir::{Expr, ExprKind, Name, Param, PrimFunc, Role, Stmt};

/// The role of every parameter, in order. A tensor that the function neither reads nor writes is
/// an input.
pub fn roles(f: &PrimFunc) -> Vec<Role> {
    f.params.iter().map(|p| role(f, p)).collect()
}

fn role(f: &PrimFunc, p: &Param) -> Role {
    match p {
        Param::Scalar { name, .. } if is_extent(f, name) => Role::Extent,
        Param::Scalar { .. } => Role::Scalar,
        Param::Buffer(b) => {
            let mut seen = Seen::default();
            f.body.iter().for_each(|s| seen.stmt(s, b));
            match (seen.read_first, seen.written) {
                (_, false) => Role::In,
                (true, true) => Role::Inout,
                (false, true) if keeps_some(&in_blocks(f), b, seen.read) => Role::Inout,
                (false, true) => Role::Out,
            }
        }
    }
}

/// True where something that the caller left in a tensor counts: it is read, or elements that are passed over keep it.
fn keeps_some(f: &PrimFunc, b: &Name, is_read: bool) -> bool {
    is_read && reads_as_given(f, b) || is_scattered(f, b) && !is_filled_first(f, b)
}

/// The function as rules see it, whose blocks have iterators.
fn in_blocks(f: &PrimFunc) -> PrimFunc {
    serial(&fission(&unnest(f)))
}

fn is_extent(f: &PrimFunc, name: &Name) -> bool {
    let uses = |e: &Expr| e.uses_var(name);
    let mut found = f.extents.iter().any(|e| e.name == *name) || f.is_in_shape(name);
    f.visit(&mut |s| match s {
        Stmt::For(l) => found |= uses(&l.extent),
        Stmt::Block(b) => found |= b.iters.iter().any(|it| uses(&it.extent)),
        _ => {}
    });
    found
}

/// What happened to one buffer so far.
#[derive(Default)]
struct Seen {
    written: bool,
    read_first: bool,
    read: bool,
}

impl Seen {
    fn exprs(&mut self, s: &Stmt, buffer: &Name) {
        s.for_each_expr(|e| self.read |= e.loads(buffer));
        s.for_each_expr(|e| self.read_first |= !self.written && e.loads(buffer));
    }

    fn stmt(&mut self, s: &Stmt, buffer: &Name) {
        self.exprs(s, buffer);
        match s {
            Stmt::Store { buffer: b, .. } if b == buffer => self.written = true,
            // The init comes first, so an accumulator is written before it is read.
            Stmt::For(_) | Stmt::Block(_) | Stmt::If { .. } | Stmt::While { .. } | Stmt::Attr { .. } => {
                s.for_each_child(|c| self.stmt(c, buffer));
            }
            Stmt::Evaluate(e) => self.written |= passes(e, buffer),
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Alloc { .. } => {}
        }
    }
}

/// An extern call that is handed the buffer may write it.
fn passes(e: &Expr, buffer: &Name) -> bool {
    let mut found = false;
    let call = [Stmt::Evaluate(e.clone())];
    visit_exprs(&call, &mut |e| found |= matches!(e.kind(), ExprKind::Extern { .. }) && e.loads(buffer));
    found
}
