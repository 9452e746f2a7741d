//! Reference semantics of functions: an interpreter with exact rounding or in `float64`.
//!
//! A function is compiled to bytecode on two register files (`i64` and `f64`) and run. Integers
//! wrap to their types; `int32` and `int64` index arithmetic is taken not to overflow.

// A path begins with a module of `daylight` everywhere, in that module too.
extern crate self as interp;

use daylight_ir as ir;

mod compile;
mod cost;
mod demand;
mod device;
mod layout;
mod math;
mod op;
mod operators;
mod round;
mod run;
mod sample;
pub mod scalar;
mod stmt;
mod tensor;
mod vm;

pub use cost::scalar_ops;
pub use device::run_device;
pub use layout::{Scalar, Scalars};
pub use math::{binary, erf, unary};
pub use op::InterpError;
pub use round::{float_bits, float_to_int, float_value, int_to_f64, round_to, wrap_int};
pub use run::{run, run_backwards, run_defined};
pub use sample::{can_sample, sample};
pub use tensor::Tensor;

/// How floats are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Every operation is rounded to its dtype, as the function says.
    Exact,
    /// As [`Mode::Exact`], and to read an element of an intermediate buffer that nothing has written
    /// is an error, whether or not the value reaches a result. A plain copy into another intermediate is
    /// none: the copy then counts as not written.
    Checked,
    /// Everything in `float64` without rounding in between: the reference. Constants, and integers
    /// converted to floats, are rounded as the function says; inputs are what they are.
    F64,
}
