    use cudarc::driver::{CudaContext, CudaStream, DevicePtr, DevicePtrMut, DriverError, result, sys};
    use std::ffi::{CString, c_void};
    use std::sync::Arc;

    /// Why a kernel was not loaded or launched.
    #[derive(Debug)]
    #[non_exhaustive]
    pub enum Error {
        /// The driver refused.
        Driver(DriverError),
        /// The kernels were built for other GPUs than this one.
        Architecture {
            /// Compute capability of the device.
            device: (i32, i32),
            /// What there is.
            built_for: &'static str,
        },
        /// A buffer is too short or misaligned, or an extent is impossible.
        Argument(String),
        /// Text that was to be compiled on this machine did not compile.
        Compile(String),
    }

    impl std::fmt::Display for Error {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            match self {
                Error::Driver(e) => write!(f, "{e:?}"),
                Error::Architecture { device: (major, minor), built_for } => {
                    write!(f, "the device has compute capability {major}.{minor}, the kernels were built for {built_for}")
                }
                Error::Argument(s) | Error::Compile(s) => f.write_str(s),
            }
        }
    }

    impl std::error::Error for Error {}

    impl From<DriverError> for Error {
        fn from(e: DriverError) -> Error {
            Error::Driver(e)
        }
    }

    /// A compiled file, or text to compile on first use.
    enum Image {
        Cubin(&'static [u8]),
        Source { text: &'static str, architecture: &'static str },
    }

    /// A loaded module; unloaded when dropped.
    #[derive(Debug)]
    struct Module {
        context: Arc<CudaContext>,
        handle: sys::CUmodule,
    }

    // SAFETY: module handles may be used from any thread once the context is bound.
    unsafe impl Send for Module {}
    // SAFETY: as above.
    unsafe impl Sync for Module {}

    impl Module {
        fn load(context: &Arc<CudaContext>, image: &Image) -> Result<Module, Error> {
            context.bind_to_thread()?;
            let owned;
            let data = match image {
                Image::Cubin(bytes) => bytes.as_ptr(),
                Image::Source { text, architecture } => {
                    owned = compile(text, architecture)?;
                    owned.as_ptr()
                }
            };
            // SAFETY: `data` is a whole cubin.
            let handle = unsafe { result::module::load_data(data.cast()) }?;
            Ok(Module { context: context.clone(), handle })
        }

        fn kernel(&self, symbol: &str, dynamic_smem: i64) -> Result<Kernel, Error> {
            let name = CString::new(symbol).map_err(|_| Error::Argument("a symbol holds a zero".into()))?;
            // SAFETY: the module is loaded and its context is bound.
            let function = unsafe { result::module::get_function(self.handle, name) }?;
            if dynamic_smem > 0 {
                let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                // SAFETY: the function was just found.
                unsafe { result::function::set_function_attribute(function, attribute, dynamic_smem as i32) }?;
            }
            Ok(Kernel(function))
        }
    }

    impl Drop for Module {
        fn drop(&mut self) {
            if self.context.bind_to_thread().is_ok() {
                // SAFETY: nothing that came from the module outlives it.
                let _ = unsafe { result::module::unload(self.handle) };
            }
        }
    }

    /// A kernel of a loaded module.
    #[derive(Clone, Copy, Debug)]
    struct Kernel(sys::CUfunction);

    // SAFETY: function handles may be used from any thread once the context is bound.
    unsafe impl Send for Kernel {}
    // SAFETY: as above.
    unsafe impl Sync for Kernel {}

    /// Checks that a buffer holds `need` elements and is aligned for vector access.
    fn check(name: &str, len: usize, need: i64, pointer: sys::CUdeviceptr, align: u64) -> Result<(), Error> {
        match usize::try_from(need) {
            Ok(need) if len < need => {
                Err(Error::Argument(format!("`{name}` holds {len} elements, {need} are needed")))
            }
            Ok(_) if pointer % align != 0 => {
                Err(Error::Argument(format!("`{name}` is not aligned to {align} bytes")))
            }
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Argument(format!("`{name}` would hold {need} elements"))),
        }
    }

    /// True when an image for `built` (with its own instructions if `exact`) runs on `device`.
    fn runs_on(built: (i32, i32), exact: bool, device: (i32, i32)) -> bool {
        if exact { built == device } else { built.0 == device.0 && built.1 <= device.1 }
    }
