//! The part of a register tile that each thread moves: a [`Part`] whose layout counts the threads of the
//! scope and no others, so that every element is moved once, and whose elements have an index in the tile.

use crate::ir::layout::Axis;
use crate::ir::{ExecScope, Expr};
use crate::tile::{Cx, Part, Places, View};

/// What each thread of a scope holds of a tile in registers.
pub(crate) struct Bundle {
    /// What each thread holds.
    pub part: Part,
    /// Where that is in the tile.
    pub places: Places,
}

impl Bundle {
    /// The bundles of a tile in the registers of the threads of a scope.
    ///
    /// # Errors
    /// Where the layout does not share the tile out among all of these threads and no others, or gives
    /// a thread more than registers can be.
    pub fn of(view: &View, scope: ExecScope, cx: &Cx) -> Result<Bundle, String> {
        let (layout, _) = view.layout()?;
        let other = Axis::ALL.iter().find(|(a, _)| a.is_thread() && layout.mentions(*a) && !counts(*a, scope, cx));
        let b = &view.buffer;
        if let Some((axis, _)) = other {
            return Err(format!("`{b}` is shared out over {axis}, which a {} does not count", scope.name()));
        }
        let part = Part::of_scope(view, scope, cx)?;
        if part.is_shared_out() {
            part.layout.covers_scope(cx.threads_in(scope)).map_err(|why| format!("`{b}`: {why}"))?;
        }
        Ok(Bundle { places: part.places(cx)?, part })
    }

    /// The place, in the thread's registers, of an element of the bundle before any permutation.
    pub fn register_unswizzled(&self, index: &[Expr]) -> Expr {
        if self.part.is_shared_out() { self.part.at(index) } else { self.part.view.at_unswizzled(index) }
    }

    /// That another tile is shared out among the threads in the same way.
    ///
    /// # Errors
    /// Where it is not.
    pub fn same_threads(&self, other: &Bundle) -> Result<(), String> {
        let owners = |b: &Bundle| b.part.is_shared_out().then(|| b.part.layout.owners().canonical());
        if owners(self) == owners(other) {
            return Ok(());
        }
        let (a, b) = (&self.part.view.buffer, &other.part.view.buffer);
        Err(format!("the threads that hold an element of `{a}` and of `{b}` differ"))
    }
}

/// True where the threads of the scope are those that the axis counts.
fn counts(axis: Axis, scope: ExecScope, cx: &Cx) -> bool {
    let alone = cx.threads() == cx.threads_in(scope);
    match axis {
        Axis::LaneId => scope != ExecScope::Thread,
        Axis::WidInWg | Axis::TidInWg => alone || matches!(scope, ExecScope::Warpgroup | ExecScope::Cta),
        Axis::WarpId | Axis::WgId | Axis::Tx => alone || scope == ExecScope::Cta,
        Axis::M | Axis::TLane | Axis::TCol | Axis::Bx | Axis::By | Axis::Bz | Axis::Cbx | Axis::Cby | Axis::Cbz => {
            false
        }
    }
}
