//! `bind`: the iterations of a loop become blocks or threads of a launch.
//!
//! ```text
//! for i in 256:   ->   for i in thread_binding(256, "threadIdx.x"):
//! ```
//!
//! Preconditions: `serial_loop`, `zero_min`; `constant_extent` (threads and virtual threads);
//! `known_iterators`; `loops_separate`: no loop drives spatial and reduction iterators of a block
//! with an init; but for threads and blocks of a cluster, which may share a reduction: `spatial_only`,
//! `own_results`; but for threads, which may share data: `own_data`; `tag_free`: no loop around or below has the tag; `extent_agrees`:
//! loops of the same launch with that tag have the same extent.
//!
//! Effect: the loop's kind changes.

use crate::ir::{For, ForKind, Name, PrimFunc, Stmt, ThreadTag};
use crate::schedule::help::{checks, flow, tree};
use crate::schedule::{Draft, Failure};

/// Binds loop `at` to `tag`.
pub fn apply(d: &mut Draft, at: &Name, &tag: &ThreadTag) -> Result<(), Failure> {
    let l = d.find_loop(at)?;
    checks::serial_loop(l)?;
    checks::zero_min(l)?;
    if !tag.is_block() {
        checks::constant_extent(l)?;
    }
    checks::known_iterators(l)?;
    if tag.is_thread() || tag == ThreadTag::ClusterX {
        checks::loops_separate(l, l)?;
    } else {
        checks::spatial_only(l)?;
        flow::own_results(l)?;
    }
    if !tag.is_thread() {
        flow::own_data(&d.func, l)?;
    }
    tag_free(&d.func, l, tag)?;
    extent_agrees(&d.func, l, tag)?;
    tree::edit_loop(&mut d.func, at, |l| l.kind = ForKind::Thread(tag));
    Ok(())
}

fn tag_free(func: &PrimFunc, l: &For, tag: ThreadTag) -> Result<(), Failure> {
    let around = tree::path(func, &l.var).unwrap_or_default();
    let mut taken = around.iter().find_map(|s| bound(s, tag)).map(|o| o.var.clone());
    l.body.iter().for_each(|s| s.visit(&mut |s| taken = taken.take().or(bound(s, tag).map(|o| o.var.clone()))));
    taken.map_or(Ok(()), |other| {
        let why = format!("loop `{other}` of the same nest is bound to {} already", tag.name());
        Err(Failure::new("tag_free", &l.var, why))
    })
}

fn extent_agrees(func: &PrimFunc, l: &For, tag: ThreadTag) -> Result<(), Failure> {
    let launch = tree::path(func, &l.var).and_then(|p| p.first().copied());
    let mut differs = None;
    launch.iter().for_each(|s| {
        s.visit(&mut |s| {
            if let Some(o) = bound(s, tag).filter(|o| o.extent.as_int() != l.extent.as_int()) {
                differs.get_or_insert((o.var.clone(), o.extent.as_int()));
            }
        })
    });
    differs.map_or(Ok(()), |(other, extent)| {
        let text = |n: Option<i64>| n.map_or_else(|| "a symbolic extent".to_string(), |n| format!("extent {n}"));
        let why = format!(
            "loop `{}` has {}, but loop `{other}` of the same launch is bound to {} with {}",
            l.var,
            text(l.extent.as_int()),
            tag.name(),
            text(extent)
        );
        Err(Failure::new("extent_agrees", &l.var, why))
    })
}

fn bound(s: &Stmt, tag: ThreadTag) -> Option<&For> {
    match s {
        Stmt::For(l) if l.kind == ForKind::Thread(tag) => Some(l),
        _ => None,
    }
}
