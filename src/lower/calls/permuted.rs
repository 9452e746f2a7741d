//! How what matrix instructions read by themselves lies in shared memory.
//!
//! before: `Tx.thread.gemm(d, a[0:128, 0:64], ..)`, `a` row by row
//! after:  the same, `a` noted as permuted, for the pass `swizzle` and for all who touch it
//!
//! Stands in a circle with `fragments`, of whose pass it is a part.

use super::fragments::matrix;
use super::group_words;
use super::sums::{in_tensor, in_two};
use crate::ir::device::DStmt;
use crate::ir::instr::Op;
use crate::ir::{Tile, TileArg, TileCall, TileOp};
use crate::lower::LowerError;
use crate::lower::nest::Nest;
use crate::lower::pass::swizzle::Permutation;

/// True for the variants that read factors as descriptors say.
fn by_descriptors(variant: &Option<String>) -> bool {
    group_words::by_groups(variant) || matches!(variant.as_deref(), Some(in_tensor::VARIANT | in_tensor::SCALED))
}

fn tile(a: &TileArg) -> Option<&Tile> {
    if let TileArg::Tile(t) = a { Some(t) } else { None }
}

/// Notes how what warpgroups multiply lies, what boxes fill besides, and scales that are copied to tensor memory.
pub fn note(nest: &mut Nest, body: &[DStmt]) -> Result<(), LowerError> {
    for s in body {
        if let DStmt::Tile(call) = s {
            let first = usize::from(call.forced.as_deref() == Some(in_two::VARIANT));
            let factors = call.args.iter().skip(first).filter_map(tile);
            let shared: Vec<&Tile> = match call.op {
                TileOp::CopyAsync => vec![&call.dst],
                _ if by_descriptors(&call.forced) => factors.filter(|t| !nest.held.contains_key(&t.buffer)).collect(),
                _ => vec![],
            };
            for t in shared {
                let b = matrix(nest, &mut t.clone())?;
                nest.permuted.extend(Permutation::of_operand(&b).map(|p| (b.name, p)));
            }
            let scaled = call.forced.as_deref() == Some(in_tensor::SCALED);
            let scales = call.operands.iter().filter(|(name, _)| scaled && name.starts_with("sf"));
            for t in scales.filter_map(|(_, a)| tile(a)) {
                let b = matrix(nest, &mut t.clone())?;
                nest.permuted.extend(Permutation::of_scales(&b).map(|p| (b.name, p)));
            }
        }
        s.lists().into_iter().try_for_each(|inner| note(nest, inner))?;
    }
    Ok(())
}

/// Notes that arrays of a variant's own, which products read as descriptors say, lie as the second factor of its call does.
pub fn note_likewise(nest: &mut Nest, call: &TileCall, body: &[DStmt]) {
    let Some(permutation) = call.args.get(1).and_then(tile).and_then(|t| nest.permuted.get(&t.buffer)).copied() else {
        return;
    };
    for s in body {
        s.visit(&mut |s| {
            if let DStmt::Instr(i) = s
                && matches!(i.op, Op::WgmmaRegisters { .. })
                && let Some(at) = i.places.get(2)
            {
                nest.permuted.entry(at.array.clone()).or_insert(permutation);
            }
        });
    }
}
