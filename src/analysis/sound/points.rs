//! Iterations of a block to try an access at.

use super::value::Env;
use crate::ir::{Expr, IterVar, Name, PrimFunc};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Iterations that are tried of one block at most.
const MOST: usize = 1 << 16;

/// Values of iterators, of which every combination is an iteration.
pub struct Points<'a> {
    vars: Vec<(&'a Name, Vec<i64>)>,
    /// True where these are all there are.
    pub is_all: bool,
}

impl<'a> Points<'a> {
    /// Iterations over `iters`, for expressions. `None` where a domain is not known.
    pub fn of<'e>(
        iters: impl Iterator<Item = &'a IterVar>,
        exprs: impl Iterator<Item = &'e Expr>,
    ) -> Option<Points<'a>> {
        let mut constants = BTreeSet::new();
        exprs.for_each(|e| e.visit(&mut |e| constants.extend(e.as_int())));
        let domain = |it: &'a IterVar| Some((&it.var, it.min.as_int()?, it.extent.as_int()?.max(0)));
        let domains: Vec<_> = iters.map(domain).collect::<Option<_>>()?;
        let all = domains.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(d.2).ok()?));
        let is_all = all.is_some_and(|n| n <= MOST);
        let values = |(var, min, extent): (&'a Name, i64, i64)| {
            let list = if is_all { (0..extent).collect() } else { chosen(extent, &constants) };
            (var, list.into_iter().map(|v| v.saturating_add(min)).collect())
        };
        let mut points = Points { vars: domains.into_iter().map(values).collect(), is_all };
        points.thin();
        Some(points)
    }

    /// Leaves values out until there are few enough iterations, never the first two and the last.
    fn thin(&mut self) {
        while self.vars.iter().map(|v| v.1.len() as f64).product::<f64>() > MOST as f64 {
            let Some((_, longest)) = self.vars.iter_mut().max_by_key(|v| v.1.len()) else { return };
            let n = longest.len();
            let mut at = 0;
            longest.retain(|_| {
                at += 1;
                at <= 2 || at == n || at % 2 == 0
            });
            if longest.len() == n {
                longest.truncate(2);
            }
        }
    }

    /// Calls `f` with every iteration until it breaks.
    pub fn each<T>(&self, mut f: impl FnMut(&Env) -> ControlFlow<T>) -> Option<T> {
        let mut at = vec![0; self.vars.len()];
        if self.vars.iter().any(|v| v.1.is_empty()) {
            return None;
        }
        let mut env: Vec<(&Name, i64)> = self.vars.iter().map(|(n, v)| (*n, v[0])).collect();
        loop {
            if let ControlFlow::Break(found) = f(&env) {
                return Some(found);
            }
            let step = (0..at.len()).rev().find(|k| at[*k] + 1 < self.vars[*k].1.len())?;
            at[step] += 1;
            at[step + 1..].iter_mut().for_each(|i| *i = 0);
            (step..at.len()).for_each(|k| env[k].1 = self.vars[k].1[at[k]]);
        }
    }
}

/// Values of a domain that indices change their course at.
fn chosen(extent: i64, constants: &BTreeSet<i64>) -> Vec<i64> {
    let mut out: BTreeSet<i64> = [0, 1, 2, 3, extent / 2, extent - 2, extent - 1].into();
    for c in constants.iter().filter(|c| **c > 1 && **c <= extent) {
        out.extend([c - 1, *c, c + 1, extent - c]);
    }
    out.retain(|v| (0..extent).contains(v));
    out.into_iter().collect()
}

/// The iteration, for people: `vi = 3, vj = 0`.
pub fn text(f: &PrimFunc, env: &Env) -> String {
    let list: Vec<String> = env.iter().map(|(n, v)| format!("{} = {v}", f.display_name(n))).collect();
    if list.is_empty() { "its only iteration".to_string() } else { list.join(", ") }
}
