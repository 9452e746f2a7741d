//! One thread of the scope copies element by element: serial, for what no other variant takes.
//!
//! When: tiles of one type and shape in device or shared memory, and the first thread of each scope
//! reaches the call, also where the last warp of the block is not complete.
//!
//! before: `Tx.warp.copy(A_smem[0:5], A[0:5])`, 48 threads
//! after:  `if threadIdx.x % 32 == 0 { for i < 5 { A_smem[i] = A[i] } }`
//!
//! Declines registers, which no thread can reach for another, conversions, unequal shapes, tiles that
//! may overlap.

use super::check;
use super::pair::{box_of, memory_name, spread};
use super::{OPS, Pair, Walk};
use crate::ir::device::{DFor, DKind, DStmt, guarded, index_var};
use crate::ir::{Expr, TileCall};
use crate::tile::predicates::REACHED;
use crate::tile::{Cx, Emit, Predicate, Variant};

pub(super) const VARIANT: Variant = Variant {
    name: "fallback",
    ops: OPS,
    priority: 0,
    only_forced: false,
    when: &[
        check::OPERANDS,
        check::DTYPE,
        check::SAME_SHAPE,
        check::OVERLAP,
        REACHED,
        check::CACHE,
        check::OPTIONS,
        Predicate { name: "storage_scope", check: storage_scope },
    ],
    emit,
};

fn storage_scope(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let pair = Pair::of(call, cx)?;
    match pair.sides().into_iter().find(|(v, _)| v.is_local()) {
        None => Ok(()),
        Some((v, what)) => {
            Err(format!("the {what} `{}` is in {}, which only their thread can copy", v.buffer, memory_name(v)))
        }
    }
}

fn emit(call: &TileCall, e: &mut Emit) -> Vec<DStmt> {
    let Pair { dst, src } = Pair::accepted(call, e);
    if dst.is_empty() {
        return vec![];
    }
    let walk = Walk::in_order(&box_of(&dst.extent));
    let var = e.loop_var("i", walk.len());
    let index = walk.index(index_var(&var));
    let value = Expr::load(src.buffer.clone(), vec![e.simple(src.at(&spread(&src.extent, &index)))], src.dtype);
    let store = DStmt::store(dst.buffer.clone(), vec![e.simple(dst.at(&spread(&dst.extent, &index)))], value);
    let all = DStmt::For(DFor::new(var, Expr::i64(walk.len()), DKind::Serial, vec![store]));
    guarded(e.cx().is_first(call.scope), vec![all])
}
