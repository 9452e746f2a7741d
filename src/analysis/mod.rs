//! What can be known about a function without running it: ranges and simplified index
//! expressions, normal form, facts about its blocks, its work, and whether it is taken at all.

mod access;
mod apart;
mod arg;
mod arith;
mod combiner;
mod decline;
mod facts;
mod groups;
mod logic;
mod normalize;
mod one_step;
mod order;
mod program;
mod reducer;
mod refuse;
mod resize;
mod roles;
mod sound;
mod traffic;
mod unnest;
mod walk;
mod work;

pub use access::{Access, index_text};
pub use arg::{ArgReducer, Slot};
pub use arith::affine::{Affine, Term, affine, coeff_of, linear};
pub use arith::bounds::interval;
pub use arith::factors::{factors, narrow, with_factor};
pub use arith::interval::Interval;
pub use arith::modular::multiple_of;
pub use arith::ranges::Ranges;
pub use arith::simplify::{bounds, prove, simplify};
pub use combiner::{Combiner, Reducer, accumulator};
pub use decline::Decline;
pub use facts::{BlockFacts, Facts};
pub use logic::extrema;
pub use normalize::normalize;
pub use one_step::assign;
pub use order::{cmp_exprs, cmp_names};
pub use program::program_roles;
pub use refuse::{refusals, refuse};
pub use resize::shrink::shrink;
pub use resize::{Awkward, resize};
pub use roles::roles;
pub use unnest::unnest;
pub use work::{Work, work};
