//! The outlines of products of a matrix and few vectors.

use crate::ir::DType;
use crate::rules::find::matvec::MatVec;
use crate::rules::space::limits::{lanes, over};
use crate::rules::space::outline::{in_shared, passes};
use crate::rules::space::outlines::{adders, load_regs, meeting};
use crate::rules::{Combine, Knobs, LaunchOutline, Outline};

/// The sizes of a product, all constant.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    rows: i64,
    length: i64,
    vectors: i64,
    element: DType,
    pack: i64,
    /// Bytes of the matrix with its scales, and of the vectors.
    bytes: i64,
    /// Scales of a packed value.
    scales: usize,
    /// Bytes of one vector.
    vector: i64,
    /// Bytes of one output.
    output: i64,
}

impl Sizes {
    /// The sizes, where all are known.
    pub fn of(p: &MatVec) -> Option<Sizes> {
        let (rows, length, vectors) = (p.all_rows()?, p.length()?, p.vectors_count()?);
        let values = rows.checked_mul(length)?;
        let size = |b: &crate::ir::Name| p.one.schedule.func().buffer(b).dtype.bytes() as i64;
        let of_scales: i64 = p.scales.iter().map(|(a, group)| values / group * size(&a.buffer)).sum();
        Some(Sizes {
            rows,
            length,
            vectors,
            element: p.element,
            pack: p.pack,
            bytes: p.matrix_bytes()? + of_scales + p.vector_bytes()?,
            scales: p.scales.len(),
            vector: p.vector_bytes()? / vectors.max(1),
            output: p.one.reducer.dtype.bytes() as i64,
        })
    }
}

/// Instructions of one packed value besides its multiplications: its bits are picked, made a number and moved
/// to zero.
const UNPACK: i64 = 2;

/// Instructions of eight packed values in pairs of float16: four to pick bits and one to shift them, four to
/// make numbers of them, four to pair elements of the vector as they are, four to multiply and add.
const PAIRS: i64 = 17;

/// Those of one more vector: four to multiply and add.
const ADDED: i64 = 4;

/// Instructions that bring a piece of a vector into shared memory: its place, its load, its store.
const BRING: i64 = 6;

/// Bytes of a register.
const REGISTER: i64 = 4;

/// Bytes of the widest access.
const WIDEST: i64 = 16;

/// Passes of loads of `bytes` of each lane: where these are several accesses, lanes of one access lie as many times
/// farther apart, in more lines and in the same banks.
fn side_by_side(bytes: i64, staged: bool) -> f64 {
    let accesses = over(bytes, WIDEST);
    let width = bytes.min(WIDEST);
    let each = if staged { in_shared(width).max(1.0) } else { passes(width) };
    (accesses * accesses) as f64 * each
}

/// `rows` rows per thread share each load of `batch` vectors.
pub fn inner(w: &Sizes, batch: i64, k: &Knobs) -> Outline {
    let (threads, groups, rows, unroll) = (k.get("threads"), k.get("groups"), k.get("rows"), k.get("unroll"));
    let width = lanes(k.get("vector"), w.element) * w.pack;
    let step = threads * unroll * width;
    let steps = (w.length + step - 1) / step;
    let staged = k.get("stage") == 1;
    let in_flight = unroll * rows * k.get("vector");
    let convert = if w.pack > 1 { UNPACK } else { 1 };
    let work = match k.find("products") {
        Some(1) => batch * width / 2 + rows * (width * (PAIRS + (batch - 1) * ADDED) / 8 + 8 * batch),
        _ => width * (batch + rows * (convert + batch)) + 4 * rows,
    };
    let combine = Combine::across(threads, rows * batch, 32);
    // What a vector has at the place of a load.
    let own = width * w.vector / w.length.max(1);
    let of_vectors = batch as f64 * side_by_side(own, staged);
    let counted = batch > 1 || w.pack > 1;
    // Every block brings those that it stages into shared memory first.
    let brought = if staged && counted { w.vector * batch / (threads * groups * k.get("vector")).max(1) } else { 0 };
    let bringing = brought as f64 * (passes(k.get("vector")) + in_shared(k.get("vector")).max(1.0));
    let of_row = passes(k.get("vector")) + w.scales as f64 * passes(2);
    let all = bringing + (steps * unroll) as f64 * (rows as f64 * of_row + of_vectors);
    Outline::one(LaunchOutline {
        blocks: (w.rows + groups * rows - 1) / (groups * rows) * ((w.vectors + batch - 1) / batch),
        threads: threads * groups,
        min_blocks: k.get("min_blocks"),
        state_regs: 20 + rows * batch,
        load_regs: load_regs(in_flight, k.get("vector"))
            + if staged { 0 } else { unroll * batch * over(own, REGISTER) },
        smem: meeting(combine.parts, combine.values * groups, 4) + if staged { w.vector * batch } else { 0 },
        load_bytes: k.get("vector"),
        in_flight,
        steps,
        read: w.bytes,
        written: w.rows * w.vectors * w.output,
        padding: (steps * step) as f64 / w.length.max(1) as f64,
        passes: counted.then_some(all),
        instructions: unroll * (work + if batch > 1 { batch } else { 0 }) + BRING * brought / steps.max(1),
        flops: 2 * w.rows.saturating_mul(w.length).saturating_mul(w.vectors),
        combine,
        staged,
        shares: staged,
        ..LaunchOutline::default()
    })
}

/// On the CPU: tasks of `rows` rows of one vector, in steps of `step` values of the reduction with `vectors`
/// vector multiplications of `vector` bytes.
pub fn cpu(w: &Sizes, rows: i64, vectors: i64, step: i64, vector: i64) -> Outline {
    Outline::one(LaunchOutline {
        blocks: (w.rows / rows.max(1)).max(1) * w.vectors,
        load_regs: vectors,
        load_bytes: vector,
        in_flight: vectors * vector,
        steps: (w.length + step - 1) / step.max(1),
        read: w.bytes,
        written: w.rows * w.vectors * w.output,
        instructions: vectors * (3 + UNPACK),
        flops: 2 * w.rows.saturating_mul(w.length).saturating_mul(w.vectors),
        combine: Combine { lanes: (vector / 4).max(1), parts: 1, values: 1 },
        ..LaunchOutline::default()
    })
}

/// Columns reduced across memory, a vector of packed words per thread.
pub fn outer(w: &Sizes, k: &Knobs) -> Outline {
    let (threads, rows, unroll, split) = (k.get("threads"), k.get("rows"), k.get("unroll"), k.get("split"));
    let width = lanes(k.get("vector"), w.element);
    let part = (w.length + split - 1) / split;
    let step = rows * unroll * w.pack;
    let steps = (part + step - 1) / step;
    let across = (w.rows + threads * width - 1) / (threads * width);
    let first = LaunchOutline {
        blocks: across * split * w.vectors,
        threads: threads * rows,
        min_blocks: k.get("min_blocks"),
        state_regs: 26,
        load_regs: unroll * (k.get("vector") / 4 + width + w.pack / 2),
        smem: meeting(rows, threads * width, 4),
        load_bytes: k.get("vector"),
        in_flight: unroll * k.get("vector"),
        steps,
        read: w.bytes,
        written: w.rows * w.vectors * split * w.output,
        padding: (steps * step) as f64 / part.max(1) as f64,
        instructions: unroll * width * (w.pack * (1 + UNPACK) + 3),
        flops: 2 * w.rows.saturating_mul(w.length).saturating_mul(w.vectors),
        combine: Combine { lanes: 1, parts: rows, values: 1 },
        unjudged: w.pack > 1,
        ..LaunchOutline::default()
    };
    let [side, deep] = adders(threads, split);
    let second = LaunchOutline {
        blocks: (w.rows + side - 1) / side * w.vectors,
        threads: side * deep,
        steps: 1,
        load_bytes: 4,
        in_flight: 4,
        load_regs: 1,
        smem: meeting(deep, side, 4),
        read: first.written,
        written: w.rows * w.vectors * w.output,
        padding: 1.0,
        instructions: 4,
        combine: Combine { lanes: 1, parts: deep, values: 1 },
        from_cache: true,
        last_block: true,
        ..first.clone()
    };
    Outline::in_parts(first, split, || second)
}
