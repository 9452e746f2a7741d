//! A matrix in registers as a grid of fragments of a matrix instruction: which fragments a warp
//! holds, and in which registers.

use super::operands::Matrix;
use crate::analysis::multiple_of;
use crate::ir::layout::{Axis, Fragment, TileLayout};
use crate::ir::{BinOp, ExecScope, Expr};
use crate::tile::part::Part;
use crate::tile::{Cx, WARP};

/// The grid.
pub(super) struct Grid {
    /// Where each fragment is, counted in fragments.
    layout: TileLayout,
    /// Rows and columns of fragments in all.
    shape: [i64; 2],
    /// Rows and columns of fragments of one warp.
    pub local: [i64; 2],
    /// The first register of the first fragment.
    base: Expr,
    /// Elements of a fragment in one lane.
    elements: i64,
}

impl Grid {
    /// The grid of fragments that the registers of a scope's warps hold.
    ///
    /// # Errors
    /// Where the layout is not made of such fragments, or not of all warps of the scope.
    pub fn of(x: &Matrix, fragment: Fragment, scope: ExecScope, cx: &Cx) -> Result<Grid, String> {
        let [rows, columns] = [x.rows(), x.columns()];
        let part = Part::of(&x.view, cx.ranges)?;
        if !part.is_shared_out() {
            return Err(format!("each thread has a `{}` of its own: give it a layout of fragments", x.view.buffer));
        }
        part.covers(scope, cx)?;
        let turned = x.dims[0] > x.dims[1];
        let own = if turned { part.layout.permute(&[columns, rows], &[1, 0])? } else { part.layout.clone() };
        let layout = own.tiles_of(&fragment.layout(), &[rows, columns], &fragment.shape())?;
        let base = cx.simple(part.at(&vec![Expr::i64(0); part.shape.len()]));
        if multiple_of(&base, cx.ranges) % fragment.elements() != 0 {
            return Err(format!(
                "`{}` starts in the middle of a fragment's {} registers",
                x.view.buffer,
                fragment.elements()
            ));
        }
        let [m, n] = fragment.shape();
        let shape = [rows / m, columns / n];
        let local = layout.local_shape(&shape)?;
        let grid = Grid { layout, shape, local: [local[0], local[1]], base, elements: fragment.elements() };
        grid.numbers(cx, scope)?;
        Ok(grid)
    }

    /// The first register of fragment `(i, j)` of a warp.
    pub fn register(&self, i: &Expr, j: &Expr) -> Expr {
        let at = self.layout.local().memory_offset(&self.local, &[i.clone(), j.clone()]);
        let at = at.unwrap_or_else(|why| panic!("a grid of fragments has registers: {why}"));
        self.base.clone() + at * Expr::i64(self.elements)
    }

    /// Row and column, in fragments, of fragment `(i, j)` of the running warp.
    pub fn place(&self, cx: &Cx, scope: ExecScope, i: &Expr, j: &Expr) -> [Expr; 2] {
        let warp = Expr::binary(BinOp::FloorDiv, cx.rank(scope), Expr::i64(WARP));
        // a layout inside warpgroups says the same of each
        let warp = Expr::binary(BinOp::FloorMod, warp, Expr::i64(self.layout.span(Axis::WarpId)));
        let warp = cx.simple(warp);
        let at = self.layout.coordinates(&self.shape, &|_| warp.clone(), &[i.clone(), j.clone()]);
        let at = at.unwrap_or_else(|why| panic!("a grid of fragments has coordinates: {why}"));
        [cx.simple(at[0].clone()), cx.simple(at[1].clone())]
    }

    /// For each warp of the scope, the numbers of its rows and of its columns of fragments.
    ///
    /// # Errors
    /// Where the layout does not tell which fragments a warp holds.
    pub fn numbers(&self, cx: &Cx, scope: ExecScope) -> Result<Vec<[Vec<i64>; 2]>, String> {
        let warps = self.layout.span(Axis::WarpId);
        let of = |warp: i64| -> Result<[Vec<i64>; 2], String> {
            let one = |i: i64, j: i64| -> Result<[i64; 2], String> {
                let local = [Expr::i64(i), Expr::i64(j)];
                let at = self.layout.coordinates(&self.shape, &|_| Expr::i64(warp % warps), &local)?;
                let number = |e: &Expr| cx.simple(e.clone()).as_int().ok_or("a fragment's place is not constant");
                Ok([number(&at[0])?, number(&at[1])?])
            };
            let rows = (0..self.local[0]).map(|i| Ok(one(i, 0)?[0])).collect::<Result<_, String>>()?;
            let columns = (0..self.local[1]).map(|j| Ok(one(0, j)?[1])).collect::<Result<_, String>>()?;
            Ok([rows, columns])
        };
        (0..cx.threads_in(scope) / WARP).map(of).collect()
    }
}
