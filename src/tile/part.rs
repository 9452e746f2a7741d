//! What each thread holds of a tile in registers.

use super::predicates::MAX_REGISTERS;
use super::{Cx, View, WARP, WARPGROUP};
use crate::analysis::{Ranges, index_text, multiple_of};
use crate::ir::layout::{Axis, Bundles, Iter, Over, TileLayout};
use crate::ir::{BinOp, ExecScope, Expr};
use std::collections::BTreeMap;

/// The share of one thread in a tile: a dense box of elements, the same in every thread.
#[derive(Clone, PartialEq, Debug)]
pub struct Part {
    /// The tile.
    pub view: View,
    /// Elements of one thread along each dimension of the tile.
    pub shape: Vec<i64>,
    /// Which threads hold what: the tile's layout with threads counted on `tx`, and without the
    /// offset in memory.
    pub layout: TileLayout,
    /// Threads after which the layout repeats; `None` where it counts all threads of the block.
    period: Option<i64>,
    /// From an index in `shape` to the offset from the first element; `None` where the view's own
    /// indices do.
    local: Option<Over>,
}

/// The places in the tile of the elements of a thread's share.
#[derive(Clone, PartialEq, Debug)]
pub struct Places {
    /// `None` where nothing is shared out and indices are their own.
    bundles: Option<Bundles>,
    thread: Expr,
}

impl Places {
    /// The index in the tile of the element at an index in [`Part::shape`].
    pub fn of(&self, index: &[Expr]) -> Vec<Expr> {
        let Some(bundles) = &self.bundles else { return index.to_vec() };
        bundles.coordinates(&|_| self.thread.clone(), index)
    }
}

impl Part {
    /// The share in a tile, whose buffer may have a layout over threads or none.
    ///
    /// # Errors
    /// Where the tile's place among threads is not constant or not regular, or where a thread holds
    /// an element twice.
    pub fn of(view: &View, ranges: &Ranges) -> Result<Part, String> {
        let (layout, shape) = view.layout()?;
        let threads = |l: &TileLayout| Axis::ALL.iter().any(|(a, _)| a.is_thread() && l.mentions(*a));
        if layout.mentions(Axis::TLane) || layout.mentions(Axis::TCol) {
            return Err(format!("`{}` has layout {layout}, which is not one of registers", view.buffer));
        }
        if layout.replica().iter().any(|it| it.axis == Axis::M && it.extent > 1) {
            return Err(format!("`{}` has layout {layout}, in which a thread holds elements twice", view.buffer));
        }
        if !threads(layout) {
            let plain = TileLayout::row_major(&view.extent)?;
            return Ok(Part {
                view: view.clone(),
                shape: view.extent.clone(),
                layout: plain,
                period: None,
                local: None,
            });
        }
        if layout.swizzle().is_some_and(|s| s.swizzle_len() > 0) {
            return Err(format!("`{}` is swizzled among threads by layout {layout}", view.buffer));
        }
        let period = period(layout);
        let begin = constant_begin(view, layout, shape, ranges)?;
        let tile = layout.slice(shape, &begin, &view.extent)?.by_thread()?;
        let offset: BTreeMap<Axis, i64> =
            tile.offset().iter().filter(|e| *e.0 != Axis::M).map(|(a, v)| (*a, *v)).collect();
        let tile = TileLayout::new(tile.shard().to_vec(), tile.replica().to_vec(), offset, None)?;
        let own = |group: &Vec<Iter>| group.iter().filter(|it| it.axis == Axis::M).map(|it| it.extent).product();
        let shape: Vec<i64> = tile.grouped(&view.extent)?.iter().map(own).collect();
        let local = Some(tile.local().over(&shape)?);
        Ok(Part { view: view.clone(), shape, layout: tile, period, local })
    }

    /// The share in a tile that the threads of a scope hold together, or one thread alone.
    ///
    /// # Errors
    /// As [`Part::of`] and [`Part::covers`], where a tile of several threads has no layout over them,
    /// and where a thread holds more than registers can be.
    pub fn of_scope(view: &View, scope: ExecScope, cx: &Cx) -> Result<Part, String> {
        let part = Part::of(view, cx.ranges)?;
        let name = &view.buffer;
        if scope != ExecScope::Thread && !part.is_shared_out() {
            return Err(format!("the layout of `{name}` does not say which threads of the {} hold what", scope.name()));
        }
        part.covers(scope, cx)?;
        part.fits_registers()?;
        Ok(part)
    }

    /// That a thread holds no more than registers can be.
    ///
    /// # Errors
    /// Says how much it is.
    pub fn fits_registers(&self) -> Result<(), String> {
        match self.len() {
            n if n <= MAX_REGISTERS => Ok(()),
            n => Err(format!(
                "each thread holds {n} elements of `{}`, at most {MAX_REGISTERS} are unrolled",
                self.view.buffer
            )),
        }
    }

    /// Elements of one thread.
    pub fn len(&self) -> i64 {
        self.shape.iter().product()
    }

    /// True when a thread holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True where elements are shared out among threads, rather than each thread having a whole tile
    /// of its own.
    pub fn is_shared_out(&self) -> bool {
        self.local.is_some()
    }

    /// Which threads hold each element of a tile that lacks some dimensions: those that hold any of
    /// the elements along them (`to_all`), or those that hold the first. In canonical form.
    ///
    /// # Errors
    /// Where threads are not regular along dimensions.
    pub fn owners_without(&self, dims: &[usize], to_all: bool) -> Result<TileLayout, String> {
        let groups = self.layout.grouped(&self.view.extent)?;
        let kept = groups.iter().enumerate().filter(|(d, _)| !dims.contains(d)).flat_map(|(_, g)| g.iter().copied());
        let mut replica = self.layout.replica().to_vec();
        if to_all {
            let gone = dims.iter().flat_map(|d| &groups[*d]);
            replica.extend(gone.filter(|it| it.axis.is_thread()).copied());
        }
        let offset = self.layout.offset().clone();
        Ok(TileLayout::new(kept.collect(), replica, offset, None)?.owners().canonical())
    }

    /// Which of `threads` threads hold each element, in canonical form. What a layout does not count it
    /// says alike of all: one over lanes of every warp, one over no threads of every thread.
    ///
    /// # Errors
    /// Where the layout says the same of a number of threads that does not divide `threads`.
    pub fn owners_among(&self, threads: i64) -> Result<TileLayout, String> {
        let (layout, _) = self.view.layout()?;
        let any = |axes: &[Axis]| axes.iter().any(|a| layout.mentions(*a));
        let lane = any(&[Axis::LaneId, Axis::TidInWg, Axis::Tx]);
        let warp = any(&[Axis::WidInWg, Axis::TidInWg, Axis::WarpId, Axis::Tx]);
        let warpgroup = any(&[Axis::WgId, Axis::WarpId, Axis::Tx]);
        let mut replica = self.layout.replica().to_vec();
        let mut below = 1;
        for (counted, next) in [(lane, WARP), (warp, WARPGROUP), (warpgroup, i64::MAX)] {
            let n = next.min(threads);
            if n % below != 0 && !(counted && warp && warpgroup) {
                let name = &self.view.buffer;
                return Err(format!("the layout of `{name}` repeats after {below} threads, which do not divide {n}"));
            }
            if !counted && n > below {
                replica.push(Iter::new(n / below, below, Axis::Tx));
            }
            below = below.max(n);
        }
        let offset = self.layout.offset().clone();
        Ok(TileLayout::new(self.layout.shard().to_vec(), replica, offset, None)?.owners().canonical())
    }

    /// The threads of a call of that scope after which the layout repeats; 1 where nothing is shared out.
    pub fn threads(&self, scope: ExecScope, cx: &Cx) -> i64 {
        let all = if self.is_shared_out() { cx.threads_in(scope) } else { 1 };
        self.period.map_or(all, |p| p.min(all))
    }

    /// The iters over threads along some dimensions, nearest neighbours first.
    ///
    /// # Errors
    /// As [`Part::owners_without`].
    pub fn threads_along(&self, dims: &[usize]) -> Result<Vec<Iter>, String> {
        let groups = self.layout.grouped(&self.view.extent)?;
        let along = dims.iter().flat_map(|d| &groups[*d]).filter(|it| it.axis.is_thread()).copied().collect();
        let mut threads = TileLayout::new(vec![], along, BTreeMap::new(), None)?.canonical().replica().to_vec();
        threads.reverse();
        Ok(threads)
    }

    /// The offset in the thread's registers of the element at an index in `shape`.
    pub fn at(&self, index: &[Expr]) -> Expr {
        let Some(local) = &self.local else { return self.view.at(index) };
        self.view.first() + local.memory(index)
    }

    /// The places of each thread's elements in the tile.
    ///
    /// # Errors
    /// Where the values on an axis of threads do not tell the elements apart.
    pub fn places(&self, cx: &Cx) -> Result<Places, String> {
        let inside = |n| cx.simple(Expr::binary(BinOp::FloorMod, cx.thread(), Expr::i64(n)));
        self.places_of(self.period.map_or_else(|| cx.thread(), inside))
    }

    /// The same of the thread of a number.
    ///
    /// # Errors
    /// As [`Part::places`].
    pub fn places_of(&self, thread: Expr) -> Result<Places, String> {
        let bundles = self.is_shared_out().then(|| self.layout.bundles(&self.view.extent)).transpose()?;
        Ok(Places { bundles, thread })
    }

    /// That the tile is shared out among exactly the threads of a scope, or among each warp or
    /// warpgroup of it alike, or that each thread has a tile of its own.
    ///
    /// # Errors
    /// Says which threads are left out, counted twice or too many.
    pub fn covers(&self, scope: ExecScope, cx: &Cx) -> Result<(), String> {
        if !self.is_shared_out() {
            return Ok(());
        }
        self.layout.covers_scope(self.threads(scope, cx)).map_err(|why| format!("`{}`: {why}", self.view.buffer))
    }
}

/// The threads after which a layout repeats, where it only counts inside warps or warpgroups.
fn period(layout: &TileLayout) -> Option<i64> {
    let only =
        |axes: &[Axis]| Axis::ALL.iter().all(|(a, _)| !a.is_thread() || !layout.mentions(*a) || axes.contains(a));
    if only(&[Axis::LaneId]) {
        Some(WARP)
    } else if only(&[Axis::LaneId, Axis::WidInWg, Axis::TidInWg]) {
        Some(WARPGROUP)
    } else {
        None
    }
}

/// The first index of the tile, 0 along dimensions where it is an expression that only moves the
/// tile in memory.
fn constant_begin(view: &View, layout: &TileLayout, shape: &[i64], ranges: &Ranges) -> Result<Vec<i64>, String> {
    let groups = layout.grouped(shape)?;
    let mut out = vec![];
    for (d, begin) in view.begin.iter().enumerate() {
        let extent = view.extent[d];
        if let Some(b) = begin.as_int() {
            out.push(b);
            continue;
        }
        let whole = extent > 0 && shape[d] % extent == 0 && multiple_of(begin, ranges) % extent == 0;
        if !whole || !threads_inside(&groups[d], extent) {
            return Err(format!(
                "dimension {d} of the tile of `{}` starts at {}, which decides among the threads of layout {layout}; \
                 start it at a constant or at multiples of its extent",
                view.buffer,
                index_text(begin)
            ));
        }
        out.push(0);
    }
    Ok(out)
}

/// True where all thread iters of a dimension lie within its innermost `extent` elements.
fn threads_inside(group: &[Iter], mut extent: i64) -> bool {
    for it in group.iter().rev() {
        let inside = extent % it.extent == 0;
        if it.axis.is_thread() && !inside {
            return false;
        }
        if !inside && it.extent % extent != 0 {
            return false;
        }
        extent = if inside { extent / it.extent } else { 1 };
    }
    true
}
