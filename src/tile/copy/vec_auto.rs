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
use crate::ir::device::{DKind, DStmt, guarded};
use crate::ir::kernel::CacheHint;
use crate::ir::{BinOp, DType, ExecScope, Expr, Name, Scope, TileCall};
use crate::tile::predicates::all_threads;
use crate::tile::{Cx, Emit, Plan, Refusals, Variant, View};

/// Turns whose loads go before their stores.
const BATCH: i64 = 4;

pub(super) const VARIANT: Variant = Variant { name: "vec_auto", ops: OPS, priority: 10, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let pair = check::pair(call, cx, r);
    check::overlap(call, r);
    all_threads(call, cx, r);
    let hint = check::cache_options(call, r);
    let how = How::ask(&pair, call, cx, r);
    Some(Move { pair: pair.ok()?, how: how.ok()?, hint: hint?, scope: call.scope }.plan())
}

/// Who moves what.
#[allow(clippy::large_enum_variant)] // one is made at a time
pub(super) enum How {
    /// The threads of the scope take turns.
    Memory,
    /// Each thread moves its bundle between registers and memory.
    Bundle(Bundle),
    /// Each thread moves its bundle between registers, to and from these.
    Registers(Bundle, Bundle),
}

impl How {
    /// Asks whether registers are shared out among exactly the threads of the scope.
    pub fn ask(pair: &Result<Pair, String>, call: &TileCall, cx: &Cx, r: &mut Refusals) -> Result<How, String> {
        let of = |pair: &Pair| How::of(pair, call.scope, cx);
        let how = pair.as_ref().map_err(String::clone).and_then(of);
        r.ask_of("partition", &how, |_| Ok(()));
        how
    }

    fn of(Pair { dst, src }: &Pair, scope: ExecScope, cx: &Cx) -> Result<How, String> {
        match (dst.is_local(), src.is_local()) {
            (false, false) => Ok(How::Memory),
            (true, false) => Bundle::of(dst, scope, cx).map(How::Bundle),
            (false, true) => Bundle::of(src, scope, cx).map(How::Bundle),
            (true, true) => {
                let (to, from) = (Bundle::of(dst, scope, cx)?, Bundle::of(src, scope, cx)?);
                to.same_threads(&from).map(|()| How::Registers(to, from))
            }
        }
    }

    /// Elements of the widest access that both sides allow; of registers alone, 1.
    pub fn lanes(how: &Result<How, String>, pair: &Pair, cx: &Cx) -> Result<i64, String> {
        match how {
            _ if pair.dst.is_local() && pair.src.is_local() => Ok(1),
            Ok(How::Memory) => Ok(pair.widest_walk(widest(cx), cx).lanes),
            Ok(How::Bundle(bundle)) => Ok(bundle_walk(bundle, pair.memory(), cx).lanes),
            Ok(How::Registers(..)) => Ok(1),
            Err(why) => Err(why.clone()),
        }
    }
}

/// A copy by the widest accesses.
pub(super) struct Move {
    pub pair: Pair,
    pub how: How,
    pub hint: CacheHint,
    pub scope: ExecScope,
}

impl Move {
    /// The plan that is this.
    pub fn plan(self) -> Plan {
        Box::new(move |e| match &self.how {
            _ if self.pair.dst.is_empty() => vec![],
            How::Memory => self.through_memory(e),
            How::Bundle(bundle) => self.bundle(bundle, e),
            How::Registers(to, from) => self.between_registers(to, from, e),
        })
    }

    fn bundle(&self, bundle: &Bundle, e: &mut Emit) -> Vec<DStmt> {
        let Move { pair, hint, .. } = self;
        let memory = pair.memory();
        let walk = bundle_walk(bundle, memory, &e.cx());
        let hint = hint_of(memory, *hint, pair.src.is_local());
        unrolled(e, walk.len() / walk.lanes, |e, u| {
            let cx = e.cx();
            let [register, place] = bundle_sides(bundle, memory, &cx).map(|s| s.start(&walk, &u, cx.ranges));
            let (to, from) = if pair.dst.is_local() { (register, place) } else { (place, register) };
            vec![moved((&pair.dst.buffer, to), (&pair.src.buffer, from), memory.dtype, walk.lanes, hint)]
        })
    }

    fn between_registers(&self, to: &Bundle, from: &Bundle, e: &mut Emit) -> Vec<DStmt> {
        let Pair { dst, src } = &self.pair;
        let walk = Walk::in_order(&box_of(&to.part.shape));
        unrolled(e, walk.len(), |e, u| {
            let index = walk.index(u);
            let [to, from] = [to, from].map(|b| e.simple(b.part.at(&spread(&b.part.shape, &index))));
            vec![dst.store(to, src.load(from))]
        })
    }

    fn through_memory(&self, e: &mut Emit) -> Vec<DStmt> {
        let Move { pair, hint, scope, .. } = self;
        let walk = pair.widest_walk(widest(&e.cx()), &e.cx());
        let (threads, rank) = (e.cx().threads_in(*scope), e.cx().rank(*scope));
        let vectors = walk.len() / walk.lanes;
        let (turns, rest) = (vectors / threads, vectors % threads);
        let hints = [hint_of(&pair.dst, *hint, true), hint_of(&pair.src, *hint, false)];
        let plain = walk.lanes == 1 && hints == [CacheHint::Plain; 2];
        let together = if turns <= 2 * BATCH { turns } else { BATCH };
        let via = (!plain).then(|| {
            let len = together.max(1) * walk.lanes;
            e.scratch(&format!("{}_via", pair.dst.buffer), pair.dst.dtype, len, Scope::Local)
        });
        let turn = Turn { pair, walk: &walk, threads, rank: rank.clone(), hints, via };
        let (mut out, mut done) = (vec![], 0);
        if turns > together {
            done = turns / together * together;
            out.push(e.repeat("batch", turns / together, DKind::Serial, |e, batch| {
                turn.batch(e, batch * Expr::i64(together), together)
            }));
        }
        out.extend(turn.batch(e, Expr::i64(done), turns - done));
        let last = turn.batch(e, Expr::i64(turns), i64::from(rest > 0));
        out.extend(guarded(Some(Expr::binary(BinOp::Lt, rank, Expr::i64(rest))), last));
        out
    }
}

/// How the elements of a bundle are visited.
fn bundle_walk(bundle: &Bundle, memory: &View, cx: &Cx) -> Walk {
    let [own, other] = bundle_sides(bundle, memory, cx);
    Walk::widest(&bundle.part.shape, &[&own, &other], cx.ranges)
}

/// Registers and memory over the elements of a bundle.
fn bundle_sides<'a>(bundle: &'a Bundle, memory: &'a View, cx: &Cx) -> [Side<'a>; 2] {
    let (widest, view) = (widest(cx), &bundle.part.view);
    let place = |i: &[Expr]| spread(&memory.extent, &gather(&view.extent, &bundle.places.of(i)));
    let (at, plain) = (|i: &[Expr]| bundle.part.at(i), |i: &[Expr]| bundle.register_unswizzled(i));
    let own = Side { at: Box::new(at), plain: Box::new(plain), ..Side::of(view, widest, |i| i.to_vec()) };
    [own, Side::of(memory, widest, place)]
}

/// Bytes of the widest access to device memory and registers.
fn widest(cx: &Cx) -> i64 {
    i64::from(cx.target.max_load_bytes)
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
    fn batch(&self, e: &mut Emit, first: Expr, n: i64) -> Vec<DStmt> {
        if n == 0 {
            return vec![];
        }
        let Pair { dst, src } = self.pair;
        let Some(via) = self.via.clone() else {
            return unrolled(e, n, |e, u| {
                let [to, from] = self.places(e, first.clone() + u);
                vec![moved((&dst.buffer, to), (&src.buffer, from), dst.dtype, 1, CacheHint::Plain)]
            });
        };
        let lanes = self.walk.lanes;
        let slot = |e: &Emit, u: &Expr| e.simple(u.clone() * Expr::i64(lanes));
        let mut out = unrolled(e, n, |e, u| {
            let [_, from] = self.places(e, first.clone() + u.clone());
            vec![moved((&via, slot(e, &u)), (&src.buffer, from), src.dtype, lanes, self.hints[1])]
        });
        out.extend(unrolled(e, n, |e, u| {
            let [to, _] = self.places(e, first.clone() + u.clone());
            vec![moved((&dst.buffer, to), (&via, slot(e, &u)), dst.dtype, lanes, self.hints[0])]
        }));
        out
    }

    /// Where the elements of a turn go and come from.
    fn places(&self, e: &Emit, turn: Expr) -> [Expr; 2] {
        let cx = e.cx();
        let number = turn * Expr::i64(self.threads) + self.rank.clone();
        self.pair.over_box(widest(&cx)).map(|s| s.start(self.walk, &number, cx.ranges))
    }
}

/// One access per side, or an assignment where there is nothing to say about it.
pub(crate) fn moved(
    (dst, to): (&Name, Expr),
    (src, from): (&Name, Expr),
    dtype: DType,
    lanes: i64,
    hint: CacheHint,
) -> DStmt {
    if lanes == 1 && hint == CacheHint::Plain {
        return DStmt::store(dst.clone(), vec![to], Expr::load(src.clone(), vec![from], dtype));
    }
    let (dst, src, lanes) = (dst.clone(), src.clone(), lanes as u32);
    DStmt::Copy { dst, dst_index: to, src, src_index: from, lanes, hint }
}

/// `n` unrolled steps.
fn unrolled(e: &mut Emit, n: i64, body: impl FnOnce(&mut Emit, Expr) -> Vec<DStmt>) -> Vec<DStmt> {
    e.steps("u", n, DKind::Unrolled, body)
}
