//! What asynchronous copies ask for in common.

use crate::ir::{AttrValue, DType, Expr, TileArg, TileCall};
use crate::tile::View;
use crate::tile::copy::Pair;

/// The two sides by memory: device memory first.
pub(super) fn global_shared(pair: &Pair) -> Result<(&View, &View), String> {
    match (&pair.dst, &pair.src) {
        (shared, global) if shared.is_shared() && global.is_global() => Ok((global, shared)),
        (global, shared) if shared.is_shared() && global.is_global() => Ok((global, shared)),
        _ => Err("one side is neither in global nor in shared memory".into()),
    }
}

/// That the copy is between device memory and shared memory, one way or the other.
pub(super) fn global_and_shared(pair: &Pair) -> Result<(), String> {
    global_shared(pair).map(drop).map_err(|_| memories(pair, "between global and shared memory"))
}

/// That the copy is from device memory to shared memory.
pub(super) fn into_shared(pair: &Pair) -> Result<(), String> {
    if pair.dst.is_shared() && pair.src.is_global() {
        return Ok(());
    }
    Err(memories(pair, "from global to shared memory"))
}

fn memories(pair: &Pair, wanted: &str) -> String {
    let Pair { dst, src } = pair;
    let (from, to) = (src.scope.name(), dst.scope.name());
    format!("`{}` is in {from} and `{}` in {to}; the instruction copies {wanted}", src.buffer, dst.buffer)
}

/// The condition under which elements are read, and whether zeros are written otherwise.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    /// The condition; `None` for always.
    pub holds: Option<Expr>,
    /// Zeros go where nothing is read; else the destination stays.
    pub zeros: bool,
}

/// The condition that `predicate=` or `valid=` gives, and `fill_mode=`.
///
/// # Errors
/// Where one of them is no condition or no mode.
pub(super) fn condition(call: &TileCall) -> Result<Condition, String> {
    let zeros = match call.config.get("fill_mode") {
        None => false,
        Some(AttrValue::Str(mode)) if mode == "zero" => true,
        Some(_) => return Err("`fill_mode` can be \"zero\" only".into()),
    };
    let given = ["predicate", "valid"].iter().find_map(|k| call.operands.get(*k));
    let holds = match (given, call.config.get("predicate").or_else(|| call.config.get("valid"))) {
        (Some(TileArg::Scalar(e)), None) if e.dtype() == DType::Bool => Some(e.clone()),
        (None, None | Some(AttrValue::Bool(true))) => None,
        (None, Some(AttrValue::Bool(false))) => Some(Expr::bool(false)),
        (Some(_), _) | (None, Some(_)) => return Err("`predicate` is a condition, such as `i < n`".into()),
    };
    Ok(Condition { holds, zeros })
}
