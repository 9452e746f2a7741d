//! Iterations that store to one element.

use super::bounds::ranges_of;
use super::injective::keeps_apart;
use super::points::{self, Points};
use super::sites::{Site, element, is_private, sites};
use super::value::value;
use crate::analysis::Ranges;
use crate::analysis::walk::{Leaf, leaves};
use crate::ir::{Buffer, IterKind, IterVar, Name, PrimFunc};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

/// A block of which two iterations store to one element.
pub fn overlapping_writes(f: &PrimFunc) -> Option<String> {
    super::for_sizes(f, &super::CHOICES, |f| {
        let outer = Ranges::of_func(f);
        leaves(f).iter().find_map(|leaf| {
            let ranges = ranges_of(leaf, &outer);
            let all: Vec<Site> = sites(leaf.block).into_iter().filter(|s| s.is_store).collect();
            let shared = all.iter().map(|s| &s.buffer).filter(|b| !is_private(f, leaf.block, b));
            let buffers: BTreeSet<&Name> = shared.collect();
            buffers.into_iter().find_map(|b| {
                let mut stores: Vec<&Site> = vec![];
                for s in all.iter().filter(|s| s.buffer == *b) {
                    if !stores.iter().any(|t| t.indices == s.indices && t.guards == s.guards) {
                        stores.push(s);
                    }
                }
                colliding(f, leaf, f.find_buffer(b)?, &stores, &ranges)
            })
        })
    })
}

/// The iterators that tell iterations apart: spatial ones, and reductions that an index uses.
fn iterators<'a>(leaf: &Leaf<'a>, stores: &[&Site]) -> Vec<&'a IterVar> {
    let used = |it: &IterVar| stores.iter().any(|s| s.indices.iter().any(|e| e.uses_var(&it.var)));
    leaf.block.iters.iter().filter(|it| it.kind == IterKind::Spatial || used(it)).collect()
}

fn colliding(f: &PrimFunc, leaf: &Leaf, buffer: &Buffer, stores: &[&Site], ranges: &Ranges) -> Option<String> {
    let iters = iterators(leaf, stores);
    if keeps_apart(stores, &iters, ranges) {
        return None;
    }
    let (name, target) = (f.display_name(&leaf.block.name), f.display_name(&buffer.name));
    let write = "index it by every spatial iterator, or make the axis a reduction with T.axis.reduce";
    let used = |it: &IterVar| stores.iter().any(|s| s.exprs().any(|e| e.uses_var(&it.var)));
    if let Some(it) = iters.iter().find(|it| !it.extent.is_int(1) && !used(it)) {
        let iter = f.display_name(&it.var);
        return Some(format!(
            "block `{name}` stores to one element of `{target}` for several values of `{iter}`; {write}"
        ));
    }
    if stores.iter().any(|s| s.depends_on_data()) {
        return None;
    }
    let known = iters.len();
    let mut steps: Vec<&IterVar> = vec![];
    stores.iter().flat_map(|s| &s.steps).for_each(|it| {
        if used(it) && !steps.contains(&it) {
            steps.push(it);
        }
    });
    let points = Points::of(iters.into_iter().chain(steps), stores.iter().flat_map(|s| s.exprs()))?;
    let mut seen: HashMap<Vec<i64>, Vec<i64>> = HashMap::new();
    let mut is_known = points.is_all;
    let found = points.each(|env| {
        let here: Vec<i64> = env.iter().take(known).map(|(_, v)| *v).collect();
        for s in stores.iter().filter(|s| s.guards.iter().all(|g| value(g, env) != Some(0))) {
            let Some(at) = s.indices.iter().map(|i| value(i, env)).collect::<Option<Vec<i64>>>() else {
                is_known = false;
                continue;
            };
            let first = seen.entry(at.clone()).or_insert_with(|| here.clone());
            if *first != here {
                let other: Vec<(&Name, i64)> = env.iter().map(|(n, _)| *n).zip(first.iter().copied()).collect();
                return ControlFlow::Break((at, points::text(f, &other), points::text(f, &env[..known])));
            }
        }
        ControlFlow::Continue(())
    });
    let Some((at, one, other)) = found else {
        let unproved = || {
            let of = stores[0].text(f);
            format!("block `{name}` {of}, and that no two iterations store to one element cannot be proved; {write}")
        };
        return (!is_known).then(unproved);
    };
    let element = element(f, buffer, &at);
    Some(format!("block `{name}` stores to {element} at {one} and at {other}; {write}"))
}
