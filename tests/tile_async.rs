//! Tile programs that drive asynchronous copies with barriers in shared memory: their meaning, their
//! kernels in the simulator, their CUDA text, and what NVRTC says to it.

use crate::common;
use crate::common::golden;
use daylight::codegen;
use daylight::interp::{Mode, Scalars, Tensor, run_device};
use daylight::ir::kernel::Program;
use daylight::ir::{DType, DeviceFunc, Function, read_any};
use daylight::lower::lower_device;
use daylight::target::{HostCpu, Target};
use daylight::tune::reference::Given;
use daylight::tune::{program, simulate};

const TARGETS: [&str; 4] = ["cuda:sm_90a", "cuda:sm_100a", "cuda:sm_103a", "cuda:sm_120a"];

fn parse(text: &str) -> DeviceFunc {
    match read_any(text, "program.py").unwrap_or_else(|e| panic!("{e}")).pop() {
        Some(Function::Tile(p)) => p,
        _ => panic!("a tile program was expected"),
    }
}

fn text(name: &str) -> String {
    let path = format!("{}/tests/tile_programs/{name}.py", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn lowered(p: &DeviceFunc, target: &str) -> Program {
    let target = Target::parse(target, &HostCpu::default()).unwrap_or_else(|e| panic!("{e}"));
    lower_device(p, &target).unwrap_or_else(|e| panic!("{e}")).0
}

fn variants(kernel: &Program) -> Vec<&str> {
    kernel.variants.iter().map(|v| v.variant.as_str()).collect()
}

/// Compares the kernel in the simulator with the interpreter, under several orders of threads and copies.
fn simulated(p: &DeviceFunc, kernel: &Program, seeds: u64) -> Result<(), String> {
    (0..seeds).try_for_each(|seed| {
        let given = Given { seed, ..Given::default() };
        program::simulate(p, kernel, &given, simulate::Options { seed, ..simulate::Options::default() })
            .map(drop)
            .map_err(|e| e.to_string())
    })
}

fn interpreted(p: &DeviceFunc, dtype: DType, input: &[f64], shapes: [&[i64]; 2]) -> Vec<f64> {
    let mut args = [Tensor::from_f64(dtype, shapes[0], input), Tensor::zeros(dtype, shapes[1])];
    run_device(p, &mut args, &Scalars::new(), Mode::Exact).unwrap_or_else(|e| panic!("{e}"));
    args[1].to_f64()
}

fn numbers(n: usize) -> Vec<f64> {
    (0..n).map(|i| (i * i % 23) as f64 - 7.0).collect()
}

#[test]
fn rows_come_and_sums_go_in_bulk() {
    let p = parse(&text("bulk"));
    let input = numbers(32 * 64);
    let sums: Vec<f64> = input.chunks(64).map(|r| r.iter().sum()).collect();
    assert_eq!(interpreted(&p, DType::F32, &input, [&[32, 64], &[32]]), sums);
    for target in TARGETS {
        let kernel = lowered(&p, target);
        assert_eq!(variants(&kernel), ["bulk", "bulk", "shared", "bulk"]);
        simulated(&p, &kernel, 6).unwrap_or_else(|e| panic!("{target}: {e}"));
    }
    golden("golden/tile_programs/bulk.cu", &codegen::cuda(&lowered(&p, "cuda:sm_90a")));
}

#[test]
fn boxes_end_where_their_matrix_does() {
    let p = parse(&text("tma"));
    let input = numbers(50 * 96);
    let doubled: Vec<f64> = input.iter().map(|x| x + x).collect();
    assert_eq!(interpreted(&p, DType::F16, &input, [&[50, 96]; 2]), doubled);
    for target in TARGETS {
        let kernel = lowered(&p, target);
        assert_eq!(variants(&kernel), ["tma", "smem", "tma"]);
        simulated(&p, &kernel, 6).unwrap_or_else(|e| panic!("{target}: {e}"));
    }
    golden("golden/tile_programs/tma.cu", &codegen::cuda(&lowered(&p, "cuda:sm_90a")));
}

/// What is left out of a program is missed: by the interpreter, or by the simulator where it is about
/// the order of threads.
#[test]
fn what_a_program_leaves_out_is_missed() {
    let cases = [
        ("bulk", "        T.ptx.fence.mbarrier_init()\n", "was made without a fence after it"),
        (
            "bulk",
            "    T.ptx.fence.proxy_async(\"shared::cta\")\n",
            "which was written with no asynchronous fence after it",
        ),
        (
            "tma",
            "    T.ptx.fence.proxy_async(\"shared::cta\")\n",
            "which was written with no asynchronous fence after it",
        ),
        (
            "tma",
            "    if tx == 1:\n        T.ptx.mbarrier.arrive(bar.ptr_to([0]))\n",
            "never ends: phase 0 of the barrier lacks 1",
        ),
        ("bulk", "        T.ptx.mbarrier.try_wait(bar.ptr_to([i % 2]), i // 2 % 2)\n", "is read before it is written"),
        ("tma", "    T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)\n", "is read before it is written"),
        ("tma", ", dispatch=\"tma\")\n    if tx == 1", "lies outside buffer `A`"),
    ];
    for (name, line, says) in cases {
        let whole = text(name);
        assert!(whole.contains(line), "{name}: {line}");
        let kept = if line.starts_with(',') { ")\n    if tx == 1" } else { "" };
        let p = parse(&whole.replace(line, kept));
        let error = simulated(&p, &lowered(&p, "cuda:sm_90a"), 4).err().unwrap_or_else(|| format!("without {line}"));
        assert!(error.contains(says), "{name} without {line}: {error}");
    }
}

#[test]
fn barriers_and_copies_compile() {
    let Some(compiler) = common::nvidia::compiler() else { return };
    for name in ["bulk", "tma"] {
        for target in TARGETS {
            let cubin = compiler.cubin(&codegen::cuda(&lowered(&parse(&text(name)), target)), target);
            let cubin = cubin.unwrap_or_else(|e| panic!("{name} for {target}: {e}"));
            assert!(cubin.res.spill == 0 && cubin.warnings.is_empty(), "{name} for {target}: {cubin:?}");
        }
    }
}
