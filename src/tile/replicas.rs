//! Whether a program says that several threads store one value.

use super::{Part, View, WARP, WARPGROUP};
use crate::analysis::Ranges;
use crate::ir::device::{DStmt, DeviceFunc};
use crate::ir::{ExecScope, Expr, Scope, Tile, TileArg, TileCall};

/// True where some call stores a tile to memory that several of its threads hold by its layout: a replica
/// (`R[4 : 8@laneid]`), or a layout over fewer threads than the call has, which means the same of all groups
/// of so many. Each of them stores the value, and they are the same; a store of elements one by one declares
/// nothing.
pub fn stores_replicas(program: &DeviceFunc) -> bool {
    let mut found = false;
    for s in &program.body {
        s.visit(&mut |s| {
            if let DStmt::Tile(call) = s {
                found |= stores_to_memory(program, &call.dst) && call_has_replicas(program, call);
            }
        });
    }
    found
}

fn stores_to_memory(program: &DeviceFunc, tile: &Tile) -> bool {
    program.func.find_buffer(&tile.buffer).is_some_and(|b| b.scope != Scope::Local)
}

fn call_has_replicas(program: &DeviceFunc, call: &TileCall) -> bool {
    let block: i64 = program.block.iter().map(|n| i64::from(*n)).product();
    let threads = match call.scope {
        ExecScope::Thread => return false,
        ExecScope::Warp => WARP.min(block),
        ExecScope::Warpgroup => WARPGROUP.min(block),
        ExecScope::Cta => block,
    };
    call.args.iter().any(|arg| match arg {
        TileArg::Tile(t) => has_replicas(program, t, threads),
        TileArg::Scalar(_) => false,
    })
}

/// True where several of `threads` threads hold an element of the buffer of a tile.
fn has_replicas(program: &DeviceFunc, tile: &Tile, threads: i64) -> bool {
    let Some(buffer) = program.func.find_buffer(&tile.buffer) else { return false };
    let shape: Option<Vec<i64>> = buffer.shape.iter().map(Expr::as_int).collect();
    let (Some(extent), true) = (shape, buffer.scope == Scope::Local) else { return false };
    let whole = Tile { buffer: tile.buffer.clone(), begin: vec![Expr::i64(0); extent.len()], extent };
    let part = View::new(buffer, &whole).and_then(|view| Part::of(&view, &Ranges::new()));
    part.is_ok_and(|p| p.is_shared_out() && p.owners_among(threads).is_ok_and(|o| o.replicas() > 1))
}
