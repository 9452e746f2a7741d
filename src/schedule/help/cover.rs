//! Boxes put together: which box do several fill without gaps?
//!
//! ```text
//! t[a*4 .. a*4 + 1], t[a*4 + 2 .. a*4 + 3]    ->    t[a*4 .. a*4 + 3]
//! t[a], t[a + 5]                              ->    both, as they do not touch
//! ```

use super::regions::Region;
use super::span::{Span, at_most};
use crate::analysis::Ranges;
use crate::ir::Expr;

/// True where the two are proven to be the same.
pub fn same(a: &Region, b: &Region, ranges: &Ranges) -> bool {
    contains(a, b, ranges) && contains(b, a, ranges)
}

/// True where `inner` is proven to lie in `outer`; false where a dimension of either is not known.
pub fn contains(outer: &Region, inner: &Region, ranges: &Ranges) -> bool {
    outer.iter().zip(inner).all(|(o, i)| spans(o, i).is_some_and(|(o, i)| holds(o, i, ranges)))
}

/// Boxes that hold just what `parts` hold, joined as far as that is proven.
pub fn joined(mut parts: Vec<Region>, ranges: &Ranges) -> Vec<Region> {
    while let Some((i, j, both)) = joint(&parts, ranges) {
        parts.remove(j);
        parts[i] = both;
    }
    parts
}

/// The first two that can be joined, and the box of both.
fn joint(parts: &[Region], ranges: &Ranges) -> Option<(usize, usize, Region)> {
    let pairs = (0..parts.len()).flat_map(|i| (i + 1..parts.len()).map(move |j| (i, j)));
    pairs.into_iter().find_map(|(i, j)| Some((i, j, join(&parts[i], &parts[j], ranges)?)))
}

/// The box of two, one of which holds the other, or which touch in one dimension and agree in the others.
fn join(a: &Region, b: &Region, ranges: &Ranges) -> Option<Region> {
    if contains(a, b, ranges) {
        return Some(a.clone());
    }
    if contains(b, a, ranges) {
        return Some(b.clone());
    }
    let mut differ = 0;
    let mut both = vec![];
    for (a, b) in a.iter().zip(b) {
        let (a, b) = spans(a, b)?;
        if holds(a, b, ranges) && holds(b, a, ranges) {
            both.push(Some(a.clone()));
        } else {
            differ += 1;
            both.push(Some(touch(a, b, ranges).then(|| a.union(b, ranges))?));
        }
    }
    (differ == 1).then_some(both)
}

fn spans<'a>(a: &'a Option<Span>, b: &'a Option<Span>) -> Option<(&'a Span, &'a Span)> {
    a.as_ref().zip(b.as_ref())
}

fn holds(outer: &Span, inner: &Span, ranges: &Ranges) -> bool {
    at_most(&outer.lo, &inner.lo, ranges) && at_most(&inner.hi, &outer.hi, ranges)
}

/// True where no element lies between the two.
fn touch(a: &Span, b: &Span, ranges: &Ranges) -> bool {
    let after = |s: &Span| s.hi.clone() + Expr::int(1, s.hi.dtype());
    at_most(&a.lo, &after(b), ranges) && at_most(&b.lo, &after(a), ranges)
}
