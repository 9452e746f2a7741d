//! Scales of blocks of numbers, as operands of products.

use super::operands::{Matrix, Product};
use crate::ir::instr::BlockScaleMma;
use crate::ir::{DType, TileArg, TileCall};
use crate::tile::Cx;

/// The named operands that hold scales.
pub(super) const SCALES: [&str; 2] = ["sfa", "sfb"];

/// The scales of A by rows, of B by columns, along K.
///
/// # Errors
/// Where they are no matrices of as many lines, or an operand has none of the names in `known`.
pub(super) fn scales(call: &TileCall, p: &Product, known: &[&str], cx: &Cx) -> Result<[Matrix; 2], String> {
    let of = |side: usize, lines: i64| {
        let name = SCALES[side];
        let Some(TileArg::Tile(tile)) = call.operands.get(name) else {
            return Err(format!("there is no tile `{name}`"));
        };
        let x = Matrix::of(cx, tile, name, false)?;
        match x.rows() == lines && p.k % x.columns() == 0 {
            true => Ok(x),
            false => Err(format!("`{name}` is {} by {}, for {lines} lines of {}", x.rows(), x.columns(), p.k)),
        }
    };
    let other = call.operands.keys().find(|k| !known.contains(&k.as_str()));
    other.map_or(Ok(()), |name| Err(format!("`{name}` is no operand of a product with scales")))?;
    Ok([of(0, p.m)?, of(1, p.n)?])
}

/// The types of a product, and how many scales a row of 32 bytes has.
///
/// # Errors
/// Where no instruction has them.
pub(super) fn instruction(p: &Product, [a, b]: &[Matrix; 2]) -> Result<BlockScaleMma, String> {
    let types = [&p.a, &p.b].map(|x| x.view.dtype);
    let (scale, sum) = (a.view.dtype, p.d.view.dtype);
    let shape = BlockScaleMma::of(types, scale).filter(|_| b.view.dtype == scale && sum == DType::F32);
    let shape = shape.ok_or_else(|| {
        format!(
            "no instruction multiplies {} by {} into {sum} with scales of {scale} and {}",
            types[0], types[1], b.view.dtype
        )
    })?;
    match [a, b].iter().all(|x| x.columns() * BlockScaleMma::row() == p.k * shape.scales()) {
        true => Ok(shape),
        false => Err(format!(
            "{} and {} scales of a line of {} elements, and {} are of {}",
            a.columns(),
            b.columns(),
            p.k,
            shape.scales(),
            BlockScaleMma::row()
        )),
    }
}
