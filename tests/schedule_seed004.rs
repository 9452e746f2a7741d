//! The mean of 2048 rows of 8192 numbers, scheduled with the steps of dlight's reduction rule for
//! 256 threads, comes out as in the document that the project was founded on, up to names,
//! declared regions, loops that run once, and the order of a block's iterators.

use crate::common::schedule::{check_form, check_numbers, read, step};
use daylight::ir::{self, Block, Expr, For, ForKind, IterKind, PrimFunc, Stmt};
use daylight::schedule::Schedule;

const STEPS: &str = "
    split(i1, [None, 256])
    rfactor(i1_1, 0)
    reorder(i0, i1_1, i1_0)
    bind(i0, blockIdx.x)
    bind(i1_1, threadIdx.x)
    annotate(i1_1, \"pragma_auto_unroll_max_step\", 256)
    annotate(i1_1, \"pragma_unroll_explicit\", 1)
    set_scope(t0_rf, \"local\")
    decompose_reduction(b0_rf, i1_0)
    reverse_compute_at(b0, i0)
    bind(ax0, threadIdx.x)
    set_scope(t0, \"local\")
    reverse_compute_at(b1, i0)";

fn schedule(func: &PrimFunc) -> Schedule {
    let mut s = Schedule::new(func.clone());
    for line in STEPS.lines().map(str::trim).filter(|l| !l.is_empty()) {
        s.apply(step(line)).unwrap_or_else(|e| panic!("{e}\n{}", s.func()));
        check_form(func, &s);
    }
    s
}

/// The text without what may differ.
fn plain(func: &PrimFunc) -> String {
    let mut f = func.clone();
    f.body = f.body.into_iter().flat_map(strip).collect();
    ir::canonicalize(f).canonical_text()
}

fn strip(s: Stmt) -> Vec<Stmt> {
    match s {
        Stmt::For(l) if l.extent.is_int(1) && l.kind == ForKind::Serial => {
            let zero = Expr::int(0, l.dtype);
            let body = l.body.iter().map(|s| s.subst(&|n| (*n == l.var).then(|| zero.clone())));
            body.flat_map(strip).collect()
        }
        Stmt::For(l) => {
            let body = l.body.iter().cloned().flat_map(strip).collect();
            vec![Stmt::For(For { body, ..l })]
        }
        Stmt::Block(mut b) => {
            b.iters.sort_by_key(|it| it.kind == IterKind::Reduce);
            vec![Stmt::Block(Block { regions: None, ..b })]
        }
        other => vec![other],
    }
}

#[test]
fn seed_004_schedule_of_the_mean() {
    let scheduled = schedule(&read(include_str!("cases/seed004/mean.tir")));
    let want = read(include_str!("cases/seed004/mean_scheduled.tir"));
    assert_eq!(plain(scheduled.func()), plain(&want), "\n{}", scheduled.func());
}

#[test]
fn the_same_steps_on_a_small_mean_keep_the_numbers() {
    let text = include_str!("cases/seed004/mean.tir").replace("2048", "3").replace("8192", "512");
    let func = read(&text);
    check_numbers(&func, schedule(&func).func(), 1);
}
