//! What the outputs of a tile program must be, and whether its kernel gives them.

use super::problem;
use super::reference::{Given, Inputs, inputs_as};
use super::rounding::is_rounding;
use super::simulate::{Options, check_on};
use crate::analysis::program_roles;
use crate::interp::{Mode, run_device};
use crate::ir::device::{DStmt, DeviceFunc};
use crate::ir::kernel::Program;
use crate::ir::{DType, Expr, Param, Role, TileArg, TileCall, TileOp};
use crate::measure::expected::ExpectedOutput;
use crate::measure::{Expected, Tolerance};
use crate::runner::{Errors, Range};
use std::collections::BTreeMap;

/// Of fewer outputs the norm is no better a scale than each of them: sums that nearly cancel stand out.
const FEW: usize = 64;

/// What the inputs of a program are drawn from. Scales of blocks are not negative: instructions take them without sign.
pub fn given(program: &DeviceFunc, bind: &BTreeMap<String, i64>, seed: u64) -> Given {
    let mut given = problem::given(&program.func, bind, seed);
    if scales_blocks(&program.body) {
        for (at, p) in program.func.params.iter().enumerate() {
            if matches!(p, Param::Buffer(b) if program.func.buffer(b).dtype == DType::E4M3) {
                given.ranges.entry(at).or_insert(Range::new(0, 2));
            }
        }
    }
    given
}

/// Whether a product has scales for blocks of its factors.
fn scales_blocks(body: &[DStmt]) -> bool {
    body.iter().any(|s| match s {
        DStmt::Tile(call) => call.op == TileOp::Gemm && !call.operands.is_empty(),
        _ => s.lists().iter().any(|list| scales_blocks(list)),
    })
}

/// The arguments that a program is checked with. What it writes holds seeded values before, so that
/// elements that it leaves alone are told from those that it writes.
///
/// # Errors
/// A sentence, when an extent has no value.
pub fn arguments(program: &DeviceFunc, given: &Given) -> Result<Inputs, String> {
    let filled = program_roles(program).into_iter().map(|r| match r {
        Role::Out => Role::Inout,
        other => other,
    });
    inputs_as(&program.func, &filled.collect::<Vec<_>>(), given, false)
}

/// The expected outputs for seeded inputs: every element that the program stores to.
///
/// # Errors
/// A sentence, when the program cannot be run.
pub fn expected(program: &DeviceFunc, given: &Given) -> Result<Expected, String> {
    let Inputs { mut tensors, scalars, .. } = arguments(program, given)?;
    for t in tensors.iter_mut().filter(|t| t.dtype.is_float()) {
        *t = crate::interp::Tensor::from_f64(DType::F64, &t.shape, &t.to_f64());
    }
    let stored = run_device(program, &mut tensors, &scalars, Mode::F64).map_err(|e| e.to_string())?;
    let mut outputs = vec![];
    let buffers = program.func.params.iter().enumerate().filter_map(|(i, p)| match p {
        Param::Buffer(b) => Some((i, b)),
        Param::Scalar { .. } => None,
    });
    for (((param, b), tensor), points) in buffers.zip(&tensors).zip(stored).filter(|(_, points)| !points.is_empty()) {
        let values = points.iter().map(|k| tensor.get_f64(*k as usize)).collect();
        let mut tolerance = tolerance(program, program.func.buffer(b).dtype);
        if points.len() < FEW {
            tolerance.l2 = tolerance.max;
        }
        outputs.push(ExpectedOutput { param, points: Some(points), values, tolerance });
    }
    Ok(Expected { outputs })
}

/// Runs the kernel of a program in the simulator and compares.
///
/// # Errors
/// The fault that the simulator found, or how the numbers differ.
pub fn simulate(program: &DeviceFunc, kernel: &Program, given: &Given, options: Options) -> Result<Errors, String> {
    let expected = expected(program, given)?;
    check_on(kernel, arguments(program, given)?, &expected, options)
}

/// How far an output may be off: nothing where values are only moved or compared, else by the
/// roundoff of the coarsest type and the longest sum.
fn tolerance(program: &DeviceFunc, output: DType) -> Tolerance {
    let mut longest = Longest { length: 1, rounds: false, tf32: false };
    longest.list(&program.body, 1);
    if !output.is_float() || !longest.rounds {
        return Tolerance::EXACT;
    }
    let coarser = |a: DType, b: DType| if b.roundoff() > a.roundoff() { b } else { a };
    let floats = program.func.buffers.iter().map(|b| b.dtype).filter(|d| d.is_float());
    // tf32 has the fraction of float16.
    let coarsest = floats.chain(longest.tf32.then_some(DType::F16)).fold(output, coarser);
    Tolerance::of(coarsest, coarsest, longest.length)
}

/// The longest sum of a program, by its loops and reductions.
struct Longest {
    length: u64,
    rounds: bool,
    /// Whether float32 factors may be shortened.
    tf32: bool,
}

impl Longest {
    fn list(&mut self, body: &[DStmt], steps: u64) {
        for s in body {
            s.for_each_expr(|e| self.expr(e));
            let mut inside = steps;
            match s {
                DStmt::For(l) => inside = steps.saturating_mul(l.extent.as_int().map_or(1, |n| n.max(1) as u64)),
                DStmt::Store { buffer, value, .. } if value.loads(buffer) => self.length = self.length.max(steps),
                DStmt::Tile(call) => self.call(call, steps),
                _ => {}
            }
            s.lists().iter().for_each(|list| self.list(list, inside));
        }
    }

    fn expr(&mut self, e: &Expr) {
        e.visit(&mut |e| self.rounds |= is_rounding(e));
    }

    fn call(&mut self, call: &TileCall, steps: u64) {
        let exact = matches!(
            call.op,
            TileOp::Copy
                | TileOp::CopyAsync
                | TileOp::PermuteLayout
                | TileOp::Max
                | TileOp::Min
                | TileOp::Maximum
                | TileOp::Minimum
                | TileOp::Zero
                | TileOp::Fill
        );
        self.rounds |= !exact;
        self.tf32 |= call.op == TileOp::Gemm && call.allows_tf32();
        let own = match call.args.first() {
            Some(TileArg::Tile(t)) if call.op.is_reduction() => t.len() / call.dst.len().max(1),
            Some(TileArg::Tile(t)) if call.op == TileOp::Gemm => t.extent.iter().product(),
            _ => 1,
        };
        self.length = self.length.max(steps.saturating_mul(own.max(1) as u64));
    }
}
