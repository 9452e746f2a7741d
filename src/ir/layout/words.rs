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
}
