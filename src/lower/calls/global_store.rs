//! The one store of a statement that goes to global memory.

use crate::ir::device::{DStmt, and};
use crate::ir::kernel::CacheHint;
use crate::ir::{Expr, Name};
use crate::lower::nest::Nest;

/// A store to global memory, and the condition that it is under.
pub struct GlobalStore {
    pub cond: Option<Expr>,
    pub buffer: Name,
    pub indices: Vec<Expr>,
    pub value: Expr,
    pub hint: CacheHint,
}

impl GlobalStore {
    /// The only store of a statement; `around` is the condition that the statement is under.
    pub fn of(nest: &Nest, around: Option<Expr>, s: &DStmt) -> Option<GlobalStore> {
        match s {
            DStmt::If { cond, then, otherwise } if otherwise.is_empty() => {
                let [s] = then.as_slice() else { return None };
                GlobalStore::of(nest, and(around, Some(cond.clone())), s)
            }
            DStmt::Store { buffer, indices, value, hint } if nest.is_global(buffer) => Some(GlobalStore {
                cond: around,
                buffer: buffer.clone(),
                indices: indices.clone(),
                value: value.clone(),
                hint: *hint,
            }),
            _ => None,
        }
    }
}
