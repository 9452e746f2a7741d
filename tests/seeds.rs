//! The systems of the documents that the project was founded on: each demonstration program is read
//! as written there, keeps its meaning when it is printed, is carried out by the variant that the
//! document is about, gives the right numbers in the simulator, and CUDA text of the shape shown.

use crate::common::golden;
use daylight::codegen;
use daylight::interp::{Mode, Scalars, Tensor, run_device};
use daylight::ir::kernel::Program;
use daylight::ir::{DType, DeviceFunc, Function, read_any, verify_device};
use daylight::lower::lower_device;
use daylight::target::{HostCpu, Target};
use daylight::tune::reference::Given;
use daylight::tune::{program, simulate};

fn parse(text: &str) -> DeviceFunc {
    match read_any(text, "seed.py").unwrap_or_else(|e| panic!("{e}")).pop() {
        Some(Function::Tile(p)) => p,
        _ => panic!("a tile program was expected"),
    }
}

/// The program of a file, which says the same when it is printed and read again.
fn read(name: &str) -> DeviceFunc {
    let path = format!("{}/tests/tile_programs/{name}.py", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let p = parse(&text);
    verify_device(&p).unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!(parse(&p.to_string()).canonical_text(), p.canonical_text(), "{p}");
    p
}

/// The lowered program, whose tile calls are carried out by these variants in this order.
fn lowered(p: &DeviceFunc, target: &str, variants: &[(&str, &str)]) -> Program {
    let target = Target::parse(target, &HostCpu::default()).unwrap_or_else(|e| panic!("{e}"));
    let (kernel, decisions) = lower_device(p, &target).unwrap_or_else(|e| panic!("{e}"));
    let chosen: Vec<(&str, &str)> = kernel.variants.iter().map(|v| (v.op.as_str(), v.variant.as_str())).collect();
    assert_eq!(chosen, variants, "{}", decisions.iter().map(|d| d.to_string()).collect::<String>());
    kernel
}

/// Runs the kernel in the simulator with several seeds and compares with the interpreter.
fn simulated(p: &DeviceFunc, kernel: &Program) {
    for seed in 0..4 {
        let given = Given { seed, ..Given::default() };
        let options = simulate::Options { seed, ..simulate::Options::default() };
        program::simulate(p, kernel, &given, options).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

/// What the interpreter makes of `A = input`.
fn interpreted(p: &DeviceFunc, input: &[f64]) -> Vec<f64> {
    let shapes: Vec<Vec<i64>> =
        p.func.buffers.iter().map(|b| b.shape.iter().filter_map(|e| e.as_int()).collect()).collect();
    let mut args = [Tensor::from_f64(DType::F32, &shapes[0], input), Tensor::zeros(DType::F32, &shapes[1])];
    run_device(p, &mut args, &Scalars::new(), Mode::Exact).unwrap_or_else(|e| panic!("{e}"));
    args[1].to_f64()
}

fn numbers(n: usize) -> Vec<f64> {
    (0..n).map(|i| (i * i % 23) as f64 - 7.0).collect()
}

#[test]
fn seed_000_sm100_packed() {
    let p = read("seed_000");
    assert_eq!(interpreted(&p, &numbers(32)), [numbers(32).iter().sum::<f64>()]);
    let kernel = lowered(&p, "cuda:sm_100a", &[("sum", "sm100_packed")]);
    simulated(&p, &kernel);
    let text = codegen::cuda(&kernel);
    // Four packed adds in the loop over three chunks of eight, three for the tree, a scalar one at its foot.
    assert_eq!(text.matches("    dl_add_rn_ftz_f32x2(").count(), 4, "{text}");
    assert_eq!(text.matches("\n  dl_add_rn_ftz_f32x2(").count(), 3, "{text}");
    golden("golden/seeds/000.cu", &text);
    // Before Blackwell the call is left to `local`.
    simulated(&p, &lowered(&p, "cuda:sm_90a", &[("sum", "local")]));
}

#[test]
fn seed_001_reduction_shared() {
    let p = read("seed_001");
    let input = numbers(32);
    let rows: Vec<f64> = input.chunks(8).map(|r| r.iter().sum()).collect();
    assert_eq!(interpreted(&p, &input), rows);
    let kernel = lowered(&p, "cuda:sm_100a", &[("copy", "vec_auto"), ("sum", "shared"), ("copy", "vec_auto")]);
    simulated(&p, &kernel);
    let text = codegen::cuda(&kernel);
    // Masks 1, 2 and 4 at the width of a group, not of the warp.
    let steps: Vec<&str> = text.lines().filter_map(|l| l.trim().strip_prefix("t1_other = __shfl_xor_sync(")).collect();
    assert_eq!(steps, [1, 2, 4].map(|mask| format!("0xffffffffu, t1_acc, {mask}, 8);")), "{text}");
    golden("golden/seeds/001.cu", &text);
}

#[test]
fn seed_002_reduction_local() {
    let p = read("seed_002");
    assert_eq!(interpreted(&p, &numbers(4)), [numbers(4).iter().sum::<f64>()]);
    for target in ["cuda:sm_80", "cuda:sm_90a", "cuda:sm_100a"] {
        simulated(&p, &lowered(&p, target, &[("sum", "local")]));
    }
    golden("golden/seeds/002.cu", &codegen::cuda(&lowered(&p, "cuda:sm_100a", &[("sum", "local")])));
}

#[test]
fn seed_003_elementwise_reg() {
    let p = read("seed_003");
    let input: Vec<f64> = (0..256).map(f64::from).collect();
    let roots: Vec<f64> = input.iter().map(|x| f64::from((*x as f32).sqrt())).collect();
    assert_eq!(interpreted(&p, &input), roots);
    let copy = ("copy", "vec_auto");
    let kernel = lowered(&p, "cuda:sm_100a", &[copy, copy, ("sqrt", "reg"), copy, copy]);
    simulated(&p, &kernel);
    let text = codegen::cuda(&kernel);
    // Each lane takes the roots of its own eight registers.
    assert!(text.contains("< 8; ++") && text.contains("] = sqrtf("), "{text}");
    golden("golden/seeds/003.cu", &text);
}
