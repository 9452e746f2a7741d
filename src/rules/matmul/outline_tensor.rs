//! The outlines of matrix products in tensor memory, from sizes and knobs.

use super::outline::{REGISTERS, ROLES, SHARED_RATE, Sizes, Tiled, tiled};
use super::pack::WIDEST;
use super::tiling::{fetched, strided};
use crate::ir::instr::{Tcgen05Shape, WgmmaShape};
use crate::rules::space::tiles::{Role, Tiles};
use crate::rules::{Knobs, Outline};

/// Multiply-adds of `tcgen05.mma` on 16-bit types in a cycle, per multiprocessor.
const TCGEN05_RATE: i64 = 8192;

/// A product in tensor memory.
pub fn tcgen05(z: &Sizes, of: (i64, i64), k: &Knobs) -> Outline {
    in_tensor(z, of, [k.get("block_k_bytes"); 2].into(), k)
}

/// A product in tensor memory, of rows of so many bytes of values, and of as many as they take in shared memory.
fn in_tensor(z: &Sizes, (warp, sms): (i64, i64), (values, row): (i64, i64), k: &Knobs) -> Outline {
    let (m, n, groups) = (k.get("block_m"), k.get("block_n"), k.get("groups_n"));
    // Each instruction reads its rows and columns from shared memory, and the block fills it: of a pair, half of the columns.
    let own = n / k.find("cta_group").unwrap_or(1).max(1);
    let moved = (Tcgen05Shape::ROWS + own + m + own) * row;
    let busy = (moved / SHARED_RATE).max(m * n * row / 2 / TCGEN05_RATE);
    let fetched = fetched(k);
    let several = strided(k) || fetched;
    let warps = WgmmaShape::WARPS * (groups + 1);
    let (threads, overhead) = (warps * warp, ROLES[if several { 2 } else { 1 }]);
    let state_regs = (n / groups + 50).min(REGISTERS / threads);
    let ahead = (k.get("stages") - 1).max(1);
    // as many blocks as are given tiles run at a time
    let most_blocks = if several { sms } else { i64::MAX };
    // products of a tile go on while results of the one before leave, as where warpgroups take turns
    let role = if several { Role::Turns } else { Role::Copy };
    let by = Tiles { shared: moved, ahead, warpgroups: true, role, asked: fetched, ..Tiles::default() };
    let t = Tiled { block: [m, n, values], threads, warps, state_regs, busy, overhead, ahead, most_blocks, by };
    let (mut out, filled) = (tiled(z, k, &t), (m + own) * row);
    if let Some(main) = out.launches.first_mut() {
        (main.smem, main.in_flight) = (k.get("stages") * filled, ahead * filled / threads);
        if let Some(t) = &mut main.tiles {
            t.filled = filled;
            main.blocks = if fetched { t.tiles } else { main.blocks };
        }
    }
    out
}

/// The same of numbers with scales of blocks, of which `packed` lie in a byte: a step fills so many bytes with both.
pub fn tcgen05_block_scale(z: &Sizes, of: (i64, i64), (packed, filled): (i64, i64), k: &Knobs) -> Outline {
    let (m, n, bytes, stages) = (k.get("block_m"), k.get("block_n"), k.get("block_k_bytes"), k.get("stages"));
    // bytes that a row of as many values takes
    let values = bytes * packed * z.bytes[0];
    let mut out = in_tensor(z, of, (values, bytes), k);
    if let Some(main) = out.launches.first_mut() {
        (main.smem, main.in_flight) = (stages * filled, (stages - 1).max(1) * filled / main.threads);
        main.read = z.read / packed;
        if let Some(t) = &mut main.tiles {
            (t.filled, t.row) = (filled, bytes);
            t.copies = [[m * bytes / WIDEST, WIDEST], [n / k.get("cta_group").max(1) * bytes / WIDEST, WIDEST]];
        }
    }
    out
}
