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
//!
//! ```text
//! low_batch.cpu on cpu
//! before: float32 X[8, 4096], float32 W[4096, 4096]
//!         float32 O[m, n] += X[m, k] * W[n, k]
//! after:  parallel 64:
//!           loop 32, loop 2, unroll 4, unroll 2, vector 8: b0_result_rf.local = 0
//!           loop 4:
//!             loop 8, loop 128, vector 8: b0_left.local = X
//!             loop 32, loop 2:
//!               unroll 4, unroll 2, vector 8: b0_result_rf_rf.local = 0
//!               loop 128, unroll 4, unroll 2, vector 8: b0_result_rf_rf.local += b0_left.local, W
//!               unroll 4, unroll 2, vector 8: b0_result_rf.local += b0_result_rf_rf.local
//!           loop 8, loop 64:
//!             b0_result.local = 0
//!             unroll 8: b0_result.local += b0_result_rf.local
//!           loop 8, loop 8, vector 8: O = b0_result.local
//! ```

use crate::analysis::accumulator;
use crate::rules::find::einsum::{Einsum, Major};
use crate::rules::find::product::Product;
use crate::rules::matmul::cpu::{even, pack, vectorize_tail};
use crate::rules::matmul::outline::Sizes;
use crate::rules::matmul::outline_cpu::{self, Blocks};
use crate::rules::parts::*;

/// The rule.
pub const CPU: Rule = Rule::new(Kind::Cpu, "low_batch.cpu", include_str!("../schedules/low_batch.cpu.toml"), few_rows);

/// Rows at most, and rows of a block.
const MOST_ROWS: i64 = 32;
const BLOCK_ROWS: i64 = 16;
/// Lanes in which a matrix is computed: as many as there are small integers in a word.
const WORD_LANES: i64 = 8;

struct FewRows {
    p: Product,
    /// Vector registers that there are.
    registers: i64,
}

/// The sizes of blocks and tiles, in elements.
#[derive(Clone, Copy, Debug)]
struct Dots {
    /// Elements of a vector.
    lanes: i64,
    /// Rows and columns of the tile in registers.
    tile: [i64; 2],
    /// Rows, columns and steps along the reduced axis of a block.
    block: [i64; 3],
    /// The matrix needs no padding.
    whole: bool,
}

impl Dots {
    /// The sizes at a point.
    fn of(p: &Product) -> impl At<Dots> + Copy {
        let ([_, rows, columns, depth], acc) = (p.extents(), accumulator(p.dtype));
        move |k| {
            let lanes = lanes(k.get("vector"), acc);
            let of_block = even(rows.unwrap_or(BLOCK_ROWS), BLOCK_ROWS, 1);
            let mr = even(of_block, k.get("rows"), 1);
            let nr = if columns == Some(1) { 1 } else { k.get("columns") };
            let block = [
                even(of_block, of_block, mr),
                part(columns.unwrap_or(k.get("block_columns")), k.get("block_columns"), nr),
                part(depth.unwrap_or(k.get("block_depth")), k.get("block_depth"), lanes),
            ];
            let divides = |n: Option<i64>, by: i64| n.is_some_and(|n| n % by == 0);
            Dots { lanes, tile: [mr, nr], block, whole: divides(columns, block[1]) && divides(depth, block[2]) }
        }
    }
}

/// The size of parts of `extent`, whole units each and none above `most`: the largest that divides it, so that the matrix is read
/// where it lies, or that of equal parts, the last one padded, where only parts of less than an eighth of `most` divide it.
fn part(extent: i64, most: i64, unit: i64) -> i64 {
    let units = most.min(extent) / unit;
    let divides = |n: &i64| extent % (n * unit) == 0;
    let fit = (most / unit / 8).max(1)..=units;
    fit.rev().find(divides).map_or_else(|| even(extent, most, unit), |n| n * unit)
}

fn few_rows(ask: &Ask) -> Answer {
    let p = Product::of(ask)?;
    if let Some(rows) = p.extents()[1].filter(|n| *n > MOST_ROWS) {
        return Err(ask.no("few_rows", format!("{rows} rows are more than {MOST_ROWS}")));
    }
    if !p.a.along_depth || !p.b.along_depth {
        return Err(ask.no("along_depth", "a factor is not contiguous along the reduced axis"));
    }
    Ok(Found::new(p.schedule.clone(), FewRows { registers: vector_registers(ask.target), p }))
}

impl Accepted for FewRows {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let dots = Dots::of(&self.p);
        let space = vector_tile(space, target, accumulator(self.p.dtype), move |k| dots(k).tile);
        private_arrays(space, move |k| {
            let t = dots(k);
            let [m, n, depth] = t.block;
            [m * n * t.lanes, m * depth, depth * t.tile[1]]
        })
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let (p, t) = (&self.p, Dots::of(&self.p)(k));
        let e = Einsum::of(s, p, [Major::Free; 2], t.block)?;
        let [task, depth, columns] = nest(s, &e, &t)?;
        pack(s, &e.a, &depth, t.lanes)?;
        if !(p.b.plain && t.whole && s.compute_inline(&e.b.block).is_ok()) {
            pack(s, &e.b, &columns, if p.b.plain { t.lanes } else { t.lanes.min(WORD_LANES) })?;
        }
        s.reverse_compute_at(&e.block, &task)?;
        if let Some(lane) = loops_of_kind(s, &e.block, &task, IterKind::Reduce).first() {
            unroll_loop(s, lane)?;
            s.decompose_reduction(&e.block, lane)?;
        }
        s.set_scope(&e.result, Scope::Local)?;
        e.tails.iter().try_for_each(|tail| vectorize_tail(s, tail, &task, t.lanes))
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let (p, t) = (&self.p, Dots::of(&self.p)(k));
        let ([m, n, depth], [mr, nr]) = (t.block, t.tile);
        let blocks = Blocks {
            block: t.block,
            rows: mr,
            columns: nr,
            steps_per_operation: t.lanes,
            registers: [mr * nr + nr + 1, self.registers],
            vector: k.get("vector"),
            packed: m * depth / t.lanes + if p.b.plain && t.whole { 0 } else { n * depth },
        };
        Some(outline_cpu::blocks(&Sizes::of(p)?, &blocks))
    }
}

/// Tiles the product. What a tile sums over a block of the reduced axis waits in registers, lane by lane,
/// and is added to the task's sums, which are still apart by lane. Gives the loops over tasks, over blocks of the
/// reduced axis and over a few columns.
fn nest(s: &mut Schedule, e: &Einsum, t: &Dots) -> Result<[Name; 3], ScheduleError> {
    let [batch, rows, columns, depth] = &e.loops;
    let ([mr, nr], [m, n, d]) = (t.tile, t.block);
    let [ko, ki, kl] = split(s, depth, [None, Some(d / t.lanes), Some(t.lanes)])?;
    let by_lane = s.rfactor(&kl, 3)?;
    let in_registers = s.rfactor(&ko, 0)?;
    let registers = output(s, &in_registers);
    let [ib, it, ir] = split(s, rows, [None, Some(m / mr), Some(mr)])?;
    let [jb, jt, jr] = split(s, columns, [None, Some(n / nr), Some(nr)])?;
    order(s, [batch, &ib, &jb, &ko, &jt, &it, &ki, &ir, &jr, &kl])?;
    let task = s.fuse(&[batch.clone(), ib, jb])?;
    s.parallel(&task)?;
    unroll_loop(s, &ir)?;
    unroll_loop(s, &jr)?;
    vectorize_loop(s, &kl)?;
    s.decompose_reduction(&in_registers, &ki)?;
    s.set_scope(&registers, Scope::Local)?;
    s.reverse_compute_at(&by_lane, &it)?;
    let mut inner = loops_of_kind(s, &by_lane, &it, IterKind::Spatial);
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
    s.decompose_reduction(&by_lane, &ko)?;
    let sums = output(s, &by_lane);
    s.set_scope(&sums, Scope::Local)?;
    Ok([task, ko, jt])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_divide_where_they_can() {
        let cases = [
            ([4096, 64, 4], 64),
            ([11936, 64, 4], 32),
            ([3112, 64, 4], 8),
            ([13760, 1024, 16], 688),
            ([40, 64, 4], 40),
            // No eighth of 64 divides these: equal parts, the last one padded.
            ([3109, 64, 4], 64),
            ([2133, 4096, 16], 2144),
            ([3, 64, 4], 4),
        ];
        for ([extent, most, unit], want) in cases {
            assert_eq!(part(extent, most, unit), want, "{extent} in parts of up to {most}, units of {unit}");
        }
    }
}
