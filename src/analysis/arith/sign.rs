//! Proofs that an integer sum is at least 0, by bounds and by symbolic limits.

use super::poly::{Atom, Poly, without};
use crate::analysis::Ranges;
use crate::ir::{BinOp, Expr, ExprKind};

/// How many variables with symbolic limits a proof replaces at most.
const MAX_DEPTH: usize = 6;

/// True when the sum is proven to be at least 0.
pub fn nonnegative(p: &Poly, r: &Ranges) -> bool {
    prove_nonnegative(p, r, MAX_DEPTH)
}

/// Bounds first; then a variable (or remainder, minimum, maximum) whose coefficient has a known
/// sign is replaced by its symbolic limit, which can only make the sum smaller.
fn prove_nonnegative(p: &Poly, r: &Ranges, depth: usize) -> bool {
    if p.interval(r).lo >= 0 {
        return true;
    }
    if depth == 0 {
        return false;
    }
    let mut atoms: Vec<&Atom> = p.terms.keys().flatten().collect();
    atoms.sort();
    atoms.dedup();
    atoms.into_iter().any(|atom| {
        let Some(coeff) = linear_coeff(p, atom) else { return false };
        let sign = coeff.interval(r);
        let limits = match (sign.lo >= 0, sign.hi <= 0) {
            (true, _) => lower_limits(&atom.0),
            (_, true) => upper_limits(&atom.0, r),
            _ => return false,
        };
        limits.into_iter().any(|limit| {
            let replaced = limit.sub(&Poly::atom(atom.0.clone())).and_then(|d| p.add(&d.mul(&coeff)?));
            replaced.is_some_and(|q| prove_nonnegative(&q, r, depth - 1))
        })
    })
}

/// The factor of an atom that occurs only to the first power.
fn linear_coeff(p: &Poly, atom: &Atom) -> Option<Poly> {
    let mut coeff = Poly::default();
    for (mono, c) in &p.terms {
        if let Some(rest) = without(mono, &vec![atom.clone()]) {
            if rest.contains(atom) {
                return None;
            }
            coeff.add_term(rest, *c)?;
        }
    }
    Some(coeff)
}

/// Sums that an atom is never above, other than its constant bound.
fn upper_limits(e: &Expr, r: &Ranges) -> Vec<Poly> {
    let limits = match e.kind() {
        ExprKind::Var { name, .. } => vec![r.below(name).and_then(Poly::of).and_then(|p| p.add_const(-1))],
        ExprKind::Binary { op: BinOp::FloorMod, a, b } => {
            let d = Poly::of(b).filter(|d| d.interval(r).lo >= 1);
            let whole = Poly::of(a).filter(|a| d.is_some() && a.interval(r).lo >= 0);
            vec![d.and_then(|d| d.add_const(-1)), whole]
        }
        ExprKind::Binary { op: BinOp::Min, a, b } => vec![Poly::of(a), Poly::of(b)],
        _ => vec![],
    };
    limits.into_iter().flatten().collect()
}

/// Sums that an atom is never below, other than its constant bound.
fn lower_limits(e: &Expr) -> Vec<Poly> {
    match e.kind() {
        ExprKind::Binary { op: BinOp::Max, a, b } => [Poly::of(a), Poly::of(b)].into_iter().flatten().collect(),
        _ => vec![],
    }
}
