//! What the rules ask of a function once producers are inlined: one reduction with injective
//! epilogues or none, which reads cover it, and in which order its axes lie in memory.
//!
//! Declines: `OneReduction::of`: `one_reduction`, `elementwise_epilogue`, `known_reducer`, `reduction_axis`;
//! `Reduction::of`: the predicates of [`OneReduction::of`], `full_read`, `plain_indices`.

use crate::analysis::{Access, BlockFacts, Combiner, Decline, Facts, Ranges, Reducer, affine};
use crate::ir::{Block, DType, Expr, IterKind, Name, PrimFunc, Stmt};
use crate::rules::Ask;
use crate::rules::parts::keep_float32;
use crate::rules::space::outlines::Work;
use crate::schedule::Schedule;

/// One iterator of a block and the loop that drives it.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The loop.
    pub at: Name,
    /// Its extent, if constant.
    pub extent: Option<i64>,
}

/// The product of the axes' extents, if constant.
pub fn size(axes: &[Axis]) -> Option<i64> {
    axes.iter().try_fold(1i64, |n, a| n.checked_mul(a.extent?))
}

/// Contiguous elements from which on those of one output are a row that lanes share.
const ROW: i64 = 8;
/// Steps of the longest window that one thread is given.
pub const WINDOW: i64 = 256;

/// A function that is one reduction after inlining.
pub struct Reduction {
    /// The reduction.
    pub one: OneReduction,
    /// Spatial axes, outermost first in the memory of the dominant read.
    pub spatial: Vec<Axis>,
    /// Reduction axes, likewise.
    pub reduce: Vec<Axis>,
    /// True where the axis contiguous in memory is reduced.
    pub inner_reduce: bool,
    /// True where the reduced axes are short windows that do not overlap: one index walks over kept and
    /// reduced axes, and fewer than [`ROW`] of the elements that one output needs lie next to each other.
    pub tiled: bool,
    /// The reads that depend on every axis, dominant one first.
    pub full: Vec<Access>,
    /// The reads that depend on a reduction axis but not on every spatial one.
    pub shared: Vec<Access>,
    /// Element type of the dominant read.
    pub element: DType,
    /// What outlines need to know, where all sizes are constant.
    pub work: Option<Work>,
}

/// A reduction block and the injective blocks after it, in program order.
#[derive(Clone)]
pub struct Chain {
    /// The reduction.
    pub block: Name,
    /// What follows it.
    pub epilogues: Vec<Name>,
}

impl Chain {
    /// A reduction that nothing follows.
    pub fn alone(block: Name) -> Chain {
        Chain { block, epilogues: vec![] }
    }
}

/// One reduction block with injective epilogues, whatever it reads.
#[derive(Clone)]
pub struct OneReduction {
    /// The schedule in which every injective producer is inlined.
    pub schedule: Schedule,
    /// The reduction block, and the injective blocks after it.
    pub chain: Chain,
    /// How it combines; of several accumulators the first, of an argmax or argmin the value.
    pub reducer: Reducer,
    /// Facts about the block.
    pub facts: BlockFacts,
}

impl OneReduction {
    /// Classifies, or says by name why the function is not one reduction.
    pub fn of(ask: &Ask) -> Result<OneReduction, Decline> {
        OneReduction::beside(ask, &[])
    }

    /// The same of a function without the blocks `aside`.
    pub fn beside(ask: &Ask, aside: &[Name]) -> Result<OneReduction, Decline> {
        let mut schedule = ask.start.clone();
        let owns = |b: &&BlockFacts| ask.owns(&b.name) && !aside.contains(&b.name);
        let reductions = ask.facts.blocks.iter().filter(|b| owns(b) && b.is_reduction);
        let reductions: Vec<Name> = reductions.map(|b| b.name.clone()).collect();
        merge(&mut schedule, &reductions).map_err(|reason| ask.no("one_reduction", reason))?;
        let merged = (reductions.len() > 1).then(|| Facts::of(schedule.func()));
        let own = merged.as_ref().unwrap_or(ask.facts).blocks.iter().filter(owns);
        let (reductions, others): (Vec<&BlockFacts>, Vec<&BlockFacts>) = own.partition(|b| b.is_reduction);
        let [red] = reductions[..] else {
            return Err(ask.no("one_reduction", format!("{} reduction blocks after inlining", reductions.len())));
        };
        let mut made: Vec<&Name> = red.writes.iter().map(|w| &w.buffer).collect();
        for e in &others {
            check_epilogue(schedule.func(), &made, e).map_err(|reason| ask.no("elementwise_epilogue", reason))?;
            made.extend(e.writes.iter().map(|w| &w.buffer));
        }
        let unknown = || ask.no("known_reducer", format!("block `{}` is not X = X op term", red.name));
        let reducer = red.reducers.first().cloned().ok_or_else(unknown)?;
        if !red.has_reduce_iter() {
            return Err(ask.no("reduction_axis", "no axis longer than 1 is reduced"));
        }
        let epilogues: Vec<Name> = others.iter().map(|b| b.name.clone()).collect();
        let facts = red.clone();
        epilogues.iter().for_each(|b| keep_float32(&mut schedule, b, None));
        Ok(OneReduction { chain: Chain { block: facts.name.clone(), epilogues }, reducer, facts, schedule })
    }

    /// The same with what is combined in float32 as well, for rules that do not look into it.
    pub fn keep_float32(&mut self) {
        keep_float32(&mut self.schedule, &self.chain.block, None);
    }
}

impl Reduction {
    /// Classifies, or says by name why the function is not one reduction.
    pub fn of(ask: &Ask) -> Result<Reduction, Decline> {
        Reduction::in_order(ask, OneReduction::of(ask)?)
    }

    /// Finds the order of the axes, or says by name why they have none.
    pub fn in_order(ask: &Ask, one: OneReduction) -> Result<Reduction, Decline> {
        let OneReduction { schedule, facts: red, .. } = &one;
        let block = find_block(schedule.func(), &red.name);
        let (full, shared) = split_reads(red, &block);
        let Some(dominant) = full.first() else {
            return Err(ask.no("full_read", "no tensor is read by every axis of the reduction: it is a contraction"));
        };
        let walked = |a: &&Access| a.indices.iter().all(|e| walk(e, &block, &red.ranges).is_some());
        if let Some(other) = full.iter().chain(&shared).find(|a| !walked(a)) {
            return Err(ask.no("plain_indices", format!("tensor `{}` is not indexed by plain axes", other.buffer)));
        }
        let order = memory_order(dominant, &block, schedule, &red.ranges).ok_or_else(|| {
            ask.no("plain_indices", format!("an axis does not index tensor `{}` once", dominant.buffer))
        })?;
        let element = schedule.func().buffer(&dominant.buffer).dtype;
        // A column that stands alone, as of a tensor [n, 1], lies contiguous along its rows.
        let innermost = order.iter().rfind(|(_, a)| a.extent != Some(1)).or(order.last());
        let inner_reduce = innermost.is_some_and(|(kind, _)| *kind == IterKind::Reduce);
        let mixed = |e: &Expr| {
            let walked = walk(e, &block, &red.ranges).unwrap_or_default();
            let of = |kind| block.iters.iter().any(|i| i.kind == kind && walked.contains(&i.var));
            of(IterKind::Spatial) && of(IterKind::Reduce)
        };
        let together = order.iter().rev().take_while(|(kind, _)| *kind == IterKind::Reduce);
        let together = together.fold(1i64, |n, (_, a)| n.saturating_mul(a.extent.unwrap_or(i64::MAX)));
        let reduced = order.iter().filter(|(kind, _)| *kind == IterKind::Reduce);
        let steps = reduced.fold(1i64, |n, (_, a)| n.saturating_mul(a.extent.unwrap_or(i64::MAX)));
        let tiled = inner_reduce && together < ROW && steps <= WINDOW && dominant.indices.iter().any(mixed);
        let of_kind = |kind| order.iter().filter(|(k, _)| *k == kind).map(|(_, a)| a.clone()).collect::<Vec<_>>();
        let r = Reduction {
            spatial: of_kind(IterKind::Spatial),
            reduce: of_kind(IterKind::Reduce),
            inner_reduce,
            tiled,
            one,
            full,
            shared,
            element,
            work: None,
        };
        Ok(Reduction { work: Work::of(&r, ask.target), ..r })
    }

    /// A reduction of rows that lie in memory.
    ///
    /// # Errors
    /// The predicates of [`Reduction::of`], `contiguous_reduction`, `no_window`, `is_gemv`.
    pub fn along_memory(ask: &Ask) -> Result<Reduction, Decline> {
        let mut r = Reduction::of(ask)?;
        r.one.keep_float32();
        if !r.inner_reduce {
            return Err(ask.no("contiguous_reduction", "the axis contiguous in memory is not reduced"));
        }
        r.no_window(ask)?;
        match r.shared.first() {
            None => Ok(r),
            Some(a) => {
                let reason = format!("tensor `{}` is shared by rows: a matrix-vector product", a.buffer);
                Err(ask.no("is_gemv", reason))
            }
        }
    }

    /// A reduction of columns, which lie side by side in memory.
    ///
    /// # Errors
    /// The predicates of [`Reduction::of`], `strided_reduction`.
    pub fn across_memory(ask: &Ask) -> Result<Reduction, Decline> {
        let mut r = Reduction::of(ask)?;
        r.one.keep_float32();
        if r.inner_reduce || r.spatial.is_empty() {
            return Err(ask.no("strided_reduction", "the axis contiguous in memory is reduced"));
        }
        Ok(r)
    }

    /// Leaves short windows to the rule that gives each to one thread.
    pub fn no_window(&self, ask: &Ask) -> Result<(), Decline> {
        if self.tiled {
            return Err(ask.no("no_window", "windows of a few elements that do not overlap make no rows to share"));
        }
        Ok(())
    }

    /// How tile primitives can fold it, where it is one plain reduction.
    pub fn combiner(&self) -> Option<Combiner> {
        self.one.facts.reducer.as_ref().map(|r| r.combiner)
    }

    /// Length of the reduction, if constant.
    pub fn length(&self) -> Option<i64> {
        size(&self.reduce)
    }

    /// Length of the last kept axis, if constant.
    pub fn last(&self) -> Option<i64> {
        self.spatial.last().and_then(|a| a.extent)
    }

    /// Number of outputs, if constant.
    pub fn outputs(&self) -> Option<i64> {
        size(&self.spatial)
    }

    /// Elements of the dominant read, if constant.
    pub fn total(&self) -> Option<i64> {
        self.length()?.checked_mul(self.outputs()?)
    }

    /// Bytes of the dominant read, if constant.
    pub fn bytes(&self) -> Option<i64> {
        self.total()?.checked_mul(self.element.bytes() as i64)
    }

    /// Length of the innermost contiguous run along the reduction in the dominant read: the product of
    /// the trailing reduction axes.
    pub fn run(&self) -> Option<i64> {
        let dominant = self.full.first()?;
        let block = find_block(self.one.schedule.func(), &self.one.chain.block);
        let kind =
            |e: &Expr| block.iters.iter().find(|i| e.as_var() == Some(&i.var)).map(|i| (i.kind, i.extent.as_int()));
        let mut run = 1i64;
        for index in dominant.indices.iter().rev() {
            match kind(index) {
                Some((IterKind::Reduce, extent)) => run = run.checked_mul(extent?)?,
                _ => break,
            }
        }
        Some(run)
    }
}

/// The block of that name.
///
/// # Panics
/// If there is none: names come from the function itself.
pub fn find_block(func: &PrimFunc, name: &Name) -> Block {
    let mut found = None;
    func.visit(&mut |s| {
        if let Stmt::Block(b) = s
            && b.name == *name
        {
            found = Some(b.clone());
        }
    });
    found.unwrap_or_else(|| panic!("block `{name}` is in the function"))
}

/// True when every index is a plain variable or a constant.
pub fn is_plain(access: &Access) -> bool {
    access.indices.iter().all(|e| e.as_var().is_some() || e.as_int().is_some())
}

/// The reads of the term by every axis, largest rank first, and those by a reduction axis but not
/// by all spatial ones.
fn split_reads(red: &BlockFacts, block: &Block) -> (Vec<Access>, Vec<Access>) {
    let written: Vec<&Name> = red.writes.iter().map(|w| &w.buffer).collect();
    let uses = |a: &Access, v: &Name| a.indices.iter().any(|e| e.uses_var(v));
    let long = |i: &&crate::ir::IterVar| !i.extent.is_int(1);
    let reads = red.reads.iter().filter(|a| !written.contains(&&a.buffer));
    let (mut full, mut shared) = (vec![], vec![]);
    for a in reads {
        if block.iters.iter().filter(long).all(|i| uses(a, &i.var)) {
            full.push(a.clone());
        } else if block.iters.iter().any(|i| i.kind == IterKind::Reduce && uses(a, &i.var)) {
            shared.push(a.clone());
        }
    }
    (full, shared)
}

/// The iterators that an index walks over, outermost first: none, one, or several in row-major order
/// (`v0*10 + v1` where `v1` has extent 10), as reshaped axes are. `None` for every other index.
fn walk(index: &Expr, block: &Block, ranges: &Ranges) -> Option<Vec<Name>> {
    if index.as_int().is_some() {
        return Some(vec![]);
    }
    if let Some(var) = index.as_var() {
        return Some(vec![var.clone()]);
    }
    let sum = affine(index, ranges)?;
    let mut terms = sum.terms.clone();
    terms.sort_by_key(|t| t.coeff);
    let mut stride = 1;
    for t in &terms {
        let extent = block.iters.iter().find(|i| i.var == t.var)?.extent.as_int()?;
        if t.lower != 1 || t.modulo.is_some() || t.coeff != stride {
            return None;
        }
        stride *= extent;
    }
    (sum.base == 0).then(|| terms.into_iter().rev().map(|t| t.var).collect())
}

/// The axes in the order in which they lie in the memory of `access`, unit axes first.
fn memory_order(access: &Access, block: &Block, s: &Schedule, ranges: &Ranges) -> Option<Vec<(IterKind, Axis)>> {
    let walks = access.indices.iter().map(|e| walk(e, block, ranges)).collect::<Option<Vec<_>>>()?;
    let order: Vec<Name> = walks.into_iter().flatten().collect();
    let loops = s.loops(&block.name);
    let mut places = vec![];
    for (iter, at) in block.iters.iter().zip(&loops) {
        let key = match order.iter().position(|v| *v == iter.var) {
            Some(p) => p + 1,
            None if iter.extent.is_int(1) => 0,
            None => return None,
        };
        places.push((key, iter.kind, Axis { at: at.clone(), extent: iter.extent.as_int() }));
    }
    places.sort_by_key(|p| p.0);
    Some(places.into_iter().map(|(_, kind, axis)| (kind, axis)).collect())
}

/// Makes one block of reductions that go over the same axes and do not need each other.
fn merge(s: &mut Schedule, blocks: &[Name]) -> Result<(), String> {
    let Some((first, others)) = blocks.split_first() else { return Ok(()) };
    for other in others {
        let merged = s.merge_reductions(first, other);
        merged.map_err(|e| {
            format!("{} reduction blocks after inlining, no one block: {}", blocks.len(), e.reason.text)
        })?;
    }
    Ok(())
}

/// An epilogue must be spatial over what the reduction or an epilogue before it made, one for one.
fn check_epilogue(func: &PrimFunc, made: &[&Name], epilogue: &BlockFacts) -> Result<(), String> {
    let block = find_block(func, &epilogue.name);
    if block.iters.iter().any(|i| i.kind != IterKind::Spatial) {
        return Err(format!("block `{}` is not injective", epilogue.name));
    }
    let Some(read) = epilogue.reads.iter().find(|a| made.contains(&&a.buffer)) else {
        return Err(format!("block `{}` does not read the result of the reduction", epilogue.name));
    };
    for i in block.iters.iter().filter(|i| !i.extent.is_int(1)) {
        if !read.indices.iter().any(|e| e.as_var() == Some(&i.var)) {
            return Err(format!("block `{}` repeats the result along an axis of its own", epilogue.name));
        }
    }
    whole(func, &block, read)
}

/// Whether a block after a reduction reads every element of what it reads.
pub(super) fn whole(func: &PrimFunc, epilogue: &Block, read: &Access) -> Result<(), String> {
    let same = |a: &Expr, b: &Expr| a == b || a.as_int().is_some_and(|n| b.is_int(n));
    let all = |(index, extent): (&Expr, &Expr)| {
        extent.is_int(1) || epilogue.as_iter(index).is_some_and(|it| same(&it.extent, extent))
    };
    let shape = &func.buffer(&read.buffer).shape;
    match read.indices.iter().zip(shape).all(all) {
        true => Ok(()),
        false => Err(format!("block `{}` reads only a part of the result", epilogue.name)),
    }
}
