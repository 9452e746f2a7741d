//! Gives accesses to some buffers other places.
//!
//! before: `a[i] = b[j] + c[k]`, `b` to be found 64 elements further in `d`
//! after:  `a[i] = d[j + 64] + c[k]`

use crate::ir::device::{DStmt, map_list, map_stmts};
use crate::ir::instr::Op;
use crate::ir::{Expr, ExprKind, Name};

/// Where the element at a flat index of a buffer is instead; `None` where it stays.
pub type Place<'f> = dyn Fn(&Name, &Expr) -> Option<(Name, Expr)> + 'f;

/// The statements with every access to memory where `place` says.
pub fn all(body: &[DStmt], place: &Place) -> Vec<DStmt> {
    map_stmts(map_list(body, &mut |e| loads(e, place)), &mut |s| stored(s, place))
}

/// [`all`] but for the operands of products by warpgroups, whose descriptors say where elements are, and the boxes
/// of tensor maps, which permute them themselves.
pub fn elements(body: &[DStmt], place: &Place) -> Vec<DStmt> {
    let described = |s: &DStmt| {
        matches!(s, DStmt::Instr(i) if matches!(
            i.op,
            Op::Wgmma { .. } | Op::WgmmaRegisters { .. } | Op::Tcgen05(_) | Op::TensorLoad { .. }
        ))
    };
    let moved = |s: DStmt| if described(&s) { s } else { stored(s, place) };
    map_stmts(map_list(body, &mut |e| loads(e, place)), &mut { moved })
}

/// A statement with what it writes, and what instructions name, moved.
fn stored(s: DStmt, place: &Place) -> DStmt {
    let moved = |name: Name, at: Expr| place(&name, &at).unwrap_or((name, at));
    match s {
        DStmt::Store { buffer, indices, value, hint } => match indices.first().and_then(|at| place(&buffer, at)) {
            Some((buffer, at)) => DStmt::Store { buffer, indices: vec![at], value, hint },
            None => DStmt::Store { buffer, indices, value, hint },
        },
        DStmt::Copy { dst, dst_index, src, src_index, lanes, hint } => {
            let ((dst, dst_index), (src, src_index)) = (moved(dst, dst_index), moved(src, src_index));
            DStmt::Copy { dst, dst_index, src, src_index, lanes, hint }
        }
        DStmt::Instr(mut i) => {
            for at in &mut i.places {
                if let Some((array, index)) = place(&at.array, &at.index) {
                    (at.array, at.index) = (array, index);
                }
            }
            DStmt::Instr(i)
        }
        other => other,
    }
}

fn loads(e: &Expr, place: &Place) -> Expr {
    let e = e.map_children(|c| loads(c, place));
    if let ExprKind::Load { buffer, indices, dtype } = e.kind()
        && let Some((buffer, at)) = indices.first().and_then(|at| place(buffer, at))
    {
        return Expr::load(buffer, vec![at], *dtype);
    }
    e
}
