//! Turns vectorised loops into what the target has.
//!
//! CUDA: a loop that only copies adjacent elements between two buffers becomes copies of the widest
//! access that alignment and target allow (through registers where neither side is one); anything
//! else is unrolled. A condition around the copy that does not depend on the loop stays around it.
//! CPU: see `lanewise`.
//!
//! before: `vector v < 8 { r[v] = p0[threadIdx.x * 8 + v] }` of float32
//! after:  `unroll u < 2 { copy4 r[u * 4] <- p0[threadIdx.x * 8 + u * 4] }`

mod lanewise;

use super::guards::{for_all, free_of};
use crate::analysis::{linear, prove, simplify};
use crate::ir::device::{DFor, DKind, DStmt, all_of, conjuncts, guarded, index_var, only_guarded};
use crate::ir::kernel::CacheHint;
use crate::ir::{
    AttrValue, BinOp, ExecScope, Expr, ExprKind, Name, PrimFunc, Scope, Stmt, Tile, TileArg, TileCall, TileOp,
};
use crate::lower::nest::Nest;

/// Rewrites every vectorised loop.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    body.into_iter().flat_map(|s| one(nest, s)).collect()
}

fn one(nest: &mut Nest, s: DStmt) -> Vec<DStmt> {
    match s.map_lists(|inner| run(nest, inner)) {
        DStmt::For(l) if l.kind == DKind::Vectorized && nest.cuda() => cuda(nest, l),
        DStmt::For(l) if l.kind == DKind::Vectorized => lanewise::run(nest, l),
        s => vec![s],
    }
}

fn cuda(nest: &mut Nest, mut l: DFor) -> Vec<DStmt> {
    if let Some((cond, then)) = only_guarded(&l.body).filter(|(cond, _)| !cond.uses_var(&l.var)) {
        let inner = l.with_body(then.to_vec());
        return guarded(Some(cond.clone()), cuda(nest, inner));
    }
    partial(nest, &l)
        .or_else(|| as_copy(nest, &l))
        .or_else(|| padded(nest, &l))
        .or_else(|| computed(nest, &l))
        .unwrap_or_else(|| {
            l.kind = if l.extent.as_int().is_some() { DKind::Unrolled } else { DKind::Serial };
            vec![DStmt::For(l)]
        })
}

/// A copy of adjacent elements, each under a condition of its own: vector copies where it holds for all of them.
fn partial(nest: &mut Nest, l: &DFor) -> Option<Vec<DStmt>> {
    let (cond, then) = only_guarded(&l.body)?;
    let one = [(l.var.clone(), l.extent.as_int()?)];
    let copy = l.with_body(then.to_vec());
    let whole = match all_there(nest, cond, &copy) {
        Some(whole) => whole,
        None => conjuncts(cond).into_iter().map(|c| for_all(&nest.ranges, &c, &one)).collect::<Option<Vec<_>>>()?,
    };
    let then = as_copy(nest, &copy)?;
    let Some(whole) = all_of(whole) else { return Some(then) };
    let otherwise = vec![DStmt::For(DFor { kind: DKind::Unrolled, ..l.clone() })];
    Some(vec![DStmt::If { cond: whole, then, otherwise }])
}

/// The conditions under which a copy into registers may be one of vectors although some of its elements are not wanted: that
/// the tensor has them all. What nothing else writes, nobody reads where it was not to be written. `None` for other copies.
fn all_there(nest: &Nest, cond: &Expr, l: &DFor) -> Option<Vec<Expr>> {
    let copy = plain_copy(nest, l)?;
    let own = nest.is_local(&copy.dst.0) && stores(nest.func, &copy.dst.0) == 1;
    let input = nest.func.is_param(&copy.src.0) && stores(nest.func, &copy.src.0) == 0;
    let (first, len) = (&copy.src.1, nest.buffers.get(&copy.src.0).filter(|_| own && input)?.len()?);
    let there = [
        Expr::binary(BinOp::Ge, first.clone(), Expr::i64(0)),
        Expr::binary(BinOp::Le, first.clone(), Expr::i64(len - copy.len)),
    ];
    let others = conjuncts(cond).into_iter().filter(|c| !c.uses_var(&l.var));
    let all = others.chain(there).map(|c| simplify(&c, &nest.ranges));
    Some(all.filter(|c| !prove(c, &nest.ranges)).collect())
}

/// Stores to a buffer in the text of a function.
fn stores(func: &PrimFunc, name: &Name) -> usize {
    let mut found = 0;
    func.visit(&mut |s| found += usize::from(matches!(s, Stmt::Store { buffer, .. } if buffer == name)));
    found
}

/// The vector copies that a loop amounts to, if it only copies adjacent elements and they are aligned:
/// a `copy` of one thread, through registers where neither side is one.
pub fn as_copy(nest: &mut Nest, l: &DFor) -> Option<Vec<DStmt>> {
    let copy = plain_copy(nest, l)?;
    if nest.is_local(&copy.dst.0) || nest.is_local(&copy.src.0) {
        return vector_copy(nest, &copy.dst, &copy.src, &copy);
    }
    let dtype = nest.buffers.get(&copy.dst.0)?.dtype;
    let via = nest.scratch(&format!("{}_via", copy.dst.0), dtype, Expr::i64(copy.len), Scope::Local);
    let via = (via, Expr::i64(0));
    let decisions = nest.decisions.len();
    let both = vector_copy(nest, &via, &copy.src, &copy).and_then(|mut load| {
        load.extend(vector_copy(nest, &copy.dst, &via, &copy)?);
        Some(load)
    });
    if both.is_none() {
        nest.decisions.truncate(decisions);
    }
    both
}

/// A copy of adjacent elements that takes a constant where a condition fails, which is the same for all of
/// them: vector copies under the condition, and of the constant where it fails.
fn padded(nest: &mut Nest, l: &DFor) -> Option<Vec<DStmt>> {
    let [DStmt::Store { buffer, indices, value, hint }] = l.body.as_slice() else { return None };
    let (cond, then, otherwise) = one_condition(nest, l, value).filter(|_| !nest.is_local(buffer))?;
    let (n, decisions, dtype) = (l.extent.as_int()?, nest.decisions.len(), nest.buffers.get(buffer)?.dtype);
    let load = DStmt::Store { buffer: buffer.clone(), indices: indices.clone(), value: then.clone(), hint: *hint };
    let then = as_copy(nest, &l.with_body(vec![load]))?;
    let Some(cond) = cond else { return Some(then) };
    let via = nest.scratch(&format!("{buffer}_via"), dtype, Expr::i64(n), Scope::Local);
    let at = vec![index_var(&l.var)];
    let fill = DStmt::store(via.clone(), at.clone(), otherwise.clone());
    let fill = DStmt::For(DFor { kind: DKind::Unrolled, ..l.with_body(vec![fill]) });
    let value = Expr::load(via, at, dtype);
    let move_ = DStmt::Store { buffer: buffer.clone(), indices: indices.clone(), value, hint: *hint };
    let Some(store) = as_copy(nest, &l.with_body(vec![move_])) else {
        nest.decisions.truncate(decisions);
        return None;
    };
    let otherwise = [vec![fill], store].concat();
    Some(vec![DStmt::If { cond, then, otherwise }])
}

/// A value that is a constant where a condition fails, which is the same for all elements of a loop: the
/// condition, where one is left, and both values.
fn one_condition(nest: &Nest, l: &DFor, value: &Expr) -> Option<(Option<Expr>, Expr, Expr)> {
    let (ExprKind::IfThenElse { cond, then, otherwise } | ExprKind::Select { cond, then, otherwise }) = value.kind()
    else {
        return None;
    };
    let one = [(l.var.clone(), l.extent.as_int()?)];
    let parts = conjuncts(&simplify(cond, &nest.ranges)).into_iter().map(|c| free_of(&nest.ranges, c, &one));
    let cond = all_of(parts.filter(|c| !prove(c, &nest.ranges)));
    let constant = matches!(otherwise.kind(), ExprKind::Int { .. } | ExprKind::Float { .. });
    let free = constant && !cond.as_ref().is_some_and(|c| c.uses_var(&l.var));
    free.then(|| (cond, then.clone(), otherwise.clone()))
}

/// Values on their way into adjacent elements of shared memory that are computed, or do not lie side by side:
/// one by one into registers, from there in vector copies.
fn computed(nest: &mut Nest, l: &DFor) -> Option<Vec<DStmt>> {
    let [DStmt::Store { buffer, indices, value, hint }] = l.body.as_slice() else { return None };
    if !nest.is_shared(buffer) || value.loads(buffer) {
        return None;
    }
    let dtype = nest.buffers.get(buffer)?.dtype;
    let via = nest.scratch(&format!("{buffer}_via"), dtype, l.extent.clone(), Scope::Local);
    let at = vec![index_var(&l.var)];
    let fill = |value: Expr| {
        let store = DStmt::store(via.clone(), at.clone(), value);
        vec![DStmt::For(DFor { kind: DKind::Unrolled, ..l.with_body(vec![store]) })]
    };
    // what makes several elements at once (`leaves`) has no condition inside
    let mut out = match one_condition(nest, l, value).filter(|_| l.tile.is_some()) {
        Some((Some(cond), then, otherwise)) => vec![DStmt::If { cond, then: fill(then), otherwise: fill(otherwise) }],
        Some((None, then, _)) => fill(then),
        None => fill(value.clone()),
    };
    let value = Expr::load(via, at, dtype);
    let then = DStmt::Store { buffer: buffer.clone(), indices: indices.clone(), value, hint: *hint };
    out.extend(as_copy(nest, &l.with_body(vec![then]))?);
    Some(out)
}

/// A loop that copies adjacent elements: each side with its index at `var = 0`.
struct CopyLoop {
    dst: (Name, Expr),
    src: (Name, Expr),
    len: i64,
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
        hint: *hint,
    })
}

/// The call of `copy` dispatched; `None` where no vector access carries it out.
fn vector_copy(nest: &mut Nest, dst: &(Name, Expr), src: &(Name, Expr), c: &CopyLoop) -> Option<Vec<DStmt>> {
    let tile = |(name, at): &(Name, Expr)| Tile { buffer: name.clone(), begin: vec![at.clone()], extent: vec![c.len] };
    let mut call = TileCall::new(TileOp::Copy, ExecScope::Thread, tile(dst), vec![TileArg::Tile(tile(src))]);
    if let Some(cache) = cache_name(c.hint) {
        call.config.insert("cache".into(), AttrValue::Str(cache.into()));
    }
    let known = nest.decisions.len();
    let body = nest.carry_out(&call, &[]).ok()?;
    let mut vector = false;
    body.iter().for_each(|s| s.visit(&mut |s| vector |= matches!(s, DStmt::Copy { .. })));
    if !vector {
        nest.decisions.truncate(known);
        return None;
    }
    Some(body)
}

fn cache_name(hint: CacheHint) -> Option<&'static str> {
    match hint {
        CacheHint::Plain => None,
        CacheHint::Streaming => Some("streaming"),
        CacheHint::NoAllocate => Some("no_allocate"),
        CacheHint::NoAllocate256 => Some("no_allocate_256"),
    }
}
