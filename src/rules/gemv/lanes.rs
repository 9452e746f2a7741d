//! Products of rows and vectors of which each row is shared by a group of lanes: what their forms have in
//! common.

use crate::analysis::{Access, Facts};
use crate::rules::parts::*;

/// The knobs whose product is the threads of a block.
pub const THREADS: &[&str] = &["threads", "groups"];

/// Enough bytes of `total` in flight, and blocks of the sizes that are best.
pub fn streams_rows(space: Space, target: &Target, total: Option<i64>) -> Space {
    let in_flight = |k: &Knobs| k.get("unroll") * k.get("rows") * k.get("vector");
    let space = keeps_busy(space, target, THREADS, total, in_flight);
    space.prefer("block_size", |k| match k.get("threads") * k.get("groups") {
        64..=512 => Ok(()),
        n => Err(format!("blocks of {n} threads where 64 to 512 are best")),
    })
}

/// A block has no more rows than there are.
pub fn rows_fit(space: Space, rows: Option<i64>) -> Space {
    space.require("rows_fit", move |k| match (k.get("groups") * k.get("rows"), rows) {
        (all, Some(n)) if all > n => Err(format!("{all} rows per block of {n} rows in all")),
        _ => Ok(()),
    })
}

/// The `bytes` of vectors that a block shares fit into shared memory, and leave `room` for other blocks.
pub fn vectors_fit(space: Space, target: &Target, room: i64, bytes: impl At<Option<i64>> + Copy) -> Space {
    let limit = target.smem_per_block as i64;
    let space = space.require("vector_in_shared", move |k| match (k.get("stage"), bytes(k)) {
        (0, _) => Ok(()),
        (_, Some(n)) if n <= limit => Ok(()),
        (_, Some(n)) => Err(format!("{n} bytes of vectors exceed the {limit} of shared memory")),
        (_, None) => Err("the vectors have no constant size".into()),
    });
    space.prefer("vector_leaves_shared", move |k| match (k.get("stage"), bytes(k)) {
        (1, Some(n)) if n > room => Err(format!("{n} bytes of vectors leave room for few blocks")),
        _ => Ok(()),
    })
}

/// The nest in which lanes sum up their parts of rows.
pub struct Nest<'a> {
    /// The block of the sums.
    pub sums: &'a Name,
    /// The block that computes the vectors from what rows share, where it is not that of the sums.
    pub vector: Option<&'a Name>,
    /// The loop over blocks.
    pub grid: &'a Name,
    /// The loops over groups, lanes, steps, loads in flight, rows of a thread, and values of a load.
    pub loops: [&'a Name; 6],
    /// The loop over vectors of a thread.
    pub vectors: Option<&'a Name>,
    /// Values of a load.
    pub width: i64,
    /// What rows share.
    pub shared: &'a [Access],
    /// What each row has of its own, with the elements of an access and the cache hint.
    pub own: &'a [(Name, i64, i64)],
}

/// Binds the nest, stages what it reads in registers, or vectors in shared memory first, and starts the sums at
/// zero.
pub fn sum_rows(s: &mut Schedule, n: &Nest, k: &Knobs) -> Done {
    let (rf, [groups, lanes, steps, loads, rows, values]) = (n.sums, n.loops);
    s.bind(groups, ThreadTag::ThreadY)?;
    s.bind(lanes, ThreadTag::ThreadX)?;
    launch_bounds(s, n.grid, k.get("min_blocks"))?;
    let reader = n.vector.unwrap_or(rf);
    if k.get("stage") == 1 {
        for read in n.shared {
            share(s, reader, &read.buffer, n.grid, [k.get("groups"), k.get("threads")])?;
        }
    }
    for read in n.shared {
        let buffer = current_read(s, reader, &read.buffer);
        stage_read(s, reader, &buffer, loads, n.width, 0)?;
    }
    for (buffer, width, hint) in n.own {
        stage_read(s, rf, buffer, rows, *width, *hint)?;
    }
    batch_loads(s, loads)?;
    batch_loads(s, rows)?;
    n.vectors.map_or(Ok(()), |l| unroll_loop(s, l))?;
    unroll_loop(s, values)?;
    let init = s.decompose_reduction(rf, steps)?;
    loops_below(s, &init, lanes).iter().try_for_each(|l| unroll_loop(s, l))
}

/// Copies a buffer that `block` reads into shared memory at loop `grid`, all threads of the block (`rows` by
/// `columns`) taking part in accesses of 16 bytes.
fn share(s: &mut Schedule, block: &Name, buffer: &Name, grid: &Name, [rows, columns]: [i64; 2]) -> Done {
    let copy = s.cache_read(block, buffer, Scope::Shared)?;
    s.compute_at(&copy, grid)?;
    let all = fuse_loops(s, &loops_below(s, &copy, grid))?;
    let width = lanes(16, s.func().buffer(buffer).dtype);
    let [_, y, x, lane] = split(s, &all, [None, Some(rows), Some(columns), Some(width)])?;
    s.bind(&y, ThreadTag::ThreadY)?;
    s.bind(&x, ThreadTag::ThreadX)?;
    vectorize_loop(s, &lane)
}

/// The buffer that `block` now reads in place of `buffer`: its copy where there is one.
fn current_read(s: &Schedule, block: &Name, buffer: &Name) -> Name {
    let facts = Facts::of(s.func());
    let reads = |b: &Name| facts.block(b).is_some_and(|b| b.reads.iter().any(|a| a.buffer == *buffer));
    if reads(block) {
        return buffer.clone();
    }
    let copy = s.producers(block).into_iter().find(|c| reads(c));
    copy.map_or_else(|| buffer.clone(), |c| output(s, &c))
}
