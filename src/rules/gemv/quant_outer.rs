//! `gemv.quant_outer`: products of a packed matrix stored [K, N] with one or few vectors, on a GPU.
//!
//! When: a sum; several values of the reduction in one element of the matrix, whose rows lie side by side
//! (int4 and int3 in uint32, with scales per group); injective producers (inlined: dequantisation is one) and
//! elementwise epilogues or none.
//! How: as `reduction.outer` does, a vector of packed words of neighbouring columns per thread, unpacked in
//! registers; threadIdx.y shares the rows, and with `split` above 1 blocks do, whose parts a second launch
//! adds. Several vectors are computed one after the other.
//! Declines: `target_kind`, the predicates of [`MatVec::of`], `packed_matrix`, `few_vectors`,
//! `strided_reduction`.

use super::outline;
use crate::analysis::{Combiner, Decline};
use crate::rules::find::matvec::{MOST_VECTORS, MatVec};
use crate::rules::find::shape::Axis;
use crate::rules::parts::*;
use crate::rules::reduction::outer::{Nest, Reads, fills_blocks, reduce_in_parts};
use crate::rules::space::limits::{block_fits, keeps_busy, lanes, parts_fit, registers_fit, step_fits, vector_fits};
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The rule.
pub struct GemvQuantOuter;

const NAME: &str = "gemv.quant_outer";
const THREADS: &[&str] = &["threads", "rows"];

impl ScheduleRule for GemvQuantOuter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let p = accept(input, target)?;
        let (length, element, columns, pack) = (p.length(), p.element, p.rows.extent, p.pack);
        let outputs = p.all_rows().zip(p.vectors_count()).and_then(|(a, b)| a.checked_mul(b));
        let total = length.zip(outputs).and_then(|(a, b)| a.checked_mul(b));
        let space = spaces.space(NAME, target);
        let space = block_fits(space, target, THREADS);
        let space = vector_fits(space, "vector", element, columns);
        let space = registers_fit(space, target, THREADS, 36, move |k| {
            k.get("unroll") * (k.get("vector") + 2 * pack) + 4 * lanes(k.get("vector"), element)
        });
        let in_flight = |k: &Knobs| k.get("unroll") * k.get("vector");
        let space = keeps_busy(space, target, THREADS, p.matrix_bytes(), in_flight);
        let space = step_fits(space, length, move |k| k.get("rows") * k.get("unroll") * k.get("split") * pack);
        let space = parts_fit(space, length, outputs);
        let space = space.require("whole_words_per_part", move |k| match (k.get("split"), length) {
            (split, Some(n)) if split > 1 && n / split % pack != 0 => {
                Err(format!("parts of {} values are no whole words of {pack}", n / split))
            }
            _ => Ok(()),
        });
        let space = step_fits(space, columns, move |k| k.get("threads") * lanes(k.get("vector"), element));
        let space = fills_blocks(space, target, total, outputs, element);
        Ok(match outline::Sizes::of(&p) {
            Some(sizes) => space.outlined(move |k| outline::outer(&sizes, k)),
            None => space,
        })
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let p = accepted(accept(input, target));
        let mut s = p.schedule.clone();
        let outer: Vec<Axis> = p.outer.iter().chain(&p.batch).cloned().collect();
        order_axes(&mut s, &[&outer, std::slice::from_ref(&p.rows), &p.reduce])?;
        let outer = if outer.is_empty() { None } else { Some(fuse_all(&mut s, &outer)?) };
        let k = fuse_all(&mut s, &p.reduce)?;
        let plan = Plan {
            threads: knobs.get("threads"),
            rows: knobs.get("rows"),
            lanes: lanes(knobs.get("vector"), p.element),
            unroll: knobs.get("unroll"),
            min_blocks: knobs.get("min_blocks"),
            hint: knobs.get("hint"),
            combiner: Some(Combiner::Sum),
            fold: 0,
            combine: 0,
        };
        let full = [&p.matrix].into_iter().chain(p.scales.iter().map(|s| &s.0)).map(|a| a.buffer.clone()).collect();
        let reads = Reads { full, vectors: p.vectors.iter().map(|a| a.buffer.clone()).collect(), pack: p.pack };
        let nest = Nest { block: &p.block, epilogues: &p.epilogues, outer, column: &p.rows.at, k: &k };
        reduce_in_parts(&mut s, nest, &reads, knobs.get("split"), &plan)?;
        Ok(s)
    }
}

fn accept(input: &Prepared, target: &Target) -> Result<MatVec, Decline> {
    for_kind(NAME, Kind::Cuda, target)?;
    let no = |predicate, reason: String| Decline { by: NAME, predicate, reason };
    let p = MatVec::of(NAME, input)?;
    if !p.is_packed() {
        return Err(no("packed_matrix", format!("tensor `{}` holds one value per element", p.matrix.buffer)));
    }
    if let Some(n) = p.vectors_count().filter(|n| *n > MOST_VECTORS) {
        return Err(no("few_vectors", format!("{n} vectors are more than {MOST_VECTORS}")));
    }
    if p.inner {
        return Err(no("strided_reduction", "the axis contiguous in the matrix is reduced".into()));
    }
    Ok(p)
}
