//! Puts the loads of all iterations of an unrolled loop before their uses.
//!
//! An unrolled loop marked `batch_loads` splits in two: first every iteration's loads from global
//! memory into registers, then the rest. Each iteration gets registers of its own. Unrolled loops
//! inside take part, so that all loads of the nest are in flight together.
//!
//! before: `unroll u < 4 { copy4 r[0] <- p0[u*128]; acc = acc + r[0] + ... }`
//! after:  `unroll u < 4 { copy4 r[u*4] <- p0[u*128] }; unroll u < 4 { acc = acc + r[u*4] + ... }`

use crate::analysis::simplify;
use crate::ir::device::{DFor, DKind, DStmt, index_var};
use crate::ir::instr::{Access, Op};
use crate::ir::{Expr, ExprKind, Name};
use crate::lower::fact::redirect;
use crate::lower::nest::Nest;
use std::collections::{BTreeMap, BTreeSet};

/// Splits every marked loop.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    let uses = uses(&body);
    list(&mut Batch { nest, written: BTreeSet::new(), uses }, body, false)
}

struct Batch<'n, 'a> {
    nest: &'n mut Nest<'a>,
    /// Buffers that some statement of the marked loop stores to: what comes before it is done.
    written: BTreeSet<Name>,
    /// How many statements use a register array.
    uses: BTreeMap<Name, usize>,
}

impl<'a> Batch<'_, 'a> {
    fn known(&self) -> Constants<'_, 'a> {
        Constants { nest: self.nest, written: &self.written }
    }
}

fn list(b: &mut Batch, body: Vec<DStmt>, inside: bool) -> Vec<DStmt> {
    body.into_iter().flat_map(|s| one(b, s, inside)).collect()
}

fn one(b: &mut Batch, s: DStmt, inside: bool) -> Vec<DStmt> {
    let outside = !inside;
    let inside = match &s {
        DStmt::For(l) => l.kind == DKind::Unrolled && (l.batch || inside),
        _ => inside,
    };
    if inside && outside {
        b.written = written(std::slice::from_ref(&s));
    }
    match s.map_lists(|v| list(b, v, inside)) {
        DStmt::For(l) if inside => split(b, l),
        s => vec![s],
    }
}

fn split(b: &mut Batch, mut l: DFor) -> Vec<DStmt> {
    l.body = l.body.into_iter().flat_map(|s| apart(b, s)).collect();
    let arrays = loaded_arrays(b, &l.body);
    let Some(count) = l.extent.as_int().filter(|_| !arrays.is_empty()) else { return vec![DStmt::For(l)] };
    let (loads, rest): (Vec<DStmt>, Vec<DStmt>) = l.body.iter().cloned().partition(|s| is_load(s, &arrays));
    if rest.is_empty() {
        // Only loads: whoever uses them stands outside and shares the registers.
        return vec![DStmt::For(l)];
    }
    let mut sizes = BTreeMap::new();
    for name in &arrays {
        let lanes = l.body.iter().map(|s| widest(s, name)).max().unwrap_or(1) as i64;
        if let Some(buffer) = b.nest.buffers.get_mut(name) {
            let size: i64 = buffer.shape.iter().filter_map(|e| e.as_int()).product();
            let size = (size + lanes - 1) / lanes * lanes;
            buffer.shape = vec![Expr::i64(size * count)];
            sizes.insert(name.clone(), size);
        }
    }
    let own = |name: &Name, at: &Expr| {
        let at = index_var(&l.var) * Expr::i64(*sizes.get(name)?) + at.clone();
        Some((name.clone(), simplify(&at, &b.nest.ranges)))
    };
    let expand = |list: Vec<DStmt>| redirect::all(&list, &own);
    vec![DStmt::For(l.with_body(expand(loads))), DStmt::For(DFor { batch: false, ..l.with_body(expand(rest)) })]
}

/// Statements under a condition that no store changes: the loads under it, then the rest under it. Where runs are
/// shifted out of words, what is done where the condition fails stays.
fn apart(b: &Batch, s: DStmt) -> Vec<DStmt> {
    match s {
        DStmt::If { cond, then, otherwise }
            if b.known().reads_constants(&cond) && (otherwise.is_empty() || takes_runs(&then)) =>
        {
            let (mut loads, mut rest) = (vec![], vec![]);
            for s in then {
                let early = filled(b, &s).is_some_and(|arrays| may_precede(&arrays, rest.iter().chain(&otherwise)));
                if early { loads.push(s) } else { rest.push(s) }
            }
            let under = |then: Vec<DStmt>, otherwise| DStmt::If { cond: cond.clone(), then, otherwise };
            let parts = [(loads, vec![]), (rest, otherwise)];
            let some = |(then, other): &(Vec<DStmt>, Vec<DStmt>)| !(then.is_empty() && other.is_empty());
            parts.into_iter().filter(some).map(|(then, other)| under(then, other)).collect()
        }
        other => vec![other],
    }
}

/// True for words of which runs are shifted out.
fn takes_runs(body: &[DStmt]) -> bool {
    body.iter().any(|s| matches!(s, DStmt::Instr(i) if i.op.takes_runs()))
}

/// True where a load that fills `arrays` may go before these statements: they use none of them, and
/// declare nothing that it could mention.
fn may_precede<'s>(arrays: &BTreeSet<Name>, mut rest: impl Iterator<Item = &'s DStmt>) -> bool {
    let declares = |s: &DStmt| matches!(s, DStmt::Let { .. } | DStmt::Var { .. } | DStmt::Assign { .. });
    let fits = |s: &DStmt| !declares(s) && uses(std::slice::from_ref(s)).keys().all(|a| !arrays.contains(a));
    rest.all(fits)
}

/// Register arrays that are only used in this body and filled by loads at its top level.
fn loaded_arrays(b: &Batch, body: &[DStmt]) -> BTreeSet<Name> {
    let own = uses(body);
    let mut arrays = BTreeSet::new();
    for s in body {
        if let Some(filled) = filled(b, s) {
            arrays.extend(filled.into_iter().filter(|n| own.get(n) == b.uses.get(n)));
        }
    }
    let keeps = |n: &Name| body.iter().all(|s| filled(b, s).is_some() || !stores_to(s, n));
    let fixed = fixed_by_instructions(body);
    arrays.retain(|n| keeps(n) && !fixed.contains(n));
    arrays
}

/// The buffers that instructions touch: their places say where elements lie.
pub fn held_by_instructions(body: &[DStmt]) -> BTreeSet<Name> {
    held_by(body, |_| true)
}

/// Those of them whose elements keep their places, as no place says where all of them lie.
pub fn fixed_by_instructions(body: &[DStmt]) -> BTreeSet<Name> {
    held_by(body, |op| !op.takes_runs())
}

fn held_by(body: &[DStmt], of: fn(&Op) -> bool) -> BTreeSet<Name> {
    let mut out = BTreeSet::new();
    for s in body {
        s.visit(&mut |s| match s {
            DStmt::Instr(i) if of(&i.op) => i.for_each_place(|at, _, _| out.extend([at.array.clone()])),
            _ => {}
        });
    }
    out
}

/// The arrays that a statement made of nothing but loads from memory fills, which the marked loop only reads.
fn filled(b: &Batch, s: &DStmt) -> Option<BTreeSet<Name>> {
    match s {
        DStmt::Copy { dst, src, src_index, .. } => {
            let load = b.nest.is_local(dst) && b.known().is_constant(src) && b.known().reads_constants(src_index);
            load.then(|| BTreeSet::from([dst.clone()]))
        }
        DStmt::Store { buffer, value, .. } => {
            let load = b.nest.is_local(buffer) && b.known().is_plain_load(value);
            load.then(|| BTreeSet::from([buffer.clone()]))
        }
        DStmt::For(l) if l.kind == DKind::Unrolled => filled_by_all(b, &l.body),
        DStmt::If { cond, then, otherwise } if b.known().reads_constants(cond) => {
            let (mut filled, other) = (filled_by_all(b, then)?, filled_by_all(b, otherwise)?);
            filled.extend(other);
            Some(filled)
        }
        _ => None,
    }
}

fn filled_by_all(b: &Batch, body: &[DStmt]) -> Option<BTreeSet<Name>> {
    body.iter().map(|s| filled(b, s)).try_fold(BTreeSet::new(), |mut all, s| {
        all.extend(s?);
        Some(all)
    })
}

/// What a kernel, or a part of it, reads and does not write.
pub struct Constants<'n, 'a> {
    pub nest: &'n Nest<'a>,
    /// Buffers that some statement stores to.
    pub written: &'n BTreeSet<Name>,
}

impl Constants<'_, '_> {
    /// True for an element of such memory, converted or not, or a value in its place under a condition.
    pub fn is_plain_load(&self, e: &Expr) -> bool {
        match e.kind() {
            ExprKind::Load { buffer, indices, .. } => {
                self.is_constant(buffer) && indices.iter().all(|i| self.reads_constants(i))
            }
            ExprKind::Cast { arg, .. } => self.is_plain_load(arg),
            ExprKind::IfThenElse { cond, then, otherwise } => {
                self.reads_constants(cond) && self.is_plain_load(then) && self.reads_constants(otherwise)
            }
            ExprKind::Int { .. }
            | ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::Var { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Binary { .. }
            | ExprKind::Select { .. }
            | ExprKind::Reinterpret { .. }
            | ExprKind::Call { .. }
            | ExprKind::Extern { .. }
            | ExprKind::Let { .. } => false,
        }
    }

    /// True for memory of the device, or of other blocks, that none of the statements write.
    fn is_constant(&self, buffer: &Name) -> bool {
        (self.nest.is_global(buffer) || self.nest.is_cluster(buffer)) && !self.written.contains(buffer)
    }

    /// True when an expression reads nothing that these write.
    pub fn reads_constants(&self, e: &Expr) -> bool {
        let mut reads = BTreeSet::new();
        crate::lower::fact::replicated::loads(e, &mut reads);
        reads.iter().all(|n| self.is_constant(n))
    }
}

fn is_load(s: &DStmt, arrays: &BTreeSet<Name>) -> bool {
    match s {
        DStmt::Copy { dst, .. } => arrays.contains(dst),
        DStmt::Store { buffer, .. } => arrays.contains(buffer),
        DStmt::For(l) => l.body.iter().all(|s| is_load(s, arrays)),
        DStmt::If { then, otherwise, .. } => then.iter().chain(otherwise).all(|s| is_load(s, arrays)),
        _ => false,
    }
}

fn stores_to(s: &DStmt, name: &Name) -> bool {
    written(std::slice::from_ref(s)).contains(name)
}

fn widest(s: &DStmt, name: &Name) -> u32 {
    let mut most = 1;
    s.visit(&mut |s| {
        if let DStmt::Copy { dst, src, lanes, .. } = s
            && (dst == name || src == name)
        {
            most = most.max(*lanes);
        }
    });
    most
}

/// The buffers that some statement stores to.
pub fn written(body: &[DStmt]) -> BTreeSet<Name> {
    touched(body, Access::Write)
}

/// The buffers that some statement reads, or writes.
pub fn touched(body: &[DStmt], access: Access) -> BTreeSet<Name> {
    let mut out = BTreeSet::new();
    for s in body {
        s.visit(&mut |s| s.for_each_access(|name, _, a| out.extend((a == access).then(|| name.clone()))));
    }
    out
}

/// How many accesses there are to each buffer.
pub fn uses(body: &[DStmt]) -> BTreeMap<Name, usize> {
    let mut out = BTreeMap::new();
    for s in body {
        s.visit(&mut |s| s.for_each_access(|name, _, _| *out.entry(name.clone()).or_insert(0) += 1));
    }
    out
}
