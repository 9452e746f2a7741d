//! `gemv.quant_cpu` and `gemv.quant_outer_cpu`: products of a packed matrix (int4 and int3 in uint32, with
//! scales per group) with one or few vectors, on the CPU.
//!
//! When: a sum; several values of the reduction in one element of the matrix; injective producers (inlined:
//! dequantisation is one) and an elementwise epilogue or none. The first form takes matrices whose
//! contiguous axis is reduced, the second the others.
//! How: rows (or blocks of columns) in parallel, for each vector anew. In the first form the lanes of a
//! vector take different bits of one word, in the second the same bits of neighbouring words.
//! Declines: `target_kind`, the predicates of [`MatVec::of`], `packed_matrix`, `few_vectors`;
//! `gemv.quant_cpu`: `contiguous_reduction`; `gemv.quant_outer_cpu`: `strided_reduction`.
//!
//! ```text
//! gemv.quant_cpu on cpu
//! before: uint32 W[4096, 512], float32 X[4096]
//!         float32 O[n] += float32(bitwise_and(shift_right(W[n, k // 8], uint32(k % 8 * 4)), uint32(15))) * X[k]
//! after:  parallel 1024:
//!           unroll 2, unroll 4, vector 8: O_rf.local = 0
//!           loop 256, unroll 2, unroll 4, vector 8: O_rf.local += W, X
//!           unroll 4:
//!             vector 8: O_local_rf.local = 0
//!             unroll 2, vector 8: O_local_rf.local += O_rf.local
//!           unroll 4:
//!             O_local = 0
//!             unroll 8: O_local += O_local_rf.local
//!           loop 4: O = O_local
//! ```
//!
//! ```text
//! gemv.quant_outer_cpu on cpu
//! before: uint32 W[512, 4096], float32 X[4096]
//!         float32 O[n] += float32(bitwise_and(shift_right(W[k // 8, n], uint32(k % 8 * 4)), uint32(15))) * X[k]
//! after:  parallel 128:
//!           unroll 4, vector 8: O_local = 0
//!           loop 512, unroll 8, unroll 4, vector 8: O_local += W, X
//!           loop 4, vector 8: O = O_local
//! ```

use super::dense::{dot_fits, dot_rows};
use super::outline;
use crate::analysis::Decline;
use crate::rules::find::matvec::MatVec;
use crate::rules::find::shape::Axis;
use crate::rules::parts::*;
use crate::rules::reduction::cpu::{cpu_space, reduce_columns};

/// The form with the contiguous axis reduced.
pub const INNER: Rule = Rule::new(Kind::Cpu, "gemv.quant_cpu", include_str!("../schedules/gemv.quant_cpu.toml"), inner);

/// The form with the contiguous axis kept.
pub const OUTER: Rule =
    Rule::new(Kind::Cpu, "gemv.quant_outer_cpu", include_str!("../schedules/gemv.quant_outer_cpu.toml"), outer);

struct Inner(MatVec);

struct Outer(MatVec);

fn packed(ask: &Ask) -> Result<MatVec, Decline> {
    let p = MatVec::of(ask)?;
    p.packed(ask)?;
    if p.vectors_count().is_none() {
        return Err(ask.no("few_vectors", "the number of vectors is not constant"));
    }
    p.few_vectors(ask)?;
    Ok(p)
}

fn inner(ask: &Ask) -> Answer {
    let p = packed(ask)?;
    if !p.inner {
        return Err(ask.no("contiguous_reduction", "the axis contiguous in the matrix is not reduced"));
    }
    Ok(Found::new(p.one.schedule.clone(), Inner(p)))
}

fn outer(ask: &Ask) -> Answer {
    let p = packed(ask)?;
    p.strided(ask)?;
    Ok(Found::new(p.one.schedule.clone(), Outer(p)))
}

impl Accepted for Inner {
    fn constrain(&self, space: Space, _: &Target) -> Space {
        let p = &self.0;
        let (acc, pack) = (p.one.reducer.dtype, p.pack);
        let space = cpu_space(space, acc, p.length());
        let space = space.prefer("lanes_of_one_word", move |k| match lanes(k.get("vector"), acc) {
            n if pack % n == 0 || pack % 2 != 0 || pack.count_ones() != 1 => Ok(()),
            n => Err(format!("{n} lanes do not divide the {pack} values of a word")),
        });
        dot_fits(space, acc, p.length(), p.rows.extent)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let p = &self.0;
        let shape = [k.get("rows"), k.get("unroll"), lanes(k.get("vector"), p.one.reducer.dtype)];
        let axes = [&around(p)[..], std::slice::from_ref(&p.rows), &p.reduce];
        dot_rows(s, &p.one.chain, axes, shape, 0)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let (rows, unroll, vector) = (k.get("rows"), k.get("unroll"), k.get("vector"));
        let step = unroll * lanes(vector, self.0.one.reducer.dtype);
        Some(outline::cpu(&outline::Sizes::of(&self.0)?, rows, rows * unroll, step, vector))
    }
}

impl Accepted for Outer {
    fn constrain(&self, space: Space, _: &Target) -> Space {
        let p = &self.0;
        let (acc, columns, pack) = (p.one.reducer.dtype, p.rows.extent, p.pack);
        let space = cpu_space(space, acc, columns);
        let space = step_fits(space, columns, move |k| k.get("vectors") * lanes(k.get("vector"), acc));
        let space = step_fits(space, p.length(), move |k| k.get("words") * pack);
        space
            .prefer("vector_registers", |k| at_most(k.get("vectors"), 8, "accumulators", "vectors beside packed words"))
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let p = &self.0;
        let outer = around(p);
        order_axes(s, &[&outer, std::slice::from_ref(&p.rows), &p.reduce])?;
        let outer = fuse_any(s, &outer)?;
        let all = fuse_all(s, &p.reduce)?;
        let shape = [k.get("vectors"), lanes(k.get("vector"), p.one.reducer.dtype), k.get("words") * p.pack];
        reduce_columns(s, &p.one.chain, outer, &p.rows.at, &all, shape)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let (p, columns, values) = (&self.0, k.get("vectors"), k.get("words") * self.0.pack);
        let side = columns * lanes(k.get("vector"), p.one.reducer.dtype);
        Some(outline::cpu(&outline::Sizes::of(p)?, side, columns * values, values, k.get("vector")))
    }
}

/// The axes around the rows: a vector after the other.
fn around(p: &MatVec) -> Vec<Axis> {
    p.outer.iter().chain(&p.batch).cloned().collect()
}
