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

mod patch;
mod value;

use self::patch::{GROUP, LANES, PAIR, Patch, QUAD, ROWS};
use self::value::RowValue;
use super::global_store::GlobalStore;
use super::quads::Pairs;
use crate::analysis::{linear, multiple_of, simplify};
use crate::ir::device::{DFor, DKind, DStmt, all_of, conjuncts, guarded, index_var};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, DType, Expr, Name, Scope, ThreadTag};
use crate::lower::nest::Nest;
use crate::lower::pass::guards::{free_of, strict_difference};

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
    let columns = STRIPS.into_iter().find(|n| pairs.n * GROUP % n == 0).filter(|_| threads % LANES == 0)?;
    let patch = Patch::new(pairs, &nest.ranges, threads);
    let rows = Rows::of(&patch, nest, &store, columns)?;
    let b = nest.buffers.get(&store.buffer)?;
    let pair = if rows.align % PAIR == 0 { PAIR } else { 1 };
    if QUAD * pair * b.dtype.bytes() as i64 >= SECTOR {
        return None;
    }
    let width = rows.width(&patch, b.dtype, columns);
    let each = (ROWS * columns / LANES) as usize;
    let value = RowValue::of(nest, &patch, &rows.column, &store.value, each);
    let strip = Strip { patch: &patch, store: &store, rows: &rows, columns, width, warps: threads / LANES };
    Some(strip.emit(nest, value))
}

/// Where a row goes: functions of `warp`, `row` and the column, which is a variable.
struct Rows {
    indices: Vec<Expr>,
    valid: Vec<Expr>,
    column: Name,
    /// What the elements at whole strips of columns are multiples of.
    align: i64,
}

impl Rows {
    fn of(patch: &Patch, nest: &mut Nest, store: &GlobalStore, strip: i64) -> Option<Rows> {
        let b = nest.buffers.get(&store.buffer)?.clone();
        if !b.is_row_major() {
            return None;
        }
        let column = nest.loop_var("column", patch.pairs.n * GROUP);
        let (last, outer) = store.indices.split_last()?;
        let mut indices = vec![];
        for (i, steps) in outer.iter().map(|i| (i, 0)).chain([(last, 1)]) {
            let (n, e) = patch.of_column(i, &column)?;
            indices.push(e);
            (n == steps).then_some(())?;
        }
        let parts = store.cond.as_ref().map(|c| conjuncts(&simplify(c, &nest.ranges))).unwrap_or_default();
        let valid = parts.iter().map(|c| patch.condition(c, &column)).collect::<Option<Vec<Expr>>>()?;
        let first = indices.iter().zip(&b.shape).fold(Expr::i64(0), |at, (i, n)| at * n.clone() + i.clone());
        let z = Name::new("strip of columns");
        let of_strip = index_var(&z) * Expr::i64(strip);
        let first = first.subst(&|n| (*n == column).then(|| of_strip.clone()));
        Some(Rows { indices, valid, column, align: multiple_of(&first, &patch.ranges) })
    }

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

    /// True if the first of the eight rows is valid wherever another one is.
    fn first_is_valid(&self, patch: &Patch) -> bool {
        self.valid.iter().all(|c| {
            let rises = |d: Expr| Some(linear(&d, &patch.row, &patch.ranges)?.0.as_int()? >= 0);
            !c.uses_var(&patch.row) || strict_difference(c).and_then(rises) == Some(true)
        })
    }
}

/// Columns of a strip, neighbours in a store, warps of the block.
struct Strip<'s> {
    patch: &'s Patch<'s>,
    store: &'s GlobalStore,
    rows: &'s Rows,
    columns: i64,
    width: i64,
    warps: i64,
}

/// The elements of a strip that a lane stores: `w` of the neighbours at `row` and `column`.
struct Own {
    r: Name,
    g: Name,
    w: Name,
    row: Expr,
    column: Expr,
}

impl Strip<'_> {
    fn emit(&self, nest: &mut Nest, value: Option<RowValue>) -> DStmt {
        let held = value.as_ref().map_or(&self.store.value, |v| &v.held);
        let len = Expr::i64(self.warps * ROWS * pitch(self.columns));
        let name = nest.scratch(&format!("{}_rows", self.store.buffer), held.dtype(), len, Scope::Shared);
        nest.of_warps.insert(name.clone());
        let strips = self.patch.pairs.n * GROUP / self.columns;
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
        // this barrier is for who writes the rows again
        body.push(DStmt::Barrier(Barrier::Warp));
        DStmt::unrolled(&z, strips, body)
    }

    /// Lanes beside each other in a row, rows of lanes, and how many such parts a row of the strip has.
    fn spread(&self) -> [i64; 3] {
        let across = (self.columns / self.width).min(LANES);
        [across, LANES / across, self.columns / self.width / across]
    }

    fn own(&self, nest: &mut Nest) -> Own {
        let [across, down, parts] = self.spread();
        let [r, g, w] = [("r", ROWS / down), ("g", parts), ("w", self.width)].map(|(s, n)| nest.loop_var(s, n));
        let [below, beside] = [BinOp::FloorDiv, BinOp::FloorMod].map(|op| Expr::binary(op, lane(), Expr::i64(across)));
        let row = index_var(&r) * Expr::i64(down) + below;
        let column = (index_var(&g) * Expr::i64(across) + beside) * Expr::i64(self.width);
        Own { r, g, w, row, column }
    }

    /// The first element of a row in shared memory.
    fn own_row(&self, row: Expr) -> Expr {
        warp() * Expr::i64(ROWS * pitch(self.columns)) + row * Expr::i64(pitch(self.columns))
    }

    /// What a function of warp, row and column is for a lane's own elements.
    fn at(&self, nest: &Nest, e: &Expr, z: &Name, own: &Own) -> Expr {
        let column = index_var(z) * Expr::i64(self.columns) + own.column.clone() + index_var(&own.w);
        let of = |n: &Name| match n {
            n if *n == self.rows.column => Some(column.clone()),
            n if *n == self.patch.row => Some(own.row.clone()),
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

    /// Statements for each part of a lane's rows, or of the only one there is.
    fn each_part(&self, own: &Own, valid: Option<Expr>, part: Vec<DStmt>) -> DStmt {
        let [_, down, parts] = self.spread();
        let row = DStmt::unrolled(&own.g, parts, guarded(valid, part));
        if own.row.uses_var(&own.r) { DStmt::unrolled(&own.r, ROWS / down, vec![row]) } else { row }
    }

    /// Which of a lane's own elements it is.
    fn slot(&self, own: &Own, r: Expr) -> Expr {
        (r * Expr::i64(self.spread()[2]) + index_var(&own.g)) * Expr::i64(self.width) + index_var(&own.w)
    }

    /// A lane's own elements from shared memory into registers, all at once; where they are then.
    fn back(&self, nest: &mut Nest, rows: &Name, own: &Own) -> (DStmt, Expr) {
        let again = self.own(nest);
        let dtype = nest.buffers[rows].dtype;
        let name = nest.scratch("passed", dtype, Expr::i64(ROWS * self.columns / LANES), Scope::Local);
        let at = self.own_row(again.row.clone()) + again.column.clone() + index_var(&again.w);
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

    /// Reads what a lane's own elements need before anything waits for it; where it is then. What all rows share is
    /// read once, for the first row.
    fn early(&self, nest: &mut Nest, load: &Expr, z: &Name, own: &Own) -> (DStmt, Expr) {
        let shared = !load.uses_var(&self.patch.row) && self.rows.first_is_valid(self.patch);
        let mut at = self.own(nest);
        let row = |own: &Own| if shared { Expr::i64(0) } else { index_var(&own.r) };
        let rows = if shared { 1 } else { ROWS / self.spread()[1] };
        at.row = at.row.subst(&|n| (*n == at.r).then(|| row(&at)));
        let len = rows * self.spread()[2] * self.width;
        let name = nest.scratch("early", load.dtype(), Expr::i64(len), Scope::Local);
        let read = DStmt::store(name.clone(), vec![self.slot(&at, row(&at))], self.at(nest, load, z, &at));
        let valid = self.valid(nest, z, &at);
        let read = self.each_part(&at, valid, vec![self.vector(&at, DKind::Vectorized, read)]);
        (read, Expr::load(name, vec![self.slot(own, row(own))], load.dtype()))
    }

    /// What lanes hold of a strip, into shared memory.
    fn pass(&self, nest: &mut Nest, (name, value): (&Name, &Expr), z: &Name) -> DStmt {
        let (dtype, each, pairs) = (value.dtype(), self.columns / GROUP, self.patch.pairs);
        let [y, v, w] = [("y", each), ("v", PAIR), ("w", PAIR)].map(|(s, n)| nest.loop_var(s, n));
        let held = nest.scratch(&format!("{}_pair", self.store.buffer), dtype, Expr::i64(PAIR), Scope::Local);
        let pair = index_var(z) * Expr::i64(each) + index_var(&y);
        let of = |n: &Name| (n == pairs.y).then(|| pair.clone()).or_else(|| (n == pairs.v).then(|| index_var(&v)));
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
        let from = self.own_row(row) + of_quad * Expr::i64(PAIR);
        let at = from + index_var(&y) * Expr::i64(GROUP) + index_var(&w);
        let both = DStmt::store(name.clone(), vec![at], Expr::load(held, vec![index_var(&w)], dtype));
        body.push(DStmt::For(DFor::new(w, Expr::i64(PAIR), DKind::Vectorized, vec![both])));
        DStmt::unrolled(&y, each, body)
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
