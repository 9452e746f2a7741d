//! `low_batch.cpu`: products of a few rows with a large matrix on the CPU, both contiguous along the reduced
//! axis, as in y[m, n] = sum_k x[m, k] W[n, k] with up to 32 rows (or a number that is not known).
//!
//! When: a sum of products, factors contiguous along the reduced axis, an elementwise chain on the way out.
//! How: tasks own blocks of columns and read the matrix once, where it lies: it is not worth packing for so
//! few rows. Vectors run along the reduced axis; each load of the matrix is multiplied with all rows, whose
//! sums wait in registers, lane by lane, and are joined at the end. The rows are staged, block by block of
//! the reduced axis, in the first-level cache. A matrix that is computed on the way in (dequantised), or
//! whose sizes are odd, is staged a few columns at a time.
//! Declines: `target_kind`, the predicates of [`Product::of`], `few_rows`, `along_depth`.

use crate::analysis::{Decline, accumulator};
use crate::ir::{IterKind, Name, Scope};
use crate::rules::find::einsum::{Einsum, Major};
use crate::rules::find::product::Product;
use crate::rules::matmul::cpu::{even, pack, vectorize_last};
use crate::rules::matmul::outline::Sizes;
use crate::rules::matmul::outline_cpu::{self, Blocks};
use crate::rules::parts::*;
use crate::rules::space::limits::{lanes, vector_registers, vector_tile};
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The rule.
pub struct LowBatchCpu;

const NAME: &str = "low_batch.cpu";
/// Rows at most, and rows of a block.
const MOST_ROWS: i64 = 32;
const BLOCK_ROWS: i64 = 16;
/// Lanes in which a matrix is computed: as many as there are small integers in a word.
const WORD_LANES: i64 = 8;
/// Elements of a private array at most.
const ARRAY: i64 = 1 << 16;

/// The sizes of blocks and tiles, in elements.
#[derive(Clone, Copy, Debug)]
struct Tiling {
    /// Elements of a vector.
    lanes: i64,
    /// Rows and columns of the tile in registers.
    tile: [i64; 2],
    /// Rows, columns and steps along the reduced axis of a block.
    block: [i64; 3],
    /// The matrix needs no padding.
    whole: bool,
}

impl Tiling {
    fn of(p: &Product, k: &Knobs) -> Tiling {
        let lanes = lanes(k.get("vector"), accumulator(p.dtype));
        let [rows, columns, depth] = [&p.rows, &p.columns, &p.depth].map(|c| Product::extent(c));
        let of_block = even(rows.unwrap_or(BLOCK_ROWS), BLOCK_ROWS, 1);
        let mr = even(of_block, k.get("rows"), 1);
        let nr = if columns == Some(1) { 1 } else { k.get("columns") };
        let block = [
            even(of_block, of_block, mr),
            even(columns.unwrap_or(k.get("block_columns")), k.get("block_columns"), nr),
            even(depth.unwrap_or(k.get("block_depth")), k.get("block_depth"), lanes),
        ];
        let divides = |n: Option<i64>, by: i64| n.is_some_and(|n| n % by == 0);
        Tiling { lanes, tile: [mr, nr], block, whole: divides(columns, block[1]) && divides(depth, block[2]) }
    }
}

impl ScheduleRule for LowBatchCpu {
    fn name(&self) -> &'static str {
        NAME
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let p = accept(input, target)?;
        let (acc, have) = (accumulator(p.dtype), vector_registers(target));
        let space = spaces.space(NAME, target);
        let product = p.clone();
        let space = vector_tile(space, target, acc, move |k| Tiling::of(&product, k).tile);
        let product = p.clone();
        let space = space.require("private_arrays", move |k| {
            let t = Tiling::of(&product, k);
            let [m, n, depth] = t.block;
            match [m * n * t.lanes, m * depth, depth * t.tile[1]].iter().max() {
                Some(n) if *n > ARRAY => Err(format!("{n} elements exceed the {ARRAY} of a private array")),
                _ => Ok(()),
            }
        });
        let Some(sizes) = Sizes::of(&p) else { return Ok(space) };
        Ok(space.outlined(move |k| {
            let t = Tiling::of(&p, k);
            let ([m, n, depth], [mr, nr]) = (t.block, t.tile);
            let blocks = Blocks {
                block: t.block,
                rows: mr,
                columns: nr,
                steps_per_operation: t.lanes,
                registers: [mr * nr + nr + 1, have],
                vector: k.get("vector"),
                packed: m * depth / t.lanes + if p.b.plain && t.whole { 0 } else { n * depth },
            };
            outline_cpu::blocks(&sizes, &blocks)
        }))
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let p = accepted(accept(input, target));
        let t = Tiling::of(&p, knobs);
        let e = Einsum::of(&p, [Major::Free; 2], t.block)?;
        let mut s = e.schedule.clone();
        let nest = nest(&mut s, &e, &t)?;
        pack(&mut s, &e.a, &nest.depth, t.lanes)?;
        if !(p.b.plain && t.whole && s.compute_inline(&e.b.block).is_ok()) {
            pack(&mut s, &e.b, &nest.columns, if p.b.plain { t.lanes } else { t.lanes.min(WORD_LANES) })?;
        }
        s.reverse_compute_at(&e.block, &nest.task)?;
        if let Some(lane) = loops_of_kind(&s, &e.block, &nest.task, IterKind::Reduce).first().cloned() {
            unroll_loop(&mut s, &lane)?;
            s.decompose_reduction(&e.block, &lane)?;
        }
        s.set_scope(&e.result, Scope::Local)?;
        for tail in &e.tails {
            s.reverse_compute_at(tail, &nest.task)?;
            vectorize_last(&mut s, tail, &nest.task, t.lanes)?;
        }
        Ok(s)
    }
}

/// The loops that later steps need.
struct Nest {
    /// Over blocks of the result, in parallel.
    task: Name,
    /// Over blocks of the reduced axis.
    depth: Name,
    /// Over a few columns.
    columns: Name,
}

/// Tiles the product. What a tile sums over a block of the reduced axis waits in registers, lane by lane,
/// and is added to the task's sums, which are still apart by lane.
fn nest(s: &mut Schedule, e: &Einsum, t: &Tiling) -> Result<Nest, ScheduleError> {
    let [batch, rows, columns, depth] = &e.loops;
    let ([mr, nr], [m, n, d]) = (t.tile, t.block);
    let k = s.split(depth, &[None, Some(d / t.lanes), Some(t.lanes)])?;
    let by_lane = s.rfactor(&k[2], 3)?;
    let in_registers = s.rfactor(&k[0], 0)?;
    let registers = output(s, &in_registers);
    let i = s.split(rows, &[None, Some(m / mr), Some(mr)])?;
    let j = s.split(columns, &[None, Some(n / nr), Some(nr)])?;
    let order = [batch, &i[0], &j[0], &k[0], &j[1], &i[1], &k[1], &i[2], &j[2], &k[2]];
    s.reorder(&order.map(|l| l.clone()))?;
    let task = s.fuse(&[batch.clone(), i[0].clone(), j[0].clone()])?;
    s.parallel(&task)?;
    unroll_loop(s, &i[2])?;
    unroll_loop(s, &j[2])?;
    vectorize_loop(s, &k[2])?;
    s.decompose_reduction(&in_registers, &k[1])?;
    s.set_scope(&registers, Scope::Local)?;
    s.reverse_compute_at(&by_lane, &i[1])?;
    let mut inner = loops_of_kind(s, &by_lane, &i[1], IterKind::Spatial);
    if let Some(at) = inner.iter().position(|l| loop_extent(s, l) == Some(t.lanes))
        && t.lanes > 1
    {
        let lane = inner.remove(at);
        inner.push(lane.clone());
        s.reorder(&inner)?;
        inner.pop();
        vectorize_loop(s, &lane)?;
    }
    for l in &inner {
        unroll_loop(s, l)?;
    }
    s.decompose_reduction(&by_lane, &k[0])?;
    let sums = output(s, &by_lane);
    s.set_scope(&sums, Scope::Local)?;
    Ok(Nest { task, depth: k[0].clone(), columns: j[1].clone() })
}

fn accept(input: &Prepared, target: &Target) -> Result<Product, Decline> {
    for_kind(NAME, Kind::Cpu, target)?;
    let no = |predicate, reason: String| Decline { by: NAME, predicate, reason };
    let p = Product::of(NAME, input)?;
    if let Some(rows) = Product::extent(&p.rows).filter(|n| *n > MOST_ROWS) {
        return Err(no("few_rows", format!("{rows} rows are more than {MOST_ROWS}")));
    }
    if !p.a.along_depth || !p.b.along_depth {
        return Err(no("along_depth", "a factor is not contiguous along the reduced axis".into()));
    }
    Ok(p)
}
