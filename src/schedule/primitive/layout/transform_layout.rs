//! Puts the elements of an intermediate buffer elsewhere: an affine map takes old indices to new ones.
//!
//! ```text
//! b0: t0[v0, v1] = ...                                    b0: t0[v1, v0 // 4, v0 % 4] = ...
//! b1: ... = t0[v2, v3] + 1                         ->     b1: ... = t0[v3, v2 // 4, v2 % 4] + 1
//!                  transform_layout(t0, [i, j], [j, i // 4, i % 4])
//! ```
//!
//! Preconditions: `buffer_exists`; `not_parameter`: the shape of a parameter is the caller's; `no_alias`: no
//! block views a part of it under another name or hands it to a call; `plain_layout`: it has no strides,
//! offset or layout of its own; `not_placed`: no block asks for its strides or for a swizzle, which name
//! dimensions; `one_name_each`: the map has a name for each index; `affine_map`: new indices are sums of
//! these, their multiples, quotients and remainders by constants; `bijective`: the new indices tell the
//! old ones; `exact`: every place of the new shape gets an element. A map that would need padding is
//! refused, as nobody would write what is there.
//!
//! Effect: the new shape is what the map makes of the ranges of the old indices; every load and store of
//! the buffer is at its new indices, simplified. Loops stay as they are (`transform_block_layout`).

use crate::analysis::{Ranges, simplify};
use crate::ir::{BinOp, Block, DType, Expr, ExprKind, Mark, Name};
use crate::schedule::field::Field;
use crate::schedule::help::span::{Running, Span, cast, span_of};
use crate::schedule::help::{injective, query, relayout, scope};
use crate::schedule::{Draft, Failure};
use std::collections::BTreeSet;

pub fn apply(d: &mut Draft, buffer: &Name, from: &[Name], to: &[Expr]) -> Result<(), Failure> {
    let map = IndexMap { from, to };
    let shape = relayout::movable(d, buffer)?.shape;
    not_placed(d, buffer)?;
    map.check_form(buffer, shape.len())?;
    let ranges = scope::everywhere(&d.func);
    let new = map.image(buffer, &shape, &ranges)?;
    relayout::rewrite(d, buffer, new, &|indices| map.at(indices, &ranges));
    Ok(())
}

/// Fails where a writer of the buffer says how its dimensions lie in memory.
fn not_placed(d: &Draft, buffer: &Name) -> Result<(), Failure> {
    let placed = |b: &&Block| Mark::all(&b.attrs).any(|m| matches!(m, Mark::DimAlign(_) | Mark::Swizzle(_)));
    query::writers(&d.func, buffer).into_iter().find(placed).map_or(Ok(()), |b| {
        let why = format!("it says how dimensions of `{buffer}` lie in memory; take this step before that one");
        Err(Failure::new("not_placed", &b.name, why))
    })
}

/// What becomes of the indices of an element.
struct IndexMap<'s> {
    /// One name for each old index; they mean nothing outside of the map.
    from: &'s [Name],
    /// One expression for each new index, over these names, of type `int32` whatever the type of the
    /// indices is: sums, products with constants, `//` and `%` by positive constants.
    to: &'s [Expr],
}

impl IndexMap<'_> {
    /// Fails with `one_name_each` or `affine_map` where this is no map of the indices of a buffer of that
    /// rank.
    fn check_form(&self, buffer: &Name, rank: usize) -> Result<(), Failure> {
        let names: BTreeSet<&Name> = self.from.iter().collect();
        Failure::unless(self.from.len() == rank && names.len() == rank, "one_name_each", buffer, || {
            format!("it has {rank} dimensions; give each a name of its own")
        })?;
        self.to.iter().find(|e| !is_affine(e, &names)).map_or(Ok(()), |e| {
            let why = format!(
                "{} is not made of the names of its indices by `+`, `-`, and `*`, `//`, `%` with positive constants",
                e.print()
            );
            Err(Failure::new("affine_map", buffer, why))
        })
    }

    /// The new indices of the element at `indices`.
    fn at(&self, indices: &[Expr], ranges: &Ranges) -> Vec<Expr> {
        let dtype = relayout::common_dtype(indices);
        let value = |n: &Name| self.from.iter().position(|v| v == n).and_then(|k| indices.get(k));
        self.to.iter().map(|e| simplify(&typed(e, dtype, &value), ranges)).collect()
    }

    /// The shape that the map gives a buffer of shape `old`.
    ///
    /// Fails with `bijective` where two elements may land in one place, and with `exact` where a place of
    /// the new shape may get no element.
    fn image(&self, buffer: &Name, old: &[Expr], ranges: &Ranges) -> Result<Vec<Expr>, Failure> {
        let (mut ranges, mut running) = (ranges.clone(), Running::new());
        let mut indices = vec![];
        for (k, extent) in old.iter().enumerate() {
            // No variable of a function has a name with a blank.
            let var = Name::new(format!("index {k}"));
            ranges.set_span(var.clone(), &Expr::int(0, extent.dtype()), extent);
            running.insert(var.clone(), Span::from_zero(extent));
            indices.push(Expr::var(var, extent.dtype()));
        }
        let new = self.at(&indices, &ranges);
        let told = injective::recovered(&new, &running.keys().cloned().collect(), &ranges);
        let lost =
            indices.iter().zip(old).position(|(e, n)| !n.is_int(1) && e.as_var().is_some_and(|v| !told.contains(v)));
        if let Some(k) = lost {
            let why =
                format!("two elements may get the same indices: `{}` does not follow from the new ones", self.from[k]);
            return Err(Failure::new("bijective", buffer, why));
        }
        let shape: Option<Vec<Expr>> = new.iter().map(|e| extent_from_zero(e, &running, &ranges)).collect();
        let shape = shape.ok_or_else(|| {
            Failure::new("exact", buffer, "a new index does not start at 0, or its range cannot be told")
        })?;
        let exact = same_count(old, &shape, &ranges);
        Failure::unless(exact, "exact", buffer, || {
            let text = |list: &[Expr]| list.iter().map(Expr::to_string).collect::<Vec<_>>().join(", ");
            format!(
                "the new shape ({}) may have places that no element of ({}) goes to; pad the extents first, or choose factors that divide them",
                text(&shape),
                text(old)
            )
        })?;
        Ok(shape)
    }
}

fn is_affine(e: &Expr, names: &BTreeSet<&Name>) -> bool {
    match e.kind() {
        ExprKind::Int { .. } => true,
        ExprKind::Var { name, .. } => names.contains(name),
        ExprKind::Binary { op: BinOp::Add | BinOp::Sub, a, b } => is_affine(a, names) && is_affine(b, names),
        ExprKind::Binary { op: BinOp::Mul | BinOp::FloorDiv | BinOp::FloorMod, a, b } => {
            is_affine(a, names) && b.as_int().is_some_and(|c| c > 0)
        }
        _ => false,
    }
}

/// An expression of a map with values for its names, of type `dtype`.
fn typed<'a>(e: &Expr, dtype: DType, value: &impl Fn(&Name) -> Option<&'a Expr>) -> Expr {
    match e.kind() {
        ExprKind::Int { value: n, .. } => Expr::int(*n, dtype),
        ExprKind::Var { name, .. } => value(name).map_or_else(|| e.clone(), |v| cast(dtype, v)),
        ExprKind::Binary { op, a, b } => Expr::binary(*op, typed(a, dtype, value), typed(b, dtype, value)),
        _ => e.clone(),
    }
}

/// The number of values of an index that starts at 0.
fn extent_from_zero(e: &Expr, running: &Running, ranges: &Ranges) -> Option<Expr> {
    let span = span_of(e, running, ranges)?;
    span.lo.is_int(0).then(|| span.extent(ranges))
}

/// True where both shapes are proven to have as many elements.
fn same_count(a: &[Expr], b: &[Expr], ranges: &Ranges) -> bool {
    let constants = |shape: &[Expr]| shape.iter().try_fold(1i64, |n, e| n.checked_mul(e.as_int()?));
    let product = |shape: &[Expr]| shape.iter().fold(Expr::i64(1), |n, e| n * cast(DType::I64, e));
    match (constants(a), constants(b)) {
        (Some(a), Some(b)) => a == b,
        _ => simplify(&(product(a) - product(b)), ranges).is_int(0),
    }
}
