//! Sizes that are made of other sizes: an axis that is split is a product, one that several are joined
//! into is a sum. Where such a size cannot be replaced alone, it is together with what it is made of.

use super::twin::Sizes;
use crate::ir::{DType, ExprKind, PrimFunc};
use std::collections::BTreeSet;

/// Constants below this are digits, strides and the like: they make up other sizes but never change.
const LEAST: i64 = 5;
/// How often what a size is made of may itself be made of others.
const DEPTH: usize = 2;
/// Assignments of one size that are looked at.
const MOST: usize = 96;

/// Every integer constant of a function, in shapes, loops and expressions.
pub fn constants(f: &PrimFunc) -> BTreeSet<i64> {
    let mut found: BTreeSet<i64> = f.buffers.iter().flat_map(|b| &b.shape).filter_map(|e| e.as_int()).collect();
    f.visit(&mut |s| {
        s.for_each_expr(|e| {
            e.visit(&mut |e| {
                if let ExprKind::Int { value, dtype: DType::I32 | DType::I64 } = e.kind() {
                    found.insert(*value);
                }
            })
        })
    });
    found
}

/// Ways to replace a size together with the constants that it is a product or a sum of, on top of those that
/// are already replaced. `choices` are the values that a constant which is made of no others may take.
pub fn linked(
    size: i64,
    constants: &BTreeSet<i64>,
    map: &Sizes,
    choices: &dyn Fn(i64, &Sizes) -> Vec<i64>,
) -> Vec<Sizes> {
    Links { constants, choices }.made(size, map, 0)
}

/// What makes one size of two.
type Join = fn(i64, i64) -> i64;

/// Two constants and what they are joined by.
type Way = (i64, i64, Join);

struct Links<'a> {
    constants: &'a BTreeSet<i64>,
    choices: &'a dyn Fn(i64, &Sizes) -> Vec<i64>,
}

impl Links<'_> {
    /// The replacements under which `size` is what its parts make.
    fn made(&self, size: i64, map: &Sizes, depth: usize) -> Vec<Sizes> {
        let mut out = vec![];
        for (a, b, join) in self.ways(size) {
            for first in self.part(a, map, depth) {
                for mut both in self.part(b, &first, depth) {
                    both.insert(size, join(both[&a], both[&b]));
                    out.push(both);
                    if out.len() == MOST {
                        return out;
                    }
                }
            }
        }
        out
    }

    /// The replacements under which one part of a size has a value.
    fn part(&self, size: i64, map: &Sizes, depth: usize) -> Vec<Sizes> {
        if map.contains_key(&size) {
            return vec![map.clone()];
        }
        let mut out = if depth < DEPTH { self.made(size, map, depth + 1) } else { vec![] };
        let values = if size < LEAST { vec![size] } else { (self.choices)(size, map) };
        out.extend(values.into_iter().map(|v| {
            let mut alone = map.clone();
            alone.insert(size, v);
            alone
        }));
        out
    }

    /// The pairs of constants whose product or sum a size is.
    fn ways(&self, size: i64) -> Vec<Way> {
        let has = |n: i64| self.constants.contains(&n);
        let smaller = self.constants.range(2..size).copied();
        let products = smaller.clone().filter(|a| a * a <= size && size % a == 0 && has(size / a));
        let sums = smaller.filter(|a| *a >= LEAST && 2 * a <= size && has(size - a));
        let (product, sum): (Join, Join) = (|a, b| a * b, |a, b| a + b);
        products.map(|a| (a, size / a, product)).chain(sums.map(|a| (a, size - a, sum))).collect()
    }
}
