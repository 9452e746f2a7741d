//! Values of packed words in registers, as the lanes that load the words hold them.

use super::{Axis, Iter, TileLayout};

/// Values of four bits that a word packs along its row.
pub const WORD: i64 = 8;
/// Words that a lane takes of a row at a time: as many as one load of 8 bytes.
pub const RUN: i64 = 2;
/// Lanes that share a row.
pub const QUAD: i64 = 4;
/// Rows of a fragment.
pub const ROWS: i64 = 8;
/// Rows of the first operand of a warpgroup, of each of its warps, and warps of a group.
const GROUP: [i64; 3] = [64, 16, 4];
/// Values along the reduced axis of one instruction of a warpgroup.
const STEP: i64 = 16;
/// Values of a row that a quad takes at a time.
pub const CHUNK: i64 = QUAD * RUN * WORD;

impl TileLayout {
    /// `rows` by `depth` values of words, the rows shared out among `warps`: of every 64 values of a row each lane of a
    /// quad holds 16 neighbours. Values `v` and `v + 4` of a word, whose bits lie 16 apart, are a pair of registers, so
    /// that four registers in their order are the second operand of `mma.m16n8k16`, for an order of k in which the
    /// first operand has to be brought as well.
    ///
    /// # Errors
    /// Where rows or values are no whole fragments.
    pub fn of_words(rows: i64, depth: i64, warps: i64) -> Result<TileLayout, String> {
        if warps < 1 || rows % (warps * ROWS) != 0 || depth % CHUNK != 0 {
            return Err(format!(
                "{rows} rows of {depth} values are no fragments of {ROWS} by {CHUNK} of {warps} warps"
            ));
        }
        let register = |extent, stride| Iter::new(extent, stride, Axis::M);
        TileLayout::of_shard(vec![
            Iter::new(warps, 1, Axis::WarpId),
            register(rows / warps / ROWS, depth / QUAD),
            Iter::new(ROWS, QUAD, Axis::LaneId),
            register(depth / CHUNK, RUN * WORD),
            Iter::new(QUAD, 1, Axis::LaneId),
            register(RUN, WORD),
            register(2, 1),
            register(WORD / 2, 2),
        ])
    }

    /// `rows` by `depth` values of words as the first operand of products by `groups` warpgroups (`wgmma`), which has to
    /// be in the order of k: of each word every lane of a quad holds the two values of one byte, so that all four take
    /// the same words.
    ///
    /// # Errors
    /// Where rows or values are no whole instructions of the groups.
    pub fn of_group_words(rows: i64, depth: i64, groups: i64) -> Result<TileLayout, String> {
        let [of_group, of_warp, warps] = GROUP;
        if groups < 1 || rows % (groups * of_group) != 0 || depth % STEP != 0 {
            return Err(format!("{rows} rows of {depth} values are no instructions of {groups} warpgroups"));
        }
        let register = |extent, stride| Iter::new(extent, stride, Axis::M);
        let halves = of_warp / ROWS;
        TileLayout::of_shard(vec![
            Iter::new(groups, warps, Axis::WarpId),
            register(rows / of_group / groups, halves * depth / QUAD),
            Iter::new(warps, 1, Axis::WarpId),
            register(halves, 2),
            Iter::new(ROWS, QUAD, Axis::LaneId),
            register(depth / WORD, 2 * halves),
            Iter::new(QUAD, 1, Axis::LaneId),
            register(2, 1),
        ])
    }
}
