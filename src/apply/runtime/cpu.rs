    use std::ffi::c_void;

    /// Why a kernel was not run.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Error {
        /// A slice is too short or an extent is impossible.
        Argument(String),
        /// The kernels were built for other processors than this one.
        Processor(&'static str),
    }

    impl std::fmt::Display for Error {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            match self {
                Error::Argument(s) => f.write_str(s),
                Error::Processor(built_for) => write!(f, "this processor is none of {built_for}"),
            }
        }
    }

    impl std::error::Error for Error {}

    /// A kernel: runs the blocks `begin..end` of its grid.
    type Kernel = unsafe extern "C" fn(*const *mut c_void, *const i64, i64, i64);

    /// Runs a grid on up to `threads` threads.
    ///
    /// # Safety
    /// The pointers must be what the kernel expects.
    unsafe fn run_grid(kernel: Kernel, buffers: &[usize], scalars: &[i64], grid: i64, threads: usize) {
        let parts = i64::try_from(threads).unwrap_or(i64::MAX).clamp(1, grid.max(1));
        let part = |i: i64| {
            let pointers: Vec<*mut c_void> = buffers.iter().map(|b| *b as *mut c_void).collect();
            let (begin, end) = (grid * i / parts, grid * (i + 1) / parts);
            // SAFETY: the caller vouches for the pointers; parts do not overlap.
            unsafe { kernel(pointers.as_ptr(), scalars.as_ptr(), begin, end) };
        };
        if parts == 1 {
            return part(0);
        }
        std::thread::scope(|scope| {
            for i in 1..parts {
                scope.spawn(move || part(i));
            }
            part(0);
        });
    }

    /// Checks that a slice holds `need` elements.
    fn check(name: &str, len: usize, need: i64) -> Result<(), Error> {
        match usize::try_from(need) {
            Ok(need) if len >= need => Ok(()),
            Ok(need) => Err(Error::Argument(format!("`{name}` holds {len} elements, {need} are needed"))),
            Err(_) => Err(Error::Argument(format!("`{name}` would hold {need} elements"))),
        }
    }
