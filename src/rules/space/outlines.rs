//! The outlines of each kind of kernel that rules make, from sizes and knobs. The register counts are
//! what NVRTC gives where the launch bounds leave room (within 20 %).

use super::limits::{LINE, SECTOR, lanes};
use crate::ir::DType;
use crate::rules::cluster;
use crate::rules::find::shape::Reduction;
use crate::rules::space::outline::passes;
use crate::rules::{Combine, Knobs, LaunchOutline, Outline};
use crate::target::Target;

/// Most threads per row of a second launch, which adds parts.
const PARTS: i64 = 1024;

/// The sizes of a reduction, all constant.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    outputs: i64,
    length: i64,
    /// Length of the innermost kept axis.
    columns: i64,
    element: DType,
    /// Tensors read by every axis.
    operands: i64,
    /// Bytes of all of them.
    bytes: i64,
    /// Bytes of one element of the tensors shared by rows, all together.
    shared: i64,
    /// Bytes of one accumulator.
    acc: i64,
    warp: i64,
    /// Two float32 operations are one instruction.
    packed: bool,
    /// Instructions that fold one element.
    fold: i64,
}

/// Instructions that fold a value and its place: two comparisons, both joined, a choice of each, the next place.
const PLACED: i64 = 6;

impl Work {
    /// The sizes, where all are known.
    pub fn of(r: &Reduction, target: &Target) -> Option<Work> {
        let (outputs, length) = (r.outputs()?, r.length()?);
        let size = |a: &crate::analysis::Access| r.one.schedule.func().buffer(&a.buffer).dtype.bytes() as i64;
        let each: i64 = r.full.iter().map(size).sum();
        Some(Work {
            outputs,
            length,
            columns: r.spatial.last().map_or(Some(1), |a| a.extent)?.max(1),
            element: r.element,
            operands: r.full.len() as i64,
            bytes: outputs.checked_mul(length)?.checked_mul(each)?,
            shared: r.shared.iter().map(size).sum(),
            acc: r.one.reducer.dtype.bytes() as i64,
            warp: i64::from(target.warp),
            packed: target.has.packed_f32 && r.element == DType::F32,
            fold: if r.combiner().is_some() { 1 } else { PLACED },
        })
    }

    fn flops(&self) -> i64 {
        self.outputs.saturating_mul(self.length).saturating_mul(if self.shared > 0 { 2 } else { 1 })
    }

    /// Instructions that fold `n` loaded elements in a thread.
    fn fold(&self, k: &Knobs, n: i64) -> i64 {
        if self.packed && k.find("fold") == Some(0) { n / 2 } else { n * self.fold }
    }

    /// How `threads` threads combine a value.
    fn combine(&self, k: &Knobs, threads: i64, values: i64) -> Combine {
        match k.find("combine") {
            Some(1) => Combine { lanes: 1, parts: threads, values },
            _ => Combine::across(threads, values, self.warp),
        }
    }
}

/// Bytes of shared memory in which parts of `values` values of `bytes` meet, where there are several.
pub fn meeting(parts: i64, values: i64, bytes: i64) -> i64 {
    if parts > 1 { (parts * values * bytes + 15) / 16 * 16 } else { 0 }
}

/// The block that adds `split` parts of each column, after blocks of `threads` columns: columns side by side,
/// and threads for each.
pub fn adders(threads: i64, split: i64) -> [i64; 2] {
    [threads.max(32), (split as u64).next_power_of_two().min(8) as i64]
}

/// Registers of `bytes` in flight, with those of their addresses. Each load of `width` bytes has one at least.
pub fn load_regs(bytes: i64, width: i64) -> i64 {
    bytes / width.clamp(1, 4) + bytes / 16
}

/// The tenth part of a line that it costs in DRAM time where blocks read parts of it at different times, for each part after
/// the first.
const SHARED_LINE: i64 = 10;

/// Bytes of DRAM time for so many bytes in rows of `row` bytes, which blocks read in pieces of `piece` bytes.
fn in_pieces(bytes: i64, piece: i64, row: i64) -> i64 {
    if piece < row.min(LINE) { bytes + bytes / SHARED_LINE * (LINE / piece.max(1) - 1) } else { bytes }
}

/// Bytes of the sectors in which pieces of `piece` bytes lie, for each of theirs: one sector more where rows of
/// `row` bytes do not start with one.
pub fn sectors(piece: i64, row: i64) -> f64 {
    let more = if row % SECTOR == 0 { 0 } else { SECTOR };
    padding((piece + SECTOR - 1) / SECTOR * SECTOR + more, piece)
}

fn padding(stepped: i64, length: i64) -> f64 {
    stepped as f64 / length.max(1) as f64
}

/// Rows reduced along memory, by `threads` threads each, in `split` parts.
pub fn rows(w: &Work, k: &Knobs) -> Outline {
    let (threads, rows, unroll, split) = (k.get("threads"), k.get("rows"), k.get("unroll"), k.get("split"));
    let width = lanes(k.get("vector"), w.element);
    let part = (w.length + split - 1) / split;
    let step = threads * unroll * width;
    let steps = (part + step - 1) / step;
    let in_flight = unroll * k.get("vector") * w.operands;
    let combine = w.combine(k, threads, 1);
    let first = LaunchOutline {
        blocks: (w.outputs + rows - 1) / rows * split,
        threads: threads * rows,
        min_blocks: k.get("min_blocks"),
        state_regs: 14,
        load_regs: load_regs(in_flight, k.get("vector")),
        smem: meeting(combine.parts, rows, w.acc),
        load_bytes: k.get("vector"),
        in_flight,
        steps,
        read: w.bytes,
        written: w.outputs * split * w.acc,
        padding: padding(steps * step, part),
        instructions: unroll * (w.fold(k, width) + 3) * w.operands,
        flops: w.flops(),
        combine,
        ..LaunchOutline::default()
    };
    let second = (split as u64).next_power_of_two().clamp(32, PARTS as u64) as i64;
    Outline::in_parts(first, split, || parts(w, split, w.outputs, second, Combine::across(second, 1, w.warp)))
}

/// Columns reduced across memory: `threads` vectors of columns side by side, `rows` threads per column.
pub fn columns(w: &Work, k: &Knobs) -> Outline {
    let (threads, rows, unroll, split) = (k.get("threads"), k.get("rows"), k.get("unroll"), k.get("split"));
    let width = lanes(k.get("vector"), w.element);
    let part = (w.length + split - 1) / split;
    let steps = (part + rows * unroll - 1) / (rows * unroll);
    let across = (w.columns + threads * width - 1) / (threads * width);
    let in_flight = unroll * k.get("vector") * w.operands;
    let (piece, row) = (threads * k.get("vector"), w.columns * w.element.bytes() as i64);
    let first = LaunchOutline {
        blocks: w.outputs / w.columns * across * split,
        threads: threads * rows,
        min_blocks: k.get("min_blocks"),
        state_regs: 22,
        load_regs: load_regs(in_flight, k.get("vector")),
        smem: meeting(rows, threads * width, w.acc),
        load_bytes: k.get("vector"),
        in_flight,
        steps,
        read: in_pieces(w.bytes, piece, row),
        written: w.outputs * split * w.acc,
        padding: padding(steps * rows * unroll, part) * padding(across * threads * width, w.columns),
        sectors: sectors(piece, row),
        instructions: unroll * ((w.fold(k, width) + 3) * w.operands + if w.shared > 0 { 3 } else { 0 }),
        flops: w.flops(),
        combine: Combine { lanes: 1, parts: rows, values: 1 },
        ..LaunchOutline::default()
    };
    if cluster::adds(k, "split") {
        return Outline::one(LaunchOutline { cluster: split, adds_parts: true, ..first });
    }
    let [side, deep] = adders(threads, split);
    let blocks = w.outputs / w.columns * ((w.columns + side - 1) / side);
    Outline::in_parts(first, split, || {
        let one = parts(w, split, blocks, side * deep, Combine { lanes: 1, parts: deep, values: 1 });
        let unroll = (split / deep).clamp(1, 4);
        let (smem, steps) = (meeting(deep, side, w.acc), (split + deep * unroll - 1) / (deep * unroll));
        LaunchOutline { smem, in_flight: 4 * unroll, steps, ..one }
    })
}

/// The blocks that add `split` parts of every output.
fn parts(w: &Work, split: i64, blocks: i64, threads: i64, combine: Combine) -> LaunchOutline {
    LaunchOutline {
        blocks,
        threads,
        state_regs: 14,
        load_regs: 1,
        smem: meeting(combine.parts, combine.values, w.acc),
        load_bytes: w.acc,
        in_flight: w.acc,
        steps: (split + threads - 1) / threads,
        read: w.outputs * split * w.acc,
        written: w.outputs * w.acc,
        instructions: 4,
        flops: w.outputs * split,
        combine,
        from_cache: true,
        last_block: true,
        ..LaunchOutline::default()
    }
}

/// A matrix-vector product: `rows` rows per thread share each load of the vector, whose `vector_bytes`
/// wait in registers or in shared memory.
pub fn product(w: &Work, vector_bytes: i64, k: &Knobs) -> Outline {
    let (threads, groups, rows, unroll) = (k.get("threads"), k.get("groups"), k.get("rows"), k.get("unroll"));
    let width = lanes(k.get("vector"), w.element);
    let step = threads * unroll * width;
    let steps = (w.length + step - 1) / step;
    let in_flight = unroll * rows * k.get("vector") * w.operands;
    let staged = k.get("stage") == 1;
    let vector_regs = if staged { 0 } else { unroll * width * w.shared / k.get("vector").clamp(1, 4) };
    let combine = w.combine(k, threads, rows);
    Outline::one(LaunchOutline {
        blocks: (w.outputs + groups * rows - 1) / (groups * rows),
        threads: threads * groups,
        min_blocks: k.get("min_blocks"),
        state_regs: 20,
        load_regs: load_regs(in_flight, k.get("vector")) + vector_regs,
        smem: meeting(combine.parts, combine.values * groups, w.acc) + if staged { vector_bytes } else { 0 },
        load_bytes: k.get("vector"),
        in_flight,
        steps,
        read: w.bytes,
        written: w.outputs * w.acc,
        padding: padding(steps * step, w.length),
        instructions: 2 * width * unroll * (rows + 1) + 3 * unroll * rows,
        flops: w.flops(),
        combine,
        staged,
        shares: staged,
        ..LaunchOutline::default()
    })
}

/// The sizes of one injective block.
#[derive(Clone, Copy, Debug)]
pub struct Moves {
    /// Elements of the output.
    pub elements: i64,
    /// Its type.
    pub dtype: DType,
    /// Vectors loaded for each vector stored, those of single elements among them.
    pub loads: i64,
    /// Those of which neighbours of the output read elements that are far from each other.
    pub scattered: i64,
    /// Those that don't lie as the output does: read element by element where a vector goes on into the next row.
    pub apart: i64,
    /// Elements of a row of the output, where vectors may do so.
    pub row: Option<i64>,
    /// Bytes read from DRAM.
    pub read: i64,
}

/// Passes of an access of a warp whose lanes read elements far from each other, several of which share a tag.
const SCATTERED: f64 = 16.0;

/// Instructions that find the place of an element in its row.
const INDEX: i64 = 6;

/// Injective blocks, one launch each, on `sms` multiprocessors.
pub fn elementwise(blocks: &[Moves], sms: i64, k: &Knobs) -> Outline {
    let (threads, unroll, vector) = (k.get("threads"), k.get("unroll"), k.get("vector"));
    let launch = |m: &Moves| {
        let step = threads * unroll * lanes(vector, m.dtype);
        let in_flight = unroll * vector * m.loads.max(1);
        let tiles = (m.elements + step - 1) / step;
        let blocks = if k.get("waves") == 0 { tiles } else { tiles.min(sms * k.get("waves")) };
        let steps = (tiles + blocks - 1) / blocks.max(1);
        let crossed = m.row.is_some_and(|n| n % lanes(vector, m.dtype) != 0);
        let apart = if crossed { m.apart - m.scattered } else { 0 };
        let vectors = (unroll * (m.loads - m.scattered - apart + 1)) as f64 * passes(vector);
        let single = (unroll * lanes(vector, m.dtype) * m.scattered) as f64 * SCATTERED;
        let beside = (unroll * lanes(vector, m.dtype) * apart) as f64 * passes(vector);
        LaunchOutline {
            blocks,
            threads,
            min_blocks: k.get("min_blocks"),
            state_regs: 14,
            load_regs: load_regs(in_flight, k.get("vector")),
            load_bytes: vector,
            in_flight,
            steps,
            read: m.read,
            written: m.elements * m.dtype.bytes() as i64,
            passes: Some(steps as f64 * (vectors + single + beside)),
            padding: padding((m.elements + step - 1) / step * step, m.elements),
            instructions: (6 + INDEX * apart) * unroll * lanes(vector, m.dtype),
            flops: m.elements,
            ..LaunchOutline::default()
        }
    };
    Outline { launches: blocks.iter().map(launch).collect() }
}

/// A reduction on the CPU: `tasks` of the parallel loop, each `steps` trips with `vectors` vector
/// operations of `vector` bytes, in `split` parts.
pub fn cpu(w: &Work, tasks: i64, steps: i64, vectors: i64, vector: i64, split: i64) -> Outline {
    let width = (vector / w.acc.max(1)).max(1);
    let first = LaunchOutline {
        blocks: tasks * split,
        load_regs: vectors,
        load_bytes: vector,
        in_flight: vectors * vector,
        steps,
        read: w.bytes,
        written: w.outputs * split * w.acc,
        // A step ends in a chain of additions where it has a single accumulator.
        instructions: (vectors * (1 + w.operands)).max(4),
        flops: w.flops(),
        combine: Combine { lanes: width, parts: 1, values: 1 },
        ..LaunchOutline::default()
    };
    Outline::in_parts(first, split, || LaunchOutline {
        threads: 1,
        load_bytes: w.acc,
        last_block: false,
        ..parts(w, split, w.outputs, 1, Combine::default())
    })
}

/// Injective blocks on the CPU: tasks of `chunk` vectors.
pub fn cpu_elementwise(blocks: &[Moves], k: &Knobs) -> Outline {
    let (chunk, vector) = (k.get("chunk"), k.get("vector"));
    let launch = |m: &Moves| LaunchOutline {
        blocks: (m.elements + chunk * lanes(vector, m.dtype) - 1) / (chunk * lanes(vector, m.dtype)),
        load_regs: m.loads,
        load_bytes: vector,
        in_flight: vector * m.loads.max(1),
        steps: chunk,
        read: m.read,
        written: m.elements * m.dtype.bytes() as i64,
        instructions: 2 + m.loads,
        flops: m.elements,
        ..LaunchOutline::default()
    };
    Outline { launches: blocks.iter().map(launch).collect() }
}
