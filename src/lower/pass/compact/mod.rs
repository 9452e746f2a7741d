//! Shrinks register and shared buffers to the part that one thread or block touches.
//!
//! Variables of loops around all accesses are fixed, but for those inside of a loop that sets a value in its first step
//! alone, and so are block indices and, for registers, thread indices; what is left of an index ranges over the part that
//! is touched. Gaps between strides close where all accesses have the same strides. A buffer that an instruction touches stays as
//! it is, and so does one of which warps have parts. What the schedule asks of the strides of what is left is done here too ([`placement`]).
//!
//! before: registers `rf[256, 2048]`, accessed as `rf[threadIdx.x, blockIdx.x]`
//! after:  registers `rf[1, 1]`, accessed as `rf[0, 0]`

mod placement;

use super::batch::held_by_instructions;
use crate::analysis::{Ranges, bounds, simplify};
use crate::ir::device::{DStmt, conjuncts, map_list, map_stmts};
use crate::ir::{BinOp, Expr, ExprKind, Name, ThreadTag};
use crate::lower::LowerError;
use crate::lower::fact::digits::{Digit, digits, is_unique};
use crate::lower::nest::{Nest, THREADS};
use std::collections::{BTreeMap, BTreeSet};

const PASS: &str = "compact";
/// Elements of a register array of a GPU thread; more would spill anyway.
const MAX_REGISTERS: i64 = 1024;
/// Elements of a private array of a CPU thread (its stack holds them).
const MAX_STACK: i64 = 1 << 16;

/// Shrinks every register and shared buffer of the launch.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    let mut accesses = BTreeMap::new();
    collect(&body, &mut Around::default(), &mut accesses);
    let mut plans = BTreeMap::new();
    let mut whole = held_by_instructions(&body);
    whole.extend(nest.held.keys().chain(&nest.of_warps).cloned());
    let placements = placement::of_func(nest.func);
    for (name, list) in &accesses {
        if nest.is_global(name) || nest.is_tensor(name) || whole.contains(name) {
            continue;
        }
        let plan = Plan::of(nest, name, list)?;
        let shape = plan.dims.iter().flat_map(Dim::shape).map(Expr::i64).collect();
        if let Some(b) = nest.buffers.get_mut(name) {
            b.shape = shape;
            b.strides.clear();
            if let Some(asked) = placements.get(name) {
                asked.arrange(b, &plan.starts());
            }
        }
        plans.insert(name.clone(), plan);
    }
    Ok(rewrite(&plans, &nest.ranges, &body))
}

/// The loops around a statement, outer to inner, and what is true there.
#[derive(Clone, Default)]
struct Around {
    loops: Vec<Name>,
    conds: Vec<Expr>,
}

/// An access: what is around it, and its indices.
struct Access {
    around: Around,
    indices: Vec<Expr>,
}

fn collect(body: &[DStmt], around: &mut Around, out: &mut BTreeMap<Name, Vec<Access>>) {
    for s in body {
        if let DStmt::Tile(call) = s {
            call.for_each_tile(|t| {
                add(out, &t.buffer, &t.begin, around);
                add(out, &t.buffer, &t.last(), around);
            });
        }
        s.for_each_access(|buffer, indices, _| add(out, buffer, indices, around));
        match s {
            DStmt::For(l) => {
                around.loops.push(l.var.clone());
                collect(&l.body, around, out);
                around.loops.pop();
            }
            DStmt::If { cond, then, otherwise } => {
                let known = around.conds.len();
                around.conds.extend(conjuncts(cond));
                collect(then, around, out);
                around.conds.truncate(known);
                collect(otherwise, around, out);
            }
            s => s.lists().into_iter().for_each(|list| collect(list, around, out)),
        }
    }
}

fn add(out: &mut BTreeMap<Name, Vec<Access>>, buffer: &Name, indices: &[Expr], around: &Around) {
    let access = Access { around: around.clone(), indices: indices.to_vec() };
    out.entry(buffer.clone()).or_default().push(access);
}

/// How the indices of one buffer change.
struct Plan {
    fixed: Fixed,
    dims: Vec<Dim>,
}

enum Dim {
    /// The index stays.
    Whole(i64),
    /// `index - base`, with `base` the fixed part less the smallest offset.
    Box { base: Expr, size: i64 },
    /// One index per digit, larger strides first.
    Digits(Vec<(i64, i64)>),
}

impl Dim {
    fn shape(&self) -> Vec<i64> {
        match self {
            Dim::Whole(n) => vec![*n],
            Dim::Box { size, .. } => vec![*size],
            Dim::Digits(all) => all.iter().map(|d| d.1).collect(),
        }
    }
}

/// Which variables keep one value while the buffer is alive.
struct Fixed {
    loops: BTreeSet<Name>,
    threads: bool,
    /// The block's place in its cluster is: not for what blocks of a cluster share.
    rank: bool,
}

impl Fixed {
    fn contains(&self, name: &Name, ranges: &Ranges) -> bool {
        match ThreadTag::by_name(name.as_str()) {
            Some(tag) if THREADS.contains(&tag) => self.threads,
            Some(ThreadTag::ClusterX) => self.rank,
            Some(_) => true,
            None => self.loops.contains(name) || (!name.as_str().contains('.') && is_extent(name, ranges)),
        }
    }

    /// The part of an index that is fixed, and the rest.
    fn parts(&self, e: &Expr, ranges: &Ranges) -> (Expr, Expr) {
        let zero = |n: &Name| (!self.contains(n, ranges)).then(|| Expr::i64(0));
        let base = simplify(&e.subst(&zero), ranges);
        let rest = simplify(&(e.clone() - base.clone()), ranges);
        (base, rest)
    }
}

/// Symbolic extents are at least 1; every loop variable may be 0.
fn is_extent(name: &Name, ranges: &Ranges) -> bool {
    ranges.get(name).is_some_and(|i| i.lo >= 1)
}

impl Plan {
    fn of(nest: &Nest, name: &Name, list: &[Access]) -> Result<Plan, LowerError> {
        let local = nest.is_local(name);
        let mut common = list[0].around.loops.clone();
        for a in list {
            let same = common.iter().zip(&a.around.loops).take_while(|(a, b)| a == b).count();
            common.truncate(same);
        }
        if let Some(at) = set_in_first_step(&list[0].around.conds, &common) {
            common.truncate(at + 1);
        }
        let fixed = Fixed { loops: common.into_iter().collect(), threads: local, rank: !nest.is_cluster(name) };
        let buffer = nest.buffer(PASS, name)?;
        let mut dims = vec![];
        for (d, extent) in buffer.shape.iter().enumerate() {
            let indices: Vec<(&Expr, &[Expr])> =
                list.iter().map(|a| (&a.indices[d], a.around.conds.as_slice())).collect();
            // Where conditions keep the indices inside, their bounds alone may be wider than the buffer.
            let narrower = |d: &Dim| local || extent.as_int().is_none_or(|n| d.shape().iter().product::<i64>() <= n);
            let part = dim(&indices, &fixed, nest).filter(narrower);
            let dim = part.or(extent.as_int().map(Dim::Whole)).ok_or_else(|| {
                LowerError::new(PASS, name, format!("the part of dimension {d} that is touched has no constant size"))
            })?;
            dims.push(dim);
        }
        let size: i64 = dims.iter().flat_map(Dim::shape).product();
        let limit = if nest.cuda() { MAX_REGISTERS } else { MAX_STACK };
        if local && size > limit {
            return Err(LowerError::new(
                PASS,
                name,
                format!("{size} registers per thread; at most {limit} are allowed"),
            ));
        }
        Ok(Plan { fixed, dims })
    }
}

/// The outermost of some loops in whose first step alone a value is set, by the conditions on that: the value lives on in
/// the other steps, so that each step of the loops inside has one of its own.
fn set_in_first_step(conds: &[Expr], loops: &[Name]) -> Option<usize> {
    let first_of = |l: &Name| {
        conds.iter().any(|c| match c.kind() {
            ExprKind::Binary { op: BinOp::Eq, a, b } => a.as_var() == Some(l) && b.is_int(0),
            _ => false,
        })
    };
    loops.iter().position(first_of)
}

/// The bounds of an expression where conditions hold, as far as it is made of what they bound: `(a + 1) / 12` where
/// `a < 384`.
fn bounds_where(e: &Expr, conds: &[Expr], ranges: &Ranges) -> Option<(i64, i64)> {
    let (mut lo, mut hi) = bounds(e, ranges)?;
    for cond in conds {
        let cond = simplify(cond, ranges);
        let ExprKind::Binary { op: BinOp::Lt, a, b } = cond.kind() else { continue };
        let (Some((least, _)), Some(n)) = (bounds(a, ranges), b.as_int()) else { continue };
        let (bounded, mut ranges) = (Name::new("what a condition bounds"), ranges.clone());
        let named = e.replaced(a, &Expr::var(bounded.clone(), a.dtype()));
        if least < n && named.uses_var(&bounded) {
            ranges.set(bounded, least, n - 1);
            let (a, b) = bounds(&named, &ranges)?;
            (lo, hi) = (lo.max(a), hi.min(b));
        }
    }
    (lo <= hi).then_some((lo, hi))
}

/// The plan of one dimension over all its indices, each under its conditions.
fn dim(indices: &[(&Expr, &[Expr])], fixed: &Fixed, nest: &Nest) -> Option<Dim> {
    let ranges = &nest.ranges;
    let parts: Vec<(Expr, Expr)> = indices.iter().map(|(e, _)| fixed.parts(e, ranges)).collect();
    let base = &parts[0].0;
    let (mut lo, mut hi, mut same) = (i64::MAX, i64::MIN, true);
    for ((own, rest), (_, conds)) in parts.iter().zip(indices) {
        let shift = simplify(&(own.clone() - base.clone()), ranges).as_int()?;
        let (a, b) = bounds_where(rest, conds, ranges)?;
        (lo, hi, same) = (lo.min(a + shift), hi.max(b + shift), same && shift == 0);
    }
    let size = hi - lo + 1;
    if same
        && lo == 0
        && let Some(digits) = common_digits(&parts, ranges)
        && digits.iter().map(|d| d.1).product::<i64>() < size
    {
        return Some(Dim::Digits(digits));
    }
    Some(Dim::Box { base: simplify(&(base.clone() + Expr::i64(lo)), ranges), size })
}

/// Strides and sizes that hold for all accesses, larger strides first.
fn common_digits(parts: &[(Expr, Expr)], ranges: &Ranges) -> Option<Vec<(i64, i64)>> {
    let mut sizes: BTreeMap<i64, i64> = BTreeMap::new();
    for (_, rest) in parts {
        for d in digits(rest, ranges)? {
            let size = sizes.entry(d.stride).or_insert(1);
            *size = d.size.max(*size);
        }
    }
    let all: Vec<Digit> = sizes.iter().map(|(s, n)| Digit { stride: *s, size: *n, value: Expr::i64(0) }).collect();
    (is_unique(&all) && !all.is_empty()).then(|| sizes.into_iter().rev().collect())
}

fn rewrite(plans: &BTreeMap<Name, Plan>, ranges: &Ranges, body: &[DStmt]) -> Vec<DStmt> {
    let loads = map_list(body, &mut |e| expr(plans, ranges, e));
    map_stmts(loads, &mut |s| places(plans, ranges, s))
}

/// What a statement writes, and the tiles that it names.
fn places(plans: &BTreeMap<Name, Plan>, ranges: &Ranges, mut s: DStmt) -> DStmt {
    let apply = |buffer: &Name, at: &mut Vec<Expr>| {
        if let Some(plan) = plans.get(buffer) {
            *at = plan.apply(at, ranges);
        }
    };
    match &mut s {
        DStmt::Store { buffer, indices, .. } => apply(buffer, indices),
        DStmt::Tile(call) => call.for_each_tile_mut(|t| apply(&t.buffer, &mut t.begin)),
        _ => {}
    }
    s
}

fn expr(plans: &BTreeMap<Name, Plan>, ranges: &Ranges, e: &Expr) -> Expr {
    let e = e.map_children(|c| expr(plans, ranges, c));
    if let ExprKind::Load { buffer, indices, dtype } = e.kind()
        && let Some(plan) = plans.get(buffer)
    {
        return Expr::load(buffer.clone(), plan.apply(indices, ranges), *dtype);
    }
    e
}

impl Plan {
    /// At which dimension of the new shape each old one begins.
    fn starts(&self) -> Vec<usize> {
        let mut next = 0;
        let begin = |d: &Dim| {
            let at = next;
            next += d.shape().len();
            at
        };
        self.dims.iter().map(begin).collect()
    }

    fn apply(&self, indices: &[Expr], ranges: &Ranges) -> Vec<Expr> {
        self.dims.iter().zip(indices).flat_map(|(d, e)| self.one(d, e, ranges)).collect()
    }

    fn one(&self, dim: &Dim, e: &Expr, ranges: &Ranges) -> Vec<Expr> {
        match dim {
            Dim::Whole(_) => vec![e.clone()],
            Dim::Box { size: 1, .. } => vec![Expr::i64(0)],
            Dim::Box { base, .. } => vec![simplify(&(e.clone() - base.clone()), ranges)],
            Dim::Digits(all) => {
                let rest = self.fixed.parts(e, ranges).1;
                let own = digits(&rest, ranges).unwrap_or_default();
                let value = |stride: i64| own.iter().find(|d| d.stride == stride).map(|d| d.value.clone());
                all.iter().map(|(stride, _)| simplify(&value(*stride).unwrap_or(Expr::i64(0)), ranges)).collect()
            }
        }
    }
}
