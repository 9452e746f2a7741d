//! The tensors that a function writes, and places in them.

use crate::analysis::roles;
use crate::ir::{DType, Name, Param, PrimFunc, Role};

/// A tensor that the function writes.
pub(super) struct Output {
    pub param: usize,
    pub tensor: usize,
    pub name: Name,
    pub dtype: DType,
    /// It is read before it is written, so that what is not stored to is what it was.
    pub kept: bool,
}

/// The tensors that the function writes.
pub(super) fn outputs(func: &PrimFunc) -> Vec<Output> {
    let roles = roles(func);
    let tensors = func.params.iter().enumerate().filter_map(|(i, p)| match p {
        Param::Buffer(b) => Some((i, b)),
        Param::Scalar { .. } => None,
    });
    let written = tensors.enumerate().filter(|(_, (i, _))| matches!(roles[*i], Role::Out | Role::Inout));
    let output = |(tensor, (param, b)): (usize, (usize, &Name))| Output {
        param,
        tensor,
        name: b.clone(),
        dtype: func.buffer(b).dtype,
        kept: roles[param] == Role::Inout,
    };
    written.map(output).collect()
}

/// The indices of a flat element.
pub(super) fn place(flat: u64, shape: &[i64]) -> Vec<i64> {
    let mut left = flat as i64;
    let digit = |n: &i64| {
        let digit = left % n;
        left /= n;
        digit
    };
    let mut out: Vec<i64> = shape.iter().rev().map(digit).collect();
    out.reverse();
    out
}
