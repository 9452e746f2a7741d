//! The outlines of matrix products.

use crate::rules::find::product::Product;
use crate::rules::{Knobs, LaunchOutline, Outline};
use crate::target::Target;

/// Bytes that shared memory takes or gives in a cycle, per multiprocessor.
const SHARED_RATE: i64 = 128;
/// Multiply-adds of `mma.sync` on 16-bit types in a cycle, per multiprocessor of the newest generation that
/// has no faster instruction in use.
const MMA_RATE: i64 = 2560;
/// Warp instructions that a multiprocessor issues in a cycle.
const ISSUE_RATE: i64 = 4;
/// Instructions of a step besides loads of fragments and products.
const OVERHEAD: i64 = 60;

/// The sizes of a product, all constant.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    batch: i64,
    rows: i64,
    columns: i64,
    depth: i64,
    /// Bytes of an element of the factors as they are multiplied.
    element: i64,
    /// Bytes that are read and written at least.
    read: i64,
    written: i64,
    warp: i64,
}

impl Work {
    /// The sizes, where all are known.
    pub fn of(p: &Product, target: &Target) -> Option<Work> {
        let [batch, rows, columns, depth] = p.extents();
        let (batch, rows, columns, depth) = (batch?, rows?, columns?, depth?);
        let outputs = batch.checked_mul(rows)?.checked_mul(columns)?;
        let factor = |n: i64, bytes: u64| batch.checked_mul(n)?.checked_mul(depth)?.checked_mul(bytes as i64);
        Some(Work {
            batch,
            rows,
            columns,
            depth,
            element: p.a.narrow.dtype().bytes() as i64,
            read: factor(rows, p.a.element.bytes())?.checked_add(factor(columns, p.b.element.bytes())?)?,
            written: outputs.checked_mul(p.dtype.bytes() as i64)?,
            warp: i64::from(target.warp),
        })
    }
}

/// A product on tensor cores.
pub fn mma(w: &Work, k: &Knobs) -> Outline {
    let (m, n, row, stages, parts) =
        (k.get("block_m"), k.get("block_n"), k.get("block_k"), k.get("stages"), k.get("split_k"));
    let (warps, up) = (k.get("warps_m") * k.get("warps_n"), |a: i64, b: i64| (a + b - 1) / b.max(1));
    let [wm, wn] = [m / k.get("warps_m"), n / k.get("warps_n")];
    let (tiles_m, tiles_n) = (up(w.rows, m), up(w.columns, n));
    let blocks = w.batch * tiles_m * tiles_n * parts;
    let fills = up(up(w.depth * w.element, row), parts);
    // Each warp reads its rows and columns from shared memory, and the block fills it.
    let shared = (warps * (wm + wn) + m + n) * row / SHARED_RATE;
    let products = m * n * row / 2 / MMA_RATE;
    let busy = shared.max(products) + shared.min(products) / 4;
    let instructions = ISSUE_RATE * busy / warps + OVERHEAD;
    let ahead = (stages - 1).max(1);
    let steps = up(fills, ahead);
    let threads = warps * w.warp;
    let partial = w.batch * w.rows * w.columns * 4 * parts;
    let launch = LaunchOutline {
        blocks,
        threads,
        state_regs: wm * wn / w.warp + (wm + wn) / 2 + 40,
        smem: stages * row * (m + n),
        load_bytes: 16,
        in_flight: ahead * row * (m + n) / threads,
        steps,
        read: w.read,
        written: if parts > 1 { partial } else { w.written },
        padding: (tiles_m * m * tiles_n * n) as f64 / (w.rows * w.columns).max(1) as f64,
        instructions: instructions * up(fills, steps),
        flops: 2 * w.batch * w.rows * w.columns * w.depth,
        tensor_core: true,
        staged: true,
        ..LaunchOutline::default()
    };
    let mut launches = vec![launch];
    if parts > 1 {
        launches.push(LaunchOutline {
            blocks: up(w.batch * w.rows * w.columns, 256),
            threads: 256,
            state_regs: 20,
            load_regs: parts.min(16),
            smem: 0,
            load_bytes: 4,
            in_flight: 4 * parts.min(16),
            steps: 1,
            read: partial,
            written: w.written,
            padding: 1.0,
            instructions: 4 * parts + 20,
            flops: partial / 4,
            tensor_core: false,
            staged: false,
            from_cache: true,
            ..launches[0].clone()
        });
    }
    Outline { launches }
}
