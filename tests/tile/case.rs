//! One tile call in its place, and running a program made of tile calls.
#![allow(dead_code)] // families use their own part

use daylight::analysis::Ranges;
use daylight::codegen;
use daylight::interp::{Mode, Scalars, Tensor, run_device};
use daylight::ir::device::{DStmt, DeviceFunc};
use daylight::ir::kernel::{Barrier, Program};
use daylight::ir::layout::TileLayout;
use daylight::ir::{Buffer, DType, Expr, Function, Name, Param, PrimFunc, Scope, TileCall, read_any};
use daylight::lower::lower_device;
use daylight::sim::{self, SimOptions};
use daylight::target::{HostCpu, Target};
use daylight::tile::{Active, Cx, decide};
use std::collections::BTreeMap;

/// What dispatch has to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Says {
    /// This variant carries the call out.
    Takes(&'static str),
    /// This variant declines, by this predicate among others.
    Declines(&'static str, &'static str),
}

/// A tile call in its place.
#[derive(Clone)]
pub struct Case {
    pub name: String,
    pub target: &'static str,
    pub block: [u32; 3],
    pub buffers: Vec<Buffer>,
    pub active: Active,
    pub call: TileCall,
    pub says: Says,
}

impl Case {
    /// A call that all threads of a one-dimensional block reach.
    pub fn new(name: &str, target: &'static str, threads: u32, buffers: &[Buffer], call: TileCall, says: Says) -> Case {
        let (name, buffers) = (name.to_string(), buffers.to_vec());
        Case { name, target, block: [threads, 1, 1], buffers, active: Active::All, call, says }
    }

    /// Calls `f` with the place of the call.
    pub fn place<R>(&self, f: impl FnOnce(&Cx) -> R) -> R {
        let target = target(self.target);
        let buffers: BTreeMap<Name, Buffer> = self.buffers.iter().map(|b| (b.name.clone(), b.clone())).collect();
        let ranges = thread_ranges(self.block);
        f(&Cx {
            target: &target,
            block: self.block,
            buffers: &buffers,
            shown: &[],
            ranges: &ranges,
            active: self.active,
        })
    }

    /// What is wrong with dispatch's answer, if anything is.
    pub fn mistake(&self) -> Option<String> {
        self.place(|cx| {
            let d = match decide(&self.call, cx) {
                Ok(d) => d,
                Err(e) => return Some(format!("{}: {e}", self.name)),
            };
            let right = match self.says {
                Says::Takes(v) => d.chosen == Some(v),
                Says::Declines(v, p) => {
                    d.verdicts.iter().any(|d| d.variant == v && d.refusals.iter().any(|r| r.predicate == p))
                }
            };
            (!right).then(|| format!("{}: expected {:?}\n{d}", self.name, self.says))
        })
    }
}

/// The target of that name.
pub fn target(id: &str) -> Target {
    Target::parse(id, &HostCpu::default()).expect("a known target")
}

fn thread_ranges(block: [u32; 3]) -> Ranges {
    let mut ranges = Ranges::new();
    for (axis, n) in ["threadIdx.x", "threadIdx.y", "threadIdx.z"].into_iter().zip(block) {
        ranges.set(axis, 0, i64::from(n) - 1);
    }
    ranges
}

/// A buffer; `layout` in the notation of tile programs, empty for none.
pub fn buffer(name: &str, dtype: DType, shape: &[i64], scope: Scope, layout: &str) -> Buffer {
    let mut b = Buffer::new(Name::new(name), dtype, shape.iter().map(|n| Expr::i64(*n)).collect(), scope);
    b.layout = (!layout.is_empty()).then(|| TileLayout::parse(layout).expect("a layout"));
    b
}

/// A tile program of one block: the buffers in global memory are its parameters.
pub fn program(threads: u32, buffers: &[Buffer], body: Vec<DStmt>) -> DeviceFunc {
    let params = buffers.iter().filter(|b| b.scope == Scope::Global).map(|b| Param::Buffer(b.name.clone())).collect();
    let func = PrimFunc {
        name: "tile".into(),
        private: false,
        params,
        buffers: buffers.to_vec(),
        extents: vec![],
        attrs: vec![],
        allocs: vec![],
        body: vec![],
        display: BTreeMap::new(),
    };
    let grid = [Expr::i64(1), Expr::i64(1), Expr::i64(1)];
    DeviceFunc { func, grid, block: [threads, 1, 1], body }
}

/// A barrier of the block.
pub fn sync() -> DStmt {
    DStmt::Barrier(Barrier::Block)
}

/// The program lowered for a target.
pub fn lowered(f: &DeviceFunc, id: &str) -> Program {
    lower_device(f, &target(id)).unwrap_or_else(|e| panic!("{e}")).0
}

/// The CUDA text for a target.
pub fn cuda(f: &DeviceFunc, id: &str) -> String {
    codegen::cuda(&lowered(f, id))
}

/// Runs the program in the simulator with several orders of threads, which have to agree, and gives
/// the parameters afterwards.
pub fn simulate(f: &DeviceFunc, id: &str, args: &[Tensor]) -> Vec<Tensor> {
    let p = lowered(f, id);
    let mut results: Vec<Vec<Tensor>> = vec![];
    for seed in 0..3 {
        let mut own = args.to_vec();
        let options = SimOptions { seed, replicas: true, ..SimOptions::default() };
        sim::run(&p, &mut own, &Scalars::new(), &options).unwrap_or_else(|e| panic!("{e}\n{p}"));
        results.push(own);
    }
    assert!(results.windows(2).all(|w| w[0] == w[1]), "the order of threads changes the result");
    results.remove(0)
}

/// Values in [-1, 1), the same for the same seed.
pub fn random(dtype: DType, shape: &[i64], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e3779b97f4a7c15).wrapping_add(1);
    let values: Vec<f64> = (0..shape.iter().product::<i64>())
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % 2001) as f64 / 1000.0 - 1.0
        })
        .collect();
    Tensor::from_f64(dtype, shape, &values)
}

/// A tile program of one block with these parameters (name, shape, type) and `tx`, its thread.
pub fn tile_program(params: &[(&str, &[i64], &str)], threads: u32, body: &str) -> DeviceFunc {
    let handles: Vec<String> = (0..params.len()).map(|i| format!("p{i}: T.handle")).collect();
    let mut text = format!("@T.prim_func\ndef k({}):\n", handles.join(", "));
    for (i, (name, shape, dtype)) in params.iter().enumerate() {
        text.push_str(&format!("    {name} = T.match_buffer(p{i}, {shape:?}, \"{dtype}\")\n"));
    }
    text.push_str(&format!("    T.device_entry(); T.cta_id([1]); tx = T.thread_id([{threads}])\n"));
    body.lines().for_each(|l| text.push_str(&format!("    {}\n", l.trim_end())));
    match read_any(&text, "k.py").unwrap_or_else(|e| panic!("{e}\n{text}")).pop() {
        Some(Function::Tile(p)) => p,
        _ => panic!("a tile program was expected:\n{text}"),
    }
}

/// One tensor per buffer parameter.
pub fn arguments(f: &DeviceFunc) -> Vec<Tensor> {
    let buffers = f.func.params.iter().filter_map(|p| match p {
        Param::Buffer(name) => Some(f.func.buffer(name)),
        Param::Scalar { .. } => None,
    });
    let make = |(seed, b): (usize, &Buffer)| {
        let shape: Vec<i64> = b.shape.iter().filter_map(Expr::as_int).collect();
        let mut t = random(b.dtype, &shape, seed as u64);
        if !b.dtype.is_float() {
            (0..t.len()).for_each(|i| t.set_i64(i, (i as i64 * 37 + seed as i64) % 251 - 120));
        }
        t
    };
    buffers.enumerate().map(make).collect()
}

/// What the reference makes of these inputs, in float64.
pub fn reference(f: &DeviceFunc, args: &[Tensor]) -> Vec<Tensor> {
    let wide = |t: &Tensor| match t.dtype.is_float() {
        true => Tensor::from_f64(DType::F64, &t.shape, &t.to_f64()),
        false => t.clone(),
    };
    let mut out: Vec<Tensor> = args.iter().map(wide).collect();
    run_device(f, &mut out, &Scalars::new(), Mode::F64).unwrap_or_else(|e| panic!("{e}"));
    out
}

/// Simulates a program and compares it with the reference: `|o - r| <= tolerance max(1, |r|)`.
pub fn close_to_reference(name: &str, f: &DeviceFunc, id: &str, tolerance: f64) {
    let args = arguments(f);
    let (got, want) = (simulate(f, id, &args), reference(f, &args));
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        for (at, (o, r)) in got.to_f64().into_iter().zip(want.to_f64()).enumerate() {
            let near = (o - r).abs() <= tolerance * r.abs().max(1.0) || (o.is_nan() && r.is_nan()) || o == r;
            assert!(near, "{name}: element {at} of parameter {i} is {o}, the reference has {r}\n{}", lowered(f, id));
        }
    }
}
