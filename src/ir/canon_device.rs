//! Canonical names of tile programs.

use super::Name;
use super::canon::{Order, Renamer, canonicalize};
use super::device::{DStmt, DeviceFunc, map_list, map_stmts};
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
                | DStmt::Instr(_)
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
    let body = map_list(&program.body, &mut |e| renamer.expr(e));
    let body = map_stmts(body, &mut |s| names(&renamer, s));
    DeviceFunc { func, body, ..program }
}

/// The names that statements of a program hold themselves; what only lowering makes is left alone.
fn names(r: &Renamer, mut s: DStmt) -> DStmt {
    match &mut s {
        DStmt::For(l) => l.var = r.name(&l.var),
        DStmt::Store { buffer, .. } => *buffer = r.name(buffer),
        DStmt::Let { var, .. } | DStmt::Var { var, .. } | DStmt::Assign { var, .. } => *var = r.name(var),
        DStmt::Tile(call) => call.for_each_tile_mut(|t| t.buffer = r.name(&t.buffer)),
        DStmt::Instr(i) => i.places.iter_mut().for_each(|at| at.array = r.name(&at.array)),
        DStmt::If { .. } | DStmt::Copy { .. } | DStmt::Shuffle { .. } | DStmt::Barrier(_) | DStmt::Reduce(_) => {}
    }
    s
}
