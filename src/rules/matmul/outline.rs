//! The outlines of matrix products on GPUs, from sizes and knobs.

use super::exchange::Factors;
use super::multicast;
use super::pack::{WIDEST, helped};
use super::split_k::sums;
use super::words::in_words;
use crate::ir::instr::WgmmaShape;
use crate::ir::{DType, ExprKind, Name};
use crate::rules::find::factor::Factor;
use crate::rules::find::operands::reads_of;
use crate::rules::find::product::Product;
use crate::rules::find::shape::find_block;
use crate::rules::space::limits::{LINE, over};
use crate::rules::space::tiles::{Role, Tiles};
use crate::rules::{Knobs, LaunchOutline, Outline};

/// Bytes that shared memory takes or gives in a cycle, per multiprocessor.
pub const SHARED_RATE: i64 = 128;
/// Multiply-adds of `mma.sync` on 16-bit types in a cycle, per multiprocessor of the newest generation that
/// has no faster instruction in use.
const MMA_RATE: i64 = 2560;
/// The same of `wgmma`.
const WGMMA_RATE: i64 = 4096;
/// Registers of a multiprocessor.
pub const REGISTERS: i64 = 65_536;
/// Warp instructions that a multiprocessor issues in a cycle.
const ISSUE_RATE: i64 = 4;
/// Instructions of a step besides loads of fragments and products.
const OVERHEAD: i64 = 60;

/// The sizes of a product, all constant.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Products side by side.
    pub batch: i64,
    /// Rows, columns and steps of one product.
    pub extent: [i64; 3],
    /// Bytes of an element of the factors as they are multiplied, and of the result.
    pub bytes: [i64; 3],
    /// Bytes that both factors take in memory.
    pub read: i64,
    /// Bytes of an aligned copy of each factor, and whether packing helps it.
    copies: [(i64, bool); 2],
    /// How an element of the result comes to be.
    end: End,
}

/// What follows a product, for each element of its result.
#[derive(Clone, Copy, Debug)]
struct End {
    /// Bytes written, and bytes read besides the product where each element has its own.
    written: i64,
    read: i64,
    /// Functions of it.
    functions: i64,
}

impl End {
    fn of(p: &Product) -> End {
        let (s, func, result) = (&p.schedule, p.schedule.func(), p.result());
        let (mut read, mut functions) = (0, 0);
        for tail in &p.epilogue {
            let whole = |name: &Name| func.is_param(name) && func.buffer(name).len() == result.len();
            let own = reads_of(s, &tail.block).into_iter().filter(|a| whole(&a.buffer));
            read += own.map(|a| func.buffer(&a.buffer).dtype.bytes() as i64).sum::<i64>();
            for stmt in &find_block(func, &tail.block).body {
                stmt.visit(&mut |s| {
                    s.for_each_expr(|e| {
                        e.visit(&mut |e| functions += i64::from(matches!(e.kind(), ExprKind::Call { .. })))
                    })
                });
            }
        }
        End { written: result.dtype.bytes() as i64, read, functions }
    }
}

/// How a point shares a product out.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Rows, columns and steps of a block's tile.
    pub block: [i64; 3],
    /// Rows and columns of a thread.
    pub thread: [i64; 2],
    /// Tiles in shared memory.
    pub stages: i64,
    /// Copies of single elements run ahead without registers.
    pub by_element: bool,
    /// Second argument of the launch bounds.
    pub min_blocks: i64,
    /// Parts into which the reduced axis is cut.
    pub split: i64,
    /// Bytes of a block's sums, where the blocks of a tile are a cluster that adds them.
    pub sums: i64,
}

impl Sizes {
    /// The sizes, where all are known.
    pub fn of(p: &Product) -> Option<Sizes> {
        let [Some(batch), Some(m), Some(n), Some(k)] = p.extents() else { return None };
        let bytes = [p.a.dtype, p.b.dtype, p.dtype].map(|d| d.bytes() as i64);
        let values = |n: i64, bytes: u64| batch.checked_mul(n)?.checked_mul(k)?.checked_mul(bytes as i64);
        // of words, several values are one element
        let factor = |f: &Factor, n| if in_words(f) { f.source } else { values(n, f.element.bytes()) };
        let read = factor(&p.a, m)?.checked_add(factor(&p.b, n)?)?;
        let helped = helped(p);
        let copy = |f: &Factor| (f.adjacent(f.along_depth) * f.dtype.bytes() as i64).min(WIDEST);
        let copies = [(copy(&p.a), helped[0]), (copy(&p.b), helped[1])];
        Some(Sizes { batch, extent: [m, n, k], bytes, read, copies, end: End::of(p) })
    }

    /// Tiles along rows and columns.
    fn tiles(&self, block: [i64; 3]) -> [i64; 2] {
        [0, 1].map(|side| over(self.extent[side], block[side]))
    }

    /// Blocks of the grid.
    pub fn blocks(&self, block: [i64; 3], split: i64) -> i64 {
        self.tiles(block).iter().product::<i64>() * self.batch * split
    }

    /// Elements of the result.
    fn outputs(&self) -> i64 {
        self.batch * self.extent[0] * self.extent[1]
    }

    /// Bytes of the result that are written.
    pub fn written(&self) -> i64 {
        self.outputs() * self.end.written
    }

    /// Elements of tiles for each element of the result.
    pub fn padding(&self, block: [i64; 3]) -> f64 {
        let [rows, columns] = self.tiles(block);
        (rows * block[0] * columns * block[1]) as f64 / (self.extent[0] * self.extent[1]).max(1) as f64
    }
}

/// Passes of shared memory for a copy of 4 bytes into it, by each thread of a warp.
const FILLED: i64 = 8;

/// The launch of a product on CUDA cores, and that of the sums of its parts.
pub fn fma(z: &Sizes, s: &Shares) -> Outline {
    let ([m, n, k], [a, b, c]) = (z.extent, z.bytes);
    let threads = s.block[0] / s.thread[0] * (s.block[1] / s.thread[1]);
    let staged = s.block[2] * (s.block[0] * a + s.block[1] * b);
    let each = staged / threads.max(1);
    let [tm, tn] = s.thread;
    // copies by way of registers are stored one by one, and loaded four at a time
    let loads = if s.by_element { 0 } else { each / WIDEST };
    let main = LaunchOutline {
        blocks: z.blocks(s.block, s.split),
        threads,
        min_blocks: s.min_blocks,
        state_regs: tm * tn + tm + tn + 24,
        load_regs: each / 4,
        smem: staged * s.stages.max(1),
        load_bytes: 16,
        in_flight: each * (s.stages - 1).max(1),
        steps: over(over(k, s.split), s.block[2]),
        read: z.batch * (m * k * a + n * k * b),
        written: z.outputs() * c * s.split,
        padding: z.padding(s.block),
        instructions: s.block[2] * (tm * tn + (tm + tn) / 4) + each / 4 + loads + 20,
        // values of rows and columns pass from shared memory in each step, and into it one by one
        passes: Some(((tm + tn) * over(k, s.split) + FILLED * each / 4 * over(over(k, s.split), s.block[2])) as f64),
        flops: z.outputs() * k * 2,
        staged: true,
        ..LaunchOutline::default()
    };
    let second = || LaunchOutline { state_regs: 24, ..parts(z, s.split, c, s.split) };
    in_parts(main, (s.split, s.sums), second)
}

/// A product on tensor cores, warp by warp.
pub fn mma(z: &Sizes, warp: i64, k: &Knobs) -> Outline {
    let (m, n, row) = (k.get("block_m"), k.get("block_n"), k.get("block_k_bytes"));
    by_fragments(z, warp, k, m * n * row / 2 / MMA_RATE)
}

/// Instructions that split an element of a fragment, and add an element of a step to the sums.
const SPLIT: [i64; 2] = [6, 1];
/// Products of tf32 for one of float32, at half of the rate of 16 bits, as many at a time for each element of a fragment.
const TF32X3: i64 = 3 * 2;

/// A product of float32 on tensor cores, three of tf32 for each.
pub fn mma_tf32x3(z: &Sizes, warp: i64, k: &Knobs) -> Outline {
    let (m, n, row) = (k.get("block_m"), k.get("block_n"), k.get("block_k_bytes"));
    let ([wm, wn], warps) = ([m / k.get("warps_m"), n / k.get("warps_n")], k.get("warps_m") * k.get("warps_n"));
    let step = row / 4;
    let products = m * n * step * TF32X3 / MMA_RATE;
    // lanes split what their warp multiplies; each 8 steps are three instructions for 16 x 8 sums, and an addition for each
    let split = warps * (wm + wn) * step / warp * SPLIT[0];
    let issued = split + m * n * step / 8 / warp * SPLIT[1] + m * n * step * 3 / (16 * 8 * 8);
    by_fragments(z, warp, k, products.max(issued / ISSUE_RATE))
}

/// A product by fragments in the registers of warps, whose products take so many cycles of a step.
fn by_fragments(z: &Sizes, warp: i64, k: &Knobs, products: i64) -> Outline {
    let (m, n, row) = (k.get("block_m"), k.get("block_n"), k.get("block_k_bytes"));
    let [wm, wn] = [m / k.get("warps_m"), n / k.get("warps_n")];
    let warps = k.get("warps_m") * k.get("warps_n");
    // Each warp reads its rows and columns from shared memory, and the block fills it.
    let shared = (warps * (wm + wn) + m + n) * row / SHARED_RATE;
    let busy = shared.max(products) + shared.min(products) / 4;
    let state_regs = wm * wn / warp + (wm + wn) / 2 + 40;
    let ahead = (k.get("stages") - 1).max(1);
    let (threads, overhead, most_blocks) = (warps * warp, OVERHEAD, i64::MAX);
    let moved = (warps * (wm + wn) + m + n) * row;
    let by = Tiles { shared: moved, ahead: (k.get("stages") - 2).max(1), ..Tiles::default() };
    tiled(z, k, &Tiled { block: [m, n, row], threads, warps, state_regs, busy, overhead, ahead, most_blocks, by })
}

/// Instructions of a word that a lane decodes, and of the loads of A for it, in rows of 16.
pub const DECODE: [i64; 2] = [14, 10];

/// A product with packed words on tensor cores, decoded by the warps that multiply them.
pub fn quant(z: &Sizes, warp: i64, k: &Knobs) -> Outline {
    let (m, n, row, warps) = (k.get("block_m"), k.get("block_n"), k.get("block_k_bytes"), k.get("warps_n"));
    // words of a lane for each eight columns: four lanes, eight values of two bytes
    let words = row / 64;
    let issued = warps * words * (n / warps.max(1) / 8 * DECODE[0] + over(m, 16) * DECODE[1]);
    let shared = warps * m * row + m * row + n * row / 2;
    let products = m * n * row / 2 / MMA_RATE;
    let busy = products.max(issued / ISSUE_RATE).max(shared / SHARED_RATE);
    let columns = n / warps.max(1);
    let state_regs = m * columns / warp + columns * 5 / 4 + 36;
    let ahead = (k.get("stages") - 1).max(1);
    let by = Tiles { shared, ahead, ..Tiles::default() };
    let (threads, overhead, most_blocks) = (warps * warp, OVERHEAD, i64::MAX);
    let t = Tiled { block: [m, n, row], threads, warps, state_regs, busy, overhead, ahead, most_blocks, by };
    let mut out = tiled(z, k, &t);
    // a value takes four bits on its way, and words are copied as they are
    let (filled, words) = (m * row + n * row / 4, n * row / 4);
    if let Some(main) = out.launches.first_mut() {
        (main.smem, main.in_flight) = (k.get("stages") * filled, ahead * filled / threads);
        if let Some(t) = &mut main.tiles {
            (t.filled, t.copies) = (filled, [[m * row / WIDEST, WIDEST], [words / WIDEST, WIDEST]]);
        }
    }
    out
}

/// Registers of a thread, each of which wants so many. Where threads of their own copy for several groups, they give theirs
/// to these: the block has all that there are.
fn redealt(threads: i64, warp: i64, wanted: i64, roles: i64) -> i64 {
    let all = REGISTERS / threads;
    match roles {
        0 => wanted,
        _ if threads >= 3 * WgmmaShape::WARPS * warp => all,
        _ => wanted.min(all),
    }
}

/// The same by warpgroups, columns first.
pub fn wgmma_quant(z: &Sizes, warp: i64, k: &Knobs) -> Outline {
    let (m, n, row, groups) = (k.get("block_m"), k.get("block_n"), k.get("block_k_bytes"), k.get("groups_n"));
    let (step, warps) = (row / 2, WgmmaShape::WARPS * groups);
    // four instructions for the two values of a byte, and those that load words
    let issued = n * step / 2 / warp * 5;
    // each instruction reads all rows; words are read by four lanes each
    let moved = n / WgmmaShape::ROWS * m * row + 4 * n * step / 2 + m * row + n * step / 2;
    let products = m * n * step / WGMMA_RATE;
    let busy = products.max(issued / ISSUE_RATE).max(moved / SHARED_RATE);
    let threads = (warps + WgmmaShape::WARPS) * warp;
    let state_regs = redealt(threads, warp, (n * m + n * step / 2) / (warps * warp) + 60, 1);
    let ahead = (k.get("stages") - 1).max(1);
    let by = Tiles { shared: moved, ahead, warpgroups: true, role: Role::Copy, ..Tiles::default() };
    let (overhead, most_blocks) = (ROLES[1], i64::MAX);
    let t = Tiled { block: [n, m, row], threads, warps, state_regs, busy, overhead, ahead, most_blocks, by };
    let mut out = tiled(z, k, &t);
    let (filled, words) = (m * row + n * row / 4, n * row / 4);
    if let Some(main) = out.launches.first_mut() {
        (main.smem, main.in_flight) = (k.get("stages") * filled, ahead * filled / threads);
        if let Some(t) = &mut main.tiles {
            (t.filled, t.copies) = (filled, [[words / WIDEST, WIDEST], [m * row / WIDEST, WIDEST]]);
        }
    }
    out
}

/// A product of numbers of 4 or 8 bits with scales of blocks, warp by warp, which fills `filled` bytes in a step; `packed`
/// numbers lie in a byte.
pub fn block_scale(z: &Sizes, (warp, packed): (i64, i64), filled: i64, k: &Knobs) -> Outline {
    let (m, n, bytes) = (k.get("block_m"), k.get("block_n"), k.get("block_k_bytes"));
    let [wm, wn] = [m / k.get("warps_m"), n / k.get("warps_n")];
    let warps = k.get("warps_m") * k.get("warps_n");
    let shared = warps * (wm + wn) * bytes + filled;
    // numbers of half the size are multiplied twice as fast
    let products = m * n * bytes / 2 / MMA_RATE;
    let (taken, ahead) = (shared / SHARED_RATE, (k.get("stages") - 1).max(1));
    let busy = taken.max(products) + taken.min(products) / 4;
    let state_regs = wm * wn / warp + (wm + wn) / 2 + 40;
    let (threads, overhead, most_blocks) = (warps * warp, OVERHEAD, i64::MAX);
    let by = Tiles { shared, ahead: (k.get("stages") - 2).max(1), ..Tiles::default() };
    // bytes that a row of as many values takes
    let row = bytes * packed * z.bytes[0];
    let t = Tiled { block: [m, n, row], threads, warps, state_regs, busy, overhead, ahead, most_blocks, by };
    let mut out = tiled(z, k, &t);
    if let Some(main) = out.launches.first_mut() {
        (main.smem, main.in_flight) = (k.get("stages") * filled, ahead * filled / threads);
        main.read = z.read / packed;
        if let Some(t) = &mut main.tiles {
            (t.filled, t.row) = (filled, bytes);
            t.copies = [[m * bytes / WIDEST, WIDEST], [n * bytes / WIDEST, WIDEST]];
        }
    }
    out
}

/// Instructions of a step besides products, by who copies and who multiplies (`roles`).
pub const ROLES: [i64; 4] = [OVERHEAD, 24, 16, 8];

/// A product on tensor cores, by warpgroups, which keep their sums in so many levels.
pub fn wgmma(z: &Sizes, (warp, sms): (i64, i64), (factors, levels): (Factors, i64), k: &Knobs) -> Outline {
    let (m, n, row) = (k.get("block_m"), k.get("block_n"), k.get("block_k_bytes"));
    let ([rows, columns], [down, across]) = (factors.tile(k), factors.groups(k));
    let groups = down * across;
    // Each instruction reads its rows and columns from shared memory, and the block fills it.
    let moved = (rows / WgmmaShape::ROWS * (across * WgmmaShape::ROWS + columns) + m + n) * row;
    let shared = moved / SHARED_RATE;
    let products = m * n * row / 2 / WGMMA_RATE;
    let roles = k.get("roles").clamp(0, 3);
    let multiplying = groups * if roles == 3 { 2 } else { 1 };
    // a warpgroup that adds a step's sums to the others leaves the tensor cores to other ones, if there are any
    let added = if levels > 1 { m * n / ISSUE_RATE / warp } else { 0 };
    let busy = if multiplying > 1 { shared.max(products).max(added) } else { shared.max(products) + added };
    let warps = WgmmaShape::WARPS * (multiplying + roles.min(1));
    let (threads, overhead, ahead) = (warps * warp, ROLES[roles as usize], (k.get("stages") - 2 + roles.min(1)).max(1));
    let state_regs = redealt(threads, warp, levels * m * n / (groups * WgmmaShape::WARPS * warp) + 50, roles);
    let most_blocks = if roles > 1 { sms } else { i64::MAX };
    let role = [Role::All, Role::Copy, Role::Persistent, Role::Turns][roles as usize];
    let by = Tiles { shared: moved, ahead, warpgroups: true, role, ..Tiles::default() };
    tiled(z, k, &Tiled { block: [m, n, row], threads, warps, state_regs, busy, overhead, ahead, most_blocks, by })
}

/// A product of float32 by warpgroups, three of tf32 for each, whose threads want so many registers.
pub fn wgmma_tf32x3(z: &Sizes, (warp, state_regs): (i64, i64), factors: Factors, k: &Knobs) -> Outline {
    let (m, n, row) = (k.get("block_m"), k.get("block_n"), k.get("block_k_bytes"));
    let ([rows, columns], [down, across]) = (factors.tile(k), factors.groups(k));
    // each instruction reads its columns, warps load their rows, and the low part of columns is made of the high one
    let moved = (rows / WgmmaShape::ROWS * columns * 3 + rows * across + m + n + 2 * columns) * row;
    let products = m * n * row / 4 * TF32X3 / WGMMA_RATE;
    // three instructions for an element that is split, and one for a sum
    let issued = ((rows * across + columns) * row / 4 * 3 + m * n) / warp;
    let busy = products.max(moved / SHARED_RATE) + issued / ISSUE_RATE / 2;
    let (warps, ahead, most_blocks) = (WgmmaShape::WARPS * down * across, (k.get("stages") - 1).max(1), i64::MAX);
    let by = Tiles { shared: moved, ahead: (k.get("stages") - 2).max(1), warpgroups: true, ..Tiles::default() };
    let (threads, overhead) = (warps * warp, OVERHEAD);
    tiled(z, k, &Tiled { block: [m, n, row], threads, warps, state_regs, busy, overhead, ahead, most_blocks, by })
}

/// What products on tensor cores differ in.
pub struct Tiled {
    /// Rows and columns of a tile, and bytes of a row of its factors.
    pub block: [i64; 3],
    pub threads: i64,
    pub warps: i64,
    pub state_regs: i64,
    /// Cycles of a step in which a multiprocessor is busy.
    pub busy: i64,
    /// Instructions of a step besides products.
    pub overhead: i64,
    /// Steps that fills run ahead.
    pub ahead: i64,
    /// Blocks that compute all tiles, one after the other.
    pub most_blocks: i64,
    /// What is known of its tiles already.
    pub by: Tiles,
}

/// The outline of a product on tensor cores.
pub fn tiled(z: &Sizes, k: &Knobs, t: &Tiled) -> Outline {
    let ([_, _, depth], [element, _, c]) = (z.extent, z.bytes);
    let ([m, n, row], split) = (t.block, k.get("split_k"));
    let fills = over(over(depth * element, row), split);
    let instructions = ISSUE_RATE * t.busy / t.warps.max(1) + t.overhead;
    let shape = multicast::shape(k);
    let together = multicast::together(shape, t.block);
    let tiles = z.blocks(together, split) * shape.iter().product::<i64>();
    let blocks = tiles.min(t.most_blocks);
    let cut = cut(z, k, t, (tiles, fills));
    let (fills, steps) = (fills * over(tiles, blocks), over(fills, t.ahead) * over(tiles, blocks));
    let main = LaunchOutline {
        blocks,
        threads: t.threads,
        state_regs: t.state_regs,
        smem: k.get("stages") * row * (m + n),
        load_bytes: 16,
        in_flight: t.ahead * row * (m + n) / t.threads,
        steps,
        read: z.read,
        written: z.outputs() * if split > 1 { 4 * split } else { c },
        padding: z.padding(together),
        cluster: shape.iter().product(),
        instructions: instructions * over(fills, steps),
        flops: 2 * z.outputs() * depth,
        tensor_core: true,
        staged: true,
        tiles: Some(cut),
        ..LaunchOutline::default()
    };
    let second = || LaunchOutline { state_regs: 20, ..parts(z, split, 4, split.min(16)) };
    in_parts(main, (split, sums(k, t.block, DType::F32)), second)
}

/// The launch that leaves so many parts, and what adds them: its clusters, whose blocks have `sums` bytes each, or a second
/// one.
fn in_parts(main: LaunchOutline, (parts, sums): (i64, i64), second: impl FnOnce() -> LaunchOutline) -> Outline {
    match sums {
        0 => Outline::in_parts(main, parts, second),
        _ => Outline::one(LaunchOutline { cluster: parts, adds_parts: true, smem: main.smem + sums, ..main }),
    }
}

/// The tiles of a launch, each of so many fills.
fn cut(z: &Sizes, k: &Knobs, t: &Tiled, (tiles, fills): (i64, i64)) -> Tiles {
    let ([m, n, row], element, whole) = (t.block, z.bytes[0].max(1), k.get("split_k") == 1);
    let copy = |side: usize, lines: i64| {
        let (bytes, helped) = z.copies[side];
        let bytes = if helped && k.find("pack") == Some(1) { WIDEST } else { bytes.max(element) };
        [lines * row / bytes, bytes]
    };
    let of_result = if whole { z.end.written + z.end.read } else { z.bytes[2] };
    let line = k.get("block_n") * z.end.written;
    Tiles {
        tiles,
        fills,
        products: m * n * row / element,
        filled: (m + n) * row,
        row,
        copies: [copy(0, m), copy(1, n)],
        outputs: m * n,
        moved: m * n * of_result,
        unaligned: whole && z.end.written * z.extent[1] % WIDEST != 0,
        broken_lines: whole && line > LINE && line % LINE != 0,
        fetched: whole && z.end.read > 0,
        functions: if whole { z.end.functions } else { 0 },
        ..t.by.clone()
    }
}

/// A launch that adds parts of `bytes` each, so many loads at a time.
fn parts(z: &Sizes, parts: i64, bytes: i64, loads: i64) -> LaunchOutline {
    LaunchOutline {
        blocks: over(z.outputs(), 256),
        threads: 256,
        load_regs: loads,
        load_bytes: bytes,
        in_flight: bytes * loads,
        steps: 1,
        read: z.outputs() * bytes * parts,
        written: z.outputs() * z.bytes[2],
        instructions: 4 * parts + 20,
        flops: z.outputs() * parts,
        from_cache: true,
        ..LaunchOutline::default()
    }
}
