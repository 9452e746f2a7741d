//! A launch that blocks of the one before it run, each as the last of those whose results it reads: what becomes of it, that it is
//! right whatever the counters hold, and what is no such launch.

use crate::common;
use crate::lower_cases::{cpu, gpu, read};
use daylight::codegen;
use daylight::interp::{Scalars, Tensor};
use daylight::ir::instr::Op;
use daylight::ir::kernel::Program;
use daylight::ir::{DType, Name, Param};
use daylight::lower::lower;
use daylight::sim::{self, SimOptions};

/// Where things are in the function below.
#[derive(Clone, Copy)]
struct Form {
    /// Part and tile of a block of the first launch.
    block: [&'static str; 2],
    /// The row of `W` that the second launch reads, and its column.
    reads: [&'static str; 2],
    /// Blocks of the second launch, and threads.
    grid: [&'static str; 2],
}

const TILES: Form = Form { block: ["b // 3", "b % 3"], reads: ["v_p", "v_c"], grid: ["3", "16"] };

/// Sums of the columns of `A`, 64 x 40, by four parts of 16 rows and three tiles of 16 columns.
fn sums(f: Form) -> String {
    let Form { block: [part, tile], reads: [row, column], grid: [grid, threads] } = f;
    format!(
        r#"
@T.prim_func
def sums(A: T.Buffer((64, 40), "float32"), B: T.Buffer((40,), "float32")):
    W = T.alloc_buffer((4, 40), "float32")
    for b in T.thread_binding(12, thread="blockIdx.x"):
        for t in T.thread_binding(16, thread="threadIdx.x"):
            for k in range(16):
                with T.block("part"):
                    v_p = T.axis.spatial(4, {part})
                    v_c = T.axis.spatial(40, {tile} * 16 + t)
                    v_k = T.axis.reduce(16, k)
                    T.where({tile} * 16 + t < 40)
                    with T.init():
                        W[v_p, v_c] = T.float32(0)
                    W[v_p, v_c] = W[v_p, v_c] + A[v_p * 16 + v_k, v_c]
    for b in T.thread_binding({grid}, thread="blockIdx.x", annotations={{"last_block": 1}}):
        for t in T.thread_binding({threads}, thread="threadIdx.x"):
            for p in range(4):
                with T.block("whole"):
                    v_c = T.axis.spatial(40, b * {threads} + t)
                    v_p = T.axis.reduce(4, p)
                    T.where(b * {threads} + t < 40)
                    with T.init():
                        B[v_c] = T.float32(0)
                    B[v_c] = B[v_c] + W[{row}, {column}]
"#
    )
}

fn program(f: Form) -> Program {
    lower(&read(&sums(f)), &gpu(), &[]).unwrap_or_else(|e| panic!("{e}"))
}

/// Why there is no kernel.
fn refused(text: &str) -> String {
    lower(&read(text), &gpu(), &[]).expect_err("it has no kernel").to_string()
}

/// The kernel with its counters as a parameter, and their name.
fn counted(f: Form) -> (Program, Name) {
    let mut p = program(f);
    let name = Name::new("arrivals");
    assert_eq!(p.workspaces.iter().map(|w| w.name.as_str()).collect::<Vec<_>>(), ["t0", "arrivals"], "{p}");
    p.workspaces.retain(|w| w.name != name);
    p.params.push(Param::Buffer(name.clone()));
    (p, name)
}

/// Runs it with counters that hold this, and compares; what they hold afterwards.
fn left(f: Form, counters: [u64; 3], seed: u64) -> Vec<u64> {
    let (p, name) = counted(f);
    let a: Vec<f32> = (0..64 * 40).map(|i| (i * 7 % 23) as f32 - 11.0).collect();
    let bytes = |all: &[f32]| all.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let tensor = |dtype, shape: &[i64], data: Vec<u8>| {
        let mut t = Tensor::zeros(dtype, shape);
        t.data = data;
        t
    };
    let mut args = [
        tensor(DType::F32, &[64, 40], bytes(&a)),
        Tensor::zeros(DType::F32, &[40]),
        tensor(DType::U64, &[3], counters.iter().flat_map(|n| n.to_le_bytes()).collect()),
    ];
    let options = SimOptions { seed, inout: vec![name], ..SimOptions::default() };
    sim::run(&p, &mut args, &Scalars::new(), &options).unwrap_or_else(|e| panic!("{e}\n{p}"));
    for c in 0..40 {
        let want: f32 = (0..64).map(|r| a[r * 40 + c]).sum();
        assert_eq!(args[1].get_f64(c), f64::from(want), "column {c} with counters {counters:x?}");
    }
    args[2].data.chunks(8).map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes"))).collect()
}

#[test]
fn the_last_block_of_a_tile_goes_on() {
    let p = program(TILES);
    common::golden("golden/lower/last_block.txt", &p.to_string());
    let Some(nvrtc) = common::nvidia::compiler() else { return };
    for target in ["cuda:sm_90a", "cuda:sm_80", "cuda:sm_100a"] {
        let cubin = nvrtc.cubin(&codegen::cuda(&p), target).unwrap_or_else(|e| panic!("{target}: {e}"));
        assert_eq!((cubin.res.spill, cubin.warnings), (0, vec![]), "{target}");
    }
}

#[test]
fn counters_may_hold_anything_and_are_ready_afterwards() {
    let first = Op::FIRST_ARRIVAL;
    let neighbours = Form { block: ["b % 4", "b // 4"], ..TILES };
    for f in [TILES, neighbours] {
        for seed in 0..3 {
            for counters in [[0; 3], [u64::MAX, 1, 3], [first, first - 1, first + 4], [first.swap_bytes(), 1 << 63, 4]]
            {
                assert_eq!(left(f, counters, seed), [first; 3]);
            }
        }
    }
}

#[test]
fn a_block_reads_results_of_its_group_alone() {
    let apart = "its blocks do not each read the results of some blocks alone";
    // The next column is of the next tile where the last of a tile is read.
    let neighbour = Form { reads: ["v_p", "(v_c + 1) % 40"], ..TILES };
    assert!(refused(&sums(neighbour)).contains(apart), "{}", refused(&sums(neighbour)));
    let halves = Form { grid: ["2", "20"], ..TILES };
    assert!(refused(&sums(halves)).contains("the threads of its blocks are not those of the launch before"));
    let five = Form { grid: ["5", "16"], ..TILES };
    assert!(refused(&sums(five)).contains("whole groups of a known number of blocks"));
    // One block reads the results of all.
    let whole =
        sums(TILES).replace("T.thread_binding(3, thread=\"blockIdx.x\"", "T.thread_binding(1, thread=\"blockIdx.x\"");
    assert!(lower(&read(&whole), &gpu(), &[]).is_ok());
}

#[test]
fn it_is_one_kernel_with_one_launch() {
    let three = sums(TILES)
        .replace("B: T.Buffer((40,), \"float32\")", "B: T.Buffer((40,), \"float32\"), C: T.Buffer((40,), \"float32\")")
        + r#"    for b in T.thread_binding(3, thread="blockIdx.x", annotations={"KEY": 1}):
        for t in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("third"):
                v_c = T.axis.spatial(40, b * 16 + t)
                T.where(b * 16 + t < 40)
                C[v_c] = B[v_c]
"#;
    for key in ["last_block", "merge"] {
        let why = refused(&three.replace("KEY", key));
        assert!(why.contains("is one kernel with that alone"), "{why}");
    }
    let apart = lower(&read(&three.replace("KEY", "other")), &gpu(), &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(apart.launches.len(), 2);
    // There is none before the first launch.
    let mark = "thread=\"blockIdx.x\", annotations={\"last_block\": 1}):";
    let first = sums(TILES).replacen("thread=\"blockIdx.x\"):", mark, 1);
    assert_eq!(lower(&read(&first), &gpu(), &[]).unwrap_or_else(|e| panic!("{e}")).launches.len(), 1);
    assert!(lower(&read(&sums(TILES)), &cpu(), &[]).is_err());
}
