//! What of a pipelined loop may run ahead: the statements at its start that fill shared memory, as
//! asynchronous copies or by way of registers.

use crate::analysis::simplify;
use crate::ir::device::{DFor, DKind, DStmt, index_var, map_list, map_stmts};
use crate::ir::instr::{Access, At, Instr, Op, Sync};
use crate::ir::kernel::Barrier;
use crate::ir::{Expr, ExprKind, Name, Scope};
use crate::lower::fact::replicated::loads;
use crate::lower::nest::{Nest, fresh_name};
use crate::lower::pass::batch::touched;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of registers that a thread may hold on the way into shared memory.
const MAX_HELD: i64 = 256;

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
    let end = body.iter().rposition(writes)? + 1;
    let (first, compute) = body.split_at(end);
    let ([read, written], [used, changed]) = (both(first), both(compute));
    let independent = !read.iter().any(|b| nest.is_shared(b)) && !synchronises(body);
    let private = written.iter().all(|b| nest.is_shared(b) || nest.is_local(b) && !used.contains(b));
    let fresh = read.iter().all(|b| !changed.contains(b));
    if compute.is_empty() || !independent || !private || !fresh {
        return None;
    }
    let mut fills: Vec<Fill> = vec![];
    let mut open = vec![];
    for s in first {
        open.push(s.clone());
        if writes(s) {
            let body = std::mem::take(&mut open);
            let buffers = touched(&body, Access::Write).into_iter().filter(|b| nest.is_shared(b)).collect();
            let kind = if convert(nest, &body).is_some() { Kind::Async } else { Kind::Registers };
            fills.push(Fill { body, buffers, kind });
        }
    }
    Some(Parts { fills, compute: compute.to_vec() })
}

/// True where threads wait for each other or for copies.
fn synchronises(body: &[DStmt]) -> bool {
    let mut found = false;
    for s in body {
        s.visit(&mut |s| {
            found |= matches!(s, DStmt::Barrier(b) if *b != Barrier::Warp)
                || matches!(s, DStmt::Instr(i) if matches!(i.op, Op::CpAsync { .. } | Op::Sync(Sync::CpAsyncWait { .. })));
        });
    }
    found
}

/// A fill as asynchronous copies.
///
/// # Panics
/// Where it is of another kind.
pub fn async_copies(nest: &Nest, body: &[DStmt]) -> Vec<DStmt> {
    convert(nest, body).unwrap_or_else(|| panic!("a fill of asynchronous copies converts"))
}

fn convert(nest: &Nest, body: &[DStmt]) -> Option<Vec<DStmt>> {
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
        DStmt::For(l) => Some(DStmt::For(l.with_body(convert(nest, &l.body)?))),
        DStmt::If { cond, then, otherwise } if otherwise.is_empty() => {
            Some(DStmt::If { cond: cond.clone(), then: convert(nest, then)?, otherwise: vec![] })
        }
        DStmt::If { cond, then, otherwise } => {
            let copy = copy_of(nest, then)?;
            (zeros(otherwise)? == copy.dst).then(|| copy.start(Some(cond.clone())))
        }
        _ => None,
    }
}

/// A vector copy from global into shared memory.
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

/// A fill in two: everything up to registers of its own, and from there to shared memory.
pub fn through_registers(nest: &mut Nest, fill: &Fill) -> Option<(Vec<DStmt>, Vec<DStmt>)> {
    let mut split = Split { nest, loops: vec![], bytes: 0 };
    split.list(&fill.body)
}

struct Split<'n, 'a> {
    nest: &'n mut Nest<'a>,
    /// The loops around, outermost first.
    loops: Vec<(Name, i64)>,
    /// Bytes held so far.
    bytes: i64,
}

impl Split<'_, '_> {
    fn list(&mut self, body: &[DStmt]) -> Option<(Vec<DStmt>, Vec<DStmt>)> {
        let (mut load, mut store) = (vec![], vec![]);
        for s in body {
            let (a, b) = self.one(s)?;
            load.extend(a);
            store.extend(b);
        }
        Some((load, store))
    }

    fn one(&mut self, s: &DStmt) -> Option<(Vec<DStmt>, Vec<DStmt>)> {
        match s {
            DStmt::For(l) => {
                self.loops.push((l.var.clone(), l.extent.as_int()?));
                let (load, store) = self.list(&l.body)?;
                self.loops.pop();
                let around = |body: Vec<DStmt>| match body.is_empty() {
                    true => vec![],
                    false => vec![DStmt::For(DFor { kind: DKind::Unrolled, batch: false, ..l.with_body(body) })],
                };
                Some((around(load), around(store)))
            }
            DStmt::If { cond, then, otherwise } => {
                let mut read = BTreeSet::new();
                loads(cond, &mut read);
                let ((a, b), (c, d)) = (self.list(then)?, self.list(otherwise)?);
                let stores = !b.is_empty() || !d.is_empty();
                if stores && !read.is_empty() {
                    return None;
                }
                let under = |then: Vec<DStmt>, otherwise: Vec<DStmt>| match then.is_empty() && otherwise.is_empty() {
                    true => vec![],
                    false => vec![DStmt::If { cond: cond.clone(), then, otherwise }],
                };
                Some((under(a, c), under(b, d)))
            }
            DStmt::Store { buffer, indices, value, hint } if self.nest.is_shared(buffer) => {
                let (held, at) = self.hold(buffer, 1)?;
                let dtype = self.nest.buffers.get(buffer)?.dtype;
                let load = DStmt::store(held.clone(), vec![at.clone()], value.clone());
                let value = Expr::load(held, vec![at], dtype);
                let store = DStmt::Store { buffer: buffer.clone(), indices: indices.clone(), value, hint: *hint };
                Some((vec![load], vec![store]))
            }
            DStmt::Copy { dst, dst_index, src, src_index, lanes, hint } if self.nest.is_shared(dst) => {
                let n = i64::from(*lanes);
                let (held, at) = self.hold(dst, n)?;
                let load = self.moves(&held, &at, src, src_index, n)?;
                let store = DStmt::Copy {
                    dst: dst.clone(),
                    dst_index: dst_index.clone(),
                    src: held,
                    src_index: at,
                    lanes: *lanes,
                    hint: *hint,
                };
                Some((vec![load], vec![store]))
            }
            DStmt::Store { .. } | DStmt::Copy { .. } => Some((vec![s.clone()], vec![])),
            DStmt::Instr(_) => self.is_private(s).then(|| (vec![s.clone()], vec![])),
            _ => None,
        }
    }

    /// True where a statement writes to registers only.
    fn is_private(&self, s: &DStmt) -> bool {
        touched(std::slice::from_ref(s), Access::Write).iter().all(|b| self.nest.is_local(b))
    }

    /// Registers for what goes to `buffer`, `lanes` elements for each step of the loops around, and the
    /// index of the current step's first.
    fn hold(&mut self, buffer: &Name, lanes: i64) -> Option<(Name, Expr)> {
        let dtype = self.nest.buffers.get(buffer)?.dtype;
        let steps: i64 = self.loops.iter().map(|(_, n)| n).product();
        self.bytes += steps * lanes * dtype.bytes() as i64;
        if self.bytes > MAX_HELD {
            return None;
        }
        let name = self.nest.scratch(&format!("{buffer}_next"), dtype, Expr::i64(steps * lanes), Scope::Local);
        let step = self.loops.iter().fold(Expr::i64(0), |at, (var, n)| at * Expr::i64(*n) + index_var(var));
        Some((name, simplify(&(step * Expr::i64(lanes)), &self.nest.ranges)))
    }

    /// Moves registers, one by one.
    fn moves(&mut self, dst: &Name, to: &Expr, src: &Name, from: &Expr, n: i64) -> Option<DStmt> {
        if !self.nest.is_local(src) {
            return None;
        }
        let dtype = self.nest.buffers.get(src)?.dtype;
        let var = self.nest.fresh("v");
        self.nest.ranges.set(var.clone(), 0, n - 1);
        let value = Expr::load(src.clone(), vec![from.clone() + index_var(&var)], dtype);
        let store = DStmt::store(dst.clone(), vec![to.clone() + index_var(&var)], value);
        Some(DStmt::For(DFor::new(var, Expr::i64(n), DKind::Unrolled, vec![store])))
    }
}

/// Statements of a loop at another value of its variable, with names of their own.
pub fn at_step(nest: &mut Nest, body: &[DStmt], var: &Name, step: &Expr) -> Vec<DStmt> {
    let mut names: BTreeMap<Name, Name> = BTreeMap::new();
    for s in body {
        s.visit(&mut |s| {
            if let DStmt::For(DFor { var, .. }) | DStmt::Let { var, .. } | DStmt::Var { var, .. } = s {
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
