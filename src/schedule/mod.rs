//! A function plus the trace of steps that made it: one file per primitive.
//!
//! A step names loops, blocks and buffers by their canonical names, which are never reused, so a
//! trace is plain text and replays to the same function. Each primitive's file opens with a
//! picture, its named preconditions and its effect; a step that fails leaves the schedule as it
//! was and says which precondition did not hold.

mod dispatch;
mod draft;
mod error;
mod help;
mod primitive;
mod step;
mod step_text;

pub use error::ScheduleError;
pub use help::index_map::IndexMap;
pub use step::{Operand, Step};

use crate::ir::{AttrValue, Name, PrimFunc, Scope, ThreadTag};
use draft::Draft;
use error::Failure;

/// A function under schedule, with the steps taken so far.
#[derive(Clone, Debug)]
pub struct Schedule {
    draft: Draft,
    trace: Vec<Step>,
}

/// The result of a step that makes no names.
type Done = Result<(), ScheduleError>;

impl Schedule {
    /// A schedule of `func` (verified, canonical names) with no step taken.
    pub fn new(func: PrimFunc) -> Schedule {
        Schedule { draft: Draft::new(func), trace: vec![] }
    }

    /// The function as it stands.
    pub fn func(&self) -> &PrimFunc {
        &self.draft.func
    }

    /// The steps taken, in order.
    pub fn trace(&self) -> &[Step] {
        &self.trace
    }

    /// Takes every step of `trace` on `func`. The same trace gives the same names and text.
    pub fn replay(func: PrimFunc, trace: &[Step]) -> Result<Schedule, ScheduleError> {
        let mut s = Schedule::new(func);
        for step in trace {
            s.apply(step.clone())?;
        }
        Ok(s)
    }

    /// Takes one step and returns the names it made (loops or blocks, outermost first).
    pub fn apply(&mut self, step: Step) -> Result<Vec<Name>, ScheduleError> {
        let mut draft = self.draft.clone();
        match dispatch::apply(&mut draft, &step) {
            Ok(names) => {
                draft.bury(self.func(), &format!("step {}: {step}", self.trace.len()));
                self.draft = draft;
                self.trace.push(step);
                Ok(names)
            }
            Err(Failure { precondition, at, why }) => {
                Err(ScheduleError { step: Box::new(step), precondition, at, why })
            }
        }
    }

    /// Every block, in program order.
    pub fn blocks(&self) -> Vec<Name> {
        help::query::blocks(self.func()).into_iter().map(|b| b.name.clone()).collect()
    }

    /// The loops around a block (or loop), outermost first, up to the block that holds it. Empty
    /// where there is none of that name.
    pub fn loops(&self, of: &Name) -> Vec<Name> {
        help::tree::loops_around(self.func(), of).into_iter().map(|l| l.var.clone()).collect()
    }

    /// The other blocks that write what `block` reads, in program order.
    pub fn producers(&self, block: &Name) -> Vec<Name> {
        help::tree::find_block(self.func(), block).map_or(vec![], |b| help::query::producers(self.func(), b))
    }

    /// The other blocks that read what `block` writes, in program order.
    pub fn consumers(&self, block: &Name) -> Vec<Name> {
        help::tree::find_block(self.func(), block).map_or(vec![], |b| help::query::consumers(self.func(), b))
    }

    /// The blocks that read a buffer, in program order.
    pub fn readers(&self, buffer: &Name) -> Vec<Name> {
        help::query::readers(self.func(), buffer).into_iter().map(|b| b.name.clone()).collect()
    }

    /// Splits a loop into one loop per factor, outermost first; one factor may be `None`, which
    /// is then the extent over the product of the others, rounded up.
    pub fn split(&mut self, at: &Name, factors: &[Option<i64>]) -> Result<Vec<Name>, ScheduleError> {
        self.apply(Step::Split { at: at.clone(), factors: factors.to_vec() })
    }

    /// Fuses loops, outermost first, each the only statement in the one before.
    pub fn fuse(&mut self, loops: &[Name]) -> Result<Name, ScheduleError> {
        self.one(Step::Fuse { loops: loops.to_vec() })
    }

    /// Puts loops of one nest into the given order; loops that are not named keep their places.
    pub fn reorder(&mut self, loops: &[Name]) -> Done {
        self.done(Step::Reorder { loops: loops.to_vec() })
    }

    /// Binds a loop to a hardware axis.
    pub fn bind(&mut self, at: &Name, tag: ThreadTag) -> Done {
        self.done(Step::Bind { at: at.clone(), tag })
    }

    /// Runs the iterations of a loop on several cores.
    pub fn parallel(&mut self, at: &Name) -> Done {
        self.done(Step::Parallel { at: at.clone() })
    }

    /// Runs the iterations of a loop as lanes of a vector.
    pub fn vectorize(&mut self, at: &Name) -> Done {
        self.done(Step::Vectorize { at: at.clone() })
    }

    /// Repeats the body of a loop in the code.
    pub fn unroll(&mut self, at: &Name) -> Done {
        self.done(Step::Unroll { at: at.clone() })
    }

    /// Attaches `key = value` to a loop or a block, or changes the value.
    pub fn annotate(&mut self, at: &Name, key: &str, value: AttrValue) -> Done {
        self.done(Step::Annotate { at: at.clone(), key: key.to_string(), value })
    }

    /// Computes an element-wise block where its result is read.
    pub fn compute_inline(&mut self, block: &Name) -> Done {
        self.done(Step::ComputeInline { block: block.clone() })
    }

    /// Computes an element-wise block where its only input is produced.
    pub fn reverse_compute_inline(&mut self, block: &Name) -> Done {
        self.done(Step::ReverseComputeInline { block: block.clone() })
    }

    /// Moves a producer under a loop of its consumers, computing what is needed there.
    pub fn compute_at(&mut self, block: &Name, at: &Name) -> Done {
        self.done(Step::ComputeAt { block: block.clone(), at: at.clone() })
    }

    /// Moves a consumer under a loop of its producers, consuming what is made there.
    pub fn reverse_compute_at(&mut self, block: &Name, at: &Name) -> Done {
        self.done(Step::ReverseComputeAt { block: block.clone(), at: at.clone() })
    }

    /// Stages what `block` reads of `buffer` in `scope`; returns the copying block.
    pub fn cache_read(&mut self, block: &Name, buffer: &Name, scope: Scope) -> Result<Name, ScheduleError> {
        self.one(Step::CacheRead { block: block.clone(), buffer: buffer.clone(), scope })
    }

    /// Stages what `block` writes to `buffer` in `scope`; returns the copying block.
    pub fn cache_write(&mut self, block: &Name, buffer: &Name, scope: Scope) -> Result<Name, ScheduleError> {
        self.one(Step::CacheWrite { block: block.clone(), buffer: buffer.clone(), scope })
    }

    /// Moves an intermediate buffer to another memory scope.
    pub fn set_scope(&mut self, buffer: &Name, scope: Scope) -> Done {
        self.done(Step::SetScope { buffer: buffer.clone(), scope })
    }

    /// Keeps the stride of dimension `axis` of an intermediate buffer `offset` elements above a multiple
    /// of `factor`, once lowering has shrunk the buffer.
    pub fn storage_align(&mut self, buffer: &Name, axis: usize, factor: i64, offset: i64) -> Done {
        self.done(Step::StorageAlign { buffer: buffer.clone(), axis, factor, offset })
    }

    /// Makes a reduction loop spatial: partial results per iteration in a buffer with one more
    /// dimension at `axis`, then a reduction over them. Returns the block of partial results.
    pub fn rfactor(&mut self, at: &Name, axis: usize) -> Result<Name, ScheduleError> {
        self.one(Step::Rfactor { at: at.clone(), axis })
    }

    /// Moves the init of a reduction into a block of its own, before loop `at`; returns it.
    pub fn decompose_reduction(&mut self, block: &Name, at: &Name) -> Result<Name, ScheduleError> {
        self.one(Step::DecomposeReduction { block: block.clone(), at: at.clone() })
    }

    /// Puts the second of two independent reductions over the same loops into the first, so that they
    /// are one block with several accumulators.
    pub fn merge_reductions(&mut self, first: &Name, second: &Name) -> Done {
        self.done(Step::MergeReductions { first: first.clone(), second: second.clone() })
    }

    /// Puts a maximum and a sum of exponentials relative to it, or a sum and the squares around its mean, into
    /// one pass, in steps counted by loop `at` of the first; returns the blocks of a step's elements, of its
    /// two results, of the state, and for the squares of a step's count.
    pub fn online_reductions(&mut self, first: &Name, second: &Name, at: &Name) -> Result<Vec<Name>, ScheduleError> {
        self.apply(Step::OnlineReductions { first: first.clone(), second: second.clone(), at: at.clone() })
    }

    /// Rebuilds a block over new iterators, each a row-major group of old ones, with one loop per
    /// iterator. An empty group is an iterator of extent 1.
    pub fn transform_block_layout(&mut self, block: &Name, map: &[Vec<Name>]) -> Done {
        self.done(Step::TransformBlockLayout { block: block.clone(), map: map.to_vec() })
    }

    /// Stages an operand of a sum of products at the block's iterators themselves, each group of them one
    /// dimension; returns the staging block.
    pub fn reindex(&mut self, block: &Name, operand: Operand, map: &[Vec<Name>]) -> Result<Name, ScheduleError> {
        self.one(Step::Reindex { block: block.clone(), operand, map: map.to_vec() })
    }

    /// Rounds the iterators of a sum of products over staged operands up to multiples.
    pub fn pad_einsum(&mut self, block: &Name, multiples: &[i64]) -> Done {
        self.done(Step::PadEinsum { block: block.clone(), multiples: multiples.to_vec() })
    }

    /// Puts a loop of extent 1 around a loop or a block; returns it.
    pub fn add_unit_loop(&mut self, at: &Name) -> Result<Name, ScheduleError> {
        self.one(Step::AddUnitLoop { at: at.clone() })
    }

    /// Makes the nest under a loop, which holds one block, a block that holds that one; returns it.
    pub fn blockize(&mut self, at: &Name) -> Result<Name, ScheduleError> {
        self.one(Step::Blockize { at: at.clone() })
    }

    /// Puts the elements of an intermediate buffer where an affine map takes their indices.
    pub fn transform_layout(&mut self, buffer: &Name, map: IndexMap) -> Done {
        self.done(Step::TransformLayout { buffer: buffer.clone(), map })
    }

    /// Makes an intermediate buffer one-dimensional, in row-major order.
    pub fn flatten_buffer(&mut self, buffer: &Name) -> Done {
        self.done(Step::FlattenBuffer { buffer: buffer.clone() })
    }

    /// Writes what `block` makes to a buffer over its own iterators first; returns the block that
    /// copies it to where it belongs.
    pub fn stage_write(&mut self, block: &Name, scope: Scope) -> Result<Name, ScheduleError> {
        self.one(Step::StageWrite { block: block.clone(), scope })
    }

    /// Rewrites arithmetic of a block into a form that is cheaper and rounds otherwise: `reciprocal` or `exp2`.
    pub fn relax_arithmetic(&mut self, block: &Name, way: &str) -> Done {
        self.done(Step::RelaxArithmetic { block: block.clone(), way: way.to_string() })
    }

    /// Computes once what several blocks compute alike: the loads of one element of `buffer`, or their
    /// largest common value. Returns the block that does.
    pub fn share(&mut self, blocks: &[Name], buffer: Option<&Name>, scope: Scope) -> Result<Name, ScheduleError> {
        self.one(Step::Share { blocks: blocks.to_vec(), buffer: buffer.cloned(), scope })
    }

    fn done(&mut self, step: Step) -> Done {
        self.apply(step).map(|_| ())
    }

    fn one(&mut self, step: Step) -> Result<Name, ScheduleError> {
        self.apply(step).map(|names| names.into_iter().next().expect("this primitive returns the name that it made"))
    }
}
