//! Carries out reductions over threads.
//!
//! Three forms, for `n` threads that reduce together:
//! - `n` divides 32 and they are neighbours: xor shuffles, every lane has the result;
//! - `n` is a multiple of 32 and they are neighbours: each warp shuffles, its first lane stages one
//!   value in shared memory, and after a barrier every warp reduces the staged values by shuffles
//!   again, so every thread has the result with one barrier;
//! - otherwise (a column sum over `threadIdx.y`): every thread stages its value; after a barrier the
//!   first of the group sums up to 32 of them in order, and more are halved step by step.
//!
//! All elements of a thread are staged before the one barrier. Threads out of range contribute the
//! identity, so that all reach it. Barriers are placed by `barriers`, except inside the halving.
//!
//! before: `Reduce { t0[0] <- p0[threadIdx.x] over threadIdx.x }` with 64 threads
//! after:  `acc = p0[threadIdx.x]; 5 shuffles; if threadIdx.x % 32 == 0 { stage[threadIdx.x / 32] = acc };`
//!         `acc = stage[threadIdx.x % 2]; 1 shuffle; t0[0] = acc`

use super::LowerError;
use super::nest::Nest;
use crate::analysis::simplify;
use crate::ir::device::{DFor, DKind, DStmt, ThreadReduce, guarded, index_var};
use crate::ir::kernel::{Barrier, ShuffleMode};
use crate::ir::{BinOp, Buffer, DType, Expr, ExprKind, Name, Scope, ThreadTag};

/// Lanes of a warp; every GPU that we build for has 32.
const WARP: i64 = 32;

/// Expands every reduction in `body`.
pub(super) fn run(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    let mut out = vec![];
    for s in body {
        match s {
            DStmt::Reduce(r) => out.extend(Expand::new(nest, &r)?.run()),
            DStmt::For(mut l) => {
                l.body = run(nest, l.body)?;
                out.push(DStmt::For(l));
            }
            DStmt::If { cond, then, otherwise } => {
                let (then, otherwise) = (run(nest, then)?, run(nest, otherwise)?);
                out.push(DStmt::If { cond, then, otherwise });
            }
            DStmt::Store { .. }
            | DStmt::Copy { .. }
            | DStmt::Let { .. }
            | DStmt::Var { .. }
            | DStmt::Assign { .. }
            | DStmt::Shuffle { .. }
            | DStmt::Barrier(_)
            | DStmt::Intrinsic(_)
            | DStmt::Tile(_) => out.push(s),
        }
    }
    Ok(out)
}

/// The type that partial results are held in.
pub(super) fn accumulator(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

struct Expand<'n, 'a, 'r> {
    nest: &'n mut Nest<'a>,
    r: &'r ThreadReduce,
    dst: DType,
    acc: DType,
    /// Threads that reduce together.
    n: i64,
    /// Groups of them in a block.
    groups: i64,
    /// Values per thread.
    values: i64,
}

impl<'n, 'a, 'r> Expand<'n, 'a, 'r> {
    fn new(nest: &'n mut Nest<'a>, r: &'r ThreadReduce) -> Result<Self, LowerError> {
        let dst = nest.buffer("cross-thread reduction", &r.dst)?.dtype;
        let n = r.tags.iter().map(|t| nest.threads(*t)).product();
        let all: i64 = nest.block.iter().map(|n| *n as i64).product();
        let values = r.elements.iter().map(|(_, n)| n).product();
        Ok(Expand { dst, acc: accumulator(dst), n, groups: all / n, values, nest, r })
    }

    fn run(mut self) -> Vec<DStmt> {
        let live = self.nest.live_axes();
        let neighbours = live.starts_with(&self.r.tags);
        if neighbours && WARP % self.n == 0 {
            self.in_warp()
        } else if neighbours && self.n % WARP == 0 {
            self.over_warps()
        } else {
            self.through_shared()
        }
    }

    fn in_warp(&mut self) -> Vec<DStmt> {
        let acc = self.nest.fresh(&format!("{}_acc", self.r.dst));
        let mut body = self.accumulate(&acc);
        body.extend(self.shuffles(&acc, self.n));
        body.extend(self.write(self.var(&acc)));
        self.for_each_value(body)
    }

    fn over_warps(&mut self) -> Vec<DStmt> {
        let warps = self.n / WARP;
        let stage = self.stage(vec![self.groups, warps, self.values]);
        let lin = self.linear(&self.nest.live_axes());
        let (group, in_group) = (div(&lin, self.n), rem(&lin, self.n));
        let lane = self.simple(rem(&lin, WARP));
        let slot = |warp: Expr, value: Expr| vec![group.clone(), warp, value];

        let acc = self.nest.fresh(&format!("{}_acc", self.r.dst));
        let mut first = self.accumulate(&acc);
        first.extend(self.shuffles(&acc, WARP));
        let store =
            DStmt::store(stage.clone(), self.simples(slot(div(&in_group, WARP), self.value_index())), self.var(&acc));
        first.extend(guarded(Some(Expr::binary(BinOp::Eq, lane.clone(), Expr::i64(0))), vec![store]));
        let mut out = self.for_each_value(first);

        let width = (warps as u64).next_power_of_two() as i64;
        let total = self.nest.fresh(&format!("{}_sum", self.r.dst));
        let from = self.simple(rem(&lane, width));
        let load = Expr::load(stage, self.simples(slot(from.clone(), self.value_index())), self.acc);
        let have = Expr::binary(BinOp::Lt, from, Expr::i64(warps));
        let init = if width == warps { load } else { if_then_else(have, load, self.identity()) };
        let mut second = vec![DStmt::Var { var: total.clone(), dtype: self.acc, init: Some(init) }];
        second.extend(self.shuffles(&total, width));
        second.extend(self.write(self.var(&total)));
        out.extend(self.for_each_value(second));
        out
    }

    fn through_shared(&mut self) -> Vec<DStmt> {
        let stage = self.stage(vec![self.n, self.values, self.groups]);
        let rest: Vec<ThreadTag> = self.nest.live_axes().into_iter().filter(|t| !self.r.tags.contains(t)).collect();
        let (own, group) = (self.linear(&self.r.tags), self.linear(&rest));
        let slot = |i: Expr, value: Expr| vec![i, value, group.clone()];
        let acc = self.nest.fresh(&format!("{}_acc", self.r.dst));
        let mut first = self.accumulate(&acc);
        first.push(DStmt::store(stage.clone(), self.simples(slot(own.clone(), self.value_index())), self.var(&acc)));
        let mut out = self.for_each_value(first);

        let mut left = self.n;
        if self.n > WARP {
            left = 1;
            out.extend(self.halve(&stage, &own, &group));
        }
        let is_first = Expr::binary(BinOp::Eq, own, Expr::i64(0));
        let sum = self.nest.fresh(&format!("{}_sum", self.r.dst));
        let at = |e: &Self, i: Expr| Expr::load(stage.clone(), e.simples(slot(i, e.value_index())), e.acc);
        let mut add = vec![DStmt::Assign { var: sum.clone(), value: at(self, Expr::i64(0)) }];
        if left > 1 {
            let i = self.nest.fresh(&format!("{}_i", self.r.dst));
            self.nest.ranges.set(i.clone(), 0, left - 2);
            let value = Expr::binary(self.r.op, self.var(&sum), at(self, index_var(&i) + Expr::i64(1)));
            let body = vec![DStmt::Assign { var: sum.clone(), value }];
            add.push(DStmt::For(DFor::new(i, Expr::i64(left - 1), DKind::Unrolled, body)));
        }
        let mut second = vec![DStmt::Var { var: sum.clone(), dtype: self.acc, init: Some(self.identity()) }];
        second.extend(guarded((!self.r.needs_all).then_some(is_first), add));
        second.extend(self.write(self.var(&sum)));
        out.extend(self.for_each_value(second));
        out
    }

    /// Halves the staged values until one is left per group and value.
    fn halve(&mut self, stage: &Name, own: &Expr, group: &Expr) -> Vec<DStmt> {
        let mut out = vec![];
        let mut step = (self.n as u64).next_power_of_two() as i64 / 2;
        while step > 0 {
            let lower = Expr::binary(BinOp::Lt, own.clone(), Expr::i64(step.min(self.n - step)));
            let at = |e: &Self, i: Expr| e.simples(vec![i, e.value_index(), group.clone()]);
            let load = |e: &Self, i: Expr| Expr::load(stage.clone(), at(e, i), e.acc);
            let other = load(self, own.clone() + Expr::i64(step));
            let value = Expr::binary(self.r.op, load(self, own.clone()), other);
            let store = DStmt::store(stage.clone(), at(self, own.clone()), value);
            out.push(DStmt::Barrier(Barrier::Block));
            let body = self.for_each_value(vec![store]);
            out.extend(guarded(Some(lower), body));
            step /= 2;
        }
        out
    }

    /// `acc`: what this thread has of the reduction.
    fn accumulate(&self, acc: &Name) -> Vec<DStmt> {
        let term = Expr::cast(self.acc, self.r.term.clone());
        if self.r.serial.is_empty() && self.r.guard.is_none() {
            return vec![DStmt::Var { var: acc.clone(), dtype: self.acc, init: Some(term) }];
        }
        let value = match self.r.serial.is_empty() {
            true => term,
            false => Expr::binary(self.r.op, self.var(acc), term),
        };
        let mut body = guarded(self.r.guard.clone(), vec![DStmt::Assign { var: acc.clone(), value }]);
        for (var, extent) in self.r.serial.iter().rev() {
            body = vec![DStmt::For(DFor::new(var.clone(), extent.clone(), DKind::Serial, body))];
        }
        body.insert(0, DStmt::Var { var: acc.clone(), dtype: self.acc, init: Some(self.identity()) });
        body
    }

    /// Combines `acc` over segments of `width` lanes; every lane gets the result.
    fn shuffles(&mut self, acc: &Name, width: i64) -> Vec<DStmt> {
        if width == 1 {
            return vec![];
        }
        let other = self.nest.fresh(&format!("{}_other", self.r.dst));
        let mut out = vec![DStmt::Var { var: other.clone(), dtype: self.acc, init: None }];
        let mut mask = width / 2;
        while mask > 0 {
            let mode = ShuffleMode::Xor(mask as u32);
            out.push(DStmt::Shuffle { dst: other.clone(), mode, value: self.var(acc), width: width as u32 });
            let value = Expr::binary(self.r.op, self.var(acc), self.var(&other));
            out.push(DStmt::Assign { var: acc.clone(), value });
            mask /= 2;
        }
        out
    }

    fn write(&self, value: Expr) -> Vec<DStmt> {
        let value = match &self.r.start {
            Some(start) => Expr::binary(self.r.op, Expr::cast(self.acc, start.clone()), value),
            None => value,
        };
        let store = DStmt::store(self.r.dst.clone(), self.r.indices.clone(), Expr::cast(self.dst, value));
        guarded(self.r.write_guard.clone(), vec![store])
    }

    /// Loops over the thread's values around `body`, with loop variables of their own.
    fn for_each_value(&mut self, mut body: Vec<DStmt>) -> Vec<DStmt> {
        for (var, n) in self.r.elements.iter().rev() {
            let own = self.nest.fresh(var.as_str());
            self.nest.ranges.set(own.clone(), 0, n - 1);
            let map = |name: &Name| (name == var).then(|| index_var(&own));
            let inner = body.iter().map(|s| s.subst(&map)).collect();
            body = vec![DStmt::For(DFor::new(own, Expr::i64(*n), DKind::Unrolled, inner))];
        }
        body
    }

    /// The position of the current value among the thread's values.
    fn value_index(&self) -> Expr {
        self.r.elements.iter().fold(Expr::i64(0), |at, (var, n)| at * Expr::i64(*n) + index_var(var))
    }

    fn stage(&mut self, shape: Vec<i64>) -> Name {
        let name = self.nest.fresh(&format!("{}_stage", self.r.dst));
        let shape = shape.into_iter().map(Expr::i64).collect();
        self.nest.buffers.insert(name.clone(), Buffer::new(name.clone(), self.acc, shape, Scope::Shared));
        name
    }

    /// The position of the thread among the threads of these axes, x fastest.
    fn linear(&self, axes: &[ThreadTag]) -> Expr {
        let join = |at: Expr, t: &ThreadTag| at * Expr::i64(self.nest.threads(*t)) + self.nest.thread(*t);
        self.simple(axes.iter().rev().fold(Expr::i64(0), join))
    }

    fn identity(&self) -> Expr {
        if let ExprKind::Float { bits, .. } = self.r.identity.kind() {
            return Expr::new(ExprKind::Float { bits: *bits, dtype: self.acc });
        }
        Expr::cast(self.acc, self.r.identity.clone())
    }

    fn var(&self, name: &Name) -> Expr {
        Expr::var(name.clone(), self.acc)
    }

    fn simple(&self, e: Expr) -> Expr {
        simplify(&e, &self.nest.ranges)
    }

    fn simples(&self, list: Vec<Expr>) -> Vec<Expr> {
        list.into_iter().map(|e| self.simple(e)).collect()
    }
}

fn div(e: &Expr, n: i64) -> Expr {
    Expr::binary(BinOp::FloorDiv, e.clone(), Expr::i64(n))
}

fn rem(e: &Expr, n: i64) -> Expr {
    Expr::binary(BinOp::FloorMod, e.clone(), Expr::i64(n))
}

fn if_then_else(cond: Expr, then: Expr, otherwise: Expr) -> Expr {
    Expr::new(ExprKind::IfThenElse { cond, then, otherwise })
}
