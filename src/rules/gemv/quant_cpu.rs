//! `gemv.quant_cpu` and `gemv.quant_outer_cpu`: products of a packed matrix (int4 and int3 in uint32, with
//! scales per group) with one or few vectors, on the CPU.
//!
//! When: a sum; several values of the reduction in one element of the matrix; injective producers (inlined:
//! dequantisation is one) and an elementwise epilogue or none. The first form takes matrices whose
//! contiguous axis is reduced, the second the others.
//! How: rows (or blocks of columns) in parallel, for each vector anew. In the first form the lanes of a
//! vector take different bits of one word, in the second the same bits of neighbouring words.
//! Declines: `target_kind`, the predicates of [`MatVec::of`], `packed_matrix`, `few_vectors`,
//! `contiguous_reduction` or `strided_reduction`.

use super::dense::dot_rows;
use super::outline;
use crate::analysis::Decline;
use crate::rules::find::matvec::{MOST_VECTORS, MatVec};
use crate::rules::find::shape::Axis;
use crate::rules::parts::*;
use crate::rules::reduction::cpu::{cpu_space, reduce_columns};
use crate::rules::space::limits::{lanes, step_fits};
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The form with the contiguous axis reduced.
pub struct GemvQuantCpu;

/// The form with the contiguous axis kept.
pub struct GemvQuantOuterCpu;

const INNER: &str = "gemv.quant_cpu";
const OUTER: &str = "gemv.quant_outer_cpu";

impl ScheduleRule for GemvQuantCpu {
    fn name(&self) -> &'static str {
        INNER
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let p = accept(INNER, true, input, target)?;
        let (acc, rows, pack) = (p.reducer.dtype, p.rows.extent, p.pack);
        let space = cpu_space(spaces.space(INNER, target), acc, p.length());
        let space = space.prefer("lanes_of_one_word", move |k| match lanes(k.get("vector"), acc) {
            n if pack % n == 0 || pack % 2 != 0 || pack.count_ones() != 1 => Ok(()),
            n => Err(format!("{n} lanes do not divide the {pack} values of a word")),
        });
        let space = step_fits(space, p.length(), move |k| k.get("unroll") * lanes(k.get("vector"), acc));
        let space = space.require("vector_registers", |k| match k.get("rows") * k.get("unroll") {
            n if n <= 16 => Ok(()),
            n => Err(format!("{n} accumulators exceed 16 vector registers")),
        });
        let space = space.require("rows_exist", move |k| match rows {
            Some(n) if n % k.get("rows") != 0 => Err(format!("{} rows per step do not divide {n}", k.get("rows"))),
            None if k.get("rows") > 1 => Err("the number of rows is not constant".into()),
            _ => Ok(()),
        });
        let Some(sizes) = outline::Sizes::of(&p) else { return Ok(space) };
        Ok(space.outlined(move |k| {
            let (rows, unroll) = (k.get("rows"), k.get("unroll"));
            outline::cpu(&sizes, rows, rows * unroll, unroll * lanes(k.get("vector"), acc), k.get("vector"))
        }))
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let p = accepted(accept(INNER, true, input, target));
        let shape = [knobs.get("rows"), knobs.get("unroll"), lanes(knobs.get("vector"), p.reducer.dtype)];
        let mut s = p.schedule.clone();
        let rows = [p.rows.clone()];
        dot_rows(&mut s, &p.block, &p.epilogues, [&outer(&p), &rows, &p.reduce], shape, 0)?;
        Ok(s)
    }
}

impl ScheduleRule for GemvQuantOuterCpu {
    fn name(&self) -> &'static str {
        OUTER
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let p = accept(OUTER, false, input, target)?;
        let (acc, columns, pack) = (p.reducer.dtype, p.rows.extent, p.pack);
        let space = cpu_space(spaces.space(OUTER, target), acc, columns);
        let space = step_fits(space, columns, move |k| k.get("columns") * lanes(k.get("vector"), acc));
        let space = step_fits(space, p.length(), move |k| k.get("words") * pack);
        let space = space.prefer("vector_registers", |k| match k.get("columns") {
            n if n <= 8 => Ok(()),
            n => Err(format!("{n} accumulators leave no vector registers to unpack in")),
        });
        let Some(sizes) = outline::Sizes::of(&p) else { return Ok(space) };
        Ok(space.outlined(move |k| {
            let side = k.get("columns") * lanes(k.get("vector"), acc);
            let values = k.get("words") * pack;
            outline::cpu(&sizes, side, k.get("columns") * values, values, k.get("vector"))
        }))
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let p = accepted(accept(OUTER, false, input, target));
        let mut s = p.schedule.clone();
        let (outer, rows) = (outer(&p), [p.rows.clone()]);
        order_axes(&mut s, &[&outer, &rows, &p.reduce])?;
        let outer = if outer.is_empty() { None } else { Some(fuse_all(&mut s, &outer)?) };
        let k = fuse_all(&mut s, &p.reduce)?;
        let shape = [knobs.get("columns"), lanes(knobs.get("vector"), p.reducer.dtype), knobs.get("words") * p.pack];
        reduce_columns(&mut s, &p.block, &p.epilogues, outer, &p.rows.at, &k, shape)?;
        Ok(s)
    }
}

/// The axes around the rows: a vector after the other.
fn outer(p: &MatVec) -> Vec<Axis> {
    p.outer.iter().chain(&p.batch).cloned().collect()
}

fn accept(by: &'static str, inner: bool, input: &Prepared, target: &Target) -> Result<MatVec, Decline> {
    for_kind(by, Kind::Cpu, target)?;
    let no = |predicate, reason: String| Decline { by, predicate, reason };
    let p = MatVec::of(by, input)?;
    if !p.is_packed() {
        return Err(no("packed_matrix", format!("tensor `{}` holds one value per element", p.matrix.buffer)));
    }
    match p.vectors_count() {
        None => return Err(no("few_vectors", "the number of vectors is not constant".into())),
        Some(n) if n > MOST_VECTORS => {
            return Err(no("few_vectors", format!("{n} vectors are more than {MOST_VECTORS}")));
        }
        Some(_) => {}
    }
    match (inner, p.inner) {
        (true, false) => Err(no("contiguous_reduction", "the axis contiguous in the matrix is not reduced".into())),
        (false, true) => Err(no("strided_reduction", "the axis contiguous in the matrix is reduced".into())),
        _ => Ok(p),
    }
}
