//! What can be known about a function without running it: ranges and simplified index
//! expressions, normal form, facts about its blocks, its work, and whether it is taken at all.

mod affine;
mod bounds;
mod combine;
mod compare;
mod divmod;
mod fold;
mod interval;
mod modular;
mod order;
mod poly;
mod ranges;
mod simplify;

pub use affine::{Affine, Term, affine, coeff_of, linear};
pub use bounds::{bounds, interval};
pub use interval::Interval;
pub use modular::multiple_of;
pub use order::{cmp_exprs, cmp_names};
pub use ranges::Ranges;
pub use simplify::{prove, simplify};
