//! Axes: the resources that a layout places elements on.

use std::fmt;

/// What a position counts along: a memory space, or the number of a thread, warp or block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Axis {
    /// Linear memory or registers, in elements; the default, which prints as nothing.
    M,
    /// Lane (row) of tensor memory.
    TLane,
    /// Column of tensor memory.
    TCol,
    /// Thread in its warp, 0 to 31.
    LaneId,
    /// Warp in its block.
    WarpId,
    /// Warp in its warpgroup, 0 to 3.
    WidInWg,
    /// Warpgroup in its block.
    WgId,
    /// Thread in its warpgroup, 0 to 127.
    TidInWg,
    /// Thread in its block.
    Tx,
    /// Block in the grid, first dimension.
    Bx,
    /// Block in the grid, second dimension.
    By,
    /// Block in the grid, third dimension.
    Bz,
    /// Block in its cluster, first dimension.
    Cbx,
    /// Block in its cluster, second dimension.
    Cby,
    /// Block in its cluster, third dimension.
    Cbz,
}

impl Axis {
    /// How many axes there are.
    pub const COUNT: usize = 15;

    /// Every axis with its name, in the order of the enum.
    pub const ALL: [(Axis, &'static str); Axis::COUNT] = [
        (Axis::M, "m"),
        (Axis::TLane, "TLane"),
        (Axis::TCol, "TCol"),
        (Axis::LaneId, "laneid"),
        (Axis::WarpId, "warpid"),
        (Axis::WidInWg, "wid_in_wg"),
        (Axis::WgId, "wgid"),
        (Axis::TidInWg, "tid_in_wg"),
        (Axis::Tx, "tx"),
        (Axis::Bx, "bx"),
        (Axis::By, "by"),
        (Axis::Bz, "bz"),
        (Axis::Cbx, "cbx"),
        (Axis::Cby, "cby"),
        (Axis::Cbz, "cbz"),
    ];

    /// The name in the notation.
    pub fn name(self) -> &'static str {
        Axis::ALL[self as usize].1
    }

    /// The axis of that name.
    pub fn by_name(name: &str) -> Option<Axis> {
        Axis::ALL.iter().find(|e| e.1 == name).map(|e| e.0)
    }

    /// True for axes that number threads, warps or blocks; false for memory.
    pub fn is_thread(self) -> bool {
        match self {
            Axis::M | Axis::TLane | Axis::TCol => false,
            Axis::LaneId
            | Axis::WarpId
            | Axis::WidInWg
            | Axis::WgId
            | Axis::TidInWg
            | Axis::Tx
            | Axis::Bx
            | Axis::By
            | Axis::Bz
            | Axis::Cbx
            | Axis::Cby
            | Axis::Cbz => true,
        }
    }

    /// Threads of the block that one step on this axis moves by; `None` for memory and for blocks.
    /// `tx = 32 warpid + laneid = 128 wgid + tid_in_wg`, `tid_in_wg = 32 wid_in_wg + laneid`.
    pub fn threads_per_step(self) -> Option<i64> {
        match self {
            Axis::LaneId | Axis::TidInWg | Axis::Tx => Some(1),
            Axis::WarpId | Axis::WidInWg => Some(32),
            Axis::WgId => Some(128),
            Axis::M | Axis::TLane | Axis::TCol | Axis::Bx | Axis::By | Axis::Bz | Axis::Cbx | Axis::Cby | Axis::Cbz => {
                None
            }
        }
    }

    /// How many values the axis has where the hardware fixes it: lanes of a warp, warps and
    /// threads of a warpgroup, lanes and columns of tensor memory.
    pub fn limit(self) -> Option<i64> {
        match self {
            Axis::LaneId => Some(32),
            Axis::WidInWg => Some(4),
            Axis::TidInWg | Axis::TLane => Some(128),
            Axis::TCol => Some(512),
            Axis::M
            | Axis::WarpId
            | Axis::WgId
            | Axis::Tx
            | Axis::Bx
            | Axis::By
            | Axis::Bz
            | Axis::Cbx
            | Axis::Cby
            | Axis::Cbz => None,
        }
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_the_enum_and_read_back() {
        for (i, (axis, name)) in Axis::ALL.iter().enumerate() {
            assert_eq!(*axis as usize, i);
            assert_eq!(axis.name(), *name);
            assert_eq!(Axis::by_name(name), Some(*axis));
        }
        assert_eq!(Axis::by_name("lane"), None);
    }

    #[test]
    fn thread_axes_agree_on_the_thread_of_a_block() {
        for tx in 0..1024i64 {
            let steps = |a: Axis, v: i64| v * a.threads_per_step().expect("an axis of threads");
            assert_eq!(steps(Axis::WarpId, tx / 32) + steps(Axis::LaneId, tx % 32), tx);
            assert_eq!(steps(Axis::WgId, tx / 128) + steps(Axis::TidInWg, tx % 128), tx);
            assert_eq!(steps(Axis::WidInWg, tx % 128 / 32) + steps(Axis::LaneId, tx % 32), tx % 128);
        }
    }
}
