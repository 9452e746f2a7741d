//! What `set_dtype` and `keep_float32` share: loads of buffers that are of another type now.

use crate::ir::{DType, Expr, ExprKind, Name};

/// Loads of the buffers that hold `dtype` now, converted to the type that they had. A conversion of such a load from that type
/// to one for which `direct` holds is one of what is loaded.
pub fn loads(e: &Expr, held: &dyn Fn(&Name) -> bool, dtype: DType, direct: &dyn Fn(DType, DType) -> bool) -> Expr {
    let loaded = |e: &Expr| match e.kind() {
        ExprKind::Load { buffer, indices, dtype: old } if held(buffer) && *old != dtype => {
            let indices = indices.iter().map(|i| loads(i, held, dtype, direct)).collect();
            Some(Expr::load(buffer.clone(), indices, dtype))
        }
        _ => None,
    };
    match e.kind() {
        ExprKind::Cast { dtype: to, arg } if direct(arg.dtype(), *to) => {
            Expr::cast(*to, loaded(arg).unwrap_or_else(|| loads(arg, held, dtype, direct)))
        }
        _ => match loaded(e) {
            Some(load) => Expr::cast(e.dtype(), load),
            None => e.map_children(|c| loads(c, held, dtype, direct)),
        },
    }
}
