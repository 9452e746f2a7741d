//! Products in tensor memory: one thread issues them, and warpgroups store their sums.
//!
//! The thread waits for a slot to be full, issues the products of a step and commits them to the barrier that says that
//! the slot is empty; after the last step it commits to one that says that the sums are done. Warpgroups wait for that
//! and load the sums. Where blocks take several tiles there are two sets of sums, if tensor memory has the columns, so
//! that products of the next tile go on while sums of one are stored; the barrier that says that a set has been read
//! takes an arrival of each thread. Where two blocks are a pair (`pair`), the thread of the first issues for both.
//!
//! before: `c = 0; for k { tensor_load a, full; ct = tcgen05(a) + ct; commit done }; c <- ct; wait_loads; store c`
//! after:  `if group < 1 { wait done; c <- ct; wait_loads; store c } else { if thread == 0 { copies };`
//!         `if thread == 32 { for k { wait full[s]; ct = tcgen05(a[s]) + (k > 0 ? ct : 0); commit empty[s] }; commit done } }`
//!
//! The schedule is at fault where sums do not start from zero, or are not loaded after the loop.

use super::consume::zeroes;
use super::ring::{Ring, arrive, sync};
use super::{PASS, Roles, Tiles, Who, resize};
use crate::analysis::simplify;
use crate::ir::device::{DStmt, index_var};
use crate::ir::instr::{At, CtaGroup, Instr, Op, Sync, TENSOR_COLUMNS, TENSOR_LANES, Tcgen05};
use crate::ir::{BinOp, DType, Expr, Name, Scope};
use crate::lower::LowerError;
use crate::lower::fact::redirect;
use crate::lower::nest::Nest;

/// Sums in tensor memory.
pub struct Issue {
    /// The array, and elements of one set.
    sums: Name,
    len: i64,
    /// Sets of sums.
    sets: i64,
    /// Barriers that say that the sums of a set are done.
    done: Name,
    /// Barriers that say that they have been read, where blocks take several tiles.
    read: Option<Name>,
    /// The blocks that a product is of.
    pub group: CtaGroup,
}

impl Issue {
    /// The products of a loop that ends with a commit.
    pub fn of(nest: &mut Nest, stages: i64, compute: &[DStmt], last: &DStmt) -> Option<Issue> {
        let DStmt::Instr(Instr { op: Op::Tcgen05(Tcgen05::Commit { .. }), places, .. }) = last else { return None };
        let done = places[0].array.clone();
        let sums = compute.iter().find_map(|s| match s {
            DStmt::Instr(i) if is_product(i) => Some(i.places[0].array.clone()),
            _ => None,
        })?;
        let len = nest.buffers.get(&sums)?.len()?;
        // each step has columns of its own for its scales
        let scales = compute.iter().find_map(|s| match s {
            DStmt::Instr(Instr { op: Op::Tcgen05(Tcgen05::CopyScales { .. }), places, .. }) => {
                nest.buffers.get(&places[0].array)?.len()
            }
            _ => None,
        });
        let both = 2 * len + stages * scales.unwrap_or(0);
        let sets = if nest.several.is_some() && both <= TENSOR_COLUMNS * TENSOR_LANES { 2 } else { 1 };
        let read = nest.several.is_some().then(|| nest.scratch("read", DType::U64, Expr::i64(sets), Scope::Shared));
        Some(Issue { sums, len, sets, done, read, group: CtaGroup::One })
    }

    /// Gives all sets their columns and barriers.
    pub fn resize(&self, nest: &mut Nest) {
        resize(nest, &self.sums, self.len * self.sets);
        resize(nest, &self.done, self.sets);
    }

    /// Barriers with how many there are and the arrivals of each.
    pub fn barriers(&self, readers: i64) -> Vec<(Name, i64, i64)> {
        let read = self.read.iter().map(|bar| (bar.clone(), self.sets, readers * self.group.blocks()));
        std::iter::once((self.done.clone(), self.sets, 1)).chain(read).collect()
    }

    /// Arrives when all products so far are done: in all blocks that these are of.
    fn commit(&self, bar: &Name, at: Expr) -> DStmt {
        let mask = if self.group == CtaGroup::Pair { 3 } else { 0 };
        does(Tcgen05::Commit { group: self.group, mask }, Some((bar, at)))
    }

    /// Statements with the sums of the set that a role is at.
    fn at_set(&self, nest: &Nest, body: &[DStmt], set: &Set) -> Vec<DStmt> {
        redirect::all(body, &|name, at| {
            let index = at.clone() + set.at() * Expr::i64(self.len);
            (*name == self.sums).then(|| (name.clone(), simplify(&index, &nest.ranges)))
        })
    }
}

/// The set of sums that a role is at: the only one, where blocks take one tile.
struct Set(Option<Ring>);

impl Set {
    fn of(nest: &mut Nest, issue: &Issue) -> Set {
        Set(issue.read.is_some().then(|| Ring::new(nest, issue.sets)))
    }

    fn declare(&self, phase: i64) -> Vec<DStmt> {
        self.0.iter().flat_map(|ring| ring.declare(phase)).collect()
    }

    fn at(&self) -> Expr {
        self.0.as_ref().map_or(Expr::i64(0), Ring::at)
    }

    fn wait(&self, bar: &Name) -> DStmt {
        let only = || sync(Sync::MbarrierWait, Some((bar, Expr::i64(0))), Some(Expr::i64(0)));
        self.0.as_ref().map_or_else(only, |ring| ring.wait(bar))
    }

    fn next(&self) -> Vec<DStmt> {
        self.0.iter().flat_map(Ring::next).collect()
    }
}

fn is_product(i: &Instr) -> bool {
    matches!(i.op, Op::Tcgen05(Tcgen05::Mma { .. } | Tcgen05::ScaledMma { .. }))
}

fn does(op: Tcgen05, place: Option<(&Name, Expr)>) -> DStmt {
    let places: Vec<At> = place.map(|(bar, at)| At::new(bar, at)).into_iter().collect();
    DStmt::Instr(Instr::new(op, places, []))
}

impl Roles {
    /// What the thread that issues products does.
    pub(super) fn issuing(&self, nest: &mut Nest, issue: &Issue, tiles: Option<&Tiles>) -> Vec<DStmt> {
        let (ring, set) = (Ring::new(nest, self.l.stages), Set::of(nest, issue));
        let mut step = vec![ring.wait(&self.full)];
        step.extend(self.placed(nest, &issue.at_set(nest, &self.starting_at_zero(), &set), &ring));
        step.push(issue.commit(&self.empty, ring.at()));
        step.extend(ring.next());
        let mut body = vec![];
        if let Some(read) = &issue.read {
            body.extend([set.wait(read), does(Tcgen05::FenceAfter, None)]);
        }
        body.push(self.steps(step));
        body.push(issue.commit(&issue.done, set.at()));
        body.extend(set.next());
        if let Some(tiles) = tiles {
            body = tiles.each(nest, &Who::Thread, body);
        }
        // fresh sums have been read: the phase before the first counts as completed
        [ring.declare(0).to_vec(), set.declare(1), body].concat()
    }

    /// The products of a step, the first of which do not add in the first step.
    fn starting_at_zero(&self) -> Vec<DStmt> {
        let mut compute = self.compute.clone();
        let first = compute.iter_mut().find_map(|s| match s {
            DStmt::Instr(i) if is_product(i) => Some(i),
            _ => None,
        });
        if let Some(i) = first {
            i.values[0] = Expr::binary(BinOp::Lt, Expr::i64(0), index_var(&self.l.var));
        }
        compute
    }

    /// What the warpgroups do that store the sums.
    pub(super) fn storing(
        &self,
        nest: &mut Nest,
        issue: &Issue,
        tiles: Option<&Tiles>,
        before: &[DStmt],
        after: Vec<DStmt>,
    ) -> Result<Vec<DStmt>, LowerError> {
        let fault = |why: &str| LowerError::new(PASS, &issue.sums, why);
        let held = after.iter().find_map(|s| match s {
            DStmt::Instr(Instr { op: Op::Tcgen05(Tcgen05::Load { .. }), places, .. }) => Some(places[0].array.clone()),
            _ => None,
        });
        let held = held.ok_or_else(|| fault("no load of the sums follows the loop"))?;
        let mut body: Vec<DStmt> = before.iter().filter(|s| !zeroes(nest, s, &held)).cloned().collect();
        if body.len() == before.len() {
            return Err(fault("the sums do not start from zero"));
        }
        let set = Set::of(nest, issue);
        body.push(set.wait(&issue.done));
        for s in issue.at_set(nest, &after, &set) {
            let read = s == does(Tcgen05::FenceBefore, None);
            body.push(s);
            if let Some(bar) = issue.read.as_ref().filter(|_| read) {
                body.push(arrive(issue.group, bar, set.at()));
                body.extend(set.next());
            }
        }
        let body: Vec<DStmt> = body.into_iter().map(|s| self.with_group(nest, s)).collect();
        let body = match tiles {
            Some(tiles) => tiles.each(nest, &Who::Warps, body),
            None => body,
        };
        Ok([set.declare(0), body].concat())
    }
}
