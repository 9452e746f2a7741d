//! Which elements of its parameters a function touches.

use super::walk::leaves;
use super::{Interval, Ranges, gcd, interval, roles};
use crate::ir::{BinOp, Block, Buffer, Expr, ExprKind, Name, Param, PrimFunc, Role, Stmt};

/// Indices of a dimension: `lo`, `lo + step`, ... up to `hi`. A single one has step 0.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Span {
    lo: i64,
    hi: i64,
    step: i64,
}

/// A rectangular part of a tensor, a span per dimension.
type Region = Vec<Span>;

/// More distinct parts than this are taken as their hull.
const MAX_PARTS: usize = 12;

/// Bytes of every input element that is read, once, and of every output, once; of tensors that are written in place those
/// that are stored. `None` where an extent is symbolic.
pub(super) fn bytes(f: &PrimFunc) -> Option<u64> {
    let mut sum = 0u64;
    for (p, role) in f.params.iter().zip(roles(f)) {
        let Param::Buffer(name) = p else { continue };
        let b = f.buffer(name);
        let size = b.dtype.bytes();
        if matches!(role, Role::In | Role::Inout) {
            sum = sum.checked_add(elements(f, b, Access::Read)?.checked_mul(size)?)?;
        }
        let written = match role {
            Role::Out => u64::try_from(b.len()?).ok()?,
            Role::Inout => elements(f, b, Access::Write)?,
            _ => 0,
        };
        sum = sum.checked_add(written.checked_mul(size)?)?;
    }
    Some(sum)
}

/// What is done to an element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// Elements of a buffer that are read, or stored.
fn elements(f: &PrimFunc, b: &Buffer, access: Access) -> Option<u64> {
    let shape = b.shape.iter().map(Expr::as_int).collect::<Option<Vec<_>>>()?;
    let mut reader = Reader { buffer: &b.name, access, shape: &shape, parts: vec![] };
    for leaf in leaves(f) {
        let mut ranges = Ranges::of_func(f);
        leaf.loops.iter().for_each(|l| ranges.enter_loop(l));
        reader.block(leaf.block, &ranges);
    }
    let whole: u64 = shape.iter().map(|n| *n as u64).product();
    Some(union_size(&reader.parts).min(whole))
}

/// Collects the parts of one buffer that are read, or stored.
struct Reader<'a> {
    buffer: &'a Name,
    access: Access,
    shape: &'a [i64],
    parts: Vec<Region>,
}

impl Reader<'_> {
    fn block(&mut self, b: &Block, outer: &Ranges) {
        let mut ranges = outer.clone();
        ranges.enter_block(b);
        b.init.iter().chain(&b.body).for_each(|s| self.stmt(s, &ranges));
    }

    fn is(&self, buffer: &Name, access: Access) -> bool {
        buffer == self.buffer && access == self.access
    }

    fn stmt(&mut self, s: &Stmt, r: &Ranges) {
        s.for_each_expr(|e| self.expr(e, r));
        match s {
            Stmt::If { cond, then, otherwise } => {
                let inside = r.assuming(cond);
                then.iter().for_each(|s| self.stmt(s, &inside));
                otherwise.iter().for_each(|s| self.stmt(s, r));
            }
            Stmt::For(l) => {
                let mut inside = r.clone();
                inside.enter_loop(l);
                l.body.iter().for_each(|s| self.stmt(s, &inside));
            }
            Stmt::Block(b) => self.block(b, r),
            Stmt::While { body, .. } | Stmt::Attr { body, .. } => body.iter().for_each(|s| self.stmt(s, r)),
            Stmt::Store { buffer, indices, .. } if self.is(buffer, Access::Write) => self.part(indices, r),
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Evaluate(_) | Stmt::Alloc { .. } => {}
        }
    }

    fn expr(&mut self, e: &Expr, r: &Ranges) {
        match e.kind() {
            ExprKind::Load { buffer, indices, .. } => {
                if self.is(buffer, Access::Read) {
                    self.part(indices, r);
                }
                indices.iter().for_each(|i| self.expr(i, r));
            }
            ExprKind::IfThenElse { cond, then, otherwise } => {
                self.expr(cond, r);
                self.expr(then, &r.assuming(cond));
                self.expr(otherwise, r);
            }
            _ => e.for_each_child(|c| self.expr(c, r)),
        }
    }

    fn part(&mut self, indices: &[Expr], r: &Ranges) {
        // Of indices that are data the longest dimension counts; another one that follows from the same variables adds none.
        let mut order: Vec<usize> = (0..indices.len()).collect();
        order.sort_by_key(|d| std::cmp::Reverse(self.shape[*d]));
        let mut seen = vec![];
        let mut part = vec![Span { lo: 0, hi: 0, step: 0 }; indices.len()];
        for d in order {
            part[d] = dimension(&indices[d], self.shape[d], r, &mut seen);
        }
        if !self.parts.contains(&part) {
            self.parts.push(part);
        }
    }
}

/// The indices that an expression takes in a dimension of `n` elements. Rows picked by an index
/// that is read from a tensor count once per lookup, wherever they lie; `seen` are the variables of those that were counted.
fn dimension(e: &Expr, n: i64, r: &Ranges, seen: &mut Vec<Name>) -> Span {
    if e.has_load() {
        let hi = lookups(e, r, seen).min(n) - 1;
        return Span { lo: 0, hi, step: i64::from(hi > 0) };
    }
    let Interval { lo, hi } = interval(e, r);
    let step = step(e, r).max(1);
    let first = if lo < 0 && lo > i64::MIN { lo.rem_euclid(step) } else { lo.max(0) };
    let last = hi.min(n - 1);
    let last = last - (last - first).max(0) % step;
    Span { lo: first, hi: last, step: if first == last { 0 } else { step } }
}

/// What the values of an index are apart, at least; 0 for a constant.
fn step(e: &Expr, r: &Ranges) -> i64 {
    let both = |a: &Expr, b: &Expr| gcd(step(a, r), step(b, r));
    match e.kind() {
        ExprKind::Int { .. } => 0,
        ExprKind::Var { name, .. } => {
            let single = r.get(name).and_then(Interval::finite).is_some_and(|(lo, hi)| lo == hi);
            i64::from(!single)
        }
        ExprKind::Cast { dtype, arg } if dtype.is_int() && arg.dtype().is_int() => step(arg, r),
        ExprKind::Binary { op: BinOp::Add | BinOp::Sub, a, b } => both(a, b),
        ExprKind::Binary { op: BinOp::Mul, a, b } => match (a.as_int(), b.as_int()) {
            (Some(c), _) => step(b, r).saturating_mul(c.saturating_abs()),
            (_, Some(c)) => step(a, r).saturating_mul(c.saturating_abs()),
            (None, None) => 1,
        },
        _ => 1,
    }
}

/// How many values the variables in an expression can take together, those aside that were `seen`.
fn lookups(e: &Expr, r: &Ranges, seen: &mut Vec<Name>) -> i64 {
    let mut product = 1i64;
    e.visit(&mut |e| {
        let Some(name) = e.as_var().filter(|n| !seen.contains(n)) else { return };
        seen.push(name.clone());
        let size = r.get(name).and_then(Interval::finite).map_or(i64::MAX, |(lo, hi)| hi - lo + 1);
        product = product.saturating_mul(size);
    });
    product
}

/// Number of elements in at least one of the parts.
fn union_size(parts: &[Region]) -> u64 {
    let parts: Vec<&Region> = parts.iter().filter(|p| p.iter().all(|s| s.lo <= s.hi)).collect();
    let Some(first) = parts.first() else { return 0 };
    let dims = 0..first.len();
    if parts.len() > MAX_PARTS {
        return dims.map(|k| hull(parts.iter().map(|p| p[k]))).product();
    }
    let steps: Vec<i64> = dims.map(|k| common_step(parts.iter().map(|p| p[k].step))).collect();
    let dense: Vec<Bounds> =
        parts.iter().map(|p| p.iter().zip(&steps).map(|(s, step)| compact(*s, *step)).collect()).collect();
    cut(&dense.iter().collect::<Vec<_>>(), 0)
}

/// Number of indices from the first to the last of some spans, as far apart as all of them are.
fn hull(spans: impl Iterator<Item = Span> + Clone) -> u64 {
    let lo = spans.clone().map(|s| s.lo).min().unwrap_or(0);
    let hi = spans.clone().map(|s| s.hi).max().unwrap_or(lo);
    let step = spans.fold(0, |g, s| gcd(gcd(g, s.step), s.lo - lo));
    ((hi - lo) / step.max(1) + 1) as u64
}

/// The step of all spans, 1 where they have several.
fn common_step(steps: impl Iterator<Item = i64> + Clone) -> i64 {
    let step = steps.clone().max().unwrap_or(1).max(1);
    if step < 1 << 31 && steps.into_iter().all(|s| s == 0 || s == step) { step } else { 1 }
}

/// Inclusive bounds per dimension.
type Bounds = Vec<(i64, i64)>;

/// A span of that step as an interval: the indices of each remainder by the step one after another.
fn compact(s: Span, step: i64) -> (i64, i64) {
    let start = (s.lo % step) << 31;
    (start + s.lo / step, start + s.hi / step)
}

/// Cuts dimension `k` at the parts' ends and counts slab by slab.
fn cut(parts: &[&Bounds], k: usize) -> u64 {
    if parts.is_empty() {
        return 0;
    }
    if k == parts[0].len() {
        return 1;
    }
    let mut ends: Vec<i64> = parts.iter().flat_map(|p| [p[k].0, p[k].1 + 1]).collect();
    ends.sort_unstable();
    ends.dedup();
    let slab = |w: &[i64]| {
        let inside: Vec<&Bounds> = parts.iter().copied().filter(|p| p[k].0 <= w[0] && w[1] - 1 <= p[k].1).collect();
        (w[1] - w[0]) as u64 * cut(&inside, k + 1)
    };
    ends.windows(2).map(slab).sum()
}
