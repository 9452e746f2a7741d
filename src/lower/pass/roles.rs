//! Gives the copies and the computation of a loop to threads of their own (warp specialisation).
//!
//! A serial loop marked `roles`, with `stages = S`, begins with tensor copies that fill shared memory and goes
//! on with matrix instructions of the block's warpgroups, which only read it. One more warpgroup joins the
//! block: one of its threads starts the copies, up to `S` steps ahead of the others. What is filled gets `S`
//! slots; each has a barrier that says that it is full (counted by the bytes that land in it), and one that says
//! that it is empty (an arrival of each warpgroup that reads it). The warpgroups give a slot back when the
//! products that read it are known to have finished: `release` steps after these were issued.
//!
//! Loops and conditions around are run by both roles; all other statements belong to the warpgroups that
//! compute. The state of the ring (slot and phase) lives through all loops around, so that copies go on while
//! results are stored.
//!
//! Where a loop around is marked `turns`, warpgroups take its steps in turn, each a whole one: while one stores
//! its results, the other multiplies. A pair of barriers keeps them from multiplying at the same time.
//!
//! before: `for t { for k, stages 4 { load a; load b; wgmma(c, a, b) }; store c }`
//! after:  `init; if group < 2 { take registers; for t { for k { wait full[s]; wgmma(c, a[s], b[s]); commit;`
//!         `wait 1; arrive empty[s - 1]; s, phase = next } wait 0; arrive; store c } }`
//!         `else { give registers back; if first thread { for t { for k { wait empty[s]; expect full[s]; load a[s];`
//!         `load b[s]; s, phase = next } } } }`
//!
//! The schedule is at fault where a marked loop has another form.

use crate::analysis::simplify;
use crate::ir::device::{DFor, DKind, DStmt, RoleMark, index_var};
use crate::ir::instr::{At, Instr, Op, Sync};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, DType, Expr, ExprKind, Name, Scope};
use crate::lower::LowerError;
use crate::lower::fact::redirect;
use crate::lower::fact::warps::WARPGROUP;
use crate::lower::nest::Nest;
use std::collections::BTreeMap;

const PASS: &str = "roles";
/// Registers that a thread of the copying warpgroup keeps, and one of those that compute gets, by their number:
/// all of the 65,536 of a multiprocessor together, in steps of 8 (`setmaxnreg`).
const REGISTERS: [(i64, [u32; 2]); 3] = [(1, [40, 232]), (2, [24, 240]), (3, [32, 160])];

/// Takes the marked loop of a launch apart.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    let mut marked = vec![];
    body.iter().for_each(|s| s.visit(&mut |s| marked.extend(role_loop(s).cloned())));
    match marked.as_slice() {
        [] => Ok(body),
        [l] => Ok(Roles::of(nest, l, &body)?.emit(nest, body)),
        [_, other, ..] => Err(LowerError::new(PASS, &other.var, "two loops of one launch have roles")),
    }
}

fn role_loop(s: &DStmt) -> Option<&DFor> {
    match s {
        DStmt::For(l) if l.roles.is_some() => Some(l),
        _ => None,
    }
}

/// What becomes of a marked loop.
struct Roles {
    /// The loop's variable, by which it is found.
    var: Name,
    extent: Expr,
    mark: RoleMark,
    stages: i64,
    /// Warpgroups that compute.
    groups: i64,
    fills: Vec<DStmt>,
    compute: Vec<DStmt>,
    /// Bytes that land in a slot.
    bytes: i64,
    /// Elements of a slot of each buffer that is filled.
    slots: BTreeMap<Name, i64>,
    full: Name,
    empty: Name,
    /// Where warpgroups take turns.
    turns: Option<Turns>,
    group: Name,
}

/// Two warpgroups that multiply in turn.
struct Turns {
    /// Barriers that let each begin.
    go: Name,
    /// The phase of its barrier that a warpgroup waits for next.
    phase: Name,
}

/// A role's place in the ring of slots.
struct Ring {
    slot: Name,
    phase: Name,
}

impl Roles {
    fn of(nest: &mut Nest, l: &DFor, body: &[DStmt]) -> Result<Roles, LowerError> {
        let fault = |why: &str| LowerError::new(PASS, &l.var, why);
        let Some(mark) = l.roles else { return Err(fault("the loop has no roles")) };
        let copies = l.body.iter().take_while(|s| is_fill(s)).count();
        let (fills, compute) = l.body.split_at(copies);
        if fills.is_empty() || compute.is_empty() {
            return Err(fault("the loop has no copies, or nothing after them"));
        }
        let (mut bytes, mut slots, mut bar) = (0, BTreeMap::new(), None);
        for s in fills {
            bytes += fill_bytes(nest, s, 1).ok_or_else(|| fault("a copy of the loop has no constant size"))?;
            s.visit(&mut |s| {
                if let DStmt::Instr(i) = s {
                    slots.insert(i.places[0].array.clone(), 0);
                    bar = Some(i.places[1].array.clone());
                }
            });
        }
        for (name, len) in &mut slots {
            let known = nest.buffers.get(name).and_then(|b| b.len());
            *len = known.ok_or_else(|| fault("what the loop fills has no constant size"))?;
        }
        let mut turns = false;
        body.iter().for_each(|s| s.visit(&mut |s| turns |= matches!(s, DStmt::For(l) if l.turns)));
        let full = bar.ok_or_else(|| fault("no copy of the loop counts on a barrier"))?;
        let barrier = |nest: &mut Nest, stem: &str, n: i64| nest.scratch(stem, DType::U64, Expr::i64(n), Scope::Shared);
        let empty = barrier(nest, "empty", l.stages);
        let turns = turns.then(|| Turns { go: barrier(nest, "go", 2), phase: nest.fresh("turn") });
        let threads: i64 = nest.block.iter().map(|n| i64::from(*n)).product();
        Ok(Roles {
            var: l.var.clone(),
            extent: l.extent.clone(),
            mark,
            stages: l.stages,
            groups: threads / i64::from(WARPGROUP),
            fills: fills.to_vec(),
            compute: compute.to_vec(),
            bytes,
            slots,
            full,
            empty,
            turns,
            group: nest.fresh("group"),
        })
    }

    fn emit(self, nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
        for (name, len) in &self.slots {
            resize(nest, name, len * self.stages);
        }
        resize(nest, &self.full, self.stages);
        let threads = self.groups * i64::from(WARPGROUP);
        nest.block = [(threads + i64::from(WARPGROUP)) as u32, 1, 1];
        nest.ranges.set("threadIdx.x", 0, threads + i64::from(WARPGROUP) - 1);
        nest.ranges.set(self.group.clone(), 0, self.groups);
        nest.min_blocks = Some(1);
        let mut out = self.barriers();
        let number = op(BinOp::FloorDiv, thread(), i64::from(WARPGROUP));
        out.push(DStmt::Let { var: self.group.clone(), value: number });
        let registers = REGISTERS.iter().find(|(n, _)| *n == self.groups).map(|(_, r)| *r);
        let (copying, computing) = (self.copying(nest, &body), self.computing(nest, body));
        let first = is(thread(), threads);
        let copying = vec![DStmt::If { cond: first, then: copying, otherwise: vec![] }];
        let with = |registers: Option<(u32, bool)>, body: Vec<DStmt>| {
            let set = registers.map(|(registers, take)| {
                DStmt::Instr(Instr::new(Op::SetMaxReg { registers, take }, [], []))
            });
            set.into_iter().chain(body).collect()
        };
        out.push(DStmt::If {
            cond: Expr::binary(BinOp::Lt, index_var(&self.group), Expr::i64(self.groups)),
            then: with(registers.map(|[_, more]| (more, true)), computing),
            otherwise: with(registers.map(|[less, _]| (less, false)), copying),
        });
        out
    }

    /// Makes the barriers, before anyone uses them.
    fn barriers(&self) -> Vec<DStmt> {
        let readers = if self.turns.is_some() { 1 } else { self.groups as u32 };
        let init = |bar: &Name, n: i64, arrivals| {
            (0..n).map(move |i| sync(Sync::MbarrierInit { arrivals }, Some((bar, Expr::i64(i))), None))
        };
        let mut then: Vec<DStmt> =
            init(&self.full, self.stages, 1).chain(init(&self.empty, self.stages, readers)).collect();
        if let Some(turns) = &self.turns {
            then.extend(init(&turns.go, 2, 1));
        }
        then.push(sync(Sync::MbarrierFence, None, None));
        let first = DStmt::If { cond: is(thread(), 0), then, otherwise: vec![] };
        vec![first, DStmt::Barrier(Barrier::Block)]
    }

    /// What the thread that copies does.
    fn copying(&self, nest: &mut Nest, body: &[DStmt]) -> Vec<DStmt> {
        let ring = Ring::new(nest, self.stages);
        // a fresh slot is empty: its phase before the first counts as completed
        let mut out = ring.declare(1);
        out.extend(self.only_copies(nest, &ring, body));
        out
    }

    fn only_copies(&self, nest: &Nest, ring: &Ring, body: &[DStmt]) -> Vec<DStmt> {
        let mut out = vec![];
        for s in body {
            match s {
                DStmt::For(l) if l.var == self.var => {
                    let expect = Some(Expr::i64(self.bytes));
                    let mut body = vec![
                        sync(Sync::MbarrierWait, Some((&self.empty, index_var(&ring.slot))), Some(ring.parity())),
                        sync(Sync::MbarrierExpect, Some((&self.full, index_var(&ring.slot))), expect),
                    ];
                    body.extend(self.placed(nest, &self.fills, ring));
                    body.extend(ring.next(nest, self.stages, &Expr::i64(1)));
                    out.push(DStmt::For(self.plain(l, body)));
                }
                DStmt::Let { .. } => out.push(s.clone()),
                s if self.holds_loop(s) => out.push(s.clone().map_lists(|inner| self.only_copies(nest, ring, &inner))),
                _ => {}
            }
        }
        out
    }

    /// What the warpgroups that compute do.
    fn computing(&self, nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
        let ring = Ring::new(nest, self.stages);
        let prev = nest.fresh("prev");
        nest.ranges.set(prev.clone(), 0, self.stages - 1);
        let mut out = ring.declare(0);
        out.push(DStmt::Var { var: prev.clone(), dtype: DType::I32, init: Some(Expr::i64(0)) });
        if let Some(turns) = &self.turns {
            // the first turn of the first warpgroup waits for no one, and the second one's first slots are those
            // after the first one's
            nest.ranges.set(turns.phase.clone(), 0, 1);
            let phase = Expr::i64(1) - index_var(&self.group);
            out.push(DStmt::Var { var: turns.phase.clone(), dtype: DType::I32, init: Some(phase) });
            let ahead = index_var(&self.group) * self.extent.clone();
            out.extend(ring.next(nest, self.stages, &ahead));
        }
        out.extend(self.without_copies(nest, &ring, &prev, body));
        out.into_iter().map(|s| self.with_group(nest, s)).collect()
    }

    fn without_copies(&self, nest: &Nest, ring: &Ring, prev: &Name, body: Vec<DStmt>) -> Vec<DStmt> {
        let mut out = vec![];
        for s in body {
            match s {
                DStmt::For(l) if l.var == self.var => out.extend(self.products(nest, ring, prev, &l)),
                DStmt::For(l) if l.turns && self.holds_loop(&DStmt::For(l.clone())) => {
                    let body = self.without_copies(nest, ring, prev, l.body.clone());
                    out.push(self.in_turn(nest, &l, body));
                }
                s if self.holds_loop(&s) => out.push(s.map_lists(|inner| self.without_copies(nest, ring, prev, inner))),
                s => out.push(s),
            }
        }
        out
    }

    /// The marked loop of the warpgroups that compute, and what ends it.
    fn products(&self, nest: &Nest, ring: &Ring, prev: &Name, l: &DFor) -> Vec<DStmt> {
        let mut body =
            vec![sync(Sync::MbarrierWait, Some((&self.full, index_var(&ring.slot))), Some(ring.parity()))];
        body.extend(self.placed(nest, &self.compute, ring));
        body.push(sync(Sync::WgmmaCommit, None, None));
        body.push(sync(Sync::WgmmaWait { left: self.mark.release as u32 }, None, None));
        if self.mark.release > 0 {
            let later = Expr::binary(BinOp::Lt, Expr::i64(0), index_var(&l.var));
            body.push(self.give_back(prev, Some(later)));
            body.push(DStmt::Assign { var: prev.clone(), value: index_var(&ring.slot) });
        } else {
            body.push(self.give_back(&ring.slot, None));
        }
        body.extend(ring.next(nest, self.stages, &Expr::i64(1)));
        let mut out = vec![DStmt::For(self.plain(l, body))];
        if let Some(Turns { go, phase }) = &self.turns {
            let (own, other) = (index_var(&self.group), Expr::i64(1) - index_var(&self.group));
            let wait = sync(Sync::MbarrierWait, Some((go, own)), Some(index_var(phase)));
            let next = DStmt::Assign { var: phase.clone(), value: Expr::i64(1) - index_var(phase) };
            out.splice(0..0, [wait, next]);
            out.push(self.by_first(sync(Sync::MbarrierArrive, Some((go, other)), None), None));
        }
        if self.mark.release > 0 {
            out.push(sync(Sync::WgmmaWait { left: 0 }, None, None));
            out.push(self.give_back(prev, None));
        }
        if self.turns.is_some() {
            out.extend(ring.next(nest, self.stages, &self.extent));
        }
        out
    }

    /// A warpgroup's steps of a loop that warpgroups share in turn.
    fn in_turn(&self, nest: &Nest, l: &DFor, body: Vec<DStmt>) -> DStmt {
        let step = index_var(&l.var) * Expr::i64(self.groups) + index_var(&self.group);
        let step = simplify(&step, &nest.ranges);
        let body = body.iter().map(|s| s.subst(&|n| (*n == l.var).then(|| step.clone()))).collect();
        let exists = Expr::binary(BinOp::Lt, step.clone(), l.extent.clone());
        let guarded = vec![DStmt::If { cond: exists, then: body, otherwise: vec![] }];
        let rounds = op(BinOp::FloorDiv, l.extent.clone() + Expr::i64(self.groups - 1), self.groups);
        let extent = simplify(&rounds, &nest.ranges);
        DStmt::For(DFor { extent, turns: false, ..l.with_body(guarded) })
    }

    fn give_back(&self, slot: &Name, cond: Option<Expr>) -> DStmt {
        self.by_first(sync(Sync::MbarrierArrive, Some((&self.empty, index_var(slot))), None), cond)
    }

    /// What the first thread of each warpgroup does.
    fn by_first(&self, s: DStmt, cond: Option<Expr>) -> DStmt {
        let first = is(op(BinOp::FloorMod, thread(), i64::from(WARPGROUP)), 0);
        let cond = cond.map_or(first.clone(), |c| Expr::binary(BinOp::And, c, first));
        DStmt::If { cond, then: vec![s], otherwise: vec![] }
    }

    /// Statements with what is filled, and the barrier that counts it, at the ring's slot.
    fn placed(&self, nest: &Nest, body: &[DStmt], ring: &Ring) -> Vec<DStmt> {
        redirect::all(body, &|name, at| {
            if *name == self.full {
                return Some((name.clone(), index_var(&ring.slot)));
            }
            let index = at.clone() + index_var(&ring.slot) * Expr::i64(*self.slots.get(name)?);
            Some((name.clone(), simplify(&index, &nest.ranges)))
        })
    }

    fn plain(&self, l: &DFor, body: Vec<DStmt>) -> DFor {
        DFor { stages: 1, roles: None, own_barriers: true, ..l.with_body(body) }
    }

    fn holds_loop(&self, s: &DStmt) -> bool {
        let mut found = false;
        s.visit(&mut |s| found |= matches!(s, DStmt::For(l) if l.var == self.var));
        found
    }

    /// A statement with the warpgroup's number in place of the quotient that it is.
    fn with_group(&self, nest: &Nest, s: DStmt) -> DStmt {
        s.map_exprs(&mut |e| {
            let named = self.named(e);
            if named == *e { named } else { simplify(&named, &nest.ranges) }
        })
    }

    fn named(&self, e: &Expr) -> Expr {
        match e.kind() {
            ExprKind::Binary { op: BinOp::FloorDiv, a, b }
                if b.is_int(i64::from(WARPGROUP)) && a.as_var().is_some_and(|n| n.as_str() == THREAD) =>
            {
                index_var(&self.group)
            }
            _ => e.map_children(|c| self.named(c)),
        }
    }
}

const THREAD: &str = "threadIdx.x";

impl Ring {
    fn new(nest: &mut Nest, stages: i64) -> Ring {
        let ring = Ring { slot: nest.fresh("slot"), phase: nest.fresh("phase") };
        nest.ranges.set(ring.slot.clone(), 0, stages - 1);
        nest.ranges.set(ring.phase.clone(), 0, 1);
        ring
    }

    fn declare(&self, phase: i64) -> Vec<DStmt> {
        let var = |var: &Name, n| DStmt::Var { var: var.clone(), dtype: DType::I32, init: Some(Expr::i64(n)) };
        vec![var(&self.slot, 0), var(&self.phase, phase)]
    }

    fn parity(&self) -> Expr {
        index_var(&self.phase)
    }

    /// So many slots further.
    fn next(&self, nest: &Nest, stages: i64, steps: &Expr) -> Vec<DStmt> {
        let at = index_var(&self.slot) + steps.clone();
        let phase = op(BinOp::FloorMod, index_var(&self.phase) + op(BinOp::FloorDiv, at.clone(), stages), 2);
        let assign = |var: &Name, value: Expr| DStmt::Assign { var: var.clone(), value: simplify(&value, &nest.ranges) };
        vec![assign(&self.phase, phase), assign(&self.slot, op(BinOp::FloorMod, at, stages))]
    }
}

/// Tensor copies into shared memory, alone or in loops.
fn is_fill(s: &DStmt) -> bool {
    match s {
        DStmt::Instr(i) => matches!(i.op, Op::TensorLoad { .. }),
        DStmt::For(l) => l.body.iter().all(is_fill),
        _ => false,
    }
}

/// Bytes that a fill brings, `times` over.
fn fill_bytes(nest: &Nest, s: &DStmt, times: i64) -> Option<i64> {
    match s {
        DStmt::For(l) => {
            let times = times * l.extent.as_int().filter(|_| l.kind != DKind::Vectorized)?;
            l.body.iter().map(|s| fill_bytes(nest, s, times)).sum()
        }
        DStmt::Instr(i) => {
            let map = nest.maps.iter().find(|m| Some(&m.name) == i.op.map())?;
            Some(times * map.box_bytes())
        }
        _ => None,
    }
}

fn resize(nest: &mut Nest, name: &Name, len: i64) {
    if let Some(b) = nest.buffers.get_mut(name) {
        b.shape = vec![Expr::i64(len)];
    }
}

fn thread() -> Expr {
    index_var(&Name::new(THREAD))
}

fn is(e: Expr, n: i64) -> Expr {
    Expr::binary(BinOp::Eq, e, Expr::i64(n))
}

fn op(op: BinOp, a: Expr, n: i64) -> Expr {
    Expr::binary(op, a, Expr::i64(n))
}

fn sync(sync: Sync, place: Option<(&Name, Expr)>, value: Option<Expr>) -> DStmt {
    let places: Vec<At> = place.map(|(bar, at)| At::new(bar, at)).into_iter().collect();
    DStmt::Instr(Instr::new(sync, places, value.into_iter().collect::<Vec<_>>()))
}
