//! Vectors that several rows share: brought into shared memory once per block, or read where they are.

use crate::ir::{Name, Scope, ThreadTag};
use crate::rules::parts::{loops_below, output, vectorize_loop};
use crate::rules::space::limits::lanes;
use crate::schedule::{Schedule, ScheduleError};

/// Copies a buffer that `block` reads into shared memory at loop `grid`, all threads of the block (`rows` by
/// `columns`) taking part in accesses of 16 bytes.
pub fn share(
    s: &mut Schedule,
    block: &Name,
    buffer: &Name,
    grid: &Name,
    [rows, columns]: [i64; 2],
) -> Result<(), ScheduleError> {
    let copy = s.cache_read(block, buffer, Scope::Shared)?;
    s.compute_at(&copy, grid)?;
    let loops = loops_below(s, &copy, grid);
    let all = if loops.len() > 1 { s.fuse(&loops)? } else { loops[0].clone() };
    let width = lanes(16, s.func().buffer(buffer).dtype);
    let parts = s.split(&all, &[None, Some(rows), Some(columns), Some(width)])?;
    s.bind(&parts[1], ThreadTag::ThreadY)?;
    s.bind(&parts[2], ThreadTag::ThreadX)?;
    vectorize_loop(s, &parts[3])
}

/// The buffer that `block` now reads in place of `buffer`: its copy where there is one.
pub fn current_read(s: &Schedule, block: &Name, buffer: &Name) -> Name {
    let facts = crate::analysis::Facts::of(s.func());
    let reads = |b: &Name| facts.block(b).is_some_and(|b| b.reads.iter().any(|a| a.buffer == *buffer));
    if reads(block) {
        return buffer.clone();
    }
    let copy = s.producers(block).into_iter().find(|c| reads(c));
    copy.map_or_else(|| buffer.clone(), |c| output(s, &c))
}
