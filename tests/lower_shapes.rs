//! Lowering at odd, prime and tiny shapes.

mod lower_cases;

use daylight::lower::lower;
use daylight::schedule::Schedule;
use daylight::target::Target;
use lower_cases::*;

type Made = Result<Schedule, daylight::schedule::ScheduleError>;

fn check(what: &str, s: Made, target: &Target) {
    let s = match s { Ok(s) => s, Err(e) => { println!("SKIP {what}: {e}"); return } };
    if let Err(e) = lower(s.func(), target, &[]) { println!("FAIL {what}: {e}\n{}", s.func()); }
}

const SHAPES: [(i64, i64); 8] = [(1, 1), (1, 7), (3, 5), (7, 33), (13, 127), (17, 1009), (64, 4096), (33, 1024)];

#[test]
fn rows() {
    for dtype in ["float32", "float16", "int32"] {
        for (m, k) in SHAPES {
            for (threads, rows, lanes, unroll) in [(32, 1, 1, 1), (32, 4, 4, 2), (128, 1, 8, 4), (64, 3, 2, 1), (8, 16, 4, 2), (96, 2, 1, 3), (48, 1, 1, 2)] {
                let p = Rows { threads, rows, lanes, unroll };
                check(&format!("{dtype} {m}x{k} {p:?}"), schedule_rows(row_sum(m, k, dtype), p), &gpu());
            }
        }
    }
}

#[test]
fn gemvs() {
    for dtype in ["float32", "bfloat16"] {
        for (m, k) in SHAPES {
            for (threads, groups, rows, unroll, lanes) in [(32, 4, 2, 2, 8), (64, 2, 1, 1, 4), (16, 8, 3, 2, 2), (32, 1, 1, 1, 1)] {
                for shared in [false, true] {
                    let p = Gemv { threads, groups, rows, unroll, lanes, shared };
                    check(&format!("{dtype} {m}x{k} {p:?}"), schedule_gemv(gemv(m, k, dtype), p), &gpu());
                }
            }
        }
    }
}

#[test]
fn columns() {
    for dtype in ["float32", "float16"] {
        for (m, k) in SHAPES {
            for (threads, rows, lanes, unroll) in [(32, 8, 4, 2), (16, 16, 1, 1), (8, 64, 2, 1), (32, 3, 2, 2), (1, 32, 1, 1)] {
                let p = Columns { threads, rows, lanes, unroll };
                check(&format!("{dtype} {k}x{m} {p:?}"), schedule_columns(column_sum(k, m, dtype), p), &gpu());
            }
        }
    }
}

#[test]
fn others() {
    for n in [1, 7, 127, 1024, 4099] {
        for (blocks, threads) in [(4, 32), (7, 128), (32, 64)] {
            check(&format!("total {n} {blocks} {threads}"), schedule_two_launches(n, blocks, threads), &gpu());
        }
        for (t, l, u) in [(32, 4, 2), (128, 8, 1), (64, 1, 4)] {
            check(&format!("elementwise {n} {t} {l} {u}"), schedule_elementwise(elementwise(n, "float16"), t, l, u), &gpu());
        }
        for (c, w) in [(4, 8), (1, 16), (3, 4)] {
            check(&format!("elementwise cpu {n} {c} {w}"), schedule_elementwise_cpu(elementwise(n, "float32"), c, w), &cpu());
        }
    }
    for (m, k) in SHAPES {
        for (u, w) in [(1, 8), (4, 16), (2, 4)] {
            check(&format!("rows cpu {m} {k} {u} {w}"), schedule_rows_cpu(row_sum(m, k, "float32"), u, w), &cpu());
        }
    }
}
