//! Elementwise operations on registers, element by element.
//!
//! When: all tiles are registers. The destination's layout shares its elements out among the threads
//! of the scope, all of them, and gives each a private part; operands have the same threads hold the
//! corresponding elements, or hold the one that is broadcast. At thread scope there are no threads in
//! the layouts.
//!
//! before: `Tx.warp.sqrt(r[0:32, 0:8], r[0:32, 0:8])`, row `i` in lane `i`
//! after:  `for f in 8 { r[f] = sqrt(r[f]) }`
//!
//! Every operation rounds its result once, to nearest even.
//!
//! Declines by `operands`, `storage_scope`, `dtype`, `all_threads`, `layout`, `overlap` and `rounding`.

use super::operand::{dtypes, operands, overlap, plain_rounding};
use super::ops;
use super::registers::{Registers, layouts_match};
use crate::ir::TileCall;
use crate::ir::device::DStmt;
use crate::tile::predicates::{ALL_THREADS, all_local};
use crate::tile::unrolled::Loops;
use crate::tile::{Emit, Predicate, Variant};

pub(super) const VARIANT: Variant = Variant {
    name: "reg",
    ops: ops::ALL,
    priority: 10,
    only_forced: false,
    when: &[
        Predicate { name: "operands", check: operands },
        Predicate { name: "storage_scope", check: all_local },
        Predicate { name: "dtype", check: dtypes },
        ALL_THREADS,
        Predicate { name: "layout", check: layouts_match },
        Predicate { name: "overlap", check: overlap },
        Predicate { name: "rounding", check: plain_rounding },
    ],
    emit,
};

fn emit(call: &TileCall, emit: &mut Emit) -> Vec<DStmt> {
    let r = Registers::accepted(call, emit);
    let (loops, index) = Loops::over(emit, "f", &r.dst.shape);
    let value = ops::value(call.op, r.dst.view.dtype, &r.operands(emit, &index));
    let at = r.place(emit, &r.dst, &index);
    loops.around(vec![DStmt::store(r.dst.view.buffer.clone(), vec![at], value)])
}
