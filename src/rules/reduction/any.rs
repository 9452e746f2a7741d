//! `reduction.any` and `reduction.any_cpu`: one reduction of any kind, as a last resort.
//!
//! When: no other rule takes the function, or the piece of it: one block that reduces, whatever its indices and
//! whatever its reducer.
//! How: on a GPU one thread per output, or a warp or block of threads where there are few outputs and the
//! reducer is known, so that partial results can be put together; on the CPU outputs in parallel, or parts of
//! each where there are few. What is read stays as it is written: nothing is staged.
//! Declines: `target_kind`, `last_resort`, `one_block`.
//!
//! ```text
//! reduction.any on cuda:sm_90a
//! before: float32 W[8, 256, 512], float32 X[4, 512], int32 E[4]
//!         float32 O[s, j] += W[E[s], j, k] * X[s, k]
//! after:  blockIdx.x 256 [min_blocks=1]:
//!           threadIdx.y 4, threadIdx.x 32:
//!             O_rf.local = 0
//!             loop 4, unroll 4 [batch_loads=1]: O_rf.local += W, E, X
//!           threadIdx.y 4, threadIdx.x 32: O_local += O_rf.local
//!           threadIdx.y 4: O = O_local
//! ```
//!
//! ```text
//! reduction.any_cpu on cpu
//! before: float32 A[1000]
//!         float32 O[i] += A[(i * 37 + k * k) % 1000] | i < 30, k < 300
//! after:  parallel 2, loop 16:
//!           O_local = 0
//!           loop 300: O_local += A
//!           O = O_local
//! ```

use super::cpu;
use super::inner;
use crate::analysis::Decline;
use crate::rules::find::shape::{Axis, Chain, find_block, size};
use crate::rules::parts::*;

/// The GPU form.
pub const CUDA: Rule = Rule::new(Kind::Cuda, "reduction.any", include_str!("../schedules/reduction.any.toml"), cuda);

/// The CPU form.
pub const CPU: Rule =
    Rule::new(Kind::Cpu, "reduction.any_cpu", include_str!("../schedules/reduction.any_cpu.toml"), cpu);

/// Steps of a reduction from which on several threads share one where outputs are few.
const SHARED: i64 = 64;
/// Steps from which on a block of threads does.
const LONG: i64 = 4096;
/// Steps for each core from which on parts of one reduction run in parallel on the CPU.
const PART: i64 = 1 << 12;

/// A block that reduces.
struct Any {
    chain: Chain,
    spatial: Vec<Axis>,
    reduce: Vec<Axis>,
    /// Partial results can be put together.
    parts: bool,
    /// Accumulators can be in registers until the reduction is done.
    registers: bool,
    starts: bool,
}

struct Cuda(Any);

struct Cpu(Any);

fn cuda(ask: &Ask) -> Answer {
    any(ask).map(|a| Found::new(in_float32(ask.start, [&a.chain.block]), Cuda(a)))
}

fn cpu(ask: &Ask) -> Answer {
    any(ask).map(|a| Found::new(in_float32(ask.start, [&a.chain.block]), Cpu(a)))
}

fn any(ask: &Ask) -> Result<Any, Decline> {
    if let Some(rule) = ask.whole {
        return Err(ask.no("last_resort", format!("{rule} takes the function")));
    }
    let blocks = ask.blocks();
    let one = if let [block] = &blocks[..] { Some(block) } else { None };
    let reduces = one.and_then(|b| Some((b, ask.facts.block(b).filter(|f| f.has_reduce_iter())?)));
    let (block, facts) = reduces
        .ok_or_else(|| ask.no("one_block", format!("{} blocks are left, not one that reduces", blocks.len())))?;
    let (chain, s) = (Chain::alone(block.clone()), ask.start);
    let starts = !find_block(s.func(), block).init.is_empty();
    let staged = tails(&mut s.clone(), &chain).is_ok();
    Ok(Any {
        spatial: axes_of_kind(s, block, IterKind::Spatial),
        reduce: axes_of_kind(s, block, IterKind::Reduce),
        parts: staged && !facts.reducers.is_empty(),
        // Without an init the sum goes on from what the output holds.
        registers: starts && staged,
        starts,
        chain,
    })
}

impl Any {
    fn outputs(&self) -> Option<i64> {
        size(&self.spatial)
    }

    fn length(&self) -> Option<i64> {
        size(&self.reduce)
    }

    /// The loop over outputs, with those that reduce inside.
    fn row(&self, s: &mut Schedule) -> Result<Name, ScheduleError> {
        order_axes(s, &[&self.spatial, &self.reduce])?;
        match fuse_any(s, &self.spatial)? {
            Some(row) => Ok(row),
            None => s.add_unit_loop(&self.reduce[0].at),
        }
    }

    /// One output for each step of the loop `each`.
    fn serial(&self, s: &mut Schedule, block: &Name, each: &Name) -> Done {
        let tails = if self.registers { tails(s, &Chain::alone(block.clone()))? } else { vec![] };
        tails.iter().try_for_each(|tail| s.reverse_compute_at(tail, each))?;
        let first = loops_of_kind(s, block, each, IterKind::Reduce).first().cloned();
        if let Some(first) = first.filter(|_| self.starts) {
            s.decompose_reduction(block, &first)?;
        }
        if self.registers { keep_in_registers(s, block) } else { Ok(()) }
    }
}

impl Accepted for Cuda {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (parts, outputs, length) = (self.0.parts, self.0.outputs(), self.0.length());
        let few = outputs.is_none_or(|n| n < 128 * i64::from(target.sms));
        let (threads, rows) = match length {
            Some(n) if !few || n < SHARED => (1, 128),
            Some(n) if n < LONG => (32, 4),
            Some(_) | None => (256, 1),
        };
        let (threads, rows) = if parts { (threads, rows) } else { (1, 128) };
        let space = block_fits(space, target, &["threads", "rows"]);
        let space = space.require("known_reducer", move |k| match k.get("threads") {
            1 => Ok(()),
            _ if parts => Ok(()),
            _ => Err("partial results of this reducer cannot be put together".into()),
        });
        let axes: Vec<Option<i64>> = self.0.spatial.iter().map(|a| a.extent).filter(|n| *n != Some(1)).collect();
        let space = space.require("rows_fit", move |k| match (k.get("threads"), k.get("rows")) {
            (1, _) | (_, 1) => Ok(()),
            (_, rows) if outputs.is_some_and(|n| rows > n) => Err(format!("{rows} rows are more than there are")),
            (_, rows) if axes.len() > 1 && axes[axes.len() - 1].is_none_or(|last| last % rows != 0) => {
                Err(format!("{rows} rows per block do not divide the last of several axes of rows"))
            }
            _ => Ok(()),
        });
        let space = step_fits(space, length, |k| k.get("threads") * k.get("unroll"));
        space.with_default("threads", threads).with_default("rows", rows)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let row = self.0.row(s)?;
        if k.get("threads") > 1 {
            let all = fuse_all(s, &self.0.reduce)?;
            let plan = Plan::of_parts(k.get("threads"), k.get("rows"), k.get("unroll"), None);
            return inner::reduce_rows(s, &self.0.chain, [&row, &all], &[], &plan).map(drop);
        }
        let [grid, thread] = split(s, &row, [None, Some(k.get("rows"))])?;
        s.bind(&grid, ThreadTag::BlockX)?;
        s.bind(&thread, ThreadTag::ThreadX)?;
        self.0.serial(s, &self.0.chain.block, &thread)
    }

    /// What the reads cost is not known without measuring.
    fn outline(&self, _: &Knobs) -> Option<Outline> {
        None
    }
}

impl Accepted for Cpu {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (parts, outputs, length) = (self.0.parts, self.0.outputs(), self.0.length());
        let cores = i64::from(target.cores.max(1));
        let long = outputs.is_some_and(|n| n < cores) && length.is_some_and(|n| n >= cores * PART);
        let space = space.require("known_reducer", move |k| match k.get("split") {
            1 => Ok(()),
            _ if parts => Ok(()),
            _ => Err("partial results of this reducer cannot be put together".into()),
        });
        let space = parts_fit(space, length, outputs);
        let space = step_fits(space, outputs, |k| k.get("rows"));
        space.with_default("split", if parts && long { 16 } else { 1 })
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let row = self.0.row(s)?;
        if k.get("split") == 1 {
            return self.in_parallel(s, &self.0.chain.block, &row, k.get("rows"));
        }
        let all = fuse_all(s, &self.0.reduce)?;
        let (first, row, _) = inner::parts_of_rows(s, &self.0.chain.block, row, &all, k.get("split"))?;
        self.in_parallel(s, &first, &row, 1)?;
        cpu::add_parts(s, &self.0.chain)
    }

    fn outline(&self, _: &Knobs) -> Option<Outline> {
        None
    }
}

impl Cpu {
    fn in_parallel(&self, s: &mut Schedule, block: &Name, row: &Name, chunk: i64) -> Done {
        let [task, each] = split(s, row, [None, Some(chunk)])?;
        s.parallel(&task)?;
        self.0.serial(s, block, &each)
    }
}
