//! Buffers that the blocks of a cluster share: each has its own part in shared memory, and loads from those of others.
//!
//! Of a buffer in `shared.cluster` memory the first dimension is that of the blocks. A block stores to its own part alone.
//! All wait for each other before they load, and before they end for others that may still load from them.
//!
//! before: `part[clusterCtaIdx.x * 64 + threadIdx.x] = a; for c in 4 { copy4 r[c * 4] <- part[c * 64 + threadIdx.x * 4] }`
//! after:  `part[threadIdx.x] = a; cluster arrive; cluster wait;`
//!         `for c in 4 { cluster_load4 r[c * 4] <- part[threadIdx.x * 4] of block c }; cluster arrive; ..; cluster wait`
//!
//! The schedule is at fault where stores and loads stand in one loop or under one condition.

use super::batch::{touched, uses};
use crate::analysis::simplify;
use crate::ir::device::{DStmt, all_of, conjuncts, guarded};
use crate::ir::instr::{Access, At, Instr, Op};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, Expr, ExprKind, Name, ThreadTag};
use crate::lower::LowerError;
use crate::lower::fact::replicated::loads;
use crate::lower::nest::Nest;
use std::collections::{BTreeMap, BTreeSet};

const PASS: &str = "cluster_loads";

/// Gives each block of a launch its own part.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    let used = uses(&body);
    let parts: BTreeMap<Name, i64> =
        nest.parts.clone().into_iter().filter(|(name, _)| used.contains_key(name)).collect();
    if parts.is_empty() {
        return Ok(body);
    }
    let all = |a| body.iter().map(|s| touches_part(nest, s, a)).collect::<Vec<_>>();
    let (stored, loaded) = (all(Access::Write), all(Access::Read));
    let first = loaded.iter().position(|l| *l).unwrap_or(body.len());
    if stored.iter().skip(first).any(|s| *s) {
        let name = parts.keys().next().cloned().unwrap_or_else(|| Name::new(&nest.symbol));
        return Err(LowerError::new(PASS, &name, "blocks of a cluster store to their parts where others load"));
    }
    let last = loaded.iter().rposition(|l| *l);
    let of_some = guard_of_stores(nest, &body[first.min(body.len())..]);
    let [arrive, wait] = meeting(true);
    let mut out = vec![];
    for (i, s) in body.into_iter().enumerate() {
        if i == first {
            out.extend([arrive.clone(), wait.clone()]);
        }
        let s = own(nest, &parts, s)?;
        out.extend(if i >= first { guarded(of_some.clone(), vec![s]) } else { vec![s] });
        if Some(i) == last {
            out.push(arrive.clone());
        }
    }
    out.push(wait);
    for (name, len) in &parts {
        if let Some(b) = nest.buffers.get_mut(name) {
            b.shape = vec![Expr::i64(*len)];
        }
    }
    Ok(out)
}

/// The condition on threads and blocks under which all stores of some statements are: others need not load.
fn guard_of_stores(nest: &Nest, body: &[DStmt]) -> Option<Expr> {
    let in_scope = |s: &DStmt| matches!(s, DStmt::Let { .. } | DStmt::Var { .. } | DStmt::Barrier(_));
    if body.iter().any(in_scope) {
        return None;
    }
    let mut common = None;
    body.iter().for_each(|s| note_guards(nest, s, &mut vec![], &mut common));
    common.and_then(all_of)
}

/// Leaves the conditions on threads and blocks that stand around all stores to memory.
fn note_guards(nest: &Nest, s: &DStmt, around: &mut Vec<Expr>, common: &mut Option<Vec<Expr>>) {
    let mut stores = false;
    s.for_each_access(|buffer, _, a| stores |= a != Access::Read && !nest.is_local(buffer));
    if stores {
        let all = common.take().unwrap_or_else(|| around.iter().filter(|c| of_thread(c)).cloned().collect());
        *common = Some(all.into_iter().filter(|c| around.contains(c)).collect());
    }
    let known = around.len();
    for (i, list) in s.lists().into_iter().enumerate() {
        if let DStmt::If { cond, .. } = s
            && i == 0
        {
            around.extend(conjuncts(cond));
        }
        list.iter().for_each(|s| note_guards(nest, s, around, common));
        around.truncate(known);
    }
}

/// True for a condition on indices of threads, and of blocks in their cluster, alone.
fn of_thread(cond: &Expr) -> bool {
    let mut all = true;
    cond.visit(&mut |e| match e.kind() {
        ExprKind::Var { name, .. } => {
            let tag = ThreadTag::by_name(name.as_str());
            all &= tag.is_some_and(|t| t.is_thread() || t == ThreadTag::ClusterX);
        }
        ExprKind::Load { .. } => all = false,
        _ => {}
    });
    all
}

/// True for a statement that so accesses what the blocks of a cluster share.
pub fn touches_part(nest: &Nest, s: &DStmt, access: Access) -> bool {
    touched(std::slice::from_ref(s), access).iter().any(|name| nest.parts.contains_key(name))
}

/// The blocks of a cluster wait for each other; what they have done before is passed on with a release only.
pub fn meeting(release: bool) -> [DStmt; 2] {
    [Barrier::ClusterArrive { release }, Barrier::ClusterWait].map(DStmt::Barrier)
}

/// True for what threads do to wait for those of the whole cluster.
pub fn meets(s: &DStmt) -> bool {
    matches!(s, DStmt::Barrier(Barrier::ClusterArrive { .. } | Barrier::ClusterWait))
}

/// A statement in terms of the block's own part, or loads from those of others.
fn own(nest: &Nest, parts: &BTreeMap<Name, i64>, s: DStmt) -> Result<DStmt, LowerError> {
    let fault = |name: &Name, why: &str| LowerError::new(PASS, name, why);
    let split = |op, at: &Expr, len: i64| simplify(&Expr::binary(op, at.clone(), Expr::i64(len)), &nest.ranges);
    let load = |dst: At, src: &Name, at: &Expr, lanes: u32| {
        let len = parts[src];
        let from = At::new(src, split(BinOp::FloorMod, at, len));
        DStmt::Instr(Instr::new(Op::ClusterLoad { lanes }, [dst, from], [split(BinOp::FloorDiv, at, len)]))
    };
    let into = |name: &Name, at: &Expr, len: i64| {
        let rank = nest.thread(ThreadTag::ClusterX) * Expr::i64(len);
        let at = simplify(&(at.clone() - rank), &nest.ranges);
        match at.uses_var(&Name::new(ThreadTag::ClusterX.name())) {
            false => Ok(at),
            true => Err(fault(name, "a block of a cluster stores to the part of another")),
        }
    };
    match s {
        DStmt::Copy { dst, dst_index, src, src_index, lanes, .. } if parts.contains_key(&src) => {
            Ok(load(At::new(&dst, dst_index), &src, &src_index, lanes))
        }
        DStmt::Copy { dst, dst_index, src, src_index, lanes, hint } if parts.contains_key(&dst) => {
            let dst_index = into(&dst, &dst_index, parts[&dst])?;
            Ok(DStmt::Copy { dst, dst_index, src, src_index, lanes, hint })
        }
        DStmt::Store { buffer, indices, value, hint } => match value.kind() {
            ExprKind::Load { buffer: src, indices: at, .. } if parts.contains_key(src) && nest.is_local(&buffer) => {
                Ok(load(At::new(&buffer, indices[0].clone()), src, &at[0], 1))
            }
            _ => {
                let mut read = BTreeSet::new();
                loads(&value, &mut read);
                if let Some(name) = read.iter().find(|name| parts.contains_key(*name)) {
                    return Err(fault(name, "parts of other blocks are loaded into registers, and nothing else"));
                }
                let indices = match parts.get(&buffer) {
                    Some(len) => vec![into(&buffer, &indices[0], *len)?],
                    None => indices,
                };
                Ok(DStmt::Store { buffer, indices, value, hint })
            }
        },
        s => s.try_map_lists(|inner| inner.into_iter().map(|s| own(nest, parts, s)).collect()),
    }
}
