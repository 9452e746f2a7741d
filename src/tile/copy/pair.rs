//! Destination and source of a call, over the box of elements that they have in common.

use super::walk::{Side, Walk};
use crate::ir::{Expr, Scope, TileCall};
use crate::tile::{Cx, View};

/// The two tiles of a copy. The box is their shape without dimensions of extent 1.
pub(crate) struct Pair {
    /// Where the elements go.
    pub dst: View,
    /// Where they come from.
    pub src: View,
}

impl Pair {
    /// The tiles of a call.
    ///
    /// # Errors
    /// As [`Cx::view`], and where the operand is no tile.
    pub fn of(call: &TileCall, cx: &Cx) -> Result<Pair, String> {
        Ok(Pair { dst: cx.view(&call.dst)?, src: cx.arg(call, 0)? })
    }

    /// The tiles, destination first, with the words that sentences name them by.
    pub fn sides(&self) -> [(&View, &'static str); 2] {
        [(&self.dst, "destination"), (&self.src, "source")]
    }

    /// Both sides over the box, destination first; accesses to device memory are of up to `widest` bytes.
    pub fn over_box(&self, widest: i64) -> [Side<'_>; 2] {
        [&self.dst, &self.src].map(|v| Side::of(v, widest, |i| spread(&v.extent, i)))
    }

    /// The order of the widest such accesses that both sides allow.
    pub fn widest_walk(&self, widest: i64, cx: &Cx) -> Walk {
        let [to, from] = self.over_box(widest);
        Walk::widest(&box_of(&self.dst.extent), &[&to, &from], cx.ranges)
    }

    /// The side in memory, of two of which one is.
    pub fn memory(&self) -> &View {
        if self.dst.is_local() { &self.src } else { &self.dst }
    }

    /// The register side and the other, where exactly one is in registers.
    pub fn register_side(&self) -> Option<(&View, &View)> {
        match (self.dst.is_local(), self.src.is_local()) {
            (true, false) => Some((&self.dst, &self.src)),
            (false, true) => Some((&self.src, &self.dst)),
            (true, true) | (false, false) => None,
        }
    }
}

/// Extents other than 1.
pub(crate) fn box_of(extent: &[i64]) -> Vec<i64> {
    extent.iter().copied().filter(|n| *n != 1).collect()
}

/// An index into the box as an index into a tile of that extent.
pub(crate) fn spread(extent: &[i64], index: &[Expr]) -> Vec<Expr> {
    let mut rest = index.iter();
    let pick = |n: &i64| if *n == 1 { Expr::i64(0) } else { rest.next().cloned().unwrap_or_else(|| Expr::i64(0)) };
    extent.iter().map(pick).collect()
}

/// An index into a tile of that extent as an index into the box.
pub(crate) fn gather(extent: &[i64], index: &[Expr]) -> Vec<Expr> {
    extent.iter().zip(index).filter(|(n, _)| **n != 1).map(|(_, i)| i.clone()).collect()
}

/// The name of a memory in sentences.
pub(crate) fn memory_name(view: &View) -> &str {
    match &view.scope {
        Scope::Global => "global memory",
        Scope::Shared | Scope::SharedDyn => "shared memory",
        Scope::Cluster => "shared memory of a cluster",
        Scope::Local => "registers",
        Scope::Tensor => "tensor memory",
        Scope::Other(name) => name,
    }
}
