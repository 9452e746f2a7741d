//! The kernels that schedules of each kind are lowered to, as text.

use crate::common;
use crate::lower_cases::*;
use daylight::lower::lower;
use daylight::schedule::Schedule;
use daylight::target::Target;

fn golden(name: &str, s: &Schedule, target: &Target) {
    let p = lower(s.func(), target, &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
    common::golden(&format!("golden/lower/{name}.kernel"), &p.to_string());
}

#[test]
fn seed_mean() {
    let f = read(include_str!("golden/lower/mean_seed.py"));
    golden("mean_seed", &Schedule::new(f), &gpu());
}

#[test]
fn row_sum_with_vector_loads() {
    let knobs = Rows { threads: 128, rows: 1, lanes: 4, unroll: 4 };
    golden("row_sum", &schedule_rows(row_sum(2048, 8192, "float32"), knobs).expect("a schedule"), &gpu());
}

#[test]
fn several_rows_per_block_with_a_tail() {
    let knobs = Rows { threads: 32, rows: 4, lanes: 8, unroll: 2 };
    golden("row_sum_tail", &schedule_rows(row_sum(37, 1000, "float16"), knobs).expect("a schedule"), &gpu());
}

#[test]
fn gemv_with_rows_and_vector_in_registers() {
    let knobs = Gemv { threads: 32, groups: 4, rows: 2, unroll: 4, lanes: 8, shared: false };
    golden("gemv", &schedule_gemv(gemv(4096, 4096, "bfloat16"), knobs).expect("a schedule"), &gpu());
}

#[test]
fn gemv_with_the_vector_in_shared_memory() {
    let knobs = Gemv { threads: 64, groups: 2, rows: 1, unroll: 2, lanes: 8, shared: true };
    golden("gemv_shared", &schedule_gemv(gemv(1024, 2048, "float16"), knobs).expect("a schedule"), &gpu());
}

#[test]
fn column_sum_over_rows_of_threads() {
    let knobs = Columns { threads: 32, rows: 8, lanes: 4, unroll: 4 };
    golden("column_sum", &schedule_columns(column_sum(4096, 1024, "float32"), knobs).expect("a schedule"), &gpu());
}

#[test]
fn total_in_two_launches() {
    golden("total", &schedule_two_launches(1 << 20, 256, 256).1.expect("a schedule"), &gpu());
}

#[test]
fn elementwise_through_registers() {
    let s = schedule_elementwise(elementwise(1 << 16, "float16"), 256, 8, 2).expect("a schedule");
    golden("elementwise", &s, &gpu());
}

#[test]
fn rows_on_the_cpu() {
    let s = schedule_rows_cpu(row_sum(512, 4096, "float32"), 4, 16).expect("a schedule");
    golden("row_sum_cpu", &s, &cpu());
}

#[test]
fn elementwise_on_the_cpu() {
    let s = schedule_elementwise_cpu(elementwise(1 << 16, "float32"), 64, 16).expect("a schedule");
    golden("elementwise_cpu", &s, &cpu());
}

#[test]
fn past_the_caches_and_ahead_of_time_on_the_cpu() {
    let s = schedule_ahead_cpu(elementwise(1 << 16, "float32"), 64, 32, 2).expect("a schedule");
    golden("ahead_cpu", &s, &cpu());
}
