//! Arithmetic on index expressions: polynomials, intervals, congruences, and what follows from them.

pub mod affine;
pub mod bounds;
pub mod combine;
pub mod compare;
pub mod divmod;
pub mod enter;
pub mod factors;
pub mod fold;
pub mod interval;
pub mod modular;
pub mod poly;
pub mod ranges;
pub mod sign;
pub mod simplify;
