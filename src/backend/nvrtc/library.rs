//! NVRTC's C interface, loaded from a full path. The library from PyPI has no run path, so its
//! builtins are loaded first, from the same folder.

use super::find::builtins_of;
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

type Program = *mut c_void;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Fill = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;

/// The loaded library and the functions that are used.
pub struct NvrtcLibrary {
    create: Create,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    cubin: (Size, Fill),
    ptx: (Size, Fill),
    log: (Size, Fill),
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    version: (i32, i32),
    path: PathBuf,
}

/// What to take from a compiled program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Product {
    /// A binary for one architecture (`sm_90a`).
    Cubin,
    /// PTX text (`compute_90a`).
    Ptx,
}

/// What a compilation gave.
pub struct Compiled {
    /// The product, or the name of NVRTC's error.
    pub result: Result<Vec<u8>, String>,
    /// The program log, also on success.
    pub log: String,
}

impl NvrtcLibrary {
    /// Loads NVRTC from a file.
    ///
    /// # Errors
    /// A sentence, when the file is no NVRTC or needs something that is missing.
    pub fn load(path: &Path) -> Result<NvrtcLibrary, String> {
        let open = |p: &Path| {
            // SAFETY: NVIDIA's library, whose initialisers have no preconditions.
            unsafe { Library::new(p) }.map_err(|e| format!("{} can't be loaded: {e}", p.display()))
        };
        if let Some(builtins) = builtins_of(path) {
            // Stays loaded: NVRTC opens it by name later and finds it.
            std::mem::forget(open(&builtins)?);
        }
        let library = open(path)?;
        let loaded = NvrtcLibrary::bind(&library, path);
        // The functions are used until the process ends.
        std::mem::forget(library);
        loaded
    }

    fn bind(library: &Library, path: &Path) -> Result<NvrtcLibrary, String> {
        // SAFETY: the types are those of nvrtc.h, unchanged since CUDA 11.1.
        unsafe {
            let size = |name| symbol::<Size>(library, name, path);
            let fill = |name| symbol::<Fill>(library, name, path);
            let version =
                symbol::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(library, "nvrtcVersion", path)?;
            let (mut major, mut minor) = (0, 0);
            version(&mut major, &mut minor);
            Ok(NvrtcLibrary {
                create: symbol(library, "nvrtcCreateProgram", path)?,
                destroy: symbol(library, "nvrtcDestroyProgram", path)?,
                compile: symbol(library, "nvrtcCompileProgram", path)?,
                cubin: (size("nvrtcGetCUBINSize")?, fill("nvrtcGetCUBIN")?),
                ptx: (size("nvrtcGetPTXSize")?, fill("nvrtcGetPTX")?),
                log: (size("nvrtcGetProgramLogSize")?, fill("nvrtcGetProgramLog")?),
                error: symbol(library, "nvrtcGetErrorString", path)?,
                version: (major, minor),
                path: path.to_path_buf(),
            })
        }
    }

    /// Major and minor version.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Where it was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Compiles one program.
    pub fn compile(&self, text: &str, options: &[String], product: Product) -> Compiled {
        let failed = |why: &str| Compiled { result: Err(why.to_string()), log: String::new() };
        let Ok(text) = CString::new(text) else { return failed("the text holds a zero byte") };
        let options: Vec<CString> = options.iter().filter_map(|o| CString::new(o.as_str()).ok()).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let mut program: Program = std::ptr::null_mut();
        let none = std::ptr::null();
        // SAFETY: every pointer lives through the calls; the program is destroyed once.
        unsafe {
            let created = (self.create)(&mut program, text.as_ptr(), c"kernel.cu".as_ptr(), 0, none, none);
            if created != 0 {
                return failed(&self.error(created));
            }
            let status = (self.compile)(program, pointers.len() as c_int, pointers.as_ptr());
            let log = self.take(program, self.log).unwrap_or_default();
            let functions = if product == Product::Cubin { self.cubin } else { self.ptx };
            let result = if status == 0 { self.take(program, functions) } else { Err(self.error(status)) };
            (self.destroy)(&mut program);
            Compiled { result, log: String::from_utf8_lossy(&log).trim_end_matches('\0').to_string() }
        }
    }

    /// Reads what a pair of size and content functions gives.
    ///
    /// # Safety
    /// `program` is a live program.
    unsafe fn take(&self, program: Program, (size, fill): (Size, Fill)) -> Result<Vec<u8>, String> {
        let mut bytes = 0usize;
        // SAFETY: the buffer has the size that the library asked for.
        unsafe {
            let status = size(program, &mut bytes);
            if status != 0 {
                return Err(self.error(status));
            }
            let mut data = vec![0u8; bytes];
            let status = fill(program, data.as_mut_ptr().cast());
            if status != 0 { Err(self.error(status)) } else { Ok(data) }
        }
    }

    fn error(&self, status: c_int) -> String {
        // SAFETY: the function returns a static string for every value.
        let text = unsafe { (self.error)(status) };
        if text.is_null() {
            return format!("NVRTC error {status}");
        }
        // SAFETY: not null, terminated, static.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// A function of the library.
///
/// # Safety
/// `F` is the type of that function.
unsafe fn symbol<F: Copy>(library: &Library, name: &str, path: &Path) -> Result<F, String> {
    // SAFETY: as promised by the caller.
    unsafe { library.get::<F>(name.as_bytes()) }
        .map(|f| *f)
        .map_err(|_| format!("{} has no {name}: it is not an NVRTC of CUDA 11.1 or newer", path.display()))
}
