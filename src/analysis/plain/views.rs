//! Parameters that begin somewhere in the memory of a tensor.
//!
//! Whoever passes a tensor passes the address of its first element. Where that lies in its memory is a variable that
//! nothing else uses, as views of a cache of keys and values have it, and strides that say rows lie one after the other
//! say nothing.
//!
//! before: `pages: T.Buffer((n, 16), strides=(16, 1), elem_offset=pages_elem_offset)`
//! after:  `pages: T.Buffer((n, 16))`

use crate::analysis::walk::visit_exprs;
use crate::ir::{Buffer, Expr, Name, PrimFunc};

/// The function with parameters that begin at the address that is passed, where they have this form.
pub fn plain_views(f: &PrimFunc) -> PrimFunc {
    let is_free = |b: &Buffer| match &b.elem_offset {
        Some(e) => e.is_int(0) || e.as_var().is_some_and(|name| uses(f, name) == 1),
        None => true,
    };
    let plain = |b: &Buffer| {
        let mut b = b.clone();
        if f.is_param(&b.name) && is_free(&b) {
            b.elem_offset = None;
        }
        if b.strides == row_major(&b.shape) {
            b.strides.clear();
        }
        b
    };
    let mut g = PrimFunc { buffers: f.buffers.iter().map(plain).collect(), ..f.clone() };
    let unused: Vec<Name> = f.extents.iter().map(|e| e.name.clone()).filter(|n| uses(&g, n) == 0).collect();
    g.extents.retain(|e| uses(f, &e.name) == 0 || !unused.contains(&e.name));
    g
}

/// Strides of rows one after the other; none where an extent that one depends on is symbolic.
fn row_major(shape: &[Expr]) -> Vec<Expr> {
    let mut step = 1i64;
    let mut out = vec![];
    for (d, extent) in shape.iter().enumerate().rev() {
        out.push(Expr::int(step, extent.dtype()));
        let next = extent.as_int().and_then(|n| step.checked_mul(n));
        match next {
            Some(next) => step = next,
            None if d == 0 => {}
            None => return vec![],
        }
    }
    out.reverse();
    out
}

/// How many declarations and expressions use a variable.
fn uses(f: &PrimFunc, name: &Name) -> usize {
    let declared = f.buffers.iter().flat_map(|b| b.shape.iter().chain(&b.strides).chain(&b.elem_offset));
    let mut found = declared.filter(|e| e.uses_var(name)).count();
    visit_exprs(&f.body, &mut |e| found += usize::from(e.as_var() == Some(name)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str, index: &str) -> PrimFunc {
        let text = format!(
            "e = TypeVar(\"e\")\n@T.prim_func(s_tir=True)\ndef main({header}, y: T.Buffer((8, 4), \"float32\")):\n    \
             for i, j in T.grid(8, 4):\n        with T.sblock(\"y\"):\n            \
             v, w = T.axis.remap(\"SS\", [i, j])\n            y[v, w] = x[v, w] + T.Cast(\"float32\", {index})\n"
        );
        crate::ir::read(&text, "view").expect("reads").remove(0)
    }

    #[test]
    fn an_offset_that_nothing_else_uses_and_strides_of_rows_are_gone() {
        for header in ["x: T.Buffer((8, 4), elem_offset=e)", "x: T.Buffer((8, 4), strides=(4, 1))"] {
            let f = plain_views(&read(header, "w"));
            assert!(crate::analysis::refuse(&f).is_ok() && f.extents.is_empty(), "{f}");
        }
    }

    #[test]
    fn other_offsets_and_strides_stay() {
        for (header, index) in [
            ("x: T.Buffer((8, 4), elem_offset=e)", "e"),
            ("x: T.Buffer((8, 4), elem_offset=4)", "w"),
            ("x: T.Buffer((8, 4), strides=(8, 1))", "w"),
        ] {
            let why = crate::analysis::refuse(&plain_views(&read(header, index))).expect_err("it is a view");
            assert_eq!(why.reason.predicate, "strided_buffer");
        }
    }
}
