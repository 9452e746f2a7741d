//! A whole program: arguments, launches in order, blocks one after another.

use super::block::Block;
use super::clock::{COPIES, Clock};
use super::code::Code;
use super::compile::compile;
use super::error::SimError;
use super::memory::Memory;
use super::origin::{Origin, Writer, sources, writers};
use super::scalar;
use super::unstarted::Unstarted;
use super::{SimOptions, SimReport};
use crate::interp::{Scalar, Scalars, Tensor, round_to, wrap_int};
use crate::ir::instr::Op;
use crate::ir::kernel::{ArrayScope, KernelParam, Launch, Program};
use crate::ir::{DType, Expr, ExprKind, Name, Param};
use std::collections::BTreeMap;

/// Runs a program. `args` are its tensor parameters in order, `scalars` the values of its symbolic
/// extents and scalar parameters. Outputs are found in `args` afterwards, poisoned where nothing
/// has written them; after an error their contents mean nothing.
///
/// # Errors
/// [`SimError::Arguments`] when arguments do not fit, else the first fault of a kernel.
pub fn run(
    program: &Program,
    args: &mut [Tensor],
    scalars: &Scalars,
    options: &SimOptions,
) -> Result<SimReport, SimError> {
    let mut state = State::new(program, args, scalars, options)?;
    let mut report = SimReport::default();
    let mut writer = None;
    let mut result = Ok(());
    for (i, launch) in program.launches.iter().enumerate() {
        let last = i + 1 == program.launches.len();
        // a block that is to find that all others are done finds it only where they run
        let counted = launch.kernel.has_instr(|op| matches!(op, Op::LastBlock { .. }));
        let most = if last && !counted { options.max_blocks } else { None };
        let watch = options.watch.as_ref().map(|(name, e)| (name, *e as usize));
        result = state.launch(launch, most, options.seed.wrapping_add(i as u64), watch, &mut report).map(|found| {
            writer = found.map(|(w, statement)| (w, (i, statement))).or(writer.take());
        });
        if result.is_err() {
            break;
        }
    }
    report.origin = options.watch.as_ref().map(|(name, _)| match writer {
        Some((writer, place)) => Origin { from: sources(program, place), writer: Some(writer) },
        None => Origin { from: writers(program, name), writer: None },
    });
    if options.max_blocks.is_some() {
        report.written = state.written(program);
    }
    state.give_back(program, args);
    result.map(|()| report)
}

/// Global memory and the values of scalars.
struct State<'a> {
    scalars: &'a Scalars,
    memory: BTreeMap<Name, Memory>,
    clock: Clock,
    /// [`SimOptions::replicas`].
    replicas: bool,
}

impl<'a> State<'a> {
    fn new(
        p: &Program,
        args: &mut [Tensor],
        scalars: &'a Scalars,
        options: &SimOptions,
    ) -> Result<State<'a>, SimError> {
        let names: Vec<&Name> = tensor_params(p).collect();
        if names.len() != args.len() {
            let why = format!("program `{}` takes {} tensors, not {}", p.name, names.len(), args.len());
            return Err(SimError::Arguments(why));
        }
        let mut state = State { scalars, memory: BTreeMap::new(), clock: Clock::default(), replicas: options.replicas };
        for w in &p.workspaces {
            let len = state.extent(&w.len)?.max(0) as u64;
            state.memory.insert(w.name.clone(), Memory::unwritten(w.dtype, len, false));
        }
        for p in p.launches.iter().flat_map(|l| &l.kernel.params) {
            if let KernelParam::Pointer { name, dtype, len, .. } = p
                && let Some(i) = names.iter().position(|n| *n == name)
            {
                let len = state.extent(len)?;
                let arg = &args[i];
                if arg.dtype != *dtype || arg.len() as i64 != len {
                    let (n, t) = (arg.len(), arg.dtype);
                    let why = format!("tensor `{name}` has {n} elements of {t}, expected {len} of {dtype}");
                    return Err(SimError::Arguments(why));
                }
            }
        }
        for (name, arg) in names.into_iter().zip(args) {
            let output = is_written(p, name) && !options.inout.contains(name);
            let mut memory = Memory::of(arg, !output);
            if output {
                memory.poison();
            }
            state.memory.insert(name.clone(), memory);
        }
        Ok(state)
    }

    /// Runs a launch; who wrote the watched element, and at which statement.
    fn launch(
        &mut self,
        l: &Launch,
        most: Option<u64>,
        seed: u64,
        watch: Option<(&Name, usize)>,
        report: &mut SimReport,
    ) -> Result<Option<(Writer, usize)>, SimError> {
        let mut grid = [0u32; 3];
        for (g, e) in grid.iter_mut().zip(&l.grid) {
            let n = self.extent(e)?;
            *g = u32::try_from(n).map_err(|_| {
                SimError::Arguments(format!("kernel `{}` is launched with {n} blocks along an axis", l.kernel.symbol))
            })?;
        }
        let cluster = l.cluster.max(1);
        if grid[0] % cluster != 0 || l.threads() * cluster > COPIES {
            let (symbol, threads) = (&l.kernel.symbol, l.threads());
            let why = format!("kernel `{symbol}`: {} blocks of {threads} threads in clusters of {cluster}", grid[0]);
            return Err(SimError::Arguments(why));
        }
        grid[0] /= cluster;
        let total = grid.iter().map(|g| u64::from(*g)).product::<u64>();
        let mut scalars = vec![];
        let mut memory = vec![];
        let mut names = vec![];
        for p in &l.kernel.params {
            match p {
                KernelParam::Pointer { name, .. } => {
                    let taken = self.memory.remove(name);
                    let why = || SimError::Arguments(format!("`{name}` is neither a parameter nor a workspace"));
                    memory.push(taken.ok_or_else(why)?);
                    names.push(name);
                }
                KernelParam::Scalar { name, dtype } => scalars.push(self.scalar(name, *dtype)?),
                KernelParam::TensorMap(_) => {}
            }
        }
        let lens: Vec<u64> = memory.iter().map(Memory::len).collect();
        let shared = l.kernel.arrays.iter().filter(|a| a.scope != ArrayScope::Register);
        let shared = (0..cluster).flat_map(|_| shared.clone());
        memory.extend(shared.map(|a| Memory::unwritten(a.dtype, a.len.into(), true)));
        memory.iter_mut().for_each(|m| m.shadow.replicas = self.replicas);
        let code = compile(&l.kernel, &scalars, &lens);
        let mut block = Block::new(&code, l.block, cluster, seed, std::mem::take(&mut self.clock));
        let mut result = Ok(());
        let numbers = chosen(total, most.map(|n| n.div_ceil(u64::from(cluster))));
        block.unstarted = Unstarted::new(numbers, grid, cluster);
        while let Some(first) = block.unstarted.start() {
            memory[names.len()..].iter_mut().for_each(Memory::poison);
            report.started += u64::from(cluster);
            result = block.run(first, &mut memory);
            if result.is_err() {
                break;
            }
        }
        report.instructions += block.instructions;
        report.blocks += block.unstarted.gone * u64::from(cluster);
        self.clock = std::mem::take(&mut block.clock);
        let watched = watch.and_then(|(name, i)| Some((&memory[names.iter().position(|n| *n == name)?], i)));
        let writer = watched.and_then(|(memory, i)| writer(&code, &self.clock, memory, i));
        self.memory.extend(names.into_iter().cloned().zip(memory));
        result.map(|()| writer)
    }

    /// The elements of tensor parameters that some launch wrote.
    fn written(&self, p: &Program) -> BTreeMap<Name, Vec<u64>> {
        let elements = |m: &Memory| (0..m.len()).filter(|i| m.shadow.last_write(*i as usize, 0).is_some()).collect();
        let of = |name: &Name| Some((name.clone(), elements(self.memory.get(name)?)));
        tensor_params(p).filter(|name| is_written(p, name)).filter_map(of).collect()
    }

    /// Puts the memory of parameters back into the tensors.
    fn give_back(&mut self, p: &Program, args: &mut [Tensor]) {
        for (name, arg) in tensor_params(p).zip(args) {
            if let Some(memory) = self.memory.remove(name) {
                arg.data = memory.data;
            }
        }
    }

    fn scalar(&self, name: &Name, dtype: DType) -> Result<u64, SimError> {
        let value = self.scalars.get(name);
        let value = value.ok_or_else(|| SimError::Arguments(format!("the value of `{name}` is not known: bind it")))?;
        Ok(match (*value, dtype.is_float()) {
            (Scalar::Int(v), false) => wrap_int(v, dtype) as u64,
            (Scalar::Int(v), true) => round_to(v as f64, dtype).to_bits(),
            (Scalar::Float(v), true) => round_to(v, dtype).to_bits(),
            (Scalar::Float(v), false) => wrap_int(v as i64, dtype) as u64,
        })
    }

    /// The value of a size: integer arithmetic over extents.
    fn extent(&self, e: &Expr) -> Result<i64, SimError> {
        let bad = || SimError::Arguments(format!("a size is no integer arithmetic over extents: {e:?}"));
        match e.kind() {
            ExprKind::Int { value, .. } => Ok(*value),
            ExprKind::Var { name, dtype } => Ok(self.scalar(name, *dtype)? as i64),
            ExprKind::Cast { dtype, arg } => Ok(wrap_int(self.extent(arg)?, *dtype)),
            ExprKind::Binary { op, a, b } => {
                let (a, b) = (self.extent(a)?, self.extent(b)?);
                Ok(scalar::apply_int(*op, e.dtype(), a as u64, b as u64) as i64)
            }
            ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise } => {
                self.extent(if self.extent(cond)? != 0 { then } else { otherwise })
            }
            ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::Load { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Reinterpret { .. }
            | ExprKind::Call { .. }
            | ExprKind::Extern { .. }
            | ExprKind::Let { .. } => Err(bad()),
        }
    }
}

/// Who wrote an element in the current launch, and the number of the statement.
fn writer(code: &Code, clock: &Clock, memory: &Memory, i: usize) -> Option<(Writer, usize)> {
    let (stamp, thread, pc) = memory.shadow.last_write(i, clock.launch)?;
    let writer = Writer {
        kernel: code.symbol.clone(),
        statement: code.statement(pc).to_string(),
        block: clock.block_of(stamp, thread),
        thread: (thread != COPIES).then(|| clock.thread(thread)),
    };
    Some((writer, code.statement_of.get(pc).map_or(0, |s| *s as usize)))
}

fn tensor_params(p: &Program) -> impl Iterator<Item = &Name> {
    p.params.iter().filter_map(|p| match p {
        Param::Buffer(name) => Some(name),
        Param::Scalar { .. } => None,
    })
}

fn is_written(p: &Program, buffer: &Name) -> bool {
    p.launches.iter().any(|l| l.kernel.writes(buffer))
}

/// Numbers of the blocks to run: all, or `most` spread evenly with the first and the last.
fn chosen(total: u64, most: Option<u64>) -> Vec<u64> {
    let n = most.unwrap_or(total).min(total);
    if n == total {
        return (0..total).collect();
    }
    let at = |i: u64| if n == 1 { 0 } else { (u128::from(i) * u128::from(total - 1) / u128::from(n - 1)) as u64 };
    (0..n).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_both_ends() {
        assert_eq!(chosen(5, None), [0, 1, 2, 3, 4]);
        assert_eq!(chosen(5, Some(9)), [0, 1, 2, 3, 4]);
        assert_eq!(chosen(101, Some(3)), [0, 50, 100]);
        assert_eq!(chosen(101, Some(1)), [0]);
        assert!(chosen(3, Some(0)).is_empty());
    }
}
