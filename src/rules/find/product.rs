//! What the rules for matrix products ask of a function once producers are inlined: one sum of
//! products of two factors, which iterators each factor uses, and how the factors lie in memory.
//!
//! ```text
//! C[b, m, n] += float32(x[b, m, k]) * float32((q[n, k // 8] >> ...) * scale[n, k // 32])
//!                       A: float16, S = b, I = m, K = k, contiguous along K
//!                                             B: float16, S = none, J = n, K = k, contiguous along K
//! ```
//!
//! An iterator that both factors and the output use is a batch (S); one that only one factor uses is
//! a row (I) or a column (J); what is reduced is K. The columns are those iterators of which one lies
//! contiguous in the output, so that neighbouring threads write neighbouring elements.
//!
//! A factor is any expression: a load, a dequantised weight, the padded window of a convolution.
//!
//! Declines: `Product::of`: `one_reduction`, `known_reducer`, `sum_reducer`, `reduction_axis`, `product_term`,
//! `elementwise_epilogue`.

use super::factor::Factor;
use super::shape::{find_block, whole};
use crate::analysis::{BlockFacts, Combiner, Decline, Ranges, factors, linear};
use crate::ir::{Block, Buffer, DType, Expr, IterKind, IterVar, Name, PrimFunc};
use crate::rules::Ask;
use crate::rules::parts::{approximate, keep_float32, output};
use crate::schedule::{Operand, Schedule};

/// A block after the reduction.
#[derive(Clone, Debug)]
pub struct Tail {
    /// The block.
    pub block: Name,
    /// Its iterators, each with the one of the reduction that it follows.
    pub follows: Vec<(Name, Name)>,
}

/// A function that is one sum of products after inlining.
#[derive(Clone)]
pub struct Product {
    /// The schedule that the rule goes on from: what may be inlined is.
    pub schedule: Schedule,
    /// The reduction block.
    pub block: Name,
    /// The type in which the function accumulates.
    pub dtype: DType,
    /// The product itself is wanted, because nothing follows it, it is a result, or other kernels read it.
    pub kept: bool,
    /// Spatial blocks that follow, each over the elements of the ones before; the last writes the result.
    pub epilogue: Vec<Tail>,
    /// The factor of the rows.
    pub a: Factor,
    /// The factor of the columns.
    pub b: Factor,
    /// Iterators of both factors and of the output, and those of neither factor.
    pub batch: Vec<IterVar>,
    /// Iterators of the output that only A uses. Empty for the product of a vector with a matrix.
    pub rows: Vec<IterVar>,
    /// Iterators of the output that only B uses. Empty for the product of a matrix with a vector.
    pub columns: Vec<IterVar>,
    /// Reduced iterators.
    pub depth: Vec<IterVar>,
}

impl Product {
    /// Classifies, or says by name why the function is no sum of products.
    ///
    /// # Errors
    /// The first predicate that does not hold.
    pub fn of(ask: &Ask) -> Result<Product, Decline> {
        let mut schedule = ask.start.clone();
        let own: Vec<&BlockFacts> = ask.facts.blocks.iter().filter(|b| ask.owns(&b.name)).collect();
        let reductions: Vec<&BlockFacts> = own.iter().copied().filter(|b| b.is_reduction).collect();
        let [red] = reductions[..] else {
            return Err(ask.no("one_reduction", format!("{} reduction blocks after inlining", reductions.len())));
        };
        let unknown = || ask.no("known_reducer", format!("`{}` is not X = X op term", red.name));
        let reducer = red.reducer.as_ref().ok_or_else(unknown)?;
        if reducer.combiner != Combiner::Sum {
            return Err(ask.no("sum_reducer", "the reduction is not a sum"));
        }
        let block = find_block(schedule.func(), &red.name);
        if !block.iters.iter().any(|i| i.kind == IterKind::Reduce) {
            return Err(ask.no("reduction_axis", "no axis longer than 1 is reduced"));
        }
        let terms = factors(&reducer.term)
            .ok_or_else(|| ask.no("product_term", "what is summed is not a product of two factors"))?;
        let others: Vec<&BlockFacts> = own.into_iter().filter(|b| !b.is_reduction).collect();
        let (epilogue, last) =
            check_chain(&schedule, red, &others).map_err(|reason| ask.no("elementwise_epilogue", reason))?;
        let order = by_place(&schedule, red, &block, &last);
        let classes = Classes::of(&order, &terms);
        let [left, right] = terms;
        let [first, second] = [(Operand::Left, left, classes.first), (Operand::Right, right, classes.second)];
        let ((a_side, a, rows), (b_side, b, columns)) =
            if classes.inner_is_first { (second, first) } else { (first, second) };
        let depth: Vec<IterVar> = block.iters.iter().filter(|i| i.kind == IterKind::Reduce).cloned().collect();
        let read = |side: Operand, value: &Expr, free: &[IterVar], depth: &[IterVar]| {
            Factor::of(schedule.func(), (side, value), free, depth, &red.ranges)
        };
        let both = |depth: &[IterVar]| (read(a_side, &a, &rows, depth), read(b_side, &b, &columns, depth));
        let (unordered_a, unordered_b) = both(&depth);
        let depth = depth_order(depth, [&unordered_a, &unordered_b]);
        let (a, b) = both(&depth);
        let output = &reducer.buffer;
        let is_tail = |b: &Name| epilogue.iter().any(|t| t.block == *b);
        epilogue.iter().for_each(|t| keep_float32(&mut schedule, &t.block, None));
        approximate(&mut schedule, ask.target, epilogue.iter().map(|t| &t.block));
        let read_elsewhere = schedule.readers(output).iter().any(|b| *b != red.name && !is_tail(b));
        Ok(Product {
            kept: epilogue.is_empty() || schedule.func().is_param(output) || read_elsewhere,
            block: red.name.clone(),
            dtype: reducer.dtype,
            epilogue,
            a,
            b,
            batch: classes.both,
            rows,
            columns,
            depth,
            schedule,
        })
    }

    /// The product with one iterator of at least `least` rows, the others as batches, where a tensor map then describes
    /// their factor and did not before: heads that share keys, whose queries lie one after the other, head by head.
    pub fn with_boxed_rows(&self, ask: &Ask, least: i64) -> Option<Product> {
        if self.a.boxed || !self.a.plain || self.rows.len() < 2 {
            return None;
        }
        let red = ask.facts.blocks.iter().find(|b| b.name == self.block)?;
        let [left, right] = factors(&red.reducer.as_ref()?.term)?;
        let value = if self.a.operand == Operand::Left { left } else { right };
        let of = |rows: &[IterVar]| {
            Factor::of(self.schedule.func(), (self.a.operand, &value), rows, &self.depth, &red.ranges)
        };
        let enough = |i: &&IterVar| i.extent.as_int().is_some_and(|n| n >= least);
        let (row, a) = self.rows.iter().rev().filter(enough).find_map(|i| {
            let a = of(std::slice::from_ref(i));
            a.boxed.then(|| (i.clone(), a))
        })?;
        let others = self.rows.iter().filter(|i| i.var != row.var);
        Some(Product { a, batch: self.batch.iter().chain(others).cloned().collect(), rows: vec![row], ..self.clone() })
    }

    /// The number of iterations of the classes S, I, J, K, each if constant; 1 for an empty one.
    pub fn extents(&self) -> [Option<i64>; 4] {
        let extent = |class: &[IterVar]| class.iter().try_fold(1i64, |n, i| n.checked_mul(i.extent.as_int()?));
        [&self.batch, &self.rows, &self.columns, &self.depth].map(|class| extent(class))
    }

    /// Blocks that write results of the product.
    pub fn results(&self) -> usize {
        self.epilogue.len() + usize::from(self.kept)
    }

    /// What the last block writes.
    pub fn result(&self) -> &Buffer {
        let last = self.epilogue.last().map_or(&self.block, |t| &t.block);
        self.schedule.func().buffer(&output(&self.schedule, last))
    }

    /// The type of that.
    pub fn result_dtype(&self) -> DType {
        self.result().dtype
    }

    /// Declines products with a vector.
    pub fn of_matrices(&self, ask: &Ask) -> Result<(), Decline> {
        if !self.rows.is_empty() && !self.columns.is_empty() {
            return Ok(());
        }
        let reason = "one factor has no axis of its own: it is a product with a vector";
        Err(ask.no("rows_and_columns", reason))
    }

    /// The same product with its factors in the other order: columns are rows.
    pub fn turned(self) -> Product {
        Product { a: self.b, b: self.a, rows: self.columns, columns: self.rows, ..self }
    }

    /// The names of the iterators of the classes S, I, J, K, each in the order in which it is fused.
    pub fn groups(&self) -> [Vec<Name>; 4] {
        [&self.batch, &self.rows, &self.columns, &self.depth].map(|c| c.iter().map(|i| i.var.clone()).collect())
    }
}

/// The iterators of the output, by the factors that use them.
struct Classes {
    both: Vec<IterVar>,
    first: Vec<IterVar>,
    second: Vec<IterVar>,
    /// True where the innermost iterator that only one factor uses is one of the first factor.
    inner_is_first: bool,
}

impl Classes {
    fn of(order: &[IterVar], [first, second]: &[Expr; 2]) -> Classes {
        let mut out = Classes { both: vec![], first: vec![], second: vec![], inner_is_first: false };
        for i in order {
            match (first.uses_var(&i.var), second.uses_var(&i.var)) {
                (true, true) | (false, false) => out.both.push(i.clone()),
                (true, false) => {
                    out.first.push(i.clone());
                    out.inner_is_first = true;
                }
                (false, true) => {
                    out.second.push(i.clone());
                    out.inner_is_first = false;
                }
            }
        }
        out
    }
}

/// The blocks after the reduction, which follow it element by element, and the offset of the last store in
/// terms of the reduction's spatial iterators.
fn check_chain(s: &Schedule, red: &BlockFacts, others: &[&BlockFacts]) -> Result<(Vec<Tail>, Expr), String> {
    let [write] = red.writes.as_slice() else { return Err(format!("block `{}` writes several elements", red.name)) };
    if write.indices.iter().any(|e| e.as_var().is_none() && e.as_int().is_none()) {
        return Err(format!("block `{}` does not write at plain axes", red.name));
    }
    let mut made = vec![(write.buffer.clone(), write.indices.clone())];
    let mut last = write.clone();
    let mut tails = vec![];
    for e in others {
        let block = find_block(s.func(), &e.name);
        if block.iters.iter().any(|i| i.kind != IterKind::Spatial) {
            return Err(format!("block `{}` is not injective", e.name));
        }
        let back = followed(s.func(), e, &block, &made)?;
        let stored: Vec<_> = e.writes.iter().map(|w| (w.buffer.clone(), renamed(&w.indices, &back))).collect();
        let Some((buffer, indices)) = stored.first() else { return Err(format!("block `{}` writes nothing", e.name)) };
        last.buffer = buffer.clone();
        last.indices = indices.clone();
        made.extend(stored);
        let follows = back.into_iter().filter_map(|(own, e)| e.as_var().map(|v| (own, v.clone()))).collect();
        tails.push(Tail { block: e.name.clone(), follows });
    }
    let buffer = s.func().find_buffer(&last.buffer).ok_or("the result has no buffer")?;
    Ok((tails, last.offset(buffer, &red.ranges)))
}

/// The iterators of a block after the reduction, as iterators of the reduction.
fn followed(
    f: &PrimFunc,
    e: &BlockFacts,
    block: &Block,
    made: &[(Name, Vec<Expr>)],
) -> Result<Vec<(Name, Expr)>, String> {
    let mut back: Vec<(Name, Expr)> = vec![];
    let mut found = false;
    for read in &e.reads {
        let Some((_, written)) = made.iter().find(|(b, _)| *b == read.buffer) else { continue };
        found = true;
        whole(f, block, read)?;
        for (index, to) in read.indices.iter().zip(written) {
            match (index.as_var(), index.as_int()) {
                (Some(v), _) => back.push((v.clone(), to.clone())),
                (None, Some(_)) => {}
                (None, None) => return Err(format!("block `{}` reads the result at computed places", e.name)),
            }
        }
    }
    if !found {
        return Err(format!("block `{}` does not read the result of the reduction", e.name));
    }
    match block.iters.iter().find(|i| !i.extent.is_int(1) && back.iter().all(|(v, _)| *v != i.var)) {
        Some(_) => Err(format!("block `{}` repeats the result along an axis of its own", e.name)),
        None => Ok(back),
    }
}

fn renamed(indices: &[Expr], back: &[(Name, Expr)]) -> Vec<Expr> {
    let value = |n: &Name| back.iter().find(|(v, _)| v == n).map(|(_, e)| e.clone());
    indices.iter().map(|e| e.subst(&value)).collect()
}

/// The spatial iterators in the order in which they lie in the result, the contiguous one last; in the
/// reduction's own order where the result's cannot be told.
fn by_place(s: &Schedule, red: &BlockFacts, block: &Block, last: &Expr) -> Vec<IterVar> {
    let spatial: Vec<IterVar> = block.iters.iter().filter(|i| i.kind == IterKind::Spatial).cloned().collect();
    let own = red.writes.first().zip(red.writes.first().and_then(|w| s.func().find_buffer(&w.buffer)));
    let own = own.map(|(w, b)| w.offset(b, &red.ranges));
    [last].into_iter().chain(&own).find_map(|offset| sorted(&spatial, offset, &red.ranges)).unwrap_or(spatial)
}

/// Sorted by stride, largest first; `None` where an iterator has no constant stride, other than those of
/// symbolic stride in the order in which they are, which come first.
fn sorted(spatial: &[IterVar], offset: &Expr, ranges: &Ranges) -> Option<Vec<IterVar>> {
    let mut keyed = vec![];
    for i in spatial {
        let (stride, _) = linear(offset, &i.var, ranges)?;
        keyed.push((stride.as_int().unwrap_or(i64::MAX), i.clone()));
    }
    keyed.sort_by_key(|(stride, _)| std::cmp::Reverse(*stride));
    Some(keyed.into_iter().map(|(_, i)| i).collect())
}

/// The reduced iterators in the order in which they lie in the factor that is contiguous along them, else
/// in the larger one's order of dimensions.
fn depth_order(depth: Vec<IterVar>, factors: [&Factor; 2]) -> Vec<IterVar> {
    let inner = factors.iter().find(|f| f.along_depth && f.order.len() == depth.len());
    let any = factors.iter().find(|f| f.order.len() == depth.len());
    match inner.or(any) {
        Some(f) => f.order.iter().filter_map(|v| depth.iter().find(|i| i.var == *v)).cloned().collect(),
        None => depth,
    }
}
