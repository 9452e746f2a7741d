//! `matmul.cpu`: matrix products on the CPU, convolutions among them (as products of the weights with
//! windows that are stored a panel at a time).
//!
//! When: a sum of products with rows and columns, in any layout, batched or not, factors computed on the
//! way in, an elementwise chain on the way out.
//! How: tasks compute blocks of the result in parallel. For a block of the reduced axis a task packs the
//! rows that it needs, to stay in the second-level cache, then panel by panel the columns, to stay in the
//! first. A small tile of the result waits in vector registers while both are multiplied, and is added to
//! the task's block when they are used up. Everything is padded to whole tiles with zeros, so the inner
//! loops have no conditions; what follows the product is computed on the way from block to memory.
//! A product with a vector is one with a single row; rules before this one know better what to do with it,
//! where they take it.
//! Declines: `target_kind`, the predicates of [`Product::of`].
//!
//! ```text
//! matmul.cpu on cpu
//! before: float32 A[1024, 1024], float32 B[1024, 1024]
//!         float32 O[i, j] += A[i, k] * B[k, j]
//! after:  parallel 36:
//!           loop 16, loop 19, unroll 6, unroll 2, vector 8: b0_result.local = 0
//!           loop 4:
//!             loop 114, loop 32, vector 8: b0_left.local = A
//!             loop 16:
//!               loop 256, loop 2, vector 8: b0_right.local = B
//!               loop 19:
//!                 unroll 6, unroll 2, vector 8: b0_result_rf.local = 0
//!                 loop 256, unroll 6, unroll 2, vector 8: b0_result_rf.local += b0_left.local, b0_right.local
//!                 unroll 6, unroll 2, vector 8: b0_result.local += b0_result_rf.local
//!           loop 114, loop 32, vector 8: O = b0_result.local
//! ```

use super::outline::Sizes;
use super::outline_cpu::{self, Blocks};
use crate::analysis::accumulator;
use crate::rules::find::einsum::{Einsum, Major, Stage};
use crate::rules::find::product::Product;
use crate::rules::parts::*;

/// The rule.
pub const CPU: Rule = Rule::new(Kind::Cpu, "matmul.cpu", include_str!("../schedules/matmul.cpu.toml"), cpu);

/// Rows of a block where their number is not constant, in tiles.
const UNKNOWN_TILES: i64 = 8;

struct Cpu {
    p: Product,
    /// Vector registers that there are.
    registers: i64,
}

/// The sizes of blocks and tiles, in elements.
#[derive(Clone, Copy, Debug)]
struct Panels {
    /// Elements of a vector.
    lanes: i64,
    /// Rows of the tile in registers.
    rows: i64,
    /// Vectors of columns of the tile in registers.
    vectors: i64,
    /// Rows, columns and steps along the reduced axis of a block.
    block: [i64; 3],
}

impl Panels {
    /// The sizes at a point.
    fn of(p: &Product) -> impl At<Panels> + Copy {
        let ([_, rows, columns, depth], acc) = (p.extents(), accumulator(p.dtype));
        move |k| {
            // One column is not padded: nothing says which of the sums would be the right one.
            let lanes = if columns == Some(1) { 1 } else { lanes(k.get("vector"), acc) };
            let least = |knob: i64, extent: Option<i64>, unit: i64| extent.map_or(knob, |n| knob.min(over(n, unit)));
            let tile_rows = least(k.get("rows"), rows, 1);
            let vectors = least(k.get("vectors"), columns, lanes);
            let block = [
                rows.map_or(tile_rows * UNKNOWN_TILES, |n| even(n, k.get("block_rows"), tile_rows)),
                even(columns.unwrap_or(k.get("block_columns")), k.get("block_columns"), vectors * lanes),
                depth.map_or(k.get("block_depth"), |n| even(n, k.get("block_depth"), 1)),
            ];
            Panels { lanes, rows: tile_rows, vectors, block }
        }
    }

    /// Columns of the tile in registers.
    fn columns(&self) -> i64 {
        self.vectors * self.lanes
    }
}

/// The size of equal parts of `extent`, whole units each, none above `most` unless a unit is.
pub fn even(extent: i64, most: i64, unit: i64) -> i64 {
    let parts = over(extent, (most / unit).max(1) * unit).max(1);
    over(over(extent, parts), unit).max(1) * unit
}

fn cpu(ask: &Ask) -> Answer {
    Product::of(ask).map(|p| Found::new(p.schedule.clone(), Cpu { registers: vector_registers(ask.target), p }))
}

impl Accepted for Cpu {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let panels = Panels::of(&self.p);
        let acc = accumulator(self.p.dtype);
        let space = vector_tile(space, target, acc, |k| [k.get("rows"), k.get("vectors")]);
        let space = space.prefer("hides_latency", |k| match k.get("rows") * k.get("vectors") {
            n if n >= 8 => Ok(()),
            n => Err(format!("{n} sums in flight are less than the 8 that keep two units busy")),
        });
        let space = private_arrays(space, move |k| {
            let t = panels(k);
            let [m, n, depth] = t.block;
            [m * n, m * depth, depth * t.columns()]
        });
        let (sizes, cores) = (self.p.extents(), target.cores.max(1) as i64);
        space.prefer("tasks", move |k| {
            let [Some(batch), Some(rows), Some(columns), _] = sizes else { return Ok(()) };
            let [m, n, _] = panels(k).block;
            match batch * over(rows, m) * over(columns, n) {
                tasks if tasks < 4 * cores => Err(format!("{tasks} tasks leave some of {cores} cores idle at the end")),
                _ => Ok(()),
            }
        })
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let t = Panels::of(&self.p)(k);
        let major = |along_depth: bool| if along_depth { Major::Free } else { Major::Depth };
        let e = Einsum::of(s, &self.p, [major(self.p.a.along_depth), Major::Depth], t.block)?;
        let [task, depth, panel, tile] = nest(s, &e, &t)?;
        add_to_block(s, &e, [&depth, &tile], t.lanes)?;
        pack(s, &e.a, &depth, t.lanes)?;
        pack(s, &e.b, &panel, t.lanes)?;
        e.tails.iter().try_for_each(|tail| vectorize_tail(s, tail, &task, t.lanes))
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let t = Panels::of(&self.p)(k);
        let [m, n, depth] = t.block;
        let blocks = Blocks {
            block: t.block,
            rows: t.rows,
            columns: t.columns(),
            steps_per_operation: 1,
            registers: [t.rows * t.vectors + t.vectors + 1, self.registers],
            vector: k.get("vector"),
            packed: (m + n) * depth,
        };
        Some(outline_cpu::blocks(&Sizes::of(&self.p)?, &blocks))
    }
}

/// Tiles the product; what a tile sums over a block of the reduced axis becomes a block of its own, whose
/// result waits in registers. Gives the loops over tasks, over blocks of the reduced axis, over panels of columns
/// and over tiles of rows.
fn nest(s: &mut Schedule, e: &Einsum, t: &Panels) -> Result<[Name; 4], ScheduleError> {
    let [batch, rows, columns, depth] = &e.loops;
    let [m, n, _] = t.block;
    let [ko, ki] = split(s, depth, [None, Some(t.block[2])])?;
    let sums = s.rfactor(&ko, 0)?;
    let registers = output(s, &sums);
    let [ib, it, ir] = split(s, rows, [None, Some(m / t.rows), Some(t.rows)])?;
    let [jb, jp, jv, jl] = split(s, columns, [None, Some(n / t.columns()), Some(t.vectors), Some(t.lanes)])?;
    order(s, [batch, &ib, &jb, &ko, &jp, &it, &ki, &ir, &jv, &jl])?;
    let task = s.fuse(&[batch.clone(), ib, jb])?;
    s.parallel(&task)?;
    unroll_loop(s, &ir)?;
    unroll_loop(s, &jv)?;
    vectorize_loop(s, &jl)?;
    s.decompose_reduction(&sums, &ki)?;
    s.set_scope(&registers, Scope::Local)?;
    Ok([task, ko, jp, it])
}

/// Adds each tile to the task's block of the result.
fn add_to_block(s: &mut Schedule, e: &Einsum, [depth, tile]: [&Name; 2], lanes: i64) -> Done {
    vectorize_tail(s, &e.block, tile, lanes)?;
    for l in loops_below(s, &e.block, tile) {
        unroll_loop(s, &l)?;
    }
    s.decompose_reduction(&e.block, depth)?;
    s.set_scope(&e.result, Scope::Local)
}

/// Computes the part of a factor that is needed inside `at`.
pub fn pack(s: &mut Schedule, stage: &Stage, at: &Name, lanes: i64) -> Done {
    s.set_scope(&stage.buffer, Scope::Local)?;
    s.compute_at(&stage.block, at)?;
    vectorize_spatial(s, &stage.block, at, lanes)
}

/// Brings what follows under `at`, as vectors.
pub fn vectorize_tail(s: &mut Schedule, block: &Name, at: &Name, lanes: i64) -> Done {
    s.reverse_compute_at(block, at)?;
    vectorize_spatial(s, block, at, lanes)
}

/// Splits off `lanes` of the innermost spatial loop below `at` and vectorizes them.
fn vectorize_spatial(s: &mut Schedule, block: &Name, at: &Name, lanes: i64) -> Done {
    loops_of_kind(s, block, at, IterKind::Spatial).last().map_or(Ok(()), |last| vectorize_lanes(s, last, lanes))
}
