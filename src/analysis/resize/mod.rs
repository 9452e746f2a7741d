//! A function at awkward sizes: the same structure where every size is odd, prime or one.

pub mod linked;
pub mod shrink;
pub mod twin;

use crate::analysis::resize::linked::{constants, linked};
use crate::analysis::resize::shrink::{sizes, steps};
use crate::analysis::resize::twin::{Sizes, keeps, with_sizes};
use crate::ir::{Expr, IterKind, PrimFunc, Stmt};
use std::collections::BTreeSet;

/// Sizes that have become smaller are at least this large: longer than a warp and most vectors; and where that
/// leaves more than [`STEPS`] steps of loops, this.
const FROM: [i64; 2] = [33, 9];
/// Steps that are quick to simulate.
const STEPS: u64 = 1_000_000;

/// What sizes become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awkward {
    /// Odd numbers that are not prime where possible.
    Odd,
    /// Primes.
    Prime,
    /// 1 where the accesses allow it, else the smallest that they do.
    One,
}

impl Awkward {
    /// Sizes up to this stay as they are where they are more than lengths of axes: windows, group sizes, digits.
    fn least(self) -> i64 {
        match self {
            Awkward::Odd | Awkward::Prime => 32,
            Awkward::One => 8,
        }
    }

    /// What a size may become, in order of trial: smaller ones, from `from` on. The first ones differ, so that
    /// axes do not get the same size by chance.
    fn candidates(self, size: i64, from: i64) -> Vec<i64> {
        let near = from..size.min(200);
        match self {
            Awkward::Odd => {
                near.filter(|n| n % 2 == 1 && !prime(*n)).chain(below(&[1155, 3465, 10395], size)).collect()
            }
            Awkward::Prime => near.filter(|n| prime(*n)).chain(below(&[1031, 4099, 16411], size)).collect(),
            Awkward::One => (1..size.min(64)).collect(),
        }
    }

    /// What an axis of at most [`Awkward::least`] elements may become, in order.
    fn short(self) -> &'static [i64] {
        match self {
            Awkward::Odd => &[3, 5, 9, 15],
            Awkward::Prime => &[3, 5, 7, 11],
            Awkward::One => &[1, 2, 3],
        }
    }

    /// What a constant may become that a size is made of.
    fn parts(self, constant: i64, from: i64, map: &Sizes) -> Vec<i64> {
        let all = if constant > self.least() { self.candidates(constant, from) } else { self.short().to_vec() };
        let fresh = |c: &i64| self == Awkward::One || !map.values().any(|v| v == c);
        all.into_iter().filter(fresh).take(3).collect()
    }

    /// True for a size of this kind.
    fn holds(self, n: i64) -> bool {
        match self {
            Awkward::Odd => n % 2 == 1,
            Awkward::Prime => prime(n),
            Awkward::One => true,
        }
    }

    /// The value for a symbolic extent.
    pub fn extent(self) -> i64 {
        match self {
            Awkward::Odd => 21,
            Awkward::Prime => 23,
            Awkward::One => 1,
        }
    }
}

fn below(sizes: &[i64], limit: i64) -> impl Iterator<Item = i64> {
    sizes.iter().copied().filter(move |n| *n < limit)
}

fn prime(n: i64) -> bool {
    n > 1 && (2..n).take_while(|d| d * d <= n).all(|d| n % d != 0)
}

/// A function of the same structure in which each distinct size is replaced by an awkward one, largest
/// first, each by one that no other size has where possible. It does what the function does: every access
/// that provably stays in its buffer still does, every store that fills its buffer still fills it, and an
/// index without divisions has none afterwards. A size for which that cannot be had alone is replaced
/// together with the constants that it is a product or sum of; if that cannot be had either, it stays.
/// Short axes become shorter. Extents must be constants.
pub fn resize(f: &PrimFunc, to: Awkward) -> PrimFunc {
    let [large, small] = FROM;
    let resized = resize_from(f, to, large);
    if steps(&resized) <= STEPS { resized } else { resize_from(f, to, small) }
}

/// The same with sizes from `from` on.
fn resize_from(f: &PrimFunc, to: Awkward, from: i64) -> PrimFunc {
    let mut r = Resizer { f, to, from, constants: constants(f), map: Sizes::new() };
    for size in sizes(f, to.least()).into_iter().rev() {
        if !r.map.contains_key(&size) && !r.alone(size, to.candidates(size, from)) {
            r.together(size);
        }
    }
    for size in plain(f).into_iter().rev() {
        if !r.map.contains_key(&size) {
            r.alone(size, to.short().iter().copied().filter(|n| *n < size).collect());
        }
    }
    with_sizes(f, &r.map)
}

struct Resizer<'a> {
    f: &'a PrimFunc,
    to: Awkward,
    from: i64,
    constants: BTreeSet<i64>,
    /// What was decided so far.
    map: Sizes,
}

impl Resizer<'_> {
    /// Takes the first of several ways to replace one size more that keeps the function what it is.
    fn take(&mut self, ways: impl IntoIterator<Item = Sizes>) -> bool {
        let found = ways.into_iter().find(|way| keeps(self.f, &with_sizes(self.f, way)));
        let took = found.is_some();
        self.map = found.unwrap_or_else(|| std::mem::take(&mut self.map));
        took
    }

    /// Replaces a size by one of `values`, those first that no other size has.
    fn alone(&mut self, size: i64, mut values: Vec<i64>) -> bool {
        values.sort_by_key(|c| self.to != Awkward::One && self.map.values().any(|v| v == c));
        let map = self.map.clone();
        self.take(values.into_iter().map(|c| {
            let mut way = map.clone();
            way.insert(size, c);
            way
        }))
    }

    /// Replaces a size with the constants that it is made of.
    fn together(&mut self, size: i64) -> bool {
        let mut ways = linked(size, &self.constants, &self.map, &|n, map| self.to.parts(n, self.from, map));
        ways.sort_by_key(|way| !self.to.holds(way[&size]));
        self.take(ways)
    }
}

/// The sizes that are only lengths of axes that nothing is reduced over: no index mentions them.
fn plain(f: &PrimFunc) -> BTreeSet<i64> {
    let mut lengths = sizes(f, 1);
    let mut other = BTreeSet::new();
    f.visit(&mut |s| {
        let Stmt::Block(b) = s else {
            if !matches!(s, Stmt::For(_)) {
                s.for_each_expr(|e| mentioned(e, &mut other));
            }
            return;
        };
        let reduced = b.iters.iter().filter(|i| i.kind != IterKind::Spatial);
        other.extend(reduced.filter_map(|i| i.extent.as_int()));
        b.guard.iter().chain(b.iters.iter().map(|i| &i.binding)).for_each(|e| mentioned(e, &mut other));
    });
    lengths.retain(|n| (n - 1..=n + 1).all(|n| !other.contains(&n)));
    lengths
}

/// The integer constants in an expression.
fn mentioned(e: &Expr, found: &mut BTreeSet<i64>) {
    e.visit(&mut |e| found.extend(e.as_int()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(text: &str) -> PrimFunc {
        crate::ir::read(text, "test").expect("reads").remove(0)
    }

    const GROUPED: &str = "@T.prim_func(s_tir=True)
def main(A: T.Buffer((64, 128), \"uint32\"), B: T.Buffer((64, 1024), \"uint32\")):
    for i, j in T.grid(64, 1024):
        with T.sblock(\"unpack\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[vi, vj] = A[vi, vj // 8]
";

    #[test]
    fn related_sizes_stay_related() {
        let f = resize(&function(GROUPED), Awkward::Prime);
        let shapes: Vec<Vec<i64>> =
            f.buffers.iter().map(|b| b.shape.iter().filter_map(|e| e.as_int()).collect()).collect();
        assert_eq!(shapes, [[43, 41], [43, 37]]);
    }

    #[test]
    fn sizes_become_one() {
        let f = resize(&function(GROUPED), Awkward::One);
        assert!(f.buffers.iter().all(|b| b.len() == Some(1)), "{f}");
    }

    fn shapes(f: &PrimFunc) -> Vec<Vec<i64>> {
        f.buffers.iter().map(|b| b.shape.iter().filter_map(|e| e.as_int()).collect()).collect()
    }

    const KINDS: [Awkward; 3] = [Awkward::Odd, Awkward::Prime, Awkward::One];

    #[test]
    fn products_of_axes_stay_products() {
        let f = function(
            "@T.prim_func(s_tir=True)
def main(A: T.Buffer((320, 64), \"float32\"), B: T.Buffer((32, 10, 64), \"float32\")):
    for i, j, k in T.grid(32, 10, 64):
        with T.sblock(\"reshape\"):
            vi, vj, vk = T.axis.remap(\"SSS\", [i, j, k])
            B[vi, vj, vk] = A[(vi * 10 + vj) % 320, vk]
",
        );
        for to in KINDS {
            let [a, b] = &shapes(&resize(&f, to))[..] else { panic!("two buffers") };
            assert!(a[0] == b[0] * b[1] && a[1] == b[2] && a[0] != 320 && a[1] != 64, "{to:?}: {a:?} {b:?}");
            assert!(to == Awkward::Prime || to.holds(a[0]), "{to:?}: {a:?}");
        }
        let twin = crate::analysis::shrink(&f, 100).expect("a small one");
        let [a, b] = &shapes(&twin)[..] else { panic!("two buffers") };
        assert_eq!(a[0], b[0] * b[1]);
    }

    const HEADS: &str = "@T.prim_func(s_tir=True)
def main(A: T.Buffer((48, 64), \"float32\"), Q: T.Buffer((32, 64), \"float32\"), K: T.Buffer((8, 64), \"float32\"), V: T.Buffer((8, 64), \"float32\")):
    for i, j in T.grid(48, 64):
        with T.sblock(\"split\"):
            h, d = T.axis.remap(\"SS\", [i, j])
            if h < 32:
                Q[h, d] = A[h, d]
            else:
                if h < 40:
                    K[h - 32, d] = A[h, d]
                else:
                    V[h - 40, d] = A[h, d]
";

    #[test]
    fn what_is_stored_whole_stays_whole() {
        let f = function(HEADS);
        let small = KINDS.map(|to| resize(&f, to)).into_iter().chain(crate::analysis::shrink(&f, 20));
        let all: Vec<Vec<Vec<i64>>> = small.map(|f| shapes(&f)).collect();
        assert_eq!(all.len(), 4);
        for s in all {
            assert!(s[0][0] == s[1..].iter().map(|s| s[0]).sum::<i64>() && s[0][0] < 48, "{s:?}");
            assert!(s.iter().all(|s| s[1] != 64), "{s:?}");
        }
    }
}
