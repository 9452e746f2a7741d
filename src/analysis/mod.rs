//! What can be known about a function without running it: ranges and simplified index
//! expressions, normal form, facts about its blocks, its work, and whether it is taken at all.

// A path begins with a module of `daylight` everywhere, in that module too.
extern crate self as analysis;

use daylight_ir as ir;

mod access;
mod apart;
mod arg;
mod arith;
mod blocked;
mod combiner;
mod decline;
mod facts;
mod groups;
mod logic;
mod normalize;
mod order;
mod own_loops;
mod plain;
mod program;
mod reducer;
mod refuse;
mod resize;
mod roles;
mod serial;
mod sound;
mod traffic;
mod walk;
mod work;

pub use access::{Access, index_text};
pub use arg::{ArgReducer, Slot};
pub use arith::affine::{Affine, Term, affine, coeff_of, linear};
pub use arith::bounds::interval;
pub use arith::factors::{factors, has_values_of, narrow, source_of, with_factor};
pub use arith::interval::Interval;
pub use arith::modular::multiple_of;
pub use arith::poly::gcd;
pub use arith::ranges::Ranges;
pub use arith::simplify::{bounds, prove, simplify};
pub use blocked::Blocked;
pub use combiner::{Combiner, Reducer, accumulator};
pub use decline::Decline;
pub use facts::{BlockFacts, Facts};
pub use logic::extrema;
pub use normalize::normalize;
pub use order::{cmp_exprs, cmp_names};
pub use plain::{assign, decide, fission, plain_views, unnest, without_empty};
pub use program::program_roles;
pub use refuse::{refusals, refuse};
pub use resize::shrink::shrink;
pub use resize::{Awkward, resize};
pub use roles::roles;
pub use serial::serial;
pub use sound::{IndexedBy, answered_for, indexed_by, unstarted};
pub use work::{Work, work};
