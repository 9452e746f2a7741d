//! Products of cuBLASLt, whose library is loaded at run time.

use super::Stream;
use crate::runner::device::{Outcome, Region};
use crate::runner::gemm::{ByColumns, Call, Element};
use crate::runner::{RunError, RunFailure};
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t as Compute, cublasLtMatmulDescAttributes_t as Of,
    cublasLtMatmulPreferenceAttributes_t as Prefer, cublasLtMatrixLayoutAttribute_t as Layout,
    cudaDataType_t as DataType,
};
use std::ffi::c_void;
use std::path::Path;
use std::rc::Rc;

/// What to do when the library is missing.
pub const ADVICE: &str = "libcublasLt was not found: install CUDA 12.8 or newer, or the Python package nvidia-cublas, \
     and name its folder in LD_LIBRARY_PATH";

/// Memory that a product may use: what NVIDIA recommends for Hopper and newer.
pub const WORKSPACE_BYTES: usize = 32 << 20;

/// Most ways to compute a product that the library is asked for.
pub const MOST_ALGORITHMS: usize = 8;

/// The library, opened for the current context.
pub struct Cublas {
    handle: sys::cublasLtHandle_t,
    /// Shared by all products: they run one after the other.
    workspace: Region,
}

impl Cublas {
    /// Opens the library: the file named, where it lies beside the usual places, else the system's.
    ///
    /// # Errors
    /// [`RunFailure::DeviceMissing`] with what to install.
    pub fn open(file: Option<&Path>, workspace: Region) -> Outcome<Cublas> {
        if let Some(file) = file {
            // SAFETY: NVIDIA's library has no initialisers that ask anything of us. What is loaded is found by its name
            // from then on, so it stays.
            let loaded = unsafe { libloading::Library::new(file) };
            loaded.into_iter().for_each(std::mem::forget);
        }
        // SAFETY: only opens the library; without it every other call would panic.
        if !unsafe { sys::is_culib_present() } {
            return Err(RunError::new(RunFailure::DeviceMissing, ADVICE));
        }
        let handle = result::create_handle();
        let handle = handle
            .map_err(|e| RunError::new(RunFailure::DeviceMissing, format!("cuBLASLt does not start: {:?}", e.0)))?;
        Ok(Cublas { handle, workspace })
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once. An error means a lost context, reported elsewhere.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// One product with the algorithm that computes it.
pub struct Product {
    library: Rc<Cublas>,
    what: Descriptions,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Product {
    /// Asks the library how to compute a product, and takes the answer of the number that is wanted.
    ///
    /// # Errors
    /// [`RunFailure::BadRequest`] where the library has fewer answers; [`RunFailure::LaunchFailed`] where it has none.
    pub fn new(library: Rc<Cublas>, call: &Call) -> Outcome<Product> {
        let what = Descriptions::of(call)?;
        let found = what.algorithms(&library)?;
        let algorithm = found.get(call.algorithm).copied().ok_or_else(|| {
            let text = format!("cuBLASLt has {} ways to compute this product", found.len());
            RunError::new(RunFailure::BadRequest, text)
        })?;
        Ok(Product { library, what, algorithm })
    }

    /// Puts the product on the stream; `at` are the addresses of `a`, `b` and `c`.
    ///
    /// # Errors
    /// [`RunFailure::LaunchFailed`] with the library's status.
    pub fn enqueue(&self, stream: &Stream, [a, b, c]: [u64; 3]) -> Outcome<()> {
        let (one, zero) = (1.0f32, 0.0f32);
        let [first, second, result] =
            [&self.what.layouts[0], &self.what.layouts[1], &self.what.layouts[2]].map(|l| l.0);
        let workspace = self.library.workspace;
        // SAFETY: the descriptions are alive and say what lies at these addresses; the library copies the two factors, which
        // are on the host, during the call.
        let done = unsafe {
            result::matmul(
                self.library.handle,
                self.what.product.0,
                std::ptr::from_ref(&one).cast(),
                std::ptr::from_ref(&zero).cast(),
                b as *const c_void,
                first,
                a as *const c_void,
                second,
                c as *const c_void,
                result,
                c as *mut c_void,
                result,
                &raw const self.algorithm,
                workspace.at as *mut c_void,
                workspace.bytes,
                stream.handle.cast(),
            )
        };
        checked(done, "launching the product")
    }
}

/// What the library is told of a product.
struct Descriptions {
    product: Description,
    layouts: [Matrix; 3],
}

/// A description of a product, destroyed when it is dropped.
struct Description(sys::cublasLtMatmulDesc_t);

/// A description of a matrix, destroyed when it is dropped.
struct Matrix(sys::cublasLtMatrixLayout_t);

/// Wishes for algorithms, destroyed when they are dropped.
struct Preference(sys::cublasLtMatmulPreference_t);

impl Descriptions {
    fn of(call: &Call) -> Outcome<Descriptions> {
        let by_columns = call.by_columns();
        let all = by_columns.ok_or_else(|| RunError::new(RunFailure::BadRequest, "a matrix is not made of lines"))?;
        let [first, second, result] = all;
        // Sums in float32: with float32 factors that is no TF32.
        let product = result::create_matmul_desc(Compute::CUBLAS_COMPUTE_32F, DataType::CUDA_R_32F);
        let product = Description(checked(product, "describing the product")?);
        product.set(Of::CUBLASLT_MATMUL_DESC_TRANSA, &operation(&first))?;
        product.set(Of::CUBLASLT_MATMUL_DESC_TRANSB, &operation(&second))?;
        let layout = |x: &ByColumns| Matrix::of(x, call.batch);
        Ok(Descriptions { product, layouts: [layout(&first)?, layout(&second)?, layout(&result)?] })
    }

    /// The library's algorithms for the product, the most promising first.
    fn algorithms(&self, library: &Cublas) -> Outcome<Vec<sys::cublasLtMatmulAlgo_t>> {
        let wishes = Preference(checked(result::create_matmul_pref(), "asking for algorithms")?);
        wishes.allow_workspace(library.workspace.bytes)?;
        let [first, second, result] = [&self.layouts[0], &self.layouts[1], &self.layouts[2]].map(|l| l.0);
        // SAFETY: plain numbers, for which zeros are values.
        let mut found: [sys::cublasLtMatmulHeuristicResult_t; MOST_ALGORITHMS] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        // SAFETY: the descriptions are alive; the library writes at most as many answers as are asked for.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                library.handle,
                self.product.0,
                first,
                second,
                result,
                result,
                wishes.0,
                MOST_ALGORITHMS as i32,
                found.as_mut_ptr(),
                &raw mut count,
            )
        };
        checked(status.result(), "asking for algorithms")?;
        let usable = found.iter().take(count.max(0) as usize).filter(|f| f.state.result().is_ok());
        let usable: Vec<_> = usable.map(|f| f.algo).collect();
        if usable.is_empty() {
            return Err(RunError::new(RunFailure::LaunchFailed, "cuBLASLt has no way to compute this product"));
        }
        Ok(usable)
    }
}

impl Description {
    fn set<T>(&self, attribute: Of, value: &T) -> Outcome<()> {
        let (at, bytes) = (std::ptr::from_ref(value).cast(), size_of::<T>());
        // SAFETY: the description is alive; the library copies the value, which has the type that the attribute asks for.
        checked(unsafe { result::set_matmul_desc_attribute(self.0, attribute, at, bytes) }, "describing the product")
    }
}

impl Matrix {
    fn of(x: &ByColumns, batch: u64) -> Outcome<Matrix> {
        let made = result::create_matrix_layout(data_type(x.element), x.rows, x.columns, x.leading);
        let layout = Matrix(checked(made, "describing a matrix")?);
        if batch > 1 {
            let count = i32::try_from(batch);
            let count =
                count.map_err(|_| RunError::new(RunFailure::BadRequest, format!("{batch} products in a batch")))?;
            layout.set(Layout::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count)?;
            layout.set(Layout::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &x.batch)?;
        }
        Ok(layout)
    }

    fn set<T>(&self, attribute: Layout, value: &T) -> Outcome<()> {
        let (at, bytes) = (std::ptr::from_ref(value).cast(), size_of::<T>());
        // SAFETY: the description is alive; the library copies the value, which has the type that the attribute asks for.
        checked(unsafe { result::set_matrix_layout_attribute(self.0, attribute, at, bytes) }, "describing a matrix")
    }
}

impl Preference {
    fn allow_workspace(&self, bytes: usize) -> Outcome<()> {
        let attribute = Prefer::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let (at, size) = (std::ptr::from_ref(&bytes).cast(), size_of::<usize>());
        // SAFETY: the wishes are alive; the library copies the number.
        checked(unsafe { result::set_matmul_pref_attribute(self.0, attribute, at, size) }, "asking for algorithms")
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

impl Drop for Matrix {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}

/// `CUBLAS_OP_N` or `CUBLAS_OP_T`, which the bindings of cuBLASLt lack.
fn operation(x: &ByColumns) -> i32 {
    i32::from(x.transposed)
}

fn data_type(element: Element) -> DataType {
    match element {
        Element::Float32 => DataType::CUDA_R_32F,
        Element::Float16 => DataType::CUDA_R_16F,
        Element::Bfloat16 => DataType::CUDA_R_16BF,
    }
}

fn checked<T>(result: Result<T, CublasError>, doing: &str) -> Outcome<T> {
    result.map_err(|e| RunError::new(RunFailure::LaunchFailed, format!("{:?} while {doing}", e.0)))
}
