//! Carries out reductions over threads: a tile call of the block on registers.
//!
//! Each thread first reduces what it has on its own, one value for each of its elements. A call of
//! `sum`, `prod`, `max` or `min` then combines the values of the threads that reduce together, and the
//! result is written. The layout of the operands says which threads those are: the source is shared
//! out over `threadIdx.z`, `.y`, `.x` in that order; the destination is the same without the reduced
//! axes, replicated over them where every thread reads the result. Where the blocks of a cluster reduce
//! together, they then exchange what each of them has (`cluster`).
//!
//! before: `Reduce { t0[0] <- p0[threadIdx.x] over threadIdx.x }` with 64 threads
//! after:  `t0_acc[0] = p0[threadIdx.x]; Tx.cta.sum(t0_sum, t0_acc, axes=(2,)); t0[0] = t0_sum[0]`

use super::cluster::Exchange;
use crate::analysis::{Combiner, accumulator, simplify};
use crate::ir::device::{DFor, DKind, DStmt, ThreadReduce, guarded, index_var};
use crate::ir::kernel::Barrier;
use crate::ir::layout::{Axis, Iter, TileLayout};
use crate::ir::{Buffer, DType, ExecScope, Expr, ExprKind, Name, Scope, ThreadTag, Tile, TileArg, TileCall, TileOp};
use crate::lower::LowerError;
use crate::lower::nest::{Nest, THREADS};
use std::collections::BTreeMap;

const PASS: &str = "cross-thread reduction";

/// Expands every reduction in `body`.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    let mut place = Place { inside: false, met: false };
    let mut out = list(nest, body, &mut place)?;
    if place.met {
        // Nothing has been done yet that others would have to see.
        out.insert(0, DStmt::Barrier(Barrier::ClusterArrive { release: false }));
    }
    Ok(out)
}

/// Where a reduction stands.
struct Place {
    /// In a loop or under a condition.
    inside: bool,
    /// After one over the blocks of a cluster.
    met: bool,
}

fn list(nest: &mut Nest, body: Vec<DStmt>, place: &mut Place) -> Result<Vec<DStmt>, LowerError> {
    let outside = place.inside;
    let mut out = vec![];
    for s in body {
        place.inside = outside || matches!(s, DStmt::For(_) | DStmt::If { .. });
        match s {
            DStmt::Reduce(r) => out.extend(Expand::new(nest, &r)?.run(place)?),
            s => out.push(s.try_map_lists(|inner| list(nest, inner, place))?),
        }
        place.inside = outside;
    }
    Ok(out)
}

struct Expand<'n, 'a, 'r> {
    nest: &'n mut Nest<'a>,
    r: &'r ThreadReduce,
    dst: DType,
    acc: DType,
    op: TileOp,
    /// Values per thread.
    values: i64,
}

impl<'n, 'a, 'r> Expand<'n, 'a, 'r> {
    fn new(nest: &'n mut Nest<'a>, r: &'r ThreadReduce) -> Result<Self, LowerError> {
        let dst = nest.buffer(PASS, &r.dst)?.dtype;
        let values = r.elements.iter().map(|(_, n)| n).product();
        let combiner = Combiner::of(r.op);
        let combiner =
            combiner.ok_or_else(|| LowerError::new(PASS, &r.block, "no tile primitive reduces like this"))?;
        Ok(Expand { dst, acc: accumulator(dst), op: combiner.fold(), values, nest, r })
    }

    fn run(mut self, place: &mut Place) -> Result<Vec<DStmt>, LowerError> {
        let shown = [self.registers("acc", false)?, self.registers("sum", true)?];
        let [own, sum] = shown.each_ref().map(|b| &b.name);
        let mut out = self.accumulate(own);
        let call = self.call(sum, own);
        let body = self.nest.carry_out(&call, &shown);
        out.extend(body.map_err(|e| LowerError::new(PASS, &self.r.block, e.to_string()))?);
        if self.over_cluster() {
            out.extend(self.exchange(sum, place)?);
        }
        out.extend(self.write(sum));
        Ok(out)
    }

    /// Registers for the thread's values, as the call sees them: with the layout of the whole block's;
    /// `reduced` without the reduced axes.
    fn registers(&mut self, what: &str, reduced: bool) -> Result<Buffer, LowerError> {
        let (mut shard, mut replica, mut shape) = (vec![], vec![], vec![]);
        let mut stride: i64 = self.nest.block.iter().map(|n| i64::from(*n)).product();
        for tag in THREADS.into_iter().rev() {
            let n = self.nest.threads(tag);
            stride /= n;
            let gone = reduced && self.r.tags.contains(&tag);
            if gone && (self.r.needs_all || self.over_cluster()) {
                replica.push(Iter::new(n, stride, Axis::Tx));
            }
            let left = if gone { 1 } else { n };
            shape.push(Expr::i64(left));
            shard.push(Iter::new(left, stride, Axis::Tx));
        }
        shape.push(Expr::i64(self.values));
        shard.push(Iter::new(self.values, 1, Axis::M));
        let layout = TileLayout::new(shard, replica, BTreeMap::new(), None);
        let layout = layout.map_err(|why| LowerError::new(PASS, &self.r.block, why))?;
        let (stem, len) = (format!("{}_{what}", self.r.dst), Expr::i64(self.values));
        let name = self.nest.scratch(&stem, self.acc, len, Scope::Local);
        Ok(Buffer { layout: Some(layout), ..Buffer::new(name, self.acc, shape, Scope::Local) })
    }

    fn call(&self, sum: &Name, own: &Name) -> TileCall {
        let tile = |reduced: bool, name: &Name| {
            let gone = |t: &ThreadTag| reduced && self.r.tags.contains(t);
            let threads = THREADS.iter().rev().map(|t| if gone(t) { 1 } else { self.nest.threads(*t) });
            Tile::whole(name, &threads.chain([self.values]).collect::<Vec<_>>())
        };
        let args = vec![TileArg::Tile(tile(false, own))];
        let mut call = TileCall::new(self.op, ExecScope::Cta, tile(true, sum), args);
        call.axes = (0..3).filter(|i| self.r.tags.contains(&THREADS[2 - i])).collect();
        call.forced = self.r.variant.clone();
        call
    }

    /// True where blocks of a cluster reduce together.
    fn over_cluster(&self) -> bool {
        self.r.tags.contains(&ThreadTag::ClusterX)
    }

    fn exchange(&mut self, sum: &Name, place: &mut Place) -> Result<Vec<DStmt>, LowerError> {
        if place.inside {
            let why = "a reduction over the blocks of a cluster stands in a loop or under a condition";
            return Err(LowerError::new(PASS, &self.r.block, why));
        }
        let first = !std::mem::replace(&mut place.met, true);
        Exchange { reduce: self.r, sum, dtype: self.acc, values: self.values, first }.run(self.nest)
    }

    /// `own`: what this thread has of the reduction.
    fn accumulate(&mut self, own: &Name) -> Vec<DStmt> {
        let at = number_of(self.nest, &self.r.elements);
        let term = Expr::cast(self.acc, self.r.term.clone());
        let store = |value: Expr| DStmt::store(own.clone(), vec![at.clone()], value);
        let value = match self.r.serial.is_empty() {
            true if self.starts_neutral() => term,
            true => Expr::binary(self.r.op, self.identity(), term),
            false => Expr::binary(self.r.op, Expr::load(own.clone(), vec![at.clone()], self.acc), term),
        };
        if self.r.serial.is_empty() && self.r.guard.is_none() {
            return each_element(self.nest, &self.r.elements, vec![store(value)]);
        }
        let mut body = guarded(self.r.guard.clone(), vec![store(value)]);
        for (var, extent) in self.r.serial.iter().rev() {
            body = vec![DStmt::For(DFor::new(var.clone(), extent.clone(), DKind::Serial, body))];
        }
        body.insert(0, store(self.identity()));
        each_element(self.nest, &self.r.elements, body)
    }

    fn write(&mut self, sum: &Name) -> Vec<DStmt> {
        let value = Expr::load(sum.clone(), vec![number_of(self.nest, &self.r.elements)], self.acc);
        let value = match &self.r.start {
            Some(start) => Expr::binary(self.r.op, Expr::cast(self.acc, start.clone()), value),
            None => value,
        };
        let store = DStmt::store(self.r.dst.clone(), self.r.indices.clone(), Expr::cast(self.dst, value));
        let body = guarded(self.r.write_guard.clone(), vec![store]);
        each_element(self.nest, &self.r.elements, body)
    }

    /// True where the reduction starts from a value that no term is beyond; an init may be another one.
    fn starts_neutral(&self) -> bool {
        let neutral = Combiner::of(self.r.op).and_then(|c| c.identity(self.acc));
        neutral.is_some_and(|n| n == self.identity())
    }

    fn identity(&self) -> Expr {
        if let ExprKind::Float { bits, .. } = self.r.identity.kind() {
            return Expr::new(ExprKind::Float { bits: *bits, dtype: self.acc });
        }
        Expr::cast(self.acc, self.r.identity.clone())
    }
}

/// Loops over elements around `body`, with loop variables of their own.
pub fn each_element(nest: &mut Nest, elements: &[(Name, i64)], mut body: Vec<DStmt>) -> Vec<DStmt> {
    for (var, n) in elements.iter().rev() {
        let own = nest.loop_var(var.as_str(), *n);
        let inner = body.iter().map(|s| s.subst(&|name| (name == var).then(|| index_var(&own)))).collect();
        body = vec![DStmt::unrolled(&own, *n, inner)];
    }
    body
}

/// The position of the current element among all.
pub fn number_of(nest: &Nest, elements: &[(Name, i64)]) -> Expr {
    let number = elements.iter().fold(Expr::i64(0), |at, (var, n)| at * Expr::i64(*n) + index_var(var));
    simplify(&number, &nest.ranges)
}
