//! `transpose.cpu`: permutations whose innermost axis changes, on the CPU.
//!
//! When: as `transpose.cuda`.
//! How: tiles in parallel; the rows of a tile are loaded as vectors into a small array, which is then
//! read by columns and stored along the rows of the output, so that each cache line of either side is
//! fetched once.
//! Declines: `target_kind`, `one_block`, `all_spatial`, `writes_whole`, `transposed_read`.

use super::outline;
use super::transpose::Transpose;
use crate::analysis::Decline;
use crate::ir::{Name, Scope};
use crate::rules::parts::*;
use crate::rules::space::limits::{dividing, lanes};
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The CPU form.
pub struct TransposeCpu;

const CPU: &str = "transpose.cpu";

impl ScheduleRule for TransposeCpu {
    fn name(&self) -> &'static str {
        CPU
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let t = Transpose::of(CPU, Kind::Cpu, input, target)?;
        let sizes = t.sizes();
        let space = spaces.space(CPU, target);
        let space = space.require("vector_in_tile", move |k| match lanes(k.get("vector"), sizes.widest) {
            n if n <= k.get("across") => Ok(()),
            n => Err(format!("{n} lanes exceed a tile of {}", k.get("across"))),
        });
        let space = space.prefer("tile_within_axes", move |k| {
            for (side, n) in [("across", sizes.across), ("down", sizes.down)] {
                match n {
                    Some(n) if k.get(side) >= 2 * n && k.get(side) > 8 => {
                        return Err(format!("a tile of {} wastes more than half on a length of {n}", k.get(side)));
                    }
                    _ => {}
                }
            }
            Ok(())
        });
        Ok(match t.moves {
            Some(m) => space.outlined(move |k| outline::cpu_transpose(&m, k)),
            None => space,
        })
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let t = accepted(Transpose::of(CPU, Kind::Cpu, input, target));
        let mut s = t.schedule.clone();
        let y = s.split(&t.across.at, &[None, Some(knobs.get("across"))])?;
        let x = s.split(&t.down.at, &[None, Some(knobs.get("down"))])?;
        let ([yo, yi], [xo, xi]) = (&y[..], &x[..]) else { panic!("split gives one loop per factor") };
        let outer: Vec<Name> = t.batch.iter().map(|a| &a.at).chain([yo, xo]).cloned().collect();
        let order: Vec<Name> = outer.iter().chain([yi, xi]).cloned().collect();
        s.reorder(&order)?;
        let grid = s.fuse(&outer)?;
        s.parallel(&grid)?;
        for moved in &t.moved {
            let copy = s.cache_read(&t.block, &moved.buffer, Scope::Local)?;
            s.compute_at(&copy, &grid)?;
            let width = dividing(lanes(knobs.get("vector"), moved.dtype), t.across.extent);
            if let (Some(last), true) = (loops_below(&s, &copy, &grid).last().cloned(), width > 1) {
                vectorize_lanes(&mut s, &last, width)?;
            }
        }
        Ok(s)
    }
}

/// Splits off `width` lanes of a loop and vectorizes them.
fn vectorize_lanes(s: &mut Schedule, at: &Name, width: i64) -> Result<(), ScheduleError> {
    let parts = s.split(at, &[None, Some(width)])?;
    s.vectorize(&parts[1])
}
