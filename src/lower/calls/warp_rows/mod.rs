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
//!
//! Where the value reads global memory too, as with a residual, what is held passes as it is and the value is computed
//! of neighbours (`value.rs`).
//!
//! Where the factors of a product are exchanged, columns of the accumulator are rows of the result. Of each of these a
//! warp has sixteen neighbours, in the lanes of a column, and passes them in the same way, the columns in strips:
//!
//! before: `for x < 2, y < 16 { for v < 2 { t[v] = f(c[x, y, v]) }; out[8 y + 2 q + v, 8 x + row] = t[0..2] }`
//! after:  `for z < 4 { for y < 4, v < 2, h < 2 { s[8 y + 2 q + v, 8 h + row] = f(c[h, 4 z + y, v]) }; barrier of the warp;`
//!         `for r < 2 { out[32 z + 16 r + lane / 2, 8 (lane % 2) ..] = s[..] }; barrier of the warp }`

mod patch;
mod rows;
mod value;

use self::patch::{BOTH, GROUP, HALVES, LANES, PAIR, Patch, QUAD, ROWS};
use self::rows::{Rows, Size};
use self::value::RowValue;
use super::global_store::GlobalStore;
use super::quads::Pairs;
use crate::analysis::simplify;
use crate::ir::device::{DFor, DKind, DStmt, all_of, guarded, index_var};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, Expr, Name, Scope, ThreadTag};
use crate::lower::nest::Nest;
use crate::lower::pass::guards::free_of;

/// Bytes that global memory is written in.
const SECTOR: i64 = 32;

/// Columns that go through shared memory at a time, where they are neighbours and where they are lines.
const STRIPS: [i64; 4] = [64, 32, 16, 8];
const LINES: [i64; 3] = [32, 16, 8];
/// Bytes between lines of sixteen elements in shared memory, beside these.
const APART: i64 = 16;

/// The loop over strips of rows that a loop over pairs amounts to, whose body is `body`. `None` where pairs fill
/// sectors, or where what they are stored to has no rows.
pub fn of(nest: &mut Nest, pairs: &Pairs, body: &[DStmt]) -> Option<DStmt> {
    let [s] = body else { return None };
    let store = GlobalStore::of(nest, None, s)?;
    let [threads, 1, 1] = nest.block.map(i64::from) else { return None };
    let columns = STRIPS.into_iter().find(|n| pairs.n * GROUP % n == 0).filter(|_| threads % LANES == 0)?;
    let patch = Patch::new(pairs, &nest.ranges, threads);
    let rows = Rows::of(&patch, nest, &store, columns)?;
    let bytes = nest.buffers.get(&store.buffer)?.dtype.bytes() as i64;
    let pair = if rows.align % PAIR == 0 { PAIR } else { 1 };
    if QUAD * pair * bytes >= SECTOR {
        return None;
    }
    let size = Size { lines: ROWS, length: columns };
    Some(Strip::new(nest, &patch, (&store, &rows), size, threads / LANES).emit(nest))
}

/// The loops over pairs of groups of eight rows, and over strips of columns, that the `groups` steps of the loop `x` over
/// `pairs` amount to, whose body is `body`, where columns of the accumulator are rows of the result. `None` where eight
/// neighbours fill sectors, and for other results.
pub fn of_columns(nest: &mut Nest, (x, groups): (&Name, i64), pairs: &Pairs, body: &[DStmt]) -> Option<DStmt> {
    let [s] = body else { return None };
    let store = GlobalStore::of(nest, None, s).filter(|_| groups % HALVES == 0)?;
    let bytes = nest.buffers.get(&store.buffer)?.dtype.bytes() as i64;
    let [threads, 1, 1] = nest.block.map(i64::from) else { return None };
    if ROWS * bytes >= SECTOR || threads % LANES != 0 {
        return None;
    }
    let lines = LINES.into_iter().find(|n| pairs.n * GROUP % n == 0)?;
    let both = nest.loop_var("x", groups / HALVES);
    let patch = Patch::new(pairs, &nest.ranges, threads).of_halves(x, (both.clone(), groups / HALVES));
    let rows = Rows::of(&patch, nest, &store, BOTH)?;
    let size = Size { lines, length: BOTH };
    let strips = Strip::new(nest, &patch, (&store, &rows), size, threads / LANES).emit(nest);
    Some(DStmt::unrolled(&both, groups / HALVES, vec![strips]))
}

/// A strip of lines of neighbours that a warp stores at a time, how many of them together, and the warps of the block.
struct Strip<'s> {
    patch: &'s Patch<'s>,
    store: &'s GlobalStore,
    rows: &'s Rows,
    size: Size,
    width: i64,
    warps: i64,
}

/// The elements of a strip that a lane stores: `w` of the neighbours `along` a `line`.
struct Own {
    r: Name,
    g: Name,
    w: Name,
    line: Expr,
    along: Expr,
}

impl<'s> Strip<'s> {
    fn new(
        nest: &Nest,
        patch: &'s Patch<'s>,
        (store, rows): (&'s GlobalStore, &'s Rows),
        size: Size,
        warps: i64,
    ) -> Strip<'s> {
        let width = rows.width(patch, nest.buffers[&store.buffer].dtype, size);
        Strip { patch, store, rows, size, width, warps }
    }

    /// Columns of the accumulator that go through shared memory at a time.
    fn columns(&self) -> i64 {
        if self.patch.halves().is_some() { self.size.lines } else { self.size.length }
    }

    /// Elements from one line in shared memory to the next: pairs of eight rows, or elements of eight columns, lie in
    /// different banks.
    fn pitch(&self, bytes: i64) -> i64 {
        match self.patch.halves() {
            Some(_) => self.size.length + APART / bytes,
            None => ((self.size.length / GROUP) | 1) * GROUP,
        }
    }

    fn emit(&self, nest: &mut Nest) -> DStmt {
        let Size { lines, length } = self.size;
        let each = (lines * length / LANES) as usize;
        let value = RowValue::of(nest, self.patch, &self.rows.column, &self.store.value, each);
        let held = value.as_ref().map_or(&self.store.value, |v| &v.held);
        let len = Expr::i64(self.warps * lines * self.pitch(held.dtype().bytes() as i64));
        let name = nest.scratch(&format!("{}_rows", self.store.buffer), held.dtype(), len, Scope::Shared);
        nest.of_warps.insert(name.clone());
        let strips = self.patch.pairs.n * GROUP / self.columns();
        let z = nest.loop_var("z", strips);
        let own = self.own(nest);
        let (mut body, mut read) = (vec![], vec![]);
        for load in value.iter().flat_map(|v| &v.reads) {
            let (early, element) = self.early(nest, load, &z, &own);
            body.push(early);
            read.push(element);
        }
        body.push(self.pass(nest, (&name, held), &z));
        body.push(DStmt::Barrier(Barrier::Warp));
        let (back, passed) = self.back(nest, &name, &own);
        body.push(back);
        let (mut part, stored) = match &value {
            Some(v) => self.computed(nest, self.at(nest, &v.with(&passed, &read), &z, &own), &own),
            None => (vec![], passed),
        };
        let indices = self.rows.indices.iter().map(|i| self.at(nest, i, &z, &own)).collect();
        let GlobalStore { buffer, hint, .. } = self.store;
        let store = DStmt::Store { buffer: buffer.clone(), indices, value: stored, hint: *hint };
        part.push(self.vector(&own, DKind::Vectorized, store));
        let valid = self.valid(nest, &z, &own);
        body.push(self.each_part(&own, valid, part));
        // this barrier is for who writes the lines again
        body.push(DStmt::Barrier(Barrier::Warp));
        DStmt::unrolled(&z, strips, body)
    }

    /// Lanes beside each other in a line, lines of lanes, and how many such parts a line of the strip has.
    fn spread(&self) -> [i64; 3] {
        let vectors = self.size.length / self.width;
        let across = vectors.min(LANES);
        [across, LANES / across, vectors / across]
    }

    fn own(&self, nest: &mut Nest) -> Own {
        let [across, down, parts] = self.spread();
        let [r, g, w] =
            [("r", self.size.lines / down), ("g", parts), ("w", self.width)].map(|(s, n)| nest.loop_var(s, n));
        let [below, beside] = [BinOp::FloorDiv, BinOp::FloorMod].map(|op| Expr::binary(op, lane(), Expr::i64(across)));
        let line = index_var(&r) * Expr::i64(down) + below;
        let along = (index_var(&g) * Expr::i64(across) + beside) * Expr::i64(self.width);
        Own { r, g, w, line, along }
    }

    /// The first element of a line in shared memory.
    fn own_line(&self, line: Expr, bytes: i64) -> Expr {
        let pitch = self.pitch(bytes);
        warp() * Expr::i64(self.size.lines * pitch) + line * Expr::i64(pitch)
    }

    /// What a function of warp, row and column is for a lane's own elements.
    fn at(&self, nest: &Nest, e: &Expr, z: &Name, own: &Own) -> Expr {
        let strip = index_var(z) * Expr::i64(self.columns());
        let (line, along) = (own.line.clone(), own.along.clone() + index_var(&own.w));
        let (row, column) = match self.patch.halves() {
            Some(_) => (along, strip + line),
            None => (line, strip + along),
        };
        let of = |n: &Name| match n {
            n if *n == self.rows.column => Some(column.clone()),
            n if *n == self.patch.row => Some(row.clone()),
            n if *n == self.patch.warp => Some(warp()),
            _ => None,
        };
        simplify(&e.subst(&of), &nest.ranges)
    }

    /// Where a lane's own neighbours are valid.
    fn valid(&self, nest: &Nest, z: &Name, own: &Own) -> Option<Expr> {
        let of_vector = [(own.w.clone(), self.width)];
        all_of(self.rows.valid.iter().map(|c| free_of(&nest.ranges, self.at(nest, c, z, own), &of_vector)))
    }

    /// A statement for each of the neighbours.
    fn vector(&self, own: &Own, kind: DKind, s: DStmt) -> DStmt {
        DStmt::For(DFor::new(own.w.clone(), Expr::i64(self.width), kind, vec![s]))
    }

    /// Statements for each part of a lane's lines, or of the only one there is.
    fn each_part(&self, own: &Own, valid: Option<Expr>, part: Vec<DStmt>) -> DStmt {
        let [_, down, parts] = self.spread();
        let row = DStmt::unrolled(&own.g, parts, guarded(valid, part));
        if own.line.uses_var(&own.r) { DStmt::unrolled(&own.r, self.size.lines / down, vec![row]) } else { row }
    }

    /// Which of a lane's own elements it is.
    fn slot(&self, own: &Own, r: Expr) -> Expr {
        (r * Expr::i64(self.spread()[2]) + index_var(&own.g)) * Expr::i64(self.width) + index_var(&own.w)
    }

    /// A lane's own elements from shared memory into registers, all at once; where they are then.
    fn back(&self, nest: &mut Nest, rows: &Name, own: &Own) -> (DStmt, Expr) {
        let again = self.own(nest);
        let dtype = nest.buffers[rows].dtype;
        let len = self.size.lines * self.size.length / LANES;
        let name = nest.scratch("passed", dtype, Expr::i64(len), Scope::Local);
        let line = self.own_line(again.line.clone(), dtype.bytes() as i64);
        let at = line + again.along.clone() + index_var(&again.w);
        let slot = self.slot(&again, index_var(&again.r));
        let read = DStmt::store(name.clone(), vec![slot], Expr::load(rows.clone(), vec![at], dtype));
        let read = self.each_part(&again, None, vec![self.vector(&again, DKind::Vectorized, read)]);
        (read, Expr::load(name, vec![self.slot(own, index_var(&own.r))], dtype))
    }

    /// A vector of values, in registers; where they are then.
    fn computed(&self, nest: &mut Nest, value: Expr, own: &Own) -> (Vec<DStmt>, Expr) {
        let again = nest.loop_var("w", self.width);
        let (dtype, at) = (value.dtype(), vec![index_var(&own.w)]);
        let name = nest.scratch("computed", dtype, Expr::i64(self.width), Scope::Local);
        let compute =
            DStmt::store(name.clone(), at.clone(), value).subst(&|n| (*n == own.w).then(|| index_var(&again)));
        (vec![DStmt::unrolled(&again, self.width, vec![compute])], Expr::load(name, at, dtype))
    }

    /// Reads what a lane's own elements need before anything waits for it; where it is then. What all lines share is
    /// read once, for the first line.
    fn early(&self, nest: &mut Nest, load: &Expr, z: &Name, own: &Own) -> (DStmt, Expr) {
        let shared = !load.uses_var(&self.rows.line) && self.rows.first_is_valid(self.patch);
        let mut at = self.own(nest);
        let row = |own: &Own| if shared { Expr::i64(0) } else { index_var(&own.r) };
        let lines = if shared { 1 } else { self.size.lines / self.spread()[1] };
        at.line = at.line.subst(&|n| (*n == at.r).then(|| row(&at)));
        let len = lines * self.spread()[2] * self.width;
        let name = nest.scratch("early", load.dtype(), Expr::i64(len), Scope::Local);
        let read = DStmt::store(name.clone(), vec![self.slot(&at, row(&at))], self.at(nest, load, z, &at));
        let valid = self.valid(nest, z, &at);
        let read = self.each_part(&at, valid, vec![self.vector(&at, DKind::Vectorized, read)]);
        (read, Expr::load(name, vec![self.slot(own, row(own))], load.dtype()))
    }

    /// What lanes hold of a strip, into shared memory.
    fn pass(&self, nest: &mut Nest, (name, value): (&Name, &Expr), z: &Name) -> DStmt {
        let (dtype, each, pairs) = (value.dtype(), self.columns() / GROUP, self.patch.pairs);
        let [y, v, w] = [("y", each), ("v", PAIR), ("w", PAIR)].map(|(s, n)| nest.loop_var(s, n));
        let halves = self.patch.halves().map(|h| (h, nest.loop_var("h", HALVES)));
        let held = nest.scratch(&format!("{}_pair", self.store.buffer), dtype, Expr::i64(PAIR), Scope::Local);
        let pair = index_var(z) * Expr::i64(each) + index_var(&y);
        let group = halves.as_ref().map(|(h, half)| (h.x, h.group(index_var(half))));
        let of = |n: &Name| match n {
            n if n == pairs.y => Some(pair.clone()),
            n if n == pairs.v => Some(index_var(&v)),
            n => group.as_ref().filter(|(x, _)| *x == n).map(|(_, e)| e.clone()),
        };
        let own = |nest: &Nest, e: &Expr| simplify(&e.subst(&of), &nest.ranges);
        let reads = value.any(&|e| nest.is_global_load(e));
        let cond = self.store.cond.as_ref().filter(|_| reads).map(|c| own(nest, c));
        let mut body = vec![];
        if cond.is_some() {
            // what lies outside goes through shared memory too
            let zero = DStmt::store(held.clone(), vec![index_var(&v)], Expr::constant(0.0, dtype));
            body.push(DStmt::unrolled(&v, PAIR, vec![zero]));
        }
        let value = own(nest, value);
        let held_pair = vec![DStmt::store(held.clone(), vec![index_var(&v)], value)];
        body.push(DStmt::unrolled(&v, PAIR, guarded(cond, held_pair)));
        let [row, of_quad] = [BinOp::FloorDiv, BinOp::FloorMod].map(|op| Expr::binary(op, lane(), Expr::i64(QUAD)));
        let column = of_quad * Expr::i64(PAIR) + index_var(&y) * Expr::i64(GROUP) + index_var(&w);
        let bytes = dtype.bytes() as i64;
        let (at, kind) = match &halves {
            Some((_, half)) => {
                let along = index_var(half) * Expr::i64(ROWS) + row;
                (self.own_line(column, bytes) + along, DKind::Unrolled)
            }
            None => (self.own_line(row, bytes) + column, DKind::Vectorized),
        };
        let both = DStmt::store(name.clone(), vec![at], Expr::load(held, vec![index_var(&w)], dtype));
        body.push(DStmt::For(DFor::new(w, Expr::i64(PAIR), kind, vec![both])));
        let body = DStmt::unrolled(&y, each, body);
        halves.map_or(body.clone(), |(_, half)| DStmt::unrolled(&half, HALVES, vec![body]))
    }
}

/// The warp of a thread in its block.
fn warp() -> Expr {
    of_thread(BinOp::FloorDiv)
}

/// The lane of a thread in its warp.
fn lane() -> Expr {
    of_thread(BinOp::FloorMod)
}

fn of_thread(op: BinOp) -> Expr {
    Expr::binary(op, index_var(&Name::new(ThreadTag::ThreadX.name())), Expr::i64(LANES))
}
