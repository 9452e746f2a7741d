//! Loops outside of blocks, or in blocks without iterators, as `te.extern` and IR builders leave them, and blocks inside
//! of blocks, as blocks whose bodies have an order: scans, scatters, searches.
//!
//! Loops whose iterations do not depend on each other become iterators: those that are proved to keep to elements of
//! their own, and those that the author made parallel where places are read from tensors. What is left of the nest is the
//! body, and runs in its order. A function that is scheduled, or that calls, stays as it is.
//!
//! before: `block scan(): parallel v in 5: y[v, 0] = x[v, 0]; for k in 29: y[v, k + 1] = y[v, k] + x[v, k + 1]`
//! after:  `for v in 5: block scan(w = v): y[w, 0] = x[w, 0]; for k in 29: y[w, k + 1] = y[w, k] + x[w, k + 1]`

mod dissolve;
mod halving;
mod peel;

use super::walk::{fresh, names};
use crate::ir::{Block, Name, PrimFunc, Stmt};
use std::collections::BTreeSet;

/// The function with such statements as blocks, where they have a form that is understood.
pub fn serial(f: &PrimFunc) -> PrimFunc {
    // A variable outside of every loop is for all statements after it.
    let shared = f.body.iter().any(|s| matches!(s, Stmt::Let { .. } | Stmt::Alloc { .. }));
    if shared || f.body.iter().all(is_plain) {
        return f.clone();
    }
    let mut used = names(f);
    let units = |s: &Stmt| match is_plain(s) {
        true => vec![s.clone()],
        false => blocks(f, s, &mut used).unwrap_or_else(|| vec![s.clone()]),
    };
    let body = f.body.iter().flat_map(units).collect();
    PrimFunc { body, ..f.clone() }
}

/// True for loops around blocks of straight statements, which need nothing.
fn is_plain(s: &Stmt) -> bool {
    match s {
        Stmt::For(l) => l.body.iter().all(is_plain),
        Stmt::Block(b) => b.init.iter().chain(&b.body).all(is_straight) && !b.is_serial(),
        _ => false,
    }
}

fn is_straight(s: &Stmt) -> bool {
    match s {
        Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Evaluate(_) => true,
        Stmt::If { then, otherwise, .. } => then.iter().chain(otherwise).all(is_straight),
        Stmt::For(_) | Stmt::Block(_) | Stmt::While { .. } | Stmt::Attr { .. } | Stmt::Alloc { .. } => false,
    }
}

/// The blocks that a statement becomes, in order.
fn blocks(f: &PrimFunc, s: &Stmt, used: &mut BTreeSet<Name>) -> Option<Vec<Stmt>> {
    let (name, list) = (name_of(s), dissolve::statements(s)?);
    let list = halving::bounded(list, used);
    // A variable or an array of its own is for all statements after it.
    let one = list.iter().any(|s| matches!(s, Stmt::Let { .. } | Stmt::Alloc { .. }));
    let units = if one { vec![list] } else { list.into_iter().map(|s| vec![s]).collect() };
    let mut made = vec![];
    for (k, unit) in units.into_iter().enumerate() {
        let name = match &name {
            Some(name) if k == 0 => name.clone(),
            _ => fresh(used, "part"),
        };
        made.push(peel::block(f, name, unit, used));
    }
    Some(made)
}

/// The name of the first block in a statement.
fn name_of(s: &Stmt) -> Option<Name> {
    let mut found = None;
    s.visit(&mut |s| {
        if let Stmt::Block(Block { name, .. }) = s {
            found.get_or_insert_with(|| name.clone());
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(args: &str, body: &str) -> PrimFunc {
        let text = format!("@T.prim_func(s_tir=True)\ndef main({args}):\n{body}");
        serial(&crate::ir::read(&text, "serial").expect("reads").remove(0))
    }

    fn taken(f: &PrimFunc) {
        let said = super::super::refuse(f);
        assert!(said.is_ok(), "{said:?}\n{f}");
    }

    const ROWS: &str = "x: T.Buffer((5, 30), \"float32\"), y: T.Buffer((5, 30), \"float32\")";

    #[test]
    fn rows_of_a_scan_are_iterations() {
        let f = made(
            ROWS,
            "    with T.sblock(\"scan\"):
        T.reads()
        T.writes()
        for v in T.parallel(5):
            y[v * 30 // 30, v * 30 % 30] = x[v * 30 // 30, v * 30 % 30]
            for k in range(29):
                y[(v * 30 + (k + 1)) // 30, (v * 30 + (k + 1)) % 30] = y[(v * 30 + k) // 30, (v * 30 + k) % 30] + \
                 x[(v * 30 + (k + 1)) // 30, (v * 30 + (k + 1)) % 30]
",
        );
        taken(&f);
        let Stmt::For(l) = &f.body[0] else { panic!("{f}") };
        assert!(
            l.extent.is_int(5) && matches!(&l.body[0], Stmt::Block(b) if b.iters.len() == 1 && b.is_serial()),
            "{f}"
        );
    }

    #[test]
    fn what_depends_on_the_step_before_stays_in_the_body() {
        let f = made(ROWS, "    for i, j in T.grid(4, 30):\n        y[i + 1, j] = y[i, j] + x[i, j]\n");
        taken(&f);
        let Stmt::For(l) = &f.body[0] else { panic!("{f}") };
        assert!(l.extent.is_int(30), "the columns are apart, the rows are not: {f}");
    }

    #[test]
    fn a_store_that_leaves_its_buffer_is_still_refused() {
        let f = made(ROWS, "    for i, j in T.grid(5, 30):\n        y[i, j + 1] = x[i, j]\n");
        let why = super::super::refuse(&f).expect_err("it leaves the buffer");
        assert_eq!(why.reason.predicate, "out_of_bounds");
        let inside = "    for i in range(5):\n        for j in range(30):\n            y[i, 0] = x[i, j + 1]\n";
        let why = super::super::refuse(&made(ROWS, inside)).expect_err("the loop inside does");
        assert_eq!(why.reason.predicate, "out_of_bounds");
    }

    #[test]
    fn scatters_after_a_copy_are_two_blocks() {
        let f = made(
            "x: T.Buffer((9, 7), \"float32\"), p: T.Buffer((4, 7), \"int64\"), u: T.Buffer((4, 7), \"float32\"), \
             y: T.Buffer((9, 7), \"float32\")",
            "    with T.sblock(\"scatter\"):
        T.reads()
        T.writes()
        T.attr({\"pragma_scope\": \"seq\"})
        for v in T.parallel(63):
            y[v // 7, v % 7] = x[v // 7, v % 7]
        for v in T.parallel(7):
            for k in range(4):
                y[p[k, v], T.int64(v)] = y[p[k, v], T.int64(v)] + u[k, v]
",
        );
        taken(&f);
        assert_eq!(f.body.len(), 2, "{f}");
        let y = f.params.len() - 1;
        assert_eq!(super::super::roles(&f)[y], crate::ir::Role::Out, "the copy fills it");
    }

    #[test]
    fn a_search_that_halves_its_range_has_a_bound() {
        let f = made(
            "a: T.Buffer((30,), \"float32\"), x: T.Buffer((7,), \"float32\"), y: T.Buffer((7,), \"int64\")",
            "    with T.sblock(\"search\"):
        T.reads()
        T.writes()
        for v in T.parallel(7):
            lo: T.int64
            hi: T.int64
            lo = T.int64(0)
            hi = T.int64(30)
            while lo < hi:
                if a[lo + (hi - lo >> T.int64(1))] < x[v]:
                    lo = lo + (hi - lo >> T.int64(1)) + T.int64(1)
                else:
                    hi = lo + (hi - lo >> T.int64(1))
            y[v] = lo
",
        );
        taken(&f);
        assert!(f.to_string().contains("in range(5):"), "2 ** 5 is more than 30: {f}");
    }

    #[test]
    fn a_range_that_may_be_another_is_halved_as_often_as_its_type_allows() {
        let f = made(
            "a: T.Buffer((30,), \"float32\"), y: T.Buffer((7,), \"int64\")",
            "    for v in T.parallel(7):
        b = T.alloc_local((2,), \"int64\")
        b[0] = T.int64(0)
        b[1] = T.int64(30)
        b[v // 4] = T.int64(1)
        while b[0] < b[1]:
            if a[b[0] + (b[1] - b[0] >> T.int64(1))] < T.float32(0):
                b[0] = b[0] + (b[1] - b[0] >> T.int64(1)) + T.int64(1)
            else:
                b[1] = b[0] + (b[1] - b[0] >> T.int64(1))
        y[v] = b[0]
",
        );
        assert!(f.to_string().contains("in range(64):"), "{f}");
    }

    #[test]
    fn a_sum_of_its_own_is_no_store_of_other_iterations() {
        let f = made(
            ROWS,
            "    for v in T.parallel(5):
        s: T.float32
        s = T.float32(0)
        for k in range(30):
            s = s + x[v, k]
            y[v, k] = s
",
        );
        taken(&f);
        let Stmt::For(l) = &f.body[0] else { panic!("{f}") };
        assert!(l.extent.is_int(5), "{f}");
    }

    #[test]
    fn a_variable_outside_of_every_loop_stays_refused() {
        let f = made(
            ROWS,
            "    s: T.float32
    s = T.float32(0)
    for v in range(5):
        for k in range(30):
            s = s + x[v, k]
            y[v, k] = s
",
        );
        let why = super::super::refuse(&f).expect_err("the sum goes on over the rows");
        assert_eq!(why.reason.predicate, "statement_outside_block");
    }

    #[test]
    fn other_loops_without_a_bound_stay_refused() {
        let f = made(
            "x: T.Buffer((7,), \"int32\"), y: T.Buffer((7,), \"int32\")",
            "    for i in range(7):\n        y[i] = x[i]\n        while y[i] > 1:\n            y[i] = y[i] - 2\n",
        );
        let why = super::super::refuse(&f).expect_err("nobody knows how often");
        assert_eq!(why.reason.predicate, "while_loop");
    }

    #[test]
    fn a_block_inside_a_block_is_part_of_its_body() {
        let f = made(
            "y: T.Buffer((4, 4), \"float32\")",
            "    for i in range(4):
        with T.sblock(\"o\"):
            vi = T.axis.spatial(4, i)
            for j in range(4):
                with T.sblock(\"n\"):
                    vj = T.axis.spatial(4, j)
                    y[vi, vj] = T.float32(0)
",
        );
        taken(&f);
        assert!(matches!(&f.body[0], Stmt::For(_)), "{f}");
    }
}
