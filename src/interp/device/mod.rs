//! Reference semantics of tile programs.
//!
//! Buffers are tensors: one of each shared buffer per block, and registers of each thread, among
//! which a layout shares out the elements. Blocks run one after another. Inside a block every
//! statement is run for all threads that reach it before the next one, so that barriers order
//! nothing; that all who should meet at one do is checked. What a barrier in shared memory counts is
//! there once its phase has been waited for. A tile call runs once for each group of
//! threads that its scope means, on elements and not as any variant would carry it out.

mod eval;
mod mbarrier;
mod memory;
mod scaled;
mod stmt;
mod tile;

use super::layout::{Layout, Scalar, Scalars};
use super::op::InterpError;
use super::run::check_dtypes;
use super::{Mode, Tensor};
use crate::ir::device::DeviceFunc;
use crate::ir::{DType, Name};
use mbarrier::Mbarriers;
use memory::Memory;
use std::collections::HashMap;

type Result<T> = std::result::Result<T, InterpError>;

/// Runs a tile program. `args` holds one tensor per buffer parameter, in order, each with its
/// elements as they lie in memory; those that the program writes are changed. In [`Mode::F64`] float
/// tensors may be `float64`, as for `run`. Gives for each argument the flat indices of the elements
/// that were stored to, in ascending order.
///
/// # Errors
/// When arguments do not fit, an index leaves its buffer or is held by another thread, something is
/// read that nothing has written, threads miss a barrier or a tile call of theirs, or store different
/// values to one element at once. Arguments are then unchanged.
pub fn run_device(program: &DeviceFunc, args: &mut [Tensor], scalars: &Scalars, mode: Mode) -> Result<Vec<Vec<u64>>> {
    check_dtypes(&program.func, args, mode)?;
    let layout = Layout::of(&program.func, args, scalars, |_| false)?;
    let threads: usize = program.block.iter().map(|n| *n as usize).product();
    let memory = Memory::new(program, args, threads)?;
    let mut m = Machine { program, mode, threads, memory, vars: HashMap::new(), barriers: Mbarriers::default() };
    for (name, value) in &layout.scalars {
        let slot = match value {
            Scalar::Int(v) => *v as u64,
            Scalar::Float(v) => v.to_bits(),
        };
        m.vars.insert(name.clone(), vec![slot; threads]);
    }
    m.launch()?;
    Ok(m.memory.write_back(program, args))
}

/// All threads of the block that is running.
struct Machine<'p> {
    program: &'p DeviceFunc,
    mode: Mode,
    threads: usize,
    memory: Memory,
    /// The slot of each variable in each thread.
    vars: HashMap<Name, Vec<u64>>,
    barriers: Mbarriers,
}

impl Machine<'_> {
    fn launch(&mut self) -> Result<()> {
        let mut grid = [0; 3];
        for (n, e) in grid.iter_mut().zip(&self.program.grid) {
            *n = e.as_int().ok_or_else(|| InterpError::Unsupported("a grid that is not constant".to_string()))?;
        }
        let [x, y, _] = self.program.block.map(|n| n as usize);
        let of_thread = |f: &dyn Fn(usize) -> usize| (0..self.threads).map(|t| f(t) as u64).collect::<Vec<_>>();
        let indices = [of_thread(&|t| t % x), of_thread(&|t| t / x % y), of_thread(&|t| t / (x * y))];
        for (name, values) in ["threadIdx.x", "threadIdx.y", "threadIdx.z"].into_iter().zip(indices) {
            self.vars.insert(Name::new(name), values);
        }
        let all: Vec<usize> = (0..self.threads).collect();
        for block in 0..grid.iter().product::<i64>() {
            let at = [block % grid[0], block / grid[0] % grid[1], block / (grid[0] * grid[1])];
            for (name, at) in ["blockIdx.x", "blockIdx.y", "blockIdx.z"].into_iter().zip(at) {
                self.vars.insert(Name::new(name), vec![at as u64; self.threads]);
            }
            self.memory.forget();
            self.barriers = Mbarriers::default();
            self.list(&self.program.body, &all)?;
        }
        Ok(())
    }

    /// The type that floats of `dtype` are rounded to.
    fn float(&self, dtype: DType) -> DType {
        if self.mode == Mode::F64 && dtype.is_float() { DType::F64 } else { dtype }
    }

    fn user(&self, name: &Name) -> String {
        self.program.func.display_name(name).to_string()
    }
}
