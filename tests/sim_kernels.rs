//! The simulator on hand-built kernels: right ones give right results, seeded mistakes are named.

use crate::codegen_programs::*;
use daylight::interp::{Scalar, Scalars, Tensor};
use daylight::ir::kernel::*;
use daylight::ir::{BinOp, DType, Expr};
use daylight::sim::{self, SimOptions, SimReport};

fn random(dtype: DType, len: i64, seed: u64) -> Tensor {
    let mut state = seed;
    let values: Vec<f64> = (0..len)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % 2001) as f64 / 1000.0 - 1.0
        })
        .collect();
    Tensor::from_f64(dtype, &[len], &values)
}

fn run(p: &Program, args: &mut [Tensor], seed: u64) -> Result<SimReport, String> {
    let options = SimOptions { seed, ..SimOptions::default() };
    sim::run(p, args, &Scalars::new(), &options).map_err(|e| e.to_string())
}

/// Runs with zeros of the parameters' sizes as arguments, over several seeds; the first error.
fn fault(p: &Program) -> String {
    let sizes: Vec<(DType, i64)> = p.launches[0]
        .kernel
        .params
        .iter()
        .filter_map(|p| match p {
            KernelParam::Pointer { dtype, len, .. } => Some((*dtype, len.as_int().unwrap_or(0))),
            KernelParam::Scalar { .. } | KernelParam::TensorMap(_) => None,
        })
        .collect();
    for seed in 0..8 {
        let mut args: Vec<Tensor> = sizes.iter().map(|(d, n)| Tensor::zeros(*d, &[*n])).collect();
        if let Err(e) = run(p, &mut args, seed) {
            return e;
        }
    }
    "no error".to_string()
}

fn close(got: f64, want: f64, tolerance: f64) {
    assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "{got} is not {want}");
}

#[test]
fn row_sum_is_right() {
    let (rows, cols) = (3, 4096);
    let p = row_sum(rows, cols, 128, 4, None);
    for seed in 0..3 {
        let mut args = [random(DType::F32, rows * cols, 7), Tensor::zeros(DType::F32, &[rows])];
        let report = run(&p, &mut args, seed).expect("a correct kernel");
        assert_eq!(report.blocks, 3);
        for r in 0..rows {
            let want: f64 = (0..cols).map(|c| args[0].get_f64((r * cols + c) as usize)).sum();
            close(args[1].get_f64(r as usize), want, 1e-4);
        }
    }
}

#[test]
fn gemv_is_right() {
    let (n, k) = (16, 512);
    let p = gemv_bf16(n, k, 2, 2, None);
    let bf = DType::BF16;
    let mut args = [random(bf, n * k, 1), random(bf, k, 2), Tensor::zeros(bf, &[n])];
    run(&p, &mut args, 5).expect("a correct kernel");
    for r in 0..n {
        let want: f64 = (0..k).map(|c| args[0].get_f64((r * k + c) as usize) * args[1].get_f64(c as usize)).sum();
        close(args[2].get_f64(r as usize), want, 1e-2);
    }
}

#[test]
fn column_sum_is_right() {
    let (rows, cols) = (64, 256);
    let p = column_sum(rows, cols);
    let mut args = [random(DType::F32, rows * cols, 3), Tensor::zeros(DType::F32, &[cols])];
    run(&p, &mut args, 5).expect("a correct kernel");
    for c in 0..cols {
        let want: f64 = (0..rows).map(|r| args[0].get_f64((r * cols + c) as usize)).sum();
        close(args[1].get_f64(c as usize), want, 1e-4);
    }
}

#[test]
fn elementwise_with_a_tail_is_right() {
    let n = 2504;
    let h = DType::F16;
    let mut args = [random(h, n, 1), random(h, n, 2), Tensor::zeros(h, &[n])];
    run(&silu_mul_f16(n), &mut args, 0).expect("a correct kernel");
    for i in 0..n as usize {
        let (a, b) = (args[0].get_f64(i), args[1].get_f64(i));
        close(args[2].get_f64(i), a / (1.0 + (-a).exp()) * b, 2e-3);
    }
}

#[test]
fn cpu_kernels_are_right() {
    let (rows, cols) = (3, 512);
    let mut args = [random(DType::F32, rows * cols, 7), Tensor::zeros(DType::F32, &[rows])];
    run(&cpu_row_sum(rows, cols, 4), &mut args, 0).expect("a correct kernel");
    let want: f64 = (0..cols).map(|c| args[0].get_f64(c as usize)).sum();
    close(args[1].get_f64(0), want, 1e-4);
}

/// A row sum over one block of 64 threads with the body of its second stage given.
fn two_stage(barrier: bool, warps: i64) -> Program {
    let t = v("threadIdx.x");
    let mut body = vec![var("sum", DType::F32, Some(ld("p0", t.clone())))];
    body.extend(warp_sum("sum"));
    let first = op(BinOp::Eq, op(BinOp::FloorMod, t.clone(), c(32)), c(0));
    body.push(if_(first, vec![store("red", op(BinOp::FloorDiv, t.clone(), c(32)), fv("sum"))]));
    if barrier {
        body.push(block_barrier());
    }
    body.push(if_(
        op(BinOp::Eq, t, c(0)),
        vec![
            var("total", DType::F32, Some(f(0.0))),
            serial("i0", warps, vec![assign("total", fv("total") + ld("red", v("i0")))]),
            store("p1", c(0), fv("total")),
        ],
    ));
    let params = vec![input("p0", DType::F32, 64), output("p1", DType::F32, 1)];
    program("two_stage", kernel("two_stage", params, vec![shared("red", DType::F32, 2)], body), 1, 64, None)
}

#[test]
fn a_right_reduction_passes() {
    assert_eq!(fault(&two_stage(true, 2)), "no error");
}

#[test]
fn a_missing_barrier_is_found() {
    assert_eq!(
        fault(&two_stage(false, 2)),
        "kernel `two_stage`, block (0, 0, 0), thread (0, 0, 0), at `total = total + red[i0]`: \
         read of `red[1]`, which nothing has written; others are written at `red[threadIdx.x // 32] = sum`"
    );
}

#[test]
fn an_index_one_too_far_is_found() {
    assert_eq!(
        fault(&two_stage(true, 3)),
        "kernel `two_stage`, block (0, 0, 0), thread (0, 0, 0), at `total = total + red[i0]`: \
         index 2 lies outside `red`, which has 2 elements"
    );
}

/// One block of 64 threads over `p0` and `p1` of 64 elements.
fn small(arrays: Vec<Array>, body: Vec<KStmt>) -> Program {
    let params = vec![input("p0", DType::F32, 64), output("p1", DType::F32, 64)];
    program("small", kernel("small", params, arrays, body), 1, 64, None)
}

fn at(thread: i64, text: &str) -> String {
    format!("kernel `small`, block (0, 0, 0), thread ({thread}, 0, 0), at {text}")
}

#[test]
fn a_barrier_under_a_condition_is_found() {
    let p = small(vec![], vec![if_(lt(v("threadIdx.x"), c(33)), vec![block_barrier()])]);
    assert_eq!(fault(&p), at(0, "`barrier block`: divergent barrier: thread (33, 0, 0) has ended"));
    let one = lt(v("threadIdx.x"), c(32));
    let both = KStmt::If { cond: one, then: vec![block_barrier()], otherwise: vec![block_barrier()] };
    assert_eq!(
        fault(&small(vec![], vec![both])),
        at(0, "`barrier block`: divergent barrier: thread (32, 0, 0) waits at `barrier block`")
    );
}

#[test]
fn a_shuffle_under_a_condition_is_found() {
    let shuffle = shuffle_xor("x", 1, f(1.0));
    let body = vec![var("x", DType::F32, None), if_(lt(v("threadIdx.x"), c(40)), vec![shuffle]), block_barrier()];
    assert_eq!(
        fault(&small(vec![], body)),
        at(32, "`x = shuffle.xor1(1.0, width 32)`: divergent shuffle: thread (40, 0, 0) waits at `barrier block`")
    );
    let body = vec![if_(lt(v("threadIdx.x"), c(3)), vec![KStmt::Barrier(Barrier::Warp)])];
    assert_eq!(
        fault(&small(vec![], body)),
        at(0, "`barrier warp`: divergent warp barrier: thread (3, 0, 0) has ended")
    );
}

#[test]
fn an_accumulator_without_a_start_is_found() {
    let t = v("threadIdx.x");
    let body = vec![store("acc", c(0), ld("acc", c(0)) + ld("p0", t.clone())), store("p1", t, ld("acc", c(0)))];
    let p = small(vec![registers("acc", DType::F32, 1, 4)], body);
    assert!(fault(&p).ends_with("at `acc[0] = acc[0] + p0[threadIdx.x]`: read of `acc[0]`, which nothing has written"));
    let body = vec![var("sum", DType::F32, None), assign("sum", fv("sum") + f(1.0))];
    assert!(fault(&small(vec![], body)).ends_with("at `sum = sum + 1.0`: read of `sum`, which nothing has written"));
}

#[test]
fn reads_of_outputs_and_workspaces_are_found() {
    let t = v("threadIdx.x");
    let p = small(vec![], vec![store("p1", t.clone(), ld("p1", t.clone()))]);
    assert!(fault(&p).contains("which nothing has written; others are written at `p1["), "{}", fault(&p));
    // As a parameter that is read and written it is right.
    let mut args = [random(DType::F32, 64, 1), random(DType::F32, 64, 2)];
    let before = args[1].clone();
    let options = SimOptions { inout: vec!["p1".into()], ..SimOptions::default() };
    sim::run(&p, &mut args, &Scalars::new(), &options).expect("a correct kernel");
    assert_eq!(args[1], before);
}

#[test]
fn a_store_to_an_input_is_found() {
    let p = small(vec![], vec![store("p0", v("threadIdx.x"), f(1.0))]);
    assert!(fault(&p).ends_with("store to `p0`, which the kernel declares as read only"));
}

#[test]
fn vector_accesses_are_checked() {
    let r = || vec![registers("r", DType::F32, 4, 16)];
    let t = v("threadIdx.x");
    let odd = small(r(), vec![copy(("r", c(0)), ("p0", t.clone()), 4, CacheHint::Plain)]);
    assert!(fault(&odd).ends_with("which is no multiple of 4"), "{}", fault(&odd));
    let far = small(r(), vec![copy(("r", c(0)), ("p0", t * c(4)), 4, CacheHint::Plain)]);
    assert!(fault(&far).ends_with("lies outside `p0`, which has 64 elements"), "{}", fault(&far));
}

#[test]
fn a_quotient_by_zero_is_zero() {
    let quotient = op(BinOp::FloorDiv, v("threadIdx.x"), v("threadIdx.x"));
    let p = small(vec![], vec![store("p1", v("threadIdx.x"), Expr::cast(DType::F32, quotient))]);
    let mut args = [random(DType::F32, 64, 1), Tensor::zeros(DType::F32, &[64])];
    run(&p, &mut args, 1).expect("a quotient by zero has a value");
    assert_eq!([0, 1, 31].map(|i| args[1].get_f64(i)), [0.0, 1.0, 1.0]);
}

#[test]
fn guarded_loads_stay_guarded() {
    let i = v("threadIdx.x") + c(32);
    let guarded = Expr::new(daylight::ir::ExprKind::IfThenElse {
        cond: lt(i.clone(), c(64)),
        then: ld("p0", i),
        otherwise: f(-1.0),
    });
    let p = small(vec![], vec![store("p1", v("threadIdx.x"), guarded)]);
    let mut args = [random(DType::F32, 64, 1), Tensor::zeros(DType::F32, &[64])];
    run(&p, &mut args, 1).expect("a correct kernel");
    assert_eq!(args[1].get_f64(0), args[0].get_f64(32));
    assert_eq!(args[1].get_f64(63), -1.0);
}

#[test]
fn symbolic_extents_and_samples() {
    let n = v("n0");
    let i = v("blockIdx.x") * c(32) + v("threadIdx.x");
    let body = vec![let_("i", i), if_(lt(v("i"), n.clone()), vec![store("p1", v("i"), ld("p0", v("i")) * f(2.0))])];
    let pointer =
        |name: &str, written| KernelParam::Pointer { name: name.into(), dtype: DType::F32, written, len: n.clone() };
    let params =
        vec![pointer("p0", false), pointer("p1", true), KernelParam::Scalar { name: "n0".into(), dtype: DType::I32 }];
    let mut p = program("twice", kernel("twice", params, vec![], body), 1, 32, None);
    p.params.pop();
    p.extents = vec![("n0".into(), DType::I32)];
    p.launches[0].grid[0] = op(BinOp::FloorDiv, n.clone() + c(31), c(32));
    let mut args = [random(DType::F32, 100, 1), Tensor::zeros(DType::F32, &[100])];
    let scalars = Scalars::from([("n0".into(), Scalar::Int(100))]);
    let report = sim::run(&p, &mut args, &scalars, &SimOptions::default()).expect("a correct kernel");
    assert_eq!(report.blocks, 4);
    assert_eq!(args[1].get_f64(99), 2.0 * args[0].get_f64(99));
    let options = SimOptions { max_blocks: Some(2), ..SimOptions::default() };
    assert_eq!(sim::run(&p, &mut args, &scalars, &options).map(|r| r.blocks), Ok(2));
    let error = sim::run(&p, &mut args, &Scalars::new(), &options).map_err(|e| e.to_string());
    assert_eq!(error, Err("the value of `n0` is not known: bind it".to_string()));
}

#[test]
fn shuffles_follow_their_segments() {
    let lane = Expr::cast(DType::F32, v("threadIdx.x"));
    let step = |mode, width| KStmt::Shuffle { dst: "x".into(), mode, value: lane.clone(), width };
    let result = |mode, width| {
        let body = vec![var("x", DType::F32, None), step(mode, width), store("p1", v("threadIdx.x"), fv("x"))];
        let mut args = [Tensor::zeros(DType::F32, &[64]), Tensor::zeros(DType::F32, &[64])];
        run(&small(vec![], body), &mut args, 3).expect("a correct kernel");
        [0, 7, 31, 40].map(|i| args[1].get_f64(i))
    };
    assert_eq!(result(ShuffleMode::Xor(1), 32), [1.0, 6.0, 30.0, 41.0]);
    assert_eq!(result(ShuffleMode::Down(4), 8), [4.0, 7.0, 31.0, 44.0]);
    assert_eq!(result(ShuffleMode::Index(2), 16), [2.0, 2.0, 18.0, 34.0]);
}
