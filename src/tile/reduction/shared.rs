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
use crate::ir::device::{DKind, DStmt, and, guarded};
use crate::ir::{BinOp, ExecScope, Expr, ExprKind, TileCall};
use crate::tile::predicates::{all_shared, all_threads, one_dtype};
use crate::tile::sync::{can_meet, meet};
use crate::tile::view::unravel;
use crate::tile::{Cx, Emit, Plan, Refusals, Variant, View, WARP};

/// Steps of a loop that are unrolled.
const UNROLLED: i64 = 8;

pub(super) const VARIANT: Variant = Variant { name: "shared", ops: OPS, priority: 10, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    r.ask("storage_scope", all_shared(call, cx));
    let combine = r.ask("dtype", one_dtype(call, cx).and_then(|t| Combine::of(call.op, t)));
    all_threads(call, cx, r);
    can_meet(call, cx, r);
    let rows = r.ask("shape", Rows::of(call, cx));
    let rows = Reduction { rows: rows?, combine: combine?, accum: call.accum, scope: call.scope };
    Some(Box::new(move |e| rows.emit(e)))
}

/// The source seen as `[outputs, length]`.
struct Rows {
    src: View,
    dst: View,
    axes: Axes,
    /// Extents that are kept, and reduced.
    kept: Vec<i64>,
    reduced: Vec<i64>,
}

impl Rows {
    /// What a call reduces.
    ///
    /// # Errors
    /// Where axes do not exist or the destination has another size than is left.
    fn of(call: &TileCall, cx: &Cx) -> Result<Rows, String> {
        let (src, dst) = (cx.arg(call, 0)?, cx.view(&call.dst)?);
        if src.buffer == dst.buffer {
            return Err(format!("source and destination are both in `{}`", src.buffer));
        }
        let axes = Axes::split(call, &src.extent)?;
        let (kept, reduced) = (axes.kept_of(&src.extent), axes.reduced_of(&src.extent));
        let left: i64 = kept.iter().product();
        if left == dst.len() {
            return Ok(Rows { src, dst, axes, kept, reduced });
        }
        Err(format!("the source leaves {left} values after reduction, but the destination has {}", dst.len()))
    }

    fn outputs(&self) -> i64 {
        self.kept.iter().product()
    }

    fn length(&self) -> i64 {
        self.reduced.iter().product()
    }
}

/// Threads of a group: a power of two that divides the threads of the scope.
fn group_size(length: i64, threads: i64) -> i64 {
    let wanted = (length.max(1) as u64).next_power_of_two() as i64;
    wanted.min(WARP).min(1 << threads.trailing_zeros())
}

/// A reduction of rows.
struct Reduction {
    rows: Rows,
    combine: Combine,
    accum: bool,
    scope: ExecScope,
}

impl Reduction {
    fn emit(&self, emit: &mut Emit) -> Vec<DStmt> {
        let (rows, combine) = (&self.rows, &self.combine);
        let threads = emit.cx().threads_in(self.scope);
        let size = group_size(rows.length(), threads);
        let groups = threads / size;
        let rank = emit.cx().rank(self.scope);
        let lane = emit.simple(Expr::binary(BinOp::FloorMod, rank.clone(), Expr::i64(size)));
        let group = Expr::binary(BinOp::FloorDiv, rank, Expr::i64(size));
        let steps = (rows.outputs() + groups - 1) / groups;
        let mut out = steps_of(emit, "spa", steps, |emit, step| {
            let output = emit.simple(step * Expr::i64(groups) + group);
            let ragged = rows.outputs() % groups != 0;
            let have = ragged.then(|| Expr::binary(BinOp::Lt, output.clone(), Expr::i64(rows.outputs())));
            let acc = Slot::Var(emit.fresh(&format!("{}_acc", rows.dst.buffer)), combine.acc);
            let mut body = declared(&acc, self.gather(emit, &acc, &output, &lane, size, have.as_ref()));
            let masks: Vec<u32> = (0..size.trailing_zeros()).map(|k| 1 << k).collect();
            body.extend(shuffles(emit, &rows.dst.buffer, combine, &acc, &masks, size as u32));
            let first = (size > 1).then(|| Expr::binary(BinOp::Eq, lane.clone(), Expr::i64(0)));
            body.extend(guarded(and(first, have), vec![self.store(emit, &output, &acc)]));
            body
        });
        out.extend(meet(self.scope, &emit.cx()));
        out
    }

    fn load(&self, emit: &Emit, output: &Expr, element: Expr) -> Expr {
        let Rows { src, axes, kept, reduced, .. } = &self.rows;
        let index = axes.src_index(&unravel(output.clone(), kept), &unravel(element, reduced));
        Expr::cast(self.combine.acc, src.load(emit.simple(src.at(&index))))
    }

    fn store(&self, emit: &Emit, output: &Expr, acc: &Slot) -> DStmt {
        let dst = &self.rows.dst;
        let at = emit.simple(dst.at_linear(output.clone()));
        let old = Expr::cast(self.combine.acc, dst.load(at.clone()));
        let value = if self.accum { self.combine.apply(old, acc.get()) } else { acc.get() };
        dst.store(at, Expr::cast(dst.dtype, value))
    }

    /// Sets `acc` to what this thread takes of an output: every `size`-th element from its lane on.
    fn gather(
        &self,
        emit: &mut Emit,
        acc: &Slot,
        output: &Expr,
        lane: &Expr,
        size: i64,
        have: Option<&Expr>,
    ) -> Vec<DStmt> {
        let length = self.rows.length();
        let steps = (length + size - 1) / size;
        let guard = |emit: &Emit, at: &Expr, ragged: bool| {
            let inside = ragged.then(|| Expr::binary(BinOp::Lt, at.clone(), Expr::i64(length)));
            and(have.cloned(), inside).map(|c| emit.simple(c))
        };
        let identity = self.combine.identity.clone();
        if steps == 1 {
            let load = self.load(emit, output, lane.clone());
            let value = match guard(emit, lane, length % size != 0) {
                None => load,
                Some(cond) => Expr::new(ExprKind::IfThenElse { cond, then: load, otherwise: identity }),
            };
            return vec![acc.set(value)];
        }
        // the last round of unrolled steps may go beyond the end
        let rounds = if steps > 2 * UNROLLED { (steps + UNROLLED - 1) / UNROLLED * UNROLLED } else { steps };
        let mut out = vec![acc.set(identity)];
        out.extend(steps_of(emit, "red", rounds, |emit, step| {
            let at = emit.simple(step * Expr::i64(size) + lane.clone());
            let add = acc.set(self.combine.apply(acc.get(), self.load(emit, output, at.clone())));
            guarded(guard(emit, &at, rounds * size != length), vec![add])
        }));
        out
    }
}

/// A loop over `steps`: none for one step, unrolled while short, else in rounds of unrolled steps
/// where `steps` divides, and plain where not.
fn steps_of(emit: &mut Emit, stem: &str, steps: i64, body: impl FnOnce(&mut Emit, Expr) -> Vec<DStmt>) -> Vec<DStmt> {
    if steps > 2 * UNROLLED && steps % UNROLLED == 0 {
        return vec![emit.repeat(stem, steps / UNROLLED, DKind::Serial, |emit, outer| {
            let step = |emit: &mut Emit, inner| body(emit, outer * Expr::i64(UNROLLED) + inner);
            vec![emit.repeat(stem, UNROLLED, DKind::Unrolled, step)]
        })];
    }
    emit.steps(stem, steps, if steps <= 2 * UNROLLED { DKind::Unrolled } else { DKind::Serial }, body)
}
