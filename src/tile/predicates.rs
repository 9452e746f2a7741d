//! Conditions that variants of several families share.

use super::{Active, Cx, View, WARP, WARPGROUP};
use crate::ir::{DType, ExecScope, TileCall};

/// Most elements that a thread may hold in the registers of one call: every access to them is a
/// statement of its own.
pub const MAX_REGISTERS: i64 = 4096;

/// That all threads of the call's scope reach it, and that the block is made of whole scopes.
pub fn threads_active(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let threads = cx.threads();
    let whole = |n: i64, what: &str| match threads % n {
        0 if cx.active == Active::Some => Err(format!("a condition lets only some threads of a {what} reach the call")),
        0 => Ok(()),
        _ => Err(format!("the block has {threads} threads, which is no multiple of the {n} of a {what}")),
    };
    match call.scope {
        ExecScope::Thread => Ok(()),
        ExecScope::Warp => whole(WARP, "warp"),
        ExecScope::Warpgroup => whole(WARPGROUP, "warpgroup"),
        ExecScope::Cta if cx.active == Active::All => Ok(()),
        ExecScope::Cta => Err(format!("a condition lets only some of the block's {threads} threads reach the call")),
    }
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
    takes(cx, cx.target.has.f32x2, 100)
}

/// That the target takes `max` and `min` of three float32 operands.
pub fn takes_fold3(cx: &Cx) -> Result<(), String> {
    takes(cx, cx.target.has.fold3, 100)
}

/// That a feature is there; `first` is the first generation that has it, for the reason.
fn takes(cx: &Cx, has: bool, first: u32) -> Result<(), String> {
    if has { Ok(()) } else { Err(format!("the target is sm_{}, expected at least sm_{first}", cx.target.sm)) }
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
