//! `gemv.quant` and `low_batch_gemv.inner`: products of a matrix whose contiguous axis is reduced with one
//! or few vectors, on a GPU: y[m, n] = sum_k W[n, k] x[m, k].
//!
//! When: a sum; injective producers (inlined: dequantisation is one) and an elementwise epilogue or none.
//! The first form takes one vector and a matrix that packs several values of k in one element (int4 and
//! int3 in uint32, with scales per group of k); the second takes 2 to 16 vectors, or a number that is not
//! constant, and any matrix.
//! How: a group of lanes strides a row in loads of 16 bytes; several rows per thread share each load of the
//! vectors, and all vectors of a block each load of the matrix, which is thus read from memory once. Sums
//! are kept in registers in float32 and meet by shuffles; packed values may be multiplied and added two at a
//! time in float16 where the function adds in float16, up to what shares a scale. A scale that is the same along a vector of
//! packed values multiplies their sum.
//! Above eight vectors of 16-bit numbers a GPU is bound by issue slots rather than by memory: rules for
//! tensor cores take these functions too.
//! Declines: `target_kind`, the predicates of [`MatVec::of`], `contiguous_reduction`, `one_vector` and
//! `packed_matrix`, or `few_vectors`.

use super::outline;
use super::staging::{current_read, share};
use crate::analysis::Decline;
use crate::ir::{DType, IterKind, Name, Scope, ThreadTag};
use crate::rules::find::matvec::{MOST_VECTORS, MatVec};
use crate::rules::parts::*;
use crate::rules::space::limits::{block_fits, keeps_busy, lanes, registers_fit, step_fits, vector_fits};
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// One vector and a packed matrix.
pub struct GemvQuant;

/// Few vectors.
pub struct LowBatchInner;

const QUANT: &str = "gemv.quant";
const LOW_BATCH: &str = "low_batch_gemv.inner";
/// Blocks of the second axis of a grid at most.
const MOST_BLOCKS: i64 = 65535;

impl ScheduleRule for GemvQuant {
    fn name(&self) -> &'static str {
        QUANT
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let p = one_vector(input, target)?;
        let no_pairs = no_pairs(&p);
        let space = space(spaces.space(QUANT, target), &p, target);
        Ok(space.require("products_in_pairs", move |k| match (k.get("products"), &no_pairs) {
            (1, Some(why)) => Err(why.clone()),
            _ => Ok(()),
        }))
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let p = accepted(one_vector(input, target));
        schedule(&p, knobs)
    }
}

impl ScheduleRule for LowBatchInner {
    fn name(&self) -> &'static str {
        LOW_BATCH
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let p = few_vectors(input, target)?;
        let count = p.vectors_count();
        let space = space(spaces.space(LOW_BATCH, target), &p, target);
        let space = space.require("vectors_exist", move |k| match count {
            Some(n) if k.get("batch") >= 2 * n => Err(format!("{} vectors at a time of {n}", k.get("batch"))),
            _ => Ok(()),
        });
        let (rows, several) = (p.all_rows(), p.batch.iter().filter(|a| a.extent != Some(1)).count() > 1);
        let space = space.require("vectors_of_one_axis", move |k| match count {
            Some(n) if k.get("batch") >= n => Ok(()),
            _ if several => Err("vectors along several axes are taken all at a time".into()),
            _ => Ok(()),
        });
        let space = space.require("blocks_per_axis", move |k| match (count, rows) {
            (Some(n), _) if k.get("batch") >= n => Ok(()),
            (_, Some(n)) if n <= MOST_BLOCKS * k.get("groups") * k.get("rows") => Ok(()),
            _ => Err(format!("the rows make more than {MOST_BLOCKS} blocks on the second axis of the grid")),
        });
        let space = space.prefer("matrix_read_once", move |k| match count {
            Some(n) if k.get("batch") < n => Err(format!("{} vectors at a time of {n}", k.get("batch"))),
            _ => Ok(()),
        });
        Ok(space.prefer("accumulators", |k| match k.get("rows") * k.get("batch") {
            n if n <= 64 => Ok(()),
            n => Err(format!("{n} accumulators per thread exceed 64")),
        }))
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let p = accepted(few_vectors(input, target));
        schedule(&p, knobs)
    }
}

fn contiguous(by: &'static str, input: &Prepared, target: &Target) -> Result<MatVec, Decline> {
    for_kind(by, Kind::Cuda, target)?;
    let no = |predicate, reason: String| Decline { by, predicate, reason };
    let p = MatVec::of(by, input)?;
    if !p.inner {
        return Err(no("contiguous_reduction", "the axis contiguous in the matrix is not reduced".into()));
    }
    Ok(p)
}

fn one_vector(input: &Prepared, target: &Target) -> Result<MatVec, Decline> {
    let no = |predicate, reason: String| Decline { by: QUANT, predicate, reason };
    let p = contiguous(QUANT, input, target)?;
    if !p.batch.is_empty() {
        return Err(no("one_vector", "the matrix is multiplied with several vectors".into()));
    }
    if !p.is_packed() {
        return Err(no("packed_matrix", format!("tensor `{}` holds one value per element", p.matrix.buffer)));
    }
    Ok(p)
}

fn few_vectors(input: &Prepared, target: &Target) -> Result<MatVec, Decline> {
    let no = |reason: String| Decline { by: LOW_BATCH, predicate: "few_vectors", reason };
    let p = contiguous(LOW_BATCH, input, target)?;
    match p.vectors_count() {
        _ if p.batch.is_empty() => Err(no("the matrix is multiplied with one vector".into())),
        Some(n) if n > MOST_VECTORS => Err(no(format!("{n} vectors are more than {MOST_VECTORS}"))),
        _ => Ok(p),
    }
}

/// Why products may not be added two at a time in float16, if they may not.
fn no_pairs(p: &MatVec) -> Option<String> {
    let wide = |name: &Name| p.schedule.func().buffer(name).dtype != DType::F16;
    let sums = p.result().filter(wide).map(|b| format!("`{b}` is wider than float16"));
    let vector = p.vectors.iter().map(|a| &a.buffer).find(|b| wide(b)).map(|b| format!("`{b}` is not float16"));
    let partners = (p.element != DType::U32 || 16 % p.pack != 0 || p.pack < 4)
        .then(|| format!("of {} values in {} none has a partner 16 bits above", p.pack, p.element));
    sums.or(vector).or(partners)
}

/// Vectors that a thread works on at a time.
fn batch(p: &MatVec, k: &Knobs) -> i64 {
    let most = p.vectors_count().unwrap_or(i64::MAX);
    k.find("batch").unwrap_or(1).min(most)
}

/// The conditions that both forms share.
fn space(space: Space, p: &MatVec, target: &Target) -> Space {
    const THREADS: &[&str] = &["threads", "groups"];
    let (element, pack, rows, length) = (p.element, p.pack, p.rows.extent, p.length());
    let space = block_fits(space, target, THREADS);
    let space = vector_fits(space, "vector", element, p.run());
    let values = move |k: &Knobs| lanes(k.get("vector"), element) * pack;
    let vectors = p.vectors_count();
    let batch = move |k: &Knobs| k.find("batch").unwrap_or(1).min(vectors.unwrap_or(i64::MAX));
    let space = registers_fit(space, target, THREADS, 28, move |k| {
        let vectors = if k.get("stage") == 0 { batch(k) * values(k) * 2 } else { 0 };
        k.get("unroll") * (k.get("rows") * k.get("vector") + vectors) + 4 * k.get("rows") * batch(k)
    });
    let in_flight = |k: &Knobs| k.get("unroll") * k.get("rows") * k.get("vector");
    let space = keeps_busy(space, target, THREADS, p.matrix_bytes(), in_flight);
    let space = space.prefer("block_size", |k| match k.get("threads") * k.get("groups") {
        64..=512 => Ok(()),
        n => Err(format!("blocks of {n} threads where 64 to 512 are best")),
    });
    let space = step_fits(space, length, move |k| k.get("threads") * k.get("unroll") * values(k));
    let space = space.require("rows_fit", move |k| match (k.get("groups") * k.get("rows"), rows) {
        (all, Some(n)) if all > n => Err(format!("{all} rows per block of {n} rows in all")),
        _ => Ok(()),
    });
    let space = space.prefer("loads_in_flight", move |k| {
        let n = k.get("rows") * k.get("unroll") * values(k);
        if n <= 256 { Ok(()) } else { Err(format!("{n} values per thread and step exceed 256")) }
    });
    let (bytes, limit) = (vector_bytes(p), target.smem_per_block as i64);
    let space = space.require("vector_in_shared", move |k| match (k.get("stage"), bytes) {
        (0, _) => Ok(()),
        (_, Some(n)) if n * batch(k) <= limit => Ok(()),
        (_, Some(n)) => Err(format!("{} bytes of vectors exceed the {limit} of shared memory", n * batch(k))),
        (_, None) => Err("the vectors have no constant size".into()),
    });
    let space = space.prefer("vector_leaves_shared", move |k| match (k.get("stage"), bytes) {
        (1, Some(n)) if n * batch(k) > 64 << 10 => Err(format!("{n} bytes per vector leave room for few blocks")),
        _ => Ok(()),
    });
    match outline::Sizes::of(p) {
        Some(sizes) => space.outlined(move |k| outline::inner(&sizes, batch(k), k)),
        None => space,
    }
}

/// Bytes of one vector (of each tensor shared by rows).
fn vector_bytes(p: &MatVec) -> Option<i64> {
    let length = p.length()?;
    let size = |b: &Name| p.schedule.func().buffer(b).dtype.bytes() as i64;
    p.vectors.iter().try_fold(0i64, |n, a| n.checked_add(length.checked_mul(size(&a.buffer))?))
}

fn schedule(p: &MatVec, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
    let (threads, groups, rows) = (knobs.get("threads"), knobs.get("groups"), knobs.get("rows"));
    let mut s = p.schedule.clone();
    let row_axis = [p.rows.clone()];
    order_axes(&mut s, &[&p.outer, &row_axis, &p.batch, &p.reduce])?;
    let outer = if p.outer.is_empty() { None } else { Some(fuse_all(&mut s, &p.outer)?) };
    let vectors = if p.batch.is_empty() { None } else { Some(fuse_all(&mut s, &p.batch)?) };
    let k = fuse_all(&mut s, &p.reduce)?;
    let n = s.split(&p.rows.at, &[None, Some(groups), Some(rows)])?;
    let m = match &vectors {
        Some(m) => s.split(m, &[None, Some(batch(p, knobs))])?,
        None => vec![],
    };
    let words = lanes(knobs.get("vector"), p.element);
    let width = words * p.pack;
    let ks = s.split(&k, &[None, Some(knobs.get("unroll")), Some(threads), Some(width)])?;
    let ([nb, ny, nr], [ko, ku, kt, kv]) = (&n[..], &ks[..]) else { panic!("split gives one loop per factor") };
    let rf = s.rfactor(kt, 0)?;
    let partial = output(&s, &rf);
    let tiles = m.first().filter(|m| loop_extent(&s, m) != Some(1)).cloned();
    let blocks: Vec<Name> =
        [outer, m.first().filter(|_| tiles.is_none()).cloned(), Some(nb.clone())].into_iter().flatten().collect();
    let mut order: Vec<Name> = tiles.iter().cloned().collect();
    order.extend(blocks.clone());
    order.extend([ny, kt, ko, ku, nr].map(|l| l.clone()));
    order.extend(m.get(1).cloned());
    order.push(kv.clone());
    s.reorder(&order)?;
    let grid = if blocks.len() > 1 { s.fuse(&blocks)? } else { nb.clone() };
    match &tiles {
        // Blocks that read the same rows for other vectors run side by side.
        Some(tiles) => {
            s.bind(tiles, ThreadTag::BlockX)?;
            s.bind(&grid, ThreadTag::BlockY)?;
        }
        None => s.bind(&grid, ThreadTag::BlockX)?,
    }
    s.bind(ny, ThreadTag::ThreadY)?;
    s.bind(kt, ThreadTag::ThreadX)?;
    launch_bounds(&mut s, &grid, knobs.get("min_blocks"))?;
    if knobs.get("stage") == 1 {
        for read in &p.vectors {
            share(&mut s, &rf, &read.buffer, &grid, [groups, threads])?;
        }
    }
    for read in &p.vectors {
        let buffer = current_read(&s, &rf, &read.buffer);
        stage_read(&mut s, &rf, &buffer, ku, width, 0)?;
    }
    stage_read(&mut s, &rf, &p.matrix.buffer, nr, words, knobs.get("hint"))?;
    for (read, group) in &p.scales {
        stage_read(&mut s, &rf, &read.buffer, nr, (width / group).max(1), 0)?;
    }
    batch_loads(&mut s, ku)?;
    batch_loads(&mut s, nr)?;
    if let Some(mi) = m.get(1) {
        unroll_loop(&mut s, mi)?;
    }
    unroll_loop(&mut s, kv)?;
    let init = s.decompose_reduction(&rf, ko)?;
    for l in loops_below(&s, &init, kt) {
        unroll_loop(&mut s, &l)?;
    }
    leaf(&mut s, p, kv, knobs)?;
    s.set_scope(&partial, Scope::Local)?;
    finish_rows(&mut s, p, &grid, [groups, rows])?;
    Ok(s)
}

/// What the innermost loop is: a product of registers, or of registers and packed values.
fn leaf(s: &mut Schedule, p: &MatVec, kv: &Name, knobs: &Knobs) -> Result<(), ScheduleError> {
    match (p.is_packed(), knobs.find("products")) {
        (false, _) => product_leaf(s, kv),
        (true, Some(1)) => unpack_pairs_leaf(s, kv),
        (true, _) => unpack_leaf(s, kv),
    }
}

/// Brings the sum across `threadIdx.x` and what follows it under the block loop; each thread keeps the rows
/// that it summed, for each of its vectors.
fn finish_rows(s: &mut Schedule, p: &MatVec, grid: &Name, shape: [i64; 2]) -> Result<(), ScheduleError> {
    let tails = tails(s, &p.block, &p.epilogues)?;
    s.reverse_compute_at(&p.block, grid)?;
    bind_rows(s, p, &p.block, grid, shape)?;
    for l in loops_of_kind(s, &p.block, grid, IterKind::Reduce) {
        s.bind(&l, ThreadTag::ThreadX)?;
    }
    for tail in &tails {
        s.reverse_compute_at(tail, grid)?;
        bind_rows(s, p, tail, grid, shape)?;
    }
    keep_in_registers(s, &p.block)
}

fn bind_rows(s: &mut Schedule, p: &MatVec, block: &Name, grid: &Name, shape: [i64; 2]) -> Result<(), ScheduleError> {
    let [groups, rows] = shape;
    let own = p.row_loop(s, block, grid);
    for l in loops_of_kind(s, block, grid, IterKind::Spatial) {
        if own.as_ref() != Some(&l) {
            unroll_loop(s, &l)?;
        }
    }
    let Some(row) = own else { return Ok(()) };
    if rows == 1 {
        return s.bind(&row, ThreadTag::ThreadY);
    }
    let parts = s.split(&row, &[Some(groups), Some(rows)])?;
    s.bind(&parts[0], ThreadTag::ThreadY)?;
    unroll_loop(s, &parts[1])
}
