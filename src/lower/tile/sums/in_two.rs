//! Sums of a block's product of float32 in two sets of registers: what the high parts of factors add up to, and the rest.
//! Only the first are added up step by step; those of the rest are small enough for tensor cores to add up alone.
//!
//! before: `for k { .. Tx.cta.gemm(c, a, b, accum=True) }; .. c ..`
//! after:  `rest = 0; for k { .. Tx.cta.gemm(c, a, b, accum=True, rest=rest) }; c += min(rest, 3.4e38); .. c ..`
//!
//! Stands in a circle with `fragments`, of whose pass it is a part.

use super::super::fragments::PASS;
use super::super::part_loops::Held;
use crate::ir::device::{DStmt, index_var};
use crate::ir::{Buffer, DType, Expr, Name, Scope, Tile, TileArg, TileCall};
use crate::lower::LowerError;
use crate::lower::nest::Nest;
use crate::tile::without_nans;

/// The variant that multiplies so.
pub const VARIANT: &str = "wgmma_tf32x3";

/// Registers for the rest of sums that are held.
pub fn hold(nest: &mut Nest, held: &Held, rest: &Name) -> Result<(), LowerError> {
    let sums = nest.held.get(&held.buffer).cloned();
    let sums = sums.ok_or_else(|| LowerError::new(PASS, &held.buffer, "the sums are in no registers"))?;
    nest.held.insert(rest.clone(), Buffer { name: rest.clone(), ..sums });
    let flat = nest.buffer(PASS, &held.buffer)?;
    nest.buffers.insert(rest.clone(), Buffer::new(rest.clone(), DType::F32, flat.shape.clone(), Scope::Local));
    Ok(())
}

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
    let mut out = vec![];
    for s in body {
        if !multiplies(&s, d) {
            out.push(s);
            continue;
        }
        out.push(each(&|_| (rest.clone(), Expr::constant(0.0, DType::F32))));
        out.push(s);
        out.push(each(&|e| (d.clone(), load(d, e) + without_nans(load(rest, e)))));
    }
    Ok(out)
}

fn multiplies(s: &DStmt, d: &Name) -> bool {
    let mut found = false;
    s.visit(&mut |s| found |= matches!(s, DStmt::Tile(call) if call.dst.buffer == *d));
    found
}
