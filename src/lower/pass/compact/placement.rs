//! Where the elements of a buffer lie once it has shrunk, as the schedule asks for it.
//!
//! Two marks of the block that writes a buffer say so: `buffer_dim_align`, which the primitive
//! `storage_align` leaves (a stride is `offset` more than a multiple of `factor`), and `swizzle` (three
//! numbers of bits, as of a [`Swizzle`]), an xor permutation that keeps shared memory free of bank
//! conflicts. The buffer is lengthened where it has to be for that.
//!
//! before: `shared t[64, 32]`, aligned on its first dimension with factor 32 and offset 1
//! after:  `shared t[64, 32]` with strides `[33, 1]`

use crate::ir::layout::{Swizzle, TileLayout};
use crate::ir::{Block, Buffer, Expr, Mark, Name, PrimFunc, Stmt};
use std::collections::BTreeMap;

/// What a schedule asks of one buffer.
#[derive(Clone, Default, Debug)]
pub struct Placement {
    /// Dimension, factor and offset of each aligned stride.
    aligned: Vec<(usize, i64, i64)>,
    swizzle: Option<Swizzle>,
}

/// What the blocks of a function say of the buffers that they write.
pub fn of_func(func: &PrimFunc) -> BTreeMap<Name, Placement> {
    let mut out = BTreeMap::new();
    func.visit(&mut |s| {
        if let Stmt::Block(b) = s
            && let Some(placement) = of_block(b)
        {
            b.body.iter().for_each(|s| {
                s.visit(&mut |s| {
                    if let Stmt::Store { buffer, .. } = s {
                        out.insert(buffer.clone(), placement.clone());
                    }
                })
            });
        }
    });
    out
}

fn of_block(b: &Block) -> Option<Placement> {
    let align = Mark::all(&b.attrs).find_map(|m| if let Mark::DimAlign(all) = m { Some(all) } else { None });
    let swizzle = Mark::all(&b.attrs).find_map(|m| if let Mark::Swizzle(swizzle) = m { Some(swizzle) } else { None });
    let asked = align.is_some() || swizzle.is_some();
    // A block writes one buffer, so its number says nothing.
    let stride = |[_, dim, factor, offset]: [i64; 4]| Some((usize::try_from(dim).ok()?, factor, offset));
    let aligned = align.unwrap_or_default().into_iter().filter_map(stride).collect();
    asked.then_some(Placement { aligned, swizzle })
}

impl Placement {
    /// Gives a shrunken buffer of constant shape its strides or its layout. `dims` says of each
    /// dimension before it shrank at which one it begins now.
    pub fn arrange(&self, b: &mut Buffer, dims: &[usize]) {
        let Some(shape) = b.shape.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>() else { return };
        if let Some(swizzle) = self.swizzle {
            permute(b, shape, swizzle);
        } else if !self.aligned.is_empty() {
            b.strides = self.strides(&shape, dims).into_iter().map(Expr::i64).collect();
        }
    }

    fn strides(&self, shape: &[i64], dims: &[usize]) -> Vec<i64> {
        let mut strides = vec![1; shape.len()];
        for d in (0..shape.len()).rev() {
            let dense = if d + 1 < shape.len() { strides[d + 1] * shape[d + 1] } else { 1 };
            let asked = self.aligned.iter().find(|(of, ..)| dims.get(*of) == Some(&d));
            strides[d] = match asked {
                Some((_, factor, offset)) => dense + (offset - dense).rem_euclid(*factor),
                None => dense,
            };
        }
        strides
    }
}

/// Permutes memory; the first dimension grows until whole blocks of the permutation fit.
fn permute(b: &mut Buffer, mut shape: Vec<i64>, swizzle: Swizzle) {
    let row: i64 = shape.iter().skip(1).product();
    let Some(rows) = shape.first().and_then(|n| (*n..*n + swizzle.block()).find(|n| n * row % swizzle.block() == 0))
    else {
        return;
    };
    shape[0] = rows;
    if let Ok(layout) = TileLayout::row_major(&shape).and_then(|l| l.compose(swizzle)) {
        b.shape = shape.into_iter().map(Expr::i64).collect();
        b.layout = Some(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{AttrValue, DType, Scope};

    fn tile(shape: &[i64]) -> Buffer {
        Buffer::new(Name::new("t"), DType::F32, shape.iter().map(|n| Expr::i64(*n)).collect(), Scope::Shared)
    }

    fn ints(list: &[Expr]) -> Vec<i64> {
        list.iter().filter_map(Expr::as_int).collect()
    }

    #[test]
    fn aligned_strides_are_offset_above_a_multiple() {
        let asked = Placement { aligned: vec![(1, 32, 1)], swizzle: None };
        let mut b = tile(&[1, 64, 32]);
        asked.arrange(&mut b, &[0, 1, 2]);
        assert_eq!(ints(&b.strides), [64 * 33, 33, 1]);
        // The first dimension became two: the second one asked for is now the third.
        let mut b = tile(&[2, 3, 20, 5]);
        asked.arrange(&mut b, &[0, 2, 3]);
        assert_eq!(ints(&b.strides), [3 * 20 * 33, 20 * 33, 33, 1]);
    }

    #[test]
    fn a_permuted_tile_grows_to_whole_blocks() {
        let swizzle = Swizzle::new(2, 3, 5, true).ok();
        let mut b = tile(&[5, 7]);
        Placement { aligned: vec![], swizzle }.arrange(&mut b, &[0, 1]);
        assert_eq!(ints(&b.shape), [32, 7]);
        assert!(b.layout.is_some_and(|l| l.swizzle() == swizzle));
    }

    #[test]
    fn annotations_of_other_forms_ask_for_nothing() {
        let ints = |list: &[i64]| AttrValue::List(list.iter().map(|n| AttrValue::Int(*n)).collect());
        let of = |key: &str, value: AttrValue| {
            let mut block = Block::new(Name::new("b"), vec![], vec![]);
            block.attrs.push((key.to_string(), value));
            of_block(&block)
        };
        assert!(of("buffer_dim_align", AttrValue::Int(1)).is_none());
        assert!(of("buffer_dim_align", AttrValue::List(vec![ints(&[0, 1, 0, 1])])).is_none());
        assert!(of("swizzle", ints(&[0, 3, 1])).is_none());
        assert!(of("swizzle", ints(&[0, 3, 3])).is_some());
    }
}
