//! Products whose reduced axis is cut into parts that different blocks sum, whose sums are then added, always in the same
//! order, and the result finished. Either they lie in a workspace and a second launch does this, or the blocks of a tile
//! are a cluster: they wait for each other, and then each adds its share of the tile.

use crate::ir::Expr;
use crate::rules::cluster::{self, Adders};
use crate::rules::find::einsum::Einsum;
use crate::rules::find::operands::whole_write;
use crate::rules::find::product::Product;
use crate::rules::find::shape::find_block;
use crate::rules::parts::*;

/// Threads of a block that adds parts.
const ADDERS: i64 = 256;
/// The knob that says how many parts there are.
const PARTS: &str = "split_k";

/// What is left for the second launch.
pub struct Parts {
    /// The loop over parts in the first launch.
    pub at: Name,
    /// The block that adds the parts.
    pub add: Name,
    /// What it writes.
    pub sum: Name,
    /// The block that makes the result of the sums.
    pub tail: Name,
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

/// True where the blocks of a tile are a cluster that adds their parts.
pub fn in_cluster(k: &Knobs) -> bool {
    cluster::adds(k, PARTS)
}

/// Bytes of shared memory for the sums of a block, a tile of `block` rows and columns, where they stay there.
pub fn sums(k: &Knobs, [m, n, _]: [i64; 3], dtype: DType) -> i64 {
    if in_cluster(k) { cluster::memory([m, n], dtype) } else { 0 }
}

/// Clusters have as many blocks as there are parts, no more than the target allows.
pub fn cluster_fits(space: Space, p: &Product, target: &Target) -> Space {
    shared_fits(space, p, target, 2)
}

/// The same of `least` parts or more: sums of a part that is the only one may pass through shared memory as well.
pub fn shared_fits(space: Space, p: &Product, target: &Target, least: i64) -> Space {
    cluster::fits(space, target, (PARTS, least), has_constant_result(p))
}

/// The same of a rule whose parts a cluster adds whenever there are several.
pub fn always_fits(space: Space, p: &Product, target: &Target) -> Space {
    cluster::fits_where(space, target, |k: &Knobs| k.get(PARTS) > 1, (PARTS, 1), has_constant_result(p))
}

fn has_constant_result(p: &Product) -> bool {
    let [batch, rows, columns, _] = p.extents();
    [batch, rows, columns].iter().all(Option::is_some)
}

/// The loops around the tiles of a product, its parts among them: those that are outermost, and that over the blocks of a
/// cluster.
pub fn around<'a>(left: Option<&'a Parts>, mut outer: Vec<Name>, k: &Knobs) -> (Vec<Name>, Option<&'a Name>) {
    let at = left.map(|l| &l.at);
    if in_cluster(k) {
        return (outer, at);
    }
    outer.extend(at.cloned());
    (outer, None)
}

impl Parts {
    /// Gives each element of the result to a thread of the second launch; the loop over the threads of a block.
    ///
    /// # Errors
    /// A step whose precondition fails, which is a bug.
    pub fn adders(&self, s: &mut Schedule) -> Result<Name, ScheduleError> {
        self.along_result(s)?;
        let all = fuse_loops(s, &s.loops(&self.tail))?;
        let [block, thread] = split(s, &all, [None, Some(ADDERS)])?;
        s.bind(&block, ThreadTag::BlockX)?;
        s.bind(&thread, ThreadTag::ThreadX)?;
        Ok(thread)
    }

    /// Has the blocks of a cluster add the parts of its tile, each a share of it, with so many threads that have so many
    /// results side by side: below the loop `grid` over clusters.
    ///
    /// # Errors
    /// A step whose precondition fails, which is a bug.
    pub fn adders_of_cluster(
        &self,
        s: &mut Schedule,
        grid: &Name,
        parts: i64,
        (threads, side_by_side): (i64, i64),
    ) -> Done {
        let turned = self.along_result(s)?;
        let mut tails = vec![self.tail.clone()];
        if whole_write(s, &find_block(s.func(), &self.tail)).is_some() {
            tails.push(s.cache_write(&self.tail, &output(s, &self.tail), Scope::Local)?);
        }
        Adders { add: &self.add, tails: &tails, turned, side_by_side }.place(s, grid, parts, threads)
    }

    /// Puts that loop over the result last which walks along it, and has the parts lie so; true where rows are then last.
    fn along_result(&self, s: &mut Schedule) -> Result<bool, ScheduleError> {
        let own = s.loops(&self.tail);
        let loops = neighbours_last(s, &self.tail, own.clone());
        if let ([a, b], [x, y]) = (&own[..], &loops[..])
            && (a, b) == (y, x)
        {
            // columns first: so that neighbours of the result are neighbours of each part, too
            s.reorder(&loops)?;
            self.turn(s)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Exchanges the last two dimensions of the parts.
    fn turn(&self, s: &mut Schedule) -> Done {
        let rank = s.func().buffer(&self.partial).shape.len();
        let from: Vec<Name> = (0..rank).map(|d| Name::new(format!("d{d}"))).collect();
        let mut to: Vec<Expr> = from.iter().map(|n| Expr::var(n.clone(), DType::I32)).collect();
        to.swap(rank - 2, rank - 1);
        s.transform_layout(&self.partial, &from, &to)
    }

    /// Moves what adds the parts of a block, and what follows, below the loop `at` over blocks.
    ///
    /// # Errors
    /// A step whose precondition fails, which is a bug.
    pub fn add_in_block(&self, s: &mut Schedule, at: &Name) -> Done {
        s.reverse_compute_at(&self.add, at)?;
        s.reverse_compute_at(&self.tail, at)
    }

    /// Has all `[y, x]` threads of a block add what its warps have left in shared memory, below the loop `at`.
    ///
    /// # Errors
    /// A step whose precondition fails, which is a bug.
    pub fn adders_of_block(&self, s: &mut Schedule, at: &Name, [y, x]: [i64; 2]) -> Done {
        let loops = neighbours_last(s, &self.tail, loops_below(s, &self.tail, at));
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
