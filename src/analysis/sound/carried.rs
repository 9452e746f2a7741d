//! Iterations of a block with loops inside that read what others store.

use super::bounds::ranges_of;
use super::injective::keeps_apart;
use super::sites::{Site, is_private, sites};
use crate::analysis::Ranges;
use crate::analysis::walk::{Leaf, leaves};
use crate::ir::{IterVar, PrimFunc};

/// A block that may read an element that another iteration of it stores. Within one iteration statements may.
pub fn carried(f: &PrimFunc) -> Option<String> {
    super::for_sizes(f, &super::CHOICES, |f| {
        let outer = Ranges::of_func(f);
        leaves(f).iter().filter(|leaf| leaf.block.is_serial()).find_map(|leaf| between(f, leaf, &outer))
    })
}

fn between(f: &PrimFunc, leaf: &Leaf, outer: &Ranges) -> Option<String> {
    let (ranges, all) = (ranges_of(leaf, outer), sites(leaf.block));
    let iters: Vec<&IterVar> = leaf.block.iters.iter().filter(|it| !it.extent.is_int(1)).collect();
    let updates = |s: &&Site| all.iter().any(|o| o.is_store && s.is_where(o));
    let stored = |s: &&Site| all.iter().any(|o| o.is_store && o.buffer == s.buffer);
    let private = |s: &Site| is_private(f, leaf.block, &s.buffer);
    let read = all.iter().filter(|s| !s.is_store && stored(s) && !updates(s) && !private(s)).find(|s| {
        let own: Vec<&Site> = all.iter().filter(|o| o.buffer == s.buffer).collect();
        !keeps_apart(&own, &iters, &ranges)
    })?;
    let name = f.display_name(&leaf.block.name);
    Some(format!("block `{name}` {}, which other iterations of it may store", read.text(f)))
}
