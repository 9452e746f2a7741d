//! Factors of matrix products in registers, as lanes load them from memory: eight neighbours of a row at a time.
//!
//! A sum over k has no order, so the neighbours that a lane loads of both factors stand for whatever k an instruction
//! counts. Four lanes share a row; of a run of eight values two instructions (`mma.m16n8k16`) take four each.

use super::words::{CHUNK, QUAD, ROWS, RUN, WORD};
use super::{Axis, Iter, TileLayout};
use std::collections::BTreeMap;

/// Which of eight neighbours are the pairs of registers, and how many runs a lane has side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runs {
    /// Neighbours are pairs; a run is one load of 16 bytes.
    Values,
    /// Values four apart are pairs, as words of eight hold them; two runs are one load of 8 bytes
    /// ([`TileLayout::of_words`]).
    Words,
}

/// Rows of a fragment of the first factor, over those of the second.
const HALVES: i64 = 2;
/// Values of a register.
const PAIR: i64 = 2;

/// `each` scales of each of `rows` rows of the first factor: those of a row in all four lanes that share it, of a lane first one
/// of each row.
///
/// # Errors
/// Where rows are no whole fragments.
pub fn row_scales(rows: i64, each: i64) -> Result<TileLayout, String> {
    if rows < ROWS || rows % ROWS != 0 {
        return Err(format!("{rows} rows are not shared out among {ROWS} lanes"));
    }
    let (of_rows, of_lanes) = (register(rows / ROWS, 1), Iter::new(ROWS, QUAD, Axis::LaneId));
    let shard = vec![of_rows, of_lanes, register(each, rows / ROWS)];
    TileLayout::new(shard, vec![Iter::new(QUAD, 1, Axis::LaneId)], BTreeMap::new(), None)
}

impl Runs {
    /// Values of a row that four lanes take at a time.
    pub fn chunk(self) -> i64 {
        match self {
            Runs::Values => QUAD * WORD,
            Runs::Words => CHUNK,
        }
    }

    /// `rows` by `depth` values of the first factor: of each fragment a lane holds a pair of one row, the same of that
    /// eight rows below, and both four values on.
    ///
    /// # Errors
    /// Where rows or values are no whole fragments.
    pub fn first(self, rows: i64, depth: i64) -> Result<TileLayout, String> {
        self.whole(rows, HALVES * ROWS, depth)?;
        let mut iters = vec![
            register(rows / (HALVES * ROWS), HALVES * depth / QUAD),
            register(HALVES, PAIR),
            Iter::new(ROWS, QUAD, Axis::LaneId),
        ];
        iters.extend(self.depth(depth, HALVES));
        TileLayout::of_shard(iters)
    }

    /// `rows` by `depth` values of the second factor, whose rows are the columns of the product.
    ///
    /// # Errors
    /// Where rows or values are no whole fragments.
    pub fn second(self, rows: i64, depth: i64) -> Result<TileLayout, String> {
        self.whole(rows, ROWS, depth)?;
        let mut iters = vec![register(rows / ROWS, depth / QUAD), Iter::new(ROWS, QUAD, Axis::LaneId)];
        iters.extend(self.depth(depth, 1));
        TileLayout::of_shard(iters)
    }

    /// Values along a row, where pairs of registers lie `halves` apart.
    fn depth(self, depth: i64, halves: i64) -> Vec<Iter> {
        let chunk = register(depth / self.chunk(), halves * self.chunk() / QUAD);
        let quad = Iter::new(QUAD, 1, Axis::LaneId);
        let pairs = register(WORD / PAIR, halves * PAIR);
        match self {
            Runs::Values => vec![chunk, quad, pairs, register(PAIR, 1)],
            Runs::Words => vec![chunk, quad, register(RUN, halves * WORD), register(PAIR, 1), pairs],
        }
    }

    fn whole(self, rows: i64, of: i64, depth: i64) -> Result<(), String> {
        match rows % of == 0 && depth % self.chunk() == 0 && rows > 0 && depth > 0 {
            true => Ok(()),
            false => Err(format!("{rows} rows of {depth} values are no fragments of {of} by {}", self.chunk())),
        }
    }
}

fn register(extent: i64, stride: i64) -> Iter {
    Iter::new(extent, stride, Axis::M)
}
