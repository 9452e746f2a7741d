//! `gemv.quant` and `low_batch_gemv.inner`: products of a matrix whose contiguous axis is reduced with one
//! or few vectors, on a GPU: y[m, n] = sum_k W[n, k] x[m, k].
//!
//! When: a sum; injective producers (inlined: dequantisation is one) and an elementwise epilogue or none.
//! The first form takes one vector and a matrix that packs several values of k in one element (int4 and
//! int3 in uint32, with scales per group of k); the second takes 2 to 16 vectors, or a number that is not
//! constant, and any matrix.
//! In the first form epilogues may want statistics of the vector too (reductions over the same axis, as a norm needs), which
//! are computed in the same loop, once for all rows of a thread; `pieces` then competes.
//! How: a group of lanes strides a row in loads of 16 bytes; several rows per thread share each load of the
//! vectors, and all vectors of a block each load of the matrix, which is thus read from memory once. Sums
//! are kept in registers in float32 and meet by shuffles; packed values may be multiplied and added two at a
//! time in float16 where the function adds in float16, up to what shares a scale. A scale that is the same along a vector of
//! packed values multiplies their sum.
//! Above eight vectors of 16-bit numbers a GPU is bound by issue slots rather than by memory: rules for
//! tensor cores take these functions too.
//! Declines: `target_kind`, the predicates of [`MatVec::of`], `contiguous_reduction`; `gemv.quant`:
//! `one_vector`, `packed_matrix`; `low_batch_gemv.inner`: `few_vectors`.
//!
//! ```text
//! gemv.quant on cuda:sm_90a
//! before: uint32 W[4096, 512], float16 X[4096]
//!         float16 O[n] += float16(bitwise_and(shift_right(W[n, k // 8], uint32(k % 8 * 4)), uint32(15))) * X[k]
//! after:  blockIdx.x 512 [min_blocks=4]:
//!           threadIdx.y 4, threadIdx.x 32:
//!             unroll 2: O_rf.local = 0
//!             loop 4, unroll 1 [batch_loads=1]:
//!               vector 32 [cache_hint=plain]: X_local = X
//!               unroll 2 [batch_loads=1]:
//!                 vector 4 [cache_hint=streaming]: W_local = W
//!                 unroll 32 [tile=unpack_pairs]: O_rf.local += W_local, X_local
//!           threadIdx.y 4, unroll 2, threadIdx.x 32: O_local += O_rf.local
//!           threadIdx.y 4, unroll 2: O = O_local
//! ```
//!
//! ```text
//! low_batch_gemv.inner on cuda:sm_90a
//! before: float16 W[4096, 4096], float16 X[8, 4096]
//!         float16 O[m, n] += W[n, k] * X[m, k]
//! after:  blockIdx.x 512 [min_blocks=4]:
//!           threadIdx.y 4, threadIdx.x 32:
//!             unroll 2, unroll 8: O_rf.local = 0
//!             loop 8, unroll 2 [batch_loads=1]:
//!               loop 8, vector 8 [cache_hint=plain]: X_local = X
//!               unroll 2 [batch_loads=1]:
//!                 vector 8 [cache_hint=streaming]: W_local = W
//!                 unroll 8, unroll 8 [tile=gemm]: O_rf.local += W_local, X_local
//!           unroll 8, threadIdx.y 4, unroll 2, threadIdx.x 32: O_local += O_rf.local
//!           unroll 8, threadIdx.y 4, unroll 2: O = O_local
//! ```

use super::lanes::{Nest, THREADS, rows_fit, streams_rows, sum_rows, vectors_fit};
use super::outline;
use super::statistic::{Beside, Cut, apart_from, blocks_first, compute_vector};
use crate::analysis::Decline;
use crate::rules::find::matvec::MatVec;
use crate::rules::parts::*;

/// One vector and a packed matrix.
pub const QUANT: Rule = Rule::new(Kind::Cuda, "gemv.quant", include_str!("../schedules/gemv.quant.toml"), quant);

/// Few vectors.
pub const LOW_BATCH: Rule =
    Rule::new(Kind::Cuda, "low_batch_gemv.inner", include_str!("../schedules/low_batch_gemv.inner.toml"), low_batch);

/// Blocks of the second axis of a grid at most.
const MOST_BLOCKS: i64 = 65535;

/// Vectors up to which pairs of float16 are faster than `matmul.stream`: with two the best is 1.11 times as fast as without
/// (N = 16), with four pairs are 0.74 and with eight 0.41 times as fast as the best besides (N = 12 and 8, drawn int4 matrices, H200).
const MOST_IN_PAIRS: i64 = 2;

struct Inner(MatVec);

fn quant(ask: &Ask) -> Answer {
    let p = contiguous(ask)?;
    if !p.batch.is_empty() {
        return Err(ask.no("one_vector", "the matrix is multiplied with several vectors"));
    }
    p.packed(ask)?;
    Ok(found(p))
}

fn low_batch(ask: &Ask) -> Answer {
    // Statistics of several vectors cost more than a kernel of their own: 24.7 us where the product takes 14.2 alone
    // (8 x 6144 x 4096 bfloat16, H200).
    let p = inner(ask, MatVec::of(ask)?)?;
    if p.batch.is_empty() {
        return Err(ask.no("few_vectors", "the matrix is multiplied with one vector"));
    }
    p.few_vectors(ask)?;
    Ok(found(p))
}

fn found(p: MatVec) -> Found {
    let several = !p.statistics.is_empty();
    Found::new(p.one.schedule.clone(), Inner(p)).beside_pieces(several)
}

fn contiguous(ask: &Ask) -> Result<MatVec, Decline> {
    inner(ask, MatVec::with_statistics(ask)?)
}

fn inner(ask: &Ask, p: MatVec) -> Result<MatVec, Decline> {
    if !p.inner {
        return Err(ask.no("contiguous_reduction", "the axis contiguous in the matrix is not reduced"));
    }
    Ok(p)
}

impl Accepted for Inner {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let space = in_pairs(shared_limits(space, &self.0, target), &self.0);
        if self.0.batch.is_empty() { space } else { few_vectors(space, &self.0) }
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        schedule(s, &self.0, k)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(outline::inner(&outline::Sizes::of(&self.0)?, batch(&self.0, k), k))
    }
}

/// Pairs of float16 where the function and its words allow them.
fn in_pairs(space: Space, p: &MatVec) -> Space {
    let no_pairs = no_pairs(p);
    space.require("products_in_pairs", move |k| match (k.get("products"), &no_pairs) {
        (1, Some(why)) => Err(why.clone()),
        _ => Ok(()),
    })
}

fn few_vectors(space: Space, p: &MatVec) -> Space {
    let count = p.vectors_count();
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
    let space = space.prefer("pairs_of_two", move |k| match (k.get("products"), at_a_time(count, k)) {
        (1, n) if n > MOST_IN_PAIRS => Err(format!("tensor cores are faster than pairs of {n} vectors")),
        _ => Ok(()),
    });
    space.prefer("accumulators", |k| at_most(k.get("rows") * k.get("batch"), 64, "accumulators", "a thread"))
}

/// Why products may not be added two at a time in float16, if they may not.
fn no_pairs(p: &MatVec) -> Option<String> {
    if !p.is_packed() {
        return Some("elements of the matrix are no packed values".into());
    }
    let wide = |name: &Name| p.one.schedule.func().buffer(name).dtype != DType::F16;
    let sums = Some(&p.one.reducer.buffer).filter(|b| wide(b)).map(|b| format!("`{b}` is wider than float16"));
    let vector = p.vectors.iter().map(|a| &a.buffer).find(|b| wide(b)).map(|b| format!("`{b}` is not float16"));
    let partners = (p.element != DType::U32 || 16 % p.pack != 0 || p.pack < 4)
        .then(|| format!("of {} values in {} none has a partner 16 bits above", p.pack, p.element));
    sums.or(vector).or(partners)
}

/// Vectors that a thread works on at a time.
fn batch(p: &MatVec, k: &Knobs) -> i64 {
    at_a_time(p.vectors_count(), k)
}

fn at_a_time(vectors: Option<i64>, k: &Knobs) -> i64 {
    k.find("batch").unwrap_or(1).min(vectors.unwrap_or(i64::MAX))
}

/// The conditions that both forms share.
fn shared_limits(space: Space, p: &MatVec, target: &Target) -> Space {
    let (element, pack, vectors) = (p.element, p.pack, p.vectors_count());
    let space = block_fits(space, target, THREADS);
    let space = vector_fits(space, "vector", element, p.run());
    let values = move |k: &Knobs| lanes(k.get("vector"), element) * pack;
    let batch = move |k: &Knobs| at_a_time(vectors, k);
    let space = registers_fit(space, target, THREADS, 28, move |k| {
        let vectors = if k.get("stage") == 0 { batch(k) * values(k) * 2 } else { 0 };
        k.get("unroll") * (k.get("rows") * k.get("vector") + vectors) + 4 * k.get("rows") * batch(k)
    });
    let space = streams_rows(space, target, p.matrix_bytes());
    let space = step_fits(space, p.length(), move |k| k.get("threads") * k.get("unroll") * values(k));
    let space = rows_fit(space, p.rows.extent);
    let loads = move |k: &Knobs| k.get("rows") * k.get("unroll") * values(k);
    let space = space.prefer("loads_in_flight", move |k| at_most(loads(k), 256, "values in flight", "a thread"));
    let bytes = p.bytes_of_one();
    vectors_fit(space, target, 64 << 10, move |k| Some(bytes? * batch(k)))
}

fn schedule(s: &mut Schedule, p: &MatVec, k: &Knobs) -> Done {
    let shape = [k.get("groups"), k.get("rows")];
    let computed = if p.statistics.is_empty() { None } else { apart_from(s, &p.one.chain.block, &p.rows.at)? };
    order_axes(s, &[&p.outer, std::slice::from_ref(&p.rows), &p.batch, &p.reduce])?;
    let outer = fuse_any(s, &p.outer)?;
    let vectors = fuse_any(s, &p.batch)?;
    let all = fuse_all(s, &p.reduce)?;
    let [nb, ny, nr] = split(s, &p.rows.at, [None, Some(shape[0]), Some(shape[1])])?;
    let m = match &vectors {
        Some(m) => s.split(m, &[None, Some(batch(p, k))])?,
        None => vec![],
    };
    let words = lanes(k.get("vector"), p.element);
    let width = words * p.pack;
    let [ko, ku, kt, kv] = split(s, &all, [None, Some(k.get("unroll")), Some(k.get("threads")), Some(width)])?;
    let rf = s.rfactor(&kt, 0)?;
    let partial = output(s, &rf);
    let (tiles, _) = blocks_first(s, outer, &m, nb, &[&ny, &kt, &ko, &ku, &nr], &kv)?;
    compute_vector(s, computed.as_ref(), &ku)?;
    let step = [k.get("unroll"), k.get("threads"), width];
    let cut = Cut { axes: [&p.outer, &p.batch, &p.reduce], shape, vectors: batch(p, k), step };
    let statistics = p.statistics.iter().map(|st| Beside::of(s, st, &cut, &rf)).collect::<Result<Vec<_>, _>>()?;
    let around = s.loops(&rf);
    let (tiles, around) = if tiles.is_some() { (around.first(), &around[1..]) } else { (None, &around[..]) };
    let [grid, ny, kt, ko, ku] = known(around[..5].to_vec());
    match tiles {
        // Blocks that read the same rows for other vectors run side by side.
        Some(tiles) => {
            s.bind(tiles, ThreadTag::BlockX)?;
            s.bind(&grid, ThreadTag::BlockY)?;
        }
        None => s.bind(&grid, ThreadTag::BlockX)?,
    }
    let scales = p.scales.iter().map(|(a, group)| (a.buffer.clone(), (width / group).max(1), 0));
    let own: Vec<_> = [(p.matrix.buffer.clone(), words, k.get("hint"))].into_iter().chain(scales).collect();
    let (loops, vectors, shared) = ([&ny, &kt, &ko, &ku, &nr, &kv], m.get(1), &p.vectors);
    sum_rows(
        s,
        &Nest { sums: &rf, vector: computed.as_ref(), grid: &grid, loops, vectors, width, shared, own: &own },
        k,
    )?;
    statistics.iter().try_for_each(|st| st.sum(s, [&kt, &ko, &ku], width))?;
    leaf(s, p, &kv, k)?;
    s.set_scope(&partial, Scope::Local)?;
    statistics.iter().try_for_each(|st| st.finish(s, &grid))?;
    finish(s, &p.one.chain, &grid, |s, b| deal(s, p, b, &grid, shape))
}

/// What the innermost loop is: a product of registers, or of registers and packed values.
fn leaf(s: &mut Schedule, p: &MatVec, kv: &Name, knobs: &Knobs) -> Done {
    match (p.is_packed(), knobs.find("products")) {
        (false, _) => tile_leaf(s, kv, LeafOp::Tile(TileOp::Gemm)),
        (true, Some(1)) => tile_leaf(s, kv, LeafOp::UnpackPairs),
        (true, _) => tile_leaf(s, kv, LeafOp::Unpack),
    }
}

/// Gives each thread the rows that it summed, for each of its vectors.
fn deal(s: &mut Schedule, p: &MatVec, block: &Name, grid: &Name, shape: [i64; 2]) -> Done {
    let own = p.row_loop(s, block, grid);
    for l in loops_of_kind(s, block, grid, IterKind::Spatial) {
        if own.as_ref() != Some(&l) {
            unroll_loop(s, &l)?;
        }
    }
    own.map_or(Ok(()), |row| deal_rows(s, &row, shape))
}
