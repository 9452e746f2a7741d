//! Loops that run no step, and intermediates without elements, as what they are: nothing.
//!
//! Parts of a model may be empty at the sizes at hand, as what a rotary embedding of the whole head leaves as it is. Where a
//! block is over no element it stores nothing; a load of a tensor without elements never runs, whatever guards it.
//!
//! before: `t[v0] = x[v0 + 8]` over `v0 < 0`; `y[v1] = if_then_else(v1 < 8, x[v1], t[v1 - 8])`
//! after:  `y[v1] = if_then_else(v1 < 8, x[v1], 0)`

use crate::ir::{Expr, ExprKind, IterKind, Name, PrimFunc, Stmt};

/// The function without loops that store nothing and without intermediates that hold nothing.
pub fn without_empty(f: &PrimFunc) -> PrimFunc {
    let empty: Vec<Name> = f.buffers.iter().filter(|b| b.is_empty()).map(|b| b.name.clone()).collect();
    let body: Vec<Stmt> = f.body.iter().map(|s| s.map_exprs(&mut |e| never(e, &empty))).collect();
    let gone = |name: &Name| empty.contains(name) && !f.is_param(name);
    let mut rest = PrimFunc { body: left(&body, &gone), ..f.clone() };
    rest.buffers.retain(|b| !gone(&b.name));
    rest.allocs.retain(|name| !gone(name));
    rest
}

/// Zero for what is never loaded.
fn never(e: &Expr, empty: &[Name]) -> Expr {
    match e.kind() {
        ExprKind::Load { buffer, .. } if empty.contains(buffer) => Expr::constant(0.0, e.dtype()),
        _ => e.map_children(|inner: &Expr| never(inner, empty)),
    }
}

/// What is left of statements.
fn left(body: &[Stmt], gone: &dyn Fn(&Name) -> bool) -> Vec<Stmt> {
    let one = |s: &Stmt| {
        let mut s = s.clone();
        match &mut s {
            Stmt::For(l) if l.extent.is_int(0) && stores_nothing(&l.body) => return None,
            Stmt::For(l) => {
                l.body = left(&l.body, gone);
                return (!l.body.is_empty()).then_some(s);
            }
            Stmt::Block(b) => {
                b.body = left(&b.body, gone);
                b.allocs.retain(|name| !gone(name));
                b.regions.iter_mut().for_each(|r| r.reads.retain(|r| !gone(&r.buffer)));
            }
            _ => {}
        }
        Some(s)
    };
    body.iter().filter_map(one).collect()
}

/// True where each block is over no element: a sum of no terms would have a result all the same.
fn stores_nothing(body: &[Stmt]) -> bool {
    let mut nothing = true;
    body.iter().for_each(|s| {
        s.visit(&mut |s| {
            if let Stmt::Block(b) = s {
                nothing &= b.iters.iter().any(|it| it.kind == IterKind::Spatial && it.extent.is_int(0));
            }
        });
    });
    nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rest: &str) -> PrimFunc {
        let text = format!(
            "@T.prim_func(s_tir=True)\ndef main(x: T.Buffer((8,), \"float32\"), y: T.Buffer((8,), \"float32\")):\n    \
             t = T.sblock_alloc_buffer((0,))\n{rest}"
        );
        crate::ir::read(&text, "empty").expect("reads").remove(0)
    }

    const SLICE: &str = "    for i in range(0):\n        with T.sblock(\"t\"):\n            \
                         v = T.axis.spatial(0, i)\n            T.reads(x[v + 8])\n            T.writes(t[v])\n            t[v] = x[v + 8]\n";
    const CONCAT: &str = "    for i in range(8):\n        with T.sblock(\"y\"):\n            \
                          v = T.axis.spatial(8, i)\n            T.reads(t[v - 8], x[v])\n            T.writes(y[v])\n            \
                          y[v] = T.if_then_else(v < 8, x[v], t[v - 8])\n";

    #[test]
    fn a_concatenation_with_nothing_is_what_else_it_has() {
        let f = without_empty(&read(&format!("{SLICE}{CONCAT}")));
        let text = f.to_string();
        assert!(f.allocs.is_empty() && !text.contains("(0,)") && text.contains("T.float32(0"), "{text}");
        assert!(crate::analysis::refuse(&f).is_ok(), "{text}");
    }

    #[test]
    fn a_parameter_without_elements_is_not_read() {
        let header = "t: T.Buffer((0,), \"float32\"), x: T.Buffer((8,), \"float32\"), y: T.Buffer((8,), \"float32\")";
        let text = format!("@T.prim_func(s_tir=True)\ndef main({header}):\n{CONCAT}");
        let f = without_empty(&crate::ir::read(&text, "empty").expect("reads").remove(0));
        assert!(f.params.len() == 3 && crate::analysis::refuse(&f).is_ok(), "{f}");
    }

    #[test]
    fn a_sum_of_no_terms_and_results_without_elements_stay() {
        let sum = "    for i, k in T.grid(8, 0):\n        with T.sblock(\"y\"):\n            \
                   v, w = T.axis.remap(\"SR\", [i, k])\n            with T.init():\n                y[v] = T.float32(0)\n            \
                   y[v] = y[v] + x[w]\n";
        let why = crate::analysis::refuse(&without_empty(&read(sum))).expect_err("nobody writes y");
        assert_eq!(why.reason.predicate, "zero_extent");
        let header = "x: T.Buffer((8,), \"float32\"), y: T.Buffer((0,), \"float32\")";
        let result = "    for i in range(0):\n        with T.sblock(\"y\"):\n            \
                      v = T.axis.spatial(0, i)\n            y[v] = x[v]\n";
        // what is computed for a result without elements alone is none either
        let unused = "    t = T.sblock_alloc_buffer((8,))\n    for i in range(8):\n        with T.sblock(\"t\"):\n            \
                      v = T.axis.spatial(8, i)\n            t[v] = x[v]\n";
        for before in ["", unused] {
            let text = format!("@T.prim_func(s_tir=True)\ndef main({header}):\n{before}{result}");
            let f = crate::ir::read(&text, "none").expect("reads").remove(0);
            let why = crate::analysis::refuse(&without_empty(&f)).expect_err("there is nothing to compute");
            assert!(why.reason.text.contains("leave out the call"), "{}", why.reason.text);
        }
    }
}
