//! Small twins of large functions.

use super::linked::{constants, linked};
use super::twin::{Sizes, beside, keeps, with_sizes};
use crate::analysis::walk::leaves;
use crate::ir::{Expr, For, PrimFunc, Stmt};
use std::collections::BTreeSet;

/// Sizes up to this stay as they are: windows, group sizes, digits. The second is tried where the
/// first leaves too much.
const SMALL: [i64; 2] = [32, 8];
/// By how much sizes are divided, in the order of trial.
const DIVISORS: [i64; 21] = [8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 28, 24, 16, 14, 12, 8, 7, 6, 5, 4, 3, 2];

/// A function of the same structure with smaller sizes, such that its loops run at most about
/// `limit` steps in all: every distinct size is replaced by a smaller one in shapes, loops and
/// index arithmetic alike. It does what the function does, as the module around it says. `None` where
/// no such sizes are found. Sizes must be constants.
pub fn shrink(f: &PrimFunc, limit: u64) -> Option<PrimFunc> {
    SMALL.iter().map(|small| shrink_above(f, *small, limit)).find(|twin| steps(twin) <= limit)
}

/// The smallest twin found that keeps the sizes up to `small`; the function itself if there is none.
fn shrink_above(f: &PrimFunc, small: i64, limit: u64) -> PrimFunc {
    let sizes = sizes(f, small);
    let mut best = f.clone();
    let mut map = Sizes::new();
    for d in DIVISORS {
        let candidate = divided(&sizes, d);
        if let Some(twin) = accepted(f, &candidate).filter(|twin| steps(twin) < steps(&best)) {
            (best, map) = (twin, candidate);
        }
    }
    // Sizes that share no divisor with the others shrink on their own or with what they are made of,
    // largest first.
    for v in sizes.iter().rev() {
        if steps(&best) <= limit {
            break;
        }
        let smaller = alone(*v, &map).into_iter().chain(together(f, *v, &map));
        let found = smaller.filter_map(|c| Some((accepted(f, &c)?, c))).find(|(twin, _)| steps(twin) < steps(&best));
        (best, map) = found.unwrap_or((best, map));
    }
    best
}

/// One more size replaced, by smaller values in rising order.
fn alone(v: i64, map: &Sizes) -> Vec<Sizes> {
    let current = map.get(&v).copied().unwrap_or(v);
    let all = parts(current).chain([current % 13 + 4]).filter(|to| *to >= 2 && *to < current);
    let with = |to| {
        let mut candidate = map.clone();
        candidate.insert(v, to);
        candidate
    };
    all.map(with).collect()
}

/// One more size replaced together with the constants that it is made of, by smaller values in rising order.
fn together(f: &PrimFunc, v: i64, map: &Sizes) -> Vec<Sizes> {
    let mut all = linked(v, &constants(f), map, &|n, _| parts(n).filter(|to| *to >= 2).take(3).collect());
    all.sort_by_key(|way| way[&v]);
    all
}

/// The quotients of a size, in rising order.
fn parts(size: i64) -> impl Iterator<Item = i64> {
    DIVISORS.iter().filter(move |d| size % **d == 0).map(move |d| size / d)
}

/// The distinct sizes above `small` in shapes and loops.
pub fn sizes(f: &PrimFunc, small: i64) -> BTreeSet<i64> {
    let mut found = BTreeSet::new();
    let mut note = |e: &Expr| found.extend(e.as_int().filter(|v| *v > small));
    f.buffers.iter().flat_map(|b| &b.shape).for_each(&mut note);
    f.visit(&mut |s| {
        if let Stmt::For(For { extent, .. }) = s {
            note(extent);
        }
    });
    found
}

/// Every size divided by `d`; those beside a divided one keep their distance.
fn divided(sizes: &BTreeSet<i64>, d: i64) -> Sizes {
    let mut result = Sizes::new();
    for v in sizes {
        if v % d == 0 && v / d >= 2 {
            result.insert(*v, v / d);
        }
    }
    let exact = result.clone();
    for v in sizes.iter().filter(|v| !exact.contains_key(v)) {
        if let Some(small) = beside(*v, &exact) {
            result.insert(*v, small);
        }
    }
    result
}

fn accepted(f: &PrimFunc, map: &Sizes) -> Option<PrimFunc> {
    if map.is_empty() {
        return None;
    }
    let twin = with_sizes(f, map);
    (keeps(f, &twin) && steps(&twin) < steps(f)).then_some(twin)
}

/// Iterations of all leaf blocks.
pub fn steps(f: &PrimFunc) -> u64 {
    let product = |loops: &[&For]| {
        loops.iter().fold(1u64, |n, l| n.saturating_mul(l.extent.as_int().map_or(u64::MAX, |e| e.max(0) as u64)))
    };
    leaves(f).iter().fold(0, |sum, leaf| sum.saturating_add(product(&leaf.loops)))
}
