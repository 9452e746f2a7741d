//! What a function is run on: inputs drawn by seed, as the runner draws them, scalars, zeroed outputs.

use super::special::Special;
use crate::analysis::{indexed_by, roles};
use crate::interp::{Scalar, Scalars, Tensor};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name, Param, PrimFunc, Role};
use crate::measure::inputs;
use crate::runner::Range;
use std::collections::BTreeMap;

/// Values of a function's inputs that are not drawn at random over their whole type.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Given {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Scalar parameters and extents, by canonical name; the others are drawn.
    pub scalars: BTreeMap<Name, f64>,
    /// Values of tensors that index others, by position.
    pub ranges: BTreeMap<usize, Range>,
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
        let dtype = if wide && buffer.dtype.is_float() { DType::F64 } else { buffer.dtype };
        room_for(len, dtype).map_err(|bytes| {
            let (name, gib) = (func.display_name(b), bytes >> 30);
            format!("`{name}` needs {gib} GiB, more than this machine has left; give smaller sizes, with --bind where they are symbolic")
        })?;
        out.push(if roles[i] == Role::Out {
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

/// Fails, with the number of bytes, where there is no memory for a tensor.
fn room_for(len: usize, dtype: DType) -> Result<(), u64> {
    let bytes = len as u64 * dtype.bytes();
    let len = usize::try_from(bytes).map_err(|_| bytes)?;
    Vec::<u8>::new().try_reserve_exact(len).map_err(|_| bytes)
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
pub fn index_ranges(func: &PrimFunc) -> BTreeMap<usize, Range> {
    let mut ranges: BTreeMap<usize, Range> = BTreeMap::new();
    let all = indexed_by(func);
    for index in &all {
        let param = func.params.iter().position(|p| matches!(p, Param::Buffer(p) if *p == index.tensor));
        let Some((at, extent)) = param.zip(index.extent) else { continue };
        let range = ranges.entry(at).or_insert_with(|| Range::new(0, extent - 1));
        range.high = range.high.min(extent - 1);
        if index.is_store {
            let row = func.buffer(&index.tensor).shape.last().and_then(Expr::as_int);
            range.distinct = Some(row.map_or(1, |n| n.max(1) as usize));
        }
        // No access that reads it without a condition may meet it.
        let of_same = || all.iter().filter(|o| o.tensor == index.tensor);
        let outside = index.passed_over.filter(|v| *v < 0 && of_same().all(|o| o.passed_over == index.passed_over));
        range.passed_over = outside;
    }
    for at in scales_of_blocks(func) {
        ranges.entry(at).or_insert_with(|| Range::new(0, 2));
    }
    ranges
}

/// The positions of float8 tensors of which each element is read for several neighbours: scales of blocks, which are not
/// negative, and which instructions take without their sign.
fn scales_of_blocks(func: &PrimFunc) -> Vec<usize> {
    let (mut of_blocks, mut others) = (vec![], vec![]);
    let mut look = |e: &Expr| {
        e.visit(&mut |e| {
            if let ExprKind::Load { buffer, indices, dtype: DType::E4M3 } = e.kind() {
                let per = indices.last().map(|last| match last.kind() {
                    ExprKind::Binary { op: BinOp::FloorDiv, b, .. } => b.as_int().unwrap_or(1),
                    _ => 1,
                });
                if per > Some(1) { &mut of_blocks } else { &mut others }.push(buffer.clone());
            }
        })
    };
    func.visit(&mut |s| s.for_each_expr(&mut look));
    let is_scale = |p: &Param| matches!(p, Param::Buffer(b) if of_blocks.contains(b) && !others.contains(b));
    (0..func.params.len()).filter(|at| is_scale(&func.params[*at])).collect()
}
