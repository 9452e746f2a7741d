    use std::ffi::c_void;
    use std::sync::atomic::{AtomicI64, Ordering};

    /// Why a kernel was not run.
    #[derive(Clone, PartialEq, Eq, Debug)]
    #[non_exhaustive]
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

    /// The threads that a kernel runs on: so many started for the call (`4`), or those of a pool.
    pub trait Pool {
        /// Threads that work at the same time.
        fn threads(&self) -> usize;

        /// Calls `work` on up to that many threads and returns when all calls have returned. Each takes what is left
        /// to do, so that fewer calls are slower but not wrong.
        fn run(&self, work: &(dyn Fn() + Sync));
    }

    impl Pool for usize {
        fn threads(&self) -> usize {
            *self
        }

        fn run(&self, work: &(dyn Fn() + Sync)) {
            std::thread::scope(|scope| {
                for _ in 1..*self {
                    scope.spawn(work);
                }
                work();
            });
        }
    }

    /// A kernel: runs the blocks `begin..end` of its grid.
    type Kernel = unsafe extern "C" fn(*const *mut c_void, *const i64, i64, i64);

    /// Pieces per thread that a grid is cut into, so that threads that fall behind lose little.
    const PIECES: i64 = 4;

    /// Runs a grid on the threads of a pool.
    ///
    /// # Safety
    /// The pointers must be what the kernel expects.
    unsafe fn run_grid(kernel: Kernel, buffers: &[usize], scalars: &[i64], grid: i64, pool: &dyn Pool) {
        let threads = i64::try_from(pool.threads()).unwrap_or(i64::MAX).clamp(1, grid.max(1));
        let pieces = if threads == 1 { 1 } else { threads.saturating_mul(PIECES).min(grid) };
        let cut = |i: i64| (i128::from(grid) * i128::from(i) / i128::from(pieces)) as i64;
        let next = AtomicI64::new(0);
        let work = || {
            let pointers: Vec<*mut c_void> = buffers.iter().map(|b| *b as *mut c_void).collect();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= pieces {
                    return;
                }
                // SAFETY: the caller vouches for the pointers; each piece is taken once.
                unsafe { kernel(pointers.as_ptr(), scalars.as_ptr(), cut(i), cut(i + 1)) };
            }
        };
        if threads > 1 {
            pool.run(&work);
        }
        // What no thread of the pool took.
        work();
    }

    /// Memory for a launch.
    fn scratch(bytes: usize) -> Vec<u64> {
        vec![0; bytes.div_ceil(8)]
    }

    /// Checks that a slice holds `need` elements.
    fn check(name: &str, len: usize, need: i64) -> Result<(), Error> {
        match usize::try_from(need) {
            Ok(need) if len >= need => Ok(()),
            Ok(need) => Err(Error::Argument(format!("`{name}` holds {len} elements, {need} are needed"))),
            Err(_) => Err(Error::Argument(format!("`{name}` would hold {need} elements"))),
        }
    }
