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
//!
//! ```text
//! gemv.quant_outer on cuda:sm_90a
//! before: uint32 W[512, 4096], float16 X[4096]
//!         float16 O[n] += float16(bitwise_and(shift_right(W[k // 8, n], uint32(k % 8 * 4)), uint32(15))) * X[k]
//! after:  blockIdx.x 256 [min_blocks=4]:
//!           threadIdx.x 16, threadIdx.y 8:
//!             unroll 4: O_rf_rf.local = 0
//!             loop 16, unroll 1 [batch_loads=1]:
//!               vector 4 [cache_hint=streaming]: W_local = W
//!               vector 8 [cache_hint=plain]: X_local = X
//!               unroll 4, unroll 8 [tile=unpack]: O_rf_rf.local += W_local, X_local
//!           threadIdx.x 16, unroll 4, threadIdx.y 8: O_rf_local += O_rf_rf.local
//!           threadIdx.x 16, unroll 4: O_rf = O_rf_local
//!         blockIdx.x 64 [min_blocks=1 last_block=1]:
//!           threadIdx.x 16, threadIdx.y 8:
//!             unroll 4: O_rf.local = 0
//!             unroll 1 [batch_loads=1], unroll 4 [tile=add]: O_rf.local += O_rf
//!           threadIdx.x 16, unroll 4, threadIdx.y 8: O_local += O_rf.local
//!           threadIdx.x 16, unroll 4: O = O_local
//! ```

use super::outline;
use crate::analysis::Combiner;
use crate::rules::find::matvec::MatVec;
use crate::rules::find::shape::Axis;
use crate::rules::parts::*;
use crate::rules::reduction::outer::{Nest, Reads, fills_blocks, reduce_in_parts};

/// The rule.
pub const OUTER: Rule =
    Rule::new(Kind::Cuda, "gemv.quant_outer", include_str!("../schedules/gemv.quant_outer.toml"), outer);

const THREADS: &[&str] = &["threads", "rows"];

struct Outer(MatVec);

fn outer(ask: &Ask) -> Answer {
    let p = MatVec::of(ask)?;
    p.packed(ask)?;
    p.few_vectors(ask)?;
    p.strided(ask)?;
    Ok(Found::new(p.one.schedule.clone(), Outer(p)))
}

impl Accepted for Outer {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let p = &self.0;
        let (length, element, columns, pack) = (p.length(), p.element, p.rows.extent, p.pack);
        let outputs = p.all_rows().zip(p.vectors_count()).and_then(|(a, b)| a.checked_mul(b));
        let total = length.zip(outputs).and_then(|(a, b)| a.checked_mul(b));
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
        fills_blocks(space, target, total, outputs, element)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let p = &self.0;
        let outer: Vec<Axis> = p.outer.iter().chain(&p.batch).cloned().collect();
        order_axes(s, &[&outer, std::slice::from_ref(&p.rows), &p.reduce])?;
        let outer = fuse_any(s, &outer)?;
        let all = fuse_all(s, &p.reduce)?;
        let full = [&p.matrix].into_iter().chain(p.scales.iter().map(|s| &s.0)).map(|a| a.buffer.clone()).collect();
        let reads = Reads { full, vectors: p.vectors.iter().map(|a| a.buffer.clone()).collect(), pack: p.pack };
        let nest = Nest { chain: &p.one.chain, outer, column: &p.rows.at, k: &all, cluster: None };
        reduce_in_parts(s, nest, &reads, k.get("split"), &Plan::of(k, p.element, Some(Combiner::Sum)))
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(outline::outer(&outline::Sizes::of(&self.0)?, k))
    }
}
