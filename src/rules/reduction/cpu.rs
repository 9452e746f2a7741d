//! `reduction.cpu` and `reduction.outer_cpu`: reductions on the CPU.
//!
//! When: one sum, product, max, min, argmax or argmin; injective producers (inlined) and elementwise
//! epilogues or none. The first form takes functions whose contiguous axis is reduced, the second the others.
//! How: rows (or blocks of columns) in parallel; several vector accumulators in flight. With `split`
//! above 1, parts of a row or column are reduced in parallel and a second pass adds the parts.
//! Declines: `target_kind`, the predicates of [`Reduction::of`]; `reduction.cpu`: `contiguous_reduction`,
//! `no_window`, `is_gemv`; `reduction.outer_cpu`: `strided_reduction`.
//!
//! ```text
//! reduction.cpu on cpu
//! before: float32 A[4096, 4096]
//!         float32 O[i] += A[i, k]
//! after:  parallel 4096:
//!           unroll 8, vector 8: O_rf.local = 0
//!           loop 64 [prefetch_bytes=2048], unroll 8, vector 8: O_rf.local += A
//!           vector 8: O_local_rf.local = 0
//!           unroll 8, vector 8: O_local_rf.local += O_rf.local
//!           O_local = 0
//!           unroll 8: O_local += O_local_rf.local
//!           O = O_local
//! ```
//!
//! ```text
//! reduction.outer_cpu on cpu
//! before: float32 A[4096, 4096]
//!         float32 O[i] += A[k, i]
//! after:  parallel 64:
//!           unroll 8, vector 8: O_local = 0
//!           loop 2048, unroll 2, unroll 8, vector 8: O_local += A
//!           loop 8, vector 8: O = O_local
//! ```

use super::inner::parts_of_rows;
use super::outer::{loops_of_parts, parts_of_columns};
use crate::rules::find::shape::{Chain, Reduction};
use crate::rules::parts::*;
use crate::rules::space::outlines;

/// The form with the contiguous axis reduced.
pub const INNER: Rule = Rule::new(Kind::Cpu, "reduction.cpu", include_str!("../schedules/reduction.cpu.toml"), inner);

/// The form with a strided axis reduced.
pub const OUTER: Rule =
    Rule::new(Kind::Cpu, "reduction.outer_cpu", include_str!("../schedules/reduction.outer_cpu.toml"), outer);

struct Inner(Reduction);

struct Outer(Reduction);

fn inner(ask: &Ask) -> Answer {
    Reduction::along_memory(ask).map(|r| Found::new(r.one.schedule.clone(), Inner(r)))
}

fn outer(ask: &Ask) -> Answer {
    Reduction::across_memory(ask).map(|r| Found::new(r.one.schedule.clone(), Outer(r)))
}

impl Accepted for Inner {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (acc, outputs, length) = (self.0.one.reducer.dtype, self.0.outputs(), self.0.length());
        let space = cpu_space(space, acc, self.0.run());
        let step = move |k: &Knobs| k.get("unroll") * lanes(k.get("vector"), acc) * k.get("split");
        let space = step_fits(space, length, step);
        let space = parts_fit(space, length, outputs);
        let cores = target.cores.max(1) as i64;
        space.prefer("split_needed", move |k| match (k.get("split"), outputs, length) {
            (1, Some(o), Some(l)) if o < cores && l > 1 << 20 => Err(format!("{o} rows leave cores idle")),
            (1, _, _) => Ok(()),
            (split, Some(o), _) if o * split <= 64 * cores => Ok(()),
            (split, _, _) => Err(format!("{split} parts of so many rows keep no core busier")),
        })
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let (r, split, ahead) = (&self.0, k.get("split"), k.get("prefetch"));
        let shape = [k.get("unroll"), lanes(k.get("vector"), r.one.reducer.dtype)];
        order_axes(s, &[&r.spatial, &r.reduce])?;
        let row = fuse_all(s, &r.spatial)?;
        let all = fuse_all(s, &r.reduce)?;
        if split == 1 {
            return reduce_rows(s, &r.one.chain, [&row, &all], shape, ahead);
        }
        let (first, row, part) = parts_of_rows(s, &r.one.chain.block, row, &all, split)?;
        reduce_rows(s, &Chain::alone(first), [&row, &part], shape, ahead)?;
        add_parts(s, &r.one.chain)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let (unroll, split, vector) = (k.get("unroll"), k.get("split"), k.get("vector"));
        let steps = self.0.length()? / (unroll * lanes(vector, self.0.one.reducer.dtype) * split);
        Some(outlines::cpu(self.0.work.as_ref()?, self.0.outputs()?, steps.max(1), unroll, vector, split))
    }
}

impl Accepted for Outer {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let r = &self.0;
        let (acc, columns, outputs) = (r.one.reducer.dtype, r.last(), r.outputs());
        let space = cpu_space(space, acc, columns);
        let space = step_fits(space, columns, move |k| k.get("vectors") * lanes(k.get("vector"), acc));
        let space = step_fits(space, self.0.length(), |k| k.get("unroll") * k.get("split"));
        let space = parts_fit(space, self.0.length(), outputs);
        let tasks = move |k: &Knobs| Some(outputs? / (k.get("vectors") * lanes(k.get("vector"), acc)));
        let cores = target.cores.max(1) as i64;
        space.prefer("split_needed", move |k| match (k.get("split"), tasks(k)) {
            (1, _) => Ok(()),
            (split, Some(tasks)) if tasks * split <= 64 * cores => Ok(()),
            (split, _) => Err(format!("{split} parts of so many columns keep no core busier")),
        })
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let (r, split) = (&self.0, k.get("split"));
        let width = lanes(k.get("vector"), r.one.reducer.dtype);
        let shape = [k.get("vectors"), width, k.get("unroll")];
        order_axes(s, &[&r.spatial, &r.reduce])?;
        let (outer, column) = fuse_but_last(s, &r.spatial)?;
        let all = fuse_all(s, &r.reduce)?;
        if split == 1 {
            return reduce_columns(s, &r.one.chain, outer, &column, &all, shape);
        }
        let (first, outer, part) = parts_of_columns(s, outer, &column, &all, split)?;
        reduce_columns(s, &Chain::alone(first), Some(outer), &column, &part, shape)?;
        let (outer, column, all) = loops_of_parts(s, &r.one.chain.block)?;
        reduce_columns(s, &r.one.chain, outer, &column, &all, [shape[0], width, 1])
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let (columns, unroll, split) = (k.get("vectors"), k.get("unroll"), k.get("split"));
        let tasks = self.0.outputs()? / (columns * lanes(k.get("vector"), self.0.one.reducer.dtype)).max(1);
        let steps = (self.0.length()? / (unroll * split)).max(1);
        Some(outlines::cpu(self.0.work.as_ref()?, tasks.max(1), steps, unroll * columns, k.get("vector"), split))
    }
}

/// Vectors hold whole accumulators; where a run of `run` elements allows it, they divide it.
pub fn cpu_space(space: Space, acc: DType, run: Option<i64>) -> Space {
    let (size, least) = (acc.bytes() as i64, lanes(16, acc));
    space.require("vector_lanes", move |k| {
        let n = lanes(k.get("vector"), acc);
        if k.get("vector") < size {
            return Err(format!("{} bytes do not hold one {acc}", k.get("vector")));
        }
        match run {
            Some(run) if run % least == 0 && run % n != 0 => {
                Err(format!("{n} lanes do not divide the contiguous run of {run}"))
            }
            _ => Ok(()),
        }
    })
}

/// Schedules `block`, a reduction of loop `k` for every `row`, over `unroll` vector accumulators of `width`
/// lanes; what it reads is asked for `ahead` bytes before.
fn reduce_rows(s: &mut Schedule, chain: &Chain, [row, k]: [&Name; 2], [unroll, width]: [i64; 2], ahead: i64) -> Done {
    let [ko, kv] = split(s, k, [None, Some(unroll * width)])?;
    let rf = s.rfactor(&kv, rank(s, &chain.block))?;
    let [vector, lane] = split(s, &kv, [Some(unroll), Some(width)])?;
    s.parallel(row)?;
    unroll_loop(s, &vector)?;
    vectorize_loop(s, &lane)?;
    let init = s.decompose_reduction(&rf, &ko)?;
    if let Some(last) = loops_below(s, &init, row).last() {
        vectorize_loop(s, last)?;
    }
    ask_ahead(s, &ko, ahead)?;
    keep_in_registers(s, &rf)?;
    finish_rows(s, chain, row, [unroll, width])
}

/// Brings the sum over accumulators and what follows it under the parallel loop. There are `unroll`
/// accumulators of `width` lanes for each row; they become one of them first, lanes side by side.
pub fn finish_rows(s: &mut Schedule, chain: &Chain, row: &Name, [unroll, width]: [i64; 2]) -> Done {
    let (block, tails) = (&chain.block, tails(s, chain)?);
    if unroll > 1 && width > 1 {
        join_accumulators(s, block, row, unroll, width)?;
    }
    s.reverse_compute_at(block, row)?;
    let loops = loops_below(s, block, row);
    let reduce = loops_of_kind(s, block, row, IterKind::Reduce);
    for l in loops.iter().filter(|l| !reduce.contains(l)) {
        unroll_loop(s, l)?;
    }
    for l in &reduce {
        unroll_loop(s, l)?;
    }
    if let Some(first) = loops_of_kind(s, block, row, IterKind::Reduce).first() {
        s.decompose_reduction(block, first)?;
    }
    tails.iter().try_for_each(|tail| s.reverse_compute_at(tail, row))?;
    keep_in_registers(s, block)
}

/// Combines the accumulators of each row, which `block` reads one by one, into a single vector.
fn join_accumulators(s: &mut Schedule, block: &Name, row: &Name, unroll: i64, width: i64) -> Done {
    let all = axes_of_kind(s, block, IterKind::Reduce);
    let [all] = all.as_slice() else { return Ok(()) };
    let [_, lanes] = split(s, &all.at, [Some(unroll), Some(width)])?;
    let joined = s.rfactor(&lanes, rank(s, block))?;
    s.reverse_compute_at(&joined, row)?;
    let spatial = loops_of_kind(s, &joined, row, IterKind::Spatial);
    let reduce = loops_of_kind(s, &joined, row, IterKind::Reduce);
    let (Some((lanes, rows)), Some(first)) = (spatial.split_first(), reduce.first()) else { return Ok(()) };
    let order: Vec<Name> = rows.iter().chain(&reduce).chain([lanes]).cloned().collect();
    s.reorder(&order)?;
    for l in rows.iter().chain(&reduce) {
        unroll_loop(s, l)?;
    }
    vectorize_loop(s, lanes)?;
    s.decompose_reduction(&joined, first)?;
    keep_in_registers(s, &joined)
}

/// The second pass: adds the parts of each row.
pub fn add_parts(s: &mut Schedule, chain: &Chain) -> Done {
    let block = &chain.block;
    let row = fuse_kind(s, block, IterKind::Spatial)?;
    let k = fuse_kind(s, block, IterKind::Reduce)?;
    let tails = tails(s, chain)?;
    s.parallel(&row)?;
    tails.iter().try_for_each(|tail| s.reverse_compute_at(tail, &row))?;
    s.decompose_reduction(block, &k)?;
    keep_in_registers(s, block)
}

/// Schedules `block`, a reduction of loop `k` for every column: `[columns, width, unroll]`.
pub fn reduce_columns(
    s: &mut Schedule,
    chain: &Chain,
    outer: Option<Name>,
    column: &Name,
    k: &Name,
    [columns, width, unroll]: [i64; 3],
) -> Done {
    let [jb, jv, lane] = split(s, column, [None, Some(columns), Some(width)])?;
    let [ko, ku] = split(s, k, [None, Some(unroll)])?;
    let grid = fuse_under(s, outer, &jb)?;
    order(s, [&grid, &ko, &ku, &jv, &lane])?;
    s.parallel(&grid)?;
    unroll_loop(s, &ku)?;
    unroll_loop(s, &jv)?;
    vectorize_loop(s, &lane)?;
    let tails = tails(s, chain)?;
    let init = s.decompose_reduction(&chain.block, &ko)?;
    vectorize_last(s, &init, &grid, width)?;
    for tail in &tails {
        s.reverse_compute_at(tail, &grid)?;
        vectorize_last(s, tail, &grid, width)?;
    }
    keep_in_registers(s, &chain.block)
}

/// Vectorizes `width` lanes of the innermost loop below `at`.
fn vectorize_last(s: &mut Schedule, block: &Name, at: &Name, width: i64) -> Done {
    loops_below(s, block, at).last().map_or(Ok(()), |last| vectorize_lanes(s, last, width))
}
