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

use super::operand::{dtypes, operands, plain_rounding};
use super::ops;
use super::registers::{Registers, place};
use crate::ir::TileCall;
use crate::tile::loops::Loops;
use crate::tile::predicates::all_local;
use crate::tile::{Cx, Plan, Refusals, Variant};

pub(super) const VARIANT: Variant = Variant { name: "reg", ops: ops::ALL, priority: 10, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let operands = operands(call, cx, r, all_local, dtypes);
    let registers = Registers::ask(operands.as_ref(), call, cx, r);
    plain_rounding(call, r);
    let (op, registers) = (call.op, registers?);
    Some(Box::new(move |e| {
        let dst = &registers.dst;
        let (loops, index) = Loops::over(e, "f", &dst.shape);
        let value = ops::value(op, dst.view.dtype, &registers.operands(e, &index));
        loops.around(vec![dst.view.store(place(e, dst, &index), value)])
    }))
}
