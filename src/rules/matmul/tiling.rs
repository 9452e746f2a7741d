//! A grid of tiles of a product, a block for each: what the rules for GPUs have in common.

use super::multicast;
use crate::rules::find::einsum::Einsum;
use crate::rules::find::operands::reads_of;
use crate::rules::find::product::Product;
use crate::rules::parts::*;

/// The loops of a product that is cut into tiles.
pub struct Grid {
    /// Over blocks, or clusters of them.
    pub grid: Name,
    /// The innermost loop around what a block does.
    pub block: Name,
    /// Over fills of shared memory.
    pub fill: Name,
    /// Over the steps along the reduced axis within one fill.
    pub step: Name,
    /// Over the rows and columns of a tile.
    pub tile: [Name; 2],
}

/// True where so many blocks stride over all tiles.
pub fn strided(k: &Knobs) -> bool {
    k.get("roles") == 2
}

/// True where a block takes over the tiles of blocks that have not started.
pub fn fetched(k: &Knobs) -> bool {
    k.get("roles") == 4
}

/// Rows of tiles in a group of blocks: all that there are.
const ALL_ROWS: i64 = 0;
/// Most of them that blocks go through before the next column, where that is likely to be fast.
const MOST_ROWS: i64 = 64;

/// Cuts a product into tiles of rows, columns and steps. Blocks go through the grid in groups of `group` rows of
/// tiles, inside of the loops `outer`. Where there is a loop `cluster`, its steps are the blocks of a cluster; elsewhere
/// those of `together` tiles along rows or columns are.
pub fn grid(
    s: &mut Schedule,
    e: &Einsum,
    [m, n, k]: [i64; 3],
    (group, together): (i64, [i64; 2]),
    (outer, cluster): (Vec<Name>, Option<&Name>),
) -> Result<Grid, ScheduleError> {
    let [_, rows, columns, depth] = &e.loops;
    let (ib, of_rows, ii) = tiles_of(s, rows, m, together[0])?;
    let (jb, of_columns, jj) = tiles_of(s, columns, n, together[1])?;
    let [fill, step] = split(s, depth, [None, Some(k)])?;
    let cluster = cluster.cloned().or(of_rows).or(of_columns);
    let mut blocks = outer;
    match group {
        ALL_ROWS => blocks.extend([jb, ib]),
        1 => blocks.extend([ib, jb]),
        n => {
            let [groups, each] = split(s, &ib, [None, Some(n)])?;
            blocks.extend([groups, jb, each]);
        }
    }
    let inner = [&fill, &ii, &jj, &step].map(|l| l.clone());
    let of_cluster: Vec<Name> = cluster.iter().cloned().collect();
    s.reorder(&[&blocks[..], &of_cluster, &inner].concat())?;
    let grid = s.fuse(&blocks)?;
    s.bind(&grid, ThreadTag::BlockX)?;
    cluster.iter().try_for_each(|l| s.bind(l, ThreadTag::ClusterX))?;
    let block = cluster.unwrap_or_else(|| grid.clone());
    Ok(Grid { grid, block, fill, step, tile: [ii, jj] })
}

/// The loop over tiles, or clusters of so many, that over the tiles of a cluster, and that over a tile.
fn tiles_of(
    s: &mut Schedule,
    along: &Name,
    tile: i64,
    of_cluster: i64,
) -> Result<(Name, Option<Name>, Name), ScheduleError> {
    if of_cluster > 1 {
        let [outer, each, inner] = split(s, along, [None, Some(of_cluster), Some(tile)])?;
        return Ok((outer, Some(each), inner));
    }
    let [outer, inner] = split(s, along, [None, Some(tile)])?;
    Ok((outer, None, inner))
}

/// Groups of rows of tiles are whole, and there is one way to say of how many they are.
pub fn whole_groups(space: Space, rows: Option<i64>) -> Space {
    whole_groups_of(space, move |k| rows.map(|n| over(n, k.get("block_m") * multicast::shape(k)[0])))
}

/// The same of rows of so many tiles.
pub fn whole_groups_of(space: Space, tiles: impl At<Option<i64>> + Copy) -> Space {
    let space = space.require("whole_raster", move |k| match (k.get("raster"), tiles(k)) {
        (1, _) | (ALL_ROWS, None) => Ok(()),
        (ALL_ROWS, Some(n)) if n <= 16 && n.count_ones() == 1 => {
            Err(format!("all row tiles are {n}, a number of its own"))
        }
        (ALL_ROWS, _) => Ok(()),
        (n, Some(tiles)) if n > 0 && tiles % n == 0 => Ok(()),
        (n, _) => Err(format!("{n} does not divide the number of row tiles")),
    });
    space.prefer("few_row_tiles", move |k| match (k.get("raster"), tiles(k)) {
        (ALL_ROWS, Some(n)) if n > MOST_ROWS => {
            Err(format!("{n} row tiles are more than the cache holds beside columns"))
        }
        _ => Ok(()),
    })
}

/// The tiles of all stages, of `bytes`, fit into shared memory, with `more` bytes beside them.
pub fn tiles_in_shared(space: Space, target: &Target, bytes: impl At<i64>, more: impl At<i64>) -> Space {
    let smem = target.smem_per_block as i64;
    space.require("tiles_in_shared", move |k| {
        at_most(k.get("stages").max(1) * bytes(k) + more(k), smem, "bytes of tiles", "shared memory")
    })
}

/// Elements of shared memory that a warp passes eight rows of a result through (`lower/calls/warp_rows`).
const PASSED: i64 = 8 * 72;

/// Bytes of an element that warps pass through shared memory, and of one of the result, or of sums where these are parts.
fn passed_bytes(p: &Product) -> impl At<[i64; 2]> {
    let (s, func) = (&p.schedule, p.schedule.func());
    let (result, sum) = (p.result_dtype(), p.dtype);
    let reads = p.epilogue.iter().any(|t| reads_of(s, &t.block).iter().any(|a| func.is_param(&a.buffer)));
    move |k| {
        let stored = if k.get("split_k") > 1 { sum } else { result };
        [if reads { sum } else { stored }, stored].map(|t| t.bytes() as i64)
    }
}

/// Bytes of shared memory that the warps of a block pass rows of the result through, which they do where the rows
/// are not aligned: results, or sums where more is read to make results of them.
pub fn passed_rows(p: &Product, warps: impl At<i64>) -> impl At<i64> {
    let (passed, [_, _, columns, _]) = (passed_bytes(p), p.extents());
    move |k| {
        let [each, stored] = passed(k);
        // a pair of each lane of a quad fills a sector, or eight neighbours a store
        let whole = if stored >= 4 { 8 / stored } else { 16 / stored };
        match columns {
            Some(n) if n % whole.max(1) == 0 && stored > 1 => 0,
            _ => warps(k) * PASSED * each,
        }
    }
}

/// Columns of accumulators that a warp passes through shared memory at a time where they are lines of the result, the
/// elements of one, and the bytes between two (`lower/calls/warp_rows`).
const LINES: i64 = 32;
const OF_LINE: i64 = 16;
const APART: i64 = 16;

/// The same of columns, where they are not as wide as eight of them fill sectors.
pub fn passed_columns(p: &Product, warps: impl At<i64>) -> impl At<i64> {
    let passed = passed_bytes(p);
    move |k| match passed(k) {
        [_, stored] if stored >= 4 => 0,
        [each, _] => warps(k) * LINES * (OF_LINE * each + APART),
    }
}

/// The registers that a thread wants, of `threads` that share a multiprocessor, are there.
pub fn tile_in_registers(space: Space, target: &Target, threads: impl At<i64>, wanted: impl At<i64>) -> Space {
    let regs = target.regs_per_sm as i64;
    space.require("tile_in_registers", move |k| {
        at_most(wanted(k), registers_left(regs, threads(k), 1), "registers", "a thread")
    })
}

/// Each part of the reduced axis has a tile at least, of `step` steps.
pub fn parts_of_depth(space: Space, depth: Option<i64>, step: impl At<i64>) -> Space {
    space.require("parts_of_depth", move |k| match (k.get("split_k"), depth) {
        (1, _) => Ok(()),
        (n, Some(depth)) if n > 1 && over(depth, step(k)) >= n => Ok(()),
        (n, _) => Err(format!("{n} parts of the reduced axis have less than a tile each")),
    })
}

/// Half of a tile's rows and columns lie in the result, or it has no more than the `least` that are of use.
pub fn tile_within_result(space: Space, p: &Product, least: [i64; 2]) -> Space {
    let [_, rows, columns, _] = p.extents();
    space.prefer("tile_within_result", move |k| {
        let fits = |n: Option<i64>, tile: i64, least: i64| n.is_none_or(|n| tile < 2 * n.max(least / 2 + 1));
        match fits(rows, k.get("block_m"), least[0]) && fits(columns, k.get("block_n"), least[1]) {
            true => Ok(()),
            false => Err("more than half of a tile lies outside of the result".into()),
        }
    })
}

/// Tiles of the result, where its extents are known.
pub fn tiles(p: &Product) -> impl At<Option<i64>> + Copy + use<> {
    let [batch, rows, columns, _] = p.extents();
    move |k: &Knobs| Some(batch? * over(rows?, k.get("block_m")) * over(columns?, k.get("block_n")))
}

/// The reduced axis is cut into parts only where so many tiles alone would not fill the device `rounds` times.
pub fn parts_fill_device(space: Space, tiles: impl At<Option<i64>>, target: &Target, rounds: i64) -> Space {
    let sms = i64::from(target.sms);
    space.prefer("parts_fill_device", move |k| match tiles(k) {
        Some(n) if k.get("split_k") > 1 && n * k.get("split_k") > rounds * sms => {
            Err(format!("{n} tiles need no parts to fill {sms} multiprocessors"))
        }
        _ => Ok(()),
    })
}
