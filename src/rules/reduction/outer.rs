//! `reduction.outer`: a reduction over a strided axis, on a GPU.
//!
//! When: one sum, product, max, min, argmax or argmin; the axis contiguous in the largest read is kept;
//! injective producers (inlined) and elementwise epilogues or none. Matrix-vector products whose matrix is
//! stored [K, N] are of this form.
//! How: each thread owns one vector of columns; threadIdx.y shares the rows and meets in shared
//! memory. With `split` above 1, blocks reduce parts of a column into a workspace, and the last of them adds the
//! parts (a second launch where the number of blocks is not known), or all do, as a cluster.
//! Declines: `target_kind`, the predicates of [`Reduction::of`], `strided_reduction`.
//!
//! ```text
//! reduction.outer on cuda:sm_90a
//! before: float32 A[4096, 4096]
//!         float32 O[i] += A[k, i]
//! after:  blockIdx.x 256 [min_blocks=4]:
//!           threadIdx.x 16, threadIdx.y 8:
//!             unroll 4: O_rf_rf.local = 0
//!             loop 32, unroll 4 [batch_loads=1]:
//!               vector 4 [cache_hint=streaming]: A_local = A
//!               unroll 4 [tile=add]: O_rf_rf.local += A_local
//!           threadIdx.x 16, unroll 4, threadIdx.y 8: O_rf_local += O_rf_rf.local
//!           threadIdx.x 16, unroll 4: O_rf = O_rf_local
//!         blockIdx.x 64 [min_blocks=1 last_block=1]:
//!           threadIdx.x 16, threadIdx.y 8:
//!             unroll 4: O_rf.local = 0
//!             unroll 1 [batch_loads=1], unroll 4 [tile=add]: O_rf.local += O_rf
//!           threadIdx.x 16, unroll 4, threadIdx.y 8: O_local += O_rf.local
//!           threadIdx.x 16, unroll 4: O = O_local
//! ```

use crate::rules::cluster::{self, Adders};
use crate::rules::find::operands::reads_of;
use crate::rules::find::shape::{Chain, Reduction};
use crate::rules::parts::*;
use crate::rules::space::outlines;

/// The rule.
pub const OUTER: Rule =
    Rule::new(Kind::Cuda, "reduction.outer", include_str!("../schedules/reduction.outer.toml"), outer);

const THREADS: &[&str] = &["threads", "rows"];

/// Threads side by side below which blocks are narrow, and rows above which they are deep.
const NARROW: i64 = 8;
const DEEP: i64 = 32;

/// Values of parts that a thread of a last block loads at a time.
const PARTS_IN_FLIGHT: i64 = 64;

struct Outer(Reduction);

fn outer(ask: &Ask) -> Answer {
    Reduction::across_memory(ask).map(|r| Found::new(r.one.schedule.clone(), Outer(r)))
}

impl Accepted for Outer {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let r = &self.0;
        let (length, element, columns) = (r.length(), r.element, r.last());
        let space = narrow_blocks(block_fits(space, target, THREADS), element, columns);
        let space = vector_fits(space, "vector", element, columns);
        let in_flight = |k: &Knobs| k.get("unroll") * k.get("vector");
        let space = registers_fit(space, target, THREADS, 32, in_flight);
        let space = keeps_busy(space, target, THREADS, r.bytes(), in_flight);
        let space = step_fits(space, length, |k| k.get("rows") * k.get("unroll") * k.get("split"));
        // the guard of a shorter last part is on the loop over parts, which must not be fused with others
        let space = match r.spatial.len() {
            1 => parts_hold_some(space, length),
            _ => parts_fit(space, length, r.outputs()),
        };
        let space = step_fits(space, columns, move |k| k.get("threads") * lanes(k.get("vector"), element));
        let space = cluster::fits(space, target, ("split", 2), r.outputs().is_some());
        let outputs = r.outputs();
        let space = cluster::run_at_once(space, target, "split", move |k| {
            let vectors = over(outputs?, lanes(k.get("vector"), element));
            Some(vectors * k.get("rows") * k.get("split"))
        });
        let again = results_read_again(&r.one.schedule, &r.one.chain);
        let space = space.require("results_apart", move |k| match again && cluster::adds(k, "split") {
            true => Err("threads of a cluster read results that others of them store".into()),
            false => Ok(()),
        });
        let space = cluster::shares_evenly(space, ["split", "threads"], move |k| {
            Some(columns?.min(k.get("threads") * lanes(k.get("vector"), element)))
        });
        fold_rivals(fills_blocks(space, target, r.total(), r.outputs(), element), element)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let r = &self.0;
        let plan = Plan::of(k, r.element, r.combiner());
        order_axes(s, &[&r.spatial, &r.reduce])?;
        let (outer, column) = fuse_but_last(s, &r.spatial)?;
        let all = fuse_all(s, &r.reduce)?;
        let reads = Reads { full: r.full.iter().map(|a| a.buffer.clone()).collect(), vectors: vec![], pack: 1 };
        let nest = Nest { chain: &r.one.chain, outer, column: &column, k: &all, cluster: None };
        match cluster::adds(k, "split") {
            true => reduce_in_clusters(s, nest, &reads, k.get("split"), &plan),
            false => reduce_in_parts(s, nest, &reads, k.get("split"), &plan),
        }
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(outlines::columns(self.0.work.as_ref()?, k))
    }
}

/// What a launch reads by columns.
pub struct Reads {
    /// Read by every axis, a vector of columns at a time.
    pub full: Vec<Name>,
    /// Shared by the columns; only where elements are packed.
    pub vectors: Vec<Name>,
    /// Values of the reduction in one element of the largest of them.
    pub pack: i64,
}

/// The nest of a reduction over a strided axis.
pub struct Nest<'a> {
    /// The reduction, and what follows it.
    pub chain: &'a Chain,
    /// The loop around the columns.
    pub outer: Option<Name>,
    /// The loop over the columns.
    pub column: &'a Name,
    /// The loop over what is reduced.
    pub k: &'a Name,
    /// The loop over the parts that the blocks of a cluster reduce.
    pub cluster: Option<&'a Name>,
}

/// Schedules a nest as one launch, or as one of `split` parts per column and one that adds them.
pub fn reduce_in_parts(s: &mut Schedule, nest: Nest, reads: &Reads, split: i64, plan: &Plan) -> Done {
    if split == 1 {
        return reduce_columns(s, nest, reads, plan).map(drop);
    }
    let (first, outer, rest) = parts_of_columns(s, nest.outer, nest.column, nest.k, split)?;
    let first = Chain::alone(first);
    let part = Nest { chain: &first, outer: Some(outer), column: nest.column, k: &rest, cluster: None };
    let grid = reduce_columns(s, part, reads, plan)?;
    add_parts(s, nest.chain, split, plan, &grid)
}

/// Schedules a nest as one launch of clusters, whose blocks have a part of a column each and add all of them.
fn reduce_in_clusters(s: &mut Schedule, nest: Nest, reads: &Reads, parts: i64, plan: &Plan) -> Done {
    let [part, rest] = split(s, nest.k, [Some(parts), None])?;
    let first = Chain::alone(s.rfactor(&part, 0)?);
    let (add, tails) = (&nest.chain.block, tails(s, nest.chain)?);
    let grid = reduce_columns(s, Nest { chain: &first, k: &rest, cluster: Some(&part), ..nest }, reads, plan)?;
    Adders { add, tails: &tails, turned: false, side_by_side: cluster::SIDE_BY_SIDE }.place(
        s,
        &grid,
        parts,
        plan.threads,
    )
}

/// Cuts the loop `k` of a reduction into parts: the block that reduces these, the loop over all parts around the
/// columns, and that within a part.
pub fn parts_of_columns(
    s: &mut Schedule,
    outer: Option<Name>,
    column: &Name,
    k: &Name,
    parts: i64,
) -> Result<(Name, Name, Name), ScheduleError> {
    let [part, rest] = split(s, k, [Some(parts), None])?;
    let first = s.rfactor(&part, 0)?;
    let around: Vec<Name> = [part].into_iter().chain(outer).collect();
    s.reorder(&[&around[..], &[column.clone(), rest.clone()]].concat())?;
    Ok((first, fuse_loops(s, &around)?, rest))
}

/// The loops of a block that adds parts: over what is around the columns, over these, and over the parts.
pub fn loops_of_parts(s: &mut Schedule, block: &Name) -> Result<(Option<Name>, Name, Name), ScheduleError> {
    let spatial = axes_of_kind(s, block, IterKind::Spatial);
    let k = fuse_kind(s, block, IterKind::Reduce)?;
    let (outer, column) = fuse_but_last(s, &spatial)?;
    Ok((outer, column, k))
}

/// True where what follows the reduction reads a result in global memory.
fn results_read_again(s: &Schedule, chain: &Chain) -> bool {
    let written = |block: &Name| outputs(s, block).into_iter().filter(|b| s.func().is_param(b)).collect::<Vec<_>>();
    let results: Vec<Name> = [&chain.block].into_iter().chain(&chain.epilogues).flat_map(written).collect();
    chain.epilogues.iter().any(|tail| reads_of(s, tail).iter().any(|r| results.contains(&r.buffer)))
}

/// Blocks that are narrow and deep are searched where a row has no more columns than they are wide.
fn narrow_blocks(space: Space, element: DType, columns: Option<i64>) -> Space {
    space.prefer("narrow_blocks", move |k| match (k.get("threads"), k.get("rows")) {
        (NARROW.., ..=DEEP) => Ok(()),
        (threads, _) if threads < NARROW && columns.is_some_and(|n| n <= threads * lanes(k.get("vector"), element)) => {
            Ok(())
        }
        (threads, rows) => Err(format!("{rows} rows of {threads} threads, of which a row of the tensor has more")),
    })
}

/// No more parts than keep the device busy, and no fewer.
pub fn fills_blocks(space: Space, target: &Target, total: Option<i64>, outputs: Option<i64>, element: DType) -> Space {
    let per_block = move |k: &Knobs| k.get("threads") * lanes(k.get("vector"), element);
    let blocks = move |k: &Knobs| Some((outputs? / per_block(k)).max(1) * k.get("split"));
    let most = 32 * target.sms as i64;
    let space = space.prefer("split_needed", move |k| match (k.get("split"), blocks(k)) {
        (split, Some(n)) if split > 1 && n > most => Err(format!("{n} blocks with {split} parts per column")),
        _ => Ok(()),
    });
    fills_device(space, target, total, blocks, |_: &Knobs| 1)
}

/// Schedules a reduction of loop `k` for every `column` (and `outer`) as one launch; the loop over its blocks, or clusters.
fn reduce_columns(s: &mut Schedule, nest: Nest, reads: &Reads, plan: &Plan) -> Result<Name, ScheduleError> {
    let Nest { chain, outer, column, k, cluster } = nest;
    let block = &chain.block;
    let [jb, jt, jv] = split(s, column, [None, Some(plan.threads), Some(plan.lanes)])?;
    let factors = [None, Some(plan.unroll), Some(plan.rows)];
    let ([ko, ku, ky], values) = if reads.pack > 1 {
        let [ko, ku, ky, values] = split(s, k, [factors[0], factors[1], factors[2], Some(reads.pack)])?;
        ([ko, ku, ky], Some(values))
    } else {
        (split(s, k, factors)?, None)
    };
    // A column of one thread accumulates in place.
    let rf = if plan.rows > 1 { s.rfactor(&ky, 0)? } else { block.clone() };
    let tails = tails(s, chain)?;
    let grid = fuse_under(s, outer, &jb)?;
    let inner = [&jt, &ky, &ko, &ku, &jv].into_iter().chain(&values);
    let order: Vec<Name> = [&grid].into_iter().chain(cluster).chain(inner).cloned().collect();
    s.reorder(&order)?;
    s.bind(&grid, ThreadTag::BlockX)?;
    cluster.map_or(Ok(()), |part| s.bind(part, ThreadTag::ClusterX))?;
    let own = cluster.unwrap_or(&grid);
    s.bind(&jt, ThreadTag::ThreadX)?;
    s.bind(&ky, ThreadTag::ThreadY)?;
    launch_bounds(s, &grid, plan.min_blocks)?;
    for buffer in &reads.full {
        stage_read(s, &rf, buffer, &ku, plan.lanes, plan.hint)?;
    }
    for buffer in &reads.vectors {
        stage_read(s, &rf, buffer, &ku, reads.pack, 0)?;
    }
    batch_loads(s, &ku)?;
    s.unroll(&jv)?;
    match &values {
        Some(values) => {
            s.unroll(values)?;
            tile_leaf(s, values, LeafOp::Unpack)?;
        }
        None => elementwise_leaf(s, &jv, plan)?,
    }
    s.decompose_reduction(&rf, &ko)?;
    if rf != *block {
        keep_in_registers(s, &rf)?;
        s.reverse_compute_at(block, own)?;
        bind_columns(s, block, own, plan)?;
        for l in loops_of_kind(s, block, own, IterKind::Reduce) {
            s.bind(&l, ThreadTag::ThreadY)?;
        }
    }
    for tail in &tails {
        s.reverse_compute_at(tail, own)?;
        bind_columns(s, tail, own, plan)?;
    }
    keep_in_registers(s, block)?;
    Ok(grid)
}

/// Gives each thread the columns that it owned while reducing.
fn bind_columns(s: &mut Schedule, block: &Name, grid: &Name, plan: &Plan) -> Done {
    let loops = loops_of_kind(s, block, grid, IterKind::Spatial);
    if loops.is_empty() {
        return Ok(());
    }
    let column = fuse_loops(s, &loops)?;
    let [thread, lane] = split(s, &column, [Some(plan.threads), Some(plan.lanes)])?;
    s.bind(&thread, ThreadTag::ThreadX)?;
    s.unroll(&lane)
}

/// Adds `split` parts per column, which lie a whole output apart: by the last of the blocks of these columns, or as a second
/// launch where nobody knows how many blocks the first, the loop `grid`, has.
fn add_parts(s: &mut Schedule, chain: &Chain, split: i64, first: &Plan, grid: &Name) -> Done {
    let (outer, column, k) = loops_of_parts(s, &chain.block)?;
    let plan = match loop_extent(s, grid) {
        Some(_) => {
            let in_flight = (split / first.rows).clamp(1, (PARTS_IN_FLIGHT / first.lanes).max(1));
            Plan { lanes: first.lanes, ..Plan::of_parts(first.threads, first.rows, in_flight, first.combiner) }
        }
        None => {
            let rows = (split as u64).next_power_of_two().min(8) as i64;
            Plan::of_parts(first.threads.max(32), rows, 4.min(split / rows).max(1), first.combiner)
        }
    };
    let nest = Nest { chain, outer, column: &column, k: &k, cluster: None };
    let own = reduce_columns(s, nest, &Reads { full: vec![], vectors: vec![], pack: 1 }, &plan)?;
    run_by_last_blocks(s, [grid, &own], split)
}
