//! Eight neighbours of a row that begin anywhere: the aligned words of sixteen bytes that they lie in are loaded, and
//! what is wanted is shifted out of them in registers.
//!
//! Rows of an odd number of 16-bit values would be read two bytes at a time. All words of a lane are loaded before the
//! first is used. Where the runs of a step end well before their rows do, nothing is asked of them; elsewhere what lies
//! behind the end of a row is zero, and of the last word of a tensor, which may end beyond it, values are loaded one by
//! one.
//!
//! before: `for x < 2, y < 2, v < 8 { a[..] = if_then_else(k + v < 203, w[row * 203 + k + v], 0) }`
//! after:  `if 203 - k >= 16 { for x, y { copy8 words[..] <- w[at // 8 * 8]; copy8 words[.. + 8] <- w[at // 8 * 8 + 8] }`
//!         `for x, y { funnel_shift r[0] <- words[..] from at % 8 of 8; for v { a[..] = r[v] } } }`
//!         `else { the same with conditions, funnel_shift r[0] <- words[..] from at % 8 of 203 - k }`

use crate::analysis::{Access, linear, multiple_of, simplify};
use crate::ir::device::{DFor, DKind, DStmt, and, guarded, index_var};
use crate::ir::instr::{At, Instr, Op};
use crate::ir::kernel::CacheHint;
use crate::ir::layout::words::WORD;
use crate::ir::{BinOp, Buffer, Expr, ExprKind, Name, Scope};
use crate::lower::nest::Nest;
use crate::lower::pass::flatten;
use crate::lower::pass::guards::{for_all, free_of, strict_difference};

/// Where a run of a lane comes from.
pub(super) struct Source<'a> {
    /// A tensor, and the indices of the value that `v` counts.
    pub from: &'a Name,
    pub at: &'a [Expr],
    pub v: &'a Name,
    /// What has to hold for that value not to be zero.
    pub conds: Vec<Expr>,
    pub hint: CacheHint,
}

/// Fills `n` registers from `first` on, which loop `var` counts, with one vector load of what `value` says.
pub(super) fn filled((to, first): (&Name, &Expr), (var, n): (&Name, i64), value: Expr, hint: CacheHint) -> DStmt {
    let store = DStmt::Store { buffer: to.clone(), indices: vec![first.clone() + index_var(var)], value, hint };
    DStmt::For(DFor::new(var.clone(), Expr::i64(n), DKind::Vectorized, vec![store]))
}

/// True where the eight values that `v` counts from zero are an aligned access.
pub(super) fn is_aligned(nest: &Nest, from: &Name, at: &[Expr], v: &Name) -> bool {
    let first = nest.buffers.get(from).and_then(|tensor| first_of(nest, tensor, at, v));
    first.is_some_and(|first| multiple_of(&first, &nest.ranges) % WORD == 0)
}

/// The number of the element of a tensor that comes first of those that `v` counts, if these are neighbours.
fn first_of(nest: &Nest, tensor: &Buffer, at: &[Expr], v: &Name) -> Option<Expr> {
    let access = Access { buffer: tensor.name.clone(), indices: at.to_vec() };
    let (step, first) = linear(&access.offset(tensor, &nest.ranges), v, &nest.ranges)?;
    step.is_int(1).then_some(first)
}

/// The loads of all runs, which `loops` count, and what follows them: `keep` takes a run out of the registers that it is
/// given. `None` where a tensor is not plain, or conditions say more than where rows end.
pub(super) fn loaded(
    nest: &mut Nest,
    loops: [(&Name, i64); 2],
    s: Source,
    keep: impl Fn(&Name) -> DStmt,
) -> Option<Vec<DStmt>> {
    let tensor = nest.buffers.get(s.from).filter(|b| b.is_row_major())?.clone();
    let (first, total) = (first_of(nest, &tensor, s.at, s.v)?, flatten::length(nest, &tensor));
    let ends = Ends::of(nest, s.conds, s.v)?;
    let interior = ends.interior(nest, &loops);

    let [(x, rows), (y, n)] = loops;
    let len = Expr::i64(2 * WORD * rows * n);
    let words = nest.scratch(&format!("{}_words", s.from), tensor.dtype, len, Scope::Local);
    let run = nest.scratch(&format!("{}_run", s.from), tensor.dtype, Expr::i64(WORD), Scope::Local);
    let own = (index_var(x) * Expr::i64(n) + index_var(y)) * Expr::i64(2 * WORD);
    let w = nest.loop_var("w", WORD);
    let all = Words { nest, tensor, hint: s.hint, total, first, words, own, w };
    let over = |body: Vec<DStmt>| DStmt::unrolled(x, rows, vec![DStmt::unrolled(y, n, body)]);
    let wanted = |count: Expr| vec![all.shifted(&run, count), keep(&run)];

    let loads = over(guarded(ends.cond(), all.loads(true)));
    let rest = [all.one_by_one(ends.cond()), wanted(ends.count())].concat();
    let anywhere = vec![loads, over(rest)];
    let Some(cond) = interior else { return Some(anywhere) };
    let then = vec![over(all.loads(false)), over(wanted(Expr::i64(WORD)))];
    Some(vec![DStmt::If { cond, then, otherwise: anywhere }])
}

/// The two words of each run.
struct Words<'n, 'a> {
    nest: &'n Nest<'a>,
    tensor: Buffer,
    hint: CacheHint,
    /// Elements of the tensor, and the number of the first one of a run.
    total: Expr,
    first: Expr,
    /// The registers of all words, the first one of a run, and a loop over a word.
    words: Name,
    own: Expr,
    w: Name,
}

impl Words<'_, '_> {
    fn simple(&self, op: BinOp, a: &Expr, b: Expr) -> Expr {
        simplify(&Expr::binary(op, a.clone(), b), &self.nest.ranges)
    }

    /// Registers and elements of both words.
    fn both(&self) -> [(Expr, Expr); 2] {
        let base = self.whole(&self.first);
        let next = self.simple(BinOp::Add, &base, Expr::i64(WORD));
        [(self.own.clone(), base), (self.own.clone() + Expr::i64(WORD), next)]
    }

    /// The start of the word that an element is in.
    fn whole(&self, e: &Expr) -> Expr {
        simplify(&(Expr::binary(BinOp::FloorDiv, e.clone(), Expr::i64(WORD)) * Expr::i64(WORD)), &self.nest.ranges)
    }

    fn element(&self, i: &Expr) -> Expr {
        let mut indices = vec![Expr::i64(0); self.tensor.shape.len() - 1];
        indices.push(i.clone() + index_var(&self.w));
        Expr::load(self.tensor.name.clone(), indices, self.tensor.dtype)
    }

    /// The loads of both; behind the last whole word of the tensor, where that has to be asked, the last one again: what
    /// is wanted there is loaded one by one.
    fn loads(&self, ask: bool) -> Vec<DStmt> {
        let last = simplify(&(self.whole(&self.total) - Expr::i64(WORD)), &self.nest.ranges);
        let at = |from: Expr| if ask { Expr::binary(BinOp::Min, from, last.clone()) } else { from };
        let load = |(to, from)| filled((&self.words, &to), (&self.w, WORD), self.element(&at(from)), self.hint);
        self.both().map(load).to_vec()
    }

    /// Of the last word of the tensor, if it is no whole one.
    fn one_by_one(&self, cond: Option<Expr>) -> Vec<DStmt> {
        if multiple_of(&self.total, &self.nest.ranges) % WORD == 0 {
            return vec![];
        }
        let (w, last, both) = (index_var(&self.w), self.whole(&self.total), self.both());
        let inside = self.simple(BinOp::Lt, &w, Expr::binary(BinOp::FloorMod, self.total.clone(), Expr::i64(WORD)));
        let of_word = |(to, from): &(Expr, Expr)| {
            let one = DStmt::store(self.words.clone(), vec![to.clone() + w.clone()], self.element(from));
            let all = DStmt::unrolled(&self.w, WORD, guarded(Some(inside.clone()), vec![one]));
            guarded(Some(self.simple(BinOp::Eq, from, last.clone())), vec![all])
        };
        let near = self.simple(BinOp::Ge, &both[1].1, last.clone());
        guarded(and(cond, Some(near)), both.iter().flat_map(of_word).collect())
    }

    /// The first `count` values of a run, and zeros.
    fn shifted(&self, run: &Name, count: Expr) -> DStmt {
        let places = [At::new(run, Expr::i64(0)), At::new(&self.words, self.own.clone())];
        let from = self.simple(BinOp::FloorMod, &self.first, Expr::i64(WORD));
        DStmt::Instr(Instr::new(Op::FunnelShift, places, [from, count]))
    }
}

/// Which runs there are, and how many of their values.
struct Ends {
    exists: Option<Expr>,
    /// Values to the end of the row, if that is known; there may be more than a run has, or none.
    left: Option<Expr>,
}

impl Ends {
    fn of(nest: &Nest, conds: Vec<Expr>, v: &Name) -> Option<Ends> {
        let mut ends = Ends { exists: None, left: None };
        for c in conds {
            let c = free_of(&nest.ranges, c, &[(v.clone(), WORD)]);
            if !c.uses_var(v) {
                ends.exists = and(ends.exists, Some(c));
                continue;
            }
            let (_, first) = linear(&strict_difference(&c)?, v, &nest.ranges).filter(|(step, _)| step.is_int(1))?;
            let left = simplify(&(Expr::i64(0) - first), &nest.ranges);
            ends.left = Some(ends.left.map_or(left.clone(), |n| Expr::binary(BinOp::Min, n, left)));
        }
        Some(ends)
    }

    /// That a run has a value.
    fn cond(&self) -> Option<Expr> {
        let any = self.left.clone().map(|n| Expr::binary(BinOp::Gt, n, Expr::i64(0)));
        and(self.exists.clone(), any)
    }

    /// How many it has.
    fn count(&self) -> Expr {
        let count = self.left.clone().unwrap_or(Expr::i64(WORD));
        match &self.exists {
            None => count,
            Some(cond) => Expr::new(ExprKind::Select { cond: cond.clone(), then: count, otherwise: Expr::i64(0) }),
        }
    }

    /// That no run of these loops comes near the end of its row: both of its words are in it.
    fn interior(&self, nest: &Nest, loops: &[(&Name, i64); 2]) -> Option<Expr> {
        let left = self.left.clone().filter(|_| self.exists.is_none())?;
        let loops = loops.map(|(name, n)| (name.clone(), n));
        for_all(&nest.ranges, &Expr::binary(BinOp::Ge, left, Expr::i64(2 * WORD)), &loops)
    }
}
