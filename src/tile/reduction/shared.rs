//! Reduction from shared memory to shared memory by groups of neighbouring threads.
//!
//! When: source and destination are different arrays in shared memory, of one type; the destination
//! has one element for each index that is not reduced.
//!
//! before: `Tx.cta.sum(B[0:4], A[0:4, 0:8], axes=(1,), accum=False)` by 32 threads
//! after:  `acc = A[thread / 8 * 8 + thread % 8]; for mask in 1, 2, 4 { acc = acc + shuffle_xor(acc,`
//!         `mask, width 8) }; if thread % 8 == 0 { B[thread / 8] = acc }; barrier`
//!
//! A group has `min(next power of two of the reduced length, 32, threads of the scope)` threads, or
//! the greatest smaller power of two that divides the number of threads, so that no group is cut. Each
//! thread takes every so many elements of the reduced axes, the group folds by shuffles, its first lane
//! stores, and the scope's barrier ends the call. Threads that have no element, or no output, take the
//! identity and shuffle along. At thread scope one thread does it all in order, without a barrier.
//! 16-bit floats are accumulated in float32 and rounded once.
//!
//! Declines by `storage_scope`, `dtype`, `all_threads`, `barrier` and `shape`.

use super::OPS;
use super::axes::Axes;
use super::combine::Combine;
use super::registers::{Slot, declared, shuffles};
use crate::ir::device::{DFor, DKind, DStmt, and, guarded, index_var};
use crate::ir::{BinOp, ExecScope, Expr, ExprKind, TileCall};
use crate::tile::predicates::{ALL_THREADS, all_shared, one_numeric_dtype};
use crate::tile::sync::{can_meet, meet};
use crate::tile::view::unravel;
use crate::tile::{Cx, Emit, Predicate, Variant, View, WARP};

/// Steps of a loop that are unrolled.
const UNROLLED: i64 = 8;

pub(super) const VARIANT: Variant = Variant {
    name: "shared",
    ops: OPS,
    priority: 10,
    only_forced: false,
    when: &[
        Predicate { name: "storage_scope", check: all_shared },
        Predicate { name: "dtype", check: one_numeric_dtype },
        ALL_THREADS,
        Predicate { name: "barrier", check: can_meet },
        Predicate { name: "shape", check: shape },
    ],
    emit,
};

/// That axes exist and the destination has the size that is left.
fn shape(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let (src, dst) = (cx.arg(call, 0)?, cx.view(&call.dst)?);
    if src.buffer == dst.buffer {
        return Err(format!("source and destination are both in `{}`", src.buffer));
    }
    let left: i64 = Axes::split(call, &src.extent)?.kept_of(&src.extent).iter().product();
    if left == dst.len() {
        return Ok(());
    }
    Err(format!("the source leaves {left} values after reduction, but the destination has {}", dst.len()))
}

/// The source seen as `[outputs, length]`.
struct Rows {
    src: View,
    dst: View,
    axes: Axes,
    combine: Combine,
    /// Extents that are kept, and reduced.
    kept: Vec<i64>,
    reduced: Vec<i64>,
}

impl Rows {
    fn of(call: &TileCall, emit: &Emit) -> Rows {
        let (src, dst) = (emit.arg(call, 0), emit.view(&call.dst));
        let axes = Axes::split(call, &src.extent).unwrap_or_else(|why| panic!("`shared` accepted the call: {why}"));
        let (kept, reduced) = (axes.kept_of(&src.extent), axes.reduced_of(&src.extent));
        Rows { combine: Combine::of(call.op, dst.dtype), src, dst, axes, kept, reduced }
    }

    fn outputs(&self) -> i64 {
        self.kept.iter().product()
    }

    fn length(&self) -> i64 {
        self.reduced.iter().product()
    }

    fn load(&self, emit: &Emit, output: &Expr, element: Expr) -> Expr {
        let kept = unravel(output.clone(), &self.kept);
        let index = self.axes.src_index(&kept, &unravel(element, &self.reduced));
        let at = emit.simple(self.src.at(&index));
        Expr::cast(self.combine.acc, Expr::load(self.src.buffer.clone(), vec![at], self.src.dtype))
    }

    fn store(&self, emit: &Emit, call: &TileCall, output: &Expr, acc: &Slot) -> DStmt {
        let at = vec![emit.simple(self.dst.at_linear(output.clone()))];
        let old = Expr::load(self.dst.buffer.clone(), at.clone(), self.dst.dtype);
        let old = Expr::cast(self.combine.acc, old);
        let value = if call.accum { self.combine.apply(old, acc.get()) } else { acc.get() };
        DStmt::store(self.dst.buffer.clone(), at, Expr::cast(self.dst.dtype, value))
    }
}

/// Threads of a group: a power of two that divides the threads of the scope.
fn group_size(length: i64, threads: i64) -> i64 {
    let wanted = (length.max(1) as u64).next_power_of_two() as i64;
    wanted.min(WARP).min(1 << threads.trailing_zeros())
}

fn emit(call: &TileCall, emit: &mut Emit) -> Vec<DStmt> {
    let rows = Rows::of(call, emit);
    let threads = emit.cx().threads_in(call.scope);
    let size = group_size(rows.length(), threads);
    let groups = threads / size;
    let rank = emit.cx().rank(call.scope);
    let lane = emit.simple(Expr::binary(BinOp::FloorMod, rank.clone(), Expr::i64(size)));
    let group = Expr::binary(BinOp::FloorDiv, rank, Expr::i64(size));
    let steps = (rows.outputs() + groups - 1) / groups;
    let mut out = steps_of(emit, "spa", steps, |emit, step| {
        let output = emit.simple(step * Expr::i64(groups) + group);
        let ragged = rows.outputs() % groups != 0;
        let have = ragged.then(|| Expr::binary(BinOp::Lt, output.clone(), Expr::i64(rows.outputs())));
        let acc = Slot::Var(emit.fresh(&format!("{}_acc", rows.dst.buffer)), rows.combine.acc);
        let mut body = declared(&acc, gather(&rows, emit, &acc, &output, &lane, size, have.as_ref()));
        let masks: Vec<u32> = (0..size.trailing_zeros()).map(|k| 1 << k).collect();
        body.extend(shuffles(emit, &rows.dst.buffer, rows.combine, &acc, &masks, size as u32));
        let first = (size > 1).then(|| Expr::binary(BinOp::Eq, lane.clone(), Expr::i64(0)));
        body.extend(guarded(and(first, have), vec![rows.store(emit, call, &output, &acc)]));
        body
    });
    if call.scope != ExecScope::Thread {
        out.extend(meet(call.scope, &emit.cx()));
    }
    out
}

/// Sets `acc` to what this thread takes of an output: every `size`-th element from its lane on.
fn gather(
    rows: &Rows,
    emit: &mut Emit,
    acc: &Slot,
    output: &Expr,
    lane: &Expr,
    size: i64,
    have: Option<&Expr>,
) -> Vec<DStmt> {
    let length = rows.length();
    let steps = (length + size - 1) / size;
    let guard = |emit: &Emit, at: &Expr, ragged: bool| {
        let inside = ragged.then(|| Expr::binary(BinOp::Lt, at.clone(), Expr::i64(length)));
        and(have.cloned(), inside).map(|c| emit.simple(c))
    };
    if steps == 1 {
        let load = rows.load(emit, output, lane.clone());
        let identity = rows.combine.identity();
        let value = match guard(emit, lane, length % size != 0) {
            None => load,
            Some(cond) => Expr::new(ExprKind::IfThenElse { cond, then: load, otherwise: identity }),
        };
        return vec![acc.set(value)];
    }
    // the last round of unrolled steps may go beyond the end
    let rounds = if steps > 2 * UNROLLED { (steps + UNROLLED - 1) / UNROLLED * UNROLLED } else { steps };
    let mut out = vec![acc.set(rows.combine.identity())];
    out.extend(steps_of(emit, "red", rounds, |emit, step| {
        let at = emit.simple(step * Expr::i64(size) + lane.clone());
        let add = acc.set(rows.combine.apply(acc.get(), rows.load(emit, output, at.clone())));
        guarded(guard(emit, &at, rounds * size != length), vec![add])
    }));
    out
}

/// A loop over `steps`: none for one step, unrolled while short, else in rounds of unrolled steps
/// where `steps` divides, and plain where not.
fn steps_of(emit: &mut Emit, stem: &str, steps: i64, body: impl FnOnce(&mut Emit, Expr) -> Vec<DStmt>) -> Vec<DStmt> {
    if steps == 1 {
        return body(emit, Expr::i64(0));
    }
    if steps > 2 * UNROLLED && steps % UNROLLED == 0 {
        let (outer, inner) = (emit.loop_var(stem, steps / UNROLLED), emit.loop_var(stem, UNROLLED));
        let body = body(emit, index_var(&outer) * Expr::i64(UNROLLED) + index_var(&inner));
        let inner = DStmt::For(DFor::new(inner, Expr::i64(UNROLLED), DKind::Unrolled, body));
        return vec![DStmt::For(DFor::new(outer, Expr::i64(steps / UNROLLED), DKind::Serial, vec![inner]))];
    }
    let var = emit.loop_var(stem, steps);
    let kind = if steps <= 2 * UNROLLED { DKind::Unrolled } else { DKind::Serial };
    let body = body(emit, index_var(&var));
    vec![DStmt::For(DFor::new(var, Expr::i64(steps), kind, body))]
}
