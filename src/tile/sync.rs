//! The barrier at which the threads of a scope meet.

use super::{Active, Cx, Refusals, WARPGROUP};
use crate::ir::device::DStmt;
use crate::ir::kernel::Barrier;
use crate::ir::{ExecScope, TileCall};

/// The named barrier of a warpgroup that is alone.
const WARPGROUP_BARRIER: u32 = 8;

/// Asks whether the threads of the call's scope can wait for each other where the call is. Several
/// warpgroups under a condition cannot: which of them come is not known, and a named barrier is of one.
pub fn can_meet(call: &TileCall, cx: &Cx, r: &mut Refusals) {
    let threads = cx.threads();
    let apart = call.scope == ExecScope::Warpgroup && threads > WARPGROUP && cx.active != Active::All;
    let why = || {
        let warpgroups = threads / WARPGROUP;
        format!("a condition chooses among the {warpgroups} warpgroups of the block, so they have no barrier in common")
    };
    r.ask("barrier", if apart { Err(why()) } else { Ok(()) });
}

/// The barrier of a scope; none for a thread. All warpgroups of a block meet together.
pub fn meet(scope: ExecScope, cx: &Cx) -> Option<DStmt> {
    let barrier = match scope {
        ExecScope::Thread => return None,
        ExecScope::Warp => Barrier::Warp,
        ExecScope::Warpgroup if cx.threads() == WARPGROUP => {
            Barrier::Named { id: WARPGROUP_BARRIER, threads: WARPGROUP as u32 }
        }
        ExecScope::Warpgroup | ExecScope::Cta => Barrier::Block,
    };
    Some(DStmt::Barrier(barrier))
}
