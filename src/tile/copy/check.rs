//! What the variants of `copy` and `copy_async` ask for in common.

use super::Pair;
use super::pair::box_of;
use crate::ir::kernel::CacheHint;
use crate::ir::{AttrValue, Scope, Tile, TileArg, TileCall};
use crate::tile::{Cx, Refusals, View};

/// Asks what every copy asks: both operands are tiles that can be read and written, nothing is converted,
/// and both tiles have the same extents.
pub(crate) fn pair(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Result<Pair, String> {
    let pair = Pair::of(call, cx);
    r.ask_of("operands", &pair, operands);
    r.ask_of("dtype", &pair, dtype);
    r.ask_of("same_shape", &pair, same_shape);
    pair
}

/// Asks whether no element is both read and written.
pub(super) fn overlap(call: &TileCall, r: &mut Refusals) {
    r.ask("overlap", are_apart(call));
}

/// Asks whether the cache hint is one that is known, and the named arguments those of plain copies.
pub(super) fn cache_options(call: &TileCall, r: &mut Refusals) -> Option<CacheHint> {
    let hint = r.ask("cache", hint(call));
    options(call, &["cache"], r);
    hint
}

/// Asks whether a call has no other named arguments than these.
pub(crate) fn options(call: &TileCall, names: &[&str], r: &mut Refusals) {
    let given = call.config.keys().chain(call.operands.keys());
    let other = given.into_iter().find(|k| !names.contains(&k.as_str()));
    let why = |k: &String| Err(format!("`{k}` means nothing here; named arguments are {}", names.join(", ")));
    r.ask("options", other.map_or(Ok(()), why));
}

fn operands(pair: &Pair) -> Result<(), String> {
    for (view, what) in pair.sides() {
        if matches!(view.scope, Scope::Tensor | Scope::Other(_)) {
            return Err(format!(
                "the {what} `{}` is in `{}`, not in global memory, shared memory or registers",
                view.buffer,
                view.scope.name()
            ));
        }
    }
    Ok(())
}

/// That both tiles have one type.
pub(super) fn dtype(Pair { dst, src }: &Pair) -> Result<(), String> {
    if dst.dtype == src.dtype {
        return Ok(());
    }
    Err(format!(
        "`{}` is {} and `{}` is {}; a copy converts nothing, `cast` does",
        dst.buffer, dst.dtype, src.buffer, src.dtype
    ))
}

/// That both tiles have the same extents, dimensions of extent 1 apart.
pub(crate) fn same_shape(Pair { dst, src }: &Pair) -> Result<(), String> {
    if box_of(&dst.extent) == box_of(&src.extent) {
        return Ok(());
    }
    Err(format!("the destination is {:?}, the source {:?}", dst.extent, src.extent))
}

fn are_apart(call: &TileCall) -> Result<(), String> {
    let Some(TileArg::Tile(src)) = call.args.first() else { return Err("operand 0 is not a tile".into()) };
    if call.dst.buffer != src.buffer || apart(&call.dst, src) {
        return Ok(());
    }
    Err(format!("source and destination may overlap in `{}`", src.buffer))
}

/// True where `n` indices from `first` on end at `next` or before; those that no index reaches do not.
fn ends_before(first: i64, n: i64, next: i64) -> bool {
    first.checked_add(n).is_some_and(|end| end <= next)
}

/// True where constant bounds keep two tiles of a buffer apart.
fn apart(a: &Tile, b: &Tile) -> bool {
    let both = a.begin.iter().zip(&a.extent).zip(b.begin.iter().zip(&b.extent));
    both.into_iter().any(|((a, n), (b, m))| match (a.as_int(), b.as_int()) {
        (Some(a), Some(b)) => ends_before(a, *n, b) || ends_before(b, *m, a),
        _ => false,
    })
}

/// The hint that `cache=` asks for.
///
/// # Errors
/// Where it is something else than a known word.
fn hint(call: &TileCall) -> Result<CacheHint, String> {
    match call.config.get("cache") {
        None => Ok(CacheHint::Plain),
        Some(AttrValue::Str(word)) => match word.as_str() {
            "streaming" | "evict_first" => Ok(CacheHint::Streaming),
            "no_allocate" | "nc" => Ok(CacheHint::NoAllocate),
            "no_allocate_256" => Ok(CacheHint::NoAllocate256),
            other => Err(format!(
                "`cache` is \"{other}\"; it is one of \"streaming\", \"no_allocate\", \"no_allocate_256\", \"nc\""
            )),
        },
        Some(_) => {
            Err("`cache` is not a string; it is one of \"streaming\", \"no_allocate\", \"no_allocate_256\", \"nc\""
                .into())
        }
    }
}

/// The hint as an access of that side can carry it.
pub(super) fn hint_of(view: &View, hint: CacheHint, writes: bool) -> CacheHint {
    match hint {
        _ if !view.is_global() => CacheHint::Plain,
        CacheHint::NoAllocate | CacheHint::NoAllocate256 if writes => CacheHint::Plain,
        _ => hint,
    }
}
