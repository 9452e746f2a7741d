//! The outline of products of few rows whose factors come straight from memory, from sizes and knobs.

use super::outline::{DECODE, Sizes};
use crate::ir::DType;
use crate::ir::layout::runs::Runs;
use crate::rules::cluster;
use crate::rules::space::limits::over;
use crate::rules::{Combine, Knobs, LaunchOutline, Outline};

/// Instructions by which a word's values are multiplied with their scale.
const SCALE: i64 = 4;
/// Instructions that shift a run of values out of two words.
const SHIFT: i64 = 20;

/// Bytes of shared memory for sums: those of the warps, and those of the block where a cluster adds them.
pub fn sums(k: &Knobs) -> i64 {
    let (m, n) = (k.get("block_m"), k.get("block_n"));
    let left = if k.get("split_k") > 1 { cluster::memory([n, m], DType::F32) } else { 0 };
    k.get("warps_k") * m * n * 4 + left
}

/// A product of few rows whose factors come straight from memory, by warps that share the reduced axis; neighbours are
/// aligned accesses, or are shifted out of the words that they lie in.
pub fn stream(z: &Sizes, (warp, runs, aligned): (i64, Runs, bool), k: &Knobs) -> Outline {
    let (m, n, step, warps) = (k.get("block_m"), k.get("block_n"), k.get("step_k"), k.get("warps_k"));
    let ([columns, rows, depth], parts) = (z.extent, k.get("split_k"));
    // scales multiply four pairs of a word, or one sum of four for each 64 values along the reduced axis
    let apart = k.find("scales").unwrap_or(0);
    // loads of 16 bytes of values, or of 8 bytes of words with what decodes each; loaded values are moved in place
    let (load, own, prepare) = match runs {
        Runs::Values => (16, n * step * 2, n * step / 2 / warp),
        Runs::Words => (
            8,
            n * step / 2,
            n * step / 8 / warp * (DECODE[0] - apart * SCALE) + apart * m * n / warp * step / runs.chunk(),
        ),
    };
    // runs that are no aligned access are two of them, and shifted out of both
    let (words, shifted) = if aligned { (1, 0) } else { (2, (m + n) * step / 8 / warp * SHIFT) };
    let mma = m / 8 * (n / 16) * (step / 16);
    Outline::one(LaunchOutline {
        blocks: z.blocks([n, m, step], parts),
        threads: warps * warp,
        min_blocks: k.get("min_blocks"),
        state_regs: m * n / warp + 40,
        load_regs: words * (m + n) * step / 2 / warp,
        smem: sums(k),
        load_bytes: load,
        in_flight: own / warp,
        steps: over(depth, parts * warps * step),
        // that blocks read the rows again, from the L2, does not show
        read: z.read,
        written: z.written(),
        // rows that there are not are not loaded
        padding: z.padding([n, 1, step]),
        instructions: mma + prepare + shifted + words * (own / load / warp * 2 + m * step / 8 / warp * 4) + 8,
        flops: z.batch * rows * columns * depth * 2,
        tensor_core: true,
        combine: Combine::across(warps * warp, m * n / (warps * warp).max(1), warp),
        cluster: parts,
        adds_parts: parts > 1,
        ..LaunchOutline::default()
    })
}
