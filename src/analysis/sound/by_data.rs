//! Accesses at indices that are read from a tensor: that they lie inside, and that stores meet no element twice, the
//! author of the function answers for.

use super::bounds::ranges_of;
use super::sites::{Site, sites};
use crate::analysis::walk::leaves;
use crate::analysis::{Ranges, interval};
use crate::ir::{BinOp, Expr, ExprKind, Name, PrimFunc, Stmt};
use std::collections::BTreeSet;

/// A tensor whose elements decide where another is accessed.
pub struct IndexedBy {
    /// Where the indices are read from.
    pub tensor: Name,
    /// The least extent that its elements index, where one is known.
    pub extent: Option<i64>,
    /// A store depends on it.
    pub is_store: bool,
    /// An element with this value is passed over by a condition of the access.
    pub passed_over: Option<i64>,
}

/// One entry for every index, with the tensors read in it, in the order of the function.
pub fn indexed_by(f: &PrimFunc) -> Vec<IndexedBy> {
    let mut found = vec![];
    let outer = Ranges::of_func(f);
    for (leaf, site) in leaves(f).iter().flat_map(|leaf| sites(leaf.block).into_iter().map(move |site| (leaf, site))) {
        let Some(buffer) = f.find_buffer(&site.buffer).filter(|_| site.depends_on_data()) else { continue };
        let ranges = site.ranges(&ranges_of(leaf, &outer));
        for (index, extent) in site.indices.iter().zip(&buffer.shape) {
            each_load(index, extent.as_int().map(|n| n - beside(index, n, &ranges)), &mut |e, extent| {
                if let ExprKind::Load { buffer: tensor, .. } = e.kind() {
                    let passed_over = site.guards.iter().find_map(|g| passed_over(g, e));
                    found.push(IndexedBy { tensor: source(f, tensor), extent, is_store: site.is_store, passed_over });
                }
            });
        }
    }
    found
}

/// How far an index below `extent` goes without what is read from tensors in it: of `v + p` with `v` below 4 it is 3. 0 where that
/// is not known, or leaves nothing.
fn beside(index: &Expr, extent: i64, ranges: &Ranges) -> i64 {
    let mut terms = vec![];
    digits(index, &mut terms);
    let most = |(c, term): &(i64, &Expr)| interval(term, ranges).finite()?.1.checked_mul(*c);
    let known: Option<Vec<i64>> = terms.iter().filter(|(_, term)| !term.has_load()).map(most).collect();
    known.map_or(0, |k| k.iter().sum()).clamp(0, extent.max(1) - 1)
}

/// The loads in an index below `extent`, with what they must be below: of pages of 16 elements, `p // 16` is below their
/// number, and `p` below sixteen times that, whatever `p % 16` is. Of `p * 16 + q` below 64, `p` is below 4, and `q` below
/// 16, as digits of a number are.
fn each_load(e: &Expr, extent: Option<i64>, f: &mut impl FnMut(&Expr, Option<i64>)) {
    match e.kind() {
        ExprKind::Load { .. } => f(e, extent),
        ExprKind::Binary { op: BinOp::FloorDiv | BinOp::TruncDiv, a, b } if b.as_int().is_some_and(|c| c > 0) => {
            each_load(a, extent.zip(b.as_int()).and_then(|(n, c)| n.checked_mul(c)), f);
        }
        ExprKind::Binary { op: BinOp::FloorMod | BinOp::TruncMod, a, b }
            if b.as_int().zip(extent).is_some_and(|(c, n)| 0 < c && c <= n) =>
        {
            each_load(a, None, f);
        }
        ExprKind::Binary { op, a, b } if op.is_compare() => {
            each_load(a, None, f);
            each_load(b, None, f);
        }
        ExprKind::Binary { op: BinOp::Add | BinOp::Mul, .. } => {
            let mut terms = vec![];
            digits(e, &mut terms);
            for (c, term) in &terms {
                let next = terms.iter().map(|t| t.0).filter(|o| o > c).min();
                let most = extent.map(|n| n.div_euclid(*c) + i64::from(n % c != 0));
                let most = most.map(|n| next.map_or(n, |o| n.min(o / c)));
                match term.kind() {
                    // Nothing is known of its factors.
                    ExprKind::Binary { op: BinOp::Mul, .. } => term.for_each_child(|x| each_load(x, None, f)),
                    _ => each_load(term, most, f),
                }
            }
        }
        _ => e.for_each_child(|c| each_load(c, extent, f)),
    }
}

/// The terms of a sum with their positive constant factors.
fn digits<'e>(e: &'e Expr, out: &mut Vec<(i64, &'e Expr)>) {
    match e.kind() {
        ExprKind::Binary { op: BinOp::Add, a, b } => {
            digits(a, out);
            digits(b, out);
        }
        ExprKind::Binary { op: BinOp::Mul, a, b } => {
            let factor = |c: &Expr| c.as_int().filter(|c| *c > 0);
            match (factor(a), factor(b)) {
                (_, Some(c)) => out.push((c, a)),
                (Some(c), None) => out.push((c, b)),
                (None, None) => out.push((1, e)),
            }
        }
        _ => out.push((1, e)),
    }
}

/// Where the elements of a tensor come from: that of which an intermediate is a copy.
fn source(f: &PrimFunc, tensor: &Name) -> Name {
    let mut at = tensor.clone();
    // Of copies of copies some.
    for _ in 0..4 {
        let mut from = vec![];
        f.visit(&mut |s| {
            if let Stmt::Store { buffer, value, .. } = s
                && *buffer == at
            {
                from.push(copied(value));
            }
        });
        match &from[..] {
            [Some(other)] if !f.is_param(&at) => at = other.clone(),
            _ => return at,
        }
    }
    at
}

/// The tensor of which a value is an element.
fn copied(value: &Expr) -> Option<Name> {
    match value.kind() {
        ExprKind::Load { buffer, .. } => Some(buffer.clone()),
        ExprKind::Cast { arg, .. } => copied(arg),
        _ => None,
    }
}

/// The value of `index` for which a condition does not hold: `index != -1`, `index >= 0`.
fn passed_over(condition: &Expr, index: &Expr) -> Option<i64> {
    let ExprKind::Binary { op, a, b } = condition.kind() else { return None };
    match (op, a == index, b == index) {
        (BinOp::And, ..) => passed_over(a, index).or_else(|| passed_over(b, index)),
        (BinOp::Ne | BinOp::Gt, true, _) => b.as_int(),
        (BinOp::Ne | BinOp::Lt, _, true) => a.as_int(),
        (BinOp::Ge, true, _) => b.as_int()?.checked_sub(1),
        (BinOp::Le, _, true) => a.as_int()?.checked_sub(1),
        _ => None,
    }
}

/// True where an element of `buffer` is stored to, or not, as a tensor says.
pub fn is_scattered(f: &PrimFunc, buffer: &Name) -> bool {
    let chosen = |s: &Site| s.is_store && s.buffer == *buffer && s.depends_on_data();
    leaves(f).iter().any(|leaf| sites(leaf.block).iter().any(chosen)) || under_data(&f.body, buffer)
}

/// True where a condition that is read from a tensor stands around a store, or around the block of one.
fn under_data(body: &[Stmt], buffer: &Name) -> bool {
    let mut found = false;
    let stores = |s: &Stmt| {
        let mut stores = false;
        s.visit(&mut |s| stores |= matches!(s, Stmt::Store { buffer: b, .. } if b == buffer));
        stores
    };
    let mut look = |s: &Stmt| {
        if let Stmt::If { cond, then, otherwise } = s {
            found |= cond.has_load() && then.iter().chain(otherwise).any(stores);
        }
    };
    body.iter().for_each(|s| s.visit(&mut look));
    found
}

/// What the author answers for, a sentence each.
pub fn answered_for(f: &PrimFunc) -> Vec<String> {
    let mut said = BTreeSet::new();
    let mut out = vec![];
    for leaf in leaves(f) {
        let all = sites(leaf.block);
        // What is read of the element that is stored to is said of the store.
        for site in all.iter().filter(|s| s.indices.iter().any(Expr::has_load) && !s.updates(&all)) {
            if said.insert((leaf.block.name.clone(), site.buffer.clone(), site.is_store)) {
                out.push(sentence(f, f.display_name(&leaf.block.name), site));
            }
        }
    }
    out
}

fn sentence(f: &PrimFunc, block: &str, site: &Site) -> String {
    let mut tensors: Vec<String> = vec![];
    site.indices.iter().for_each(|i| {
        i.visit(&mut |e| {
            if let ExprKind::Load { buffer, .. } = e.kind() {
                let name = format!("`{}`", f.display_name(buffer));
                if !tensors.contains(&name) {
                    tensors.push(name);
                }
            }
        });
    });
    let (tensors, target) = (tensors.join(", "), f.display_name(&site.buffer));
    match site.is_store {
        true => format!(
            "block `{block}` stores to `{target}` at indices that are read from {tensors}: that they lie inside, and that no \
             two iterations store to one element, is yours to answer for"
        ),
        false => format!(
            "block `{block}` reads `{target}` at indices that are read from {tensors}: that they lie inside is yours to answer for"
        ),
    }
}
