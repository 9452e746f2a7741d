//! A matrix in registers as a grid of fragments of a matrix instruction: which fragments a warp
//! holds, and in which registers.

use super::operands::{Matrix, Product, Start};
use crate::analysis::multiple_of;
use crate::ir::device::{DStmt, index_var};
use crate::ir::layout::{Axis, Bundles, Fragment, Over};
use crate::ir::{BinOp, ExecScope, Expr};
use crate::tile::loops::unrolled;
use crate::tile::{Cx, Emit, Part, WARP};

/// The grid.
pub(crate) struct Grid {
    /// Rows and columns of fragments of one warp.
    pub local: [i64; 2],
    /// For each warp of the scope, the numbers of its rows and of its columns of fragments.
    pub numbers: Vec<[Vec<i64>; 2]>,
    /// What a lane holds of a fragment.
    pub fragment: Vec<Element>,
    /// Where each fragment is, counted in fragments.
    places: Bundles,
    /// Where the registers of a warp's fragments are, counted in fragments.
    registers: Over,
    /// The first register of the first fragment.
    base: Expr,
    /// Warps that the layout tells apart.
    warps: i64,
    /// The running warp's number.
    warp: Expr,
}

impl Grid {
    /// The grid of fragments that the registers of a scope's warps hold.
    ///
    /// # Errors
    /// Where the layout is not made of such fragments, or not of all warps of the scope, or does not tell
    /// which fragments a warp holds.
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
            let (name, n) = (&x.view.buffer, fragment.elements());
            return Err(format!("`{name}` starts in the middle of a fragment's {n} registers"));
        }
        let [m, n] = fragment.shape();
        let shape = [rows / m, columns / n];
        let local = layout.local_shape(&shape)?;
        let local = [local[0], local[1]];
        let places = layout.bundles(&shape)?;
        // a layout inside warpgroups says the same of each
        let warps = layout.span(Axis::WarpId);
        let numbers = numbers(&places, local, (0..cx.threads_in(scope) / WARP).map(|warp| warp % warps), cx)?;
        let warp = Expr::binary(BinOp::FloorDiv, cx.rank(scope), Expr::i64(WARP));
        let (fragment, registers) = (elements(fragment, cx)?, layout.local().over(&local)?);
        Ok(Grid { local, numbers, fragment, places, registers, base, warps, warp })
    }

    /// The first register of fragment `(i, j)` of a warp.
    pub fn register(&self, i: &Expr, j: &Expr) -> Expr {
        self.base.clone() + self.registers.memory(&[i.clone(), j.clone()]) * Expr::i64(self.fragment.len() as i64)
    }

    /// Zeroes D, whose grid this is, where it starts from zero.
    pub(super) fn zeros(&self, p: &Product, emit: &mut Emit) -> Vec<DStmt> {
        if matches!(p.start, Start::Old) {
            return vec![];
        }
        let ([rows, columns], view) = (self.local, &p.d.view);
        let (i, j) = (emit.loop_var("i", rows), emit.loop_var("j", columns));
        let first = self.register(&index_var(&i), &index_var(&j));
        let zero = |n| view.store(emit.simple(first.clone() + Expr::i64(n)), Expr::constant(0.0, view.dtype));
        let body = (0..self.fragment.len() as i64).map(zero).collect();
        vec![unrolled(&i, rows, vec![unrolled(&j, columns, body)])]
    }

    /// Row and column, in fragments, of fragment `(i, j)` of the running warp.
    pub fn place(&self, cx: &Cx, i: &Expr, j: &Expr) -> [Expr; 2] {
        self.place_of(cx, &self.warp, i, j)
    }

    /// Row and column, in fragments, of fragment `(i, j)` of a warp of the scope.
    pub fn place_of(&self, cx: &Cx, warp: &Expr, i: &Expr, j: &Expr) -> [Expr; 2] {
        let warp = cx.simple(Expr::binary(BinOp::FloorMod, warp.clone(), Expr::i64(self.warps)));
        let at = self.places.coordinates(&|_| warp.clone(), &[i.clone(), j.clone()]);
        [cx.simple(at[0].clone()), cx.simple(at[1].clone())]
    }
}

/// The numbers of the rows and of the columns of fragments of each warp.
fn numbers(
    places: &Bundles,
    local: [i64; 2],
    warps: impl Iterator<Item = i64>,
    cx: &Cx,
) -> Result<Vec<[Vec<i64>; 2]>, String> {
    let of = |warp: i64| -> Result<[Vec<i64>; 2], String> {
        let number = |i: i64, j: i64, side: usize| {
            let at = places.coordinates(&|_| Expr::i64(warp), &[Expr::i64(i), Expr::i64(j)]);
            cx.simple(at[side].clone()).as_int().ok_or("a fragment's place is not constant")
        };
        let rows = (0..local[0]).map(|i| number(i, 0, 0)).collect::<Result<_, _>>()?;
        let columns = (0..local[1]).map(|j| number(0, j, 1)).collect::<Result<_, _>>()?;
        Ok([rows, columns])
    };
    warps.map(of).collect()
}

/// An element of a fragment that each lane holds.
pub(crate) struct Element {
    /// Its number in the lane's part of each dimension.
    pub own: [i64; 2],
    /// Row and column in the fragment.
    pub at: Vec<Expr>,
    /// Its number among the lane's registers.
    pub register: Expr,
}

/// The elements of a fragment that a lane holds.
///
/// # Errors
/// Where the layout of the fragment is not one of registers.
pub(super) fn elements(fragment: Fragment, cx: &Cx) -> Result<Vec<Element>, String> {
    let (layout, shape, lane) = (fragment.layout(), fragment.shape(), cx.rank(ExecScope::Warp));
    let (local, places) = (layout.local_shape(&shape)?, layout.bundles(&shape)?);
    let registers = layout.local().over(&local)?;
    let element = |own: [i64; 2]| {
        let index = own.map(Expr::i64);
        let at = places.coordinates(&|_| lane.clone(), &index);
        Element { own, at, register: registers.memory(&index) }
    };
    Ok((0..local[0]).flat_map(|x| (0..local[1]).map(move |y| [x, y])).map(element).collect())
}
