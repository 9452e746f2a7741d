//! Room for rows: where a kernel that works row by row may keep them, how many threads and blocks share one, and how many of its
//! blocks a multiprocessor keeps.

use super::outline::{Place, STATE, Sizes};
use crate::analysis::gcd;
use crate::rules::find::rows::Rows;
use crate::rules::parts::*;

/// Values of the `row` knob: in registers with the functions of its elements, in registers alone, in
/// shared memory, nowhere.
pub(super) const KEPT: i64 = 0;
pub(super) const REGISTERS: i64 = 1;
pub(super) const SHARED: i64 = 2;
pub(super) const REREAD: i64 = 3;
/// Elements of a row that one thread keeps at most.
pub(super) const MOST_EACH: i64 = 128;
/// Elements of a row that one thread has at most where a block has several rows, each of one warp or more. Kernels with more take
/// longest to compile; of 610 drawn norms and softmaxes (H200) that have such points none loses more than 1.2 % without them.
const SEVERAL_EACH: i64 = 64;
/// The same of rows that begin within a vector, whose elements are more instructions.
const SEVERAL_SHIFTED: i64 = 48;
/// Rows in a block, at most, where each has one warp or more.
const WARP_ROWS: i64 = 8;
/// Vectors of a thread, at most, where several rows share a warp.
pub(super) const SHORT: i64 = 8;
/// Bytes of rows, those of all resident blocks together, that the first-level cache keeps for the passes that
/// read them again. With 128 KiB such passes took 132 or 163 us, with other work in the second level or without,
/// where a row kept in registers takes 128 (layer_norm 16384x8192 bfloat16, H200); with 64 KiB they are as fast.
const CACHED_ROWS: i64 = 96 << 10;
/// Bytes of a row that is kept, up to which two blocks of a multiprocessor keep theirs. One that has it to itself loads nothing while
/// it computes: of 97 drawn functions with enough such rows and such points (H200) the best of these takes 1.19 times the best of all,
/// and one function loses more than 3 % (5 %) without them.
const SHARED_ROOM: i64 = 64 << 10;
/// The same where there are fewer rows than two for each multiprocessor, so that all are under way at once: of 40 drawn functions of
/// 165 to 263 rows (H200) none loses anything, and the best blocks alone are 0.88 to 0.91 of the best of all. With 133 to 164 rows,
/// which are a second row for few multiprocessors, three of 19 lose more than 3 % (31 %).
const PAIR_ROOM: i64 = 88 << 10;
/// Bytes of a row from which on parts of it even out what multiprocessors have to do, where some have two rows and most one. Of five
/// functions of 150 to 182 such rows (H200) clusters are 1.27, 1.06 and 1.05 times as fast for three, and no faster for two; nor
/// for ten of 220 to 490 rows.
const PARTED: i64 = 48 << 10;
/// Registers of a thread whose row is in shared memory.
const SHARED_STATE: i64 = 80;

/// Where a point has the row.
pub(super) fn place(k: &Knobs) -> Place {
    match k.get("row") {
        KEPT => Place::Functions,
        REGISTERS => Place::Registers,
        SHARED => Place::Shared,
        _ => Place::Nowhere,
    }
}

/// Blocks that share a row.
pub(super) fn cluster(k: &Knobs) -> i64 {
    k.find("cluster").unwrap_or(1)
}

/// True where threads keep a row in registers. Its first and last vectors may then hold elements of other rows, so that rows of any
/// length are read in vectors: of 47 functions of odd rows (H200) 17 gain 2 to 52 %, where elements were loaded one by one.
/// Of 18 whose rows vectors of two or four elements divide none gains, so that they have no such points.
pub(super) fn kept_in_registers(k: &Knobs) -> bool {
    [KEPT, REGISTERS].contains(&k.get("row"))
}

/// Threads that share a row.
pub(super) fn group(k: &Knobs) -> i64 {
    k.get("threads") * cluster(k)
}

/// Whole vectors that a thread has of a row of so many columns.
pub(super) fn vectors_of(columns: i64, k: &Knobs, element: DType) -> i64 {
    columns / (group(k) * lanes(k.get("vector"), element))
}

/// Where a row may be shared out over blocks, and where that is tried: rows of which a multiprocessor cannot
/// keep more than two, or fewer than there are multiprocessors, if each block keeps its part.
pub(super) fn cluster_fits(space: Space, r: &Rows, target: &Target, element: DType) -> Space {
    let (rows, columns, most, sms) = (r.rows, r.columns, i64::from(target.max_cluster), i64::from(target.sms));
    let (registers, bytes) = (4 * i64::from(target.regs_per_sm), element.bytes() as i64);
    let space = space.require("cluster_fits", move |k| match (cluster(k), columns) {
        (1, _) => Ok(()),
        (c, _) if c > most => Err(format!("{c} blocks exceed the {most} of a cluster")),
        _ if k.get("rows") > 1 => Err("a block of a cluster has one row".into()),
        (_, Some(n)) if group(k) * lanes(k.get("vector"), element) <= n => Ok(()),
        (c, _) => Err(format!("some threads of {c} blocks have no part of the row")),
    });
    space.prefer("cluster_pays", move |k| match (cluster(k), rows, columns) {
        (1, ..) => Ok(()),
        _ if k.get("row") == REREAD => Err("a part of a row is short enough to be kept".into()),
        (c, Some(rows), _) if rows * c <= 2 * sms => Ok(()),
        (_, Some(rows), Some(n)) if 2 * rows <= 3 * sms && n * bytes >= PARTED => Ok(()),
        (_, _, Some(n)) if 2 * n * bytes >= registers => Ok(()),
        _ => Err("there are rows enough for all multiprocessors, and they are short".into()),
    })
}

/// Several rows for each warp, where they are short and stay in registers, and so more of them in a block.
pub(super) fn short_rows(space: Space, columns: Option<i64>, element: DType, warp: i64) -> Space {
    space.prefer("short_rows", move |k| {
        let (few, kept) = (group(k) < warp, kept_in_registers(k));
        match columns.map(|n| vectors_of(n, k, element)) {
            _ if !few && k.get("rows") <= WARP_ROWS => Ok(()),
            _ if !few => Err(format!("{} rows of whole warps in a block", k.get("rows"))),
            Some(n) if kept && n <= SHORT => Ok(()),
            _ => Err(format!("{} threads for a row that is long or not kept in registers", group(k))),
        }
    })
}

/// Where the row may be kept, beside the tensors that rows share.
pub(super) fn row_fits(space: Space, r: &Rows, target: &Target, element: DType, sizes: Option<Sizes>) -> Space {
    let kept = r.kept_bytes();
    let row = Row { columns: r.columns, bytes: kept.iter().sum(), kept, sizes, element };
    let (columns, bytes, nothing) = (row.columns, row.bytes, row.bytes == 0);
    let (regs, limit) = (target.regs_per_sm as i64, target.smem_per_block as i64);
    let own = row.clone();
    let space = space.require("row_fits", move |k| match (k.get("row"), own.each(k), columns) {
        (REREAD, _, _) => Ok(()),
        (_, _, None) | (_, None, _) => Err("the row's length is not constant".into()),
        _ if nothing => Err("no tensor is read by several blocks".into()),
        (SHARED, Some(each), Some(n)) => at_most(own.in_shared(k, n, each), limit, "bytes", "shared memory"),
        (_, Some(each), _) => at_most(each, MOST_EACH, "elements", "a thread"),
    });
    let resident = i64::from(target.threads_per_sm);
    // Of 313 drawn norms and softmaxes of rows up to `SHARED_ROOM` (H200) three lose more than 3 % (4 %) where rows are kept; read
    // again, they take 1.09 to 1.19 times the best in the mean, and up to 2.6 times.
    let space = space.prefer("reads_once", move |k| match (k.get("row"), columns.map(|n| n * bytes)) {
        (REREAD, Some(row)) if !nothing && row <= limit && resident / group(k) * row > CACHED_ROWS => {
            Err(format!("{} bytes of rows that are read again exceed what caches keep", resident / group(k) * row))
        }
        (REREAD, Some(row)) if !nothing && row <= SHARED_ROOM => {
            Err(format!("a row of {row} bytes is short enough to be kept"))
        }
        _ => Ok(()),
    });
    let own = row.clone();
    // Loops over a row are unrolled: with 171 elements in shared memory a kernel compiles for 1.6 s, with 86 for 0.6 s. Of 50 drawn
    // functions that have kernels with more (H200) one loses 2 % without them, the others nothing.
    let space = space.prefer("elements_per_thread", move |k| match (k.get("row"), own.each(k)) {
        (SHARED, Some(each)) => at_most(each, MOST_EACH, "elements in shared memory", "a thread"),
        _ => Ok(()),
    });
    let space = several_rows(space, row.clone(), i64::from(target.warp));
    let own = row.clone();
    let space = space.prefer("registers", move |k| match (k.get("row"), own.each(k)) {
        (KEPT | REGISTERS, Some(each)) => at_most(own.registers(k, each), left(regs, k), "registers", "a thread"),
        // A mask stays in registers from pass to pass. Of 13,709 points of drawn softmaxes with a mask (H200) 989 want more, of
        // which 780 spill; of their functions one loses 3 % without them, the others less than 2.
        (SHARED, Some(each)) if own.has_mask() => at_most(each, left(regs, k), "registers", "a thread"),
        _ => Ok(()),
    });
    shares_room(space, r.rows, row, target)
}

/// Fewer elements for each thread, where a block has several rows.
fn several_rows(space: Space, row: Row, warp: i64) -> Space {
    space.prefer("several_rows", move |k| match (k.get("row"), row.each(k)) {
        (KEPT | REGISTERS | SHARED, Some(each)) if k.get("rows") > 1 && group(k) >= warp => {
            let most = if row.before(k) > 0 { SEVERAL_SHIFTED } else { SEVERAL_EACH };
            at_most(each, most, "elements of one of several rows", "a thread")
        }
        _ => Ok(()),
    })
}

/// Two blocks on a multiprocessor, where there are rows for them and it keeps two.
fn shares_room(space: Space, rows: Option<i64>, row: Row, target: &Target) -> Space {
    let (target, regs) = (target.clone(), i64::from(target.regs_per_sm));
    let sms = i64::from(target.sms);
    let room = match rows {
        Some(n) if 4 * n < 5 * sms => 0,
        Some(n) if n < 2 * sms => PAIR_ROOM,
        _ => SHARED_ROOM,
    };
    space.prefer("alone", move |k| {
        let columns = row.columns.filter(|n| n * row.bytes <= room);
        let (Some(n), Some(each)) = (columns, row.each(k)) else { return Ok(()) };
        let (want, smem) = match k.get("row") {
            REREAD => return Ok(()),
            SHARED => (SHARED_STATE, row.in_shared(k, n, each)),
            _ => (row.registers(k, each), 0),
        };
        let threads = k.get("threads") * k.get("rows");
        match target.resident_blocks(threads as u32, want.min(left(regs, k)) as u32, smem as u32) {
            0 | 1 => Err("a block that has a multiprocessor to itself loads nothing while it computes".into()),
            _ => Ok(()),
        }
    })
}

/// Registers that the launch bounds leave to a thread.
fn left(regs: i64, k: &Knobs) -> i64 {
    registers_left(regs, k.get("threads") * k.get("rows"), k.get("min_blocks"))
}

/// What of a row is kept.
#[derive(Clone)]
struct Row {
    columns: Option<i64>,
    /// Bytes of an element of each tensor that is kept, and of all of them.
    kept: Vec<i64>,
    bytes: i64,
    /// Sizes of the function, where all are known.
    sizes: Option<Sizes>,
    element: DType,
}

impl Row {
    /// Elements that a thread has of a row, where its length is constant, those before a row that begins within a vector
    /// among them.
    fn each(&self, k: &Knobs) -> Option<i64> {
        let lanes = lanes(k.get("vector"), self.element);
        self.columns.map(|n| over(n + self.before(k), group(k) * lanes) * lanes)
    }

    /// Elements that are read before a row that begins within a vector.
    fn before(&self, k: &Knobs) -> i64 {
        let lanes = lanes(k.get("vector"), self.element);
        self.columns.map_or(0, |n| lanes - gcd(n, lanes))
    }

    /// Bytes of shared memory of a block that keeps rows of `n` elements there.
    fn in_shared(&self, k: &Knobs, n: i64, each: i64) -> i64 {
        let part = if cluster(k) == 1 { n } else { each * k.get("threads") };
        part * self.bytes * k.get("rows")
    }

    /// True where passes before the last one read a tensor that rows share.
    fn has_mask(&self) -> bool {
        self.sizes.as_ref().is_some_and(|s| !s.shared_late)
    }

    /// Registers that a thread wants which keeps `each` elements in them.
    fn registers(&self, k: &Knobs, each: i64) -> i64 {
        let width = lanes(k.get("vector"), self.element);
        let row = Sizes::registers(each, &self.kept, width);
        let functions = i64::from(k.get("row") == KEPT) * each;
        // Vectors of weights are loaded early, single ones late. Of 3,306 points of drawn norms all 134 that want
        // 1.25 times what there is spill, and none of 2,226 that want up to 0.85.
        let early = self.sizes.as_ref().filter(|_| width > 1).map_or(0, |s| {
            let together = s.together(place(k), cluster(k), k).map_or(each, |n| n * width);
            Sizes::registers(together, &s.shared, width)
        });
        (24 + row + functions).max(STATE + row + early)
    }
}
