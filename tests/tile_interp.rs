//! The reference semantics of tile programs.

use daylight::interp::{InterpError, Mode, Scalar, Scalars, Tensor, run_device};
use daylight::ir::{DType, DeviceFunc, Function, read_any};

fn program(body: &str, threads: u32) -> DeviceFunc {
    let body: String = body.lines().map(|l| format!("    {}\n", l.trim_end())).collect();
    let text = format!(
        "@T.prim_func\ndef k(a: T.handle, b: T.handle):\n    A = T.match_buffer(a, (4, 8), \"float32\")\n    \
         B = T.match_buffer(b, (4, 8), \"float32\")\n    T.device_entry(); T.cta_id([1]); tx = T.thread_id([{threads}])\n{body}"
    );
    match read_any(&text, "k.py").unwrap_or_else(|e| panic!("{e}")).pop() {
        Some(Function::Tile(p)) => p,
        _ => panic!("a tile program was expected"),
    }
}

/// What `B` holds after a run on `A = 1, 2, 3, ...` and `B = 0`.
fn run(body: &str, threads: u32) -> Result<Vec<f64>, InterpError> {
    let a: Vec<f64> = (1..=32).map(f64::from).collect();
    let mut args = [Tensor::from_f64(DType::F32, &[4, 8], &a), Tensor::zeros(DType::F32, &[4, 8])];
    run_device(&program(body, threads), &mut args, &Scalars::new(), Mode::Exact)?;
    Ok(args[1].to_f64())
}

fn right(body: &str, threads: u32) -> Vec<f64> {
    run(body, threads).unwrap_or_else(|e| panic!("{e}"))
}

fn wrong(body: &str, threads: u32, says: &str) {
    let error = run(body, threads).err().map_or_else(|| "it ran".to_string(), |e| e.to_string());
    assert!(error.contains(says), "{body}: {error}");
}

#[test]
fn copies_reductions_and_products() {
    let v = right("Tx.cta.copy(B, A)", 32);
    assert_eq!((v[0], v[31]), (1.0, 32.0));
    assert_eq!(right("Tx.cta.sum(B[0:4, 0], A, axes=-1)", 7)[8], 100.0);
    assert_eq!(right("Tx.cta.sum(B[0, 0:8], A, axes=0, accum=True)", 7)[1], 2.0 + 10.0 + 18.0 + 26.0);
    assert_eq!(right("Tx.cta.max(B[3, 3], A, axes=(0, 1))", 1)[27], 32.0);
    assert_eq!(right("Tx.cta.copy(B, A)\nTx.cta.min(B[0, 0:1], A[2:4, :], axes=(0, 1), accum=True)", 1)[0], 1.0);
    assert_eq!(right("Tx.cta.prod(B[0, 0:1], A[0, 0:5], axes=(0, 1))", 1)[0], 120.0);
    let v = right("Tx.cta.fill(B, 1)\nTx.cta.gemm(B[:, 0:4], A, A, transpose_B=True, accum=True)", 1);
    assert_eq!(v[0], 1.0 + (1..=8).map(|i| f64::from(i * i)).sum::<f64>());
    assert_eq!(v[4], 1.0);
}

#[test]
fn elementwise_operations_broadcast_and_round_once() {
    assert_eq!(right("Tx.cta.add(B, A, A[0, :])", 1)[8..10], [10.0, 12.0]);
    assert_eq!(right("Tx.cta.fma(B, A, 2, A[:, 0:1])", 1)[9], 29.0);
    assert_eq!(right("Tx.cta.fdiv(B, 1.0, A)", 1)[2], f64::from(1.0f32 / 3.0));
    assert_eq!(right("Tx.cta.sqrt(B, A)", 1)[1], f64::from(2f32.sqrt()));
    assert_eq!(right("Tx.cta.sub(B, A, A[1, 1])", 1)[0], -9.0);
    let v = right("Tx.cta.silu(B, A)\nTx.cta.zero(B[0])".replace("B[0]", "B[0, 0:8]").as_str(), 1);
    assert_eq!(v[0], 0.0);
    assert!((v[8] - 9.0 / (1.0 + (-9f64).exp())).abs() < 1e-6);
}

#[test]
fn registers_belong_to_lanes_and_private_ones_to_threads() {
    let layout = "TileLayout(S[(4, 8) : (8 @ laneid, 1 @ laneid)])";
    let text = format!(
        "R = T.alloc_local((4, 8), layout={layout})\nTx.warp.copy(R, A)\nB[tx // 8, tx % 8] = R[tx // 8, tx % 8] + 1.0"
    );
    assert_eq!(right(&text, 32)[31], 33.0);
    // Another lane's element is out of reach.
    wrong(&text.replace("= R[tx // 8, tx % 8]", "= R[0, 0]"), 32, "is in registers of none of the threads 1 to 1");
    let text =
        "L = T.alloc_local((1,))\nL[0] = T.float32(tx)\nif tx % 2 == 0:\n    L[0] += 100.0\nB[tx // 8, tx % 8] = L[0]";
    assert_eq!(right(text, 32)[4..6], [104.0, 5.0]);
    wrong(
        "L = T.alloc_local((1,))\nL[0] = T.float32(tx)\nTx.cta.copy(B[0, 0], L)",
        32,
        "read from threads 0 and 1, which differ",
    );
}

#[test]
fn loops_and_lets_run_in_lock_step() {
    let text = "S = T.alloc_shared((32,))\nS[tx] = T.float32(tx)\nfor i in T.serial(3):\n    n = (tx + 1) % 32\n    S[tx] = S[n]\nB[tx // 8, tx % 8] = S[tx]";
    assert_eq!(right(text, 32)[30], 1.0);
    let text =
        "L = T.alloc_local((1,))\nL[0] = 0.0\nfor i in T.serial(tx):\n    L[0] += 1.0\nB[tx // 8, tx % 8] = L[0]";
    assert_eq!(right(text, 32)[31], 31.0);
}

#[test]
fn what_threads_cannot_do_together_is_an_error() {
    wrong("B[0, 0] = T.float32(tx)", 32, "threads 0 and 1 store different values to one element of `B` at once");
    wrong("if tx < 16:\n    T.cuda.cta_sync()", 32, "only some of the threads of a barrier reach it");
    wrong("if tx < 16:\n    Tx.warp.copy(B, A)", 32, "only some threads of a warp reach its `copy`");
    wrong(
        "Tx.warp.copy(B[0, tx % 4:tx % 4 + 1], A[0, 0:1])",
        32,
        "threads of one call begin at different indices of `B`",
    );
    wrong("S = T.alloc_shared((4,))\nB[0, 0] = S[1]", 32, "index [1] of buffer `S` is read before it is written");
    wrong(
        "S = T.alloc_shared((8,))\nTx.cta.add(B[0, :], S, S)",
        32,
        "index [0] of buffer `S` is read before it is written",
    );
    wrong("B[0, tx] = 1.0", 32, "index [0, 8] lies outside buffer `B` of shape [4, 8]");
    wrong("Tx.copy(B[0, tx:tx + 4], A[0, tx:tx + 4])", 32, "lies outside buffer `B` of shape [4, 8]");
}

#[test]
fn scalars_and_the_reference_mode_are_taken() {
    let text = "@T.prim_func\ndef k(a: T.handle, s: T.float32):\n    A = T.match_buffer(a, (2,), \"float16\")\n    \
                T.device_entry(); b = T.cta_id([2]); T.thread_id([1])\n    A[b] = T.Cast(\"float16\", s) + A[b]\n";
    let Some(Function::Tile(p)) = read_any(text, "k.py").unwrap_or_else(|e| panic!("{e}")).pop() else {
        panic!("a tile program was expected")
    };
    let scalars = Scalars::from([("s0".into(), Scalar::Float(0.1))]);
    let mut args = [Tensor::from_f64(DType::F64, &[2], &[1.0, 2.0])];
    run_device(&p, &mut args, &scalars, Mode::F64).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(args[0].to_f64(), [1.0 + f64::from(0.1f32), 2.0 + f64::from(0.1f32)]);
    let mut args = [Tensor::from_f64(DType::F16, &[2], &[1.0, 2.0])];
    run_device(&p, &mut args, &scalars, Mode::Exact).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(args[0].to_f64(), [1.099609375, 2.099609375]);
}

/// A program whose barrier takes one arrival: thread 0 announces and copies, and then `rest`.
fn with_barrier(announced: i64, rest: &str) -> String {
    format!(
        "S = T.alloc_shared((4, 8), \"float32\")\nbar = T.alloc_shared((1,), \"uint64\")\nif tx == 0:\n    \
         T.ptx.mbarrier.init(bar.ptr_to([0]), 1)\n    T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), {announced})\n    \
         Tx.copy_async(S, A, mbar=bar.ptr_to([0]))\n{rest}"
    )
}

#[test]
fn copies_that_a_barrier_counts_are_there_after_the_wait() {
    let wait = "T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)";
    assert_eq!(right(&with_barrier(128, &format!("{wait}\nTx.cta.copy(B, S)")), 32)[31], 32.0);
    wrong(&with_barrier(128, "if tx == 0:\n    B[0, 0] = S[0, 0]"), 32, "of buffer `S` is read before it is written");
    // Nothing is read of a phase that is yet to come; the second one has not begun.
    let second = "T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 1)";
    wrong(
        &with_barrier(128, second),
        32,
        "T.cuda.mbarrier_wait(bar.ptr_to([0]), 1) of thread 0 never ends: phase 1 of the barrier lacks 1 arrivals and 0 bytes",
    );
    wrong(&with_barrier(144, wait), 32, "phase 0 of the barrier lacks 0 arrivals and 16 bytes when it is reached");
    wrong(&with_barrier(112, wait), 32, "phase 0 of the barrier lacks 0 arrivals and -16 bytes");
}

#[test]
fn phases_take_their_arrivals() {
    let bar = "bar = T.alloc_shared((2,), \"uint64\")\nif tx == 0:\n    T.ptx.mbarrier.init(bar.ptr_to([1]), 4)\n";
    let loops = "for i in T.serial(3):\n    T.ptx.mbarrier.arrive(bar.ptr_to([1]))\n    T.ptx.mbarrier.try_wait(bar.ptr_to([1]), i % 2)\n";
    assert_eq!(right(&format!("{bar}{loops}Tx.cta.copy(B, A)"), 4)[0], 1.0);
    wrong(&format!("{bar}{loops}"), 3, "lacks 1 arrivals and 0 bytes");
    wrong(
        &format!("{bar}T.ptx.mbarrier.arrive(bar.ptr_to([0]))"),
        4,
        "`bar.ptr_to([0])` is used before T.ptx.mbarrier.init",
    );
    let again = "if tx == 1:\n    T.ptx.mbarrier.init(bar.ptr_to([1]), 4)";
    wrong(&format!("{bar}{again}"), 4, "`bar.ptr_to([1])` is made a barrier a second time");
    let parity = "T.ptx.mbarrier.try_wait(bar.ptr_to([1]), tx + 2)";
    wrong(&format!("{bar}{parity}"), 4, "the phase that is waited for is 0 or 1, in turn");
    let full =
        "if tx == 0:\n    T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([1]), 8)\nT.ptx.mbarrier.arrive(bar.ptr_to([1]))";
    wrong(&format!("{bar}{full}"), 4, "`bar.ptr_to([1])` takes 4 arrivals in a phase, and this is one more");
}
