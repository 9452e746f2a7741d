//! Fences what threads write to shared memory for instructions that read it by the asynchronous proxy.
//!
//! Products by warpgroups do. A thread's own writes, and those of its asynchronous copies that it has waited
//! for, are fenced before the barrier that tells the others of them (PTX ISA, "Async proxy").
//!
//! before: `cp_async_wait 2; barrier; c = wgmma(a, b, c)`
//! after:  `cp_async_wait 2; async_fence; barrier; c = wgmma(a, b, c)`

use crate::ir::device::DStmt;
use crate::ir::instr::{Instr, Op, Sync};
use crate::ir::kernel::Barrier;
use crate::lower::nest::Nest;

/// Places the fences of a launch that multiplies by warpgroups.
pub fn run(_: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    let mut multiplies = false;
    let product =
        |s: &DStmt| matches!(s, DStmt::Instr(i) if matches!(i.op, Op::Wgmma { .. } | Op::WgmmaRegisters { .. }));
    body.iter().for_each(|s| s.visit(&mut |s| multiplies |= product(s)));
    if multiplies { list(body) } else { body }
}

fn list(body: Vec<DStmt>) -> Vec<DStmt> {
    let mut out = vec![];
    for s in body {
        if s == DStmt::Barrier(Barrier::Block) {
            out.push(DStmt::Instr(Instr::from(Sync::AsyncFence)));
        }
        out.push(s.map_lists(list));
    }
    out
}
