//! `gemv.inner` and `gemv.cpu`: matrix-vector products (batched ones too) whose contiguous axis is
//! reduced: one tensor is read by every axis, another only by some, as in y[n] = sum_k W[n, k] x[k].
//!
//! When: a sum; the axis contiguous in the matrix is reduced; at least one more tensor is read along
//! it; injective producers (inlined) and an elementwise epilogue or none. On a GPU epilogues may want statistics
//! of the vector too (reductions over the same axis, as a norm needs); `pieces` then competes.
//! How on a GPU: a group of lanes strides a row in loads of 16 bytes (of long rows that begin anywhere two, out of which
//! `vec_shifted` shifts them); several rows per thread share each load of the vector, which waits in registers or in shared
//! memory; sums meet by shuffles. Statistics are computed in the same loop, once for all rows of a thread.
//! How on the CPU: rows in parallel, several rows share each load of the vector.
//! Declines: `target_kind`, the predicates of [`Reduction::of`], `contiguous_reduction`,
//! `sum_reducer`, `shared_vector`.
//!
//! ```text
//! gemv.inner on cuda:sm_90a
//! before: float16 W[4096, 4096], float16 X[4096]
//!         float16 O[n] += W[n, k] * X[k]
//! after:  blockIdx.x 1024 [min_blocks=4]:
//!           threadIdx.y 4, threadIdx.x 32:
//!             O_rf.local = 0
//!             loop 4, unroll 4 [batch_loads=1]:
//!               vector 8 [cache_hint=plain]: X_local = X
//!               unroll 1 [batch_loads=1]:
//!                 vector 8 [cache_hint=streaming]: W_local = W
//!                 unroll 8 [tile=gemm]: O_rf.local += W_local, X_local
//!           threadIdx.y 4, threadIdx.x 32: O_local += O_rf.local
//!           threadIdx.y 4: O = O_local
//! ```
//!
//! ```text
//! gemv.cpu on cpu
//! before: float32 W[4096, 4096], float32 X[4096]
//!         float32 O[n] += W[n, k] * X[k]
//! after:  parallel 2048:
//!           unroll 4, unroll 2, vector 8: O_rf.local = 0
//!           loop 128 [prefetch_bytes=2048], unroll 4, unroll 2, vector 8: O_rf.local += W, X
//!           unroll 2:
//!             vector 8: O_local_rf.local = 0
//!             unroll 4, vector 8: O_local_rf.local += O_rf.local
//!           unroll 2:
//!             O_local = 0
//!             unroll 8: O_local += O_local_rf.local
//!           loop 2: O = O_local
//! ```

use super::lanes::{Nest, THREADS, rows_fit, streams_rows, sum_rows, vectors_fit};
use super::statistic::{Beside, Cut, apart_from, compute_vector};
use crate::analysis::{Combiner, Decline};
use crate::rules::find::operands::bytes_of;
use crate::rules::find::shape::{Axis, Chain, OneReduction, Reduction};
use crate::rules::find::statistic::{Statistic, with_statistics};
use crate::rules::parts::*;
use crate::rules::reduction::cpu::{cpu_space, finish_rows};
use crate::rules::space::outlines;

/// The GPU form.
pub const INNER: Rule = Rule::new(Kind::Cuda, "gemv.inner", include_str!("../schedules/gemv.inner.toml"), inner);

/// The CPU form.
pub const CPU: Rule = Rule::new(Kind::Cpu, "gemv.cpu", include_str!("../schedules/gemv.cpu.toml"), dot);

/// The rows are the last kept axis of the matrix; those before it are batches.
struct Inner(Reduction, Vec<Statistic>);

struct Dot(Reduction);

fn product(ask: &Ask, one: OneReduction) -> Result<Reduction, Decline> {
    let r = Reduction::in_order(ask, one)?;
    if !r.inner_reduce {
        return Err(ask.no("contiguous_reduction", "the axis contiguous in the matrix is not reduced"));
    }
    if r.combiner() != Some(Combiner::Sum) {
        return Err(ask.no("sum_reducer", "the reduction is not a sum"));
    }
    if r.shared.is_empty() || r.spatial.is_empty() {
        return Err(ask.no("shared_vector", "no tensor is shared by the rows"));
    }
    Ok(r)
}

/// Bytes of the vectors of one batch entry.
fn vector_bytes(r: &Reduction) -> Option<i64> {
    bytes_of(&r.one.schedule, &r.shared, r.length())
}

fn inner(ask: &Ask) -> Answer {
    let (one, statistics) = with_statistics(ask)?;
    let r = product(ask, one)?;
    let axes = || r.spatial.iter().rev().skip(1).chain(&r.reduce);
    let (r, statistics) = match statistics.iter().all(|st| st.has_axes(axes())) {
        true => (r, statistics),
        false => (product(ask, OneReduction::of(ask)?)?, vec![]),
    };
    let several = !statistics.is_empty();
    Ok(Found::new(r.one.schedule.clone(), Inner(r, statistics)).beside_pieces(several))
}

fn dot(ask: &Ask) -> Answer {
    product(ask, OneReduction::of(ask)?).map(|r| Found::new(r.one.schedule.clone(), Dot(r)))
}

impl Accepted for Inner {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let r = &self.0;
        let element = r.element;
        let space = block_fits(space, target, THREADS);
        let run = r.run();
        let space = row_vector_fits(space, "vector", element, run);
        let space = registers_fit(space, target, THREADS, 28, move |k| {
            let rows = k.get("rows") * words_of(k.get("vector"), element, run);
            k.get("unroll") * k.get("vector") * (rows + (k.get("stage") == 0) as i64)
        });
        let space = streams_rows(space, target, r.bytes());
        let step = move |k: &Knobs| k.get("threads") * k.get("unroll") * lanes(k.get("vector"), element);
        let space = step_fits(space, r.length(), step);
        let space = combine_rivals(space, target);
        let space = rows_fit(space, r.last());
        let loads = |k: &Knobs| at_most(k.get("rows") * k.get("unroll"), 32, "loads in flight", "a thread");
        let space = space.prefer("loads_in_flight", loads);
        let bytes = vector_bytes(r);
        vectors_fit(space, target, 48 << 10, move |_| bytes)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let (r, shape) = (&self.0, [k.get("groups"), k.get("rows")]);
        let row = r.spatial.last().filter(|_| !self.1.is_empty());
        let computed = row.map_or(Ok(None), |row| apart_from(s, &r.one.chain.block, &row.at))?;
        order_axes(s, &[&r.spatial, &r.reduce])?;
        let (batch, rows) = fuse_but_last(s, &r.spatial)?;
        let all = fuse_all(s, &r.reduce)?;
        let [nb, ny, nr] = split(s, &rows, [None, Some(shape[0]), Some(shape[1])])?;
        let width = lanes(k.get("vector"), r.element);
        let [ko, ku, kt, kv] = split(s, &all, [None, Some(k.get("unroll")), Some(k.get("threads")), Some(width)])?;
        let rf = s.rfactor(&kt, 0)?;
        let partial = output(s, &rf);
        let grid = fuse_under(s, batch, &nb)?;
        order(s, [&grid, &ny, &kt, &ko, &ku, &nr, &kv])?;
        compute_vector(s, computed.as_ref(), &ku)?;
        let step = [k.get("unroll"), k.get("threads"), width];
        let cut = Cut { axes: [&r.spatial[..r.spatial.len() - 1], &[], &r.reduce], shape, vectors: 1, step };
        let statistics = self.1.iter().map(|st| Beside::of(s, st, &cut, &rf)).collect::<Result<Vec<_>, _>>()?;
        let [grid, ny, kt, ko, ku] = known(s.loops(&rf)[..5].to_vec());
        s.bind(&grid, ThreadTag::BlockX)?;
        let own: Vec<_> = r.full.iter().map(|a| (a.buffer.clone(), width, k.get("hint"))).collect();
        let (loops, shared) = ([&ny, &kt, &ko, &ku, &nr, &kv], &r.shared);
        sum_rows(
            s,
            &Nest { sums: &rf, vector: computed.as_ref(), grid: &grid, loops, vectors: None, width, shared, own: &own },
            k,
        )?;
        statistics.iter().try_for_each(|st| st.sum(s, [&kt, &ko, &ku], width))?;
        tile_leaf(s, &kv, LeafOp::Tile(TileOp::Gemm))?;
        s.set_scope(&partial, Scope::Local)?;
        statistics.iter().try_for_each(|st| st.finish(s, &grid))?;
        combine_by(s, &r.one.chain.block, k.get("combine"))?;
        finish(s, &r.one.chain, &grid, |s, b| deal_all(s, b, &grid, shape))
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(outlines::product(self.0.work.as_ref()?, vector_bytes(&self.0).unwrap_or(0), k))
    }
}

impl Accepted for Dot {
    fn constrain(&self, space: Space, _: &Target) -> Space {
        let r = &self.0;
        let space = cpu_space(space, r.one.reducer.dtype, r.run());
        dot_fits(space, r.one.reducer.dtype, r.length(), r.last())
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let r = &self.0;
        let shape = [k.get("rows"), k.get("unroll"), lanes(k.get("vector"), r.one.reducer.dtype)];
        let (batch, rows) = r.spatial.split_at(r.spatial.len() - 1);
        dot_rows(s, &r.one.chain, [batch, rows, &r.reduce], shape, k.get("prefetch"))
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let (r, rows, unroll) = (&self.0, k.get("rows"), k.get("unroll"));
        let step = unroll * lanes(k.get("vector"), r.one.reducer.dtype);
        let (tasks, steps) = (r.outputs()? / rows, (r.length()? + step - 1) / step);
        Some(outlines::cpu(r.work.as_ref()?, tasks, steps, rows * unroll, k.get("vector"), 1))
    }
}

/// Steps within the length, accumulators within the registers, and whole steps of rows.
pub fn dot_fits(space: Space, acc: DType, length: Option<i64>, rows: Option<i64>) -> Space {
    let space = step_fits(space, length, move |k| k.get("unroll") * lanes(k.get("vector"), acc));
    let registers = |k: &Knobs| at_most(k.get("rows") * k.get("unroll"), 16, "accumulators", "the vector registers");
    let space = space.require("vector_registers", registers);
    space.require("rows_exist", move |k| match rows {
        Some(n) if n % k.get("rows") != 0 => Err(format!("{} rows per step do not divide {n}", k.get("rows"))),
        None if k.get("rows") > 1 => Err("the number of rows is not constant".into()),
        _ => Ok(()),
    })
}

/// Schedules a sum over `reduce` for each of the `rows` (and `outer`), for the CPU: `[rows, unroll,
/// width]` are the rows that share each load of the vector, the vector accumulators of a row, and their
/// lanes; the rows are asked for `ahead` bytes before.
pub fn dot_rows(
    s: &mut Schedule,
    chain: &Chain,
    [outer, rows, reduce]: [&[Axis]; 3],
    [together, unroll, width]: [i64; 3],
    ahead: i64,
) -> Done {
    order_axes(s, &[outer, rows, reduce])?;
    let batch = fuse_any(s, outer)?;
    let k = fuse_all(s, reduce)?;
    let row = fuse_all(s, rows)?;
    let [nb, nr] = split(s, &row, [None, Some(together)])?;
    let [ko, kv] = split(s, &k, [None, Some(unroll * width)])?;
    let rf = s.rfactor(&kv, rank(s, &chain.block))?;
    let partial = output(s, &rf);
    let [vector, lane] = split(s, &kv, [Some(unroll), Some(width)])?;
    let grid = fuse_under(s, batch, &nb)?;
    order(s, [&grid, &ko, &vector, &nr, &lane])?;
    s.parallel(&grid)?;
    unroll_loop(s, &vector)?;
    unroll_loop(s, &nr)?;
    vectorize_loop(s, &lane)?;
    let init = s.decompose_reduction(&rf, &ko)?;
    if let Some(last) = loops_below(s, &init, &grid).last() {
        vectorize_loop(s, last)?;
    }
    ask_ahead(s, &ko, ahead)?;
    s.set_scope(&partial, Scope::Local)?;
    finish_rows(s, chain, &grid, [unroll, width])
}
