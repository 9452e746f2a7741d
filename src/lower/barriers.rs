//! Places barriers between conflicting accesses to shared memory.
//!
//! Statements are walked in order, loops twice for what one iteration does to the next. Where an
//! access may touch what another thread wrote, or overwrite what another thread still reads, and
//! no barrier stands between, one is placed before the statement: outside every condition that
//! threads do not share, and outside a loop when the conflict is with what came before the loop.
//!
//! before: `stage[threadIdx.x] = a; b = stage[63 - threadIdx.x]`
//! after:  `stage[threadIdx.x] = a; barrier; b = stage[63 - threadIdx.x]`

use super::digits::{digits, is_unique};
use super::nest::Nest;
use crate::ir::device::DStmt;
use crate::ir::kernel::Barrier;
use crate::ir::{Expr, ExprKind, Name};

/// Places the barriers of a launch.
pub(super) fn run(nest: &Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    let mut open = vec![];
    list(nest, body, &mut open)
}

/// An access to shared memory since the last barrier.
#[derive(Clone, PartialEq)]
struct Access {
    buffer: Name,
    index: Expr,
    write: bool,
}

fn list(nest: &Nest, body: Vec<DStmt>, open: &mut Vec<Access>) -> Vec<DStmt> {
    let mut out = vec![];
    for s in body {
        if let DStmt::Barrier(_) = s {
            open.clear();
            out.push(s);
            continue;
        }
        let own = accesses(nest, &s);
        if !own.is_empty() && conflict(nest, open, &own) {
            open.clear();
            out.push(DStmt::Barrier(Barrier::Block));
        }
        out.push(inside(nest, s, own, open));
    }
    out
}

fn inside(nest: &Nest, s: DStmt, own: Vec<Access>, open: &mut Vec<Access>) -> DStmt {
    match s {
        DStmt::For(mut l) if is_shared_by_all(&l.extent) && has_hazard(nest, &own) => {
            l.body = list(nest, l.body, open);
            l.body = list(nest, l.body, open);
            DStmt::For(l)
        }
        DStmt::If { cond, then, otherwise } if is_shared_by_all(&cond) && has_hazard(nest, &own) => {
            let mut other = open.clone();
            let then = list(nest, then, open);
            let otherwise = list(nest, otherwise, &mut other);
            add(open, other);
            DStmt::If { cond, then, otherwise }
        }
        s => {
            add(open, own);
            s
        }
    }
}

fn add(open: &mut Vec<Access>, more: Vec<Access>) {
    for a in more {
        if !open.contains(&a) {
            open.push(a);
        }
    }
}

/// True when accesses of one statement could conflict with each other: one of them is a write
/// whose buffer something else in the statement touches.
fn has_hazard(nest: &Nest, own: &[Access]) -> bool {
    own.iter().enumerate().any(|(i, a)| own[i + 1..].iter().any(|b| conflicting(nest, a, b)))
}

fn conflict(nest: &Nest, open: &[Access], own: &[Access]) -> bool {
    open.iter().any(|a| own.iter().any(|b| conflicting(nest, a, b)))
}

/// Two accesses by different threads to one element, at least one a write. Writes of one statement
/// in several iterations are to different elements, or the schedule is wrong.
fn conflicting(nest: &Nest, a: &Access, b: &Access) -> bool {
    a.buffer == b.buffer
        && (a.write || b.write)
        && !(a.index == b.index && (a.write == b.write || own_slot(nest, &a.index)))
}

/// True when every thread of the block has an element of its own at this index.
fn own_slot(nest: &Nest, index: &Expr) -> bool {
    let threads: Vec<&str> = nest.live_axes().iter().map(|t| t.name()).collect();
    let map = |n: &Name| (!threads.contains(&n.as_str())).then(|| Expr::i64(0));
    let by_thread = crate::analysis::simplify(&index.subst(&map), &nest.ranges);
    let Some(digits) = digits(&by_thread, &nest.ranges) else { return false };
    let covered: i64 = digits.iter().map(|d| d.size).product();
    is_unique(&digits) && covered == nest.block.iter().map(|n| *n as i64).product::<i64>()
}

/// True when all threads of the block compute the same value: no thread index, no memory, no local
/// scalar.
fn is_shared_by_all(e: &Expr) -> bool {
    let mut same = true;
    e.visit(&mut |e| match e.kind() {
        ExprKind::Var { name, .. } => {
            same &= !name.as_str().starts_with("threadIdx.") && !name.as_str().contains("_acc")
        }
        ExprKind::Load { .. } | ExprKind::Extern { .. } => same = false,
        ExprKind::Int { .. }
        | ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Unary { .. }
        | ExprKind::Binary { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Cast { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Let { .. } => {}
    });
    same
}

/// All accesses to shared memory in a statement and inside it.
fn accesses(nest: &Nest, s: &DStmt) -> Vec<Access> {
    let mut out = vec![];
    let mut push = |buffer: &Name, index: &Expr, write: bool| {
        if nest.is_shared(buffer) {
            add(&mut out, vec![Access { buffer: buffer.clone(), index: index.clone(), write }]);
        }
    };
    s.visit(&mut |s| {
        s.for_each_expr(|e| {
            e.visit(&mut |e| {
                if let ExprKind::Load { buffer, indices, .. } = e.kind() {
                    indices.iter().for_each(|i| push(buffer, i, false));
                }
            })
        });
        if let DStmt::Store { buffer, indices, .. } = s {
            indices.iter().for_each(|i| push(buffer, i, true));
        }
        if let DStmt::Copy { dst, dst_index, src, src_index, .. } = s {
            push(dst, dst_index, true);
            push(src, src_index, false);
        }
    });
    out
}
