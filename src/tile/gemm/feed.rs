//! Where the fragments of A and B come from: registers that hold them, or shared memory, by
//! `ldmatrix`, by words, or element by element.

use super::grid::{Element, Grid, elements};
use super::operands::Matrix;
use crate::analysis::multiple_of;
use crate::ir::device::{DStmt, index_var};
use crate::ir::instr::{At, Instr, Op};
use crate::ir::kernel::CacheHint;
use crate::ir::layout::Fragment;
use crate::ir::{BinOp, ExecScope, Expr, Name, Scope};
use crate::tile::copy::moved;
use crate::tile::loops::unrolled;
use crate::tile::{Cx, Emit, View, WARP};

/// Rows of a matrix that `ldmatrix` takes, and elements of a row of 16-bit elements.
const ROW: i64 = 8;
/// Bytes of a row.
const ROW_BYTES: i64 = 16;

/// How an operand is fed.
#[allow(clippy::large_enum_variant)] // one is made at a time
pub(super) enum Feed {
    /// Registers hold its fragments.
    Registers(Grid),
    /// `ldmatrix`; `transpose` where the elements of a column are side by side in memory.
    Matrices { transpose: bool },
    /// Words of that many elements that are side by side in memory along k; 1 for single elements. With
    /// the elements of a fragment.
    Words(i64, Vec<Element>),
}

/// One operand of the instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    A,
    B,
}

impl Feed {
    /// How the fragments of `x` are fed.
    ///
    /// # Errors
    /// Where they are neither in fitting registers nor in shared memory.
    pub fn of(x: &Matrix, side: Side, fragment: Fragment, scope: ExecScope, cx: &Cx) -> Result<Feed, String> {
        if x.view.is_local() {
            return Grid::of(x, fragment, scope, cx).map(Feed::Registers);
        }
        if !x.view.is_shared() {
            let (buffer, memory) = (&x.view.buffer, x.view.scope.name());
            return Err(format!("`{buffer}` is in {memory} memory: copy it to shared memory or registers first"));
        }
        let along_k = if side == Side::A { x.dims[1] } else { x.dims[0] };
        let across = if side == Side::A { x.dims[0] } else { x.dims[1] };
        let width = x.view.dtype.bytes() as i64;
        if width <= 4 && run(x, along_k, cx) >= ROW_BYTES / width {
            return Ok(Feed::Matrices { transpose: false });
        }
        if width == 2 && run(x, across, cx) >= ROW {
            return Ok(Feed::Matrices { transpose: true });
        }
        let word = 4 / width;
        Ok(Feed::Words(if run(x, along_k, cx) >= word { word } else { 1 }, elements(fragment, cx)?))
    }
}

/// How many neighbours along a dimension lie side by side, every group of so many at a multiple of
/// their number.
pub(super) fn run(x: &Matrix, dim: usize, cx: &Cx) -> i64 {
    let Ok((layout, shape)) = x.view.layout() else { return 1 };
    let mut dims: Vec<usize> = (0..shape.len()).filter(|d| *d != dim).collect();
    dims.push(dim);
    let turned: Vec<i64> = dims.iter().map(|d| shape[*d]).collect();
    let aligned = multiple_of(&x.view.begin[dim], cx.ranges);
    let begin = 1 << aligned.trailing_zeros().min(30);
    layout.permute(shape, &dims).map_or(1, |l| l.vector_len(&turned)).min(begin)
}

/// The fragments of one operand for one step along k.
pub(super) struct Step<'a> {
    pub side: Side,
    pub x: &'a Matrix,
    pub feed: &'a Feed,
    pub fragment: Fragment,
    /// The grid of the accumulators, which says which rows and columns the warp needs.
    pub d: &'a Grid,
    /// The step.
    pub k: Expr,
}

impl Step<'_> {
    /// Loads the fragments, where they are not in registers, and gives the place of fragment `var`.
    pub fn load(&self, out: &mut Vec<DStmt>, emit: &mut Emit, var: &Name) -> At {
        let i = index_var(var);
        if let Feed::Registers(grid) = self.feed {
            let at = if self.side == Side::A { grid.register(&i, &self.k) } else { grid.register(&self.k, &i) };
            return At::new(&self.x.view.buffer, emit.simple(at));
        }
        let stem = if self.side == Side::A { "a_frag" } else { "b_frag" };
        let n = self.fragment.elements();
        let scratch = emit.scratch(stem, self.x.view.dtype, n * self.count(), Scope::Local);
        match self.feed {
            Feed::Matrices { transpose } if self.side == Side::A => {
                let load = self.matrices(emit, &scratch, &i, &Expr::i64(0), 4, *transpose);
                out.push(unrolled(var, self.count(), vec![load]));
            }
            Feed::Matrices { transpose } => out.extend(self.columns(emit, &scratch, *transpose)),
            Feed::Words(word, elements) => {
                let body = self.words(emit, &scratch, &i, *word, elements);
                out.push(unrolled(var, self.count(), body));
            }
            Feed::Registers(_) => {}
        }
        At::new(&scratch, emit.simple(i * Expr::i64(n)))
    }

    /// Fragments of a warp.
    fn count(&self) -> i64 {
        if self.side == Side::A { self.d.local[0] } else { self.d.local[1] }
    }

    /// Two columns of fragments of B with each `ldmatrix`, the last alone where their number is odd.
    fn columns(&self, emit: &mut Emit, scratch: &Name, transpose: bool) -> Vec<DStmt> {
        let (pairs, odd) = (self.count() / 2, self.count() % 2);
        let mut out = vec![];
        if pairs > 0 {
            let var = emit.loop_var("j", pairs);
            let second = div(matrix_of(emit, 4), 2);
            let load = self.matrices(emit, scratch, &(index_var(&var) * Expr::i64(2)), &second, 4, transpose);
            out.push(unrolled(&var, pairs, vec![load]));
        }
        if odd == 1 {
            out.push(self.matrices(emit, scratch, &Expr::i64(2 * pairs), &Expr::i64(0), 2, transpose));
        }
        out
    }

    /// One `ldmatrix`. Of A, matrices 0 and 1 are the upper and lower half of rows, 2 and 3 the same
    /// in the second half of k. Of B, matrices 0 and 1 are the halves of k, 2 and 3 those of the next
    /// fragment; `ahead` says which fragment the lane's matrix belongs to, counted from `first`.
    fn matrices(&self, emit: &Emit, scratch: &Name, first: &Expr, ahead: &Expr, count: u32, transpose: bool) -> DStmt {
        let matrix = matrix_of(emit, i64::from(count));
        let line = rem(lane(emit), ROW);
        let (half, k_half) = match self.side {
            Side::A => (rem(matrix.clone(), 2), div(matrix, 2)),
            Side::B => (Expr::i64(0), rem(matrix, 2)),
        };
        let row = ROW_BYTES / self.x.view.dtype.bytes() as i64;
        let (mut across, mut along) = (half * Expr::i64(ROW), k_half * Expr::i64(row));
        if transpose {
            along = along + line
        } else {
            across = across + line
        }
        let across = self.first(emit, &(first.clone() + ahead.clone())) + across;
        let along = self.k.clone() * Expr::i64(2 * row) + along;
        let src = At::new(&self.x.view.buffer, emit.simple(self.at(across, along)));
        let dst = At::new(scratch, emit.simple(first.clone() * Expr::i64(self.fragment.elements())));
        DStmt::Instr(Instr::new(Op::LdMatrix { count, transpose }, [dst, src], []))
    }

    /// One fragment by words or single elements.
    fn words(&self, emit: &Emit, scratch: &Name, i: &Expr, word: i64, elements: &[Element]) -> Vec<DStmt> {
        let along_k = if self.side == Side::A { 1 } else { 0 };
        let depth = self.fragment.shape()[along_k];
        let copy = |element: &Element| {
            let across = self.first(emit, i) + element.at[1 - along_k].clone();
            let along = self.k.clone() * Expr::i64(depth) + element.at[along_k].clone();
            let from = emit.simple(self.at(across, along));
            let to = emit.simple(i.clone() * Expr::i64(self.fragment.elements()) + element.register.clone());
            let View { buffer, dtype, .. } = &self.x.view;
            moved((scratch, to), (buffer, from), *dtype, word, CacheHint::Plain)
        };
        elements.iter().filter(|e| e.own[along_k] % word == 0).map(copy).collect()
    }

    /// The first row (of A) or column (of B) of the warp's fragment `i`.
    fn first(&self, emit: &Emit, i: &Expr) -> Expr {
        let zero = Expr::i64(0);
        let [m, n] = Fragment::M16N8Acc.shape().map(Expr::i64);
        match self.side {
            Side::A => self.d.place(&emit.cx(), i, &zero)[0].clone() * m,
            Side::B => self.d.place(&emit.cx(), &zero, i)[1].clone() * n,
        }
    }

    fn at(&self, across: Expr, along_k: Expr) -> Expr {
        match self.side {
            Side::A => self.x.at(across, along_k),
            Side::B => self.x.at(along_k, across),
        }
    }
}

/// The lane of the running thread.
fn lane(emit: &Emit) -> Expr {
    emit.cx().rank(ExecScope::Warp)
}

/// Which of `count` matrices the lane gives a row of.
fn matrix_of(emit: &Emit, count: i64) -> Expr {
    let all = div(lane(emit), ROW);
    if count * ROW == WARP { all } else { rem(all, count) }
}

fn div(a: Expr, n: i64) -> Expr {
    Expr::binary(BinOp::FloorDiv, a, Expr::i64(n))
}

fn rem(a: Expr, n: i64) -> Expr {
    Expr::binary(BinOp::FloorMod, a, Expr::i64(n))
}
