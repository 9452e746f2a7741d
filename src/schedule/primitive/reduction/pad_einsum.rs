//! Rounds the iterators of a sum of products up to multiples; what is staged for it is padded with zeros.
//!
//! ```text
//! for ax0 in 5, ax1 in 7:                            for ax0 in 8, ax1 in 8:
//!     b0_left_b: b0_left[w0, w1] = A[w0, w1]             b0_left_b: b0_left[w0, w1] =
//! for i in 5, j in 6, k in 7:               ->               A[w0, w1] if w0 < 5 and w1 < 7 else 0
//!     b0: t[v0, v1] += b0_left[v0, v2] * ...         for i in 8, j in 8, k in 8:
//! for ax0 in 5, ax1 in 6:                                b0: t[v0, v1] += b0_left[v0, v2] * ...
//!     C[w0, w1] = t[w0, w1]                          for ax0 in 5, ax1 in 6:
//!                                                        C[w0, w1] = t[w0, w1]
//!                        pad_einsum(b0, [8, 8, 8])
//! ```
//!
//! Preconditions: `block_exists`; `one_multiple_each`: a positive multiple for each iterator;
//! `sum_of_products`; `no_guard`, `own_loops`, `serial_loop`, `no_annotations`, `zero_min` for the block and
//! for those that stage its factors; `staged_factors`: both factors are loads at iterators, each of an
//! intermediate that one element-wise block writes for this block alone; `staged_result`: the result is an
//! intermediate at iterators, which no other block writes; `grows_in_place`: an iterator that grows is an
//! index of the result or, where it is reduced, of a factor.
//!
//! Effect: extents and the intermediates' shapes grow; the staging blocks write zeros beyond the old
//! extents, so that what is added there is zero; readers of the result stay inside the old extents.

use crate::analysis::{self, Ranges};
use crate::ir::{BinOp, Block, Expr, ExprKind, For, IterKind, IterVar, Name, Stmt};
use crate::schedule::help::inline::{iterator_indices, point};
use crate::schedule::help::span::cast;
use crate::schedule::help::{checks, guards, nest, query, regions, tree};
use crate::schedule::primitive::cache::reindex::sum_of_products;
use crate::schedule::primitive::layout::transform_block_layout::own_chain;
use crate::schedule::{Draft, Failure};
use std::collections::BTreeMap;

pub fn apply(d: &mut Draft, block: &Name, multiples: &[i64]) -> Result<(), Failure> {
    let old = d.find_block(block)?.clone();
    let fits = multiples.len() == old.iters.len() && multiples.iter().all(|n| *n > 0);
    Failure::unless(fits, "one_multiple_each", block, || {
        format!("it has {} iterators; give each a positive multiple", old.iters.len())
    })?;
    checks::no_guard(&old)?;
    let reducer = sum_of_products(d, &old)?;
    own_chain(d, &old)?;
    let ranges = Ranges::of_func(&d.func);
    let grown: BTreeMap<Name, Expr> =
        old.iters.iter().zip(multiples).map(|(it, n)| (it.var.clone(), rounded_up(&it.extent, *n, &ranges))).collect();
    let factors = analysis::factors(&reducer.term).map_or(vec![], |f| f.map(|e| analysis::narrow(&e)).to_vec());
    let mut stages = vec![];
    for value in &factors {
        stages.push(stage(d, &old, value)?);
    }
    let result = result(d, &old, &reducer.buffer)?;
    let factors: Vec<&Places> = stages.iter().map(|(_, at)| at).collect();
    check_growth(&old, &grown, &result, &factors)?;
    for (stage, at) in stages {
        pad_stage(d, &old, stage, &at, &grown, &ranges);
    }
    grow_buffer(d, &reducer.buffer, &result, &grown);
    grow_block(d, &old, &old.iters.iter().map(|it| grown[&it.var].clone()).collect::<Vec<_>>(), None);
    Ok(())
}

/// Fails unless what is added by the new iterations has a place of its own, or is zero.
fn check_growth(
    block: &Block,
    grown: &BTreeMap<Name, Expr>,
    result: &Places,
    factors: &[&Places],
) -> Result<(), Failure> {
    let at = |places: &Places, v: &Name| places.iter().flatten().any(|p| p == v);
    for it in block.iters.iter().filter(|it| grown[&it.var] != it.extent) {
        let ok = match it.kind {
            IterKind::Reduce => factors.iter().any(|f| at(f, &it.var)),
            _ => at(result, &it.var),
        };
        Failure::unless(ok, "grows_in_place", &block.name, || {
            format!("`{}` grows, but chooses no element of what would tell its new steps from the old ones", it.var)
        })?;
    }
    Ok(())
}

fn rounded_up(extent: &Expr, multiple: i64, ranges: &Ranges) -> Expr {
    let n = |value| Expr::int(value, extent.dtype());
    if multiple == 1 {
        return extent.clone();
    }
    let steps = Expr::binary(BinOp::FloorDiv, extent.clone() + n(multiple - 1), n(multiple));
    analysis::simplify(&(steps * n(multiple)), ranges)
}

/// The iterators of the block at which it reads or writes an intermediate; `None` for a constant index.
type Places = Vec<Option<Name>>;

/// The block that makes a factor, and where the product reads it.
fn stage(d: &Draft, old: &Block, value: &Expr) -> Result<(Block, Places), Failure> {
    let fail = |why: String| Failure::new("staged_factors", &old.name, why);
    let ExprKind::Load { buffer, indices, .. } = value.kind() else {
        return Err(fail("a factor is computed in the block; stage it with reindex".to_string()));
    };
    if d.func.is_param(buffer) {
        return Err(fail(format!("it reads parameter `{buffer}`; stage it with reindex")));
    }
    let at = places(old, indices).ok_or_else(|| fail(format!("it does not read `{buffer}` at plain iterators")))?;
    let writers = query::writers(&d.func, buffer);
    let readers = query::readers(&d.func, buffer);
    let ([writer], [_]) = (writers.as_slice(), readers.as_slice()) else {
        return Err(fail(format!("`{buffer}` is not made by one block for this block alone")));
    };
    let stored = point(writer).and_then(|p| iterator_indices(writer, &p.indices));
    let plain = writer.body.len() == 1 && stored.is_ok();
    if !plain {
        return Err(fail(format!("block `{}` does not write `{buffer}` element by element", writer.name)));
    }
    checks::no_guard(writer)?;
    own_chain(d, writer)?;
    Ok(((*writer).clone(), at))
}

fn places(block: &Block, indices: &[Expr]) -> Option<Places> {
    let place = |e: &Expr| {
        let var = block.as_iter(e).map(|it| it.var.clone());
        if var.is_some() || e.as_int().is_some() { Some(var) } else { None }
    };
    indices.iter().map(place).collect()
}

fn result(d: &Draft, old: &Block, buffer: &Name) -> Result<Places, Failure> {
    let fail = |why: String| Failure::new("staged_result", &old.name, why);
    if d.func.is_param(buffer) {
        return Err(fail(format!("it writes parameter `{buffer}`; stage it with reindex")));
    }
    if query::writers(&d.func, buffer).len() != 1 {
        return Err(fail(format!("other blocks write `{buffer}` too")));
    }
    let stored = regions::store_indices(old, buffer);
    let [indices] = stored.as_slice() else { return Err(fail(format!("it writes several elements of `{buffer}`"))) };
    places(old, indices).ok_or_else(|| fail(format!("it does not write `{buffer}` at plain iterators")))
}

/// Lets a staging block write zeros beyond what it wrote.
fn pad_stage(d: &mut Draft, old: &Block, stage: Block, at: &Places, grown: &BTreeMap<Name, Expr>, ranges: &Ranges) {
    let Some(Stmt::Store { buffer, indices, value }) = stage.body.last().cloned() else { return };
    grow_buffer(d, &buffer, at, grown);
    let mut extents: Vec<Expr> = stage.iters.iter().map(|it| it.extent.clone()).collect();
    let mut inside = vec![];
    for (index, place) in indices.iter().zip(at) {
        let own = stage.iters.iter().position(|it| index.as_var() == Some(&it.var));
        let (Some(k), Some(var)) = (own, place) else { continue };
        let it: &IterVar = &stage.iters[k];
        let to = &grown[var];
        let beyond = old.iters.iter().any(|o| o.var == *var && o.extent != *to);
        if beyond {
            inside.push(guards::less(&it.var_expr(), &it.extent));
            extents[k] = cast(it.dtype, to);
        }
    }
    let padded = guards::conjoin(inside).map(|cond| {
        let zero = Expr::constant(0.0, value.dtype());
        Expr::new(ExprKind::IfThenElse { cond: analysis::simplify(&cond, ranges), then: value, otherwise: zero })
    });
    grow_block(d, &stage, &extents, padded);
}

fn grow_buffer(d: &mut Draft, buffer: &Name, at: &Places, grown: &BTreeMap<Name, Expr>) {
    for b in d.func.buffers.iter_mut().filter(|b| b.name == *buffer) {
        for (extent, place) in b.shape.iter_mut().zip(at) {
            if let Some(to) = place.as_ref().and_then(|v| grown.get(v)) {
                *extent = cast(extent.dtype(), to);
            }
        }
    }
}

/// Gives a block's iterators and their loops new extents, and its last store a new value. An iterator of
/// one value, which needs no loop, gets one right around the block when it grows.
fn grow_block(d: &mut Draft, block: &Block, extents: &[Expr], value: Option<Expr>) {
    let mut bindings: Vec<Expr> = block.iters.iter().map(|it| it.binding.clone()).collect();
    let mut loops = vec![];
    for ((it, extent), binding) in block.iters.iter().zip(extents).zip(&mut bindings) {
        if let Some(l) = it.binding.as_var() {
            tree::edit_loop(&mut d.func, l, |l| l.extent = cast(l.dtype, extent));
        } else if it.extent != *extent {
            let new = For::serial(d.fresh("u"), cast(it.dtype, extent), vec![]);
            *binding = new.var_expr();
            loops.push(new);
        }
    }
    tree::replace(&mut d.func, &block.name, |b| vec![nest::around(loops, b)]);
    tree::edit_block(&mut d.func, &block.name, |b| {
        b.regions = None;
        b.iters.iter_mut().zip(extents).for_each(|(it, extent)| it.extent = extent.clone());
        b.iters.iter_mut().zip(bindings).for_each(|(it, binding)| it.binding = binding);
        if let (Some(Stmt::Store { value: old, .. }), Some(new)) = (b.body.last_mut(), value) {
            *old = new;
        }
    });
}
