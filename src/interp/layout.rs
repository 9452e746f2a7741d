//! The values of symbolic extents, and the shapes of buffers under them.

use super::round::{floor_div, round_to, wrap_int};
use super::{InterpError, Tensor};
use crate::ir::{BinOp, Expr, ExprKind, Name, Param, PrimFunc, UnOp};
use std::collections::BTreeMap;

/// The value of a scalar parameter or extent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// Of an integer or `bool` parameter.
    Int(i64),
    /// Of a float parameter.
    Float(f64),
}

/// Scalar parameters (and extents that no tensor shape gives) by canonical name.
pub type Scalars = BTreeMap<Name, Scalar>;

/// A function with every extent known.
pub(super) struct Layout {
    /// Extents and scalar parameters, rounded to their dtype.
    pub scalars: Scalars,
    /// One shape per buffer of the table.
    pub shapes: Vec<Vec<i64>>,
}

impl Layout {
    /// Reads extents off the shapes of the arguments and checks that everything fits.
    ///
    /// `lacking` says for which buffers a tensor without data will do.
    pub fn of(
        f: &PrimFunc,
        args: &[Tensor],
        scalars: &Scalars,
        lacking: impl Fn(&Name) -> bool,
    ) -> Result<Layout, InterpError> {
        let mut known = scalars.clone();
        if f.buffer_params().count() != args.len() {
            let want = f.buffer_params().count();
            let text = format!("function `{}` takes {want} tensors, not {}", f.name, args.len());
            return Err(InterpError::Arguments(text));
        }
        for (b, arg) in f.buffer_params().zip(args) {
            for (e, n) in b.shape.iter().zip(&arg.shape) {
                if let Some(name) = e.as_var() {
                    known.entry(name.clone()).or_insert(Scalar::Int(*n));
                }
            }
        }
        for p in &f.params {
            if let Param::Scalar { name, dtype } = p {
                let Some(v) = known.get(name) else {
                    let text = format!("scalar parameter `{}` has no value", f.display_name(name));
                    return Err(InterpError::Arguments(text));
                };
                let rounded = match *v {
                    Scalar::Int(v) if dtype.is_float() => Scalar::Float(round_to(v as f64, *dtype)),
                    Scalar::Int(v) => Scalar::Int(wrap_int(v, *dtype)),
                    Scalar::Float(v) if dtype.is_float() => Scalar::Float(round_to(v, *dtype)),
                    Scalar::Float(v) => Scalar::Int(wrap_int(v as i64, *dtype)),
                };
                known.insert(name.clone(), rounded);
            }
        }
        let shape = |b: &crate::ir::Buffer| {
            if !b.strides.is_empty() || b.elem_offset.as_ref().is_some_and(|e| !e.is_int(0)) {
                let text = format!("buffers with strides or an offset (`{}`)", f.display_name(&b.name));
                return Err(InterpError::Unsupported(text));
            }
            b.shape.iter().map(|e| constant(e, &known)).collect::<Result<Vec<_>, _>>()
        };
        let shapes = f.buffers.iter().map(shape).collect::<Result<Vec<_>, _>>()?;
        let layout = Layout { scalars: known, shapes };
        layout.check(f, args, lacking)?;
        Ok(layout)
    }

    fn check(&self, f: &PrimFunc, args: &[Tensor], lacking: impl Fn(&Name) -> bool) -> Result<(), InterpError> {
        for (b, arg) in f.buffer_params().zip(args) {
            let shape = &self.shapes[buffer_index(f, &b.name)];
            let len = shape.iter().product::<i64>().max(0) as usize * arg.dtype.bytes() as usize;
            if *shape != arg.shape || (arg.data.len() != len && !(arg.data.is_empty() && lacking(&b.name))) {
                let name = f.display_name(&b.name);
                let text = format!("tensor `{name}` has shape {:?}, expected {shape:?}", arg.shape);
                return Err(InterpError::Arguments(text));
            }
        }
        Ok(())
    }
}

/// Index of a buffer in the table.
///
/// # Panics
/// If it is not declared, which `verify` rules out.
pub(super) fn buffer_index(f: &PrimFunc, name: &Name) -> usize {
    let at = f.buffers.iter().position(|b| b.name == *name);
    at.unwrap_or_else(|| panic!("buffer `{name}` is not in the table"))
}

/// The value of an extent expression.
pub(super) fn constant(e: &Expr, known: &Scalars) -> Result<i64, InterpError> {
    let unsupported = || InterpError::Unsupported("an extent that is no integer arithmetic over extents".to_string());
    match e.kind() {
        ExprKind::Int { value, .. } => Ok(*value),
        ExprKind::Var { name, .. } => match known.get(name) {
            Some(Scalar::Int(v)) => Ok(*v),
            _ => Err(InterpError::UnknownExtent(name.clone())),
        },
        ExprKind::Cast { arg, .. } => constant(arg, known),
        ExprKind::Unary { op: UnOp::Neg, arg } => Ok(constant(arg, known)?.wrapping_neg()),
        ExprKind::Binary { op, a, b } => {
            let (x, y) = (constant(a, known)?, constant(b, known)?);
            if matches!(op, BinOp::FloorDiv | BinOp::FloorMod) && y == 0 {
                return Err(InterpError::DivisionByZero);
            }
            match op {
                BinOp::Add => Ok(x.wrapping_add(y)),
                BinOp::Sub => Ok(x.wrapping_sub(y)),
                BinOp::Mul => Ok(x.wrapping_mul(y)),
                BinOp::FloorDiv => Ok(floor_div(x, y)),
                BinOp::FloorMod => Ok(x.wrapping_sub(floor_div(x, y).wrapping_mul(y))),
                BinOp::Min => Ok(x.min(y)),
                BinOp::Max => Ok(x.max(y)),
                BinOp::Div
                | BinOp::TruncDiv
                | BinOp::TruncMod
                | BinOp::Eq
                | BinOp::Ne
                | BinOp::Lt
                | BinOp::Le
                | BinOp::Gt
                | BinOp::Ge
                | BinOp::And
                | BinOp::Or
                | BinOp::BitAnd
                | BinOp::BitOr
                | BinOp::BitXor
                | BinOp::Shl
                | BinOp::Shr => Err(unsupported()),
            }
        }
        ExprKind::Unary { .. }
        | ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Load { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => Err(unsupported()),
    }
}
