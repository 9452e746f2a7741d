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
use crate::ir::layout::{Axis, Bundles, Fragment, TileLayout};
use crate::ir::{BinOp, ExecScope, Expr, TileCall};
use crate::tile::predicates::{all_threads, takes, warps};
use crate::tile::{Cx, Plan, Refusals, Variant, View, WARP, WARPGROUP};

/// Rows and columns of a matrix.
const EDGE: i64 = 8;
/// Bytes of a row, which are adjacent and aligned.
const ROW_BYTES: i64 = 16;

pub(super) const VARIANT: Variant = Variant { name: "ldstmatrix", ops: OPS, priority: 20, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let pair = check::pair(call, cx, r);
    all_threads(call, cx, r);
    warps(call, r);
    r.ask_of("storage_scope", &pair, |p| sides(p).map(drop));
    r.ask_of("element", &pair, element);
    let has = |p: &Pair| !p.src.is_local() || cx.target.has.stmatrix;
    r.ask_of("sm_version", &pair, |p| takes(cx, has(p), "stmatrix", 90));
    r.ask_of("shape", &pair, |p| shape(p).map(drop));
    r.ask_of("rows", &pair, |p| row_dims(p, cx).map(drop));
    let matrices = r.ask_of("fragments", &pair, |p| Matrices::of(p, call.scope, cx));
    check::options(call, &[], r);
    let matrices = matrices?;
    Some(Box::new(move |e| matrices.emit(&e.cx())))
}

/// The side in registers and the side in shared memory.
fn sides(pair: &Pair) -> Result<(&View, &View), String> {
    let (from, to) = (pair.src.scope.name(), pair.dst.scope.name());
    let why = || format!("the copy is from {from} to {to}; the instruction moves between shared memory and registers");
    pair.register_side().filter(|(_, other)| other.is_shared()).ok_or_else(why)
}

fn element(pair: &Pair) -> Result<(), String> {
    let dtype = pair.dst.dtype;
    if dtype.bytes() == 2 {
        return Ok(());
    }
    Err(format!("elements are {dtype} of {} bits; matrices are of 16-bit elements", 8 * dtype.bytes()))
}

/// Rows and columns of the tile.
fn shape(pair: &Pair) -> Result<[i64; 2], String> {
    match box_of(&pair.dst.extent).as_slice() {
        [r, c] if r % EDGE == 0 && c % EDGE == 0 && r * c > 0 => Ok([*r, *c]),
        other => Err(format!("the tile is {other:?}, not a matrix of {EDGE}x{EDGE} blocks")),
    }
}

/// The dimensions along which rows of a matrix may lie.
fn row_dims(pair: &Pair, cx: &Cx) -> Result<Vec<usize>, String> {
    let extent = shape(pair)?;
    let (_, shared) = sides(pair)?;
    let side = Side::of(shared, ROW_BYTES, |i| spread(&shared.extent, i));
    let dims = [1, 0].into_iter().filter(|d| side.takes(&Walk::along(&extent, *d, EDGE), cx.ranges));
    match dims.collect::<Vec<_>>() {
        none if none.is_empty() => Err(format!(
            "rows of {EDGE} elements of `{}` are not adjacent and aligned to {ROW_BYTES} bytes",
            shared.buffer
        )),
        dims => Ok(dims),
    }
}

/// A tile made of matrices.
struct Matrices {
    local: View,
    shared: View,
    /// From shared memory to registers.
    loads: bool,
    /// Where a warp's matrices are, in rows and columns of matrices.
    places: Bundles,
    groups: Vec<Group>,
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
    fn of(pair: &Pair, scope: ExecScope, cx: &Cx) -> Result<Matrices, String> {
        let (local, shared) = sides(pair)?;
        let extent = shape(pair)?;
        let registers = Bundle::of(local, scope, cx)?.part.layout;
        let mut why = String::new();
        for row_dim in row_dims(pair, cx)? {
            let (layout, turned) = match row_dim {
                1 => (registers.clone(), extent),
                _ => (registers.permute(&extent, &[1, 0])?, [extent[1], extent[0]]),
            };
            let shape = turned.map(|n| n / EDGE);
            for (fragment, transpose) in [(Fragment::Ldmatrix, false), (Fragment::LdmatrixTrans, true)] {
                match layout.tiles_of(&fragment.layout(), &turned, &fragment.shape()) {
                    Ok(grid) => {
                        let (places, groups) = (grid.bundles(&shape)?, Group::all(&grid, &shape)?);
                        let (local, shared, loads) = (local.clone(), shared.clone(), pair.dst.is_local());
                        return Ok(Matrices { local, shared, loads, places, groups, row_dim, transpose });
                    }
                    Err(e) => why = e,
                }
            }
        }
        Err(why)
    }

    fn emit(&self, cx: &Cx) -> Vec<DStmt> {
        let (lane, first) = (cx.rank(ExecScope::Warp), self.local.first());
        let moved = |group: &Group| {
            let row = At::new(&self.shared.buffer, self.row(group, &lane, cx));
            let register = At::new(&self.local.buffer, cx.simple(first.clone() + Expr::i64(2 * group.pair)));
            let (count, transpose) = (group.count, self.transpose);
            DStmt::Instr(match self.loads {
                true => Instr::new(Op::LdMatrix { count, transpose }, [register, row], []),
                false => Instr::new(Op::StMatrix { count, transpose }, [row, register], []),
            })
        };
        self.groups.iter().map(moved).collect()
    }

    /// The place of the row that a lane gives.
    fn row(&self, group: &Group, lane: &Expr, cx: &Cx) -> Expr {
        let bit = |k: i64| {
            let above = Expr::binary(BinOp::FloorDiv, lane.clone(), Expr::i64(EDGE << k));
            Expr::binary(BinOp::FloorMod, above, Expr::i64(2))
        };
        let bits = [bit(0), bit(1)];
        let own = [0, 1].map(|d| {
            let steps = group.steps.iter().zip(&bits).map(|(s, bit)| bit.clone() * Expr::i64(s[d]));
            cx.simple(steps.fold(Expr::i64(group.first[d]), |sum, s| sum + s))
        });
        let tile = self.places.coordinates(&|axis| warp(axis, cx), &own);
        let inside = Expr::binary(BinOp::FloorMod, lane.clone(), Expr::i64(EDGE));
        let r = tile[0].clone() * Expr::i64(EDGE) + inside;
        let c = tile[1].clone() * Expr::i64(EDGE);
        let index = if self.row_dim == 1 { [r, c] } else { [c, r] };
        cx.simple(self.shared.at(&spread(&self.shared.extent, &index.map(|i| cx.simple(i)))))
    }
}

impl Group {
    /// The instructions for a warp's matrices.
    fn all(grid: &TileLayout, shape: &[i64; 2]) -> Result<Vec<Group>, String> {
        let (columns, local) = (grid.local_shape(shape)?[1], grid.local());
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
        Ok(out)
    }

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
