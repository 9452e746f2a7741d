//! Products whose reduced axis is cut into parts that different blocks sum: a first launch leaves the sums
//! of the parts in a workspace, a second one adds them, always in the same order, and finishes the result.

use crate::ir::Expr;
use crate::rules::find::einsum::Einsum;
use crate::rules::find::shape::find_block;
use crate::rules::parts::*;

/// Threads of a block that adds parts.
const ADDERS: i64 = 256;

/// What is left for the second launch.
pub struct Parts {
    /// The loop over parts in the first launch.
    pub at: Name,
    /// The block that adds the parts.
    pub add: Name,
    /// What it writes.
    pub sum: Name,
    /// The block that makes the result of the sums.
    tail: Name,
    /// The sums of the parts.
    partial: Name,
}

/// Cuts the reduced axis of a product with one block after it into `parts`, which its padded length is a
/// multiple of. The product is then that of one part, followed by the copy of its sums.
///
/// # Errors
/// A step whose precondition fails, which is a bug.
pub fn cut(s: &mut Schedule, e: &mut Einsum, parts: i64) -> Result<Parts, ScheduleError> {
    let [at, rest] = split(s, &e.loops[3], [Some(parts), None])?;
    let own = s.rfactor(&at, 0)?;
    let partial = output(s, &own);
    let write = s.cache_write(&own, &partial, Scope::Local)?;
    let [tail] = known(std::mem::replace(&mut e.tails, vec![write]));
    let partial = output(s, &e.tails[0]);
    e.loops[3] = rest;
    let sum = std::mem::replace(&mut e.result, output(s, &own));
    Ok(Parts { at, add: std::mem::replace(&mut e.block, own), sum, tail, partial })
}

impl Parts {
    /// Gives each element of the result to a thread of the second launch; the loop over the threads of a block.
    ///
    /// # Errors
    /// A step whose precondition fails, which is a bug.
    pub fn adders(&self, s: &mut Schedule) -> Result<Name, ScheduleError> {
        let own = s.loops(&self.tail);
        let loops = neighbours_last(s, &self.tail, own.clone());
        if let ([a, b], [x, y]) = (&own[..], &loops[..])
            && (a, b) == (y, x)
        {
            // columns first: so that neighbours of the result are neighbours of each part, too
            s.reorder(&loops)?;
            self.turn(s)?;
        }
        let all = fuse_loops(s, &s.loops(&self.tail))?;
        let [block, thread] = split(s, &all, [None, Some(ADDERS)])?;
        s.bind(&block, ThreadTag::BlockX)?;
        s.bind(&thread, ThreadTag::ThreadX)?;
        Ok(thread)
    }

    /// Exchanges the last two dimensions of the parts.
    fn turn(&self, s: &mut Schedule) -> Done {
        let rank = s.func().buffer(&self.partial).shape.len();
        let from: Vec<Name> = (0..rank).map(|d| Name::new(format!("d{d}"))).collect();
        let mut to: Vec<Expr> = from.iter().map(|n| Expr::var(n.clone(), DType::I32)).collect();
        to.swap(rank - 2, rank - 1);
        s.transform_layout(&self.partial, &from, &to)
    }

    /// Has all `[y, x]` threads of a block add what its warps have left in shared memory.
    ///
    /// # Errors
    /// A step whose precondition fails, which is a bug.
    pub fn adders_of_block(&self, s: &mut Schedule, grid: &Name, [y, x]: [i64; 2]) -> Done {
        s.reverse_compute_at(&self.add, grid)?;
        s.reverse_compute_at(&self.tail, grid)?;
        let loops = neighbours_last(s, &self.tail, loops_below(s, &self.tail, grid));
        s.reorder(&loops)?;
        let all = fuse_loops(s, &loops)?;
        let [step, side, thread] = split(s, &all, [None, Some(y), Some(x)])?;
        s.reorder(&[side.clone(), thread.clone(), step.clone()])?;
        s.bind(&side, ThreadTag::ThreadY)?;
        s.bind(&thread, ThreadTag::ThreadX)?;
        s.set_scope(&self.sum, Scope::Local)?;
        s.compute_at(&self.add, &step)?;
        loops_below(s, &self.add, &step).iter().try_for_each(|l| unroll_loop(s, l))
    }
}

/// Loops with that last which walks along neighbours of what the block writes.
fn neighbours_last(s: &Schedule, block: &Name, loops: Vec<Name>) -> Vec<Name> {
    let facts = crate::analysis::Facts::of(s.func());
    let last = facts.block(block).and_then(|b| b.writes.first()?.indices.last()?.as_var().cloned());
    let binding =
        find_block(s.func(), block).iters.into_iter().find(|it| Some(&it.var) == last.as_ref()).map(|it| it.binding);
    let (inner, outer): (Vec<Name>, Vec<Name>) =
        loops.into_iter().partition(|l| binding.as_ref().is_some_and(|b| b.uses_var(l)));
    [outer, inner].concat()
}
