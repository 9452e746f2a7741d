//! Copies through a tensor map that land in both blocks of a cluster.

use super::pair::meeting;
use super::*;
use daylight::ir::instr::Landing;
use daylight::ir::{MapSwizzle, TensorMap};

/// Elements of a row, and rows that a block copies for both.
const ROW: i64 = 64;
const ROWS: i64 = 8;

/// Kernels for sm_90 and later.
pub fn multicast_cases() -> Vec<Case> {
    vec![halves()]
}

/// Each of two blocks copies half of the rows to both, and stores all of them.
fn halves() -> Case {
    let (part, rank) = (ROW * ROWS, || v("blockIdx.x"));
    let (all, bytes) = (2 * part, 4 * 2 * part);
    let load = Op::TensorLoad { map: "p0_map".into(), to: Landing::Cluster(2) };
    let place = || v("i") * c(128) + t();
    let mut body = vec![first(vec![
        does(Instr::new(Sync::MbarrierInit { arrivals: 1 }, [bar()], [])),
        does(Sync::MbarrierFence.into()),
    ])];
    body.extend(meeting());
    body.extend([
        first(vec![
            does(Instr::new(Sync::MbarrierExpect, [bar()], [c(bytes)])),
            does(Instr::new(load, [at("a", rank() * c(part)), bar()], [c(0), rank() * c(ROWS)])),
        ]),
        does(Instr::new(Sync::MbarrierWait, [bar()], [c(0)])),
        serial("i", all / 128, vec![store("p1", rank() * c(all) + place(), ldt("a", place(), DType::F32))]),
    ]);
    body.extend(meeting());
    let map = TensorMap {
        name: "p0_map".into(),
        buffer: "p0".into(),
        dtype: DType::F32,
        dims: vec![ROW, 2 * ROWS],
        strides_bytes: vec![ROW * 4],
        box_dims: vec![ROW, ROWS],
        elem_strides: vec![1; 2],
        swizzle: MapSwizzle::None,
        l2: 128,
    };
    let params =
        vec![input("p0", DType::F32, all), KernelParam::TensorMap(Box::new(map)), output("p1", DType::F32, 2 * all)];
    let arrays = vec![Array { align: 128, ..shared("a", DType::F32, all as u32) }, barriers(1)];
    let inputs = vec![random(DType::F32, all, 1)];
    let want = (0..2 * all).map(|o| inputs[0].get_f64((o % all) as usize)).collect();
    let mut program = program("multicast", kernel("multicast", params, arrays, body), 2, 128, None);
    program.launches[0].cluster = 2;
    Case::new(program, 90, inputs, want)
}
