//! Room for rows: where a kernel that works row by row may keep them, how many threads and blocks share one, and how many of its
//! blocks a multiprocessor keeps.

use super::outline::{STATE, Sizes};
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
/// Rows in a block, at most, where each has one warp or more.
const WARP_ROWS: i64 = 8;
/// Vectors of a thread, at most, where several rows share a warp.
pub(super) const SHORT: i64 = 8;
/// Bytes of rows, those of all resident blocks together, that the first-level cache keeps for the passes that
/// read them again. With 128 KiB such passes took 132 or 163 us, with other work in the second level or without,
/// where a row kept in registers takes 128 (layer_norm 16384x8192 bfloat16, H200); with 64 KiB they are as fast.
const CACHED_ROWS: i64 = 96 << 10;
/// Bytes of a row that is kept, up to which two blocks of a multiprocessor keep theirs. One that has it to itself loads nothing while
/// it computes: of 183 drawn functions with enough such rows (H200) the best such point takes 1.18 times the best, and one function
/// loses more than 3 % (5 %) without them.
const SHARED_ROOM: i64 = 64 << 10;
/// Registers of a thread whose row is in shared memory.
const SHARED_STATE: i64 = 40;

/// Blocks that share a row.
pub(super) fn cluster(k: &Knobs) -> i64 {
    k.find("cluster").unwrap_or(1)
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
        (_, _, Some(n)) if 2 * n * bytes >= registers => Ok(()),
        _ => Err("there are rows enough for all multiprocessors, and they are short".into()),
    })
}

/// Several rows for each warp, where they are short and stay in registers, and so more of them in a block.
pub(super) fn short_rows(space: Space, columns: Option<i64>, element: DType, warp: i64) -> Space {
    space.prefer("short_rows", move |k| {
        let (few, kept) = (group(k) < warp, [KEPT, REGISTERS].contains(&k.get("row")));
        match columns.map(|n| vectors_of(n, k, element)) {
            _ if !few && k.get("rows") <= WARP_ROWS => Ok(()),
            _ if !few => Err(format!("{} rows of whole warps in a block", k.get("rows"))),
            Some(n) if kept && n <= SHORT => Ok(()),
            _ => Err(format!("{} threads for a row that is long or not kept in registers", group(k))),
        }
    })
}

/// Where the row may be kept, beside the tensors that rows share, of so many bytes an element each.
pub(super) fn row_fits(space: Space, r: &Rows, target: &Target, element: DType, shared: Vec<i64>) -> Space {
    let kept: Vec<i64> = r.kept().map(|i| i.dtype.bytes() as i64).collect();
    let bytes: i64 = kept.iter().sum();
    let (columns, regs, limit) = (r.columns, target.regs_per_sm as i64, target.smem_per_block as i64);
    let each = move |k: &Knobs| {
        let step = group(k) * lanes(k.get("vector"), element);
        columns.map(|n| (n + step - 1) / step * lanes(k.get("vector"), element))
    };
    let nothing = bytes == 0;
    let space = space.require("row_fits", move |k| match (k.get("row"), each(k), columns) {
        (REREAD, _, _) => Ok(()),
        (_, _, None) | (_, None, _) => Err("the row's length is not constant".into()),
        _ if nothing => Err("no tensor is read by several blocks".into()),
        (SHARED, Some(each), Some(n)) => {
            let part = if cluster(k) == 1 { n } else { each * k.get("threads") };
            at_most(part * bytes * k.get("rows"), limit, "bytes", "shared memory")
        }
        (_, Some(each), _) => at_most(each, MOST_EACH, "elements", "a thread"),
    });
    let resident = i64::from(target.threads_per_sm);
    let space = space.prefer("reads_once", move |k| match (k.get("row"), columns.map(|n| n * bytes)) {
        (REREAD, Some(row)) if !nothing && row <= limit && resident / group(k) * row > CACHED_ROWS => {
            Err(format!("{} bytes of rows that are read again exceed what caches keep", resident / group(k) * row))
        }
        _ => Ok(()),
    });
    let wanted = wanted_registers(r, element, shared);
    space.prefer("registers", move |k| match wanted(k) {
        Some(want) if k.get("row") != SHARED => {
            let have = registers_left(regs, k.get("threads") * k.get("rows"), k.get("min_blocks"));
            at_most(want, have, "registers", "a thread")
        }
        _ => Ok(()),
    })
}

/// Registers that a thread wants, where the row is kept and its length constant.
fn wanted_registers(
    r: &Rows,
    element: DType,
    shared: Vec<i64>,
) -> impl Fn(&Knobs) -> Option<i64> + Send + Sync + 'static {
    let (kept, columns): (Vec<i64>, _) = (r.kept().map(|i| i.dtype.bytes() as i64).collect(), r.columns);
    move |k| {
        let (width, row) = (lanes(k.get("vector"), element), k.get("row"));
        let each = over(columns?, group(k) * width) * width;
        match row {
            SHARED => return Some(SHARED_STATE),
            REREAD => return None,
            _ => {}
        }
        let [own, weights] = [&kept, &shared].map(|bytes| Sizes::registers(each, bytes, width));
        let functions = i64::from(row == KEPT) * each;
        // Vectors of weights are loaded early, single ones late. Of 3,306 points of drawn norms all 134 that want
        // 1.25 times what there is spill, and none of 2,226 that want up to 0.85.
        let early = if width > 1 { weights } else { 0 };
        Some((24 + own + functions).max(STATE + own + early))
    }
}

/// Two blocks on a multiprocessor, where there are rows for them and it keeps two.
pub(super) fn rooms_are_shared(space: Space, r: &Rows, target: &Target, element: DType, shared: Vec<i64>) -> Space {
    let bytes: i64 = r.kept().map(|i| i.dtype.bytes() as i64).sum();
    let (rows, columns, target) = (r.rows, r.columns, target.clone());
    let applies =
        rows.is_none_or(|n| n >= 2 * i64::from(target.sms)) && columns.is_some_and(|n| n * bytes <= SHARED_ROOM);
    let wanted = wanted_registers(r, element, shared);
    space.prefer("alone", move |k| {
        let Some(want) = wanted(k).filter(|_| applies) else { return Ok(()) };
        let threads = k.get("threads") * k.get("rows");
        let regs = want.min(registers_left(target.regs_per_sm.into(), threads, k.get("min_blocks")));
        let row = if k.get("row") == SHARED { columns.unwrap_or(0) * bytes * k.get("rows") / cluster(k) } else { 0 };
        match target.resident_blocks(threads as u32, regs as u32, row as u32) {
            0 | 1 => Err("a block that has a multiprocessor to itself loads nothing while it computes".into()),
            _ => Ok(()),
        }
    })
}
