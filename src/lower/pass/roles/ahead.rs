//! Values that warpgroups load from memory into registers, a step ahead.
//!
//! Loads that a step begins with, and that fill arrays of registers from memory of the device, are made for the next step
//! while this one goes on; the last step makes its own once more. Loads of what the step writes stay where they are.
//!
//! before: `for k < 8 { r[0] = s[k]; .. r[0] .. }`
//! after:  `next[0] = s[0]; for k < 8 { r[0] = next[0]; next[0] = s[min(k + 1, 7)]; .. r[0] .. }`

use super::super::finish::used_buffers;
use crate::analysis::simplify;
use crate::ir::device::{DFor, DStmt, index_var};
use crate::ir::instr::Access;
use crate::ir::{BinOp, DType, Expr, ExprKind, Name, Scope};
use crate::lower::fact::redirect;
use crate::lower::nest::Nest;
use crate::lower::pass::batch::{touched, written};
use crate::lower::pass::pipeline::copied;
use std::collections::BTreeMap;

/// The loads of the first of `steps` that loop `var` takes, and the statements of a step with those of the next.
pub(super) fn loads(nest: &mut Nest, (var, steps): (&Name, i64), body: Vec<DStmt>) -> (Vec<DStmt>, Vec<DStmt>) {
    let n = body.iter().take_while(|s| only_loads(nest, s)).count();
    let (own, rest) = body.split_at(n);
    let (read, used) = (touched(own, Access::Read), used_buffers(rest));
    if written(rest).iter().any(|name| read.contains(name)) {
        return (vec![], body);
    }
    let mut next = BTreeMap::new();
    for name in used_buffers(own).into_iter().filter(|name| used.contains(name)) {
        let Some(b) = nest.buffers.get(&name).filter(|_| nest.is_local(&name)).cloned() else { continue };
        let Some(len) = b.len() else { return (vec![], body) };
        let ahead = nest.scratch(&format!("{name}_next"), b.dtype, Expr::i64(len), Scope::Local);
        next.insert(name, (ahead, b.dtype, len));
    }
    let to_next = redirect::all(own, &|name, at| next.get(name).map(|(ahead, ..)| (ahead.clone(), at.clone())));
    let at = |step: Expr| -> Vec<DStmt> {
        let value = |n: &Name| (n == var).then(|| step.clone());
        to_next.iter().map(|s| s.subst(&value).map_exprs(&mut |e| simplify(e, &nest.ranges))).collect()
    };
    let last = Expr::i64(steps - 1);
    let following = Expr::binary(BinOp::Min, index_var(var) + Expr::i64(1), last);
    let (first, following) = (at(Expr::i64(0)), at(following));
    let mut out: Vec<DStmt> = next.iter().map(|(name, from)| taken(nest, name, from)).collect();
    out.extend(following);
    out.extend(rest.iter().cloned());
    (first, out)
}

/// The loop that takes what was loaded.
fn taken(nest: &mut Nest, to: &Name, (from, dtype, len): &(Name, DType, i64)) -> DStmt {
    let i = nest.loop_var("i", *len);
    let value = Expr::load(from.clone(), vec![index_var(&i)], *dtype);
    DStmt::unrolled(&i, *len, vec![DStmt::store(to.clone(), vec![index_var(&i)], value)])
}

/// True for statements by which registers take what they hold, or zero, from memory of the device, or from registers
/// that did.
fn only_loads(nest: &Nest, s: &DStmt) -> bool {
    match s {
        DStmt::For(DFor { body, .. }) => body.iter().all(|s| only_loads(nest, s)),
        DStmt::Store { buffer, value, .. } => {
            let loaded = |e: &Expr| matches!(e.kind(), ExprKind::Load { buffer, .. } if !nest.is_shared(buffer));
            nest.is_local(buffer) && copied(value).is_some_and(|(_, e)| loaded(e))
        }
        DStmt::Copy { dst, src, .. } => nest.is_local(dst) && nest.is_global(src),
        DStmt::If { then, otherwise, .. } => then.iter().chain(otherwise).all(|s| only_loads(nest, s)),
        DStmt::Let { .. }
        | DStmt::Var { .. }
        | DStmt::Assign { .. }
        | DStmt::Shuffle { .. }
        | DStmt::Barrier(_)
        | DStmt::Instr(_)
        | DStmt::Tile(_)
        | DStmt::Reduce(_) => false,
    }
}
