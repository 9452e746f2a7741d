//! What of a pipelined loop may run ahead: the statements at its start that fill shared memory, as
//! asynchronous copies or by way of registers (`through`).

use crate::analysis::simplify;
use crate::ir::device::{DFor, DStmt, map_list, map_stmts};
use crate::ir::instr::{Access, At, Instr, Op, Sync};
use crate::ir::kernel::Barrier;
use crate::ir::{Expr, ExprKind, Name};
use crate::lower::nest::{Nest, fresh_name};
use crate::lower::pass::batch::touched;
use std::collections::{BTreeMap, BTreeSet};

/// How a fill gets into shared memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By `cp.async`.
    Async,
    /// By way of registers.
    Registers,
}

/// Statements that fill some buffers in shared memory.
pub struct Fill {
    pub body: Vec<DStmt>,
    pub buffers: BTreeSet<Name>,
    pub kind: Kind,
    /// It computes from what asynchronous copies of the same step brought into shared memory.
    pub chained: bool,
}

/// The body of a loop.
pub struct Parts {
    pub fills: Vec<Fill>,
    /// The rest.
    pub compute: Vec<DStmt>,
}

impl Parts {
    /// The buffers that are filled.
    pub fn filled(&self) -> impl Iterator<Item = &Name> {
        self.fills.iter().flat_map(|f| &f.buffers)
    }
}

/// Splits the body of a loop; `None` where it is not fills and then a computation that only reads them.
pub fn parts(nest: &Nest, body: &[DStmt]) -> Option<Parts> {
    let both = |body: &[DStmt]| [Access::Read, Access::Write].map(|access| touched(body, access));
    let writes = |s: &DStmt| touched(std::slice::from_ref(s), Access::Write).iter().any(|b| nest.is_shared(b));
    // what is written once products are under way belongs to them
    let multiplies = |s: &DStmt| matches!(s, DStmt::Instr(i) if i.op == Op::Sync(Sync::WgmmaFence));
    let filling = body.iter().position(multiplies).unwrap_or(body.len());
    let end = body[..filling].iter().rposition(writes)? + 1;
    let (first, compute) = body.split_at(end);
    let ([read, written], [used, changed]) = (both(first), both(compute));
    let private = written.iter().all(|b| nest.is_shared(b) || nest.is_local(b) && !used.contains(b));
    let fresh = read.iter().all(|b| !changed.contains(b));
    if compute.is_empty() || waits_for_copies(body) || meet(&body[..filling]) || !private || !fresh {
        return None;
    }
    let mut fills: Vec<Fill> = vec![];
    let mut open = vec![];
    for s in first {
        open.push(s.clone());
        if writes(s) {
            let body = std::mem::take(&mut open);
            let buffers = touched(&body, Access::Write).into_iter().filter(|b| nest.is_shared(b)).collect();
            let kind = if as_async(nest, &body).is_some() { Kind::Async } else { Kind::Registers };
            fills.push(Fill { body, buffers, kind, chained: false });
        }
    }
    chain(nest, &mut fills)?;
    Some(Parts { fills, compute: compute.to_vec() })
}

/// Finds the fills that compute from earlier ones; `None` where one reads shared memory that no asynchronous
/// copies alone have filled.
fn chain(nest: &Nest, fills: &mut [Fill]) -> Option<()> {
    let by_threads: BTreeSet<Name> =
        fills.iter().filter(|f| f.kind == Kind::Registers).flat_map(|f| f.buffers.clone()).collect();
    let mut landed = BTreeSet::new();
    for f in fills {
        let mut read = touched(&f.body, Access::Read).into_iter().filter(|b| nest.is_shared(b)).peekable();
        f.chained = read.peek().is_some();
        if f.chained && (f.kind == Kind::Async || !read.all(|b| landed.contains(&b))) {
            return None;
        }
        if f.kind == Kind::Async {
            landed.extend(f.buffers.difference(&by_threads).cloned());
        }
    }
    Some(())
}

/// True where threads wait for copies.
fn waits_for_copies(body: &[DStmt]) -> bool {
    any(
        body,
        |s| matches!(s, DStmt::Instr(i) if matches!(i.op, Op::CpAsync { .. } | Op::Sync(Sync::CpAsyncWait { .. }))),
    )
}

/// True where threads wait for each other.
fn meet(body: &[DStmt]) -> bool {
    any(body, |s| matches!(s, DStmt::Barrier(b) if *b != Barrier::Warp))
}

fn any(body: &[DStmt], is: impl Fn(&DStmt) -> bool) -> bool {
    let mut found = false;
    body.iter().for_each(|s| s.visit(&mut |s| found |= is(s)));
    found
}

/// A fill as asynchronous copies.
///
/// # Panics
/// Where it is of another kind.
pub fn async_copies(nest: &Nest, body: &[DStmt]) -> Vec<DStmt> {
    as_async(nest, body).unwrap_or_else(|| panic!("a fill of asynchronous copies converts"))
}

/// Statements that fill shared memory as asynchronous copies; `None` where there are none of that size and form.
pub fn as_async(nest: &Nest, body: &[DStmt]) -> Option<Vec<DStmt>> {
    if !nest.target.has.cp_async {
        return None;
    }
    if let Some(copy) = copy_of(nest, body) {
        return Some(vec![copy.start(None)]);
    }
    body.iter().map(|s| convert_one(nest, s)).collect()
}

fn convert_one(nest: &Nest, s: &DStmt) -> Option<DStmt> {
    match s {
        DStmt::For(l) => Some(DStmt::For(l.with_body(as_async(nest, &l.body)?))),
        DStmt::If { cond, then, otherwise } if otherwise.is_empty() => {
            Some(DStmt::If { cond: cond.clone(), then: as_async(nest, then)?, otherwise: vec![] })
        }
        DStmt::If { cond, then, otherwise } => {
            let copy = copy_of(nest, then)?;
            (zeros(otherwise)? == copy.dst).then(|| copy.start(Some(cond.clone())))
        }
        DStmt::Store { buffer, indices, value, .. } => element_of(nest, buffer, indices, value),
        _ => None,
    }
}

/// The copy of one element, or of a zero where a condition fails, that a store amounts to.
fn element_of(nest: &Nest, to: &Name, indices: &[Expr], value: &Expr) -> Option<DStmt> {
    let (valid, value) = copied(value)?;
    let ExprKind::Load { buffer: from, indices: source, dtype } = value.kind() else { return None };
    let ([to_index], [from_index]) = (indices, source.as_slice()) else { return None };
    let bytes = dtype.bytes() as u32;
    let same = nest.buffers.get(to)?.dtype == *dtype && nest.is_shared(to) && nest.is_global(from);
    let copy = Direct { dst: At::new(to, to_index.clone()), src: At::new(from, from_index.clone()), bytes };
    (same && matches!(bytes, 4 | 8)).then(|| copy.start(valid.cloned()))
}

/// A copy from global into shared memory.
struct Direct {
    dst: At,
    src: At,
    bytes: u32,
}

impl Direct {
    fn start(self, valid: Option<Expr>) -> DStmt {
        let Direct { dst, src, bytes } = self;
        DStmt::Instr(Instr::cp_async(dst, src, bytes, valid, (bytes == 16).then_some(128)))
    }
}

/// The vector copy that a load into registers and a store from them amount to.
fn copy_of(nest: &Nest, body: &[DStmt]) -> Option<Direct> {
    let [
        DStmt::Copy { dst: via, dst_index: to, src, src_index, lanes, .. },
        DStmt::Copy { dst, dst_index, src: from, src_index: at, lanes: n, .. },
    ] = body
    else {
        return None;
    };
    let through = via == from && to == at && lanes == n && nest.is_local(via);
    let bytes = lanes * nest.buffers.get(dst)?.dtype.bytes() as u32;
    let direct = through && nest.is_shared(dst) && nest.is_global(src) && matches!(bytes, 4 | 8 | 16);
    direct.then(|| Direct { dst: At::new(dst, dst_index.clone()), src: At::new(src, src_index.clone()), bytes })
}

/// The place that zeros are stored to by way of registers.
fn zeros(body: &[DStmt]) -> Option<At> {
    let [DStmt::For(l), DStmt::Copy { dst, dst_index, src, .. }] = body else { return None };
    let [DStmt::Store { buffer, value, .. }] = l.body.as_slice() else { return None };
    (buffer == src && is_zero(value)).then(|| At::new(dst, dst_index.clone()))
}

/// True for a zero of any type.
pub fn is_zero(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Float { bits, .. } => f64::from_bits(*bits).to_bits() == 0,
        _ => e.is_int(0),
    }
}

/// What a value is where it is not zero, with the condition of that.
pub fn copied(value: &Expr) -> Option<(Option<&Expr>, &Expr)> {
    let (ExprKind::IfThenElse { cond, then, otherwise } | ExprKind::Select { cond, then, otherwise }) = value.kind()
    else {
        return Some((None, value));
    };
    is_zero(otherwise).then_some((Some(cond), then))
}

/// Statements of a loop at another value of its variable, with names of their own; copies lose conditions that hold there.
pub fn at_step(nest: &mut Nest, body: &[DStmt], var: &Name, step: &Expr) -> Vec<DStmt> {
    let mut names: BTreeMap<Name, Name> = BTreeMap::new();
    for s in body {
        s.visit(&mut |s| {
            if let Some(var) = s.declared() {
                names.entry(var.clone()).or_insert_with(|| fresh_name(&mut nest.taken, var.as_str()));
            }
        });
    }
    for (old, new) in &names {
        if let Some(range) = nest.ranges.get(old) {
            nest.ranges.set_interval(new.clone(), range);
        }
    }
    let mut value = |e: &Expr| {
        let e = rename(e, &names);
        match e.uses_var(var) {
            true => simplify(&e.subst(&|n| (n == var).then(|| step.clone())), &nest.ranges),
            false => e,
        }
    };
    map_stmts(map_list(body, &mut value), &mut |mut s| {
        if let DStmt::For(DFor { var, .. })
        | DStmt::Let { var, .. }
        | DStmt::Var { var, .. }
        | DStmt::Assign { var, .. } = &mut s
            && let Some(new) = names.get(var)
        {
            *var = new.clone();
        }
        if let DStmt::Instr(copy) = &mut s
            && matches!(copy.op, Op::CpAsync { .. })
        {
            copy.values.retain(|valid| !valid.is_int(1));
        }
        s
    })
}

fn rename(e: &Expr, names: &BTreeMap<Name, Name>) -> Expr {
    let e = e.map_children(|c| rename(c, names));
    match e.as_var().and_then(|n| names.get(n)) {
        Some(new) => Expr::var(new.clone(), e.dtype()),
        None => e,
    }
}
