//! Elements of inputs that try what a kernel may get wrong and a normal distribution never has: NaNs, infinities, zeros of
//! both signs, ties, the smallest numbers, the ends of integers. Only where they have a meaning under every schedule
//! and do not hide other elements: one NaN makes a sum of a row no number, one infinity the maximum of the row.

use super::rounding::rounds;
use crate::analysis::{Combiner, Facts};
use crate::interp::Tensor;
use crate::ir::{BinOp, DType, Expr, ExprKind, PrimFunc, Stmt};

/// One element in so many is special.
const EVERY: usize = 11;

/// The special values of inputs.
pub(super) struct Special {
    floats: Vec<f64>,
    /// Smallest and largest.
    ends: bool,
}

impl Special {
    /// Those that have a meaning in a function.
    pub fn of(func: &PrimFunc) -> Special {
        Special { floats: floats(func), ends: !computes_integers(func) }
    }

    /// Puts them among the elements of an input.
    pub fn sprinkle(&self, t: &mut Tensor) {
        let ends = [i64::MIN, i64::MAX].map(|v| crate::interp::float_to_int(v as f64, t.dtype));
        for (n, i) in (EVERY / 2..t.len()).step_by(EVERY).enumerate() {
            match t.dtype {
                DType::Bool | DType::Handle => {}
                d if d.is_float() && !self.floats.is_empty() => t.set_f64(i, self.floats[n % self.floats.len()]),
                d if d.is_int() && self.ends => t.set_i64(i, ends[n % 2]),
                _ => {}
            }
        }
    }
}

fn floats(func: &PrimFunc) -> Vec<f64> {
    let mut out = vec![f64::NAN, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5];
    let facts = Facts::of(func);
    let reductions: Vec<_> = facts.blocks.iter().filter(|b| b.is_reduction).collect();
    let extrema = |c: Combiner| matches!(c, Combiner::Max | Combiner::Min);
    let picks =
        |b: &&crate::analysis::BlockFacts| !b.reducers.is_empty() && b.reducers.iter().all(|r| extrema(r.combiner));
    match (reductions.is_empty(), rounds(func)) {
        (true, true) => out.extend([f64::INFINITY, f64::NEG_INFINITY]),
        (true, false) => out.extend([f64::INFINITY, f64::NEG_INFINITY, 1e-41, -1e-41]),
        (false, false) if reductions.iter().all(picks) => out.extend([1e-41, -1e-41]),
        (false, _) => out.clear(),
    }
    out
}

/// True where integers that were read are added, shifted and the like, whose results may not fit their type.
fn computes_integers(func: &PrimFunc) -> bool {
    let mut found = false;
    let mut look = |e: &Expr| {
        e.visit(&mut |e| {
            let computes = match e.kind() {
                ExprKind::Binary { op, .. } => !op.is_compare() && !matches!(op, BinOp::Min | BinOp::Max),
                ExprKind::Unary { .. } | ExprKind::Call { .. } | ExprKind::Cast { .. } => true,
                _ => false,
            };
            let mut child = false;
            e.for_each_child(|c| child |= c.dtype().is_int() && c.has_load());
            found |= computes && child;
        });
    };
    func.visit(&mut |s: &Stmt| s.for_each_expr(&mut look));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn special(body: &str) -> Special {
        let text = format!(
            "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((64, 8), \"float32\"), I: T.Buffer((64, 8), \"int32\"), \
             B: T.Buffer((64,), \"float32\"), J: T.Buffer((64, 8), \"int32\")):\n    for i, j in T.grid(64, 8):\n        \
             with T.sblock(\"b\"):\n            {}\n",
            body.replace('\n', "\n            ")
        );
        Special::of(&crate::ir::read(&text, "t.py").expect("reads").remove(0))
    }

    /// `v` and `w` are iterators of the kinds, `B[v]` starts at nothing.
    fn reduction(value: &str) -> Special {
        let init = "with T.init():\n    B[v] = T.float32(0)\n";
        special(&format!("v, w = T.axis.remap(\"SR\", [i, j])\n{init}B[v] = {value}"))
    }

    #[test]
    fn what_would_hide_others_is_left_out() {
        assert!(reduction("B[v] + A[v, w]").floats.is_empty());
        let max = reduction("T.max(B[v], A[v, w])").floats;
        assert!(max.iter().any(|v| v.is_nan()) && !max.iter().any(|v| v.is_infinite()));
        let copy = special("v, w = T.axis.remap(\"SS\", [i, j])\nJ[v, w] = T.min(I[v, w], 7)");
        assert!(copy.ends && copy.floats.contains(&f64::INFINITY));
        let sum = special("v, w = T.axis.remap(\"SS\", [i, j])\nJ[v, w] = I[v, w] + 1");
        assert!(!sum.ends);
    }

    #[test]
    fn one_element_in_eleven_is_special() {
        let all = Special { floats: vec![f64::NAN, -1.0], ends: true };
        let mut t = Tensor::from_f64(DType::F32, &[33], &[2.0; 33]);
        all.sprinkle(&mut t);
        assert!(t.get_f64(5).is_nan() && t.get_f64(16) == -1.0 && t.get_f64(27).is_nan());
        assert_eq!(t.to_f64().iter().filter(|v| **v == 2.0).count(), 30);
        let mut t = Tensor::zeros(DType::I8, &[33]);
        all.sprinkle(&mut t);
        assert_eq!([5, 16, 27, 6].map(|i| t.get_i64(i)), [-128, 127, -128, 0]);
    }
}
