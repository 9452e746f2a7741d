//! Weights packed in words: the words of a tile come into shared memory as they are, by copies of 8 or 16 bytes that run
//! ahead like any other, and the tile is filled from there.
//!
//! Applies where rows of words lie along the reduced axis in whole copies, and where the words of all stages with two
//! tiles of values take no more shared memory than a tile of values for each stage.

use crate::ir::Expr;
use crate::rules::find::einsum::Stage;
use crate::rules::find::factor::Factor;
use crate::rules::parts::*;

/// Words that one copy takes at most.
const MOST: u32 = 4;

/// How the words of a tile are copied.
pub struct Words {
    buffer: Name,
    /// Words that a thread copies at a time.
    lanes: i64,
}

/// True for values that are computed of words, several of which may lie in one.
pub fn in_words(f: &Factor) -> bool {
    !f.plain && f.element == DType::U32
}

impl Words {
    /// The words of a factor whose reduced axis is `depth` long and cut into `step`s; `None` where they are not staged.
    pub fn of(s: &Schedule, f: &Factor, depth: Option<i64>, step: i64, stages: i64) -> Option<Words> {
        let buffer = f.buffer.clone().filter(|b| in_words(f) && f.along_depth && s.func().is_param(b))?;
        let row = s.func().buffer(&buffer).shape.last().and_then(Expr::as_int)?;
        let values = depth.filter(|n| row > 0 && n % row == 0)? / row;
        let words = step / values;
        let lanes = 1 << words.trailing_zeros().min(row.trailing_zeros()).min(MOST.trailing_zeros());
        let bytes = [words * DType::U32.bytes() as i64, step * f.dtype.bytes() as i64];
        let fits = stages * bytes[0] + 2 * bytes[1] <= stages * bytes[1];
        (step % values == 0 && lanes > 1 && fits).then_some(Words { buffer, lanes })
    }

    /// Has all threads of the block copy the words that a tile is filled from.
    pub fn stage(&self, s: &mut Schedule, tile: &Stage, at: &Name, threads: i64) -> Done {
        let copy = s.cache_read(&tile.block, &self.buffer, Scope::Shared)?;
        s.compute_at(&copy, at)?;
        let all = fuse_loops(s, &loops_below(s, &copy, at))?;
        let [step, thread, lane] = split(s, &all, [None, Some(threads), Some(self.lanes)])?;
        s.bind(&thread, ThreadTag::ThreadX)?;
        unroll_loop(s, &step)?;
        vectorize_loop(s, &lane)
    }
}
