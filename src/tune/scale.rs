//! How large the terms are that a function adds up.
//!
//! The rounding errors of a sum are in proportion to its terms, not to what is left of them. Of many outputs the
//! root of the mean square tells how large sums of such terms are; of a few, all may have cancelled. So a twin of
//! the function computes the norm of the terms, which is the size of a sum of terms whose signs are independent.
//!
//! before: `S[i] = S[i] + x[i, k]; O[i] = S[i] / 45 - b[i]`
//! after:  `S[i] = S[i] + x[i, k] * x[i, k]; O[i] = sqrt(S[i]) / 45 + fabs(b[i])`

use crate::analysis::{BlockFacts, Combiner, Facts};
use crate::ir::{BinOp, Expr, ExprKind, Intrin, Name, PrimFunc, Stmt, UnOp};
use std::collections::{BTreeMap, BTreeSet};

/// The twin that computes sizes in place of results.
pub(super) struct Sizes {
    /// Of the same parameters and blocks.
    pub func: PrimFunc,
    /// The buffers that it leaves the squares of sizes in.
    pub squared: BTreeSet<Name>,
}

impl Sizes {
    /// The twin of a normalized function that makes sums of floats, none from another, and results that are
    /// linear in them. `None` for other functions.
    pub fn of(func: &PrimFunc, facts: &Facts) -> Option<Sizes> {
        let mut terms: BTreeMap<Name, &Expr> = BTreeMap::new();
        let mut made: BTreeSet<Name> = BTreeSet::new();
        for block in &facts.blocks {
            if block.is_reduction {
                terms.extend(sums(block)?);
            } else if block.reads.iter().any(|a| terms.contains_key(&a.buffer) || made.contains(&a.buffer)) {
                made.extend(block.writes.iter().map(|w| w.buffer.clone()));
            }
        }
        let squared: BTreeSet<Name> = terms.keys().cloned().collect();
        let sizes = Size { squared: &squared, made: &made };
        if terms.is_empty() || terms.values().any(|t| sizes.is_made(t)) {
            return None;
        }
        let mut whole = true;
        let body = func.body.iter().map(|s| rewrite(s, &terms, &sizes, &mut whole)).collect();
        whole.then(|| Sizes { func: PrimFunc { body, ..func.clone() }, squared })
    }
}

/// The sums of a reduction block with their terms; `None` where it makes anything else.
fn sums(block: &BlockFacts) -> Option<impl Iterator<Item = (Name, &Expr)>> {
    let plain = block.reducers.iter().all(|r| r.combiner == Combiner::Sum && r.dtype.is_float());
    let all = !block.reducers.is_empty() && block.reducers.len() == block.writes.len();
    (plain && all).then(|| block.reducers.iter().map(|r| (r.buffer.clone(), &r.term)))
}

/// A statement with its stores replaced; clears `whole` where one has no size.
fn rewrite(s: &Stmt, terms: &BTreeMap<Name, &Expr>, sizes: &Size, whole: &mut bool) -> Stmt {
    match s {
        Stmt::For(_) | Stmt::Block(_) => s.map_body(|s| rewrite(s, terms, sizes, whole)),
        Stmt::Store { buffer, indices, value } => {
            let new = match terms.get(buffer) {
                Some(term) => Some(Expr::load(buffer.clone(), indices.clone(), value.dtype()) + square(term)),
                None if sizes.made.contains(buffer) => sizes.of(value),
                None => Some(value.clone()),
            };
            *whole &= new.is_some();
            let value = new.unwrap_or_else(|| value.clone());
            Stmt::Store { buffer: buffer.clone(), indices: indices.clone(), value }
        }
        other => {
            let mut stores = false;
            other.visit(&mut |s| stores |= matches!(s, Stmt::Store { buffer, .. } if sizes.made.contains(buffer)));
            *whole &= !stores;
            other.clone()
        }
    }
}

fn square(e: &Expr) -> Expr {
    e.clone() * e.clone()
}

fn call(op: Intrin, e: Expr) -> Expr {
    let dtype = e.dtype();
    Expr::call(op, vec![e], dtype)
}

/// Sizes of values.
struct Size<'a> {
    /// Sums, of which the twin has squares.
    squared: &'a BTreeSet<Name>,
    /// What is computed from them.
    made: &'a BTreeSet<Name>,
}

impl Size<'_> {
    /// True for a value that depends on a sum.
    fn is_made(&self, e: &Expr) -> bool {
        let mut found = false;
        e.visit(&mut |e| {
            if let ExprKind::Load { buffer, .. } = e.kind() {
                found |= self.squared.contains(buffer) || self.made.contains(buffer);
            }
        });
        found
    }

    /// The size of a value that is linear in the sums; `None` where it is not.
    fn of(&self, e: &Expr) -> Option<Expr> {
        if !e.dtype().is_float() {
            return None;
        }
        if !self.is_made(e) {
            return Some(call(Intrin::Fabs, e.clone()));
        }
        match e.kind() {
            ExprKind::Load { buffer, .. } if self.squared.contains(buffer) => Some(call(Intrin::Sqrt, e.clone())),
            ExprKind::Load { .. } => Some(e.clone()),
            ExprKind::Binary { op: BinOp::Add | BinOp::Sub, a, b } => Some(self.of(a)? + self.of(b)?),
            ExprKind::Binary { op: BinOp::Mul, a, b } => Some(self.of(a)? * self.of(b)?),
            ExprKind::Binary { op: BinOp::Div, a, b } if !self.is_made(b) => {
                Some(Expr::binary(BinOp::Div, self.of(a)?, self.of(b)?))
            }
            ExprKind::Binary { op: BinOp::Max | BinOp::Min, a, b } => {
                Some(Expr::binary(BinOp::Max, self.of(a)?, self.of(b)?))
            }
            ExprKind::Unary { op: UnOp::Neg, arg } => self.of(arg),
            ExprKind::Call { op: Intrin::Fabs, args, .. } => self.of(args.first()?),
            ExprKind::Cast { dtype, arg } => Some(Expr::cast(*dtype, self.of(arg)?)),
            _ => None,
        }
    }
}

/// The root of the mean square of finite sizes, given as they are or as squares.
pub(super) fn typical(values: &[f64], squares: bool) -> f64 {
    let square = |v: &f64| if squares { *v } else { v * v };
    let finite = || values.iter().map(square).filter(|v| v.is_finite());
    (finite().sum::<f64>() / finite().count().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;
    use crate::rules::Prepared;

    fn twin(epilogue: &str) -> Option<String> {
        let text = format!(
            "@T.prim_func(s_tir=True)
def main(x: T.Buffer((3, 45), \"float32\"), b: T.Buffer((3,), \"float32\"), o: T.Buffer((3,), \"float32\")):
    s = T.sblock_alloc_buffer((3,))
    for i, k in T.grid(3, 45):
        with T.sblock(\"s\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                s[vi] = T.float32(0.0)
            s[vi] = s[vi] + x[vi, vk]
    for i in range(3):
        with T.sblock(\"o\"):
            vi = T.axis.spatial(3, i)
            o[vi] = {epilogue}
"
        );
        let func = crate::ir::read(&text, "test").expect("reads").remove(0);
        let p = Prepared::new(&func).expect("accepted");
        Sizes::of(&p.func, &p.facts).map(|s| s.func.to_string())
    }

    #[test]
    fn linear_results_have_sizes() {
        let text = twin("s[vi] / T.float32(45.0) - b[vi]").expect("linear");
        assert!(text.contains("s[vi] + x[vi, vk] * x[vi, vk]"), "{text}");
        assert!(text.contains("T.sqrt(") && text.contains("T.fabs("), "{text}");
        assert!(twin("T.max(s[vi], T.float32(0.0)) * b[vi]").is_some());
    }

    #[test]
    fn other_results_have_none() {
        assert_eq!(twin("T.exp(s[vi])"), None);
        assert_eq!(twin("b[vi] / s[vi]"), None);
    }

    /// The mean of 45 values in float32, added from the front, from the back and in four parts.
    fn means(x: &[f64]) -> [f32; 3] {
        let sum = |v: &mut dyn Iterator<Item = f64>| v.fold(0f32, |s, x| s + x as f32);
        let parts: f32 = (0..4).map(|k| sum(&mut x.iter().copied().skip(k).step_by(4))).sum();
        [sum(&mut x.iter().copied()), sum(&mut x.iter().rev().copied()), parts].map(|s| s / 45.0)
    }

    #[test]
    fn sums_that_cancel_are_right_and_those_that_lack_a_term_are_wrong() {
        use crate::measure::compare::Reference;
        use crate::tune::reference::{Given, expected, inputs};
        let text = "@T.prim_func(s_tir=True)
def main(x: T.Buffer((45,), \"float32\"), o: T.Buffer((1,), \"float32\")):
    s = T.sblock_alloc_buffer((1,))
    for i, k in T.grid(1, 45):
        with T.sblock(\"s\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                s[vi] = T.float32(0.0)
            s[vi] = s[vi] + x[vk]
    for i in range(1):
        with T.sblock(\"o\"):
            vi = T.axis.spatial(1, i)
            o[vi] = s[vi] / T.float32(45.0)
";
        let func = crate::ir::read(text, "test").expect("reads").remove(0);
        let p = Prepared::new(&func).expect("accepted");
        let mut cancelled = 0;
        for seed in 0..300 {
            let given = Given { seed, ..Given::default() };
            let want = expected(&p.func, &p.facts, &given).expect("it runs").outputs.remove(0);
            let x = inputs(&p.func, &given, false).expect("sizes are known").tensors[0].to_f64();
            let right = |mean: f32, scale: f64| {
                let found = Reference::new(DType::F32, &want.values).at_least(scale).compare(&mean.to_le_bytes());
                found.errors.l2 <= want.tolerance.l2 && found.errors.max <= want.tolerance.max
            };
            let scale = want.tolerance.scale;
            assert!(means(&x).iter().all(|m| right(*m, scale)), "seed {seed}: {:?} for {:?}", means(&x), want.values);
            cancelled += usize::from(!means(&x).iter().all(|m| right(*m, 0.0)));
            let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
            for short in [&x[1..], &x[..44]] {
                let gone = x.iter().sum::<f64>() - short.iter().sum::<f64>();
                let found = means(short).iter().any(|m| right(*m, scale));
                assert!(!found || gone.abs() < 1e-3 * norm, "seed {seed}: {gone} is not missed");
            }
        }
        assert!(cancelled > 0, "no sum cancels");
    }
}
