//! `gemv.inner` and `gemv.cpu`: matrix-vector products (batched ones too) whose contiguous axis is
//! reduced: one tensor is read by every axis, another only by some, as in y[n] = sum_k W[n, k] x[k].
//!
//! When: a sum; the axis contiguous in the matrix is reduced; at least one more tensor is read along
//! it; injective producers (inlined) and an elementwise epilogue or none.
//! How on a GPU: a group of lanes strides a row in loads of 16 bytes; several rows per thread share
//! each load of the vector, which waits in registers or in shared memory; sums meet by shuffles.
//! How on the CPU: rows in parallel, several rows share each load of the vector.
//! Declines: `target_kind`, the predicates of [`Reduction::of`], `contiguous_reduction`,
//! `sum_reducer`, `shared_vector`.

use super::staging::{current_read, share};
use crate::analysis::{Combiner, Decline};
use crate::ir::{Name, Scope, ThreadTag};
use crate::rules::find::shape::{Axis, Reduction};
use crate::rules::parts::*;
use crate::rules::reduction::cpu::{cpu_space, finish_rows};
use crate::rules::space::limits::{
    block_fits, combine_rivals, keeps_busy, lanes, registers_fit, step_fits, vector_fits,
};
use crate::rules::space::outlines;
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The GPU form.
pub struct GemvInner;

/// The CPU form.
pub struct GemvCpu;

const INNER: &str = "gemv.inner";
const CPU: &str = "gemv.cpu";

impl ScheduleRule for GemvInner {
    fn name(&self) -> &'static str {
        INNER
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let r = accept(INNER, Kind::Cuda, input, target)?;
        let (element, rows) = (r.element, rows_axis(&r).extent);
        let space = spaces.space(INNER, target);
        let space = block_fits(space, target, &["threads", "groups"]);
        let space = vector_fits(space, "vector", element, r.run());
        let space = registers_fit(space, target, &["threads", "groups"], 28, |k| {
            k.get("unroll") * k.get("vector") * (k.get("rows") + (k.get("stage") == 0) as i64)
        });
        let bytes =
            r.length().zip(r.outputs()).and_then(|(a, b)| a.checked_mul(b)?.checked_mul(element.bytes() as i64));
        let in_flight = |k: &Knobs| k.get("unroll") * k.get("rows") * k.get("vector");
        let space = keeps_busy(space, target, &["threads", "groups"], bytes, in_flight);
        let space = space.prefer("block_size", |k| match k.get("threads") * k.get("groups") {
            64..=512 => Ok(()),
            n => Err(format!("blocks of {n} threads where 64 to 512 are best")),
        });
        let space =
            step_fits(space, r.length(), move |k| k.get("threads") * k.get("unroll") * lanes(k.get("vector"), element));
        let space = combine_rivals(space, &["threads"], target);
        let space = space.require("rows_fit", move |k| match (k.get("groups") * k.get("rows"), rows) {
            (all, Some(n)) if all > n => Err(format!("{all} rows per block of {n} rows in all")),
            _ => Ok(()),
        });
        let space = space.prefer("loads_in_flight", |k| {
            let n = k.get("rows") * k.get("unroll");
            if n <= 32 { Ok(()) } else { Err(format!("{n} loads in flight per thread exceed 32")) }
        });
        let (bytes, limit) = (shared_bytes(&r), target.smem_per_block as i64);
        let space = space.require("vector_in_shared", move |k| match (k.get("stage"), bytes) {
            (0, _) => Ok(()),
            (_, Some(n)) if n <= limit => Ok(()),
            (_, Some(n)) => Err(format!("the vector's {n} bytes exceed the {limit} of shared memory")),
            (_, None) => Err("the vector has no constant size".into()),
        });
        let space = space.prefer("vector_leaves_shared", move |k| match (k.get("stage"), bytes) {
            (1, Some(n)) if n > 48 << 10 => Err(format!("the vector's {n} bytes leave room for few blocks")),
            _ => Ok(()),
        });
        Ok(match outlines::Work::of(&r, target) {
            Some(work) => space.outlined(move |k| outlines::product(&work, bytes.unwrap_or(0), k)),
            None => space,
        })
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let r = accepted(accept(INNER, Kind::Cuda, input, target));
        let mut s = r.schedule.clone();
        order_axes(&mut s, &[&r.spatial, &r.reduce])?;
        let batch = fuse_batch(&mut s, &r)?;
        let k = fuse_all(&mut s, &r.reduce)?;
        let n = s.split(&rows_axis(&r).at, &[None, Some(knobs.get("groups")), Some(knobs.get("rows"))])?;
        let width = lanes(knobs.get("vector"), r.element);
        let ks = s.split(&k, &[None, Some(knobs.get("unroll")), Some(knobs.get("threads")), Some(width)])?;
        let ([nb, ny, nr], [ko, ku, kt, kv]) = (&n[..], &ks[..]) else { panic!("split gives one loop per factor") };
        let rf = s.rfactor(kt, 0)?;
        let partial = output(&s, &rf);
        let grid = match &batch {
            Some(b) => s.fuse(&[b.clone(), nb.clone()])?,
            None => nb.clone(),
        };
        let order = [&grid, ny, kt, ko, ku, nr, kv];
        s.reorder(&order.map(|l| l.clone()))?;
        s.bind(&grid, ThreadTag::BlockX)?;
        s.bind(ny, ThreadTag::ThreadY)?;
        s.bind(kt, ThreadTag::ThreadX)?;
        launch_bounds(&mut s, &grid, knobs.get("min_blocks"))?;
        if knobs.get("stage") == 1 {
            for read in &r.shared {
                share(&mut s, &rf, &read.buffer, &grid, [knobs.get("groups"), knobs.get("threads")])?;
            }
        }
        for read in &r.shared {
            let buffer = current_read(&s, &rf, &read.buffer);
            stage_read(&mut s, &rf, &buffer, ku, width, 0)?;
        }
        stage_reads(&mut s, &rf, &r.full, nr, width, knobs.get("hint"))?;
        batch_loads(&mut s, ku)?;
        batch_loads(&mut s, nr)?;
        unroll_loop(&mut s, kv)?;
        let init = s.decompose_reduction(&rf, ko)?;
        for l in loops_below(&s, &init, kt) {
            unroll_loop(&mut s, &l)?;
        }
        product_leaf(&mut s, kv)?;
        s.set_scope(&partial, Scope::Local)?;
        combine_by(&mut s, &r.block, knobs.get("combine"))?;
        finish(&mut s, &r.block, &r.epilogues, &grid, [knobs.get("groups"), knobs.get("rows")])?;
        Ok(s)
    }
}

impl ScheduleRule for GemvCpu {
    fn name(&self) -> &'static str {
        CPU
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let r = accept(CPU, Kind::Cpu, input, target)?;
        let rows = rows_axis(&r).extent;
        let acc = r.reducer.dtype;
        let space = cpu_space(spaces.space(CPU, target), acc, r.run());
        let space = step_fits(space, r.length(), move |k| k.get("unroll") * lanes(k.get("vector"), acc));
        let space = space.require("vector_registers", |k| {
            let n = k.get("rows") * k.get("unroll");
            if n <= 16 { Ok(()) } else { Err(format!("{n} accumulators exceed 16 vector registers")) }
        });
        let space = space.require("rows_exist", move |k| match rows {
            Some(n) if n % k.get("rows") != 0 => Err(format!("{} rows per step do not divide {n}", k.get("rows"))),
            None if k.get("rows") > 1 => Err("the number of rows is not constant".into()),
            _ => Ok(()),
        });
        let (Some(work), Some(outputs), Some(length)) = (outlines::Work::of(&r, target), r.outputs(), r.length())
        else {
            return Ok(space);
        };
        Ok(space.outlined(move |k| {
            let (rows, unroll) = (k.get("rows"), k.get("unroll"));
            let step = unroll * lanes(k.get("vector"), acc);
            outlines::cpu(&work, outputs / rows, (length + step - 1) / step, rows * unroll, k.get("vector"), 1)
        }))
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let r = accepted(accept(CPU, Kind::Cpu, input, target));
        let outer = &r.spatial[..r.spatial.len() - 1];
        let shape = [knobs.get("rows"), knobs.get("unroll"), lanes(knobs.get("vector"), r.reducer.dtype)];
        let mut s = r.schedule.clone();
        dot_rows(
            &mut s,
            &r.block,
            &r.epilogues,
            [outer, &r.spatial[outer.len()..], &r.reduce],
            shape,
            knobs.get("prefetch"),
        )?;
        Ok(s)
    }
}

/// Schedules `block`, a sum over `reduce` for each of the `rows` (and `outer`), for the CPU: `[rows, unroll,
/// width]` are the rows that share each load of the vector, the vector accumulators of a row, and their
/// lanes; the rows are asked for `ahead` bytes before.
pub fn dot_rows(
    s: &mut Schedule,
    block: &Name,
    epilogues: &[Name],
    [outer, rows, reduce]: [&[Axis]; 3],
    [together, unroll, width]: [i64; 3],
    ahead: i64,
) -> Result<(), ScheduleError> {
    order_axes(s, &[outer, rows, reduce])?;
    let batch = if outer.is_empty() { None } else { Some(fuse_all(s, outer)?) };
    let k = fuse_all(s, reduce)?;
    let row = fuse_all(s, rows)?;
    let n = s.split(&row, &[None, Some(together)])?;
    let ks = s.split(&k, &[None, Some(unroll * width)])?;
    let rank = s.func().buffer(&output(s, block)).shape.len();
    let rf = s.rfactor(&ks[1], rank)?;
    let partial = output(s, &rf);
    let vectors = s.split(&ks[1], &[Some(unroll), Some(width)])?;
    let grid = match &batch {
        Some(b) => s.fuse(&[b.clone(), n[0].clone()])?,
        None => n[0].clone(),
    };
    s.reorder(&[&grid, &ks[0], &vectors[0], &n[1], &vectors[1]].map(|l| l.clone()))?;
    s.parallel(&grid)?;
    unroll_loop(s, &vectors[0])?;
    unroll_loop(s, &n[1])?;
    vectorize_loop(s, &vectors[1])?;
    let init = s.decompose_reduction(&rf, &ks[0])?;
    let inner = loops_below(s, &init, &grid);
    if let Some(last) = inner.last() {
        vectorize_loop(s, last)?;
    }
    ask_ahead(s, &ks[0], ahead)?;
    s.set_scope(&partial, Scope::Local)?;
    finish_rows(s, block, epilogues, &grid, [unroll, width])
}

fn accept(by: &'static str, kind: Kind, input: &Prepared, target: &Target) -> Result<Reduction, Decline> {
    for_kind(by, kind, target)?;
    let no = |predicate, reason: String| Decline { by, predicate, reason };
    let r = Reduction::of(by, input)?;
    if !r.inner_reduce {
        return Err(no("contiguous_reduction", "the axis contiguous in the matrix is not reduced".into()));
    }
    if !r.plain || r.reducer.combiner != Combiner::Sum {
        return Err(no("sum_reducer", "the reduction is not a sum".into()));
    }
    if r.shared.is_empty() || r.spatial.is_empty() {
        return Err(no("shared_vector", "no tensor is shared by the rows".into()));
    }
    Ok(r)
}

/// The axis of rows: the last spatial one of the matrix. Earlier ones are batches.
fn rows_axis(r: &Reduction) -> &Axis {
    r.spatial.last().unwrap_or_else(|| panic!("accepted functions have rows"))
}

fn fuse_batch(s: &mut Schedule, r: &Reduction) -> Result<Option<Name>, ScheduleError> {
    let batch = &r.spatial[..r.spatial.len() - 1];
    if batch.is_empty() { Ok(None) } else { fuse_all(s, batch).map(Some) }
}

/// Bytes of the vectors of one batch entry.
fn shared_bytes(r: &Reduction) -> Option<i64> {
    let length = r.length()?;
    r.shared.iter().try_fold(0i64, |n, a| {
        let size = r.schedule.func().buffer(&a.buffer).dtype.bytes() as i64;
        n.checked_add(length.checked_mul(size)?)
    })
}
