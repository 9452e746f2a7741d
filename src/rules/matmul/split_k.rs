//! Products whose reduced axis is cut into parts that different blocks sum: a first launch leaves the sums
//! of the parts in a workspace, a second one adds them, always in the same order, and finishes the result.

use crate::ir::{Name, Scope, ThreadTag};
use crate::rules::find::einsum::Einsum;
use crate::rules::parts::*;
use crate::schedule::{Schedule, ScheduleError};

/// What is left for the second launch.
pub struct Parts {
    /// The loop over parts in the first launch.
    pub at: Name,
    /// The block that adds the parts.
    add: Name,
    /// What it writes.
    sum: Name,
    /// The block that makes the result of the sums.
    tail: Name,
}

/// Cuts the reduced axis of a product with one block after it into `parts`, which its padded length is a
/// multiple of. The product is then that of one part, followed by the copy of its sums.
///
/// # Errors
/// A step whose precondition fails, which is a bug.
pub fn cut(e: &mut Einsum, parts: i64) -> Result<Parts, ScheduleError> {
    let s = &mut e.schedule;
    let [at, rest] = &s.split(&e.loops[3], &[Some(parts), None])?[..] else {
        panic!("split gives one loop per factor")
    };
    let own = s.rfactor(at, 0)?;
    let partial = output(s, &own);
    let write = s.cache_write(&own, &partial, Scope::Local)?;
    let [tail] = &e.tails[..] else { panic!("one block follows a product that is cut") };
    let left = Parts { at: at.clone(), add: e.block.clone(), sum: e.result.clone(), tail: tail.clone() };
    e.result = output(s, &own);
    e.loops[3] = rest.clone();
    (e.block, e.tails) = (own, vec![write]);
    Ok(left)
}

/// Schedules the second launch: a thread per element.
///
/// # Errors
/// A step whose precondition fails, which is a bug.
pub fn finish_parts(s: &mut Schedule, parts: &Parts, threads: i64) -> Result<(), ScheduleError> {
    let loops = s.loops(&parts.tail);
    let all = if loops.len() > 1 { s.fuse(&loops)? } else { loops[0].clone() };
    let split = s.split(&all, &[None, Some(threads)])?;
    s.bind(&split[0], ThreadTag::BlockX)?;
    s.bind(&split[1], ThreadTag::ThreadX)?;
    s.compute_at(&parts.add, &split[1])?;
    for l in loops_below(s, &parts.add, &split[1]) {
        unroll_loop(s, &l)?;
    }
    s.set_scope(&parts.sum, Scope::Local)
}
