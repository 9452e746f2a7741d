//! `transpose.cpu`: permutations whose innermost axis changes, on the CPU.
//!
//! When: as `transpose.cuda`.
//! How: tiles in parallel; the rows of a tile are loaded as vectors into a small array, which is then
//! read by columns and stored along the rows of the output, so that each cache line of either side is
//! fetched once.
//! Declines: `target_kind`, `one_block`, `all_spatial`, `writes_whole`, `transposed_read`.
//!
//! ```text
//! transpose.cpu on cpu
//! before: float32 A[4096, 4096]
//!         float32 O[j, i] = A[i, j]
//! after:  parallel 16384:
//!           loop 32, loop 4, vector 8: A_local = A
//!           loop 32, loop 32: O = A_local
//! ```

use super::outline;
use super::transpose::{Transpose, tile_within_axes};
use crate::rules::parts::*;

/// The CPU form.
pub const CPU: Rule = Rule::new(Kind::Cpu, "transpose.cpu", include_str!("../schedules/transpose.cpu.toml"), cpu);

struct Cpu(Transpose);

fn cpu(ask: &Ask) -> Answer {
    let t = Transpose::of(ask)?;
    Ok(Found::new(in_float32(ask.start, [&t.block]), Cpu(t)))
}

impl Accepted for Cpu {
    fn constrain(&self, space: Space, _: &Target) -> Space {
        let sizes = self.0.sizes;
        let space = space.require("vector_in_tile", move |k| match lanes(k.get("vector"), sizes.widest) {
            n if n <= k.get("across") => Ok(()),
            n => Err(format!("{n} lanes exceed a tile of {}", k.get("across"))),
        });
        tile_within_axes(space, sizes)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let t = &self.0;
        let [yo, yi] = split(s, &t.across.at, [None, Some(k.get("across"))])?;
        let [xo, xi] = split(s, &t.down.at, [None, Some(k.get("down"))])?;
        let outer: Vec<Name> = t.batch.iter().map(|a| &a.at).chain([&yo, &xo]).cloned().collect();
        s.reorder(&[&outer[..], &[yi, xi]].concat())?;
        let grid = s.fuse(&outer)?;
        s.parallel(&grid)?;
        for moved in &t.moved {
            let copy = s.cache_read(&t.block, &moved.buffer, Scope::Local)?;
            s.compute_at(&copy, &grid)?;
            let width = dividing(lanes(k.get("vector"), moved.dtype), t.across.extent);
            if let (Some(last), true) = (loops_below(s, &copy, &grid).last(), width > 1) {
                let [_, lane] = split(s, last, [None, Some(width)])?;
                s.vectorize(&lane)?;
            }
        }
        Ok(())
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(outline::cpu_transpose(&self.0.moves?, k))
    }
}
