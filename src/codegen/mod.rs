//! Program text: CUDA C++ for GPUs, C for the host. A verified [`Program`](crate::ir::kernel::Program) always has a text, the
//! same one every time, and the text includes nothing: what it needs stands in its own prelude.
//!
//! Values of 16- and 8-bit floats are computed in float32 and rounded once per operation, which is
//! the correctly rounded result. Names are the canonical ones.

// A path begins with a module of `daylight` everywhere, in that module too.
extern crate self as codegen;

use daylight_ir as ir;

mod c;
mod cuda;
mod expr;
mod facts;
mod instr;
mod lanes;
mod math;
mod number;
mod prelude;
mod stmt;
mod stored;
mod stream;
mod text;
mod total;
mod vector;
mod vector_float;
mod vector_math;
mod vector_order;

pub use c::c;
pub use cuda::{cuda, dynamic_shared_bytes};

use crate::ir::DType;

/// The language that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lang {
    Cuda,
    C,
}

/// The type of a stored element.
fn ctype(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::I8 => "signed char",
        DType::I16 => "short",
        DType::I32 => "int",
        DType::I64 => "long long",
        DType::U8 | DType::E4M3 | DType::E5M2 | DType::E8M0 => "unsigned char",
        DType::U16 | DType::F16 | DType::BF16 => "unsigned short",
        DType::U32 => "unsigned",
        DType::U64 | DType::Handle => "unsigned long long",
        DType::F32 => "float",
        DType::F64 => "double",
    }
}

/// The type that values are computed in: `float` for the narrow floats.
fn value_type(dtype: DType) -> &'static str {
    if is_narrow(dtype) { "float" } else { ctype(dtype) }
}

/// True for the floats that are stored as integers and computed in float32.
fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16 | DType::E4M3 | DType::E5M2 | DType::E8M0)
}

/// The type that elements of a vector have in memory.
fn stored_as(dtype: DType) -> DType {
    match dtype {
        DType::Bool | DType::E4M3 | DType::E5M2 | DType::E8M0 => DType::U8,
        DType::F16 | DType::BF16 => DType::U16,
        other => other,
    }
}
