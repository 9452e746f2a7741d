//! A run in the form that the driver takes: functions, sizes and argument words at fixed addresses.

use super::Stream;
use super::cublas::Product;
use super::driver::Health;
use super::tensor_map::encode;
use crate::runner::device::{Outcome, Region, Run, Step, Value};
use crate::runner::{RunError, RunFailure};
use cudarc::driver::{result, sys};
use std::ffi::c_void;
use std::rc::Rc;

/// Shared memory that needs no leave.
const PLAIN_SHARED_LIMIT: u32 = 48 << 10;

/// A run bound to the functions of a module.
pub struct Bound {
    steps: Vec<BoundStep>,
}

enum BoundStep {
    Zero(Region),
    Launch {
        function: sys::CUfunction,
        grid: [u32; 3],
        block: [u32; 3],
        smem: u32,
        pdl: bool,
        words: Vec<Word>,
    },
    /// Addresses of the factors and of the result.
    Product {
        product: Rc<Product>,
        at: [u64; 3],
    },
}

/// An argument as the kernel takes it.
pub enum Word {
    /// An address or a scalar: the driver reads as many bytes as the kernel declares, the low ones.
    Bits(u64),
    /// A tensor map by value.
    Map(Box<sys::CUtensorMap>),
}

impl Bound {
    /// Binds a run; asks for large shared memory where a launch needs it.
    pub fn new(functions: &[sys::CUfunction], run: &Run, health: &Health) -> Outcome<Bound> {
        let steps = run.iter().map(|step| match step {
            Step::Zero(region) => Ok(BoundStep::Zero(*region)),
            Step::Launch { function, grid, block, smem, pdl, args } => {
                let handle = functions.get(*function).copied();
                let handle = handle.ok_or_else(|| RunError::new(RunFailure::BadRequest, "a launch has no function"))?;
                allow_shared(handle, *smem, health)?;
                let words = args.iter().map(word).collect::<Outcome<_>>()?;
                Ok(BoundStep::Launch { function: handle, grid: *grid, block: *block, smem: *smem, pdl: *pdl, words })
            }
        });
        Ok(Bound { steps: steps.collect::<Outcome<_>>()? })
    }

    /// Binds a run whose one launch is a library's product of its three arguments.
    pub fn of_product(product: &Rc<Product>, run: &Run) -> Outcome<Bound> {
        let steps = run.iter().map(|step| match step {
            Step::Launch { args, .. } => match args.as_slice() {
                [Value::Pointer(a), Value::Pointer(b), Value::Pointer(c)] => {
                    Ok(BoundStep::Product { product: product.clone(), at: [*a, *b, *c] })
                }
                _ => Err(RunError::new(RunFailure::BadRequest, "a product takes two factors and its result")),
            },
            Step::Zero(region) => Ok(BoundStep::Zero(*region)),
        });
        Ok(Bound { steps: steps.collect::<Outcome<_>>()? })
    }

    /// Puts all steps on the stream.
    pub fn enqueue(&mut self, stream: &Stream) -> Outcome<()> {
        for step in &mut self.steps {
            match step {
                BoundStep::Zero(region) => {
                    // SAFETY: the region is a workspace of this run.
                    let filled = unsafe { result::memset_d8_async(region.at, 0, region.bytes, stream.handle) };
                    stream.health.check(filled, "zeroing a workspace")?;
                }
                BoundStep::Launch { function, grid, block, smem, pdl, words } => {
                    launch_words(stream, *function, (*grid, *block, *smem), *pdl, words)?;
                }
                BoundStep::Product { product, at } => product.enqueue(stream, *at)?,
            }
        }
        Ok(())
    }
}

fn word(value: &Value) -> Outcome<Word> {
    match value {
        Value::Pointer(at) => Ok(Word::Bits(*at)),
        Value::Scalar { bits, .. } => Ok(Word::Bits(*bits)),
        Value::TensorMap { at, map } => Ok(Word::Map(Box::new(encode(*at, map)?))),
    }
}

impl Word {
    fn pointer(&mut self) -> *mut c_void {
        match self {
            Word::Bits(bits) => std::ptr::from_mut(bits).cast(),
            Word::Map(map) => std::ptr::from_mut(&mut **map).cast(),
        }
    }
}

fn allow_shared(function: sys::CUfunction, bytes: u32, health: &Health) -> Outcome<()> {
    if bytes <= PLAIN_SHARED_LIMIT {
        return Ok(());
    }
    let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the function belongs to a loaded module.
    let set = unsafe { result::function::set_function_attribute(function, attribute, bytes as i32) };
    health.check(set, &format!("asking for {bytes} bytes of shared memory"))
}

/// Launches one kernel whose arguments are addresses and scalars.
pub fn launch(
    stream: &Stream,
    function: sys::CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    smem: u32,
    words: &mut [u64],
) -> Outcome<()> {
    let mut words: Vec<Word> = words.iter().map(|w| Word::Bits(*w)).collect();
    launch_words(stream, function, (grid, block, smem), false, &mut words)
}

/// Launches one kernel of so many blocks, threads and bytes of shared memory; `pdl` lets it start while the one before it ends.
/// `words` must stay where they are only during the call.
fn launch_words(
    stream: &Stream,
    function: sys::CUfunction,
    (grid, block, smem): ([u32; 3], [u32; 3], u32),
    pdl: bool,
    words: &mut [Word],
) -> Outcome<()> {
    let mut pointers: Vec<*mut c_void> = words.iter_mut().map(Word::pointer).collect();
    let mut overlap = sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
    };
    let config = sys::CUlaunchConfig {
        gridDimX: grid[0],
        gridDimY: grid[1],
        gridDimZ: grid[2],
        blockDimX: block[0],
        blockDimY: block[1],
        blockDimZ: block[2],
        sharedMemBytes: smem,
        hStream: stream.handle,
        attrs: &raw mut overlap,
        numAttrs: u32::from(pdl),
    };
    // SAFETY: the argument words have the order and sizes of the plan that the kernel was generated
    // with; the driver copies them during the call, which the attribute outlives.
    let launched = unsafe {
        sys::cuLaunchKernelEx(&raw const config, function, pointers.as_mut_ptr(), std::ptr::null_mut()).result()
    };
    stream.health.check(launched, "launching the kernel")
}
