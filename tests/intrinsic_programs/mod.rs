//! Small kernels of one intrinsic each, with inputs and the results of plain arithmetic.
#![allow(dead_code)] // each test binary uses its own part

mod arithmetic;
mod async_copy;
mod launch_control;
mod matrix;
mod multicast;
mod pair;
mod scaled;
mod tensor;
mod warpgroup;

pub use arithmetic::*;
pub use async_copy::*;
pub use launch_control::*;
pub use matrix::*;
pub use multicast::*;
pub use pair::*;
pub use scaled::*;
pub use tensor::*;
pub use warpgroup::*;

use crate::codegen_programs::*;
use daylight::interp::Tensor;
use daylight::ir::instr::{At, Instr, Op, Sync};
use daylight::ir::kernel::*;
use daylight::ir::{BinOp, DType, Expr};
use daylight::target::{HostCpu, Target};

/// The first target of a compute capability.
pub fn target_of(sm: u32) -> Target {
    let name = if sm < 90 { format!("cuda:sm_{sm}") } else { format!("cuda:sm_{sm}a") };
    Target::parse(&name, &HostCpu::default()).expect("a target")
}

/// A kernel, what it is run on, and what it has to give.
pub struct Case {
    pub program: Program,
    /// Smallest compute capability that has its instructions.
    pub sm: u32,
    pub inputs: Vec<Tensor>,
    /// Elements of the last parameter.
    pub want: Vec<f64>,
    /// Relative to the greatest element; 0 where the result is exact.
    pub tolerance: f64,
}

impl Case {
    pub fn new(program: Program, sm: u32, inputs: Vec<Tensor>, want: Vec<f64>) -> Case {
        Case { program, sm, inputs, want, tolerance: 0.0 }
    }

    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// Inputs and an output of zeros.
    pub fn args(&self) -> Vec<Tensor> {
        let output = self.program.launches[0].kernel.params.last().map(|p| match p {
            KernelParam::Pointer { dtype, len, .. } => Tensor::zeros(*dtype, &[len.as_int().expect("a constant")]),
            KernelParam::Scalar { .. } | KernelParam::TensorMap(_) => panic!("the output is a pointer"),
        });
        self.inputs.iter().cloned().chain(output).collect()
    }

    /// The greatest finite element of the result.
    fn scale(&self) -> f64 {
        self.want.iter().filter(|w| w.is_finite()).fold(0.0f64, |m, w| m.max(w.abs()))
    }

    /// The greatest difference of two results, relative to the greatest element; NaN equals NaN.
    pub fn difference(&self, a: &Tensor, b: &Tensor) -> f64 {
        let pairs = (0..a.len()).map(|i| (a.get_f64(i), b.get_f64(i)));
        let own = pairs.filter(|(a, b)| a != b && !(a.is_nan() && b.is_nan()));
        own.fold(0.0, |m, (a, b)| f64::max(m, (a - b).abs() / self.scale()))
    }

    /// Compares a result with what is wanted; NaN equals NaN.
    pub fn check(&self, got: &Tensor) {
        let scale = self.scale();
        assert_eq!(got.len(), self.want.len(), "{}", self.name());
        for (i, want) in self.want.iter().enumerate() {
            let got = got.get_f64(i);
            let same = got == *want || got.is_nan() && want.is_nan();
            let near = (got - want).abs() <= self.tolerance * scale;
            assert!(same || near, "{}[{i}]: {got} is not {want}", self.name());
        }
    }
}

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut all = arithmetic_cases();
    all.extend(matrix_cases());
    all.extend(async_cases());
    all
}

/// Numbers between -1 and 1 with three digits.
pub fn random(dtype: DType, len: i64, seed: u64) -> Tensor {
    Tensor::from_f64(dtype, &[len], &numbers(len, seed))
}

pub fn numbers(len: i64, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) % 2001) as f64 / 1000.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

pub fn values(t: &Tensor) -> Vec<f64> {
    (0..t.len()).map(|i| t.get_f64(i)).collect()
}

pub fn at(array: &str, index: Expr) -> At {
    At::new(&array.into(), index)
}

pub fn does(i: Instr) -> KStmt {
    KStmt::Instr(i)
}

/// The thread's number.
pub fn t() -> Expr {
    v("threadIdx.x")
}

pub fn div(a: Expr, b: i64) -> Expr {
    op(BinOp::FloorDiv, a, c(b))
}

pub fn rem(a: Expr, b: i64) -> Expr {
    op(BinOp::FloorMod, a, c(b))
}

pub fn eq(a: Expr, b: i64) -> Expr {
    op(BinOp::Eq, a, c(b))
}

/// The statements of the first thread.
pub fn first(then: Vec<KStmt>) -> KStmt {
    if_(eq(t(), 0), then)
}

/// A program of one block.
pub fn one_block(name: &str, params: Vec<KernelParam>, arrays: Vec<Array>, body: Vec<KStmt>, threads: u32) -> Program {
    program(name, kernel(name, params, arrays, body), 1, threads, None)
}

/// All kernels that a compute capability adds, as one program.
pub fn together(cases: &[Case], sm: u32) -> Program {
    let mut own = cases.iter().filter(|c| c.sm == sm).map(|c| c.program.clone());
    let mut whole = own.next().expect("a case");
    whole.launches.extend(own.flat_map(|p| p.launches));
    whole.name = format!("intrinsics of sm_{sm}");
    whole
}
