//! Elements outside of their buffers.

use super::points;
use super::sites::{Site, element, sites};
use super::value::{Env, value};
use crate::analysis::walk::{Leaf, leaves};
use crate::analysis::{Ranges, prove};
use crate::ir::{BinOp, Buffer, Expr, PrimFunc};
use std::ops::ControlFlow;

/// An access that leaves its buffer in some iteration.
pub fn out_of_bounds(f: &PrimFunc) -> Option<String> {
    super::for_sizes(f, &super::SMALL_TOO, |f| {
        let outer = Ranges::of_func(f);
        leaves(f).iter().find_map(|leaf| {
            let ranges = ranges_of(leaf, &outer);
            sites(leaf.block).iter().find_map(|s| outside(f, leaf, s, &ranges))
        })
    })
}

/// The ranges inside a block.
pub fn ranges_of(leaf: &Leaf, outer: &Ranges) -> Ranges {
    let mut ranges = outer.clone();
    leaf.loops.iter().for_each(|l| ranges.enter_loop(l));
    ranges.enter_block(leaf.block);
    ranges
}

fn outside(f: &PrimFunc, leaf: &Leaf, site: &Site, ranges: &Ranges) -> Option<String> {
    let buffer = f.find_buffer(&site.buffer)?;
    if is_inside(buffer, site, &site.ranges(ranges)) {
        return None;
    }
    let points = site.points(leaf.block)?;
    let (at, env) = points.each(|env| match leaves_at(buffer, site, env) {
        Some(at) => ControlFlow::Break((at, points::text(f, env))),
        None => ControlFlow::Continue(()),
    })?;
    let (name, site) = (f.display_name(&leaf.block.name), site.text(f));
    let (element, shape) = (element(f, buffer, &at), shape(buffer));
    let write = "guard it with T.if_then_else(condition, value, 0), or change the extents";
    Some(format!("block `{name}` {site}: at {env} that is {element}, outside of the shape {shape}; {write}"))
}

fn is_inside(buffer: &Buffer, site: &Site, ranges: &Ranges) -> bool {
    site.indices.iter().zip(&buffer.shape).all(|(i, extent)| {
        let below = Expr::binary(BinOp::Lt, i.clone(), Expr::cast(i.dtype(), extent.clone()));
        let from = Expr::binary(BinOp::Ge, i.clone(), Expr::int(0, i.dtype()));
        prove(&from, ranges) && prove(&below, ranges)
    })
}

/// The element, where it is known and lies outside.
fn leaves_at(buffer: &Buffer, site: &Site, env: &Env) -> Option<Vec<i64>> {
    if site.guards.iter().any(|g| value(g, env) != Some(1)) {
        return None;
    }
    // One index outside suffices; what is read from a tensor counts as inside.
    let at: Vec<Option<i64>> = site.indices.iter().map(|i| value(i, env)).collect();
    let out = at.iter().zip(&buffer.shape).any(|(v, n)| match (v, n.as_int()) {
        (Some(v), Some(n)) => *v < 0 || *v >= n,
        _ => false,
    });
    out.then(|| at.into_iter().map(|v| v.unwrap_or(0)).collect())
}

fn shape(buffer: &Buffer) -> String {
    let list: Vec<String> = buffer.shape.iter().map(|e| e.as_int().map_or("?".into(), |v| v.to_string())).collect();
    if let [one] = &list[..] { format!("({one},)") } else { format!("({})", list.join(", ")) }
}
