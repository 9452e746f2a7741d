//! Gives the copies and the products of a loop to threads of their own (warp specialisation).
//!
//! A serial loop marked `roles`, with `stages = S`, begins with tensor copies that fill shared memory and goes on
//! with matrix instructions of warpgroups that read it. One more warpgroup joins the block: its first thread
//! starts the copies, up to `S` steps ahead. What is filled gets `S` slots; each has a barrier that says that it
//! is full (counted by the bytes that land in it), and one that says that it is empty (an arrival of each
//! warpgroup that reads it; of each of its warps, where threads do by loads of their own). Warpgroups give a slot
//! back one step late, when the products that read it are known to have finished while those of the next are under
//! way, and right after them where each step makes registers anew that products read, or adds what they gave to other
//! sums. Sums that start from zero are
//! not set: the first products of a tile do not add. Threads that copy give registers back, the others take them.
//!
//! Where the loop over blocks is marked `persistent`, so many blocks take its steps one after the other; where it is marked
//! `fetched`, a running block takes those of blocks that have not started ([`tiles`]). The ring goes on through all of them:
//! copies for the next tile land while the sums of one are stored. With `roles = 2`, warpgroups take tiles in turn ([`consume`]).
//!
//! What all blocks of a cluster copy alike, each copies in part for all ([`multicast`]). Then a slot is empty when the
//! warpgroups of all these blocks have given it back: each arrives at the barriers of all. Barriers are made before
//! any block goes on, and no block ends before the others have arrived there for the last time.
//!
//! Products in tensor memory are issued by one thread of the further warpgroup, whose commits give slots back; the
//! others store their results ([`issue`]). Scales of their numbers come by two more of its warps ([`bring`]).
//!
//! before: `c = 0; for k, stages 4, roles 1 { tensor_load a, bar; c += wgmma(a); commit; wait 0 }; store c`
//! after:  `init; if group < 2 { for k { wait full[s]; c = wgmma(a[s]) + (k > 0 ? c : 0); commit; wait 1; arrive`
//!         `empty[s - 1]; s, phase = next }; wait 0; arrive empty[s - 1]; store c }`
//!         `else if first thread { for k { wait empty[s]; expect full[s]; tensor_load a[s], full[s]; s, phase = next } }`
//!
//! The schedule is at fault where a marked loop has another form.

mod ahead;
mod bring;
mod consume;
mod issue;
mod multicast;
mod pair;
mod ring;
mod tiles;

use crate::ir::device::{DFor, DKind, DStmt};
use crate::ir::instr::{CtaGroup, Dealt, Instr, Op, Sync};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, DType, Expr, Name, Scope, ThreadTag};
use crate::lower::LowerError;
use crate::lower::fact::redirect;
use crate::lower::fact::warps::WARPGROUP;
use crate::lower::nest::Nest;
use crate::lower::pass::cluster_loads::{meeting, meets};
use bring::Step;
use consume::Turns;
use issue::Issue;
use ring::{Ring, constant, index_of, op, sync, thread, when};
use std::collections::BTreeMap;
use tiles::{Tiles, Who};

const PASS: &str = "roles";
/// Threads of a warp: the one that copies and the one that issues products are of different ones.
const WARP: i64 = 32;
/// Takes the marked loop of a launch apart.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    let marked = |s: &DStmt| matches!(s, DStmt::For(l) if l.roles > 0);
    let mut loops = 0;
    body.iter().for_each(|s| s.visit(&mut |s| loops += usize::from(marked(s))));
    let place = body.iter().position(marked);
    let at = Name::new(&nest.symbol);
    let fault = |why: &str| Err(LowerError::new(PASS, &at, why));
    let place = match (loops, place) {
        (0, _) if nest.several.is_none() && nest.maps.is_empty() => return Ok(body),
        (0, _) => return fault("copies through tensor maps and several tiles of a block take a loop with roles"),
        (1, Some(place)) => place,
        _ => return fault("a loop with roles is not the only one, or stands in another statement"),
    };
    let tiles = Tiles::of(nest)?;
    let mut before = tiles.as_ref().map_or(body.clone(), |t| t.named(&body));
    let after = before.split_off(place + 1);
    match before.pop() {
        Some(DStmt::For(l)) => Roles::of(nest, l)?.emit(nest, tiles.as_ref(), &before, after),
        _ => fault("no loop has roles"),
    }
}

/// What becomes of a marked loop.
struct Roles {
    l: DFor,
    steps: i64,
    /// Warpgroups that compute, and those of them that share a tile.
    groups: i64,
    team: i64,
    fills: Vec<DStmt>,
    /// Copies that threads make.
    brought: Vec<DStmt>,
    compute: Vec<DStmt>,
    /// What follows a step's products: they are added to sums of more than one step.
    added: Vec<DStmt>,
    /// Bytes that a slot's barrier counts: what lands in it, in both blocks of a pair.
    bytes: i64,
    /// Blocks of a cluster that copy for each other.
    peers: i64,
    /// Elements of a slot of each buffer that is filled.
    slots: BTreeMap<Name, i64>,
    full: Name,
    empty: Name,
    turns: Option<Turns>,
    /// Products in tensor memory.
    issue: Option<Issue>,
    /// The variable that is the number of the thread's warpgroup.
    group: Name,
    /// Threads of a warp.
    warp: u32,
}

impl Roles {
    fn of(nest: &mut Nest, l: DFor) -> Result<Roles, LowerError> {
        let fault = |why: &str| LowerError::new(PASS, &l.var, why);
        let step = Step::of(nest, &l)?;
        let scales = step.arrays();
        let Step { fills, brought, mut compute } = step;
        let fills: Vec<DStmt> = fills.into_iter().map(unrolled).collect();
        let steps = l.extent.as_int().ok_or_else(|| fault("the loop has no constant extent"))?;
        let waits = sync(Sync::WgmmaWait { left: 0 }, None, None);
        let added = compute.iter().position(|s| *s == waits).map_or(vec![], |at| compute.split_off(at + 1));
        let last = compute.pop().filter(|_| !fills.is_empty());
        let last = last.ok_or_else(|| fault("the loop is not copies and then products"))?;
        let mut issue = match last == waits {
            true => None,
            false => {
                Some(Issue::of(nest, l.stages, &compute, &last).ok_or_else(|| fault("the loop ends with no product"))?)
            }
        };
        let (mut slots, mut full) = (BTreeMap::new(), None);
        for s in &fills {
            s.visit(&mut |s| {
                if let DStmt::Instr(i) = s {
                    slots.insert(i.places[0].array.clone(), 0);
                    full = Some(i.places[1].array.clone());
                }
            });
        }
        nest.counted.extend(scales.iter().cloned());
        slots.extend(scales.into_iter().map(|name| (name, 0)));
        for (name, len) in &mut slots {
            let known = nest.buffers.get(name).and_then(|b| b.len());
            *len = known.ok_or_else(|| fault("what the loop fills has no constant size"))?;
        }
        let team = nest.block.iter().map(|n| i64::from(*n)).product::<i64>() / i64::from(WARPGROUP);
        if l.roles > 1 && nest.several.is_none() {
            return Err(fault("tiles are computed in turn, but no block takes several"));
        }
        if l.roles > 1 && issue.is_some() {
            return Err(fault("one thread issues all products, and tiles are computed in turn"));
        }
        if l.roles > 2 || l.roles == 2 && team > 1 {
            return Err(fault("two warpgroups take tiles in turn, each a whole one"));
        }
        let full = full.ok_or_else(|| fault("no copy of the loop counts on a barrier"))?;
        let boxed = |nest: &Nest, fills: &[DStmt]| {
            let bytes = fills.iter().map(|s| fill_bytes(nest, s)).sum::<Option<i64>>();
            bytes.ok_or_else(|| fault("a copy of the loop has no constant size"))
        };
        let (mut fills, mut peers) = (fills, 1);
        let bytes = match &mut issue {
            Some(issue) => {
                issue.group = pair::of(nest, &mut fills, &mut compute, &mut slots);
                boxed(nest, &fills)? * issue.group.blocks()
            }
            None => {
                // what lands in a slot does so whole, or as parts from all blocks
                let bytes = boxed(nest, &fills)?;
                let (parts, shared) = multicast::parts(nest, fills);
                (fills, peers) = (parts, if shared { i64::from(nest.cluster) } else { 1 });
                bytes
            }
        };
        let empty = nest.scratch("empty", DType::U64, Expr::i64(l.stages), Scope::Shared);
        let group = nest.fresh("group");
        let turns = (l.roles > 1).then(|| Turns::new(nest, l.roles));
        let (groups, warp) = (team * l.roles, nest.target.warp);
        Ok(Roles {
            steps,
            groups,
            team,
            fills,
            brought,
            compute,
            added,
            bytes,
            peers,
            slots,
            full,
            empty,
            turns,
            issue,
            group,
            warp,
            l,
        })
    }

    fn emit(
        self,
        nest: &mut Nest,
        tiles: Option<&Tiles>,
        before: &[DStmt],
        after: Vec<DStmt>,
    ) -> Result<Vec<DStmt>, LowerError> {
        tiles.map_or(Ok(()), |tiles| tiles.check(self.group(), self.turns.is_some()))?;
        for (name, len) in &self.slots {
            resize(nest, name, len * self.l.stages);
        }
        resize(nest, &self.full, self.l.stages);
        let threads = self.groups * i64::from(WARPGROUP);
        let all = threads + i64::from(WARPGROUP);
        nest.block = [all as u32, 1, 1];
        nest.ranges.set(ring::THREAD, 0, all - 1);
        nest.ranges.set(self.group.clone(), 0, self.groups);
        let mut copying = vec![when(is(thread(), threads), self.copying(nest, tiles, before))];
        let meetings: Vec<DStmt> = after.iter().filter(|s| meets(s)).cloned().collect();
        let (mut computing, registers) = match &self.issue {
            None => (self.computing(nest, tiles, before, after), Dealt::beside_copies(self.groups)),
            Some(issue) => {
                issue.resize(nest);
                let issuing = self.issuing(nest, issue, tiles);
                let issuing = self.by_first_block(nest, issuing);
                copying.push(when(is(thread(), threads + WARP), issuing));
                if !self.brought.is_empty() {
                    let own = op(BinOp::Ge, thread(), all - bring::WARPS * WARP);
                    copying.push(when(own, self.bringing(nest, tiles, before)));
                }
                (self.storing(nest, issue, tiles, before, after)?, Dealt::beside_products(self.groups))
            }
        };
        if let Some(Dealt { kept, taken }) = registers {
            nest.min_blocks = Some(1);
            let set = |registers: u32, take| DStmt::Instr(Instr::new(Op::SetMaxReg { registers, take }, [], []));
            computing.insert(0, set(taken, true));
            copying.insert(0, set(kept, false));
        }
        if !meetings.is_empty() || self.peers > 1 || self.group() == CtaGroup::Pair {
            // threads of a warp that have nothing to copy wait for those that do
            copying.push(DStmt::Barrier(Barrier::Warp));
            copying.extend(meetings);
        }
        let cond = op(BinOp::Lt, index_of(&self.group), self.groups);
        let mut out = self.barriers(tiles);
        let number = op(BinOp::FloorDiv, thread(), i64::from(WARPGROUP));
        out.push(constant(&self.group, number));
        out.push(DStmt::If { cond, then: computing, otherwise: copying });
        if self.peers > 1 {
            out.extend(meeting(false));
        }
        Ok(out)
    }

    /// The blocks that products are of.
    fn group(&self) -> CtaGroup {
        self.issue.as_ref().map_or(CtaGroup::One, |issue| issue.group)
    }

    /// What the first block of a pair does alone.
    fn by_first_block(&self, nest: &Nest, then: Vec<DStmt>) -> Vec<DStmt> {
        match self.group() {
            CtaGroup::One => then,
            CtaGroup::Pair => vec![when(is(nest.thread(ThreadTag::ClusterX), 0), then)],
        }
    }

    /// Makes the barriers, before anyone uses them.
    fn barriers(&self, tiles: Option<&Tiles>) -> Vec<DStmt> {
        let init = |bar: &Name, n: i64, arrivals: i64| -> Vec<DStmt> {
            let one = |i| sync(Sync::MbarrierInit { arrivals: arrivals as u32 }, Some((bar, Expr::i64(i))), None);
            (0..n).map(one).collect()
        };
        let readers = if self.issue.is_some() { 1 } else { self.team * self.releases() * self.peers };
        let bringers = if self.brought.is_empty() { 0 } else { bring::WARPS };
        let fillers = 1 + bringers * self.group().blocks();
        let mut then = [init(&self.full, self.l.stages, fillers), init(&self.empty, self.l.stages, readers)].concat();
        then.extend(self.turns.iter().flat_map(|turns| init(&turns.go, self.l.roles, 1)));
        for (bar, n, arrivals) in self.issue.iter().flat_map(|i| i.barriers(self.groups * i64::from(WARPGROUP))) {
            then.extend(init(&bar, n, arrivals));
        }
        for (bar, n, arrivals) in tiles.iter().flat_map(|tiles| tiles.barriers(self.takers(bringers))) {
            then.extend(init(bar, n, arrivals));
        }
        then.push(sync(Sync::MbarrierFence, None, None));
        let made = match self.group() {
            // products are written to columns that the other block has taken before
            CtaGroup::Pair => meeting(true).to_vec(),
            CtaGroup::One if self.peers > 1 => meeting(false).to_vec(),
            CtaGroup::One => vec![DStmt::Barrier(Barrier::Block)],
        };
        [vec![when(is(thread(), 0), then)], made].concat()
    }

    /// Threads and warps that go through tiles, in all blocks that products are of: of each those that copy, with so many warps,
    /// and those that store, and of the first one the thread that issues products.
    fn takers(&self, bringers: i64) -> i64 {
        let warps = self.groups * i64::from(WARPGROUP / self.warp);
        self.group().blocks() * (1 + bringers + warps) + i64::from(self.issue.is_some())
    }

    /// What the thread that copies does.
    fn copying(&self, nest: &mut Nest, tiles: Option<&Tiles>, before: &[DStmt]) -> Vec<DStmt> {
        let ring = Ring::new(nest, self.l.stages);
        let at = Some((&self.full, ring.at()));
        let expect = sync(Sync::MbarrierExpect, at, Some(Expr::i64(self.bytes)));
        let mut step = vec![ring.wait(&self.empty)];
        step.extend(self.by_first_block(nest, vec![expect]));
        step.extend(self.placed(nest, &self.fills, &ring));
        step.extend(ring.next());
        let mut body: Vec<DStmt> = before.iter().filter(|s| matches!(s, DStmt::Let { .. })).cloned().collect();
        body.push(self.steps(step));
        if let Some(tiles) = tiles {
            body = tiles.each(nest, &Who::Copies, body);
        }
        if self.peers > 1 || self.group() == CtaGroup::Pair {
            // nothing arrives from another block when this one has ended: the last meeting does not wait for what is on its way
            let (each, n) = (nest.loop_var("each", self.l.stages), Expr::i64(self.l.stages));
            let drain = std::iter::once(ring.wait(&self.empty)).chain(ring.next()).collect();
            body.push(DStmt::For(DFor { own_barriers: true, ..DFor::new(each, n, DKind::Serial, drain) }));
        }
        // a fresh slot is empty: the phase before its first counts as completed
        ring.declare(1).into_iter().chain(body).collect()
    }

    /// The loop around other statements.
    fn steps(&self, body: Vec<DStmt>) -> DStmt {
        DStmt::For(DFor { stages: 1, roles: 0, own_barriers: true, ..self.l.with_body(body) })
    }

    /// Statements with what is filled, and the barrier that counts it, at the ring's slot.
    fn placed(&self, nest: &Nest, body: &[DStmt], ring: &Ring) -> Vec<DStmt> {
        redirect::all(body, &|name, at| {
            if *name == self.full {
                return Some((name.clone(), ring.at()));
            }
            let index = at.clone() + ring.at() * Expr::i64(*self.slots.get(name)?);
            Some((name.clone(), crate::analysis::simplify(&index, &nest.ranges)))
        })
    }
}

/// Tensor copies into shared memory, alone or in loops.
fn is_fill(s: &DStmt) -> bool {
    match s {
        DStmt::Instr(i) => matches!(i.op, Op::TensorLoad { .. }),
        DStmt::For(l) => l.body.iter().all(is_fill),
        DStmt::If { .. }
        | DStmt::Store { .. }
        | DStmt::Copy { .. }
        | DStmt::Let { .. }
        | DStmt::Var { .. }
        | DStmt::Assign { .. }
        | DStmt::Shuffle { .. }
        | DStmt::Barrier(_)
        | DStmt::Tile(_)
        | DStmt::Reduce(_) => false,
    }
}

/// A fill whose copies are started one right after the other.
fn unrolled(s: DStmt) -> DStmt {
    match s.map_lists(|inner| inner.into_iter().map(unrolled).collect()) {
        DStmt::For(l) => DStmt::For(DFor { kind: DKind::Unrolled, ..l }),
        s => s,
    }
}

/// Bytes that a fill brings.
fn fill_bytes(nest: &Nest, s: &DStmt) -> Option<i64> {
    if let DStmt::For(l) = s {
        let all: i64 = l.body.iter().map(|s| fill_bytes(nest, s)).sum::<Option<i64>>()?;
        return Some(all * l.extent.as_int()?);
    }
    let DStmt::Instr(i) = s else { return None };
    nest.maps.iter().find(|m| Some(&m.name) == i.op.map()).map(|m| m.box_bytes())
}

fn resize(nest: &mut Nest, name: &Name, len: i64) {
    if let Some(b) = nest.buffers.get_mut(name) {
        b.shape = vec![Expr::i64(len)];
    }
}

fn is(e: Expr, n: i64) -> Expr {
    op(BinOp::Eq, e, n)
}
