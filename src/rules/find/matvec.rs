//! What the rules for products of a matrix and few vectors ask of a function: y[m, n] = sum_k
//! W[n, k] x[m, k], with the matrix packed (several values of k in one element), with scales per
//! group of k, or neither.
//!
//! Declines: `MatVec::of`: the predicates of [`OneReduction::of`], `sum_reducer`, `epilogues_of_result`,
//! `grouped_indices`, `matrix`, `packed_reduction`, `shared_vector`.

use super::operands::bytes_of;
use super::shape::{Axis, OneReduction, find_block, size};
use super::statistic::{Statistic, with_statistics};
use crate::analysis::{Access, BlockFacts, Combiner, Decline, Facts};
use crate::ir::{BinOp, Block, DType, Expr, ExprKind, IterKind, IterVar, Name, PrimFunc};
use crate::rules::Ask;
use crate::rules::parts::loops_below;
use crate::schedule::Schedule;

/// Most vectors that are few.
const MOST_VECTORS: i64 = 16;

/// A function that is one product of a matrix and some vectors after inlining.
pub struct MatVec {
    /// The sum; each of the blocks after it reads its result.
    pub one: OneReduction,
    /// The matrix.
    pub matrix: Access,
    /// Its element type.
    pub element: DType,
    /// Values of the reduction in one element of the matrix; 1 where it is not packed.
    pub pack: i64,
    /// Other reads by rows and reduction, with the values of the reduction that share an element:
    /// scales and zero points.
    pub scales: Vec<(Access, i64)>,
    /// The vectors: reads by the reduction that not every row has its own of.
    pub vectors: Vec<Access>,
    /// Axes of the outputs that every tensor follows, and those of extent 1.
    pub outer: Vec<Axis>,
    /// Axes that tell the vectors apart; the matrix is the same for all of them.
    pub batch: Vec<Axis>,
    /// The rows of the matrix.
    pub rows: Axis,
    /// The dimension of the result that the rows index; `None` where there is one row.
    row_dim: Option<usize>,
    /// Reduction axes, outermost first in the memory of the matrix.
    pub reduce: Vec<Axis>,
    /// True where the axis contiguous in the matrix is reduced.
    pub inner: bool,
    /// What epilogues want of the vectors besides.
    pub statistics: Vec<Statistic>,
}

/// Values of `var` that share one value of the index, where the index is `var` or `var // g`.
fn group_of(index: &Expr, var: &Name) -> Option<i64> {
    match index.kind() {
        ExprKind::Var { name, .. } => (name == var).then_some(1),
        ExprKind::Binary { op: BinOp::FloorDiv, a, b } if a.as_var() == Some(var) => b.as_int().filter(|g| *g > 0),
        _ => None,
    }
}

/// How a read follows the iterators of a block.
struct Follow<'a> {
    access: &'a Access,
    /// For each iterator: the dimension it indexes and its group, or `None` where it does not occur.
    at: Vec<Option<(usize, i64)>>,
}

impl<'a> Follow<'a> {
    /// `None` where an index is no axis, no group of one and no constant.
    fn of(access: &'a Access, block: &Block) -> Option<Follow<'a>> {
        let known = |e: &Expr| e.as_int().is_some() || block.iters.iter().any(|i| group_of(e, &i.var).is_some());
        if !access.indices.iter().all(known) {
            return None;
        }
        let place =
            |i: &IterVar| access.indices.iter().enumerate().find_map(|(d, e)| group_of(e, &i.var).map(|g| (d, g)));
        Some(Follow { access, at: block.iters.iter().map(place).collect() })
    }

    fn follows(&self, i: usize) -> bool {
        self.at[i].is_some()
    }

    /// Elements read, if constant.
    fn elements(&self, block: &Block) -> Option<i64> {
        let mut n = 1i64;
        for (iter, at) in block.iters.iter().zip(&self.at) {
            if let Some((_, g)) = at {
                n = n.checked_mul((iter.extent.as_int()? + g - 1) / g)?;
            }
        }
        Some(n)
    }
}

impl MatVec {
    /// Classifies, or says by name why the function is no such product.
    pub fn of(ask: &Ask) -> Result<MatVec, Decline> {
        MatVec::in_one(ask, OneReduction::of(ask)?)
    }

    /// The same, with statistics of the vectors.
    pub fn with_statistics(ask: &Ask) -> Result<MatVec, Decline> {
        let (one, statistics) = with_statistics(ask)?;
        let p = MatVec { statistics, ..MatVec::in_one(ask, one)? };
        let axes = || p.outer.iter().chain(&p.batch).chain(&p.reduce);
        if p.statistics.iter().all(|st| st.has_axes(axes())) { Ok(p) } else { MatVec::of(ask) }
    }

    fn in_one(ask: &Ask, one: OneReduction) -> Result<MatVec, Decline> {
        if !one.facts.reducer.as_ref().is_some_and(|r| r.combiner == Combiner::Sum) {
            return Err(ask.no("sum_reducer", "the reduction is not a sum"));
        }
        let result = one.facts.writes.first().map(|w| w.buffer.clone());
        let facts = Facts::of(one.schedule.func());
        let reads_result =
            |e: &Name| facts.block(e).is_some_and(|b| b.reads.iter().any(|a| Some(&a.buffer) == result.as_ref()));
        if let Some(e) = one.chain.epilogues.iter().find(|e| !reads_result(e)) {
            return Err(ask.no("epilogues_of_result", format!("block `{e}` reads the result of another epilogue only")));
        }
        let block = find_block(one.schedule.func(), &one.chain.block);
        let reads = follows(&one.facts, &block).map_err(|reason| ask.no("grouped_indices", reason))?;
        let matrix = matrix(&reads, &block, one.schedule.func())
            .ok_or_else(|| ask.no("matrix", "no tensor of constant size is read by every reduction axis"))?;
        MatVec::with(ask, one.clone(), &block, &reads, matrix)
    }

    fn with(ask: &Ask, one: OneReduction, block: &Block, reads: &[Follow], matrix: usize) -> Result<MatVec, Decline> {
        let main = &reads[matrix];
        let loops = one.schedule.loops(&block.name);
        let axis = |i: usize| Axis { at: loops[i].clone(), extent: block.iters[i].extent.as_int() };
        let kind = |i: usize| block.iters[i].kind;
        let mut places: Vec<(usize, usize)> =
            (0..block.iters.len()).filter_map(|i| main.at[i].map(|(d, _)| (d, i))).collect();
        places.sort_unstable();
        let reduce: Vec<usize> = places.iter().map(|p| p.1).filter(|i| kind(*i) == IterKind::Reduce).collect();
        let mut spatial: Vec<usize> = places.iter().map(|p| p.1).filter(|i| kind(*i) != IterKind::Reduce).collect();
        let loose: Vec<usize> = (0..block.iters.len()).filter(|i| !main.follows(*i)).collect();
        let (batch, mut unit): (Vec<usize>, Vec<usize>) =
            loose.iter().partition(|i| !block.iters[**i].extent.is_int(1));
        // The only row of a matrix is not among its indices; all that is read is then read once.
        let one_row = spatial.is_empty();
        let (Some(rows), Some(last)) = (spatial.pop().or_else(|| unit.pop()), reduce.last()) else {
            return Err(ask.no("matrix", "the largest tensor has no rows"));
        };
        let packs: i64 = reduce.iter().map(|i| main.at[*i].map_or(1, |p| p.1)).product();
        let grouped = |i: &usize| main.at[*i].is_some_and(|p| p.1 > 1);
        if spatial.iter().chain([&rows]).any(grouped) || (packs > 1 && reduce.len() > 1) {
            return Err(ask.no("packed_reduction", "values are packed along another axis than one reduction"));
        }
        let full = |r: &&Follow| !one_row && r.follows(rows) && reduce.iter().all(|i| r.follows(*i));
        let scales = reads.iter().enumerate().filter(|(n, r)| *n != matrix && full(r) && is_scale(r, &batch));
        let scales: Vec<(Access, i64)> =
            scales.map(|(_, r)| (r.access.clone(), r.at[*last].map_or(1, |p| p.1))).collect();
        let shared = |r: &Follow| reduce.iter().any(|i| r.follows(*i)) && (one_row || !r.follows(rows));
        let vectors = reads.iter().enumerate().filter(|(n, r)| *n != matrix && shared(r));
        let vectors: Vec<Access> = vectors.map(|(_, r)| r.access.clone()).collect();
        if vectors.is_empty() {
            return Err(ask.no("shared_vector", "no tensor is shared by the rows"));
        }
        let row_dim =
            one.facts.writes.first().and_then(|w| w.indices.iter().position(|e| e.uses_var(&block.iters[rows].var)));
        let outer: Vec<usize> = unit.into_iter().chain(spatial).collect();
        let inner = main.access.indices.iter().rposition(|e| e.as_int().is_none()) == main.at[*last].map(|p| p.0);
        Ok(MatVec {
            element: one.schedule.func().buffer(&main.access.buffer).dtype,
            matrix: main.access.clone(),
            pack: packs,
            scales,
            vectors,
            outer: outer.into_iter().map(axis).collect(),
            batch: batch.into_iter().map(axis).collect(),
            rows: axis(rows),
            row_dim,
            reduce: reduce.into_iter().map(axis).collect(),
            inner,
            one,
            statistics: vec![],
        })
    }

    /// True where an element of the matrix holds several values.
    pub fn is_packed(&self) -> bool {
        self.pack > 1
    }

    /// Length of the reduction, if constant.
    pub fn length(&self) -> Option<i64> {
        size(&self.reduce)
    }

    /// Number of vectors, if constant.
    pub fn vectors_count(&self) -> Option<i64> {
        size(&self.batch)
    }

    /// Rows of all matrices, if constant.
    pub fn all_rows(&self) -> Option<i64> {
        self.rows.extent?.checked_mul(size(&self.outer)?)
    }

    /// Elements of the matrix that lie side by side along the reduction (or, where the rows are
    /// contiguous, along these).
    pub fn run(&self) -> Option<i64> {
        if !self.inner {
            return self.rows.extent;
        }
        let last = self.reduce.last()?.extent?;
        let all = if self.reduce.len() == 1 { last } else { self.contiguous_reduction()? };
        Some((all + self.pack - 1) / self.pack)
    }

    fn contiguous_reduction(&self) -> Option<i64> {
        let block = find_block(self.one.schedule.func(), &self.one.chain.block);
        let iter = |e: &Expr| block.iters.iter().find(|i| e.as_var() == Some(&i.var));
        let mut run = 1i64;
        for index in self.matrix.indices.iter().rev() {
            match iter(index) {
                Some(i) if i.kind == IterKind::Reduce => run = run.checked_mul(i.extent.as_int()?)?,
                _ => break,
            }
        }
        Some(run)
    }

    /// The loop below `at` that walks over the rows of the product in `block`, which is the reduction or
    /// reads its result: in registers, or in memory where other kernels want it too.
    pub fn row_loop(&self, s: &Schedule, block: &Name, at: &Name) -> Option<Name> {
        let facts = Facts::of(s.func());
        let result = facts.block(&self.one.chain.block)?.writes.first()?;
        let own = facts.block(block)?;
        let all = if *block == self.one.chain.block { &own.writes } else { &own.reads };
        let kept = self.one.facts.writes.first()?;
        let access = all.iter().find(|a| a.buffer == result.buffer || a.buffer == kept.buffer)?;
        let var = access.indices.get(self.row_dim?)?;
        let iter = own.iters.iter().find(|i| var.uses_var(&i.var))?;
        loops_below(s, block, at).into_iter().find(|l| iter.binding.uses_var(l))
    }

    /// Bytes of the matrices, if constant.
    pub fn matrix_bytes(&self) -> Option<i64> {
        let values = self.all_rows()?.checked_mul(self.length()?)?;
        (values / self.pack).checked_mul(self.element.bytes() as i64)
    }

    /// Bytes of the vectors that one product reads, if constant.
    pub fn vector_bytes(&self) -> Option<i64> {
        bytes_of(&self.one.schedule, &self.vectors, self.length()?.checked_mul(self.vectors_count()?))
    }

    /// Bytes of one of them.
    pub fn bytes_of_one(&self) -> Option<i64> {
        bytes_of(&self.one.schedule, &self.vectors, self.length())
    }

    /// Declines a matrix with one value in an element.
    pub fn packed(&self, ask: &Ask) -> Result<(), Decline> {
        if self.is_packed() {
            return Ok(());
        }
        Err(ask.no("packed_matrix", format!("tensor `{}` holds one value per element", self.matrix.buffer)))
    }

    /// Declines a matrix whose contiguous axis is reduced.
    pub fn strided(&self, ask: &Ask) -> Result<(), Decline> {
        if !self.inner {
            return Ok(());
        }
        Err(ask.no("strided_reduction", "the axis contiguous in the matrix is reduced"))
    }

    /// Declines many vectors.
    pub fn few_vectors(&self, ask: &Ask) -> Result<(), Decline> {
        match self.vectors_count() {
            Some(n) if n > MOST_VECTORS => {
                Err(ask.no("few_vectors", format!("{n} vectors are more than {MOST_VECTORS}")))
            }
            _ => Ok(()),
        }
    }
}

fn follows<'a>(red: &'a BlockFacts, block: &Block) -> Result<Vec<Follow<'a>>, String> {
    let written: Vec<&Name> = red.writes.iter().map(|w| &w.buffer).collect();
    let reads = red.reads.iter().filter(|a| !written.contains(&&a.buffer));
    reads
        .map(|a| Follow::of(a, block).ok_or_else(|| format!("tensor `{}` is not indexed by axes or groups", a.buffer)))
        .collect()
}

/// A scale is the same for all vectors.
fn is_scale(r: &Follow, batch: &[usize]) -> bool {
    batch.iter().all(|i| !r.follows(*i))
}

/// Of the tensors that every reduction axis indexes the one that packs values in integers. Where none does, of
/// those that every long axis indexes the one with the fewest values per element; else the largest of constant
/// size.
fn matrix(reads: &[Follow], block: &Block, func: &PrimFunc) -> Option<usize> {
    let of_kind =
        |reduce: bool| (0..block.iters.len()).filter(move |i| (block.iters[*i].kind == IterKind::Reduce) == reduce);
    let group = |r: &Follow| r.at.iter().flatten().map(|p| p.1).product::<i64>();
    let packed = |r: &Follow| group(r) > 1 && func.buffer(&r.access.buffer).dtype.is_int();
    let reduces = |r: &Follow| of_kind(true).all(|i| r.follows(i));
    let all = reads.iter().enumerate().filter(|(_, r)| reduces(r));
    if let Some((n, _)) = all.clone().filter(|(_, r)| packed(r)).min_by_key(|(_, r)| group(r)) {
        return Some(n);
    }
    let candidates: Vec<(usize, &Follow)> = all.filter(|(_, r)| of_kind(false).any(|i| r.follows(i))).collect();
    let long = |i: &usize| !block.iters[*i].extent.is_int(1);
    let whole = candidates.iter().filter(|(_, r)| of_kind(false).filter(long).all(|i| r.follows(i)));
    let whole = whole.min_by_key(|(_, r)| group(r)).map(|(n, _)| *n);
    let sized = candidates.iter().filter_map(|(n, r)| Some((*n, r.elements(block)?)));
    whole.or_else(|| sized.max_by_key(|(_, size)| *size).map(|(n, _)| n))
}
