//! Sums of a block's product in tensor memory, from where they come to registers when all products are done.
//!
//! before: `for k { .. Tx.cta.gemm(c, a, b, accum=True) }; .. c ..`
//! after:  `for k { .. Tx.thread.gemm(c_tensor, a, b, accum=True, mbar=done[0]) }; Tx.cta.copy(c, c_tensor); .. c ..`
//!
//! Who issues the products, and who waits for them, is for the pass `roles` to say, and that sums start from zero.
//!
//! Stands in a circle with `fragments`, of whose pass it is a part.

use super::super::fragments::{By, PASS};
use super::super::part_loops::Held;
use super::around;
use crate::ir::device::DStmt;
use crate::ir::instr::TENSOR_LANES;
use crate::ir::layout::{Axis, Iter, TileLayout};
use crate::ir::{Buffer, DType, ExecScope, Expr, Name, Scope, Tile, TileArg, TileCall, TileOp};
use crate::lower::LowerError;
use crate::lower::nest::Nest;

/// The variant that multiplies into tensor memory.
pub const VARIANT: &str = "tcgen05";
/// The one that multiplies numbers with scales of blocks there.
pub const SCALED: &str = "tcgen05_block_scale";
/// The one that copies from there.
const LOADS: &str = "tcgen05_load";

/// Gives the sums `d` of a product columns of tensor memory, and a barrier.
pub fn hold(nest: &mut Nest, d: &Name, dtype: DType, shape: [i64; 2]) -> Result<By, LowerError> {
    let [rows, columns] = shape;
    if rows != TENSOR_LANES {
        return Err(LowerError::new(
            PASS,
            d,
            format!("a tile of {rows} rows for the {TENSOR_LANES} lanes of tensor memory"),
        ));
    }
    let iters = vec![Iter::new(rows, 1, Axis::TLane), Iter::new(columns, 1, Axis::TCol)];
    let layout = TileLayout::of_shard(iters).map_err(|why| LowerError::new(PASS, d, why))?;
    let name = nest.fresh(&format!("{d}_tensor"));
    let buffer = Buffer::new(name.clone(), dtype, shape.map(Expr::i64).to_vec(), Scope::Tensor);
    nest.buffers.insert(name.clone(), Buffer { layout: Some(layout), ..buffer });
    let done = nest.scratch("done", DType::U64, Expr::i64(1), Scope::Shared);
    Ok(By::Tensor(name, done))
}

/// The call of a product, into tensor memory and by one thread.
pub fn product(call: TileCall, d: &Name, done: &Name) -> TileCall {
    let dst = Tile { buffer: d.clone(), ..call.dst.clone() };
    let mut call = TileCall { dst, scope: ExecScope::Thread, ..call };
    call.operands.insert("mbar".into(), TileArg::Tile(Tile::whole(done, &[1])));
    call
}

/// Statements with a copy to registers after the one that the products stand in.
pub fn loaded(body: Vec<DStmt>, d: &Name, held: &Held) -> Vec<DStmt> {
    let [dst, src] = [&held.buffer, d].map(|name| Tile::whole(name, &held.shape));
    let mut copy = TileCall::new(TileOp::Copy, held.scope, dst, vec![TileArg::Tile(src)]);
    copy.forced = Some(LOADS.into());
    around(body, d, [vec![], vec![DStmt::Tile(Box::new(copy))]])
}
