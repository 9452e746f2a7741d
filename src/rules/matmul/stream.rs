//! `matmul.stream`: products of few rows on tensor cores (`mma.sync`), whose factors come from memory straight into
//! registers.
//!
//! When: the target has them; a sum of products of float16 or bfloat16 rows with columns that lie along the reduced
//! axis, or are packed eight in a word along it (float16 of four bits, less a constant and times a scale); sums in
//! float32, or kept in it; at most one elementwise block after it; up to 16 rows, or a number that is not constant.
//! How: what takes the time is to read the columns once. The warps of a block share the reduced axis of the same rows
//! and columns, so that many loads are in flight without a barrier; each lane loads eight neighbours of a row, which
//! are fragments for the order of k in which they lie (`tile/gemm/mma_runs.rs`). Rows may begin anywhere: eight neighbours
//! that are no aligned access are shifted out of two that are. The warps' sums meet in shared memory. Where columns are too
//! few for the device, the blocks of a cluster share the reduced axis, too, and each adds its share of their sums.
//! Scales of packed values multiply these, or (`scales`), where all of 64 along the reduced axis share one, their sums.
//! Rounding: values are those that the function says, sums are float32; a value whose scale multiplies sums is not rounded.
//! Declines: `target_kind`, `tensor_cores`, the predicates of [`Product::of`], `rows_and_columns`,
//! `operand_dtype`, `accumulator_dtype`, `one_result`, `few_rows`, `neighbours`, `packed_words`.
//!
//! ```text
//! matmul.stream on cuda:sm_90a
//! before: bfloat16 X[8, 4096], bfloat16 W[4096, 4096]
//!         float32 O[i, j] += float32(X[i, k]) * float32(W[j, k])
//! after:  blockIdx.x 256 [min_blocks=1]:
//!           threadIdx.y 8:
//!             loop 16 [tile=elementwise warps_m=1 warps_n=1], loop 8: b0_result_rf_local = 0
//!             loop 4:
//!               loop 16 [tile=elementwise warps_m=1 warps_n=1 cache_hint=no_allocate_256], loop 128: b0_right.local = W
//!               loop 8 [tile=elementwise warps_m=1 warps_n=1 cache_hint=plain], loop 128: b0_left.local = X
//!               loop 16 [tile=gemm warps_m=1 warps_n=1 tile_variant=mma_runs], loop 8, loop 128: b0_result_rf_local += b0_left.local, b0_right.local
//!             loop 16 [tile=elementwise warps_m=1 warps_n=1], loop 8: b0_result_rf.shared = b0_result_rf_local
//!           threadIdx.y 8, threadIdx.x 32:
//!             unroll 8: b0_result.local += b0_result_rf.shared
//!             O = b0_result.local
//! ```

use super::decoded;
use super::mma::{Warps, multiplied, together};
use super::outline::Sizes;
use super::outline_stream;
use super::split_k::{always_fits, cut};
use super::tiling::*;
use super::words::in_words;
use crate::ir::layout::runs::Runs;
use crate::ir::layout::words::{ROWS, RUN, WORD};
use crate::rules::cluster;
use crate::rules::find::einsum::{Einsum, Major};
use crate::rules::find::factor::Factor;
use crate::rules::find::product::Product;
use crate::rules::parts::*;

/// The rule.
pub const STREAM: Rule =
    Rule::new(Kind::Cuda, "matmul.stream", include_str!("../schedules/matmul.stream.toml"), stream);

/// Rows up to which nothing is won by tiles in shared memory: with 32 they were 1.3 to 1.7 times as fast (H200).
const MOST_ROWS: i64 = 16;
/// Blocks of a multiprocessor up to which the reduced axis is cut among those of a cluster.
const PLACES: i64 = 8;
/// Columns of the result in a fragment, which are the rows of an instruction.
const FRAGMENT: i64 = 16;
/// The value of the knob `hint` by which the first-level cache keeps what is loaded.
const CACHED: i64 = 1;
/// The value of the knob `hint` by which the L2 fetches 256 bytes.
const WIDE: i64 = 3;
/// Registers of a thread that hold words between selections.
const SELECTED: i64 = 16;
/// The value of the knob `scales` by which they multiply sums.
const SUMS: i64 = 1;
/// Bytes of a value as it is multiplied.
const VALUE: i64 = 2;

struct Stream {
    /// The sizes, where all are known.
    sizes: Option<Sizes>,
    /// The product with columns first.
    p: Product,
    /// How lanes load the columns.
    runs: Runs,
    /// True where eight neighbours are one aligned access, in both factors.
    aligned: bool,
    /// What scales may multiply besides values: sums of what one load of each lane is multiplied with.
    sums: Result<(), &'static str>,
    /// Threads of a warp.
    warp: i64,
}

fn stream(ask: &Ask) -> Answer {
    if !ask.target.has.mma {
        return Err(ask.no("tensor_cores", "the target has no complete set of matrix instructions"));
    }
    let p = multiplied(ask)?;
    if p.a.dtype == DType::I8 {
        return Err(ask.no("operand_dtype", "lanes load values of 16 bits"));
    }
    if let Some(n) = p.extents()[1].filter(|n| *n > MOST_ROWS) {
        return Err(ask
            .no("few_rows", format!("{n} rows are more than {MOST_ROWS}: tiles in shared memory serve more of them")));
    }
    let is_aligned = |f: &Factor| f.adjacent(true) >= WORD;
    let side_by_side = |f: &Factor| is_aligned(f) || f.has_rows();
    if !side_by_side(&p.a) {
        return Err(ask.no("neighbours", "eight neighbours of a row along the reduced axis do not lie side by side"));
    }
    let runs = if in_words(&p.b) { Runs::Words } else { Runs::Values };
    match runs {
        Runs::Words => decoded::check(&p, RUN * WORD, ask)?,
        Runs::Values if !side_by_side(&p.b) => {
            return Err(
                ask.no("neighbours", "eight neighbours of a column along the reduced axis do not lie side by side")
            );
        }
        Runs::Values => {}
    }
    // columns are the rows of instructions: they have 16 of these, and eight of what there are few of
    let aligned = is_aligned(&p.a) && (runs == Runs::Words || is_aligned(&p.b));
    let share = runs == Runs::Words && decoded::share_scales(&p, runs.chunk(), ask);
    let sums = match (share, p.schedule.func().is_strict()) {
        (false, _) => Err("values have no scale that all of each 64 of them along the reduced axis share"),
        (true, true) => Err("the function is strict, and rounds each value times its scale"),
        (true, false) => Ok(()),
    };
    let p = p.turned();
    let sizes = Sizes::of(&p);
    Ok(Found::new(p.schedule.clone(), Stream { warp: i64::from(ask.target.warp), sizes, runs, aligned, sums, p }))
}

/// Columns and rows of a tile, and values along the reduced axis of one step of a warp.
fn tile(k: &Knobs) -> [i64; 3] {
    [k.get("block_n"), k.get("block_m"), k.get("step_k")]
}

impl Accepted for Stream {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (p, warp, runs, aligned) = (&self.p, self.warp, self.runs, self.aligned);
        let [batch, columns, rows, depth] = p.extents();
        let (threads, sums) = (move |k: &Knobs| k.get("warps_k") * warp, self.sums);
        let space = space.require("scales_of_loads", move |k| match k.get("scales") {
            SUMS => sums.map_err(String::from),
            _ => Ok(()),
        });
        // of 28 drawn functions of 2 to 16 rows (H200) two are slower with sums, by 2 and 4 %; the mean is 1.094 times as fast
        let space = space.prefer("scales_of_sums", move |k| match k.get("scales") {
            SUMS => Ok(()),
            _ if sums.is_err() => Ok(()),
            _ => Err("each value is multiplied, where four sums for each 64 of them could be".into()),
        });
        let space = space.require("whole_fragments", move |k| whole_fragments(tile(k), runs));
        let space = space.require("parts_of_depth", move |k| match depth {
            Some(n) if n >= k.get("split_k") * k.get("warps_k") * k.get("step_k") => Ok(()),
            None if runs == Runs::Values => Ok(()),
            _ => {
                let warps = k.get("split_k") * k.get("warps_k");
                Err(format!("{warps} warps have less than a step of the reduced axis each"))
            }
        });
        let space = threads_per_block(space, target, threads);
        let smem = target.smem_per_block as i64;
        let space = space.require("sums_in_shared", move |k| {
            at_most(outline_stream::sums(k), smem, "bytes of sums", "shared memory")
        });
        let tiles = move |k: &Knobs| Some(batch? * over(columns?, k.get("block_n")) * over(rows?, k.get("block_m")));
        let space = parts_fill_device(always_fits(space, p, target), tiles, target, PLACES);
        let held = move |k: &Knobs| registers(tile(k), warp, aligned) + of_sums(k, warp);
        let space = tile_in_registers(space, target, threads, held);
        let regs = i64::from(target.regs_per_sm);
        let space = space.prefer("loads_in_registers", move |k| {
            // words are decoded piece by piece, and rows that there are not are not loaded
            let most = 2 * regs / (threads(k) * k.get("min_blocks")).max(1);
            at_most(held(k), most, "registers", "twice those that the launch bounds leave a thread")
        });
        let space = if aligned { space } else { words_in_registers(space, regs, threads, held) };
        let space = space.prefer("read_once", move |k| match rows {
            Some(n) if k.get("block_m") < n => Err("columns are read again for other rows".into()),
            _ => Ok(()),
        });
        let sms = i64::from(target.sms);
        let space = space.prefer("tile_within_result", move |k| match (rows, columns) {
            (Some(n), _) if k.get("block_m") >= 2 * n.max(ROWS) => {
                Err("most rows of a tile lie outside of the result".into())
            }
            (_, Some(n)) if k.get("block_n") >= 2 * n.max(FRAGMENT) => {
                Err("most columns of a tile lie outside of the result".into())
            }
            _ => Ok(()),
        });
        let space = space.prefer("fetched_words", move |k| match (runs, k.get("hint")) {
            (Runs::Words, WIDE) => Err("256 bytes of words are more than a warp takes of a column at a time".into()),
            _ => Ok(()),
        });
        space.prefer("fills_device", move |k| match tiles(k) {
            Some(n) if n * k.get("split_k") < sms * 3 / 4 && k.get("block_n") > FRAGMENT => {
                Err(format!("{n} tiles leave multiprocessors of {sms} idle"))
            }
            _ => Ok(()),
        })
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let ([n, m, step], warps, blocks) = (tile(k), k.get("warps_k"), k.get("split_k"));
        let alone = Warps { block: [n, m, step], warps: [1, 1] };
        let mut e = Einsum::of(s, &self.p, [Major::Free; 2], [n, m, step * warps * blocks])?;
        let across = if blocks > 1 { Some(cut(s, &mut e, blocks)?) } else { None };
        let left = cut(s, &mut e, warps)?;
        let cluster = across.as_ref().map(|parts| &parts.at);
        let (grid, fill) = grid(s, &e, [n, m, step], (cluster, &left.at))?;
        launch_bounds(s, &grid, k.get("min_blocks"))?;
        for (stage, hint) in [(&e.a, k.get("hint")), (&e.b, 0)] {
            s.set_scope(&stage.buffer, Scope::Local)?;
            s.compute_at(&stage.block, &fill)?;
            let first = together(s, &stage.block, &fill, LeafOp::Elementwise, &alone)?;
            cache_hint(s, &first, hint)?;
        }
        let [sums] = known(e.tails.clone());
        s.reverse_compute_at(&sums, &left.at)?;
        together(s, &sums, &left.at, LeafOp::Elementwise, &alone)?;
        let partial = output(s, &sums);
        s.set_scope(&partial, Scope::Shared)?;
        let init = s.decompose_reduction(&e.block, &fill)?;
        together(s, &init, &left.at, LeafOp::Elementwise, &alone)?;
        let product = together(s, &e.block, &fill, LeafOp::Tile(TileOp::Gemm), &alone)?;
        let variant = if k.get("scales") == SUMS { "mma_runs_scaled" } else { "mma_runs" };
        s.mark(&product, Mark::TileVariant(variant.into()))?;
        s.set_scope(&e.result, Scope::Local)?;
        let block = cluster.unwrap_or(&grid);
        left.add_in_block(s, block)?;
        // while what a block leaves is a tile still, not a share of each thread
        if let Some(parts) = &across {
            parts.adders_of_cluster(s, &grid, blocks, (self.warp, cluster::SIDE_BY_SIDE))?;
        }
        left.adders_of_block(s, block, [warps, self.warp])
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(outline_stream::stream(self.sizes.as_ref()?, (self.warp, self.runs, self.aligned), k))
    }
}

/// Runs that are shifted out of words: there are registers for these, as many blocks are asked for as leave them, and the
/// first-level cache keeps a word for the next run.
fn words_in_registers(space: Space, regs: i64, threads: impl At<i64> + Copy, held: impl At<i64> + Copy) -> Space {
    let want = move |k: &Knobs| held(k) + SELECTED;
    let most = space.knob("min_blocks").and_then(|k| k.values.iter().max().copied());
    let have = move |k: &Knobs, blocks| registers_left(regs, threads(k), blocks);
    let space = space.require("words_in_registers", move |k| {
        at_most(want(k), have(k, k.get("min_blocks")), "registers", "those that the launch bounds leave a thread")
    });
    let space = space.prefer("most_blocks", move |k| match k.get("min_blocks") {
        n if Some(n) < most && want(k) <= have(k, n + 1) => {
            Err(format!("registers are left for {} blocks of a multiprocessor", n + 1))
        }
        _ => Ok(()),
    });
    space.prefer("words_in_cache", |k| match k.get("hint") {
        CACHED => Ok(()),
        _ => Err("a word is loaded for the run that ends in it and for the next, from the cache".into()),
    })
}

/// Cuts the product into tiles, a block or a cluster for each, whose warps share the reduced axis: the loops over tiles and
/// over steps of a warp.
fn grid(
    s: &mut Schedule,
    e: &Einsum,
    [m, n, step]: [i64; 3],
    (cluster, warps): (Option<&Name>, &Name),
) -> Result<(Name, Name), ScheduleError> {
    let [batch, rows, columns, depth] = &e.loops;
    let [ib, ii] = split(s, rows, [None, Some(m)])?;
    let [jb, jj] = split(s, columns, [None, Some(n)])?;
    let [fill, kk] = split(s, depth, [None, Some(step)])?;
    let blocks = [batch.clone(), ib, jb];
    let inner = [warps.clone(), fill.clone(), ii, jj, kk];
    let order: Vec<Name> = blocks.iter().chain(cluster).chain(&inner).cloned().collect();
    s.reorder(&order)?;
    let grid = s.fuse(&blocks)?;
    s.bind(&grid, ThreadTag::BlockX)?;
    cluster.map_or(Ok(()), |block| s.bind(block, ThreadTag::ClusterX))?;
    s.bind(warps, ThreadTag::ThreadY)?;
    Ok((grid, fill))
}

fn whole_fragments([n, m, step]: [i64; 3], runs: Runs) -> Result<(), String> {
    match m > 0 && n > 0 && step > 0 && n % FRAGMENT == 0 && m % ROWS == 0 && step % runs.chunk() == 0 {
        true => Ok(()),
        false => Err(format!("{m} rows, {n} columns and steps of {step} are no whole fragments")),
    }
}

/// Registers of a thread for sums that wait for their scale, and for scales.
fn of_sums(k: &Knobs, warp: i64) -> i64 {
    let [n, m, step] = tile(k);
    if k.get("scales") == SUMS { m * n / warp + n / ROWS * (step / Runs::Words.chunk()) } else { 0 }
}

/// Registers of a thread: sums, and both factors of a step, twice where they are shifted out of words.
fn registers([n, m, step]: [i64; 3], warp: i64, aligned: bool) -> i64 {
    let values = if aligned { m + n } else { 2 * (m + n) };
    m * n / warp + values * step * VALUE / 4 / warp + 40
}
