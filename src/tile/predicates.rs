//! Conditions that variants of several families share.

use super::{Active, Cx, Predicate, View};
use crate::ir::{DType, ExecScope, TileCall};

/// Most elements that a thread may hold in the registers of one call: every access to them is a
/// statement of its own.
pub const MAX_REGISTERS: i64 = 4096;

/// All threads of the scope reach the call, and the block is made of whole scopes.
pub const ALL_THREADS: Predicate = Predicate { name: "all_threads", check: all_threads };
/// All threads of the scope that there are reach the call.
pub const REACHED: Predicate = Predicate { name: "reached", check: reached };
/// The call is one of single threads.
pub const ONE_THREAD: Predicate =
    Predicate { name: "exec_scope", check: |call, _| scope_in(call, &[ExecScope::Thread]) };
/// The call is one of warps, alone or together.
pub const WARPS: Predicate = Predicate {
    name: "exec_scope",
    check: |call, _| scope_in(call, &[ExecScope::Warp, ExecScope::Warpgroup, ExecScope::Cta]),
};

fn all_threads(call: &TileCall, cx: &Cx) -> Result<(), String> {
    reached(call, cx)?;
    let (threads, n) = (cx.threads(), cx.threads_in(call.scope));
    if threads % n == 0 {
        return Ok(());
    }
    Err(format!("the block has {threads} threads, which is no multiple of the {n} of a {}", call.scope.name()))
}

fn reached(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let least = match call.scope {
        ExecScope::Thread => Active::Some,
        ExecScope::Warp => Active::WholeWarps,
        ExecScope::Warpgroup => Active::WholeWarpgroups,
        ExecScope::Cta => Active::All,
    };
    if cx.active <= least {
        return Ok(());
    }
    Err(format!("a condition lets only some threads of the {} reach the call", call.scope.name()))
}

/// That the scope is one of these.
pub fn scope_in(call: &TileCall, scopes: &[ExecScope]) -> Result<(), String> {
    if scopes.contains(&call.scope) {
        return Ok(());
    }
    let known: Vec<&str> = scopes.iter().map(|s| s.name()).collect();
    Err(format!("the scope is {}, expected {}", call.scope.name(), known.join(" or ")))
}

/// That the target takes packed float32 arithmetic.
pub fn takes_f32x2(cx: &Cx) -> Result<(), String> {
    takes(cx, cx.target.has.f32x2, "packed float32 arithmetic", 100)
}

/// That the target takes `max` and `min` of three float32 operands.
pub fn takes_fold3(cx: &Cx) -> Result<(), String> {
    takes(cx, cx.target.has.fold3, "`max` and `min` of three operands", 100)
}

/// That the target has what a variant is made of; `first` is the first generation that does, for the
/// reason.
pub fn takes(cx: &Cx, has: bool, what: &str, first: u32) -> Result<(), String> {
    if has { Ok(()) } else { Err(format!("{} has no {what}, which sm_{first} brought", cx.target.id)) }
}

/// That all tiles are in registers.
pub fn all_local(call: &TileCall, cx: &Cx) -> Result<(), String> {
    all_in(call, cx, View::is_local, "registers")
}

/// That all tiles are in shared memory.
pub fn all_shared(call: &TileCall, cx: &Cx) -> Result<(), String> {
    all_in(call, cx, View::is_shared, "shared memory")
}

fn all_in(call: &TileCall, cx: &Cx, is: fn(&View) -> bool, what: &str) -> Result<(), String> {
    let other = cx.views(call)?.into_iter().find(|v| !is(v));
    other.map_or(Ok(()), |v| Err(format!("`{}` is in {}, not in {what}", v.buffer, v.scope.name())))
}

/// That all tiles have one element type, and that it is a number.
pub fn one_numeric_dtype(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let views = cx.views(call)?;
    let first = views[0].dtype;
    is_arithmetic(first)?;
    let other = views.iter().find(|v| v.dtype != first);
    other.map_or(Ok(()), |v| Err(format!("`{}` has type {}, the destination {first}", v.buffer, v.dtype)))
}

/// That arithmetic is defined on a type: integers and floats of 16 bits and more.
pub fn is_arithmetic(dtype: DType) -> Result<(), String> {
    match dtype {
        DType::Bool | DType::E4M3 | DType::E5M2 | DType::Handle => Err(format!("there is no arithmetic on {dtype}")),
        DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::U8
        | DType::U16
        | DType::U32
        | DType::U64
        | DType::F16
        | DType::BF16
        | DType::F32
        | DType::F64 => Ok(()),
    }
}
