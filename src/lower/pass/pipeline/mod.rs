//! Runs the copies of a loop ahead of its computation.
//!
//! A serial loop annotated `stages = S` (2 or more) begins with statements that fill shared memory and
//! goes on with statements that only read it. Each buffer that is filled gets slots, one per step in
//! flight, and copies run ahead:
//! - copies of 4, 8 or 16 adjacent bytes from global memory, zeros where a condition fails, become
//!   `cp.async` and run `S - 1` steps ahead, in `S` slots;
//! - anything else (converted values, odd alignment) is loaded into registers one step ahead, before
//!   the computation, and stored after it, in two slots;
//! - what is computed from such copies of the same step (values of packed words) is stored after the computation
//!   one step ahead too, in two slots: then a step's copies have landed one step earlier.
//!
//! One barrier per step suffices: it stands before the step's own data is read, and after the slot
//! that is filled next was read last.
//!
//! before: `for k < n, stages 3 { copy16 s[..] <- p[k..]; use s }`
//! after:  `cp_async s slot 0, commit; cp_async s slot 1, commit;`
//!         `for k < n { wait 1; barrier; if k + 2 < n { cp_async s slot (k + 2) % 3 }; commit; use s slot k % 3 }; wait 0`
//!
//! Products by warpgroups go on while the next step begins, where they are one group: a step waits for those of the one
//! before, and copies run one step less ahead, because the slot that those still read is not filled. What is written to
//! shared memory once products are under way belongs to the computation.
//!
//! Where a computation is written out in parts, asynchronous copies are dealt out to them ([`among`]).
//!
//! The loop stays as it is where its body has another form, where what it fills is used elsewhere, where copies
//! would have to land a step earlier and run one step ahead only, or where registers would be picked by a loop that is not unrolled.

mod among;
mod fills;
mod through;

use crate::analysis::{prove, simplify};
use crate::ir::device::{DFor, DKind, DStmt, and, guarded, index_var, map_stmts};
use crate::ir::instr::{Instr, Sync};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, Expr, Name};
use crate::lower::fact::redirect;
use crate::lower::nest::Nest;
use among::Among;
use fills::{Kind, Parts, async_copies, parts};
pub use fills::{as_async, copied, is_zero};
use std::collections::{BTreeMap, BTreeSet};

/// Rewrites every annotated loop of a launch.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    let mut uses = BTreeMap::new();
    count(&body, &mut uses);
    list(nest, &uses, body)
}

fn list(nest: &mut Nest, uses: &BTreeMap<Name, usize>, body: Vec<DStmt>) -> Vec<DStmt> {
    let mut out = vec![];
    for s in body {
        match s {
            DStmt::For(l) if l.stages > 1 => match pipelined(nest, uses, &l) {
                Some(body) => out.extend(body),
                None => out.push(DStmt::For(DFor { stages: 1, ..l })),
            },
            s => out.push(s.map_lists(|inner| list(nest, uses, inner))),
        }
    }
    out
}

/// How many statements mention a buffer.
fn count(body: &[DStmt], out: &mut BTreeMap<Name, usize>) {
    for s in body {
        s.visit(&mut |s| {
            if s.lists().is_empty() {
                for name in super::finish::used_buffers(std::slice::from_ref(s)) {
                    *out.entry(name).or_insert(0) += 1;
                }
            }
        });
    }
}

fn pipelined(nest: &mut Nest, uses: &BTreeMap<Name, usize>, l: &DFor) -> Option<Vec<DStmt>> {
    if l.kind != DKind::Serial {
        return None;
    }
    let p = parts(nest, &l.body)?;
    let mut own = BTreeMap::new();
    count(&l.body, &mut own);
    if p.filled().any(|b| own.get(b) != uses.get(b)) {
        return None;
    }
    let pipeline = Pipeline::of(nest, l, p)?;
    Some(pipeline.emit(nest))
}

/// A loop whose copies run ahead.
struct Pipeline<'l> {
    l: &'l DFor,
    /// Steps that asynchronous copies run ahead.
    ahead: i64,
    asynchronous: Vec<DStmt>,
    /// Loads into registers, one step ahead.
    load: Vec<DStmt>,
    /// Stores of these into shared memory.
    store: Vec<DStmt>,
    compute: Vec<DStmt>,
    /// Fills compute from what asynchronous copies brought, a step before it is used.
    chained: bool,
    /// The computation ends with products that the next step waits for.
    lags: bool,
    /// Elements and number of slots of each buffer that is filled.
    slots: BTreeMap<Name, (i64, i64)>,
}

impl<'l> Pipeline<'l> {
    fn of(nest: &mut Nest, l: &'l DFor, p: Parts) -> Option<Pipeline<'l>> {
        let Parts { fills, compute } = p;
        let mut out = Pipeline {
            l,
            ahead: l.stages - 1,
            asynchronous: vec![],
            load: vec![],
            store: vec![],
            chained: fills.iter().any(|f| f.chained),
            lags: false,
            compute,
            slots: BTreeMap::new(),
        };
        // a buffer that is filled in both ways is filled in one: through registers
        let synchronous: BTreeSet<Name> =
            fills.iter().filter(|f| f.kind == Kind::Registers).flat_map(|f| f.buffers.clone()).collect();
        for f in fills {
            let direct = f.kind == Kind::Async && f.buffers.is_disjoint(&synchronous);
            for b in &f.buffers {
                let len = nest.buffers.get(b)?.len()?;
                out.slots.insert(b.clone(), (len, if direct { l.stages } else { 2 }));
            }
            if direct {
                out.asynchronous.extend(async_copies(nest, &f.body));
            } else {
                let (load, store) = through::through_registers(nest, &f)?;
                out.load.extend(load);
                out.store.extend(store);
            }
        }
        if out.chained && out.ahead < 2 {
            return None;
        }
        let waits = DStmt::Instr(Instr::from(Sync::WgmmaWait { left: 0 }));
        // registers and shared memory of a computation in several groups are its own until the last is done
        let commits = DStmt::Instr(Instr::from(Sync::WgmmaCommit));
        let one_group = out.compute.iter().filter(|s| **s == commits).count() == 1;
        if out.compute.last() == Some(&waits) && one_group && out.store.is_empty() && l.stages > 2 {
            (out.lags, out.ahead) = (true, l.stages - 2);
            out.compute.pop();
        }
        Some(out)
    }

    fn emit(self, nest: &mut Nest) -> Vec<DStmt> {
        for (name, (len, slots)) in &self.slots {
            if let Some(b) = nest.buffers.get_mut(name) {
                b.shape = vec![Expr::i64(len * slots)];
            }
        }
        let (k, zero) = (index_var(&self.l.var), Expr::i64(0));
        let commit = || DStmt::Instr(Instr::from(Sync::CpAsyncCommit));
        let wait = |left| DStmt::Instr(Instr::from(Sync::CpAsyncWait { left }));
        let products = |left| DStmt::Instr(Instr::from(Sync::WgmmaWait { left }));
        let is_async = !self.asynchronous.is_empty();
        let mut out = vec![];
        for step in 0..if is_async { self.ahead } else { 0 } {
            out.extend(self.at(nest, &self.asynchronous, &Expr::i64(step)));
            out.push(commit());
        }
        out.extend(self.at(nest, &self.load, &zero));
        if self.chained {
            out.extend([wait((self.ahead - 1) as u32), DStmt::Barrier(Barrier::Block)]);
        }
        out.extend(self.at(nest, &self.store, &zero));
        let mut body = vec![];
        if is_async {
            body.push(wait((self.ahead - 1 - i64::from(self.chained)) as u32));
        }
        body.push(DStmt::Barrier(Barrier::Block));
        let later = k.clone() + Expr::i64(self.ahead);
        let next = k.clone() + Expr::i64(1);
        let compute = self.placed(nest, &self.compute, &k);
        let commit = is_async.then(commit);
        let load = |nest: &mut Nest| self.at(nest, &self.load, &next);
        match self.dealt(nest, &compute, &later) {
            Some(dealt) => body.extend(load(nest).into_iter().chain(dealt).chain(commit)),
            None => {
                body.extend(self.at(nest, &self.asynchronous, &later).into_iter().chain(commit));
                body.extend(load(nest));
                body.extend(compute);
            }
        }
        body.extend(self.lags.then(|| products(1)));
        body.extend(self.at(nest, &self.store, &next));
        out.push(DStmt::For(DFor { stages: 1, own_barriers: true, ..self.l.with_body(body) }));
        out.extend(self.lags.then(|| products(0)));
        if is_async {
            out.push(wait(0));
        }
        out
    }

    /// Statements of another step, where there is one.
    fn at(&self, nest: &mut Nest, body: &[DStmt], step: &Expr) -> Vec<DStmt> {
        let of_step = fills::at_step(nest, body, &self.l.var, step);
        let placed = self.placed(nest, &of_step, step);
        guarded(self.exists(nest, step), placed)
    }

    /// The computation with the asynchronous copies of a later step among its parts, where both have parts. Copies of a
    /// step that there is not write zeros, into a slot that nothing reads.
    fn dealt(&self, nest: &mut Nest, compute: &[DStmt], later: &Expr) -> Option<Vec<DStmt>> {
        let among = Among::of(compute).filter(|_| !self.asynchronous.is_empty())?;
        let exists = self.exists(nest, later);
        let of_step = fills::at_step(nest, &self.asynchronous, &self.l.var, later);
        let copies = map_stmts(self.placed(nest, &of_step, later), &mut |mut s| {
            if let DStmt::Instr(copy) = &mut s {
                copy.values = Vec::from_iter(and(exists.clone(), copy.values.pop()));
            }
            s
        });
        among.with(nest, &copies)
    }

    /// What says that there is a step; `None` where there always is.
    fn exists(&self, nest: &Nest, step: &Expr) -> Option<Expr> {
        let exists = Expr::binary(BinOp::Lt, step.clone(), self.l.extent.clone());
        (!prove(&exists, &nest.ranges)).then(|| simplify(&exists, &nest.ranges))
    }

    /// Statements with the buffers that are filled at the slots of a step.
    fn placed(&self, nest: &Nest, body: &[DStmt], step: &Expr) -> Vec<DStmt> {
        redirect::all(body, &|name, at| {
            let (len, slots) = self.slots.get(name)?;
            let slot = Expr::binary(BinOp::FloorMod, step.clone(), Expr::i64(*slots));
            let index = at.clone() + slot * Expr::i64(*len);
            Some((name.clone(), simplify(&index, &nest.ranges)))
        })
    }
}
