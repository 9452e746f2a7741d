//! A function at awkward sizes: the same structure where every size is odd, prime or one.

use super::shrink::{Sizes, sizes};
use super::twin::{in_bounds, with_sizes};
use crate::ir::PrimFunc;

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
    /// Sizes up to this stay as they are: windows, group sizes, digits.
    fn least(self) -> i64 {
        match self {
            Awkward::Odd | Awkward::Prime => 32,
            Awkward::One => 8,
        }
    }

    /// The sizes to try, in order. The first ones differ, so that axes do not get the same size by chance.
    fn candidates(self) -> Vec<i64> {
        let prime = |n: i64| (2..n).take_while(|d| d * d <= n).all(|d| n % d != 0);
        match self {
            Awkward::Odd => (33..200).filter(|n| n % 2 == 1 && !prime(*n)).chain([1155, 3465, 10395]).collect(),
            Awkward::Prime => (37..200).filter(|n| prime(*n)).chain([1031, 4099, 16411]).collect(),
            Awkward::One => (1..64).collect(),
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

/// A function of the same structure in which each distinct size is replaced by an awkward one, largest
/// first, each by one that no other size has where possible. Every access that provably stays in its buffer
/// still does; a size for which that cannot be had stays. Extents must be constants.
pub fn resize(f: &PrimFunc, to: Awkward) -> PrimFunc {
    let mut map = Sizes::new();
    let candidates = to.candidates();
    for size in sizes(f, to.least()).into_iter().rev() {
        let fits = |c: &&i64| {
            let mut tried = map.clone();
            tried.insert(size, **c);
            in_bounds(f, &with_sizes(f, &tried))
        };
        let fresh = candidates.iter().filter(|c| to == Awkward::One || !map.values().any(|v| v == *c));
        if let Some(c) = fresh.clone().find(fits).or_else(|| candidates.iter().find(fits)) {
            map.insert(size, *c);
        }
    }
    with_sizes(f, &map)
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
}
