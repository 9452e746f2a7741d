//! Canonical names of tile programs.

use super::canon::{Order, Renamer, canonicalize};
use super::device::{DStmt, DeviceFunc};
use super::{Name, Tile, TileArg};
use std::collections::BTreeMap;

/// Renames everything in a tile program in program order: tensor parameters `p`, scalar parameters
/// `s`, other buffers `t`, loops `i`, lets `x`. What the user called things moves along in
/// `display`, what threads and blocks were called too.
pub fn canonicalize_device(program: DeviceFunc) -> DeviceFunc {
    let mut order = Order::of(&program.func);
    program.body.iter().for_each(|s| {
        s.visit(&mut |s| {
            s.for_each_expr(|e| order.expr(e));
            match s {
                DStmt::For(l) => order.name(&l.var, 'i'),
                DStmt::Let { var, .. } | DStmt::Var { var, .. } => order.name(var, 'x'),
                DStmt::If { .. }
                | DStmt::Store { .. }
                | DStmt::Copy { .. }
                | DStmt::Assign { .. }
                | DStmt::Shuffle { .. }
                | DStmt::Barrier(_)
                | DStmt::Intrinsic(_)
                | DStmt::Tile(_)
                | DStmt::Reduce(_) => {}
            }
        });
    });
    let map = order.map;
    let indices = |n: &Name| super::ThreadTag::by_name(n.as_str()).is_some();
    let own: BTreeMap<Name, String> =
        program.func.display.iter().filter(|d| indices(d.0)).map(|(k, v)| (k.clone(), v.clone())).collect();
    let mut func = canonicalize(program.func.clone());
    func.display.extend(own);
    let renamer = Renamer { map: &map };
    let body = program.body.iter().map(|s| stmt(&renamer, s)).collect();
    DeviceFunc { func, body, ..program }
}

fn stmt(r: &Renamer, s: &DStmt) -> DStmt {
    let mut s = s.map_exprs(&mut |e| r.expr(e));
    names(r, &mut s);
    s
}

/// The names that statements of a program hold themselves; what only lowering makes is left alone.
fn names(r: &Renamer, s: &mut DStmt) {
    match s {
        DStmt::For(l) => {
            l.var = r.name(&l.var);
            l.body.iter_mut().for_each(|s| names(r, s));
        }
        DStmt::If { then, otherwise, .. } => then.iter_mut().chain(otherwise).for_each(|s| names(r, s)),
        DStmt::Store { buffer, .. } => *buffer = r.name(buffer),
        DStmt::Let { var, .. } | DStmt::Var { var, .. } | DStmt::Assign { var, .. } => *var = r.name(var),
        DStmt::Tile(call) => {
            let tile = |t: &mut Tile| t.buffer = r.name(&t.buffer);
            tile(&mut call.dst);
            call.args.iter_mut().chain(call.operands.values_mut()).for_each(|a| {
                if let TileArg::Tile(t) = a {
                    tile(t);
                }
            });
        }
        DStmt::Intrinsic(i) => {
            if let Some(bar) = i.barrier_mut() {
                bar.array = r.name(&bar.array);
            }
        }
        DStmt::Copy { .. } | DStmt::Shuffle { .. } | DStmt::Barrier(_) | DStmt::Reduce(_) => {}
    }
}
