//! Rows of a result that are not aligned for wide stores, side by side in the lanes of a warp.
//!
//! Of each row of an accumulator a lane holds pairs, `8 y + 2 q` and the next. Where the rows of the result begin
//! anywhere, as with an odd number of columns, a store of the warp would touch eight rows and fill an eighth of a
//! sector of each. So a warp passes eight rows at a time through its own part of shared memory, and its lanes
//! store neighbours: a row of 32 elements or more with each store.
//!
//! before: `for y < 16 { for v < 2 { t[v] = f(c[y, v]) }; out[i, 8 y + 2 q ..] = t[0..2] }`
//! after:  `for z < 2 { for y < 8 { s[row, 8 y + 2 q ..] = f(c[8 z + y, ..]) }; barrier of the warp;`
//!         `for r < 8, g < 2 { out[i + r - row, 64 z + 32 g + lane] = s[r, 32 g + lane] }; barrier of the warp }`

use super::global_store::GlobalStore;
use super::quads::Pairs;
use crate::analysis::{linear, multiple_of, simplify};
use crate::ir::device::{DFor, DKind, DStmt, all_of, conjuncts, guarded, index_var};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, DType, Expr, ExprKind, Name, Scope, ThreadTag};
use crate::lower::nest::Nest;
use crate::lower::pass::guards::{free_of, strict_difference};

const LANES: i64 = 32;
/// Lanes that share a row of an accumulator, and rows that a warp holds side by side.
const QUAD: i64 = 4;
const ROWS: i64 = LANES / QUAD;
/// Neighbours in a lane, and in the lanes of a quad.
const PAIR: i64 = 2;
const GROUP: i64 = QUAD * PAIR;
/// Bytes that global memory is written in.
const SECTOR: i64 = 32;
/// Bytes of the widest store.
const WIDEST: i64 = 16;

/// Columns that go through shared memory at a time.
const STRIPS: [i64; 4] = [64, 32, 16, 8];

/// Elements from one row in shared memory to the next: an odd number of groups, so that the pairs of eight rows lie
/// in different banks.
fn pitch(columns: i64) -> i64 {
    ((columns / GROUP) | 1) * GROUP
}

/// The loop over strips of rows that a loop over pairs amounts to, whose body is `body`. `None` where pairs fill
/// sectors, or where what they are stored to has no rows.
pub fn of(nest: &mut Nest, pairs: &Pairs, body: &[DStmt]) -> Option<DStmt> {
    let [s] = body else { return None };
    let store = GlobalStore::of(nest, None, s)?;
    let [threads, 1, 1] = nest.block.map(i64::from) else { return None };
    let strip = STRIPS.into_iter().find(|n| pairs.n * GROUP % n == 0).filter(|_| threads % LANES == 0)?;
    let names = ["warp of the block", "row of the warp", "lane of a quad"].map(Name::new);
    let mut ranges = nest.ranges.clone();
    for (name, n) in names.iter().zip([threads / LANES, ROWS, QUAD]) {
        ranges.set(name.clone(), 0, n - 1);
    }
    let [warp, row, lane] = names;
    let patch = Patch { pairs, ranges, warp, row, lane };
    let rows = patch.rows(nest, &store, strip)?;
    let b = nest.buffers.get(&store.buffer)?;
    let pair = if rows.align % PAIR == 0 { PAIR } else { 1 };
    if QUAD * pair * b.dtype.bytes() as i64 >= SECTOR {
        return None;
    }
    let width = rows.width(&patch, b.dtype, strip);
    Some(emit(nest, pairs, &store, &rows, &patch, Strip { columns: strip, width, warps: threads / LANES }))
}

/// The eight rows that a warp holds side by side. `warp`, `row` and `lane` are the digits of the thread's number.
struct Patch<'p> {
    pairs: &'p Pairs<'p>,
    ranges: crate::analysis::Ranges,
    warp: Name,
    row: Name,
    lane: Name,
}

/// Where a row goes: functions of `warp`, `row` and the column, which is a variable.
struct Rows {
    indices: Vec<Expr>,
    valid: Vec<Expr>,
    column: Name,
    /// What the elements at whole strips of columns are multiples of.
    align: i64,
}

impl Patch<'_> {
    fn digits(&self, e: &Expr) -> Expr {
        let [warp, row, lane] = [&self.warp, &self.row, &self.lane].map(index_var);
        let thread = warp * Expr::i64(LANES) + row * Expr::i64(QUAD) + lane;
        let name = Name::new(ThreadTag::ThreadX.name());
        simplify(&e.subst(&|n| (*n == name).then(|| thread.clone())), &self.ranges)
    }

    /// An expression as one of the column, `n` more for each; of those that are the same in a row, as it is.
    fn of_column(&self, e: &Expr, column: &Name) -> Option<(i64, Expr)> {
        let e = self.digits(e);
        let crossed = [self.pairs.v, &self.lane, self.pairs.y];
        if crossed.iter().all(|v| !e.uses_var(v)) {
            return Some((0, e));
        }
        let mut rest = e;
        let mut steps = [0; 3];
        for (step, v) in steps.iter_mut().zip(crossed) {
            let (n, without) = linear(&rest, v, &self.ranges)?;
            (*step, rest) = (n.as_int()?, without);
        }
        let n = steps[0];
        let along = n > 0 && steps == [n, PAIR * n, GROUP * n] && crossed.iter().all(|v| !rest.uses_var(v));
        along.then(|| (n, rest + index_var(column) * Expr::i64(n)))
    }

    /// A condition as one of the column.
    fn condition(&self, cond: &Expr, column: &Name) -> Option<Expr> {
        if let Some((0, same)) = self.of_column(cond, column) {
            return Some(same);
        }
        let difference = strict_difference(cond)?;
        // of whole pairs, `p + e < 0` for the pair `p` of a column `c` says `c + 2 e < 0`
        let of_pair = Expr::i64(PAIR) * difference.clone() + index_var(self.pairs.v);
        let whole = (!difference.uses_var(self.pairs.v)).then_some(of_pair);
        let (_, below) = self.of_column(whole.as_ref().unwrap_or(&difference), column)?;
        Some(Expr::binary(BinOp::Lt, below, Expr::i64(0)))
    }

    fn rows(&self, nest: &mut Nest, store: &GlobalStore, strip: i64) -> Option<Rows> {
        let b = nest.buffers.get(&store.buffer)?.clone();
        if !b.is_row_major() {
            return None;
        }
        let column = nest.loop_var("column", self.pairs.n * GROUP);
        let (last, outer) = store.indices.split_last()?;
        let mut indices = vec![];
        for (i, steps) in outer.iter().map(|i| (i, 0)).chain([(last, 1)]) {
            let (n, e) = self.of_column(i, &column)?;
            indices.push(e);
            (n == steps).then_some(())?;
        }
        let parts = store.cond.as_ref().map(|c| conjuncts(&simplify(c, &nest.ranges))).unwrap_or_default();
        let valid = parts.iter().map(|c| self.condition(c, &column)).collect::<Option<Vec<Expr>>>()?;
        let first = indices.iter().zip(&b.shape).fold(Expr::i64(0), |at, (i, n)| at * n.clone() + i.clone());
        let z = Name::new("strip of columns");
        let of_strip = index_var(&z) * Expr::i64(strip);
        let first = first.subst(&|n| (*n == column).then(|| of_strip.clone()));
        Some(Rows { indices, valid, column, align: multiple_of(&first, &self.ranges) })
    }
}

impl Rows {
    /// How many neighbours are stored at a time: aligned ones, of which all are valid or none.
    fn width(&self, patch: &Patch, dtype: DType, strip: i64) -> i64 {
        let (element, pair) = (Name::new("element of a vector"), Name::new("vector of a row"));
        let fits = |w: i64| {
            let at = index_var(&pair) * Expr::i64(w) + index_var(&element);
            let of = |n: &Name| (*n == self.column).then(|| at.clone());
            let mut ranges = patch.ranges.clone();
            ranges.set(element.clone(), 0, w - 1);
            ranges.set(pair.clone(), 0, patch.pairs.n * GROUP / w - 1);
            let same = |c: &Expr| {
                let c = free_of(&ranges, simplify(&c.subst(&of), &ranges), &[(element.clone(), w)]);
                !c.uses_var(&element)
            };
            self.align % w == 0 && strip / w >= QUAD && self.valid.iter().all(same)
        };
        let mut w = WIDEST / dtype.bytes() as i64;
        while w > 1 && !fits(w) {
            w /= 2;
        }
        w.max(1)
    }
}

/// Columns of a strip, neighbours in a store, warps of the block.
#[derive(Clone, Copy)]
struct Strip {
    columns: i64,
    width: i64,
    warps: i64,
}

fn emit(nest: &mut Nest, pairs: &Pairs, store: &GlobalStore, rows: &Rows, patch: &Patch, strip: Strip) -> DStmt {
    let (dtype, pitch) = (store.value.dtype(), pitch(strip.columns));
    let name =
        nest.scratch(&format!("{}_rows", store.buffer), dtype, Expr::i64(strip.warps * ROWS * pitch), Scope::Shared);
    nest.of_warps.insert(name.clone());
    let thread = index_var(&Name::new(ThreadTag::ThreadX.name()));
    let [warp, lane] = [BinOp::FloorDiv, BinOp::FloorMod].map(|op| Expr::binary(op, thread.clone(), Expr::i64(LANES)));
    let own = warp.clone() * Expr::i64(ROWS * pitch);
    let z = nest.loop_var("z", pairs.n * GROUP / strip.columns);
    let [row, of_quad] = [BinOp::FloorDiv, BinOp::FloorMod].map(|op| Expr::binary(op, lane.clone(), Expr::i64(QUAD)));
    let from = own.clone() + row * Expr::i64(pitch) + of_quad * Expr::i64(PAIR);
    let mut body = vec![into_shared(nest, pairs, store, (&name, from), (&z, strip))];
    body.push(DStmt::Barrier(Barrier::Warp));
    // the lanes of a store have so many neighbours of so many rows
    let across = (strip.columns / strip.width).min(LANES);
    let (down, parts) = (LANES / across, strip.columns / strip.width / across);
    let [r, g, w] = [("r", ROWS / down), ("g", parts), ("w", strip.width)].map(|(s, n)| nest.loop_var(s, n));
    let [below, beside] =
        [BinOp::FloorDiv, BinOp::FloorMod].map(|op| Expr::binary(op, lane.clone(), Expr::i64(across)));
    let row = index_var(&r) * Expr::i64(down) + below;
    let column = (index_var(&g) * Expr::i64(across) + beside) * Expr::i64(strip.width);
    let at = |nest: &Nest, e: &Expr, more: &Expr| {
        let column = index_var(&z) * Expr::i64(strip.columns) + column.clone() + more.clone();
        let of = |n: &Name| match n {
            n if *n == rows.column => Some(column.clone()),
            n if *n == patch.row => Some(row.clone()),
            n if *n == patch.warp => Some(warp.clone()),
            _ => None,
        };
        simplify(&e.subst(&of), &nest.ranges)
    };
    let of_vector = [(w.clone(), strip.width)];
    let valid = rows.valid.iter().map(|c| free_of(&nest.ranges, at(nest, c, &index_var(&w)), &of_vector));
    let valid = all_of(valid);
    let indices = rows.indices.iter().map(|i| at(nest, i, &index_var(&w))).collect();
    let to = own + row.clone() * Expr::i64(pitch) + column.clone() + index_var(&w);
    let value = Expr::load(name, vec![to], dtype);
    let stored = vec![DStmt::Store { buffer: store.buffer.clone(), indices, value, hint: store.hint }];
    let stored = vec![DStmt::For(DFor::new(w, Expr::i64(strip.width), DKind::Vectorized, stored))];
    let stored = DStmt::unrolled(&g, parts, guarded(valid, stored));
    body.push(DStmt::unrolled(&r, ROWS / down, vec![stored]));
    // this barrier is for who writes the rows again
    body.push(DStmt::Barrier(Barrier::Warp));
    DStmt::unrolled(&z, pairs.n * GROUP / strip.columns, body)
}

/// The values of a strip, from where they are held to shared memory.
fn into_shared(
    nest: &mut Nest,
    pairs: &Pairs,
    store: &GlobalStore,
    (name, from): (&Name, Expr),
    (z, strip): (&Name, Strip),
) -> DStmt {
    let (dtype, each) = (store.value.dtype(), strip.columns / GROUP);
    let [y, v, w] = [("y", each), ("v", PAIR), ("w", PAIR)].map(|(s, n)| nest.loop_var(s, n));
    let held = nest.scratch(&format!("{}_pair", store.buffer), dtype, Expr::i64(PAIR), Scope::Local);
    let pair = index_var(z) * Expr::i64(each) + index_var(&y);
    let of = |n: &Name| (n == pairs.y).then(|| pair.clone()).or_else(|| (n == pairs.v).then(|| index_var(&v)));
    let own = |nest: &Nest, e: &Expr| simplify(&e.subst(&of), &nest.ranges);
    let reads = store.value.any(&|e| matches!(e.kind(), ExprKind::Load { buffer, .. } if nest.is_global(buffer)));
    let cond = store.cond.as_ref().filter(|_| reads).map(|c| own(nest, c));
    let mut body = vec![];
    if cond.is_some() {
        // what lies outside goes through shared memory too
        let zero = DStmt::store(held.clone(), vec![index_var(&v)], Expr::constant(0.0, dtype));
        body.push(DStmt::unrolled(&v, PAIR, vec![zero]));
    }
    let value = own(nest, &store.value);
    let computed = vec![DStmt::store(held.clone(), vec![index_var(&v)], value)];
    body.push(DStmt::unrolled(&v, PAIR, guarded(cond, computed)));
    let at = from + index_var(&y) * Expr::i64(GROUP) + index_var(&w);
    let both = DStmt::store(name.clone(), vec![at], Expr::load(held, vec![index_var(&w)], dtype));
    body.push(DStmt::For(DFor::new(w, Expr::i64(PAIR), DKind::Vectorized, vec![both])));
    DStmt::unrolled(&y, each, body)
}
