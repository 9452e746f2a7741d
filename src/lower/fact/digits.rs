//! The mixed-radix structure of an index: which strides it is made of.
//!
//! `ku*2048 + kv` with `ku < 4` and `kv < 8` has digits `{stride 1, size 8}` and `{stride 2048, size 4}`,
//! so that the 32 elements it reaches can be numbered without the gaps.

use crate::analysis::{Ranges, affine};
use crate::ir::{BinOp, Expr};

/// One digit: `stride * value` with `0 <= value < size`.
#[derive(Clone, Debug)]
pub struct Digit {
    pub stride: i64,
    pub size: i64,
    pub value: Expr,
}

/// The digits of an index that starts at 0, smallest stride first, neighbours without a gap
/// between them joined. `None` where it has no such form.
pub fn digits(e: &Expr, ranges: &Ranges) -> Option<Vec<Digit>> {
    let form = affine(e, ranges)?;
    if form.base != 0 {
        return None;
    }
    let mut all = vec![];
    for t in &form.terms {
        let top = ranges.get(&t.var).and_then(|i| i.finite()).filter(|(lo, _)| *lo == 0)?.1 / t.lower + 1;
        let size = t.modulo.map_or(top, |m| m.min(top));
        let mut value = crate::ir::device::index_var(&t.var);
        if t.lower != 1 {
            value = Expr::binary(BinOp::FloorDiv, value, Expr::i64(t.lower));
        }
        if let Some(m) = t.modulo {
            value = Expr::binary(BinOp::FloorMod, value, Expr::i64(m));
        }
        all.push(Digit { stride: t.coeff, size, value });
    }
    all.sort_by_key(|d| d.stride);
    (all.iter().all(|d| d.stride > 0) && is_unique(&all)).then(|| join(all))
}

/// True when no two values of the digits give the same index.
pub fn is_unique(digits: &[Digit]) -> bool {
    let mut reach = 0;
    digits.iter().all(|d| {
        let fits = d.stride > reach;
        reach += (d.size - 1) * d.stride;
        fits
    })
}

fn join(digits: Vec<Digit>) -> Vec<Digit> {
    let mut out: Vec<Digit> = vec![];
    for d in digits {
        match out.last_mut() {
            Some(last) if last.stride * last.size == d.stride => {
                let above = d.value * Expr::i64(last.size);
                last.value = last.value.clone() + above;
                last.size *= d.size;
            }
            Some(_) | None => out.push(d),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::device::index_var;

    fn ranges() -> Ranges {
        let mut r = Ranges::new();
        r.set("a", 0, 3);
        r.set("b", 0, 7);
        r
    }

    fn v(name: &str, coeff: i64) -> Expr {
        index_var(&name.into()) * Expr::i64(coeff)
    }

    #[test]
    fn gaps_separate_digits_and_dense_ones_join() {
        let gap = digits(&(v("a", 2048) + v("b", 1)), &ranges()).expect("affine");
        assert_eq!(gap.iter().map(|d| (d.stride, d.size)).collect::<Vec<_>>(), [(1, 8), (2048, 4)]);
        let dense = digits(&(v("a", 8) + v("b", 1)), &ranges()).expect("affine");
        assert_eq!(dense.iter().map(|d| (d.stride, d.size)).collect::<Vec<_>>(), [(1, 32)]);
    }

    #[test]
    fn overlapping_strides_have_no_digits() {
        assert!(digits(&(v("a", 4) + v("b", 1)), &ranges()).is_none());
        assert!(digits(&(v("a", 8) + Expr::i64(1)), &ranges()).is_none());
    }
}
