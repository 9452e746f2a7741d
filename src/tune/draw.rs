//! What a function is run on: inputs drawn by seed, as the runner draws them, scalars, zeroed outputs.

use super::special::Special;
use crate::analysis::roles;
use crate::interp::{Scalar, Scalars, Tensor};
use crate::ir::{DType, Expr, ExprKind, Name, Param, PrimFunc, Role};
use crate::measure::inputs;
use std::collections::BTreeMap;

/// Values of a function's inputs that are not drawn at random over their whole type.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Given {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Scalar parameters and extents, by canonical name; the others are drawn.
    pub scalars: BTreeMap<Name, f64>,
    /// Lowest and highest value of tensors that index others, by position.
    pub ranges: BTreeMap<usize, (i64, i64)>,
    /// How often floats that index nothing are halved, so that results are finite.
    pub halvings: u32,
    /// Some elements are NaNs, infinities, ties and the ends of integers, where these have a meaning.
    pub special: bool,
}

/// Arguments of a run.
pub struct Inputs {
    /// One tensor per buffer parameter: seeded inputs, zeroed outputs.
    pub tensors: Vec<Tensor>,
    /// Values of the scalar parameters.
    pub scalars: Scalars,
    /// Parameters that are read and written.
    pub inout: Vec<Name>,
}

/// The arguments that a bound function is checked with; `wide`: float outputs in `float64`.
///
/// # Errors
/// A sentence, when an extent has no value.
pub fn inputs(func: &PrimFunc, given: &Given, wide: bool) -> Result<Inputs, String> {
    inputs_as(func, &roles(func), given, wide)
}

/// The same for parameters whose roles are known.
///
/// # Errors
/// As [`inputs()`].
pub fn inputs_as(func: &PrimFunc, roles: &[Role], given: &Given, wide: bool) -> Result<Inputs, String> {
    let inout = func.params.iter().zip(roles).filter_map(|(p, r)| match p {
        Param::Buffer(b) if *r == Role::Inout => Some(b.clone()),
        Param::Buffer(_) | Param::Scalar { .. } => None,
    });
    let inout = inout.collect();
    Ok(Inputs { tensors: arguments(func, roles, given, wide)?, scalars: scalars(func, given), inout })
}

/// Seeded inputs and zeroed outputs.
fn arguments(func: &PrimFunc, roles: &[Role], given: &Given, wide: bool) -> Result<Vec<Tensor>, String> {
    let mut out = vec![];
    let special = given.special.then(|| Special::of(func));
    for (i, p) in func.params.iter().enumerate() {
        let Param::Buffer(b) = p else { continue };
        let buffer = func.buffer(b);
        let shape: Option<Vec<i64>> = buffer.shape.iter().map(Expr::as_int).collect();
        let shape = shape.ok_or_else(|| format!("`{}` has an extent without a value", func.display_name(b)))?;
        let len = shape.iter().product::<i64>().max(0) as usize;
        out.push(if roles[i] == Role::Out {
            let dtype = if wide && buffer.dtype.is_float() { DType::F64 } else { buffer.dtype };
            Tensor::zeros(dtype, &shape)
        } else {
            let range = given.ranges.get(&i).copied();
            let mut data = inputs::tensor(buffer.dtype, len, given.seed, i, range);
            if range.is_none() {
                inputs::halve(buffer.dtype, &mut data, given.halvings);
            }
            let mut tensor = Tensor { dtype: buffer.dtype, shape, data };
            if let (Some(special), None) = (&special, range) {
                special.sprinkle(&mut tensor);
            }
            tensor
        });
    }
    Ok(out)
}

/// Every scalar parameter's value, drawn as the runner draws it where it is not given.
fn scalars(func: &PrimFunc, given: &Given) -> Scalars {
    let drawn = func.params.iter().enumerate().filter_map(|(i, p)| match p {
        Param::Buffer(_) => None,
        Param::Scalar { name, dtype } => {
            let value = given.scalars.get(name).copied();
            let value = value.unwrap_or_else(|| inputs::scalar(*dtype, given.seed, i));
            Some((name.clone(), if dtype.is_float() { Scalar::Float(value) } else { Scalar::Int(value as i64) }))
        }
    });
    drawn.collect()
}

/// Ranges of the tensors that are used as indices, floats by way of a cast, by position: what they index bounds them.
pub fn index_ranges(func: &PrimFunc) -> BTreeMap<usize, (i64, i64)> {
    let mut ranges: BTreeMap<usize, (i64, i64)> = BTreeMap::new();
    let mut look = |e: &Expr| {
        e.visit(&mut |e| {
            let ExprKind::Load { buffer, indices, .. } = e.kind() else { return };
            let Some(table) = func.find_buffer(buffer) else { return };
            for (index, extent) in indices.iter().zip(&table.shape) {
                let Some(extent) = extent.as_int() else { continue };
                index.visit(&mut |inner| {
                    if let ExprKind::Load { buffer: b, .. } = inner.kind()
                        && let Some(at) = func.params.iter().position(|p| matches!(p, Param::Buffer(p) if p == b))
                    {
                        let range = ranges.entry(at).or_insert((0, extent - 1));
                        range.1 = range.1.min(extent - 1);
                    }
                });
            }
        });
    };
    func.visit(&mut |s| s.for_each_expr(&mut look));
    ranges
}
