//! What the rules do with the primitives that move blocks: each schedule on sizes that divide, odd
//! sizes, primes and symbolic ones, checked after every step.

use crate::common;
use crate::common::schedule::{read, take};
use daylight::schedule::Schedule;

const ROW_SUM: &str = "
m = TypeVar(\"m\")
n = TypeVar(\"n\")
@T.prim_func
def main(A: T.Buffer((M, N), \"int32\"), B: T.Buffer((M,), \"int32\")):
    S = T.sblock_alloc_buffer((M,), \"int32\")
    for i, k in T.grid(M, N):
        with T.sblock(\"sum\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                S[vi] = 0
            S[vi] = S[vi] + A[vi, vk]
    for i in range(M):
        with T.sblock(\"scale\"):
            vi = T.axis.spatial(M, i)
            B[vi] = S[vi] * 3
";

const GEMV: &str = "
m = TypeVar(\"m\")
n = TypeVar(\"n\")
@T.prim_func
def main(W: T.Buffer((M, N), \"int32\"), x: T.Buffer((N,), \"int32\"), y: T.Buffer((M,), \"int32\")):
    for i, k in T.grid(M, N):
        with T.sblock(\"gemv\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                y[vi] = 0
            y[vi] = y[vi] + W[vi, vk] * x[vk]
";

const COLUMN_MAX: &str = "
m = TypeVar(\"m\")
n = TypeVar(\"n\")
@T.prim_func
def main(A: T.Buffer((N, M), \"float32\"), B: T.Buffer((M,), \"float32\")):
    for j, i in T.grid(M, N):
        with T.sblock(\"max\"):
            vj, vi = T.axis.remap(\"SR\", [j, i])
            with T.init():
                B[vj] = T.float32(-1000)
            B[vj] = T.max(A[vi, vj], B[vj])
";

const BIAS: &str = "
m = TypeVar(\"m\")
n = TypeVar(\"n\")
@T.prim_func
def main(A: T.Buffer((M, N), \"int32\"), b: T.Buffer((N,), \"int32\"), C: T.Buffer((M, N), \"int32\")):
    for i, j in T.grid(M, N):
        with T.sblock(\"add\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            C[vi, vj] = A[vi, vj] + b[vj]
";

const TWO_REDUCTIONS: &str = "
m = TypeVar(\"m\")
n = TypeVar(\"n\")
@T.prim_func
def main(A: T.Buffer((M, T.int64(3), N), \"int32\"), B: T.Buffer((M,), \"int32\")):
    for i, r, k in T.grid(M, T.int64(3), N):
        with T.sblock(\"sum\"):
            vi, vr, vk = T.axis.remap(\"SRR\", [i, r, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vr, vk]
";

/// A size of the function: a number, or a name for a symbolic one.
fn sized(text: &str, m: &str, n: &str) -> String {
    let size = |s: &str| if s.parse::<i64>().is_ok() { format!("T.int64({s})") } else { s.to_string() };
    let mut text = text.replace("(M", &format!("({}", size(m))).replace("M)", &format!("{})", size(m)));
    text = text.replace("(N", &format!("({}", size(n))).replace("N)", &format!("{})", size(n)));
    text = text.replace("M,", &format!("{},", size(m))).replace("N,", &format!("{},", size(n)));
    let unused =
        |line: &&str| !(line.contains("TypeVar(\"m\")") && m != "m" || line.contains("TypeVar(\"n\")") && n != "n");
    text.lines().filter(unused).map(|l| format!("{l}\n")).collect()
}

const SIZES: [(&str, &str); 5] = [("8", "64"), ("6", "50"), ("5", "7"), ("13", "31"), ("2", "9")];
const SYMBOLIC: [(&str, &str); 3] = [("m", "n"), ("m", "64"), ("6", "n")];

fn on_sizes(sizes: &[(&str, &str)], text: &str, steps: &str) -> Vec<Schedule> {
    sizes.iter().map(|(m, n)| take(&read(&sized(text, m, n)), steps)).collect()
}

fn everywhere(text: &str, steps: &str) -> Vec<Schedule> {
    let mut all = on_sizes(&SIZES, text, steps);
    all.extend(on_sizes(&SYMBOLIC, text, steps));
    all
}

/// Compares the function for one of the sizes with its golden text.
fn golden(name: &str, s: &Schedule) {
    common::golden(&format!("golden/schedule/{name}.txt"), &s.func().canonical_text());
}

#[test]
fn row_reduction() {
    let all = everywhere(
        ROW_SUM,
        "split(i1, [None, 2, 4, 2])
         rfactor(i1_2, 0)
         reorder(i0, i1_2, i1_0, i1_1, i1_3)
         cache_read(b0_rf, p0, \"local\")
         compute_at(p0_local_b, i1_1)
         set_scope(t0_rf, \"local\")
         set_scope(t0, \"local\")
         reverse_compute_at(b0, i0)
         reverse_compute_at(b1, i0)
         decompose_reduction(b0_rf, i1_0)
         bind(i0, blockIdx.x)
         bind(i1_2, threadIdx.x)",
    );
    golden("row_reduction_8x64", &all[0]);
    golden("row_reduction_13x31", &all[3]);
    golden("row_reduction_symbolic", &all[5]);
}

#[test]
fn row_reduction_vectorised_copy() {
    let s = take(
        &read(&sized(ROW_SUM, "4", "64")),
        "split(i1, [None, 4, 2])
         rfactor(i1_1, 0)
         reorder(i0, i1_1, i1_0, i1_2)
         cache_read(b0_rf, p0, \"local\")
         compute_at(p0_local_b, i1_0)
         vectorize(ax0_1)",
    );
    assert!(!s.func().canonical_text().contains("T.where"), "a split that divides needs no guard");
}

#[test]
fn second_rfactor() {
    everywhere(
        ROW_SUM,
        "split(i1, [None, 4, 2])
         rfactor(i1_1, 0)
         rfactor(i1_2, 1)
         reorder(i0, i1_1, i1_2, i1_0)
         reverse_compute_at(b0_rf, i1_1)
         reverse_compute_at(b0, i0)
         reverse_compute_at(b1, i0)
         bind(i0, blockIdx.x)
         bind(i1_1, threadIdx.x)",
    );
}

#[test]
fn several_reduction_iterators() {
    everywhere(
        TWO_REDUCTIONS,
        "fuse(i1, i2)
         split(i1_i2_f, [None, 4, 2])
         rfactor(i1_i2_f_1, 0)
         reorder(i0, i1_i2_f_1, i1_i2_f_0, i1_i2_f_2)
         cache_read(b0_rf, p0, \"local\")
         compute_at(p0_local_b, i1_i2_f_0)
         reverse_compute_at(b0, i0)
         decompose_reduction(b0_rf, i1_i2_f_0)",
    );
    everywhere(
        TWO_REDUCTIONS,
        "split(i2, [None, 4])
         rfactor(i2_1, 1)
         reverse_compute_at(b0, i0)
         rfactor(i1, 0)
         decompose_reduction(b0_rf_rf, i2_0)",
    );
}

#[test]
fn gemv() {
    let all = everywhere(
        GEMV,
        "split(i0, [None, 2, 2])
         split(i1, [None, 2, 4, 2])
         rfactor(i1_2, 0)
         reorder(i0_0, i0_1, i1_2, i1_0, i1_1, i0_2, i1_3)
         cache_read(b0_rf, p0, \"local\")
         compute_at(p0_local_b, i0_2)
         cache_read(b0_rf, p1, \"shared\")
         cache_read(b0_rf, p1_shared, \"local\")
         compute_at(p1_shared_local_b, i1_1)
         compute_at(p1_shared_b, i0_0)
         set_scope(p2_rf, \"local\")
         reverse_compute_at(b0, i0_0)
         decompose_reduction(b0_rf, i1_0)
         bind(i0_0, blockIdx.x)
         bind(i0_1, threadIdx.y)
         bind(i1_2, threadIdx.x)",
    );
    golden("gemv_6x50", &all[1]);
}

#[test]
fn shared_copies_serve_all_threads() {
    let s = take(
        &read(&sized(GEMV, "8", "64")),
        "split(i0, [None, 2, 2])
         split(i1, [None, 2, 4, 2])
         rfactor(i1_2, 0)
         reorder(i0_0, i0_1, i1_2, i1_0, i1_1, i0_2, i1_3)
         bind(i1_2, threadIdx.x)
         cache_read(b0_rf, p1, \"shared\")
         compute_at(p1_shared_b, i1_0)",
    );
    let copy = "for ax0_1 in range(T.int64(16)):";
    assert!(s.func().canonical_text().contains(copy), "the copy covers what all four threads read\n{}", s.func());
}

#[test]
fn column_reduction() {
    let all = everywhere(
        COLUMN_MAX,
        "split(i0, [None, 4, 2])
         split(i1, [None, 4, 2])
         rfactor(i1_1, 0)
         reorder(i0_0, i0_1, i1_1, i1_0, i1_2, i0_2)
         cache_read(b0_rf, p0, \"local\")
         compute_at(p0_local_b, i1_2)
         reverse_compute_at(b0, i0_1)
         decompose_reduction(b0_rf, i1_0)
         bind(i0_0, blockIdx.x)
         bind(i0_1, threadIdx.x)
         bind(i1_1, threadIdx.y)",
    );
    golden("column_reduction_5x7", &all[2]);
}

#[test]
fn split_over_blocks() {
    let sizes: Vec<_> = SIZES.iter().chain(&SYMBOLIC).copied().collect();
    on_sizes(
        &sizes,
        ROW_SUM,
        "split(i1, [None, 8])
         rfactor(i1_0, 0)
         split(i1_1, [None, 4, 2])
         rfactor(i1_1_1, 0)
         reorder(i0, i1_0, i1_1_1, i1_1_0, i1_1_2)
         reverse_compute_at(b0_rf, i1_0)
         cache_read(b0_rf_rf, p0, \"local\")
         compute_at(p0_local_b, i1_1_0)
         decompose_reduction(b0_rf_rf, i1_1_0)
         reverse_compute_at(b1, i0_final)
         bind(i1_0, blockIdx.x)
         bind(i0, blockIdx.y)
         bind(i1_1_1, threadIdx.x)",
    );
}

#[test]
fn cpu_accumulators() {
    everywhere(
        ROW_SUM,
        "split(i1, [None, 2, 4])
         fuse(i1_1, i1_2)
         rfactor(i1_1_i1_2_f, 0)
         split(i1_1_i1_2_f, [None, 4])
         set_scope(t0_rf, \"local\")
         reverse_compute_at(b0, i0)
         reverse_compute_at(b1, i0)
         decompose_reduction(b0_rf, i1_0)
         parallel(i0)",
    );
}

#[test]
fn fused_elements() {
    let all = everywhere(
        BIAS,
        "fuse(i0, i1)
         split(i0_i1_f, [None, 8, 4])
         cache_write(b0, p2, \"local\")
         reverse_compute_at(p2_local_b, i0_i1_f_1)
         cache_read(b0, p0, \"local\")
         compute_at(p0_local_b, i0_i1_f_1)
         cache_read(b0, p1, \"local\")
         compute_at(p1_local_b, i0_i1_f_1)
         bind(i0_i1_f_0, blockIdx.x)
         bind(i0_i1_f_1, threadIdx.x)",
    );
    golden("fused_elements_5x7", &all[2]);
}

#[test]
fn copies_between_blocks_of_one_nest() {
    everywhere(
        ROW_SUM,
        "reverse_compute_at(b1, i0)
         cache_read(b1, t0, \"local\")
         cache_write(b0, t0, \"local\")
         split(i1, [None, 4])
         cache_read(b0, p0, \"shared\")
         compute_at(p0_shared_b, i1_0)
         cache_write(b1, p1, \"local\")
         reverse_compute_at(p1_local_b, i0)",
    );
}

#[test]
fn block_layouts() {
    everywhere(BIAS, "transform_block_layout(b0, [[], [v1], [v0]])");
    everywhere(BIAS, "transform_block_layout(b0, [[v1, v0]])");
    everywhere(TWO_REDUCTIONS, "transform_block_layout(b0, [[v1, v2], [v0]])");
}
