//! Sums of a block's product of float32 in two sets of registers: what the high parts of factors add up to, and the rest.
//! Only the first are added up step by step; those of the rest are small enough for tensor cores to add up alone.
//!
//! before: `for k { .. Tx.cta.gemm(c, a, b, accum=True) }; .. c ..`
//! after:  `rest = 0; for k { .. Tx.cta.gemm(c, a, b, accum=True, rest=rest) }; c += min(rest, 3.4e38); .. c ..`
//!
//! Stands in a circle with `fragments`, of whose pass it is a part.

use super::super::fragments::PASS;
use super::super::part_loops::Held;
use super::around;
use crate::ir::device::{DStmt, index_var};
use crate::ir::{DType, Expr, Name, Tile, TileArg, TileCall};
use crate::lower::LowerError;
use crate::lower::nest::Nest;
use crate::tile::without_nans;

/// The variant that multiplies so.
pub const VARIANT: &str = "wgmma_tf32x3";

/// The call of a product, with the registers for the rest of its sums.
pub fn product(mut call: TileCall, rest: &Name) -> TileCall {
    let whole = Tile { buffer: rest.clone(), ..call.dst.clone() };
    call.operands.insert("rest".into(), TileArg::Tile(whole));
    call
}

/// Statements with the rest set to zero before the one that the products stand in, and added after it.
pub fn added(nest: &mut Nest, body: Vec<DStmt>, held: &Held, rest: &Name) -> Result<Vec<DStmt>, LowerError> {
    let (d, n) = (&held.buffer, nest.buffer(PASS, &held.buffer)?.len().unwrap_or(0));
    let mut each = |value: &dyn Fn(&Expr) -> (Name, Expr)| {
        let e = nest.loop_var("e", n);
        let (to, value) = value(&index_var(&e));
        DStmt::unrolled(&e, n, vec![DStmt::store(to, vec![index_var(&e)], value)])
    };
    let load = |from: &Name, e: &Expr| Expr::load(from.clone(), vec![e.clone()], DType::F32);
    let before = each(&|_| (rest.clone(), Expr::constant(0.0, DType::F32)));
    let after = each(&|e| (d.clone(), load(d, e) + without_nans(load(rest, e))));
    Ok(around(body, d, [vec![before], vec![after]]))
}
