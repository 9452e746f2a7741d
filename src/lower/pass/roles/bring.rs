//! What threads bring to shared memory for products in tensor memory: scales of blocks, too few bytes at a place for boxes.
//!
//! Two further warps copy them, asynchronously and as far ahead as there are slots, with the numbers of the threads that
//! the loop's own copies are of in turn. A step's copies are waited for when those of the following steps are on their way;
//! then they are fenced for the products, and each warp arrives at the barrier that says that the slot is full, in a pair of
//! blocks at the first one's.
//!
//! before: `for k, stages 4, roles 1 { tensor_load a, full; if thread < 128 { sf[thread] = s[thread, k] }; tcgen05(a, sf) }`
//! after:  `if thread >= 192 { for k { wait empty[s]; for i < 2 { cp_async sf[s, ..] <- s[64 i + thread - 192, k] }; commit;`
//!         `if k >= 3 { cp_async_wait 3; async_fence; arrive full[s - 3] } }; cp_async_wait 0; async_fence; arrive full of the last }`
//!
//! The schedule is at fault where what it fills by threads is no asynchronous copies.

use super::ring::{Ring, THREAD, arrive, first_of, op, sync, thread, when};
use super::{PASS, Roles, Tiles, WARP, Who, is_fill};
use crate::analysis::simplify;
use crate::ir::device::{DFor, DKind, DStmt, index_var};
use crate::ir::instr::{Instr, Op, Sync, Tcgen05};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, Expr, Name};
use crate::lower::LowerError;
use crate::lower::fact::warps::WARPGROUP;
use crate::lower::nest::Nest;
use crate::lower::pass::pipeline::as_async;

/// The warps that copy: the last of the further warpgroup.
pub(super) const WARPS: i64 = 2;

/// The statements of a step: copies by boxes, copies by threads, products.
pub(super) struct Step {
    pub fills: Vec<DStmt>,
    pub brought: Vec<DStmt>,
    pub compute: Vec<DStmt>,
}

impl Step {
    /// Takes the body of a loop apart, which begins with copies.
    pub fn of(nest: &Nest, l: &DFor) -> Result<Step, LowerError> {
        let fault = || LowerError::new(PASS, &l.var, "what threads fill for products in tensor memory is no copy");
        let end = match l.body.iter().position(multiplies_scaled) {
            Some(end) => end,
            None => l.body.iter().take_while(|s| is_fill(s)).count(),
        };
        let (first, compute) = l.body.split_at(end);
        let (mut fills, mut brought, mut open) = (vec![], vec![], vec![]);
        for s in first {
            if is_fill(s) {
                fills.push(s.clone());
                continue;
            }
            open.push(s.clone());
            if let Some(copies) = as_async(nest, &open) {
                brought.extend(copies);
                open.clear();
            }
        }
        match open.is_empty() {
            true => Ok(Step { fills, brought, compute: compute.to_vec() }),
            false => Err(fault()),
        }
    }

    /// The arrays that hold scales: in shared memory, as threads bring them, and in tensor memory.
    pub fn arrays(&self) -> Vec<Name> {
        let mut out = vec![];
        let mut note = |s: &DStmt| match s {
            DStmt::Instr(i) if matches!(i.op, Op::CpAsync { .. } | Op::Tcgen05(Tcgen05::CopyScales { .. })) => {
                out.push(i.places[0].array.clone());
            }
            _ => {}
        };
        self.brought.iter().chain(&self.compute).for_each(|s| s.visit(&mut note));
        out
    }
}

/// True for what begins the products of a step that take scales, or their copies to tensor memory.
fn multiplies_scaled(s: &DStmt) -> bool {
    matches!(s, DStmt::Instr(i) if matches!(i.op, Op::Tcgen05(_)))
}

impl Roles {
    /// What the warps do that bring scales.
    pub(super) fn bringing(&self, nest: &mut Nest, tiles: Option<&Tiles>, before: &[DStmt]) -> Vec<DStmt> {
        let ring = Ring::new(nest, self.l.stages);
        let behind = (self.l.stages - 1).min(self.steps - 1);
        let mut step = vec![ring.wait(&self.empty)];
        let brought = self.by_few(nest);
        step.extend(self.placed(nest, &brought, &ring));
        step.push(sync(Sync::CpAsyncCommit, None, None));
        let mut landed = landed(behind);
        landed.push(when(first_of(WARP), vec![self.filled(&ring, behind)]));
        let later = op(BinOp::Ge, index_var(&self.l.var), behind);
        step.push(when(later, landed));
        step.extend(ring.next());
        let mut body: Vec<DStmt> = before.iter().filter(|s| matches!(s, DStmt::Let { .. })).cloned().collect();
        body.push(self.steps(step));
        body.extend(self::landed(0));
        body.push(when(first_of(WARP), (0..behind).rev().map(|n| self.filled(&ring, n + 1)).collect()));
        if let Some(tiles) = tiles {
            body = tiles.each(nest, &Who::Warps, body);
        }
        ring.declare(1).into_iter().chain(body).collect()
    }

    /// Says that the slot so many steps before the ring's is filled.
    fn filled(&self, ring: &Ring, behind: i64) -> DStmt {
        let slot = op(BinOp::FloorMod, ring.at() + Expr::i64(self.l.stages - behind), self.l.stages);
        arrive(self.group(), &self.full, slot)
    }

    /// The copies that the loop's own threads would make, by the threads of few warps.
    fn by_few(&self, nest: &mut Nest) -> Vec<DStmt> {
        let (all, few) = (self.team * i64::from(WARPGROUP), WARPS * WARP);
        let own = thread() - Expr::i64(self.groups * i64::from(WARPGROUP) + i64::from(WARPGROUP) - few);
        let var = nest.loop_var("part", all / few);
        let number = index_var(&var) * Expr::i64(few) + own;
        let numbered = |n: &Name| (n.as_str() == THREAD).then(|| number.clone());
        let copies: Vec<DStmt> = self.brought.iter().map(|s| s.subst(&numbered)).collect();
        let copies = copies.into_iter().map(|s| s.map_exprs(&mut |e| simplify(e, &nest.ranges))).collect();
        vec![DStmt::For(DFor { own_barriers: true, ..DFor::new(var, Expr::i64(all / few), DKind::Serial, copies) })]
    }
}

/// Waits for all copies but those of so many steps, for the whole warp.
fn landed(left: i64) -> Vec<DStmt> {
    vec![
        sync(Sync::CpAsyncWait { left: left as u32 }, None, None),
        DStmt::Instr(Instr::from(Sync::AsyncFence)),
        DStmt::Barrier(Barrier::Warp),
    ]
}
