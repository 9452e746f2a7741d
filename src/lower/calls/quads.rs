//! Eight neighbours of a row at a time, of 16 bits each, where the lanes of a quad hold pairs.
//!
//! Of 32 columns of an accumulator's row, lane `q` of a quad holds columns `8 y + 2 q` and the next, for `y < 4`. A
//! store of one pair by every lane fills half of a sector of each row, which costs as much as a store of 16 bytes.
//! So the lanes exchange pairs first; what is read from such rows is read in the same way and goes the way back.
//!
//! before: `for y < 16 { for v < 2 { t[v] = f(c[y, v], in[i, 8 y + 2 q + v]) }; out[i, 8 y + 2 q ..] = t[0..2] }`
//! after:  `for z < 4 { s[0..8] = in[i, 32 z + 8 q ..]; quad_transpose s;`
//!         `for y < 4, v < 2 { t[2 y + v] = f(c[4 z + y, v], s[2 y + v]) }; quad_transpose t; out[i, 32 z + 8 q ..] = t[0..8] }`

use super::global_store::GlobalStore;
use crate::analysis::{linear, multiple_of, simplify};
use crate::ir::device::{DFor, DKind, DStmt, all_of, conjuncts, guarded, index_var};
use crate::ir::instr::{At, Instr, Op};
use crate::ir::kernel::CacheHint;
use crate::ir::{BinOp, ExecScope, Expr, ExprKind, Name, Scope, ThreadTag};
use crate::lower::nest::Nest;
use crate::lower::pass::guards::{free_of, strict_difference};

/// Lanes of a quad, and pairs that each holds of 32 columns.
const QUAD: i64 = 4;
/// Neighbours in a lane, before and after.
const PAIR: i64 = 2;
const ROW: i64 = QUAD * PAIR;

/// A loop over pairs of columns.
pub struct Pairs<'a> {
    /// The pair, and the element in it.
    pub y: &'a Name,
    pub v: &'a Name,
    /// How many there are.
    pub n: i64,
}

/// The loop over rows of eight neighbours that a loop over pairs amounts to, whose body is `body`. `None` where it
/// makes no values of 16 bits for aligned rows of global memory.
pub fn of(nest: &mut Nest, pairs: &Pairs, body: &[DStmt]) -> Option<DStmt> {
    let [s] = body else { return None };
    let store = GlobalStore::of(nest, None, s).filter(|_| pairs.n % QUAD == 0)?;
    let lane = nest.with_cx(&[], |cx| cx.rank(ExecScope::Warp));
    let lane = Expr::binary(BinOp::FloorMod, lane, Expr::i64(QUAD));
    let [z, y, v, w] = [("z", pairs.n / QUAD), ("y", QUAD), ("v", PAIR), ("w", ROW)].map(|(s, n)| nest.loop_var(s, n));
    let mut quads = Quads { nest, pairs, lane, z, y, v, w, read: vec![] };
    let to = quads.row(&store.buffer, &store.indices)?;
    let parts = store.cond.as_ref().map(|c| conjuncts(&simplify(c, &quads.nest.ranges))).unwrap_or_default();
    let valid = parts.iter().map(|c| quads.same_for_row(c)).collect::<Option<Vec<Expr>>>()?;
    let valid = all_of(valid);
    let value = quads.value(&store.value);
    let reads = value.any(&|e| quads.nest.is_global_load(e));
    let fragment = all_of(parts.iter().filter(|_| reads).map(|c| quads.own(c)));
    let body = quads.body(&store.buffer, to, (valid, fragment), value, store.hint);
    Some(DStmt::unrolled(&quads.z, pairs.n / QUAD, body))
}

struct Quads<'n, 'a, 'p> {
    nest: &'n mut Nest<'a>,
    pairs: &'p Pairs<'p>,
    /// The lane's number in its quad.
    lane: Expr,
    z: Name,
    y: Name,
    v: Name,
    w: Name,
    /// What is read in rows: elements, their indices in a row, the registers that they come into.
    read: Vec<(Expr, Vec<Expr>, Name)>,
}

impl Quads<'_, '_, '_> {
    /// True for the number of a column, or of an element: one more for each of a pair, eight more for each pair.
    fn along(&self, e: &Expr) -> bool {
        let step = |of: &Expr, v: &Name| {
            let (step, rest) = linear(of, v, &self.nest.ranges)?;
            Some((step.as_int()?, rest))
        };
        let of_v = step(e, self.pairs.v).filter(|(n, _)| *n > 0);
        of_v.is_some_and(|(n, rest)| step(&rest, self.pairs.y).is_some_and(|(m, _)| m == n * ROW))
    }

    fn crosses(&self, e: &Expr) -> bool {
        e.uses_var(self.pairs.y) || e.uses_var(self.pairs.v)
    }

    /// The expression for element `w` of the lane's row; only of those that go `along`.
    fn in_row(&self, e: &Expr) -> Expr {
        let y = index_var(&self.z) * Expr::i64(QUAD) + self.lane.clone();
        let v = index_var(&self.w) - self.lane.clone() * Expr::i64(PAIR);
        self.at(e, y, v)
    }

    /// The expression for a lane's own element `v` of pair `y`.
    fn own(&self, e: &Expr) -> Expr {
        self.at(e, index_var(&self.z) * Expr::i64(QUAD) + index_var(&self.y), index_var(&self.v))
    }

    fn at(&self, e: &Expr, y: Expr, v: Expr) -> Expr {
        let of = |n: &Name| (n == self.pairs.y).then(|| y.clone()).or_else(|| (n == self.pairs.v).then(|| v.clone()));
        simplify(&e.subst(&of), &self.nest.ranges)
    }

    /// The indices of the row of a buffer, if its elements have 16 bits and begin at 16 bytes.
    fn row(&self, buffer: &Name, indices: &[Expr]) -> Option<Vec<Expr>> {
        let b = self.nest.buffers.get(buffer).filter(|b| b.dtype.is_float() && b.dtype.bytes() == 2)?;
        let (last, outer) = indices.split_last()?;
        if !b.is_row_major() || outer.iter().any(|i| self.crosses(i)) || !self.along(last) {
            return None;
        }
        let (step, column) = linear(&self.in_row(last), &self.w, &self.nest.ranges)?;
        let all = outer.iter().chain([&column]).zip(&b.shape);
        let first = all.fold(Expr::i64(0), |at, (i, n)| at * n.clone() + i.clone());
        let aligned = step.is_int(1) && multiple_of(&first, &self.nest.ranges) % ROW == 0;
        aligned.then(|| outer.iter().cloned().chain([column + index_var(&self.w)]).collect())
    }

    /// A condition as one of the row: the same for all of its elements.
    fn same_for_row(&self, cond: &Expr) -> Option<Expr> {
        if !self.crosses(cond) {
            return Some(cond.clone());
        }
        // of eight columns, `8 y` and on, all or none: the row of the lane is those of another `y`
        if !cond.uses_var(self.pairs.v) && self.same_in_quad(cond) {
            return Some(self.in_row(cond));
        }
        let inside = strict_difference(cond).is_some_and(|d| self.along(&d));
        let cond = inside.then(|| free_of(&self.nest.ranges, self.in_row(cond), &[(self.w.clone(), ROW)]))?;
        (!cond.uses_var(&self.w)).then_some(cond)
    }

    /// True for what has one value in all lanes of a quad.
    fn same_in_quad(&self, e: &Expr) -> bool {
        let thread = Name::new(ThreadTag::ThreadX.name());
        let (mut ranges, quad) = (self.nest.ranges.clone(), Name::new("quad of the warp"));
        ranges.set(quad.clone(), 0, i64::from(self.nest.block[0]) / QUAD - 1);
        let of = |n: &Name| (*n == thread).then(|| index_var(&quad) * Expr::i64(QUAD) + index_var(&self.y));
        !simplify(&e.subst(&of), &ranges).uses_var(&self.y)
    }

    /// The value of a lane's own element. What it reads in rows is noted, except where it is read under a condition.
    fn value(&mut self, e: &Expr) -> Expr {
        match e.kind() {
            ExprKind::IfThenElse { .. } | ExprKind::Select { .. } | ExprKind::Let { .. } => self.own(e),
            ExprKind::Load { buffer, indices, dtype } if self.nest.is_global(buffer) => {
                // what all rows share is read once for all of them, and as well in pairs
                let thread = Name::new(ThreadTag::ThreadX.name());
                let of_row = indices.split_last().is_some_and(|(_, outer)| outer.iter().any(|i| i.uses_var(&thread)));
                let row = self.row(buffer, indices).filter(|_| of_row);
                let Some(row) = row else { return self.own(e) };
                let known = self.read.iter().find(|(known, ..)| known == e).map(|(.., name)| name.clone());
                let name = known.unwrap_or_else(|| {
                    let name = self.nest.scratch(&format!("{buffer}_row"), *dtype, Expr::i64(ROW), Scope::Local);
                    self.read.push((e.clone(), row, name.clone()));
                    name
                });
                Expr::load(name, vec![self.in_registers()], *dtype)
            }
            ExprKind::Load { .. } => self.own(e),
            _ => {
                let mut children = vec![];
                e.for_each_child(|c| children.push(c.clone()));
                if children.is_empty() { self.own(e) } else { e.map_children(|c| self.value(c)) }
            }
        }
    }

    /// A lane's own element in the registers of a row.
    fn in_registers(&self) -> Expr {
        index_var(&self.y) * Expr::i64(PAIR) + index_var(&self.v)
    }

    /// The statements for one row: what is read, the values, the store.
    fn body(
        &mut self,
        to: &Name,
        indices: Vec<Expr>,
        (valid, fragment): (Option<Expr>, Option<Expr>),
        value: Expr,
        hint: CacheHint,
    ) -> Vec<DStmt> {
        let mut out = vec![];
        for (element, row, name) in std::mem::take(&mut self.read) {
            let ExprKind::Load { buffer, dtype, .. } = element.kind() else { continue };
            let load = self.each(DKind::Vectorized, &name, Expr::load(buffer.clone(), row, *dtype));
            // lanes take part in the exchange with registers that nothing was read into
            out.extend(valid.is_some().then(|| self.each(DKind::Unrolled, &name, Expr::float(0.0, *dtype))));
            out.extend(guarded(valid.clone(), vec![load]));
            out.push(exchange(&name));
        }
        let dtype = value.dtype();
        let name = self.nest.scratch(&format!("{to}_row"), dtype, Expr::i64(ROW), Scope::Local);
        out.extend(fragment.is_some().then(|| self.each(DKind::Unrolled, &name, Expr::float(0.0, dtype))));
        let compute = guarded(fragment, vec![DStmt::store(name.clone(), vec![self.in_registers()], value)]);
        let inner = DStmt::unrolled(&self.v, PAIR, compute);
        out.push(DStmt::unrolled(&self.y, QUAD, vec![inner]));
        out.push(exchange(&name));
        let value = Expr::load(name, vec![index_var(&self.w)], dtype);
        let store = vec![DStmt::Store { buffer: to.clone(), indices, value, hint }];
        let store = DFor::new(self.w.clone(), Expr::i64(ROW), DKind::Vectorized, store);
        out.extend(guarded(valid, vec![DStmt::For(store)]));
        out
    }

    /// A store to each register of a row.
    fn each(&self, kind: DKind, to: &Name, value: Expr) -> DStmt {
        let store = DStmt::store(to.clone(), vec![index_var(&self.w)], value);
        DStmt::For(DFor::new(self.w.clone(), Expr::i64(ROW), kind, vec![store]))
    }
}

fn exchange(row: &Name) -> DStmt {
    DStmt::Instr(Instr::new(Op::QuadTranspose, [At::new(row, Expr::i64(0))], []))
}
