//! Tile primitives: the dispatch table. Schedules and tile programs say what happens inside a tile;
//! the variants here say how, each under named predicates.
//!
//! For every operation there is a table of variants. All predicates of all variants are evaluated,
//! so that a refusal can be explained whole; of the variants that accept, the one of highest priority
//! carries out the call (at equal priority the first by name), unless the call forces one by name.
//! A variant that has accepted cannot fail: predicates hand on what they found, and a plan made of that
//! emits.
//!
//! To add a variant: one file, one line in the table of its folder, one case in `tests/tile` that
//! chooses it and one per predicate that declines.

// A path begins with a module of `daylight` everywhere, in that module too.
extern crate self as tile;

use daylight_analysis as analysis;
use daylight_ir as ir;
use daylight_target as target;

mod copy;
mod copy_async;
mod cx;
mod decision;
mod dispatch;
mod elementwise;
mod gemm;
mod loops;
mod part;
mod permute_layout;
mod predicates;
mod reduction;
mod replicas;
mod sync;
mod view;

pub use cx::{Active, Cx, Emit, WARP, WARPGROUP};
pub use decision::{Decision, NoVariant, Refusals, Verdict};
pub use dispatch::{decide, dispatch};
pub use gemm::without_nans;
pub use part::{Part, Places};
pub use replicas::stores_replicas;
pub use view::View;

use crate::ir::device::DStmt;
use crate::ir::{TileCall, TileOp};

/// What carries out a call that a variant accepted, made of all that its predicates found: the
/// statements, over flat element indices. Cannot fail.
pub type Plan = Box<dyn FnOnce(&mut Emit) -> Vec<DStmt>>;

/// One way to carry out a tile call.
pub struct Variant {
    /// The name that texts and logs carry.
    pub name: &'static str,
    /// The operations that it carries out.
    pub ops: &'static [TileOp],
    /// Higher is tried first.
    pub priority: i32,
    /// It is only taken where a call forces it by name.
    pub only_forced: bool,
    /// Asks all predicates, whatever the others say, and always in the same order. `None` only where one
    /// of them refuses.
    pub plan: fn(&TileCall, &Cx, &mut Refusals) -> Option<Plan>,
}

/// Every variant, by operation family.
static TABLES: &[&[Variant]] =
    &[copy::TABLE, copy_async::TABLE, permute_layout::TABLE, reduction::TABLE, elementwise::TABLE, gemm::TABLE];

/// The variants of an operation, in the order in which they are tried.
pub fn variants(op: TileOp) -> Vec<&'static Variant> {
    let mut all: Vec<&Variant> = TABLES.iter().flat_map(|t| t.iter()).filter(|v| v.ops.contains(&op)).collect();
    all.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.name.cmp(b.name)));
    all
}

/// Every variant of every operation, for listings and tests.
pub fn all_variants() -> impl Iterator<Item = &'static Variant> {
    TABLES.iter().flat_map(|t| t.iter())
}
