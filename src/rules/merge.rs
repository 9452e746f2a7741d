//! Neighbouring launches of a function as one kernel, where neither reads or writes what the other writes.
//!
//! Parameters of a function do not alias, so that buffers with different names are different memory. Launches of
//! clusters, of persistent blocks, of grids with several axes, those whose blocks count each other, and those whose warps
//! have roles or share out tiles stay alone, as do launches with another number of threads per block.

use super::{Knobs, LaunchOutline, Outline, Space};
use crate::ir::{Expr, ExprKind, For, ForKind, Mark, Name, Stmt, ThreadTag};
use crate::schedule::{Schedule, ScheduleError};
use std::collections::BTreeSet;

/// The knob that merges launches.
pub const KNOB: &str = "merge";

/// The buffers that statements read and write.
#[derive(Clone, Default, Debug)]
pub struct Uses {
    reads: BTreeSet<Name>,
    writes: BTreeSet<Name>,
}

impl Uses {
    /// Those of statements.
    pub fn of<'a>(stmts: impl IntoIterator<Item = &'a Stmt>) -> Uses {
        let mut uses = Uses::default();
        stmts.into_iter().for_each(|s| s.visit(&mut |s| uses.note(s)));
        uses
    }

    /// Those of some blocks of a schedule.
    pub fn of_blocks(s: &Schedule, blocks: &[Name]) -> Uses {
        let mut uses = Uses::default();
        let mut note = |s: &Stmt| {
            if let Stmt::Block(b) = s
                && blocks.contains(&b.name)
            {
                uses.add(&Uses::of([s]));
            }
        };
        s.func().visit(&mut note);
        uses
    }

    fn note(&mut self, s: &Stmt) {
        if let Stmt::Store { buffer, .. } = s {
            self.writes.insert(buffer.clone());
        }
        if let Stmt::Block(b) = s {
            // What is done through a view is not looked at: it may be either.
            let viewed = || b.matches.iter().map(|(_, r)| r.buffer.clone());
            self.reads.extend(viewed());
            self.writes.extend(viewed());
        }
        let reads = &mut self.reads;
        let mut note = |e: &Expr| {
            if let ExprKind::Load { buffer, .. } = e.kind() {
                reads.insert(buffer.clone());
            }
        };
        s.for_each_expr(|e| e.visit(&mut note));
    }

    fn add(&mut self, other: &Uses) {
        self.reads.extend(other.reads.iter().cloned());
        self.writes.extend(other.writes.iter().cloned());
    }

    /// Neither reads or writes what the other writes.
    fn apart(&self, other: &Uses) -> bool {
        let free = |a: &Uses, b: &Uses| a.writes.is_disjoint(&b.reads) && a.writes.is_disjoint(&b.writes);
        free(self, other) && free(other, self)
    }
}

/// Parts of a function in order: those with `true` may be one with that before them, `alike` permitting.
///
/// A part that joins several has to be apart from all of them.
pub fn joins(uses: &[Uses], alike: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut group = Uses::default();
    let join = |(i, own): (usize, &Uses)| {
        let joins = i > 0 && alike(i) && group.apart(own);
        if !joins {
            group = Uses::default();
        }
        group.add(own);
        joins
    };
    uses.iter().enumerate().map(join).collect()
}

/// A knob space without the knob where nothing could be merged.
pub fn offer(mut space: Space, uses: &[Uses]) -> Space {
    if !joins(uses, |_| true).contains(&true) {
        space.knobs.retain(|k| k.name != KNOB);
    }
    space
}

/// True where a point merges.
pub fn wanted(k: &Knobs) -> bool {
    k.find(KNOB) == Some(1)
}

/// Marks each launch of a scheduled function that can be one with that before it, at a point that merges.
///
/// # Errors
/// A step whose precondition fails, which is a bug.
pub fn mark(s: &mut Schedule, k: &Knobs) -> Result<(), ScheduleError> {
    if !wanted(k) {
        return Ok(());
    }
    let body = &s.func().body;
    let uses: Vec<Uses> = body.iter().map(|s| Uses::of([s])).collect();
    let counts = |i: usize| body.get(i).is_some_and(is_of_last_blocks);
    let grid = |(i, s): (usize, &Stmt)| Grid::of(s).filter(|_| !counts(i) && !counts(i + 1));
    let grids: Vec<Option<Grid>> = body.iter().enumerate().map(grid).collect();
    let joins = joins(&uses, |i| grids[i].as_ref().zip(grids[i - 1].as_ref()).is_some_and(|(a, b)| a.fits(b)));
    let marked: Vec<Name> =
        grids.iter().zip(joins).filter(|(_, joins)| *joins).flat_map(|(g, _)| g).map(Grid::at).collect();
    marked.iter().try_for_each(|at| s.mark(at, Mark::Merge(true)))
}

/// A launch that may be merged.
struct Grid {
    /// The loop over blocks.
    at: Name,
    /// Threads of a block by axis.
    block: [i64; 3],
}

impl Grid {
    fn at(&self) -> Name {
        self.at.clone()
    }

    /// As many threads, which lie along x where the blocks differ in shape: warps are rows of that, or parts of one.
    fn fits(&self, other: &Grid) -> bool {
        let threads = |g: &Grid| g.block.iter().product::<i64>();
        let by_rows = |g: &Grid| g.block[0] <= 32 || g.block[1..] == [1, 1];
        threads(self) == threads(other) && (self.block == other.block || by_rows(self) && by_rows(other))
    }

    /// `None` for a launch that stays alone.
    fn of(s: &Stmt) -> Option<Grid> {
        let (mut at, mut block, mut alone) = (None, [1i64; 3], false);
        s.visit(&mut |s| {
            let Stmt::For(l) = s else { return };
            alone |= stays_alone(l);
            let ForKind::Thread(tag) = l.kind else { return };
            match (tag, tag.thread_axis(), l.extent.as_int()) {
                (ThreadTag::BlockX, ..) => at = at.take().or_else(|| Some(l.var.clone())),
                (_, Some(axis), Some(n)) => block[axis] = block[axis].max(n),
                (_, None, Some(1)) | (ThreadTag::VThreadX | ThreadTag::VThreadY | ThreadTag::VThreadZ, ..) => {}
                _ => alone = true,
            }
        });
        at.filter(|_| !alone).map(|at| Grid { at, block })
    }
}

/// True for a launch whose blocks are run by those of the one before: the two are one kernel as it is.
fn is_of_last_blocks(s: &Stmt) -> bool {
    let mut found = false;
    s.visit(&mut |s| {
        if let Stmt::For(l) = s {
            found |= Mark::all(&l.annotations).any(|m| m == Mark::LastBlock(true));
        }
    });
    found
}

fn stays_alone(l: &For) -> bool {
    let alone = |m: Mark| {
        matches!(m, Mark::Roles(_) | Mark::Persistent(_) | Mark::Fetched(_) | Mark::WarpsM(_) | Mark::WarpsN(_))
    };
    Mark::all(&l.annotations).any(alone)
}

/// The launches of an outline of which each `joins` that before it or not.
pub fn outline(launches: Vec<(bool, LaunchOutline)>) -> Outline {
    let mut out: Vec<LaunchOutline> = vec![];
    for (joins, launch) in launches {
        match out.pop() {
            Some(before) if joins => out.push(both(&before, &launch)),
            before => out.extend(before.into_iter().chain([launch])),
        }
    }
    Outline { launches: out }
}

/// One launch in place of two. What a thread does is that of the launch with more to move.
fn both(a: &LaunchOutline, b: &LaunchOutline) -> LaunchOutline {
    let moved = |l: &LaunchOutline| l.read + l.written;
    let main = if moved(b) > moved(a) { b } else { a };
    LaunchOutline {
        blocks: a.blocks + b.blocks,
        min_blocks: a.min_blocks.min(b.min_blocks),
        state_regs: a.state_regs.max(b.state_regs),
        load_regs: a.load_regs.max(b.load_regs),
        smem: a.smem + b.smem,
        steps: a.steps.max(b.steps),
        read: a.read + b.read,
        written: a.written + b.written,
        again: a.again.max(b.again),
        flops: a.flops + b.flops,
        rounds: a.rounds.max(b.rounds),
        staged: a.staged || b.staged,
        from_cache: a.from_cache || b.from_cache,
        last_block: a.last_block || b.last_block,
        unjudged: a.unjudged || b.unjudged,
        ..main.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(reads: &[&str], writes: &[&str]) -> Uses {
        let names = |all: &[&str]| all.iter().map(|n| Name::new(*n)).collect();
        Uses { reads: names(reads), writes: names(writes) }
    }

    #[test]
    fn a_launch_joins_those_that_it_is_apart_from() {
        let all = [
            uses(&["a"], &["x"]),
            uses(&["a"], &["y"]),
            uses(&["x"], &["z"]),
            uses(&["b"], &["z"]),
            uses(&["c"], &["b"]),
            uses(&["d"], &["e"]),
        ];
        assert_eq!(joins(&all, |_| true), [false, true, false, false, false, true]);
        // What is done before the launch that it joins is done.
        assert_eq!(joins(&all, |i| i != 1), [false, false, true, false, false, true]);
    }

    #[test]
    fn one_launch_has_the_blocks_of_both() {
        let a = LaunchOutline { blocks: 3, threads: 64, min_blocks: 4, read: 10, ..Default::default() };
        let b = LaunchOutline { blocks: 5, threads: 64, min_blocks: 2, read: 20, ..Default::default() };
        let merged = outline(vec![(false, a.clone()), (true, b.clone()), (false, a.clone())]).launches;
        assert_eq!((merged.len(), merged[0].blocks, merged[0].min_blocks, merged[0].read), (2, 8, 2, 30));
        assert_eq!(merged[1], a);
    }
}
