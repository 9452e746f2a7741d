//! Copies by the widest accesses that both sides allow.
//!
//! When: tiles of one type and shape. Between device and shared memory the threads of the scope take
//! turns, the widest of 16 bytes down to one element that is adjacent and aligned on both sides, in
//! permuted memory within what moves together; where elements are no multiple of that, the last turn
//! is guarded. With registers on one side each thread moves what the register layout gives it; there
//! an access to device memory is up to as wide as the target loads. Between registers each thread
//! moves its own, where both layouts give every element to the same threads.
//!
//! before: `Tx.cta.copy(A_smem[0:32, 0:8], A[0:32, 0:8])` of float32, 32 threads
//! after:  `unroll u < 2 { copy4 via[u * 4] <- A[u * 128 + threadIdx.x * 4] }`
//!         `unroll u < 2 { copy4 A_smem[u * 128 + threadIdx.x * 4] <- via[u * 4] }`
//!
//! Declines conversions, unequal shapes, tiles that may overlap, scopes that not all threads reach,
//! and registers whose layout does not share the tile out among exactly the threads of the scope.

use super::check::{self, hint_of};
use super::pair::{box_of, gather, spread};
use super::{Bundle, OPS, Pair, Side, Walk};
use crate::ir::device::{DFor, DKind, DStmt, guarded, index_var};
use crate::ir::kernel::CacheHint;
use crate::ir::{BinOp, Expr, Name, Scope, TileCall};
use crate::tile::predicates::ALL_THREADS;
use crate::tile::{Cx, Emit, Predicate, Variant, View};

/// Turns whose loads go before their stores.
const BATCH: i64 = 4;

pub(super) const VARIANT: Variant = Variant {
    name: "vec_auto",
    ops: OPS,
    priority: 10,
    only_forced: false,
    when: &[
        check::OPERANDS,
        check::DTYPE,
        check::SAME_SHAPE,
        check::OVERLAP,
        ALL_THREADS,
        check::CACHE,
        check::OPTIONS,
        PARTITION,
    ],
    emit,
};

/// Registers are shared out among exactly the threads of the scope.
pub(super) const PARTITION: Predicate = Predicate { name: "partition", check: partition };

fn partition(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let Pair { dst, src } = Pair::of(call, cx)?;
    match (dst.is_local(), src.is_local()) {
        (false, false) => Ok(()),
        (true, false) => Bundle::of(&dst, call.scope, cx).map(drop),
        (false, true) => Bundle::of(&src, call.scope, cx).map(drop),
        (true, true) => Bundle::of(&dst, call.scope, cx)?.same_threads(&Bundle::of(&src, call.scope, cx)?),
    }
}

pub(super) fn emit(call: &TileCall, e: &mut Emit) -> Vec<DStmt> {
    let pair = Pair::accepted(call, e);
    if pair.dst.is_empty() {
        return vec![];
    }
    let hint = check::hint(call).unwrap_or_default();
    match (pair.dst.is_local(), pair.src.is_local()) {
        (false, false) => through_memory(call, &pair, hint, e),
        (true, true) => between_registers(call, &pair, e),
        (true, false) | (false, true) => bundles(call, &pair, hint, e),
    }
}

/// The bundle of a tile that `partition` let through.
fn bundle(view: &View, call: &TileCall, e: &Emit) -> Bundle {
    let bundle = Bundle::of(view, call.scope, &e.cx());
    bundle.unwrap_or_else(|why| panic!("an accepted register tile is shared out: {why}"))
}

/// Each thread moves its bundle between registers and memory.
fn bundles(call: &TileCall, pair: &Pair, hint: CacheHint, e: &mut Emit) -> Vec<DStmt> {
    let Some((local, memory)) = pair.register_side() else { return vec![] };
    let bundle = bundle(local, call, e);
    let walk = bundle_walk(&bundle, memory, &e.cx());
    let hint = hint_of(memory, hint, pair.src.is_local());
    unrolled(e, walk.len() / walk.lanes, |e, u| {
        let cx = e.cx();
        let [register, place] = bundle_sides(&bundle, memory, &cx).map(|s| s.start(&walk, &u, cx.ranges));
        let (to, from) = if pair.dst.is_local() { (register, place) } else { (place, register) };
        vec![moved((&pair.dst.buffer, to), (&pair.src.buffer, from), memory, walk.lanes, hint)]
    })
}

/// How the elements of a bundle are visited.
fn bundle_walk(bundle: &Bundle, memory: &View, cx: &Cx) -> Walk {
    let [own, other] = bundle_sides(bundle, memory, cx);
    Walk::widest(bundle.extent(), &[&own, &other], cx.ranges)
}

/// Elements of the widest access that both sides allow; of registers alone, 1.
pub(super) fn lanes(call: &TileCall, cx: &Cx) -> Result<i64, String> {
    let pair = Pair::of(call, cx)?;
    check::same_shape(call, cx)?;
    match pair.register_side() {
        Some((local, memory)) => Ok(bundle_walk(&Bundle::of(local, call.scope, cx)?, memory, cx).lanes),
        None if pair.dst.is_local() => Ok(1),
        None => Ok(memory_walk(&pair, cx).lanes),
    }
}

/// Registers and memory over the elements of a bundle.
fn bundle_sides<'a>(bundle: &'a Bundle, memory: &'a View, cx: &'a Cx) -> [Side<'a>; 2] {
    let widest = i64::from(cx.target.max_load_bytes);
    let place = |i: &[Expr]| spread(&memory.extent, &gather(&bundle.view().extent, &bundle.coordinates(cx, i)));
    let (at, plain) = (|i: &[Expr]| bundle.register(i), |i: &[Expr]| bundle.register_unswizzled(i));
    let own = Side { at: Box::new(at), plain: Box::new(plain), ..Side::of(bundle.view(), widest, |i| i.to_vec()) };
    [own, Side::of(memory, widest, place)]
}

/// Each thread moves its bundle between registers.
fn between_registers(call: &TileCall, pair: &Pair, e: &mut Emit) -> Vec<DStmt> {
    let (to, from) = (bundle(&pair.dst, call, e), bundle(&pair.src, call, e));
    let walk = Walk::in_order(&box_of(to.extent()));
    unrolled(e, walk.len(), |e, u| {
        let index = walk.index(u);
        let [dst, src] = [&to, &from].map(|b| e.simple(b.register(&spread(b.extent(), &index))));
        vec![moved((&pair.dst.buffer, dst), (&pair.src.buffer, src), &pair.dst, 1, CacheHint::Plain)]
    })
}

/// The threads of the scope take turns.
fn through_memory(call: &TileCall, pair: &Pair, hint: CacheHint, e: &mut Emit) -> Vec<DStmt> {
    let walk = memory_walk(pair, &e.cx());
    let (threads, rank) = (e.cx().threads_in(call.scope), e.cx().rank(call.scope));
    let vectors = walk.len() / walk.lanes;
    let (turns, rest) = (vectors / threads, vectors % threads);
    let hints = [hint_of(&pair.dst, hint, true), hint_of(&pair.src, hint, false)];
    let plain = walk.lanes == 1 && hints == [CacheHint::Plain; 2];
    let together = if turns <= 2 * BATCH { turns } else { BATCH };
    let via = (!plain).then(|| {
        let len = together.max(1) * walk.lanes;
        e.scratch(&format!("{}_via", pair.dst.buffer), pair.dst.dtype, len, Scope::Local)
    });
    let mut turn = Turn { pair, walk: &walk, threads, rank: rank.clone(), hints, via };
    let mut out = vec![];
    if turns > together {
        let batches = turns / together;
        let var = e.loop_var("batch", batches);
        let body = turn.batch(e, index_var(&var) * Expr::i64(together), together);
        out.push(DStmt::For(DFor::new(var, Expr::i64(batches), DKind::Serial, body)));
    }
    let done = if turns > together { turns / together * together } else { 0 };
    out.extend(turn.batch(e, Expr::i64(done), turns - done));
    let last = turn.batch(e, Expr::i64(turns), i64::from(rest > 0));
    out.extend(guarded(Some(Expr::binary(BinOp::Lt, rank, Expr::i64(rest))), last));
    out
}

fn memory_walk(pair: &Pair, cx: &Cx) -> Walk {
    let [to, from] = memory_sides(pair, cx);
    Walk::widest(&box_of(&pair.dst.extent), &[&to, &from], cx.ranges)
}

fn memory_sides<'a>(pair: &'a Pair, cx: &Cx) -> [Side<'a>; 2] {
    // through registers, where wider than 16 bytes is no gain once the other side is shared memory
    let widest = i64::from(cx.target.max_load_bytes);
    [&pair.dst, &pair.src].map(|v| Side::of(v, widest, |i| spread(&v.extent, i)))
}

/// What one thread does in its turns.
struct Turn<'a> {
    pair: &'a Pair,
    walk: &'a Walk,
    threads: i64,
    rank: Expr,
    /// Of the store and of the load.
    hints: [CacheHint; 2],
    /// Registers on the way; none where elements are assigned one by one.
    via: Option<Name>,
}

impl Turn<'_> {
    /// `n` turns from `first` on: all loads, then all stores.
    fn batch(&mut self, e: &mut Emit, first: Expr, n: i64) -> Vec<DStmt> {
        if n == 0 {
            return vec![];
        }
        let Pair { dst, src } = self.pair;
        let Some(via) = self.via.clone() else {
            return unrolled(e, n, |e, u| {
                let [to, from] = self.places(e, first.clone() + u);
                vec![moved((&dst.buffer, to), (&src.buffer, from), dst, 1, CacheHint::Plain)]
            });
        };
        let lanes = self.walk.lanes;
        let slot = |e: &Emit, u: &Expr| e.simple(u.clone() * Expr::i64(lanes));
        let mut out = unrolled(e, n, |e, u| {
            let [_, from] = self.places(e, first.clone() + u.clone());
            vec![moved((&via, slot(e, &u)), (&src.buffer, from), src, lanes, self.hints[1])]
        });
        out.extend(unrolled(e, n, |e, u| {
            let [to, _] = self.places(e, first.clone() + u.clone());
            vec![moved((&dst.buffer, to), (&via, slot(e, &u)), dst, lanes, self.hints[0])]
        }));
        out
    }

    /// Where the elements of a turn go and come from.
    fn places(&self, e: &Emit, turn: Expr) -> [Expr; 2] {
        let cx = e.cx();
        let number = turn * Expr::i64(self.threads) + self.rank.clone();
        memory_sides(self.pair, &cx).map(|s| s.start(self.walk, &number, cx.ranges))
    }
}

/// One access per side, or an assignment where there is nothing to say about it.
fn moved((dst, to): (&Name, Expr), (src, from): (&Name, Expr), view: &View, lanes: i64, hint: CacheHint) -> DStmt {
    if lanes == 1 && hint == CacheHint::Plain {
        return DStmt::store(dst.clone(), vec![to], Expr::load(src.clone(), vec![from], view.dtype));
    }
    let (dst, src, lanes) = (dst.clone(), src.clone(), lanes as u32);
    DStmt::Copy { dst, dst_index: to, src, src_index: from, lanes, hint }
}

/// `steps` steps with a constant number each.
fn unrolled(e: &mut Emit, steps: i64, body: impl Fn(&Emit, Expr) -> Vec<DStmt>) -> Vec<DStmt> {
    if steps == 1 {
        return body(e, Expr::i64(0));
    }
    let var = e.loop_var("u", steps);
    let body = body(e, index_var(&var));
    vec![DStmt::For(DFor::new(var, Expr::i64(steps), DKind::Unrolled, body))]
}
