//! Conditions that variants of several families share.

use super::{Active, Cx, Refusals, View};
use crate::ir::{DType, ExecScope, TileCall};

/// Most elements that a thread may hold in the registers of one call: every access to them is a
/// statement of its own.
pub const MAX_REGISTERS: i64 = 4096;

/// Asks whether all threads of the scope reach the call, and the block is made of whole scopes.
pub fn all_threads(call: &TileCall, cx: &Cx, r: &mut Refusals) {
    let (threads, n) = (cx.threads(), cx.threads_in(call.scope));
    let whole = || match threads % n {
        0 => Ok(()),
        _ => {
            Err(format!("the block has {threads} threads, which is no multiple of the {n} of a {}", call.scope.name()))
        }
    };
    r.ask("all_threads", are_active(call, cx).and_then(|()| whole()));
}

/// Asks whether all threads of the scope that there are reach the call.
pub fn reached(call: &TileCall, cx: &Cx, r: &mut Refusals) {
    r.ask("reached", are_active(call, cx));
}

fn are_active(call: &TileCall, cx: &Cx) -> Result<(), String> {
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

/// Asks whether the call is one of single threads.
pub fn one_thread(call: &TileCall, r: &mut Refusals) {
    scope_in(call, &[ExecScope::Thread], r);
}

/// Asks whether the call is one of warps, alone or together.
pub fn warps(call: &TileCall, r: &mut Refusals) {
    scope_in(call, &[ExecScope::Warp, ExecScope::Warpgroup, ExecScope::Cta], r);
}

/// Asks whether the scope is one of these.
pub fn scope_in(call: &TileCall, scopes: &[ExecScope], r: &mut Refusals) {
    let known: Vec<&str> = scopes.iter().map(|s| s.name()).collect();
    r.ask(
        "exec_scope",
        match scopes.contains(&call.scope) {
            true => Ok(()),
            false => Err(format!("the scope is {}, expected {}", call.scope.name(), known.join(" or "))),
        },
    );
}

/// That the target takes packed float32 arithmetic.
pub fn takes_f32x2(cx: &Cx) -> Result<(), String> {
    takes(cx, cx.target.has.f32x2, "packed float32 arithmetic", 100)
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

/// That all tiles are float32.
pub fn all_float32(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let other = cx.views(call)?.into_iter().find(|v| v.dtype != DType::F32);
    other.map_or(Ok(()), |v| Err(format!("`{}` has type {}, expected float32", v.buffer, v.dtype)))
}

/// The one element type of all tiles.
pub fn one_dtype(call: &TileCall, cx: &Cx) -> Result<DType, String> {
    let views = cx.views(call)?;
    let first = views[0].dtype;
    let other = views.iter().find(|v| v.dtype != first);
    other.map_or(Ok(first), |v| Err(format!("`{}` has type {}, the destination {first}", v.buffer, v.dtype)))
}

/// That arithmetic is defined on a type: integers and floats of 16 bits and more.
pub fn is_arithmetic(dtype: DType) -> Result<(), String> {
    match dtype {
        DType::Bool | DType::E4M3 | DType::E5M2 | DType::E8M0 | DType::Handle => {
            Err(format!("there is no arithmetic on {dtype}"))
        }
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
