//! The part of a register tile that each thread holds.

use super::walk::unswizzled;
use crate::ir::layout::{Axis, TileLayout};
use crate::ir::{BinOp, ExecScope, Expr};
use crate::tile::{Cx, View, WARP, WARPGROUP};

/// What each thread of a scope holds of a tile in registers.
pub(in crate::tile) struct Bundle {
    /// The tile.
    pub view: View,
    /// Elements along each dimension that a thread holds.
    pub extent: Vec<i64>,
    shared_out: Option<SharedOut>,
}

/// A tile that threads share out.
struct SharedOut {
    /// The layout of the tile along dimensions that threads share out, of the buffer along others.
    layout: TileLayout,
    shape: Vec<i64>,
    /// The dimensions of which each thread holds all.
    whole: Vec<bool>,
}

impl Bundle {
    /// The bundles of a tile in the registers of the threads of a scope.
    ///
    /// # Errors
    /// Where the layout does not share the tile out among all of these threads and no others.
    pub fn of(view: &View, scope: ExecScope, cx: &Cx) -> Result<Bundle, String> {
        let (layout, shape) = view.layout()?;
        let mentioned: Vec<Axis> =
            Axis::ALL.iter().map(|e| e.0).filter(|a| a.is_thread() && layout.mentions(*a)).collect();
        match (mentioned.as_slice(), scope) {
            ([], ExecScope::Thread) => {
                return Ok(Bundle { view: view.clone(), extent: view.extent.clone(), shared_out: None });
            }
            ([], _) => {
                let (b, s) = (&view.buffer, scope.name());
                return Err(format!("the layout of `{b}` does not say which threads of the {s} hold what"));
            }
            _ => {}
        }
        if let Some(axis) = mentioned.iter().find(|a| !counts(**a, scope, cx)) {
            return Err(format!(
                "`{}` is shared out over {axis}, which a {} does not count",
                view.buffer,
                scope.name()
            ));
        }
        let parts = SharedOut::of(view, layout, shape)?;
        parts.layout.covers_scope(cx.threads_in(scope))?;
        let held = parts.layout.local_shape(&parts.shape)?;
        parts.coordinates(cx, &vec![Expr::i64(0); held.len()])?;
        let own = |((whole, n), held): ((&bool, &i64), i64)| if *whole { *n } else { held };
        let extent = parts.whole.iter().zip(&view.extent).zip(held).map(own).collect();
        Ok(Bundle { view: view.clone(), extent, shared_out: Some(parts) })
    }

    /// The place, in the thread's registers, of an element of the bundle.
    pub fn register(&self, index: &[Expr]) -> Expr {
        self.place(index, true)
    }

    /// The same before any permutation.
    pub fn register_unswizzled(&self, index: &[Expr]) -> Expr {
        self.place(index, false)
    }

    fn place(&self, index: &[Expr], permuted: bool) -> Expr {
        let Some(parts) = &self.shared_out else {
            return if permuted { self.view.at(index) } else { unswizzled(&self.view, index) };
        };
        let local = parts.layout.local();
        let local = if permuted { local } else { local.unswizzled() };
        let held = parts.layout.local_shape(&parts.shape).unwrap_or_default();
        let at = local.memory_offset(&held, &parts.from_begin(&self.view, index));
        at.unwrap_or_else(|why| panic!("the bundle of `{}` has a layout: {why}", self.view.buffer))
    }

    /// The index in the tile of an element of the thread's bundle.
    pub fn coordinates(&self, cx: &Cx, index: &[Expr]) -> Vec<Expr> {
        let Some(parts) = &self.shared_out else { return index.to_vec() };
        let all = parts.coordinates(cx, &parts.from_begin(&self.view, index));
        let all = all.unwrap_or_else(|why| panic!("the bundle of `{}` has coordinates: {why}", self.view.buffer));
        let own = |((whole, i), c): ((&bool, &Expr), Expr)| if *whole { i.clone() } else { c };
        parts.whole.iter().zip(index).zip(all).map(own).collect()
    }

    /// That another tile is shared out among the threads in the same way.
    ///
    /// # Errors
    /// Where it is not.
    pub fn same_threads(&self, other: &Bundle) -> Result<(), String> {
        match (self.owners()?, other.owners()?) {
            (a, b) if a == b => Ok(()),
            _ => {
                let (a, b) = (&self.view.buffer, &other.view.buffer);
                Err(format!("the threads that hold an element of `{a}` and of `{b}` differ"))
            }
        }
    }

    /// Which threads hold each element; `None` where one thread holds all.
    fn owners(&self) -> Result<Option<TileLayout>, String> {
        let Some(parts) = &self.shared_out else { return Ok(None) };
        let (layout, shape) = self.view.layout()?;
        let begin =
            parts.whole.iter().zip(&self.view.begin).map(|(whole, b)| if *whole { 0 } else { b.as_int().unwrap_or(0) });
        let tile = layout.slice(shape, &begin.collect::<Vec<_>>(), &self.view.extent)?;
        Ok(Some(tile.owners().canonical()))
    }
}

impl SharedOut {
    fn of(view: &View, layout: &TileLayout, shape: &[i64]) -> Result<SharedOut, String> {
        let groups = layout.grouped(shape)?;
        let whole: Vec<bool> = groups.iter().map(|g| g.iter().all(|it| !it.axis.is_thread())).collect();
        let (mut begin, mut extent) = (vec![], vec![]);
        for (d, whole) in whole.iter().enumerate() {
            let first = if *whole { Some(0) } else { view.begin[d].as_int() };
            let why = || {
                format!("`{}` is shared out along dimension {d}, where the tile's begin is not constant", view.buffer)
            };
            begin.push(first.ok_or_else(why)?);
            extent.push(if *whole { shape[d] } else { view.extent[d] });
        }
        Ok(SharedOut { layout: layout.slice(shape, &begin, &extent)?, shape: extent, whole })
    }

    /// The index, counted where the layout begins, of an element of the bundle.
    fn from_begin(&self, view: &View, index: &[Expr]) -> Vec<Expr> {
        let moved = |((whole, b), i): ((&bool, &Expr), &Expr)| if *whole { b.clone() + i.clone() } else { i.clone() };
        self.whole.iter().zip(&view.begin).zip(index).map(moved).collect()
    }

    fn coordinates(&self, cx: &Cx, index: &[Expr]) -> Result<Vec<Expr>, String> {
        self.layout.coordinates(&self.shape, &|axis| value(axis, cx), index)
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

/// The thread's value on an axis.
fn value(axis: Axis, cx: &Cx) -> Expr {
    let (thread, int) = (cx.thread(), Expr::i64);
    let part = |op, n| cx.simple(Expr::binary(op, thread.clone(), int(n)));
    match axis {
        Axis::Tx => thread,
        Axis::LaneId => part(BinOp::FloorMod, WARP),
        Axis::WarpId => part(BinOp::FloorDiv, WARP),
        Axis::TidInWg => part(BinOp::FloorMod, WARPGROUP),
        Axis::WgId => part(BinOp::FloorDiv, WARPGROUP),
        Axis::WidInWg => cx.simple(Expr::binary(BinOp::FloorMod, part(BinOp::FloorDiv, WARP), int(WARPGROUP / WARP))),
        Axis::M | Axis::TLane | Axis::TCol | Axis::Bx | Axis::By | Axis::Bz | Axis::Cbx | Axis::Cby | Axis::Cbz => {
            int(0)
        }
    }
}
