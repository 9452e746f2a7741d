//! `reduction.inner`: a reduction over the axis that lies contiguous in memory, on a GPU.
//!
//! When: one sum, product, max, min, argmax or argmin; the axis contiguous in the largest read is
//! reduced; injective producers (inlined) and elementwise epilogues or none.
//! How: a group of threads per row strides the row in vectors of 16 bytes, several loads in flight;
//! vectors of long rows that begin anywhere are shifted out of two aligned words (`vec_shifted`). The
//! group meets by warp shuffles and one word of shared memory per warp. With `split` above 1,
//! blocks reduce parts of a row into a workspace and the last of them adds the parts (a second launch where the number of
//! blocks is not known).
//! Declines: `target_kind`, the predicates of [`Reduction::of`], `contiguous_reduction`, `no_window`,
//! `is_gemv`.
//!
//! ```text
//! reduction.inner on cuda:sm_90a
//! before: float32 A[4096, 4096]
//!         float32 O[i] += A[i, k]
//! after:  blockIdx.x 4096 [min_blocks=4]:
//!           threadIdx.x 256:
//!             O_rf.local = 0
//!             unroll 4 [batch_loads=1 tile=sum]:
//!               vector 4 [cache_hint=streaming]: A_local = A
//!               unroll 4: O_rf.local += A_local
//!           threadIdx.x 256: O_local += O_rf.local
//!           O = O_local
//! ```

use crate::analysis::Access;
use crate::rules::find::shape::{Chain, Reduction};
use crate::rules::parts::*;
use crate::rules::space::outlines;

/// The rule.
pub const INNER: Rule =
    Rule::new(Kind::Cuda, "reduction.inner", include_str!("../schedules/reduction.inner.toml"), inner);

const THREADS: &[&str] = &["threads", "rows"];

struct Inner(Reduction);

fn inner(ask: &Ask) -> Answer {
    Reduction::along_memory(ask).map(|r| Found::new(r.one.schedule.clone(), Inner(r)))
}

impl Accepted for Inner {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let r = &self.0;
        let (outputs, element) = (r.outputs(), r.element);
        let space = block_fits(space, target, THREADS);
        let run = r.run();
        // Two argmax of odd rows (H200) take 1.09 and 1.26 times as long with words as without.
        let space = match r.combiner() {
            Some(_) => row_vector_fits(space, "vector", element, run),
            None => vector_fits(space, "vector", element, run),
        };
        let in_flight = |k: &Knobs| k.get("unroll") * k.get("vector");
        let words = move |k: &Knobs| in_flight(k) * words_of(k.get("vector"), element, run);
        let space = registers_fit(space, target, THREADS, 24, words);
        let space = keeps_busy(space, target, THREADS, r.bytes(), in_flight);
        let step =
            move |k: &Knobs| k.get("threads") * k.get("unroll") * lanes(k.get("vector"), element) * k.get("split");
        let space = step_fits(space, r.length(), step);
        let space = parts_fit(space, r.length(), outputs);
        let axes: Vec<Option<i64>> = r.spatial.iter().map(|a| a.extent).filter(|n| *n != Some(1)).collect();
        let space = space.require("rows_fit", move |k| match (k.get("rows"), outputs) {
            (rows, Some(n)) if rows > n => Err(format!("{rows} rows per block of {n} rows in all")),
            // Rows of several axes would be no box of the output that one loop walks over.
            (rows, _) if rows > 1 && axes.len() > 1 && axes[axes.len() - 1].is_none_or(|last| last % rows != 0) => {
                Err(format!("{rows} rows per block do not divide the last of several axes of rows"))
            }
            _ => Ok(()),
        });
        // Rows and parts share one loop: a block of several of its steps has no whole rows to finish.
        let space = space.require("parts_of_one_row", |k| match (k.get("rows"), k.get("split")) {
            (rows, split) if rows > 1 && split > 1 => {
                Err(format!("{rows} rows per block and {split} parts per row: set `rows` or `split` to 1"))
            }
            _ => Ok(()),
        });
        let space = combine_rivals(fold_rivals(space, element), target);
        let sms = target.sms as i64;
        let space = space.prefer("split_needed", move |k| match (outputs, k.get("split")) {
            (_, 1) => Ok(()),
            (Some(n), split) if n < 4 * sms && n * split <= 32 * sms => Ok(()),
            (_, split) => Err(format!("{split} parts of so many rows fill no device better")),
        });
        let blocks = move |k: &Knobs| Some((outputs? + k.get("rows") - 1) / k.get("rows") * k.get("split"));
        // The launch that adds parts takes longer than whole rows do on half of the device.
        let part = |k: &Knobs| if (k.get("rows"), k.get("split")) == (1, 1) { 2 } else { 1 };
        fills_device(space, target, r.total(), blocks, part)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let (r, split) = (&self.0, k.get("split"));
        let plan = Plan::of(k, r.element, r.combiner());
        order_axes(s, &[&r.spatial, &r.reduce])?;
        let row = fuse_all(s, &r.spatial)?;
        let all = fuse_all(s, &r.reduce)?;
        if split == 1 {
            return reduce_rows(s, &r.one.chain, [&row, &all], &r.full, &plan).map(drop);
        }
        let (first, row, part) = parts_of_rows(s, &r.one.chain.block, row, &all, split)?;
        let grid = reduce_rows(s, &Chain::alone(first), [&row, &part], &r.full, &plan)?;
        add_parts(s, &r.one.chain, split, &plan, &grid)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(outlines::rows(self.0.work.as_ref()?, k))
    }
}

/// Cuts the loop `k` of a reduction into parts: the block that reduces these, the loop over all parts of all
/// rows, and that within a part.
pub fn parts_of_rows(
    s: &mut Schedule,
    block: &Name,
    row: Name,
    k: &Name,
    parts: i64,
) -> Result<(Name, Name, Name), ScheduleError> {
    let [part, rest] = split(s, k, [Some(parts), None])?;
    let first = s.rfactor(&part, rank(s, block))?;
    if loop_extent(s, &row) != Some(1) {
        return Ok((first, s.fuse(&[row, part])?, rest));
    }
    // One row only: its parts alone, put outermost.
    order(s, [&part, &row])?;
    Ok((first, part, rest))
}

/// Schedules a reduction of loop `k` for every `row`, as one launch; the loop over its blocks.
pub fn reduce_rows(
    s: &mut Schedule,
    chain: &Chain,
    [row, k]: [&Name; 2],
    reads: &[Access],
    plan: &Plan,
) -> Result<Name, ScheduleError> {
    let [grid, ny] = split(s, row, [None, Some(plan.rows)])?;
    let [ko, ku, kt, kv] = split(s, k, [None, Some(plan.unroll), Some(plan.threads), Some(plan.lanes)])?;
    let rf = s.rfactor(&kt, 0)?;
    order(s, [&grid, &ny, &kt, &ko, &ku, &kv])?;
    s.bind(&grid, ThreadTag::BlockX)?;
    s.bind(&ny, ThreadTag::ThreadY)?;
    s.bind(&kt, ThreadTag::ThreadX)?;
    launch_bounds(s, &grid, plan.min_blocks)?;
    for read in reads {
        stage_read(s, &rf, &read.buffer, &ku, plan.lanes, plan.hint)?;
    }
    batch_loads(s, &ku)?;
    s.unroll(&kv)?;
    fold_leaf(s, &ku, plan)?;
    combine_by(s, &chain.block, plan.combine)?;
    s.decompose_reduction(&rf, &ko)?;
    keep_in_registers(s, &rf)?;
    finish(s, chain, &grid, |s, b| deal_all(s, b, &grid, [plan.rows, 1]))?;
    Ok(grid)
}

/// Adds `split` parts per row, which lie contiguous in the workspace: by the last of the blocks of the row, or as a second
/// launch where nobody knows how many blocks the first, the loop `grid`, has.
fn add_parts(s: &mut Schedule, chain: &Chain, split: i64, first: &Plan, grid: &Name) -> Done {
    let row = fuse_kind(s, &chain.block, IterKind::Spatial)?;
    let k = fuse_kind(s, &chain.block, IterKind::Reduce)?;
    let threads = match loop_extent(s, grid) {
        Some(_) => first.threads,
        None => (split as u64).next_power_of_two().clamp(32, 1024) as i64,
    };
    let own = reduce_rows(s, chain, [&row, &k], &[], &Plan::of_parts(threads, 1, 1, first.combiner))?;
    run_by_last_blocks(s, [grid, &own], split)
}
