//! Turns vectorised loops into what the target has.
//!
//! CUDA: a loop that only copies adjacent elements between two buffers becomes copies of the widest
//! access that alignment and target allow (through registers where neither side is one); anything
//! else is unrolled. A condition around the copy that does not depend on the loop stays around it.
//! CPU: the loop stays a vector loop where every index is free of its variable or `base + var` and
//! no statement reads what another one moved; else it is serial.
//!
//! before: `vector v < 8 { r[v] = p0[threadIdx.x * 8 + v] }` of float32
//! after:  `unroll u < 2 { copy4 r[u * 4] <- p0[threadIdx.x * 8 + u * 4] }`

use super::nest::Nest;
use crate::analysis::{linear, multiple_of, simplify};
use crate::ir::device::{DFor, DKind, DStmt, guarded, index_var};
use crate::ir::kernel::CacheHint;
use crate::ir::{Buffer, Expr, ExprKind, Name, Scope};
use std::collections::BTreeMap;

/// Parameters are known to start at a multiple of this many bytes.
const PARAM_ALIGN: i64 = 16;
/// Buffers of our own start at a multiple of this many bytes.
const OWN_ALIGN: i64 = 256;
/// Widest access to shared memory and registers.
const SHARED_ACCESS: i64 = 16;

/// Rewrites every vectorised loop.
pub(super) fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    body.into_iter().flat_map(|s| one(nest, s)).collect()
}

fn one(nest: &mut Nest, s: DStmt) -> Vec<DStmt> {
    match s {
        DStmt::For(mut l) => {
            l.body = run(nest, l.body);
            match l.kind {
                DKind::Vectorized if nest.cuda() => cuda(nest, l),
                DKind::Vectorized => vec![cpu(nest, l)],
                DKind::Serial | DKind::Unrolled => vec![DStmt::For(l)],
            }
        }
        DStmt::If { cond, then, otherwise } => {
            vec![DStmt::If { cond, then: run(nest, then), otherwise: run(nest, otherwise) }]
        }
        DStmt::Store { .. }
        | DStmt::Copy { .. }
        | DStmt::Let { .. }
        | DStmt::Var { .. }
        | DStmt::Assign { .. }
        | DStmt::Shuffle { .. }
        | DStmt::Barrier(_)
        | DStmt::Intrinsic(_)
        | DStmt::Tile(_)
        | DStmt::Reduce(_) => vec![s],
    }
}

fn cuda(nest: &mut Nest, mut l: DFor) -> Vec<DStmt> {
    if let [DStmt::If { cond, then, otherwise }] = l.body.as_slice()
        && otherwise.is_empty()
        && !cond.uses_var(&l.var)
    {
        let inner = l.with_body(then.clone());
        return guarded(Some(cond.clone()), cuda(nest, inner));
    }
    as_copy(nest, &l).unwrap_or_else(|| {
        l.kind = if l.extent.as_int().is_some() { DKind::Unrolled } else { DKind::Serial };
        vec![DStmt::For(l)]
    })
}

/// The vector copies that a loop amounts to, if it only copies adjacent, aligned elements.
pub(super) fn as_copy(nest: &mut Nest, l: &DFor) -> Option<Vec<DStmt>> {
    let copy = plain_copy(nest, l)?;
    vector_copy(nest, l, copy)
}

/// A loop that copies adjacent elements: each side with its index at `var = 0`.
struct CopyLoop {
    dst: (Name, Expr),
    src: (Name, Expr),
    len: i64,
    bytes: i64,
    hint: CacheHint,
}

fn plain_copy(nest: &Nest, l: &DFor) -> Option<CopyLoop> {
    let [DStmt::Store { buffer: dst, indices, value, hint }] = l.body.as_slice() else { return None };
    let ExprKind::Load { buffer: src, indices: from, .. } = value.kind() else { return None };
    let (to, own) = (nest.buffers.get(dst)?, nest.buffers.get(src)?);
    let base = |e: &Expr| linear(e, &l.var, &nest.ranges).filter(|(c, _)| c.is_int(1)).map(|(_, rest)| rest);
    (to.dtype == own.dtype).then_some(())?;
    Some(CopyLoop {
        dst: (dst.clone(), base(indices.first()?)?),
        src: (src.clone(), base(from.first()?)?),
        len: l.extent.as_int()?,
        bytes: to.dtype.bytes() as i64,
        hint: *hint,
    })
}

fn vector_copy(nest: &mut Nest, l: &DFor, c: CopyLoop) -> Option<Vec<DStmt>> {
    let lanes = [32, 16, 8, 4, 2]
        .map(|bytes| bytes / c.bytes)
        .into_iter()
        .find(|n| *n > 1 && c.len % n == 0 && [&c.dst, &c.src].iter().all(|side| allows(nest, side, *n, c.bytes)));
    let local = nest.is_local(&c.dst.0) || nest.is_local(&c.src.0);
    let global = nest.is_global(&c.dst.0) || nest.is_global(&c.src.0);
    let lanes = match lanes {
        Some(n) => n,
        None if c.hint != CacheHint::Plain && local && global => 1,
        None => return None,
    };
    let var = nest.fresh(&format!("{}_u", l.var));
    let count = c.len / lanes;
    nest.ranges.set(var.clone(), 0, count - 1);
    let at = |base: &Expr| simplify(&(base.clone() + index_var(&var) * Expr::i64(lanes)), &nest.ranges);
    let (dst_index, src_index) = (at(&c.dst.1), at(&c.src.1));
    let hint = if nest.is_global(&c.dst.0) && c.hint == CacheHint::NoAllocate { CacheHint::Plain } else { c.hint };
    let lanes = lanes as u32;
    let copy = |dst: &Name, dst_index: Expr, src: &Name, src_index: Expr, hint: CacheHint| DStmt::Copy {
        dst: dst.clone(),
        dst_index,
        src: src.clone(),
        src_index,
        lanes,
        hint,
    };
    let body = if local {
        let hint = if global { hint } else { CacheHint::Plain };
        vec![copy(&c.dst.0, dst_index, &c.src.0, src_index, hint)]
    } else {
        let dtype = nest.buffers.get(&c.dst.0)?.dtype;
        let via = nest.fresh(&format!("{}_via", c.dst.0));
        let buffer = Buffer::new(via.clone(), dtype, vec![Expr::i64(lanes as i64)], Scope::Local);
        nest.buffers.insert(via.clone(), buffer);
        vec![
            copy(&via, Expr::i64(0), &c.src.0, src_index, hint),
            copy(&c.dst.0, dst_index, &via, Expr::i64(0), CacheHint::Plain),
        ]
    };
    if count == 1 {
        return Some(body.iter().map(|s| s.subst(&|n| (*n == var).then(|| Expr::i64(0)))).collect());
    }
    Some(vec![DStmt::For(DFor::new(var, Expr::i64(count), DKind::Unrolled, body))])
}

/// True when one side can be accessed `lanes` elements at a time.
fn allows(nest: &Nest, (name, base): &(Name, Expr), lanes: i64, bytes: i64) -> bool {
    let width = lanes * bytes;
    let (widest, align) = if nest.is_local(name) {
        (nest.target.max_load_bytes.max(16) as i64, i64::MAX)
    } else if nest.is_shared(name) {
        (SHARED_ACCESS, SHARED_ACCESS)
    } else {
        let stated = nest.buffers.get(name).and_then(|b| b.align).map_or(PARAM_ALIGN, |a| a as i64);
        let own = if nest.func.is_param(name) { stated.max(PARAM_ALIGN) } else { OWN_ALIGN };
        (nest.target.max_load_bytes as i64, own)
    };
    width <= widest && width <= align && multiple_of(base, &nest.ranges) % lanes == 0
}

fn cpu(nest: &Nest, mut l: DFor) -> DStmt {
    let lanes = l.extent.as_int().filter(|n| *n > 1 && (*n as u64).is_power_of_two());
    if lanes.is_none() || !is_lanewise(nest, &l) {
        l.kind = DKind::Serial;
    }
    DStmt::For(l)
}

/// True when the statements of a loop body may each run for all lanes before the next one runs.
fn is_lanewise(nest: &Nest, l: &DFor) -> bool {
    let mut indices: BTreeMap<Name, Vec<Expr>> = BTreeMap::new();
    let mut written: Vec<Name> = vec![];
    for s in &l.body {
        let DStmt::Store { buffer, indices: at, value, .. } = s else { return false };
        if !at.iter().all(|e| stride(nest, e, &l.var) == Some(1)) || branches(value) {
            return false;
        }
        written.push(buffer.clone());
        indices.entry(buffer.clone()).or_default().extend(at.iter().cloned());
        value.visit(&mut |e| {
            if let ExprKind::Load { buffer, indices: at, .. } = e.kind() {
                indices.entry(buffer.clone()).or_default().extend(at.iter().cloned());
            }
        });
    }
    let linear = indices.values().flatten().all(|e| matches!(stride(nest, e, &l.var), Some(0 | 1)));
    linear && written.iter().all(|b| indices[b].iter().all(|e| *e == indices[b][0]))
}

fn stride(nest: &Nest, e: &Expr, var: &Name) -> Option<i64> {
    linear(e, var, &nest.ranges).filter(|(_, rest)| !rest.uses_var(var)).and_then(|(c, _)| c.as_int())
}

fn branches(e: &Expr) -> bool {
    let mut found = false;
    e.visit(&mut |e| found |= matches!(e.kind(), ExprKind::IfThenElse { .. } | ExprKind::Let { .. }));
    found
}
