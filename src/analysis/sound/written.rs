//! Elements of intermediate buffers that are read before a block has stored to them.

use super::bounds::ranges_of;
use super::in_order;
use super::injective::injective;
use super::points;
use super::sites::{Site, element, sites};
use super::value::value;
use crate::analysis::walk::{Leaf, leaves};
use crate::analysis::{Interval, Ranges, bounds};
use crate::ir::{Block, Buffer, Expr, IterKind, IterVar, Name, Param, PrimFunc, Stmt};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Elements of a buffer that are noted one by one.
const MOST: i64 = 1 << 20;

/// A read of an intermediate that nothing has stored to.
pub fn read_before_write(f: &PrimFunc) -> Option<String> {
    super::for_sizes(f, &super::CHOICES, |f| read_unwritten(f, None))
}

/// True where a parameter is read at elements that no block before stores to: what the caller left there is read.
pub fn reads_as_given(f: &PrimFunc, param: &Name) -> bool {
    // Of sizes that are not known one choice shows it.
    read_unwritten(&sized(f, 64), Some(param)).is_some()
}

fn sized(f: &PrimFunc, step: i64) -> PrimFunc {
    let values = f.extents.iter().enumerate().map(|(i, e)| (e.name.as_str().to_string(), step * (i as i64 + 1)));
    f.bind(&values.collect())
}

/// True where every element of a parameter is stored to before any store whose place or condition is data.
pub fn is_filled_first(f: &PrimFunc, param: &Name) -> bool {
    // A constant that is one choice of sizes is not the other.
    [64, 97].into_iter().all(|step| fills_first(&sized(f, step), param))
}

fn fills_first(f: &PrimFunc, param: &Name) -> bool {
    let Some(buffer) = f.find_buffer(param) else { return false };
    let (outer, found) = (Ranges::of_func(f), leaves(f));
    let mut stores = found.iter().flat_map(|leaf| {
        let ranges = ranges_of(leaf, &outer);
        let own: Vec<Site> = sites(leaf.block).into_iter().filter(|s| s.is_store && s.buffer == *param).collect();
        own.into_iter().map(move |s| Store::of(leaf.block, s, &ranges)).collect::<Vec<Store>>()
    });
    stores.find_map(|s| if s.site.depends_on_data() { Some(false) } else { s.fills(buffer).then_some(true) })
        == Some(true)
}

/// A read that comes before any store to its element, of intermediates, or of one parameter.
fn read_unwritten(f: &PrimFunc, only: Option<&Name>) -> Option<String> {
    let outer = Ranges::of_func(f);
    let mut earlier: Vec<Store> = vec![];
    leaves(f).iter().find_map(|leaf| {
        if only.is_none()
            && let Some(why) = set_in_part(f, leaf)
        {
            return Some(why);
        }
        let (mut own, ranges, has_steps) = (vec![], ranges_of(leaf, &outer), leaf.block.is_serial());
        if let Some(param) = only.filter(|param| has_steps && !stores_first(f, leaf, param, &earlier)) {
            return Some(format!("block `{}` reads elements of `{param}` as they were given", leaf.block.name));
        }
        for site in sites(leaf.block) {
            if site.is_store {
                own.push(site);
                continue;
            }
            let is_param = || f.params.iter().any(|p| matches!(p, Param::Buffer(b) if *b == site.buffer));
            // Of a block with loops inside that was asked above; what it keeps for itself counts as stored.
            let before = |s: &Site| s.buffer == site.buffer && has_steps;
            let just_stored = own.iter().any(|s| site.is_where(s) || before(s));
            let asked = only.map_or_else(|| !is_param(), |b| *b == site.buffer);
            if asked && !just_stored {
                let why = unwritten(f, leaf, &site, &earlier);
                if why.is_some() {
                    return why;
                }
            }
        }
        earlier.extend(own.into_iter().map(|site| Store::of(leaf.block, site, &ranges)));
        None
    })
}

/// True where a block with loops inside reads nothing of a parameter that was not stored to before.
fn stores_first(f: &PrimFunc, leaf: &Leaf, param: &Name, earlier: &[Store]) -> bool {
    let Some(buffer) = f.find_buffer(param) else { return false };
    let stores: Vec<&Store> = earlier.iter().filter(|s| s.site.buffer == *param).collect();
    let exact = elements(buffer, &stores);
    let is_written = |at: &[i64]| exact.as_ref().is_some_and(|map| map.contains_key(at));
    stores.iter().any(|s| s.fills(buffer)) || in_order::stores_first(leaf.block, param, &is_written)
}

/// An init that is indexed by a reduction, of which it sees the first value alone.
fn set_in_part(f: &PrimFunc, leaf: &Leaf) -> Option<String> {
    let reduced = leaf.block.iters.iter().filter(|it| it.kind == IterKind::Reduce && !it.extent.is_int(1));
    let uses = |s: &Stmt, it: &IterVar| match s {
        Stmt::Store { indices, .. } => indices.iter().any(|e| e.uses_var(&it.var)),
        _ => false,
    };
    let it = reduced.into_iter().find(|it| leaf.block.init.iter().any(|s| uses(s, it)))?;
    let (iter, name) = (f.display_name(&it.var), f.display_name(&leaf.block.name));
    Some(format!(
        "block `{name}` sets elements by `{iter}` in T.init(), which runs for the first value of that reduction alone; make \
         it T.axis.spatial"
    ))
}

/// A store of an earlier block.
struct Store<'a> {
    block: &'a Block,
    site: Site,
    /// No element outside of it is stored to.
    hull: Vec<Option<(i64, i64)>>,
    /// What is known where it is.
    ranges: Ranges,
}

impl<'a> Store<'a> {
    fn of(block: &'a Block, site: Site, ranges: &Ranges) -> Store<'a> {
        let inner = site.ranges(ranges);
        Store { block, hull: site.indices.iter().map(|i| bounds(i, &inner)).collect(), site, ranges: inner }
    }

    /// Every element of the buffer.
    fn fills(&self, buffer: &Buffer) -> bool {
        self.site.guards.is_empty() && (self.by_dimension(buffer) || self.by_number(buffer))
    }

    /// Each dimension has an iterator of its own.
    fn by_dimension(&self, buffer: &Buffer) -> bool {
        let own = |(k, (i, n)): (usize, (&Expr, &Expr))| match self.block.as_iter(i) {
            Some(it) => {
                let alone = self.site.indices.iter().enumerate().all(|(j, e)| j == k || e != i);
                alone && it.min.is_int(0) && it.extent.as_int() == n.as_int()
            }
            None => i.is_int(0) && n.is_int(1),
        };
        self.site.indices.iter().zip(&buffer.shape).enumerate().all(own)
    }

    /// As many iterations as there are elements, each of which stores to another.
    fn by_number(&self, buffer: &Buffer) -> bool {
        let iters: Vec<&IterVar> = self.block.iters.iter().chain(&self.site.steps).collect();
        let runs = iters.iter().try_fold(1i64, |n, it| n.checked_mul(it.extent.as_int()?));
        runs.is_some() && runs == buffer.len() && injective(&self.site.indices, &iters, &self.ranges)
    }

    fn may_reach(&self, at: &[i64]) -> bool {
        let inside = |v: i64, hull: &Option<(i64, i64)>| {
            hull.is_none_or(|(lo, hi)| Interval::point(v).within(Interval::new(lo, hi)))
        };
        at.iter().zip(&self.hull).all(|(v, hull)| inside(*v, hull))
    }
}

fn unwritten(f: &PrimFunc, leaf: &Leaf, site: &Site, earlier: &[Store]) -> Option<String> {
    let buffer = f.find_buffer(&site.buffer)?;
    let stores: Vec<&Store> = earlier.iter().filter(|s| s.site.buffer == site.buffer).collect();
    let name = f.display_name(&leaf.block.name);
    if stores.is_empty() {
        let text = site.text(f);
        return Some(format!(
            "block `{name}` {text}, and no block before it stores to that; move the block that does in front of it"
        ));
    }
    if stores.iter().any(|s| s.fills(buffer) || s.site.depends_on_data()) || site.depends_on_data() {
        return None;
    }
    let exact = elements(buffer, &stores);
    let is_written = |at: &[i64]| match &exact {
        Some(map) => map.contains_key(at),
        None => stores.iter().any(|s| s.may_reach(at)),
    };
    let points = site.points(leaf.block)?;
    let (at, env) = points.each(|env| {
        if site.guards.iter().any(|g| value(g, env) != Some(1)) {
            return ControlFlow::Continue(());
        }
        match site.indices.iter().map(|i| value(i, env)).collect::<Option<Vec<i64>>>() {
            Some(at) if !is_written(&at) => ControlFlow::Break((at, points::text(f, env))),
            _ => ControlFlow::Continue(()),
        }
    })?;
    let element = element(f, buffer, &at);
    Some(format!("block `{name}` reads {element} at {env}, which no block before it stores to; store it first"))
}

/// The elements that are stored to, where they can be listed.
fn elements(buffer: &Buffer, stores: &[&Store]) -> Option<BTreeMap<Vec<i64>, ()>> {
    if buffer.len().is_none_or(|n| n > MOST) {
        return None;
    }
    let mut found = BTreeMap::new();
    for s in stores {
        let points = s.site.points(s.block)?;
        if !points.is_all {
            return None;
        }
        let unknown = points.each(|env| {
            if s.site.guards.iter().any(|g| value(g, env) == Some(0)) {
                return ControlFlow::Continue(());
            }
            match s.site.indices.iter().map(|i| value(i, env)).collect::<Option<Vec<i64>>>() {
                Some(at) => {
                    found.insert(at, ());
                    ControlFlow::Continue(())
                }
                None => ControlFlow::Break(()),
            }
        });
        if unknown.is_some() {
            return None;
        }
    }
    Some(found)
}
