//! What can be known about a function without running it: ranges and simplified index
//! expressions, normal form, facts about its blocks, its work, and whether it is taken at all.

mod access;
mod affine;
mod apart;
mod bounds;
mod combine;
mod compare;
mod decline;
mod divmod;
mod facts;
mod fold;
mod interval;
mod modular;
mod normalize;
mod order;
mod poly;
mod program;
mod ranges;
mod reducer;
mod refuse;
mod resize;
mod roles;
mod shrink;
mod simplify;
mod traffic;
mod twin;
mod walk;
mod work;

pub use access::{Access, index_text};
pub use affine::{Affine, Term, affine, coeff_of, linear};
pub use bounds::{bounds, interval};
pub use decline::Decline;
pub use facts::{BlockFacts, Facts};
pub use interval::Interval;
pub use modular::multiple_of;
pub use normalize::normalize;
pub use order::{cmp_exprs, cmp_names};
pub use program::program_roles;
pub use ranges::Ranges;
pub use reducer::{Combiner, Reducer, accumulator};
pub use refuse::{refusals, refuse};
pub use resize::{Awkward, resize};
pub use roles::{ParamRole, roles};
pub use shrink::shrink;
pub use simplify::{prove, simplify};
pub use work::{Work, work};
