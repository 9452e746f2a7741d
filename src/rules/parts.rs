//! What rules are put together from: steps that several take, and the names that all use.

pub use super::space::At;
pub use super::space::limits::*;
pub use super::{Accepted, Answer, Ask, Found, Knobs, Outline, Rule, Space};
pub use crate::ir::device::LeafOp;
pub use crate::ir::{DType, IterKind, Mark, Name, Scope, ThreadTag, TileOp};
pub use crate::schedule::{Schedule, ScheduleError};
pub use crate::target::{Kind, Target};

use super::find::shape::{Axis, Chain, find_block};
use crate::analysis::Combiner;
use crate::ir::kernel::CacheHint;
use crate::ir::{Expr, ExprKind, ForKind, Stmt};

/// Steps that were taken.
pub type Done = Result<(), ScheduleError>;

/// The values of the `fold` knob as names of variants; the first leaves it to the dispatch table.
const FOLDS: [Option<&str>; 2] = [None, Some("local")];
/// The same of the `fold` knob where threads fold tile by tile, element by element.
const ELEMENTWISE: [Option<&str>; 2] = [None, Some("reg")];
/// The same of the `combine` knob.
const COMBINES: [Option<&str>; 2] = [None, Some("staged")];

/// The values of the `hint` knob.
const HINTS: [CacheHint; 4] = [CacheHint::Plain, CacheHint::Streaming, CacheHint::NoAllocate, CacheHint::NoAllocate256];

/// The knobs of one launch of a GPU reduction, in elements.
pub struct Plan {
    /// Threads along `threadIdx.x`.
    pub threads: i64,
    /// Threads along `threadIdx.y`.
    pub rows: i64,
    /// Elements per load.
    pub lanes: i64,
    /// Loads in flight per thread.
    pub unroll: i64,
    /// Second argument of the launch bounds.
    pub min_blocks: i64,
    /// Cache hint, a value of the `hint` knob.
    pub hint: i64,
    /// How values are combined, where tile primitives do it.
    pub combiner: Option<Combiner>,
    /// Variant of the fold inside a thread, a value of the `fold` knob.
    pub fold: i64,
    /// Variant of the combination across threads, a value of the `combine` knob.
    pub combine: i64,
}

impl Plan {
    /// What a point says of a launch that reads elements of one type.
    pub fn of(knobs: &Knobs, element: DType, combiner: Option<Combiner>) -> Plan {
        Plan {
            threads: knobs.get("threads"),
            rows: knobs.get("rows"),
            lanes: lanes(knobs.get("vector"), element),
            unroll: knobs.get("unroll"),
            min_blocks: knobs.get("min_blocks"),
            hint: knobs.get("hint"),
            combiner,
            fold: knobs.find("fold").unwrap_or(0),
            combine: knobs.find("combine").unwrap_or(0),
        }
    }

    /// Blocks that add the parts that a launch left: one element per load, nothing asked of the dispatch table.
    pub fn of_parts(threads: i64, rows: i64, unroll: i64, combiner: Option<Combiner>) -> Plan {
        Plan { threads, rows, lanes: 1, unroll, min_blocks: 1, hint: 0, combiner, fold: 0, combine: 0 }
    }
}

/// Loops of which it is known how many there are.
pub fn known<const N: usize>(loops: Vec<Name>) -> [Name; N] {
    loops.try_into().unwrap_or_else(|loops: Vec<Name>| panic!("{N} loops are known, {loops:?} found"))
}

/// Splits a loop into one per factor, outermost first.
pub fn split<const N: usize>(
    s: &mut Schedule,
    at: &Name,
    factors: [Option<i64>; N],
) -> Result<[Name; N], ScheduleError> {
    s.split(at, &factors).map(known)
}

/// Puts loops into this order.
pub fn order<const N: usize>(s: &mut Schedule, loops: [&Name; N]) -> Done {
    s.reorder(&loops.map(Name::clone))
}

/// Fuses loops into one; the loop itself where there is one only.
pub fn fuse_loops(s: &mut Schedule, loops: &[Name]) -> Result<Name, ScheduleError> {
    match loops {
        [one] => Ok(one.clone()),
        _ => s.fuse(loops),
    }
}

/// Fuses the loops of axes.
pub fn fuse_all(s: &mut Schedule, axes: &[Axis]) -> Result<Name, ScheduleError> {
    fuse_loops(s, &axes.iter().map(|a| a.at.clone()).collect::<Vec<_>>())
}

/// The same where there may be no axis.
pub fn fuse_any(s: &mut Schedule, axes: &[Axis]) -> Result<Option<Name>, ScheduleError> {
    if axes.is_empty() { Ok(None) } else { fuse_all(s, axes).map(Some) }
}

/// The loop of the last axis, and that of those before it, where there are any.
pub fn fuse_but_last(s: &mut Schedule, axes: &[Axis]) -> Result<(Option<Name>, Name), ScheduleError> {
    let (outer, last) = axes.split_at(axes.len().saturating_sub(1));
    Ok((fuse_any(s, outer)?, fuse_all(s, last)?))
}

/// Fuses a loop with the one around it, where there is one.
pub fn fuse_under(s: &mut Schedule, outer: Option<Name>, inner: &Name) -> Result<Name, ScheduleError> {
    fuse_loops(s, &outer.into_iter().chain([inner.clone()]).collect::<Vec<_>>())
}

/// Puts the loops of a nest into the order of `axes`.
pub fn order_axes(s: &mut Schedule, axes: &[&[Axis]]) -> Done {
    let loops: Vec<Name> = axes.iter().flat_map(|g| g.iter().map(|a| a.at.clone())).collect();
    if loops.len() > 1 { s.reorder(&loops) } else { Ok(()) }
}

/// Stages one buffer's reads in registers at loop `at`, innermost loop vectorized with a cache hint.
pub fn stage_read(s: &mut Schedule, block: &Name, buffer: &Name, at: &Name, lanes: i64, hint: i64) -> Done {
    let copy = s.cache_read(block, buffer, Scope::Local)?;
    s.compute_at(&copy, at)?;
    if s.func().buffer(buffer).shape.last().and_then(Expr::as_int).is_some_and(|n| n % lanes != 0) {
        // A vector may begin in one row and end in the next: registers have no rows.
        let registers = output(s, &copy);
        s.flatten_buffer(&registers)?;
    }
    match loops_below(s, &copy, at).last() {
        Some(inner) if lanes > 1 => {
            let inner = inner.clone();
            s.vectorize(&inner)?;
            cache_hint(s, &inner, hint)
        }
        _ => cache_hint(s, &copy, hint),
    }
}

/// The cache hint, a value of the `hint` knob, of the loads of a loop or a block.
pub fn cache_hint(s: &mut Schedule, at: &Name, hint: i64) -> Done {
    s.mark(at, Mark::CacheHint(HINTS[hint.clamp(0, 3) as usize]))
}

/// What a loop of a CPU reads is asked for so many bytes before it is needed; 0 leaves it to the caches.
pub fn ask_ahead(s: &mut Schedule, at: &Name, bytes: i64) -> Done {
    if bytes > 0 { s.mark(at, Mark::PrefetchBytes(bytes)) } else { Ok(()) }
}

/// The vector stores of a loop go past the caches of a CPU.
pub fn past_the_caches(s: &mut Schedule, lane: &Name) -> Done {
    s.mark(lane, Mark::CacheHint(CacheHint::Streaming))
}

/// Says that a loop folds the elements of a tile into one register.
pub fn fold_leaf(s: &mut Schedule, at: &Name, plan: &Plan) -> Done {
    plan.combiner.map_or(Ok(()), |c| leaf(s, at, c.fold(), choice(&FOLDS, plan.fold)))
}

/// Says that a loop combines two tiles of registers element by element.
pub fn elementwise_leaf(s: &mut Schedule, at: &Name, plan: &Plan) -> Done {
    plan.combiner.map_or(Ok(()), |c| leaf(s, at, c.elementwise(), choice(&ELEMENTWISE, plan.fold)))
}

/// Says which tile primitive a loop is.
pub fn tile_leaf(s: &mut Schedule, at: &Name, tile: LeafOp) -> Done {
    s.mark(at, Mark::Tile(tile))
}

fn leaf(s: &mut Schedule, at: &Name, op: TileOp, variant: Option<&str>) -> Done {
    tile_leaf(s, at, LeafOp::Tile(op))?;
    match variant {
        Some(name) => s.mark(at, Mark::TileVariant(name.into())),
        None => Ok(()),
    }
}

/// Asks for the variant that combines a block's values across threads.
pub fn combine_by(s: &mut Schedule, block: &Name, combine: i64) -> Done {
    match choice(&COMBINES, combine) {
        Some(name) => s.mark(block, Mark::Combine(name.into())),
        None => Ok(()),
    }
}

fn choice<'a>(names: &[Option<&'a str>], value: i64) -> Option<&'a str> {
    usize::try_from(value).ok().and_then(|i| names.get(i).copied().flatten())
}

/// The loops around `block` inside loop `at`, outermost first.
pub fn loops_below(s: &Schedule, block: &Name, at: &Name) -> Vec<Name> {
    let loops = s.loops(block);
    match loops.iter().position(|l| l == at) {
        Some(i) => loops[i + 1..].to_vec(),
        None => loops,
    }
}

/// The loops below `at` that drive iterators of one kind, outermost first. A loop may drive several.
pub fn loops_of_kind(s: &Schedule, block: &Name, at: &Name, kind: IterKind) -> Vec<Name> {
    driving(s, block, kind, loops_below(s, block, at))
}

fn driving(s: &Schedule, block: &Name, kind: IterKind, loops: Vec<Name>) -> Vec<Name> {
    let b = find_block(s.func(), block);
    let drives = |l: &Name| b.iters.iter().any(|i| i.kind == kind && i.binding.uses_var(l));
    loops.into_iter().filter(|l| drives(l)).collect()
}

/// The blocks that leave the results in global memory: a copy out of registers for each result that
/// somebody else wants, and the epilogues. The reduction's own results are then intermediates, which
/// [`keep_in_registers`] may place.
pub fn tails(s: &mut Schedule, Chain { block, epilogues }: &Chain) -> Result<Vec<Name>, ScheduleError> {
    let mut tails = vec![];
    for out in outputs(s, block) {
        let elsewhere = s.readers(&out).iter().any(|r| r != block && !epilogues.contains(r));
        let unread = s.readers(&out).iter().all(|r| r == block) && outputs(s, block).len() == 1;
        if s.func().is_param(&out) || elsewhere || unread {
            tails.push(s.cache_write(block, &out, Scope::Local)?);
        }
    }
    tails.extend_from_slice(epilogues);
    Ok(tails)
}

/// True where the block does nothing but copy.
pub fn copies(s: &Schedule, block: &Name) -> bool {
    let body = find_block(s.func(), block).body;
    matches!(body.as_slice(), [Stmt::Store { value, .. }] if matches!(value.kind(), ExprKind::Load { .. }))
}

/// Keeps the values of a block in float32 that the function says are narrower, where it may be done and changes something;
/// its result too where that is a buffer that is going to stay in registers.
pub fn keep_float32(s: &mut Schedule, block: &Name, result: Option<&Name>) {
    if let Some(r) = result {
        let mut placed = s.clone();
        let wide = |s: &Schedule| s.func().buffer(r).dtype == DType::F32;
        let done = placed.set_scope(r, Scope::Local).is_ok() && placed.keep_float32(block).is_ok();
        if done && wide(&placed) && !wide(s) {
            *s = placed;
            return;
        }
    }
    // Few blocks have anything of the kind.
    let _ = s.keep_float32(block);
}

/// The schedule with the values of these blocks in float32, their results as they were.
pub fn in_float32<'b>(start: &Schedule, blocks: impl IntoIterator<Item = &'b Name>) -> Schedule {
    let mut s = start.clone();
    blocks.into_iter().for_each(|b| keep_float32(&mut s, b, None));
    s
}

/// Relaxes the elementary functions of each element of these blocks on a GPU, where every output is a float of at most 16 bits.
pub fn approximate<'b>(s: &mut Schedule, target: &Target, blocks: impl IntoIterator<Item = &'b Name>) {
    let func = s.func();
    let narrow = |b: &Name| func.buffer(b).dtype.is_float() && func.buffer(b).dtype.bytes() <= 2;
    let written: Vec<Name> = s.blocks().iter().flat_map(|b| outputs(s, b)).filter(|b| func.is_param(b)).collect();
    if target.kind == Kind::Cuda && written.iter().all(narrow) {
        for (b, way) in blocks.into_iter().flat_map(|b| ["logistic", "erf", "tanh"].map(|way| (b, way))) {
            // Few blocks have anything of the kind.
            let _ = s.relax_arithmetic(b, way);
        }
    }
}

/// Places what a block writes in registers.
pub fn keep_in_registers(s: &mut Schedule, block: &Name) -> Done {
    outputs(s, block).iter().try_for_each(|out| s.set_scope(out, Scope::Local))
}

/// The buffers that a block writes, in the order of its stores.
pub fn outputs(s: &Schedule, block: &Name) -> Vec<Name> {
    let mut names: Vec<Name> = vec![];
    for stmt in &find_block(s.func(), block).body {
        stmt.visit(&mut |s| {
            if let Stmt::Store { buffer, .. } = s
                && !names.contains(buffer)
            {
                names.push(buffer.clone());
            }
        });
    }
    names
}

/// Dimensions of what a block writes.
pub fn rank(s: &Schedule, block: &Name) -> usize {
    s.func().buffer(&output(s, block)).shape.len()
}

/// The last buffer that a block writes; most write one.
pub fn output(s: &Schedule, block: &Name) -> Name {
    outputs(s, block).pop().unwrap_or_else(|| panic!("block `{block}` stores something"))
}

/// The loops of a block that drive iterators of a kind, in nest order.
pub fn axes_of_kind(s: &Schedule, block: &Name, kind: IterKind) -> Vec<Axis> {
    let axis = |l: Name| Axis { extent: loop_extent(s, &l), at: l };
    driving(s, block, kind, s.loops(block)).into_iter().map(axis).collect()
}

/// Fuses the loops that drive iterators of one kind; where none does, a loop of extent 1 around the nest.
pub fn fuse_kind(s: &mut Schedule, block: &Name, kind: IterKind) -> Result<Name, ScheduleError> {
    let axes = axes_of_kind(s, block, kind);
    if axes.is_empty() {
        let outermost = s.loops(block).first().unwrap_or(block).clone();
        return s.add_unit_loop(&outermost);
    }
    fuse_all(s, &axes)
}

/// The kind and constant extent of a loop.
fn loop_facts(s: &Schedule, at: &Name) -> Option<(ForKind, Option<i64>)> {
    let mut facts = None;
    s.func().visit(&mut |stmt| {
        if let Stmt::For(l) = stmt
            && l.var == *at
        {
            facts = Some((l.kind, l.extent.as_int()));
        }
    });
    facts
}

/// The constant extent of a loop.
pub fn loop_extent(s: &Schedule, at: &Name) -> Option<i64> {
    loop_facts(s, at).and_then(|f| f.1)
}

/// Vectorizes a loop that is still serial: a decomposed init keeps the kinds of its loops.
pub fn vectorize_loop(s: &mut Schedule, at: &Name) -> Done {
    if is_serial(s, at) { s.vectorize(at) } else { Ok(()) }
}

/// Vectorizes `lanes` of a loop, where they divide it.
pub fn vectorize_lanes(s: &mut Schedule, at: &Name, lanes: i64) -> Done {
    match loop_extent(s, at) {
        Some(n) if lanes > 1 && n == lanes => vectorize_loop(s, at),
        Some(n) if lanes > 1 && n % lanes == 0 => {
            let [_, lane] = split(s, at, [None, Some(lanes)])?;
            vectorize_loop(s, &lane)
        }
        _ => Ok(()),
    }
}

/// Unrolls a loop that is still serial.
pub fn unroll_loop(s: &mut Schedule, at: &Name) -> Done {
    if is_serial(s, at) { s.unroll(at) } else { Ok(()) }
}

fn is_serial(s: &Schedule, at: &Name) -> bool {
    loop_facts(s, at).is_some_and(|f| f.0 == ForKind::Serial)
}

/// The annotation that becomes the second argument of `__launch_bounds__`.
pub fn launch_bounds(s: &mut Schedule, grid: &Name, min_blocks: i64) -> Done {
    s.mark(grid, Mark::MinBlocks(min_blocks))
}

/// Has the blocks of a launch, which add `parts` of each result, be run by those of the launch before that end last, where it is
/// known how many there are: a launch less.
pub fn run_by_last_blocks(s: &mut Schedule, [before, grid]: [&Name; 2], parts: i64) -> Done {
    match [before, grid].map(|at| loop_extent(s, at)) {
        [Some(before), Some(own)] if before == own * parts && before <= Mark::MOST_COUNTED => {
            s.mark(grid, Mark::LastBlock(true))
        }
        _ => Ok(()),
    }
}

/// Marks an unrolled loop whose loads are to be issued before their uses.
pub fn batch_loads(s: &mut Schedule, at: &Name) -> Done {
    s.unroll(at)?;
    s.mark(at, Mark::BatchLoads(true))
}

/// Brings a reduction across `threadIdx.x` and what follows it under the block loop; `deal` gives each thread
/// the rows that it summed.
pub fn finish(
    s: &mut Schedule,
    chain: &Chain,
    grid: &Name,
    deal: impl Fn(&mut Schedule, &Name) -> Result<(), ScheduleError>,
) -> Done {
    let (block, tails) = (&chain.block, tails(s, chain)?);
    s.reverse_compute_at(block, grid)?;
    deal(s, block)?;
    for l in loops_of_kind(s, block, grid, IterKind::Reduce) {
        s.bind(&l, ThreadTag::ThreadX)?;
    }
    for tail in &tails {
        s.reverse_compute_at(tail, grid)?;
        deal(s, tail)?;
    }
    keep_in_registers(s, block)
}

/// Deals the kept axes of `block` to `groups` groups of threads, `rows` to each.
pub fn deal_all(s: &mut Schedule, block: &Name, grid: &Name, shape: [i64; 2]) -> Done {
    let loops = loops_of_kind(s, block, grid, IterKind::Spatial);
    if loops.is_empty() {
        return Ok(());
    }
    let row = fuse_loops(s, &loops)?;
    deal_rows(s, &row, shape)
}

/// Deals a loop over rows to `groups` groups of threads, `rows` to each.
pub fn deal_rows(s: &mut Schedule, row: &Name, [groups, rows]: [i64; 2]) -> Done {
    if rows == 1 {
        return s.bind(row, ThreadTag::ThreadY);
    }
    let [group, each] = split(s, row, [Some(groups), Some(rows)])?;
    s.bind(&group, ThreadTag::ThreadY)?;
    unroll_loop(s, &each)
}
