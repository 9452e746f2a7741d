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
use crate::ir::device::{DKind, DStmt, guarded};
use crate::ir::{ExecScope, TileCall};
use crate::tile::predicates::reached;
use crate::tile::{Cx, Emit, Plan, Refusals, Variant};

pub(super) const VARIANT: Variant = Variant { name: "fallback", ops: OPS, priority: 0, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let pair = check::pair(call, cx, r);
    check::overlap(call, r);
    reached(call, cx, r);
    check::cache_options(call, r);
    r.ask_of("storage_scope", &pair, in_memory);
    let (pair, scope) = (pair.ok()?, call.scope);
    Some(Box::new(move |e| emit(&pair, scope, e)))
}

fn in_memory(pair: &Pair) -> Result<(), String> {
    match pair.sides().into_iter().find(|(v, _)| v.is_local()) {
        None => Ok(()),
        Some((v, what)) => {
            Err(format!("the {what} `{}` is in {}, which only their thread can copy", v.buffer, memory_name(v)))
        }
    }
}

fn emit(Pair { dst, src }: &Pair, scope: ExecScope, e: &mut Emit) -> Vec<DStmt> {
    if dst.is_empty() {
        return vec![];
    }
    let walk = Walk::in_order(&box_of(&dst.extent));
    let all = e.repeat("i", walk.len(), DKind::Serial, |e, i| {
        let index = walk.index(i);
        let value = src.load(e.simple(src.at(&spread(&src.extent, &index))));
        vec![dst.store(e.simple(dst.at(&spread(&dst.extent, &index))), value)]
    });
    guarded(e.cx().is_first(scope), vec![all])
}
