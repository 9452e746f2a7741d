//! Reductions between registers: which elements and which threads come together. Shared by `local`,
//! `cross_warp` and `staged`, which differ in how threads exchange partial results.

use super::axes::Axes;
use super::combine::Combine;
use crate::analysis::accumulator;
use crate::ir::device::DStmt;
use crate::ir::kernel::ShuffleMode;
use crate::ir::layout::{Axis, Iter};
use crate::ir::{BinOp, DType, ExecScope, Expr, ExprKind, Name, TileCall};
use crate::tile::loops::Loops;
use crate::tile::predicates::{all_local, all_threads, one_dtype, scope_in};
use crate::tile::{Cx, Emit, Part, Refusals, WARP};

/// The registers of a reduction, and who holds them.
pub(super) struct Shares {
    pub src: Part,
    pub dst: Part,
    axes: Axes,
    /// The threads that reduce together, as iters over the thread number, nearest neighbours first.
    pub threads: Vec<Iter>,
    /// True where all of them receive the result, false where only the first does.
    pub to_all: bool,
}

/// A reduction between registers.
pub(super) struct Registers {
    pub shares: Shares,
    pub combine: Combine,
    /// The old destination is one more operand.
    pub accum: bool,
}

/// A value that is assigned step by step: a register element or a variable.
#[derive(Clone)]
pub(super) enum Slot {
    Element(Name, Expr, DType),
    Var(Name, DType),
}

impl Slot {
    pub fn get(&self) -> Expr {
        match self {
            Slot::Element(array, at, dtype) => Expr::load(array.clone(), vec![at.clone()], *dtype),
            Slot::Var(name, dtype) => Expr::var(name.clone(), *dtype),
        }
    }

    pub fn set(&self, value: Expr) -> DStmt {
        match self {
            Slot::Element(array, at, _) => DStmt::store(array.clone(), vec![at.clone()], value),
            Slot::Var(name, _) => DStmt::Assign { var: name.clone(), value },
        }
    }
}

impl Shares {
    /// What a call reduces.
    ///
    /// # Errors
    /// Where shapes, layouts or buffers do not go together.
    fn of(call: &TileCall, cx: &Cx) -> Result<Shares, String> {
        let (src, dst) = (cx.arg(call, 0)?, cx.view(&call.dst)?);
        if src.buffer == dst.buffer {
            return Err(format!("source and destination are both in `{}`", src.buffer));
        }
        let axes = Axes::of(call, &src.extent, &dst.extent)?;
        let (src, dst) = (Part::of(&src, cx.ranges)?, Part::of(&dst, cx.ranges)?);
        src.covers(call.scope, cx)?;
        src.fits_registers()?;
        dst.fits_registers()?;
        let (threads, to_all) = match_threads(&src, &dst, &axes, src.threads(call.scope, cx))?;
        Ok(Shares { src, dst, axes, threads, to_all })
    }

    /// Number of threads that reduce together.
    pub fn group(&self) -> i64 {
        self.threads.iter().map(|it| it.extent).product()
    }

    /// Elements of the destination that each thread holds.
    pub fn values(&self) -> i64 {
        self.kept().iter().product()
    }

    fn kept(&self) -> Vec<i64> {
        self.axes.kept_of(&self.src.shape)
    }

    /// Asks whether partial results fit into shared memory: `slots` of them for each element of a thread.
    pub fn ask_stage(shares: &Result<Shares, String>, slots: i64, cx: &Cx, r: &mut Refusals) {
        r.ask_if("scratch", shares.as_ref().ok(), |s| {
            let bytes = slots * s.values() * accumulator(s.dst.view.dtype).bytes() as i64;
            let most = i64::from(cx.target.smem_per_block);
            if bytes <= most {
                return Ok(());
            }
            Err(format!("partial results take {bytes} bytes of shared memory, {} allows {most}", cx.target.id))
        });
    }
}

/// What all variants between registers ask first: shapes, layouts and threads go together; those `of_block`
/// are carried out by all threads of the block. The layouts say nothing of calls that `storage_scope`
/// refuses.
pub(super) fn ask(
    call: &TileCall,
    cx: &Cx,
    r: &mut Refusals,
    of_block: bool,
) -> (Result<Shares, String>, Option<Combine>) {
    let local = r.ask("storage_scope", all_local(call, cx));
    let combine = r.ask("dtype", one_dtype(call, cx).and_then(|t| Combine::of(call.op, t)));
    if of_block {
        scope_in(call, &[ExecScope::Cta], r);
    }
    all_threads(call, cx, r);
    let shares = Shares::of(call, cx);
    r.ask_if("layout", local, |()| shares.as_ref().map(drop).map_err(String::clone));
    (shares, combine)
}

impl Registers {
    /// Unrolled loops over the thread's elements of the destination; `body` gets the indices and the
    /// number of the element.
    pub fn for_each_value(
        &self,
        emit: &mut Emit,
        body: impl FnOnce(&mut Emit, &[Expr], Expr) -> Vec<DStmt>,
    ) -> Vec<DStmt> {
        let shape = self.shares.kept();
        let (loops, index) = Loops::over(emit, "spa", &shape);
        let number = shape.iter().zip(&index).fold(Expr::i64(0), |at, (n, i)| at * Expr::i64(*n) + i.clone());
        let number = emit.simple(number);
        let body = body(emit, &index, number);
        loops.around(body)
    }

    /// The element of the destination at these indices along kept dimensions.
    pub fn result(&self, emit: &Emit, kept: &[Expr]) -> Slot {
        let at = emit.simple(self.shares.dst.at(&self.shares.axes.dst_index(kept)));
        Slot::Element(self.shares.dst.view.buffer.clone(), at, self.shares.dst.view.dtype)
    }

    /// Sets `acc` to what the thread itself has of an element, on top of what `acc` holds if
    /// `onto`.
    pub fn own(&self, emit: &mut Emit, kept: &[Expr], acc: &Slot, onto: bool) -> Vec<DStmt> {
        let shape = self.shares.axes.reduced_of(&self.shares.src.shape);
        let (loops, reduced) = Loops::over(emit, "red", &shape);
        let at = emit.simple(self.shares.src.at(&self.shares.axes.src_index(kept, &reduced)));
        let term = Expr::cast(self.combine.acc, self.shares.src.view.load(at));
        if loops.is_empty() && !onto {
            return vec![acc.set(term)];
        }
        let mut out = if onto { vec![] } else { vec![acc.set(self.combine.identity.clone())] };
        out.extend(loops.around(vec![acc.set(self.combine.apply(acc.get(), term))]));
        out
    }

    /// A variable for partial results, to be declared by [`declared`].
    pub fn variable(&self, emit: &mut Emit, what: &str) -> Slot {
        Slot::Var(emit.fresh(&format!("{}_{what}", self.shares.dst.view.buffer)), self.combine.acc)
    }

    /// Combines `acc` over lanes: xor shuffles with these masks, within segments of `width` lanes.
    pub fn shuffles(&self, emit: &mut Emit, acc: &Slot, masks: &[u32], width: u32) -> Vec<DStmt> {
        shuffles(emit, &self.shares.dst.view.buffer, &self.combine, acc, masks, width)
    }

    /// Writes a total to the destination, the old value of which counts as one more operand where
    /// the call accumulates.
    pub fn finish(&self, emit: &Emit, kept: &[Expr], total: Expr) -> DStmt {
        let slot = self.result(emit, kept);
        let value = if self.accum { self.combine.apply(self.old(emit, &slot), total) } else { total };
        slot.set(Expr::cast(self.shares.dst.view.dtype, value))
    }

    /// What the destination holds before, the identity in threads that hold none of it.
    pub fn old(&self, emit: &Emit, slot: &Slot) -> Expr {
        let old = Expr::cast(self.combine.acc, slot.get());
        if self.shares.to_all {
            return old;
        }
        let cond = Expr::binary(BinOp::Eq, self.member(emit), Expr::i64(0));
        Expr::new(ExprKind::IfThenElse { cond, then: old, otherwise: self.combine.identity.clone() })
    }

    /// The number of the thread among those that reduce together.
    pub fn member(&self, emit: &Emit) -> Expr {
        let mut weight = 1;
        let mut sum = Expr::i64(0);
        for it in &self.shares.threads {
            sum = sum + digit(&emit.cx().thread(), *it) * Expr::i64(weight);
            weight *= it.extent;
        }
        emit.simple(sum)
    }

    /// The number of the thread's group among the groups of a block of `threads`, and how many there
    /// are.
    pub fn group_number(&self, emit: &Emit, threads: i64) -> (Expr, i64) {
        let (mut weight, mut below) = (1, 1);
        let mut sum = Expr::i64(0);
        let top = Iter::new(1, threads, Axis::Tx);
        for it in self.shares.threads.iter().chain([&top]) {
            let gap = Iter::new(it.stride / below, below, Axis::Tx);
            sum = sum + digit(&emit.cx().thread(), gap) * Expr::i64(weight);
            weight *= gap.extent;
            below = it.stride * it.extent;
        }
        (emit.simple(sum), weight)
    }
}

/// Statements of which the first sets a variable, with its declaration.
pub(super) fn declared(slot: &Slot, mut body: Vec<DStmt>) -> Vec<DStmt> {
    let Slot::Var(name, dtype) = slot else { return body };
    match body.first_mut() {
        Some(DStmt::Assign { var, value }) if var == name => {
            let init = Some(value.clone());
            body[0] = DStmt::Var { var: name.clone(), dtype: *dtype, init };
        }
        _ => body.insert(0, DStmt::Var { var: name.clone(), dtype: *dtype, init: None }),
    }
    body
}

/// See [`Registers::shuffles`].
pub(super) fn shuffles(
    emit: &mut Emit,
    stem: &Name,
    combine: &Combine,
    acc: &Slot,
    masks: &[u32],
    width: u32,
) -> Vec<DStmt> {
    if masks.is_empty() {
        return vec![];
    }
    let other = emit.fresh(&format!("{stem}_other"));
    let mut out = vec![DStmt::Var { var: other.clone(), dtype: combine.acc, init: None }];
    for mask in masks {
        let mode = ShuffleMode::Xor(*mask);
        out.push(DStmt::Shuffle { dst: other.clone(), mode, value: acc.get(), width });
        out.push(acc.set(combine.apply(acc.get(), Expr::var(other.clone(), combine.acc))));
    }
    out
}

/// The masks of a butterfly over lanes, greatest first; `None` where the threads are not lanes of
/// one warp, or not a power of two of them.
pub(super) fn lane_masks(threads: &[Iter]) -> Option<Vec<u32>> {
    let mut masks = vec![];
    for it in threads {
        let power = |n: i64| n.count_ones() == 1;
        if !power(it.extent) || !power(it.stride) || it.stride * it.extent > WARP {
            return None;
        }
        masks.extend((0..it.extent.trailing_zeros()).map(|k| (it.stride << k) as u32));
    }
    masks.sort_unstable_by(|a, b| b.cmp(a));
    Some(masks)
}

/// The threads that reduce together, nearest first, and whether all of them hold the destination;
/// `among` threads share the source out.
fn match_threads(src: &Part, dst: &Part, axes: &Axes, among: i64) -> Result<(Vec<Iter>, bool), String> {
    let threads = src.threads_along(&axes.reduced)?;
    let all = src.owners_without(&axes.reduced, true)?;
    let first = src.owners_without(&axes.reduced, false)?;
    let held = dst.owners_among(among)?;
    if held != all && held != first {
        return Err(format!(
            "the threads that hold `{}` ({held}) are not those that `{}` leaves after reduction ({all}, or {first})",
            dst.view.buffer, src.view.buffer
        ));
    }
    Ok((threads, held == all))
}

/// The coordinate of a thread on an iter over threads.
fn digit(thread: &Expr, it: Iter) -> Expr {
    let above = Expr::binary(BinOp::FloorDiv, thread.clone(), Expr::i64(it.stride));
    Expr::binary(BinOp::FloorMod, above, Expr::i64(it.extent))
}
