//! Factors that no copy takes 16 bytes at a time are packed: a launch of their own brings them into rows of
//! whole tiles before the product, converted, with zeros beyond the edges.
//!
//! Rows of odd length are then filled in like any others, for one more pass over the factor. Weights in few bits
//! are decoded once instead of once for each tile.

use super::words::in_words;
use crate::rules::find::einsum::{Major, Stage};
use crate::rules::find::factor::Factor;
use crate::rules::find::product::Product;
use crate::rules::parts::*;
use crate::rules::{LaunchOutline, Outline, merge};

/// Bytes of the widest copy.
pub const WIDEST: i64 = 16;
/// Bytes that each lane of a warp writes at a time, of values that are read one by one.
const WORD: i64 = 4;
/// Threads of a block that packs.
const PACKERS: i64 = 256;
/// Products that an element takes part in from which on it is worth being written and read once more.
const LEAST_USES: i64 = 64;
/// Bytes written for each that is read: weights of three bits are packed, the windows of a convolution are not.
const MOST_GROWTH: i64 = 6;

/// Multiply-adds from which on launches that pack cost less than slow fills, whatever the tile: some 10 us.
const LARGE: f64 = 2e9;

/// Which of both factors packing helps.
pub fn helped(p: &Product) -> [bool; 2] {
    let [batch, rows, columns, depth] = p.extents();
    let helps = |f: &Factor, own: Option<i64>, uses: Option<i64>| {
        let bytes = f.dtype.bytes() as i64;
        let packed = [batch, own, depth, Some(bytes)].into_iter().try_fold(1i64, |all, n| all.checked_mul(n?));
        let grows = packed.zip(f.source).is_none_or(|(packed, source)| packed > MOST_GROWTH * source);
        f.adjacent(major(f) == Major::Free) * bytes < WIDEST && !grows && uses.is_some_and(|n| n >= LEAST_USES)
    };
    [helps(&p.a, rows, columns), helps(&p.b, columns, rows)]
}

/// The factors that a point packs.
pub fn packed(p: &Product, k: &Knobs) -> [bool; 2] {
    helped(p).map(|helps| helps && k.find("pack") == Some(1))
}

/// Only what packing helps is packed, and large products of it always.
pub fn conditions(space: Space, p: &Product) -> Space {
    let any = helped(p).contains(&true);
    let [batch, rows, columns, depth] = p.extents().map(|n| n.unwrap_or(0) as f64);
    let large = any && batch * rows * columns * depth >= LARGE;
    let space = space.require("helped_by_packing", move |k| match k.get("pack") {
        1 if !any => Err("copies take both factors as they lie, or packed ones would not be used often enough".into()),
        _ => Ok(()),
    });
    space.prefer("large_is_packed", move |k| match k.get("pack") {
        0 if large => Err("every tile of a large product would be filled element by element".into()),
        _ => Ok(()),
    })
}

/// Has a launch of its own compute a staged factor, or that which packs the factor before it (`joins`); what the product
/// block stages instead, and what is known of it as a factor.
///
/// # Errors
/// A step whose precondition fails, which is a bug.
pub fn pack(
    s: &mut Schedule,
    product: &Name,
    (stage, f): (&Stage, &Factor),
    joins: bool,
) -> Result<(Stage, Factor), ScheduleError> {
    let lanes = WIDEST / f.dtype.bytes() as i64;
    // Values of one word are a thread's own. Else lanes read neighbours, wherever rows begin, and have a word each.
    let width = if in_words(f) { lanes } else { (WORD / f.dtype.bytes() as i64).max(1) };
    // elements meet in registers, so that they are written together
    let write = s.cache_write(&stage.block, &stage.buffer, Scope::Local)?;
    let all = fuse_loops(s, &s.loops(&write))?;
    let [block, own, thread, lane] = split(s, &all, [None, Some(lanes / width), Some(PACKERS), Some(width)])?;
    order(s, [&block, &thread, &own, &lane])?;
    s.bind(&block, ThreadTag::BlockX)?;
    s.bind(&thread, ThreadTag::ThreadX)?;
    unroll_loop(s, &own)?;
    s.compute_at(&stage.block, &own)?;
    for l in loops_below(s, &stage.block, &own) {
        unroll_loop(s, &l)?;
    }
    vectorize_loop(s, &lane)?;
    if joins {
        s.mark(&block, Mark::Merge(true))?;
    }
    let copy = s.cache_read(product, &stage.buffer, Scope::Shared)?;
    let known = Factor { plain: true, element: f.dtype, along_depth: major(f) == Major::Free, run: lanes, ..f.clone() };
    Ok((Stage { buffer: output(s, &copy), block: copy }, known))
}

/// The order in which a factor lies in shared memory: that of global memory, but for int8, whose
/// fragments lie along the reduced axis.
pub fn major(f: &Factor) -> Major {
    if f.along_depth || f.dtype.bytes() == 1 { Major::Free } else { Major::Depth }
}

/// The launches of a product, after the one that packs its factors for tiles of rows, columns and steps.
pub fn before(p: &Product, k: &Knobs, [m, n, step]: [i64; 3], mut product: Outline) -> Outline {
    let [batch, rows, columns, depth] = p.extents();
    let step = step * k.get("split_k");
    let sides = [(&p.a, rows, m), (&p.b, columns, n)].into_iter().zip(packed(p, k)).filter(|(_, packed)| *packed);
    let launches = sides.filter_map(|((f, free, tile), _)| {
        let elements = batch? * over(free?, tile) * tile * over(depth?, step) * step;
        Some(launch(elements, f.dtype.bytes() as i64, f.source?))
    });
    let packs = merge::outline(launches.enumerate().map(|(i, l)| (i > 0, l)).collect());
    product.launches.splice(0..0, packs.launches);
    product
}

/// Reads `read` bytes and writes `elements` of `bytes`.
fn launch(elements: i64, bytes: i64, read: i64) -> LaunchOutline {
    let lanes = WIDEST / bytes;
    LaunchOutline {
        blocks: over(elements, PACKERS * lanes),
        threads: PACKERS,
        state_regs: 24,
        load_regs: lanes,
        load_bytes: bytes,
        in_flight: WIDEST,
        steps: 1,
        read,
        written: elements * bytes,
        instructions: 6 * lanes + 20,
        ..LaunchOutline::default()
    }
}
