//! The table of schedule primitives, one row each: the case of [`Step`], the file that does it, its
//! operands, and what it makes. The enum, its text in both directions, the call of the primitive and the
//! method of [`Schedule`] follow from the row; how an operand is written follows from its type (`field`).

use super::field::{self, Field};
use super::primitive::cache::reindex::Operand;
use super::primitive::{cache, compute, layout, loops, reduction};
use super::{Draft, Failure, Schedule, ScheduleError};
use crate::ir::text::{self, Arg};
use crate::ir::{AttrValue, DType, Expr, Name, Scope, ThreadTag};
use std::fmt;
use std::str::FromStr;

/// How a method of [`Schedule`] takes an operand of that type; after `->`, what it returns.
#[rustfmt::skip]
macro_rules! given {
    (Name) => { &Name };
    (String) => { &str };
    (Vec<$item:ty>) => { &[$item] };
    (->) => { () };
    (-> $made:ty) => { $made };
    ($other:ty) => { $other };
}

macro_rules! steps {
    ($($(#[$doc:meta])*
    $case:ident = $group:ident::$name:ident($($operand:ident: $kind:ident $(<$of:ty>)?),*) $(-> $made:ty)?;)*) => {
        /// One step of a schedule. The text form is what traces and logs hold: `split(i1, [None, 4])`.
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs)]
        pub enum Step {
            $($(#[$doc])* $case { $($operand: $kind $(<$of>)?),* },)*
        }

        impl Step {
            /// The names of all primitives, as in the text form.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// Name of the primitive, as in the text form.
            pub fn name(&self) -> &'static str {
                match self { $(Step::$case { .. } => stringify!($name),)* }
            }

            /// The operands, as in the text form.
            fn operands(&self) -> Vec<String> {
                match self { $(Step::$case { $($operand),* } => vec![$($operand.print()),*],)* }
            }

            /// The step of that name and those arguments.
            fn read(name: &str, args: Vec<Arg>) -> Result<Step, String> {
                let count = args.len();
                match name {
                    $(stringify!($name) => {
                        let lists = [$(<$kind $(<$of>)? as Field>::LIST),*];
                        if let Some([$($operand),*]) = field::operands(args, lists) {
                            return Ok(Step::$case { $($operand: Field::read(&$operand)?),* });
                        }
                    })*
                    _ => {}
                }
                Err(format!("no step is called {name} with {count} arguments"))
            }

            /// Does the step on the draft and returns the names that it made.
            pub(super) fn run(&self, d: &mut Draft) -> Result<Vec<Name>, Failure> {
                match self {
                    $(Step::$case { $($operand),* } => $group::$name::apply(d, $($operand),*).map(Made::names),)*
                }
            }
        }

        /// The primitives, one method each.
        impl Schedule {
            $($(#[$doc])*
            pub fn $name(
                &mut self, $($operand: given!($kind $(<$of>)?)),*
            ) -> Result<given!(-> $($made)?), ScheduleError> {
                self.apply(Step::$case { $($operand: $operand.into()),* }).map(Made::from_names)
            })*
        }
    };
}

steps! {
    /// Splits a loop into one loop per factor, outermost first; one factor may be `None`, which
    /// is then the extent over the product of the others, rounded up: `split(i1, [None, 4])`.
    Split = loops::split(at: Name, factors: Vec<Option<i64>>) -> Vec<Name>;
    /// Fuses loops, outermost first, each the only statement in the one before: `fuse(i0, i1)`.
    Fuse = loops::fuse(loops: Vec<Name>) -> Name;
    /// Puts loops of one nest into the given order; loops that are not named keep their places: `reorder(i1, i0)`.
    Reorder = loops::reorder(loops: Vec<Name>);
    /// Puts the body of the second loop into the first, which runs as often: `merge_loops(i0, i2)`.
    MergeLoops = loops::merge_loops(first: Name, second: Name);
    /// Binds a loop to a hardware axis: `bind(i0, blockIdx.x)`.
    Bind = loops::bind(at: Name, tag: ThreadTag);
    /// Runs the iterations of a loop on several cores: `parallel(i0)`.
    Parallel = loops::parallel(at: Name);
    /// Runs the iterations of a loop as lanes of a vector: `vectorize(i0)`.
    Vectorize = loops::vectorize(at: Name);
    /// Repeats the body of a loop in the code: `unroll(i0)`.
    Unroll = loops::unroll(at: Name);
    /// Attaches `key = value` to a loop or a block, or changes the value: `annotate(i0, "min_blocks", 4)`.
    Annotate = loops::annotate(at: Name, key: String, value: AttrValue);
    /// Counts a loop along a tensor from the last element before it at which `lanes` of its elements are aligned:
    /// `align_loop(i1, p0, 8)`.
    AlignLoop = loops::align_loop(at: Name, buffer: Name, lanes: i64);
    /// Puts a loop of extent 1 around a loop or a block and returns it: `add_unit_loop(b0)`.
    AddUnitLoop = loops::add_unit_loop(at: Name) -> Name;
    /// Computes once what several blocks compute alike: the loads of one element of `buffer`, or with `None`
    /// their largest common value. Returns the block that does: `share([b0, b1], p0, "local")`.
    Share = loops::share(blocks: Vec<Name>, buffer: Option<Name>, scope: Scope) -> Name;
    /// Computes once what several blocks make of elements of these buffers, the largest such value. Returns the block that
    /// does: `share_value([b0, b1], [p0, p1], "local")`.
    ShareValue = loops::share_value(blocks: Vec<Name>, buffers: Vec<Name>, scope: Scope) -> Name;
    /// Computes an element-wise block where its result is read: `compute_inline(b0)`.
    ComputeInline = compute::compute_inline(block: Name);
    /// Computes an element-wise block where its only input is produced: `reverse_compute_inline(b1)`.
    ReverseComputeInline = compute::reverse_compute_inline(block: Name);
    /// Moves a producer under a loop of its consumers, computing what is needed there: `compute_at(b0, i1)`.
    ComputeAt = compute::compute_at(block: Name, at: Name);
    /// Moves a consumer under a loop of its producers, consuming what is made there: `reverse_compute_at(b1, i0)`.
    ReverseComputeAt = compute::reverse_compute_at(block: Name, at: Name);
    /// Keeps values of a block in float32 that the function says are float16 or bfloat16: those inside its expressions,
    /// and its results where they are in registers or shared memory: `keep_float32(b0)`.
    KeepFloat32 = compute::keep_float32(block: Name);
    /// Stages what `block` reads of `buffer` in `scope`; returns the copying block: `cache_read(b0, p0, "shared")`.
    CacheRead = cache::cache_read(block: Name, buffer: Name, scope: Scope) -> Name;
    /// Stages what `block` writes to `buffer` in `scope`; returns the copying block: `cache_write(b0, p1, "local")`.
    CacheWrite = cache::cache_write(block: Name, buffer: Name, scope: Scope) -> Name;
    /// Stages an operand of a sum of products at the block's iterators themselves, each group of them one
    /// dimension (row-major); returns the staging block: `reindex(b0, "left", [[v0], [v1, v2]])`.
    Reindex = cache::reindex(block: Name, operand: Operand, map: Vec<Vec<Name>>) -> Name;
    /// Writes what `block` makes to a buffer over its own iterators first; returns the block that
    /// copies it to where it belongs: `stage_write(b0, "local")`.
    StageWrite = cache::stage_write(block: Name, scope: Scope) -> Name;
    /// Gives an intermediate buffer another type, in which what is stored there is exact: `set_dtype(t0, "float16")`.
    SetDtype = layout::set_dtype(buffer: Name, dtype: DType);
    /// Moves an intermediate buffer to another memory scope: `set_scope(t0, "local")`.
    SetScope = layout::set_scope(buffer: Name, scope: Scope);
    /// Keeps the stride of dimension `axis` of an intermediate buffer `offset` elements above a multiple
    /// of `factor`, once lowering has shrunk the buffer: `storage_align(t0, 0, 32, 1)`.
    StorageAlign = layout::storage_align(buffer: Name, axis: usize, factor: i64, offset: i64);
    /// Rebuilds a block over new iterators, each a row-major group of old ones, with one loop per iterator.
    /// An empty group is an iterator of extent 1, and unit iterators may be left out:
    /// `transform_block_layout(b0, [[v0, v2], [], [v1]])`.
    TransformBlockLayout = layout::transform_block_layout(block: Name, map: Vec<Vec<Name>>);
    /// Puts the elements of an intermediate buffer where an affine map takes their indices: one name for each
    /// old index, and an expression over these, of type `int32` whatever the type of the indices is, for each
    /// new one: `transform_layout(t0, [i, j], [j, i // 4, i % 4])`.
    TransformLayout = layout::transform_layout(buffer: Name, from: Vec<Name>, to: Vec<Expr>);
    /// Makes an intermediate buffer one-dimensional, in row-major order: `flatten_buffer(t0)`.
    FlattenBuffer = layout::flatten_buffer(buffer: Name);
    /// Makes the nest under a loop, which holds one block, a block that holds that one; returns it: `blockize(i1)`.
    Blockize = layout::blockize(at: Name) -> Name;
    /// Makes a reduction loop spatial: partial results per iteration in a buffer with one more dimension at
    /// `axis`, then a reduction over them. Returns the block of partial results: `rfactor(i1_1, 0)`.
    Rfactor = reduction::rfactor(at: Name, axis: usize) -> Name;
    /// Moves the init of a reduction into a block of its own, before loop `at`; returns it:
    /// `decompose_reduction(b0, i1_0)`.
    DecomposeReduction = reduction::decompose_reduction(block: Name, at: Name) -> Name;
    /// Puts the second of two independent reductions over the same loops into the first, so that they
    /// are one block with several accumulators: `merge_reductions(b0, b1)`.
    MergeReductions = reduction::merge_reductions(first: Name, second: Name);
    /// Computes a block anew for each tile of an axis of its readers: `along` names the iterator of each, `sizes` the
    /// tile's, outermost first; returns the loops over tiles and all sizes but the last: `replicate(b0, [v3], [4, 2])`.
    Replicate = reduction::replicate(block: Name, along: Vec<Name>, sizes: Vec<i64>) -> Vec<Name>;
    /// Puts a maximum and a sum of exponentials relative to it, or a sum and the squares around its mean, into
    /// one pass, in steps counted by loop `at` of the first; returns the blocks of a step's elements, of its
    /// two results, of the state, and for the squares of a step's count: `online_reductions(b0, b1, i1_0)`.
    OnlineReductions = reduction::online_reductions(first: Name, second: Name, at: Name) -> Vec<Name>;
    /// Rounds the iterators of a sum of products over staged operands up to multiples, one for each iterator:
    /// `pad_einsum(b0, [1, 128, 128, 8])`.
    PadEinsum = reduction::pad_einsum(block: Name, multiples: Vec<i64>);
    /// Rewrites arithmetic of a block into a form that is cheaper and rounds otherwise, `reciprocal` or `exp2`:
    /// `relax_arithmetic(b0, "reciprocal")`.
    RelaxArithmetic = reduction::relax_arithmetic(block: Name, way: String);
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), field::joined(&self.operands()))
    }
}

impl FromStr for Step {
    type Err = String;

    /// Reads one line such as `split(i1, [None, 4])`.
    fn from_str(text: &str) -> Result<Step, String> {
        let (name, args) = text::call(text)?;
        Step::read(&name, args).map_err(|why| format!("cannot read step \"{text}\": {why}"))
    }
}

/// What a primitive makes: nothing, a loop or a block, or several.
trait Made {
    fn names(self) -> Vec<Name>;
    fn from_names(names: Vec<Name>) -> Self;
}

impl Made for () {
    fn names(self) -> Vec<Name> {
        vec![]
    }
    fn from_names(_: Vec<Name>) {}
}

impl Made for Name {
    fn names(self) -> Vec<Name> {
        vec![self]
    }
    fn from_names(names: Vec<Name>) -> Name {
        names.into_iter().next().expect("this primitive returns the name that it made")
    }
}

impl Made for Vec<Name> {
    fn names(self) -> Vec<Name> {
        self
    }
    fn from_names(names: Vec<Name>) -> Vec<Name> {
        names
    }
}
