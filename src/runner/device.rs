//! What measuring needs of a device: memory, modules, launches and a clock. One implementation per
//! kind of device; addresses are plain numbers in the device's own address space.

use super::{DeviceFacts, DeviceState, RunError, RunFailure};
use crate::backend::eval;
use crate::backend::plan::Init;
use crate::backend::{Arg, Dim, Plan, PlanLaunch, PlanTensorMap};
use crate::runner::element;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// One memory region of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Address of the first byte.
    pub at: u64,
    /// Its size.
    pub bytes: usize,
}

/// A loaded module, until it is unloaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModuleId(pub usize);

/// One step of a run.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Zeroes a region.
    Zero(Region),
    /// Launches a function of the loaded module.
    Launch {
        /// Its index among the symbols given to [`Device::load`].
        function: usize,
        /// Blocks per axis.
        grid: [u32; 3],
        /// Threads per axis.
        block: [u32; 3],
        /// Bytes of shared memory sized at launch.
        smem: u32,
        /// It may start while the launch before it ends, for which it waits itself.
        pdl: bool,
        /// Arguments, in the kernel's order.
        args: Vec<Value>,
    },
}

/// An argument of a launch.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A device address.
    Pointer(u64),
    /// The bits of a scalar in the low bytes, and its size.
    Scalar {
        /// The bits.
        bits: u64,
        /// 1, 2, 4 or 8.
        bytes: u8,
    },
    /// A tensor map of the memory at that address.
    TensorMap {
        /// The tensor's first element.
        at: u64,
        /// The map.
        map: Box<PlanTensorMap>,
    },
}

/// All steps of one execution of the function, on fixed buffers.
pub type Run = Vec<Step>;

/// How to time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Launches over rotated buffers, back to back: in a graph on CUDA.
    Rotate,
    /// One run at a time between two events, the cache cooled by reading before it (CUDA only).
    ColdRead,
}

/// Result of a call into the device.
pub type Outcome<T> = Result<T, RunError>;

/// A device.
pub trait Device {
    /// What it is.
    fn facts(&self) -> &DeviceFacts;

    /// How many bytes buffers rotate over, and the greatest number of sets that pays.
    fn rotation(&self) -> (u64, usize);

    /// Bytes that can still be allocated.
    fn free_bytes(&mut self) -> Outcome<u64>;

    /// Allocates memory, aligned to at least 4096 bytes on the CPU and 256 on CUDA.
    fn allocate(&mut self, bytes: usize) -> Outcome<Region>;

    /// Frees what [`Device::allocate`] gave.
    fn free(&mut self, region: Region);

    /// Copies host bytes to the device.
    fn upload(&mut self, at: u64, bytes: &[u8]) -> Outcome<()>;

    /// Copies device bytes to the host, after all launches are done.
    fn download(&mut self, at: u64, bytes: &mut [u8]) -> Outcome<()>;

    /// Copies elements of `size` bytes to the host, one after the other: those behind `at` with the
    /// numbers `points`.
    fn gather(&mut self, at: u64, size: usize, points: &[u64], bytes: &mut [u8]) -> Outcome<()>;

    /// True when two areas hold different bytes, a multiple of 16 of them.
    fn differ(&mut self, a: u64, b: u64, bytes: usize) -> Outcome<bool>;

    /// Copies between regions of the device.
    fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Outcome<()>;

    /// Sets every byte of a region.
    fn fill(&mut self, region: Region, byte: u8) -> Outcome<()>;

    /// Loads a compiled file and looks up its functions.
    fn load(&mut self, file: &Path, symbols: &[String]) -> Outcome<ModuleId>;

    /// Unloads a module.
    fn unload(&mut self, module: ModuleId);

    /// Runs once and waits. The time is rough: it includes launching.
    fn run(&mut self, module: ModuleId, run: &Run) -> Outcome<f64>;

    /// Makes ready to time `runs`, which use separate sets of buffers and touch `touched_bytes` each.
    /// `estimate_ns`: what one run takes, roughly. Where the sets are too few to evict each other, the
    /// device cools its cache before each sample if it can.
    fn begin(
        &mut self,
        module: ModuleId,
        runs: Vec<Run>,
        protocol: Protocol,
        estimate_ns: f64,
        touched_bytes: u64,
    ) -> Outcome<Box<dyn Timer>>;

    /// Clocks, throttling and other processes now; `None` where the device does not tell.
    fn state(&mut self) -> Option<DeviceState>;

    /// True after an error that makes every later call fail; the process should end.
    fn is_lost(&self) -> bool;

    /// Name of the policy that [`Device::begin`] follows.
    fn policy(&self, protocol: Protocol) -> &'static str;
}

/// Something that was made ready to be timed.
pub trait Timer {
    /// One sample: nanoseconds per run.
    fn sample(&mut self) -> Outcome<f64>;

    /// Runs that one sample is the mean of.
    fn runs(&self) -> usize;
}

/// Values of extents and scalar parameters by name.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Scalars {
    /// Extents.
    pub extents: BTreeMap<String, i64>,
    /// Scalar parameters.
    pub values: BTreeMap<String, f64>,
}

impl Scalars {
    fn value(&self, name: &str, dtype: crate::ir::DType) -> Outcome<Value> {
        let number = self.extents.get(name).map(|v| *v as f64).or_else(|| self.values.get(name).copied());
        let number = number.ok_or_else(|| bad(format!("no value for `{name}`; bind it")))?;
        let mut bytes = Vec::with_capacity(8);
        element::push(dtype, number, &mut bytes);
        let size = bytes.len() as u8;
        bytes.resize(8, 0);
        let mut word = [0; 8];
        word.copy_from_slice(&bytes);
        Ok(Value::Scalar { bits: u64::from_le_bytes(word), bytes: size })
    }
}

/// The steps of a plan on given buffers: one address per tensor parameter (by position; unused for
/// scalars) and one region per workspace.
///
/// # Errors
/// [`RunFailure::BadRequest`] for a missing extent, [`RunFailure::LaunchFailed`] for a size that no
/// launch can have.
pub fn bind(plan: &Plan, scalars: &Scalars, params: &[u64], workspaces: &[Region]) -> Outcome<Run> {
    let mut run = Run::new();
    for (w, region) in plan.workspaces.iter().zip(workspaces) {
        if w.init == Init::ZeroEach {
            run.push(Step::Zero(*region));
        }
    }
    for (function, launch) in plan.launches.iter().enumerate() {
        let args = launch.args.iter().map(|a| argument(a, scalars, params, workspaces)).collect::<Outcome<_>>()?;
        let Some(grid) = axes(&launch.grid, scalars, launch)? else { continue };
        let Some(block) = axes(&launch.block, scalars, launch)? else { continue };
        let smem = eval(&launch.dynamic_smem, &scalars.extents).map_err(bad)?;
        let smem = u32::try_from(smem).map_err(|_| bad(format!("{smem} bytes of shared memory are asked for")))?;
        run.push(Step::Launch { function, grid, block, smem, pdl: launch.pdl, args });
    }
    Ok(run)
}

fn argument(arg: &Arg, scalars: &Scalars, params: &[u64], workspaces: &[Region]) -> Outcome<Value> {
    let absent = |what: &str, i: usize| bad(format!("the plan names {what} {i}, which does not exist"));
    match arg {
        Arg::Param { param } => {
            params.get(*param).map(|p| Value::Pointer(*p)).ok_or_else(|| absent("parameter", *param))
        }
        Arg::Workspace { workspace: w } => {
            workspaces.get(*w).map(|r| Value::Pointer(r.at)).ok_or_else(|| absent("workspace", *w))
        }
        Arg::Scalar { scalar, dtype } => scalars.value(scalar, *dtype),
        Arg::TensorMap { tensor_map: map } => match params.get(map.param) {
            Some(at) => Ok(Value::TensorMap { at: *at, map: Box::new(map.clone()) }),
            None => Err(absent("parameter", map.param)),
        },
    }
}

/// Three positive sizes; `None` when one is zero and there is nothing to launch.
fn axes(dims: &[Dim; 3], scalars: &Scalars, launch: &PlanLaunch) -> Outcome<Option<[u32; 3]>> {
    let mut sizes = [0u32; 3];
    for (size, dim) in sizes.iter_mut().zip(dims) {
        let value = eval(dim, &scalars.extents).map_err(bad)?;
        *size = u32::try_from(value).ok().filter(|v| *v <= i32::MAX as u32).ok_or_else(|| {
            let text = format!("`{}` would be launched with {value} along one axis", launch.symbol);
            RunError::new(RunFailure::LaunchFailed, text)
        })?;
    }
    Ok(if sizes.contains(&0) { None } else { Some(sizes) })
}

fn bad(why: String) -> RunError {
    RunError::new(RunFailure::BadRequest, why)
}
