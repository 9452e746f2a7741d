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

use super::outline::{Sizes, over};
use super::outline_cpu::{self, Blocks};
use crate::analysis::{Decline, accumulator};
use crate::ir::{IterKind, Name, Scope};
use crate::rules::find::einsum::{Einsum, Major, Stage};
use crate::rules::find::product::Product;
use crate::rules::parts::*;
use crate::rules::space::limits::{lanes, vector_registers, vector_tile};
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The rule.
pub struct MatmulCpu;

const NAME: &str = "matmul.cpu";
/// Elements of a private array at most: a task's stack holds three.
const ARRAY: i64 = 1 << 16;
/// Rows of a block where their number is not constant, in tiles.
const UNKNOWN_TILES: i64 = 8;

/// The sizes of blocks and tiles, in elements.
#[derive(Clone, Copy, Debug)]
struct Tiling {
    /// Elements of a vector.
    lanes: i64,
    /// Rows of the tile in registers.
    rows: i64,
    /// Vectors of columns of the tile in registers.
    vectors: i64,
    /// Rows, columns and steps along the reduced axis of a block.
    block: [i64; 3],
}

impl Tiling {
    fn of(p: &Product, k: &Knobs) -> Tiling {
        let [rows, columns, depth] = [&p.rows, &p.columns, &p.depth].map(|c| Product::extent(c));
        // One column is not padded: nothing says which of the sums would be the right one.
        let lanes = if columns == Some(1) { 1 } else { lanes(k.get("vector"), accumulator(p.dtype)) };
        let least = |knob: i64, extent: Option<i64>, unit: i64| extent.map_or(knob, |n| knob.min(over(n, unit)));
        let tile_rows = least(k.get("rows"), rows, 1);
        let vectors = least(k.get("vectors"), columns, lanes);
        let block = [
            rows.map_or(tile_rows * UNKNOWN_TILES, |n| even(n, k.get("block_rows"), tile_rows)),
            even(columns.unwrap_or(k.get("block_columns")), k.get("block_columns"), vectors * lanes),
            depth.map_or(k.get("block_depth"), |n| even(n, k.get("block_depth"), 1)),
        ];
        Tiling { lanes, rows: tile_rows, vectors, block }
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

impl ScheduleRule for MatmulCpu {
    fn name(&self) -> &'static str {
        NAME
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let p = accept(input, target)?;
        let (acc, have) = (accumulator(p.dtype), vector_registers(target));
        let space = spaces.space(NAME, target);
        let space = vector_tile(space, target, acc, |k| [k.get("rows"), k.get("vectors")]);
        let space = space.prefer("hides_latency", |k| match k.get("rows") * k.get("vectors") {
            n if n >= 8 => Ok(()),
            n => Err(format!("{n} sums in flight are less than the 8 that keep two units busy")),
        });
        let tiling = tilings(&p);
        let space = space.require("private_arrays", move |k| {
            let t = tiling(k);
            let [m, n, depth] = t.block;
            let sizes = [m * n, m * depth, depth * t.columns()];
            match sizes.iter().max() {
                Some(n) if *n > ARRAY => Err(format!("{n} elements exceed the {ARRAY} of a private array")),
                _ => Ok(()),
            }
        });
        let (tiling, cores) = (tilings(&p), target.cores.max(1) as i64);
        let sizes = [&p.batch, &p.rows, &p.columns].map(|c| Product::extent(c));
        let space = space.prefer("tasks", move |k| {
            let [Some(batch), Some(rows), Some(columns)] = sizes else { return Ok(()) };
            let [m, n, _] = tiling(k).block;
            match batch * over(rows, m) * over(columns, n) {
                tasks if tasks < 4 * cores => Err(format!("{tasks} tasks leave some of {cores} cores idle at the end")),
                _ => Ok(()),
            }
        });
        let Some(sizes) = Sizes::of(&p) else { return Ok(space) };
        Ok(space.outlined(move |k| {
            let t = Tiling::of(&p, k);
            let [m, n, depth] = t.block;
            let blocks = Blocks {
                block: t.block,
                rows: t.rows,
                columns: t.columns(),
                steps_per_operation: 1,
                registers: [t.rows * t.vectors + t.vectors + 1, have],
                vector: k.get("vector"),
                packed: (m + n) * depth,
            };
            outline_cpu::blocks(&sizes, &blocks)
        }))
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let p = accepted(accept(input, target));
        let t = Tiling::of(&p, knobs);
        let major = |along_depth: bool| if along_depth { Major::Free } else { Major::Depth };
        let e = Einsum::of(&p, [major(p.a.along_depth), Major::Depth], t.block)?;
        let mut s = e.schedule.clone();
        let nest = nest(&mut s, &e, &t)?;
        add_to_block(&mut s, &e, &nest, t.lanes)?;
        pack(&mut s, &e.a, &nest.depth, t.lanes)?;
        pack(&mut s, &e.b, &nest.panel, t.lanes)?;
        for tail in &e.tails {
            s.reverse_compute_at(tail, &nest.task)?;
            vectorize_last(&mut s, tail, &nest.task, t.lanes)?;
        }
        Ok(s)
    }
}

/// The tiling at a point, without the product.
fn tilings(p: &Product) -> impl Fn(&Knobs) -> Tiling + Send + Sync + 'static {
    let p = p.clone();
    move |k| Tiling::of(&p, k)
}

/// The loops that later steps need.
struct Nest {
    /// Over blocks of the result, in parallel.
    task: Name,
    /// Over blocks of the reduced axis.
    depth: Name,
    /// Over panels of columns.
    panel: Name,
    /// Over tiles of rows.
    tile: Name,
}

/// Tiles the product; what a tile sums over a block of the reduced axis becomes a block of its own, whose
/// result waits in registers.
fn nest(s: &mut Schedule, e: &Einsum, t: &Tiling) -> Result<Nest, ScheduleError> {
    let [batch, rows, columns, depth] = &e.loops;
    let [m, n, _] = t.block;
    let k = s.split(depth, &[None, Some(t.block[2])])?;
    let sums = s.rfactor(&k[0], 0)?;
    let registers = output(s, &sums);
    let i = s.split(rows, &[None, Some(m / t.rows), Some(t.rows)])?;
    let j = s.split(columns, &[None, Some(n / t.columns()), Some(t.vectors), Some(t.lanes)])?;
    let order = [batch, &i[0], &j[0], &k[0], &j[1], &i[1], &k[1], &i[2], &j[2], &j[3]];
    s.reorder(&order.map(|l| l.clone()))?;
    let task = s.fuse(&[batch.clone(), i[0].clone(), j[0].clone()])?;
    s.parallel(&task)?;
    unroll_loop(s, &i[2])?;
    unroll_loop(s, &j[2])?;
    vectorize_loop(s, &j[3])?;
    s.decompose_reduction(&sums, &k[1])?;
    s.set_scope(&registers, Scope::Local)?;
    Ok(Nest { task, depth: k[0].clone(), panel: j[1].clone(), tile: i[1].clone() })
}

/// Adds each tile to the task's block of the result.
fn add_to_block(s: &mut Schedule, e: &Einsum, nest: &Nest, lanes: i64) -> Result<(), ScheduleError> {
    s.reverse_compute_at(&e.block, &nest.tile)?;
    vectorize_last(s, &e.block, &nest.tile, lanes)?;
    for l in loops_below(s, &e.block, &nest.tile) {
        unroll_loop(s, &l)?;
    }
    s.decompose_reduction(&e.block, &nest.depth)?;
    s.set_scope(&e.result, Scope::Local)
}

/// Computes the part of a factor that is needed inside `at`.
pub fn pack(s: &mut Schedule, stage: &Stage, at: &Name, lanes: i64) -> Result<(), ScheduleError> {
    s.set_scope(&stage.buffer, Scope::Local)?;
    s.compute_at(&stage.block, at)?;
    vectorize_last(s, &stage.block, at, lanes)
}

/// Splits off `lanes` of the innermost spatial loop below `at` and vectorizes them.
pub fn vectorize_last(s: &mut Schedule, block: &Name, at: &Name, lanes: i64) -> Result<(), ScheduleError> {
    let Some(last) = loops_of_kind(s, block, at, IterKind::Spatial).last().cloned() else { return Ok(()) };
    let extent = loop_extent(s, &last);
    if lanes <= 1 || extent.is_none_or(|n| n % lanes != 0) {
        return Ok(());
    }
    let inner = if extent == Some(lanes) { last } else { s.split(&last, &[None, Some(lanes)])?[1].clone() };
    vectorize_loop(s, &inner)
}

fn accept(input: &Prepared, target: &Target) -> Result<Product, Decline> {
    for_kind(NAME, Kind::Cpu, target)?;
    Product::of(NAME, input)
}
