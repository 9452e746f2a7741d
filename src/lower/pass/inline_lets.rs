//! Puts the values of index variables in their place, where they are small: predicates of tile
//! variants and ranges see what an index is made of.
//!
//! before: `x = threadIdx.x // 32; if x == 0 { A[x * 8] = 0 }`
//! after:  `if threadIdx.x // 32 == 0 { A[threadIdx.x // 32 * 8] = 0 }`
//!
//! Variables that hold loads, floats, or more than [`MAX_NODES`] operations stay.

use crate::ir::device::DStmt;
use crate::ir::{DType, Expr, ExprKind, Name};
use std::collections::BTreeMap;

/// Operations of a value that is written more than once.
const MAX_NODES: usize = 24;

/// Inlines in a list and the lists inside it.
pub fn run(body: Vec<DStmt>) -> Vec<DStmt> {
    list(body, &BTreeMap::new())
}

fn list(body: Vec<DStmt>, outer: &BTreeMap<Name, Expr>) -> Vec<DStmt> {
    let mut known = outer.clone();
    let mut out = vec![];
    for s in body {
        let s = s.map_own_exprs(&mut |e| put_in(e, &known)).map_lists(|inner| list(inner, &known));
        match s {
            DStmt::Let { var, value } if is_small_index(&value) => {
                known.insert(var, value);
            }
            s => out.push(s),
        }
    }
    out
}

fn put_in(e: &Expr, known: &BTreeMap<Name, Expr>) -> Expr {
    if known.is_empty() { e.clone() } else { e.subst(&|n| known.get(n).cloned()) }
}

fn is_small_index(e: &Expr) -> bool {
    let mut nodes = 0;
    let mut plain = matches!(e.dtype(), DType::I64 | DType::I32 | DType::Bool);
    e.visit(&mut |e| {
        nodes += 1;
        plain &= !matches!(e.kind(), ExprKind::Load { .. } | ExprKind::Let { .. } | ExprKind::Call { .. });
    });
    plain && nodes <= MAX_NODES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(name: &str, value: Expr) -> DStmt {
        DStmt::Let { var: Name::new(name), value }
    }

    #[test]
    fn chains_do_not_grow_without_end() {
        let var = |n: usize| Expr::var(Name::new(format!("x{n}")), DType::I64);
        let mut body = vec![int("x0", Expr::var(Name::new("threadIdx.x"), DType::I64))];
        for n in 0..60 {
            body.push(int(&format!("x{}", n + 1), var(n) + var(n)));
        }
        body.push(DStmt::store(Name::new("A"), vec![var(60)], Expr::i32(0)));
        let out = run(body);
        assert!(out.len() > 10, "long values stay in variables");
        let mut longest = 0;
        for s in &out {
            s.for_each_expr(|e| {
                let mut nodes = 0;
                e.visit(&mut |_| nodes += 1);
                longest = longest.max(nodes);
            });
        }
        assert!(longest <= 2 * MAX_NODES + 1, "{longest} operations");
    }

    #[test]
    fn loads_are_made_where_they_stand() {
        let load = Expr::load(Name::new("A"), vec![Expr::i64(0)], DType::I64);
        let body = vec![
            int("x", load),
            DStmt::store(Name::new("A"), vec![Expr::i64(0)], Expr::var(Name::new("x"), DType::I64)),
        ];
        assert_eq!(run(body.clone()), body);
    }
}
