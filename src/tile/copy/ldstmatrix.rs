//! `ldmatrix` and `stmatrix`: a warp moves 8x8 matrices of 16-bit elements between shared memory and
//! registers, four, two or one at a time.
//!
//! When: one side in shared memory and one in registers, all threads of a scope of whole warps, a
//! matrix of 8x8 blocks whose registers are laid out as the instruction has them, straight or
//! transposed, and whose rows of 8 elements are adjacent in shared memory and aligned to 16 bytes (in
//! permuted memory within what moves together). Stores need sm_90.
//!
//! before: `Tx.warp.copy(R[0:16, 0:16], A_smem[0:16, 0:16])`, R as operand A of `mma.m16n8k16`
//! after:  `ldmatrix_x4 R[0] <- A_smem[(lane % 8 + lane / 8 % 2 * 8) * 16 + lane / 16 * 8]`
//!
//! Declines other elements and memories, shapes, rows and layouts that are not of this kind.

use super::pair::{box_of, spread};
use super::{Bundle, OPS, Pair, Side, Walk, check};
use crate::ir::device::DStmt;
use crate::ir::instr::{At, Instr, Op};
use crate::ir::layout::{Axis, Fragment, TileLayout};
use crate::ir::{BinOp, ExecScope, Expr, TileCall};
use crate::tile::part::Part;
use crate::tile::predicates::{ALL_THREADS, WARPS, takes};
use crate::tile::{Cx, Emit, Predicate, Variant, View, WARP, WARPGROUP};

/// Rows and columns of a matrix.
const EDGE: i64 = 8;
/// Bytes of a row, which are adjacent and aligned.
const ROW_BYTES: i64 = 16;

pub(super) const VARIANT: Variant = Variant {
    name: "ldstmatrix",
    ops: OPS,
    priority: 20,
    only_forced: false,
    when: &[
        check::OPERANDS,
        check::DTYPE,
        check::SAME_SHAPE,
        ALL_THREADS,
        WARPS,
        Predicate { name: "storage_scope", check: storage_scope },
        Predicate { name: "element", check: element },
        Predicate { name: "sm_version", check: sm_version },
        Predicate { name: "shape", check: |call, cx| shape(&Pair::of(call, cx)?).map(drop) },
        Predicate { name: "rows", check: rows },
        Predicate { name: "fragments", check: |call, cx| Matrices::of(call, cx).map(drop) },
        Predicate { name: "options", check: |call, _| check::known(call, &[]) },
    ],
    emit,
};

fn storage_scope(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let pair = Pair::of(call, cx)?;
    sides(&pair).map(drop)
}

/// The side in registers and the side in shared memory.
fn sides(pair: &Pair) -> Result<(&View, &View), String> {
    let (from, to) = (pair.src.scope.name(), pair.dst.scope.name());
    let why = || format!("the copy is from {from} to {to}; the instruction moves between shared memory and registers");
    pair.register_side().filter(|(_, other)| other.is_shared()).ok_or_else(why)
}

fn element(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let dtype = Pair::of(call, cx)?.dst.dtype;
    if dtype.bytes() == 2 {
        return Ok(());
    }
    Err(format!("elements are {dtype} of {} bits; matrices are of 16-bit elements", 8 * dtype.bytes()))
}

fn sm_version(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let stores = Pair::of(call, cx)?.src.is_local();
    takes(cx, !stores || cx.target.has.stmatrix, "stmatrix", 90)
}

/// Rows and columns of the tile.
fn shape(pair: &Pair) -> Result<[i64; 2], String> {
    match box_of(&pair.dst.extent).as_slice() {
        [r, c] if r % EDGE == 0 && c % EDGE == 0 && r * c > 0 => Ok([*r, *c]),
        other => Err(format!("the tile is {other:?}, not a matrix of {EDGE}x{EDGE} blocks")),
    }
}

/// The dimensions along which rows of a matrix may lie.
fn row_dims(call: &TileCall, cx: &Cx) -> Result<Vec<usize>, String> {
    let pair = Pair::of(call, cx)?;
    let extent = shape(&pair)?;
    let (_, shared) = sides(&pair)?;
    let side = Side::of(shared, ROW_BYTES, |i| spread(&shared.extent, i));
    let along = |d: &usize| side.takes(&Walk::along(&extent, *d, EDGE), cx.ranges);
    Ok([1, 0].into_iter().filter(along).collect())
}

fn rows(call: &TileCall, cx: &Cx) -> Result<(), String> {
    if row_dims(call, cx)?.is_empty() {
        let pair = Pair::of(call, cx)?;
        let name = &sides(&pair)?.1.buffer;
        return Err(format!("rows of {EDGE} elements of `{name}` are not adjacent and aligned to {ROW_BYTES} bytes"));
    }
    Ok(())
}

/// A tile made of matrices.
struct Matrices {
    registers: Part,
    /// Matrices along rows and along columns, as the registers place them.
    grid: TileLayout,
    shape: [i64; 2],
    /// The dimension of the tile along which rows lie.
    row_dim: usize,
    transpose: bool,
}

/// Matrices that one instruction moves: the place of the first pair of registers, and the indices in a
/// warp's matrices of the first, and what the bits of the matrix's number add to them.
struct Group {
    pair: i64,
    count: u32,
    first: [i64; 2],
    steps: [[i64; 2]; 2],
}

impl Matrices {
    fn of(call: &TileCall, cx: &Cx) -> Result<Matrices, String> {
        let pair = Pair::of(call, cx)?;
        let (local, _) = sides(&pair)?;
        let extent = shape(&pair)?;
        Bundle::of(local, call.scope, cx)?;
        let registers = Part::of(local, cx.ranges)?;
        let mut why = rows(call, cx).err().unwrap_or_default();
        for row_dim in row_dims(call, cx)? {
            let (layout, turned) = match row_dim {
                1 => (registers.layout.clone(), extent),
                _ => (registers.layout.permute(&extent, &[1, 0])?, [extent[1], extent[0]]),
            };
            for (fragment, transpose) in [(Fragment::Ldmatrix, false), (Fragment::LdmatrixTrans, true)] {
                match layout.tiles_of(&fragment.layout(), &turned, &fragment.shape()) {
                    Ok(grid) => {
                        let shape = turned.map(|n| n / EDGE);
                        let found = Matrices { registers, grid, shape, row_dim, transpose };
                        found.place(cx, &[Expr::i64(0), Expr::i64(0)])?;
                        return Ok(found);
                    }
                    Err(e) => why = e,
                }
            }
        }
        Err(why)
    }

    /// The matrix, in the grid, that is a warp's own of that index.
    fn place(&self, cx: &Cx, own: &[Expr]) -> Result<Vec<Expr>, String> {
        self.grid.coordinates(&self.shape, &|axis| warp(axis, cx), own)
    }

    /// The instructions for a warp's matrices.
    fn groups(&self) -> Vec<Group> {
        let held = self.grid.local_shape(&self.shape).unwrap_or_else(|_| self.shape.to_vec());
        let local = self.grid.local();
        let columns = held.get(1).copied().unwrap_or(1);
        let mut all: Vec<(i64, [i64; 2])> =
            (0..local.size()).map(|n| (local.apply(n).get(Axis::M), [n / columns, n % columns])).collect();
        all.sort_unstable();
        let mut out = vec![];
        let mut rest = all.as_slice();
        while !rest.is_empty() {
            let group = [4, 2].into_iter().find_map(|n| Group::of(rest.get(..n)?));
            let group = group.unwrap_or(Group { pair: rest[0].0, count: 1, first: rest[0].1, steps: [[0; 2]; 2] });
            rest = &rest[group.count as usize..];
            out.push(group);
        }
        out
    }
}

impl Group {
    /// The group of two or four matrices, if their registers are adjacent and their places regular.
    fn of(m: &[(i64, [i64; 2])]) -> Option<Group> {
        let (pair, first) = m[0];
        let adjacent = m.iter().zip(pair..).all(|((p, _), want)| *p == want);
        let step = |k: usize| m.get(k).map_or([0; 2], |(_, at)| [at[0] - first[0], at[1] - first[1]]);
        let (low, high, both) = (step(1), step(2), step(3));
        let regular = m.len() < 4 || (0..2).all(|d| both[d] == low[d] + high[d]);
        (adjacent && regular).then_some(Group { pair, count: m.len() as u32, first, steps: [low, high] })
    }
}

/// The warp's value on an axis.
fn warp(axis: Axis, cx: &Cx) -> Expr {
    let part = |n| cx.simple(Expr::binary(BinOp::FloorDiv, cx.thread(), Expr::i64(n)));
    match axis {
        Axis::WarpId => part(WARP),
        Axis::WgId => part(WARPGROUP),
        Axis::WidInWg => cx.simple(Expr::binary(BinOp::FloorMod, part(WARP), Expr::i64(WARPGROUP / WARP))),
        _ => Expr::i64(0),
    }
}

fn emit(call: &TileCall, e: &mut Emit) -> Vec<DStmt> {
    let pair = Pair::accepted(call, e);
    let cx = e.cx();
    let (Ok((local, shared)), Ok(m)) = (sides(&pair), Matrices::of(call, &cx)) else { return vec![] };
    let lane = cx.rank(ExecScope::Warp);
    let first = m.registers.view.at(&vec![Expr::i64(0); local.extent.len()]);
    let mut out = vec![];
    for group in m.groups() {
        let rows = At::new(&shared.buffer, row(&m, &group, shared, &lane, &cx));
        let registers = At::new(&local.buffer, cx.simple(first.clone() + Expr::i64(2 * group.pair)));
        let (count, transpose) = (group.count, m.transpose);
        out.push(DStmt::Instr(if pair.dst.is_local() {
            Instr::new(Op::LdMatrix { count, transpose }, [registers, rows], [])
        } else {
            Instr::new(Op::StMatrix { count, transpose }, [rows, registers], [])
        }));
    }
    out
}

/// The place of the row that a lane gives.
fn row(m: &Matrices, group: &Group, shared: &View, lane: &Expr, cx: &Cx) -> Expr {
    let bit = |k: i64| {
        let above = Expr::binary(BinOp::FloorDiv, lane.clone(), Expr::i64(EDGE << k));
        Expr::binary(BinOp::FloorMod, above, Expr::i64(2))
    };
    let bits = [bit(0), bit(1)];
    let own: Vec<Expr> = (0..2)
        .map(|d| {
            let steps = group.steps.iter().zip(&bits).map(|(s, bit)| bit.clone() * Expr::i64(s[d]));
            cx.simple(steps.fold(Expr::i64(group.first[d]), |sum, s| sum + s))
        })
        .collect();
    let tile = m.place(cx, &own).unwrap_or(own);
    let inside = Expr::binary(BinOp::FloorMod, lane.clone(), Expr::i64(EDGE));
    let r = tile[0].clone() * Expr::i64(EDGE) + inside;
    let c = tile[1].clone() * Expr::i64(EDGE);
    let index = if m.row_dim == 1 { [r, c] } else { [c, r] };
    cx.simple(shared.at(&spread(&shared.extent, &index.map(|i| cx.simple(i)))))
}
