//! The operands of an elementwise call, broadcast to its destination.

use super::ops;
use crate::analysis::index_text;
use crate::ir::{AttrValue, Expr, TileArg, TileCall, TileOp};
use crate::tile::{Cx, Refusals, View};

/// An operand.
#[derive(Clone)]
pub(super) enum Operand<T> {
    /// One value for all elements.
    Scalar(Expr),
    /// A tile, or what stands for one.
    Tile(T),
}

/// The destination and all operands.
pub(super) struct Operands {
    pub dst: View,
    pub args: Vec<Operand<View>>,
}

impl Operands {
    /// The operands of a call.
    ///
    /// # Errors
    /// Where there are not as many as the operation takes, or they do not broadcast.
    pub fn of(call: &TileCall, cx: &Cx) -> Result<Operands, String> {
        call.conforms()?;
        let dst = cx.view(&call.dst)?;
        if dst.is_empty() {
            return Err(format!("the destination has no elements, its extents are {:?}", dst.extent));
        }
        let mut args = vec![];
        for a in &call.args {
            args.push(match a {
                TileArg::Tile(_) if call.op == TileOp::Fill => return Err("`fill` takes a scalar".to_string()),
                TileArg::Tile(t) => Operand::Tile(cx.view(t)?),
                TileArg::Scalar(e) => Operand::Scalar(e.clone()),
            });
        }
        Ok(Operands { dst, args })
    }

    /// The tiles among the operands.
    pub fn tiles(&self) -> impl Iterator<Item = &View> {
        self.args.iter().filter_map(|a| match a {
            Operand::Tile(v) => Some(v),
            Operand::Scalar(_) => None,
        })
    }
}

/// Dimensions of the destination along which an operand of these extents has one element only, and
/// does not have more than one.
pub(super) fn broadcast_dims(extent: &[i64], dst: &[i64]) -> Vec<usize> {
    let at = |d: usize| (d + extent.len()).checked_sub(dst.len()).map_or(1, |k| extent[k]);
    (0..dst.len()).filter(|d| at(*d) == 1 && dst[*d] != 1).collect()
}

/// The index into an operand of these extents (of a tile, or of a thread's part of it) for an index
/// into the destination.
pub(super) fn broadcast_index(extent: &[i64], index: &[Expr]) -> Vec<Expr> {
    let at = |k: usize| (k + index.len()).checked_sub(extent.len()).and_then(|d| index.get(d).cloned());
    let own = |(k, n): (usize, &i64)| if *n == 1 { Expr::i64(0) } else { at(k).unwrap_or(Expr::i64(0)) };
    extent.iter().enumerate().map(own).collect()
}

/// Asks what every variant asks first: the operands are as many as the operation takes and broadcast to
/// the destination, all tiles are in the memory `place`, and the types go together.
pub(super) fn operands(
    call: &TileCall,
    cx: &Cx,
    r: &mut Refusals,
    place: fn(&TileCall, &Cx) -> Result<(), String>,
    dtype: fn(&TileCall, &Cx) -> Result<(), String>,
) -> Option<Operands> {
    let operands = r.ask("operands", Operands::of(call, cx));
    r.ask("storage_scope", place(call, cx));
    r.ask("dtype", dtype(call, cx));
    operands
}

/// That the types go together.
pub(super) fn dtypes(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let views = cx.views(call)?;
    let tiles: Vec<_> = views[1..].iter().map(|v| v.dtype).collect();
    ops::takes(call.op, views[0].dtype, &tiles)
}

/// Asks whether no operand overlaps the destination, other than being the very same tile: elements are
/// written while others are still to be read.
pub(super) fn overlap(operands: Option<&Operands>, cx: &Cx, r: &mut Refusals) {
    r.ask_if("overlap", operands, |all| {
        let dst = &all.dst;
        match all.tiles().find(|v| v.buffer == dst.buffer && !same(v, dst, cx) && !apart(v, dst, cx)) {
            None => Ok(()),
            Some(v) => Err(format!(
                "an operand is another part of `{}`, from [{}] on, than the destination, from [{}] on",
                v.buffer,
                begin_text(v),
                begin_text(dst)
            )),
        }
    });
}

fn begin_text(v: &View) -> String {
    v.begin.iter().map(index_text).collect::<Vec<_>>().join(", ")
}

fn same(a: &View, b: &View, cx: &Cx) -> bool {
    let equal = |(x, y): (&Expr, &Expr)| cx.simple(x.clone()) == cx.simple(y.clone());
    a.extent == b.extent && a.begin.iter().zip(&b.begin).all(equal)
}

/// True where the tiles have no element in common, for certain.
fn apart(a: &View, b: &View, cx: &Cx) -> bool {
    let distance = |d: usize| cx.simple(b.begin[d].clone() - a.begin[d].clone()).as_int();
    let dims = 0..a.begin.len().min(b.begin.len());
    dims.into_iter().any(|d| distance(d).is_some_and(|n| n >= a.extent[d] || -n >= b.extent[d]))
}

/// Asks whether the call wants nothing but rounding to nearest without flushing, which is what plain
/// arithmetic does.
pub(super) fn plain_rounding(call: &TileCall, r: &mut Refusals) {
    r.ask(
        "rounding",
        match (call.config.get("rounding"), call.config.get("ftz")) {
            (Some(AttrValue::Str(mode)), _) if mode != "rn" => {
                Err(format!("rounding \"{mode}\" is asked for, but this rounds to nearest (\"rn\")"))
            }
            (_, Some(AttrValue::Bool(true))) => Err("ftz is asked for, but this keeps subnormal numbers".to_string()),
            _ => Ok(()),
        },
    );
}
