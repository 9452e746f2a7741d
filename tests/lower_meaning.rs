//! Lowered kernels compute what their functions say: run by the simulator at odd, prime and tiny
//! shapes and compared with the interpreter in float64.

use crate::lower_cases::*;
use daylight::interp::Scalars;
use daylight::ir::PrimFunc;
use daylight::schedule::{Schedule, ScheduleError};
use daylight::target::Target;

/// Counts candidates that a schedule primitive refused, so that a test can't pass by refusing all.
#[derive(Default)]
struct Tally {
    ran: usize,
    refused: usize,
}

impl Tally {
    fn check(&mut self, what: &str, f: &PrimFunc, s: Result<Schedule, ScheduleError>, target: &Target) {
        let Ok(s) = s else {
            self.refused += 1;
            return;
        };
        self.ran += 1;
        compare(what, f, s.func(), target, &Scalars::default());
    }

    fn finish(self) {
        assert!(self.ran > 4 * self.refused, "{} ran, {} were refused", self.ran, self.refused);
    }
}

const SHAPES: [(i64, i64); 7] = [(1, 7), (3, 5), (7, 33), (13, 127), (5, 1009), (8, 2048), (33, 256)];

#[test]
fn rows() {
    let mut tally = Tally::default();
    let knobs =
        [(32, 1, 1, 1), (32, 4, 4, 2), (128, 1, 8, 4), (64, 3, 2, 1), (8, 16, 4, 2), (96, 2, 1, 3), (48, 1, 1, 2)];
    for dtype in ["float32", "float16", "int32"] {
        for (m, k) in SHAPES {
            for (threads, rows, lanes, unroll) in knobs {
                let (p, f) = (Rows { threads, rows, lanes, unroll }, row_sum(m, k, dtype));
                tally.check(&format!("{dtype} {m}x{k} {p:?}"), &f, schedule_rows(f.clone(), p), &gpu());
            }
        }
    }
    tally.finish();
}

#[test]
fn gemvs() {
    let mut tally = Tally::default();
    for dtype in ["float32", "bfloat16"] {
        for (m, k) in SHAPES {
            for (threads, groups, rows, unroll, lanes) in
                [(32, 4, 2, 2, 8), (64, 2, 1, 1, 4), (16, 8, 3, 2, 2), (32, 1, 1, 1, 1)]
            {
                for shared in [false, true] {
                    let (p, f) = (Gemv { threads, groups, rows, unroll, lanes, shared }, gemv(m, k, dtype));
                    tally.check(&format!("{dtype} {m}x{k} {p:?}"), &f, schedule_gemv(f.clone(), p), &gpu());
                }
            }
        }
    }
    tally.finish();
}

#[test]
fn columns() {
    let mut tally = Tally::default();
    for dtype in ["float32", "float16"] {
        for (m, k) in SHAPES {
            for (threads, rows, lanes, unroll) in
                [(32, 8, 4, 2), (16, 16, 1, 1), (8, 64, 2, 1), (32, 3, 2, 2), (1, 32, 1, 1)]
            {
                let (p, f) = (Columns { threads, rows, lanes, unroll }, column_sum(k, m, dtype));
                tally.check(&format!("{dtype} {k}x{m} {p:?}"), &f, schedule_columns(f.clone(), p), &gpu());
            }
        }
    }
    tally.finish();
}

#[test]
fn totals() {
    let mut tally = Tally::default();
    for n in [7, 127, 1024, 4099] {
        for (blocks, threads) in [(4, 32), (7, 128), (32, 64)] {
            let (f, s) = schedule_two_launches(n, blocks, threads);
            tally.check(&format!("total {n} {blocks} {threads}"), &f, s, &gpu());
        }
    }
    assert!(tally.ran > tally.refused);
}

#[test]
fn elements() {
    let mut tally = Tally::default();
    for n in [1, 7, 127, 1024, 4099] {
        for (threads, lanes, unroll) in [(32, 4, 2), (128, 8, 1), (64, 1, 4)] {
            let f = elementwise(n, "float16");
            let s = schedule_elementwise(f.clone(), threads, lanes, unroll);
            tally.check(&format!("elementwise {n} {threads} {lanes} {unroll}"), &f, s, &gpu());
        }
        for (chunk, width) in [(4, 8), (1, 16), (3, 4)] {
            let f = elementwise(n, "float32");
            let s = schedule_elementwise_cpu(f.clone(), chunk, width);
            tally.check(&format!("elementwise on the CPU {n} {chunk} {width}"), &f, s, &cpu());
        }
    }
    tally.finish();
}

#[test]
fn rows_on_the_cpu() {
    let mut tally = Tally::default();
    for (m, k) in SHAPES {
        for (unroll, width) in [(1, 8), (4, 16), (2, 4)] {
            let f = row_sum(m, k, "float32");
            let s = schedule_rows_cpu(f.clone(), unroll, width);
            tally.check(&format!("rows on the CPU {m}x{k} {unroll} {width}"), &f, s, &cpu());
        }
    }
    tally.finish();
}

/// `out[i, j] = sum_k a[i, k] * b[k, j]`, scheduled with steps given as text.
fn product(steps: &str) -> (PrimFunc, Schedule) {
    let f = read(
        r#"
@T.prim_func
def product(a: T.Buffer((8, 12), "float32"), b: T.Buffer((12, 6), "float32"), out: T.Buffer((8, 6), "float32")):
    for i, j, k in T.grid(8, 6, 12):
        with T.block("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                out[vi, vj] = T.float32(0)
            out[vi, vj] = out[vi, vj] + a[vi, vk] * b[vk, vj]
"#,
    );
    let mut s = Schedule::new(f.clone());
    for line in steps.lines().map(str::trim).filter(|l| !l.is_empty()) {
        s.apply(line.parse().unwrap_or_else(|e| panic!("{e}"))).unwrap_or_else(|e| panic!("{e}\n{}", s.func()));
    }
    (f, s)
}

#[test]
fn blocks_around_blocks() {
    let tiles = "
        split(i0, [None, 4])
        split(i2, [None, 3])
        reorder(i0_0, i1, i2_0, i0_1, i2_1)";
    let threads = "
        bind(i0_0, blockIdx.x)
        bind(i1, threadIdx.y)
        bind(i0_1, threadIdx.x)";
    let staged = "
        cache_read(b0, p0, \"shared\")
        cache_read(b0, p1, \"local\")
        transform_layout(p0_shared, [i, k], [k // 2, i, 1 - k % 2])
        blockize(i0_1)
        compute_at(p0_shared_b, i0_0)
        compute_at(p1_local_b, i2_0)";
    let (f, s) = product(&format!("{tiles}{threads}{staged}"));
    compare("staged tiles", &f, s.func(), &gpu(), &Scalars::default());
    let (f, s) = product(&format!("{tiles}{threads}\nblockize(i0_1)\ndecompose_reduction(b0_o, i2_0)"));
    compare("init before the loops", &f, s.func(), &gpu(), &Scalars::default());
    let across = "
        split(i2, [None, 4])
        bind(i0, blockIdx.x)
        bind(i2_1, threadIdx.x)
        blockize(i2_0)";
    let (f, s) = product(across);
    compare("a reduction over threads inside", &f, s.func(), &gpu(), &Scalars::default());
    let (f, s) = product(&format!("{tiles}\nblockize(i0_1)\nparallel(i0_0)\nreorder(i2_1, i0_1)\nvectorize(i0_1)"));
    compare("tiles of vectors", &f, s.func(), &cpu(), &Scalars::default());
}

/// A trace of a log may have the threads of a block hand values to each other through global memory: here
/// thread `t` stores elements `2 t` and `2 t + 1`, and reads `t` and `t + 32`.
#[test]
fn values_exchanged_through_global_memory() {
    use crate::common::schedule::{read, step, take};
    let f = read(
        "@T.prim_func(private=True, s_tir=True)\ndef main(A: T.Buffer((64,), \"float32\"), B: T.Buffer((64,), \"float32\")):\n    \
         X = T.sblock_alloc_buffer((64,))\n    for i in range(64):\n        with T.sblock(\"w\"):\n            \
         v = T.axis.spatial(64, i)\n            X[v] = A[v]\n    for i in range(64):\n        with T.sblock(\"r\"):\n            \
         v = T.axis.spatial(64, i)\n            B[v] = X[v]\n",
    );
    let mut s =
        take(&f, "split(i0, [1, 64])\nreverse_compute_at(b1, i0_0)\nsplit(i0_1, [32, 2])\nbind(i0_0, blockIdx.x)");
    let then = |s: &mut Schedule, text: String| {
        s.apply(step(&text)).unwrap_or_else(|e| panic!("{e}\n{}", s.func()));
    };
    let inner = |s: &Schedule, block: &str, k: usize| s.loops(&block.into())[k].clone();
    let reader = inner(&s, "b1", 1);
    then(&mut s, format!("split({reader}, [2, 32])"));
    let (writer, reader) = (inner(&s, "b0", 1), inner(&s, "b1", 2));
    then(&mut s, format!("bind({writer}, threadIdx.x)"));
    then(&mut s, format!("bind({reader}, threadIdx.x)"));
    compare("through global memory", &f, s.func(), &gpu(), &Scalars::default());
}

/// A fused loop over rows and columns, cut anywhere: one step of it may start several sums.
#[test]
fn sums_that_start_inside_of_a_loop() {
    let schedule = |f: &PrimFunc, steps: i64, factor: i64| {
        let mut s = Schedule::new(f.clone());
        let loops = s.loops(&s.blocks()[0].clone());
        let all = s.fuse(&loops)?;
        let parts = s.split(&all, &[None, Some(steps), Some(factor)])?;
        s.parallel(&parts[0]).map(|()| s)
    };
    for (m, k, factor) in [(2, 2, 4), (3, 5, 4), (7, 6, 9), (5, 1, 3), (4, 8, 8)] {
        let f = row_sum(m, k, "float32");
        // Where parts of one row would be summed side by side, the primitive refuses.
        if let Ok(s) = schedule(&f, 4, factor) {
            compare(&format!("{m}x{k} by {factor}"), &f, s.func(), &cpu(), &Scalars::default());
        }
    }
    let f = row_sum(2, 2, "float32");
    let s = schedule(&f, 64, 4).expect("one task");
    compare("one task", &f, s.func(), &cpu(), &Scalars::default());
}
