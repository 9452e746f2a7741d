//! The outlines of kernels that only move data.
//!
//! Stands in a circle with `transpose`, whose tiles it counts.

use super::transpose::{Plan, Sizes};
use crate::rules::space::outline::{in_shared, passes};
use crate::rules::space::outlines::{Moves, sectors};
use crate::rules::{Knobs, LaunchOutline, Outline};

/// A transpose through shared memory.
pub fn transpose(m: &Moves, sizes: &Sizes, k: &Knobs) -> Outline {
    let (threads, across, down) = (k.get("threads"), k.get("across"), k.get("down"));
    let plan = Plan::of(sizes, k);
    let up = |n: Option<i64>, side: i64| {
        n.map_or((1, 1.0), |n| {
            let tiles = (n + side - 1) / side;
            (tiles, (tiles * side) as f64 / n.max(1) as f64)
        })
    };
    let ((a, a_padding), (d, d_padding)) = (up(sizes.across, across), up(sizes.down, down));
    let plane = sizes.across.unwrap_or(1).max(1) * sizes.down.unwrap_or(1).max(1);
    let in_flight = across * down * sizes.element / threads;
    let turns = across * down / (plan.rows * plan.store * threads).max(1);
    // A load, its way into and out of shared memory, and a store.
    let one = plan.rows * plan.store + 2 * plan.rows + 2 * plan.store;
    let conflicts = if k.get("layout") == 2 { plan.rows * plan.store } else { 0 };
    Outline::one(LaunchOutline {
        blocks: (m.elements / plane).max(1) * a * d,
        threads,
        min_blocks: k.get("min_blocks"),
        state_regs: 22,
        load_regs: in_flight / 4 + in_flight / 16,
        smem: tile_bytes(sizes, k),
        load_bytes: plan.load * sizes.widest.bytes() as i64,
        in_flight,
        steps: 1,
        read: m.read,
        written: m.elements * m.dtype.bytes() as i64,
        padding: a_padding * d_padding,
        passes: Some(all_passes(sizes, &plan, k)),
        sectors: all_sectors(sizes, &plan, k),
        instructions: turns * (one + conflicts),
        flops: m.elements,
        staged: true,
        ..LaunchOutline::default()
    })
}

/// Passes of a warp for what its threads have of a tile: loads, their way into and out of shared memory, stores.
fn all_passes(sizes: &Sizes, plan: &Plan, k: &Knobs) -> f64 {
    let (size, out) = (sizes.widest.bytes() as i64, sizes.output.bytes() as i64);
    // Of each tensor that is moved.
    let tensors = (sizes.element / size.max(1)).max(1) as f64;
    let elements = (k.get("across") * k.get("down")) as f64 / k.get("threads").max(1) as f64;
    let (load, store, rows) = (plan.load.max(1), plan.store.max(1), plan.rows.max(1));
    let loads = elements / load as f64 * passes(load * size);
    let stores = elements / store as f64 * passes(store * out);
    let whole = elements * in_shared(size);
    let shared = if k.get("layout") == 2 {
        // Element by element; lanes are as many rows apart as they store, and meet at the banks unless they take turns.
        elements * (1.0 + ((store * size) as f64 / 4.0 / rows as f64).max(1.0))
    } else {
        // Units move together that are longer than what is gathered of them.
        whole + (elements / rows as f64).max(whole) * (load.max(rows) / rows) as f64
    };
    tensors * (loads + shared) + stores
}

/// Sectors of the pieces of rows that a tile reads, and of those that a warp writes together, on average.
fn all_sectors(sizes: &Sizes, plan: &Plan, k: &Knobs) -> f64 {
    let (size, out) = (sizes.widest.bytes() as i64, sizes.output.bytes() as i64);
    let (across, down) = (sizes.across.unwrap_or(i64::MAX), sizes.down.unwrap_or(i64::MAX));
    let piece = k.get("across").min(across) * size;
    let written = k.get("down").min(down).min(plan.side * plan.store).max(1) * out;
    let row = |n: i64, bytes: i64| n.saturating_mul(bytes);
    (sectors(piece.max(1), row(across, size)) + sectors(written, row(down, out))) / 2.0
}

/// Bytes of the tiles of all tensors that are moved. Padded rows start a word apart from a multiple of the banks;
/// nothing follows the last one.
fn tile_bytes(sizes: &Sizes, k: &Knobs) -> i64 {
    let (across, down, size) = (k.get("across"), k.get("down"), sizes.widest.bytes() as i64);
    if k.get("layout") != 2 {
        return across * down * sizes.element;
    }
    let word = (4 / size).max(1);
    let row = across + (word - across).rem_euclid(32 * word);
    let one = ((down - 1) * row + across) * size;
    (one + 15) / 16 * 16 * (sizes.element / size)
}

/// A transpose on the CPU: one task per tile.
pub fn cpu_transpose(m: &Moves, k: &Knobs) -> Outline {
    let (across, down, vector) = (k.get("across"), k.get("down"), k.get("vector"));
    Outline::one(LaunchOutline {
        blocks: (m.elements + across * down - 1) / (across * down),
        load_regs: 1,
        load_bytes: vector,
        in_flight: vector,
        steps: down,
        read: m.read,
        written: m.elements * m.dtype.bytes() as i64,
        instructions: 2 * across,
        flops: m.elements,
        ..LaunchOutline::default()
    })
}
