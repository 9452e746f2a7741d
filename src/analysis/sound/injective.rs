//! Proof that different iterations have different indices.
//!
//! An index is a sum of digits `c * ((v // lower) % modulo)`. Where every coefficient exceeds what those smaller
//! than it can add up to, the sum gives each digit away. An iterator is known when its digits are, or when it is
//! the only thing in a sum that is not yet.

use super::sites::Site;
use crate::analysis::{Affine, Ranges, Term, affine, simplify};
use crate::ir::{Expr, IterVar, Name};
use std::collections::BTreeSet;

/// True when accesses to one buffer in different iterations are to different elements, whatever the loops inside the
/// block do: the dimensions in which all of them have the same index tell the iterations apart.
pub fn keeps_apart(sites: &[&Site], iters: &[&IterVar], ranges: &Ranges) -> bool {
    let Some((first, others)) = sites.split_first() else { return true };
    let has_steps = sites.iter().any(|s| !s.steps.is_empty());
    let index = |s: &&Site| if has_steps { simple(s, ranges) } else { s.indices.clone() };
    let plain: Vec<Vec<Expr>> = sites.iter().map(index).collect();
    let common = |d: &usize| (0..=others.len()).all(|k| plain[k].get(*d) == plain[0].get(*d));
    let shared: Vec<Expr> = (0..first.indices.len()).filter(common).map(|d| plain[0][d].clone()).collect();
    injective(&shared, iters, &inside(first, ranges))
}

fn inside(site: &Site, ranges: &Ranges) -> Ranges {
    let mut inside = ranges.clone();
    site.steps.iter().for_each(|it| inside.set_span(it.var.clone(), &it.min, &it.extent));
    inside
}

fn simple(site: &Site, ranges: &Ranges) -> Vec<Expr> {
    let inside = inside(site, ranges);
    site.indices.iter().map(|i| simplify(i, &inside)).collect()
}

/// True when the indices determine every one of the iterators. The ranges are those of the iterators.
pub fn injective(indices: &[Expr], iters: &[&IterVar], ranges: &Ranges) -> bool {
    let sums: Vec<Affine> = indices.iter().filter_map(|e| affine(e, ranges)).collect();
    let mut known: BTreeSet<Name> = BTreeSet::new();
    let unknown = |known: &BTreeSet<Name>| iters.iter().filter(|it| !known.contains(&it.var)).count();
    loop {
        let before = unknown(&known);
        if before == 0 {
            return true;
        }
        let digits: Vec<Term> = sums.iter().flat_map(|s| readable(s, &known, ranges)).collect();
        let found = iters.iter().filter(|it| covers(it, &digits, ranges)).map(|it| it.var.clone());
        known.extend(found);
        if unknown(&known) == before {
            return false;
        }
    }
}

/// The digits that a sum gives away when some iterators are known.
fn readable(sum: &Affine, known: &BTreeSet<Name>, ranges: &Ranges) -> Vec<Term> {
    let open: Vec<&Term> = sum.terms.iter().filter(|t| !known.contains(&t.var)).collect();
    let mut below: i128 = 0;
    for t in open.iter().rev() {
        let Some(most) = largest(t, ranges) else { return vec![] };
        let size = i128::from(t.coeff.unsigned_abs());
        if size <= below {
            return vec![];
        }
        below += size * i128::from(most);
    }
    open.into_iter().cloned().collect()
}

/// The largest value of a digit, whose smallest is at least 0.
fn largest(t: &Term, ranges: &Ranges) -> Option<i64> {
    let range = ranges.get(&t.var)?;
    if range.lo < 0 {
        return None;
    }
    let quotient = range.hi / t.lower;
    Some(t.modulo.map_or(quotient, |m| quotient.min(m - 1)))
}

/// True when the digits of an iterator are all that it has.
fn covers(it: &IterVar, digits: &[Term], ranges: &Ranges) -> bool {
    let Some(range) = ranges.get(&it.var) else { return false };
    let mut reach = 1;
    loop {
        if range.hi < reach {
            return true;
        }
        // The remainder by `reach` is known, and so is that by every divisor of it.
        let own = || digits.iter().filter(|t| t.var == it.var && reach % t.lower == 0);
        if own().any(|t| t.modulo.is_none()) {
            return true;
        }
        let next = own().filter_map(|t| t.lower.checked_mul(t.modulo?));
        let Some(top) = next.max().filter(|top| *top > reach) else { return false };
        reach = top;
    }
}
