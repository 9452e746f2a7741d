//! For a user's `build.rs`: functions, log and targets in; `kernels.rs` with one typed launch
//! function per function out, its kernels compiled and, on the CPU, linked.
//!
//! ```no_run
//! // In the `main` of build.rs:
//! daylight::build::Build::new()
//!     .function("kernels/mean.py")
//!     .log("tuning-logs")
//!     .target("cpu:x86-64-v3")
//!     .target("cuda:sm_90a")
//!     .run();
//! ```
//!
//! and in the crate `mod kernels { include!(concat!(env!("OUT_DIR"), "/kernels.rs")); }`. Needs no
//! GPU. Without NVRTC the CUDA text is built in and compiled on first use; CUDA targets need the
//! crate `cudarc` with its feature `driver` (and `nvrtc` for text). CPU targets need a C compiler.

mod native;

use crate::apply::{self, Constant, Options, Unit};
use crate::assemble::{self, Reading};
use crate::backend::{Compiler, Language, LocalCompiler, Places, Tools};
use crate::ir::PrimFunc;
use crate::log;
use crate::machine::Machine;
use crate::rules::Spaces;
use crate::target::{Kind, Target};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What to build into a program.
#[derive(Clone, Debug, Default)]
pub struct Build {
    functions: Vec<PathBuf>,
    prim_funcs: Vec<PrimFunc>,
    logs: Vec<PathBuf>,
    targets: Vec<String>,
    reading: Reading,
    gpu: Option<String>,
    schedules: Option<PathBuf>,
    require_exact: bool,
    family: bool,
    rayon: bool,
    overlap: bool,
    constant: Vec<Constant>,
    vendored: Option<PathBuf>,
    c: Option<String>,
}

/// Values of an extent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Values {
    /// Known when the program is built.
    One(i64),
    /// Known at run time, when these are the usual ones.
    Several(Vec<i64>),
}

impl From<i64> for Values {
    fn from(value: i64) -> Values {
        Values::One(value)
    }
}

impl<const N: usize> From<[i64; N]> for Values {
    fn from(values: [i64; N]) -> Values {
        Values::Several(values.into())
    }
}

impl From<Vec<i64>> for Values {
    fn from(values: Vec<i64>) -> Values {
        Values::Several(values)
    }
}

/// What was built.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Output {
    /// `kernels.rs`.
    pub rust: PathBuf,
    /// One per function and target, or several where sizes are known at run time.
    pub units: Vec<Unit>,
    /// What went differently than asked for.
    pub warnings: Vec<String>,
}

impl Build {
    /// Nothing yet.
    pub fn new() -> Build {
        Build::default()
    }

    /// Adds a file of TVMScript, or a folder of them.
    pub fn function(mut self, path: impl Into<PathBuf>) -> Build {
        self.functions.push(path.into());
        self
    }

    /// Adds a function without text, as [`PrimFuncBuilder`](crate::ir::PrimFuncBuilder) and
    /// [`operation`](crate::operation) make them. Its text is written beside what is built, as `functions/NAME.py`, for `daylight tune`.
    ///
    /// ```
    /// use daylight::build::Build;
    /// use daylight::ir::{DType, PrimFuncBuilder};
    ///
    /// let mut f = PrimFuncBuilder::new("scaled");
    /// let n = f.extent("n");
    /// let x = f.param("x", DType::F32, [n.clone(), 64.into()]);
    /// let s = f.scalar("s", DType::F32);
    /// let y = f.param("y", DType::F32, [n, 64.into()]);
    /// f.compute("scale", &y, |i| x.at(i) * s);
    ///
    /// let sum = daylight::operation::by_name("sum")?.function("row_sums", &[("shape", "n,64")])?;
    /// let folder = tempfile::tempdir()?;
    /// let output = Build::new()
    ///     .prim_func(f.finish()?)
    ///     .prim_func(sum)
    ///     .bind("n", 1024)
    ///     .target("cpu:x86-64-v3")
    ///     .write(folder.path())?;
    /// let names: Vec<&str> = output.units.iter().map(|u| u.name.as_str()).collect();
    /// assert_eq!(names, ["scaled", "row_sums"]);
    /// assert!(folder.path().join("functions/row_sums.py").exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prim_func(mut self, func: PrimFunc) -> Build {
        self.prim_funcs.push(func);
        self
    }

    /// Adds a tuning log, a file or a folder. Without one, and for functions that none knows,
    /// defaults are built.
    pub fn log(mut self, path: impl Into<PathBuf>) -> Build {
        self.logs.push(path.into());
        self
    }

    /// Adds a target: `cuda:sm_90a`, `cpu:x86-64-v3`, `cpu` for the machine that builds.
    pub fn target(mut self, name: impl Into<String>) -> Build {
        self.targets.push(name.into());
        self
    }

    /// Takes only the functions of these names, of files that hold several; may be called again.
    pub fn only(mut self, name: impl Into<String>) -> Build {
        self.reading.functions.push(name.into());
        self
    }

    /// Gives a symbolic extent its value (`.bind("n", 64)`), or says for which of its values kernels are tuned
    /// (`.bind("n", [1, 8, 64])`): the extent then is an argument, each of these sizes has its kernel, and others
    /// have the one of the next larger size.
    pub fn bind(mut self, extent: impl Into<String>, values: impl Into<Values>) -> Build {
        let (name, values) = (extent.into(), values.into());
        match values {
            Values::One(value) => self.reading.bind.insert(name, value).map(|_| ()),
            Values::Several(values) => self.reading.sizes.insert(name, values).map(|_| ()),
        };
        self
    }

    /// The machine whose records count, where the log has several of a target; those of others stand for sizes of which it
    /// has none.
    pub fn gpu(mut self, name: impl Into<String>) -> Build {
        self.gpu = Some(name.into());
        self
    }

    /// Folder of knob tables in place of the built-in ones.
    pub fn schedules(mut self, folder: impl Into<PathBuf>) -> Build {
        self.schedules = Some(folder.into());
        self
    }

    /// Fails where a kernel is not exactly the one that was measured. Of a function whose sizes are known at run time there
    /// then are the tuned sizes alone.
    pub fn require_exact(mut self, yes: bool) -> Build {
        self.require_exact = yes;
        self
    }

    /// Writes to this folder of the package instead of `OUT_DIR`, to be checked in: `kernels.rs` there is a module as
    /// any other, and `link.rs` is all that a build script needs where Daylight is no build dependency any more.
    pub fn vendored(mut self, folder: impl Into<PathBuf>) -> Build {
        self.vendored = Some(folder.into());
        self
    }

    /// Writes `NAME.h` and `NAME.c` as well, launch functions for programs in C, all of whose names begin with `name`.
    pub fn c(mut self, name: impl Into<String>) -> Build {
        self.c = Some(name.into());
        self
    }

    /// Lets kernels of the CPU run on the threads of the crate `rayon`, which the program then needs.
    pub fn rayon(mut self, yes: bool) -> Build {
        self.rayon = yes;
        self
    }

    /// Rounds every value as the functions say, as their attribute `daylight.strict` does: records of logs count that were
    /// measured so.
    pub fn strict(mut self, yes: bool) -> Build {
        self.reading.strict = yes;
        self
    }

    /// Lets kernels of GPUs start while what was launched before them in the stream ends (programmatic dependent launch, from
    /// sm_90 on). Results are the same: each kernel waits before it touches memory.
    pub fn overlap(mut self, yes: bool) -> Build {
        self.overlap = yes;
        self
    }

    /// Says that no kernel writes this tensor of a function while kernels of the stream run, as is so of weights: kernels that
    /// overlap may read it before what was launched before them is done, which hides the latency of their first loads.
    /// Where something writes it all the same, results are wrong.
    pub fn constant(mut self, function: impl Into<String>, tensor: impl Into<String>) -> Build {
        self.constant.push(Constant { function: function.into(), tensor: tensor.into() });
        self
    }

    /// Builds one cubin for the GPUs of a family (`sm_100f` for sm_100a and sm_103a) where their kernels
    /// have the same text.
    pub fn family(mut self, yes: bool) -> Build {
        self.family = yes;
        self
    }

    /// Writes to cargo's `OUT_DIR`, compiles and links, and tells cargo what the result depends on.
    /// Ends the build with a sentence where that fails.
    pub fn run(&self) {
        let result = match std::env::var_os("OUT_DIR") {
            Some(folder) => self.run_in(Path::new(&folder)),
            None => Err("OUT_DIR is not set: call this from a build script".to_string()),
        };
        if let Err(e) = result {
            eprintln!("daylight: {e}");
            println!("cargo::error=daylight: {}", e.replace(['\n', '\r'], " "));
            std::process::exit(1);
        }
    }

    fn run_in(&self, folder: &Path) -> Result<(), String> {
        for path in self.functions.iter().chain(&self.logs).chain(&self.schedules) {
            println!("cargo::rerun-if-changed={}", one_line(&path.display().to_string())?);
        }
        ["CC", "AR", "DAYLIGHT_NVRTC"].iter().for_each(|v| println!("cargo::rerun-if-env-changed={v}"));
        let output = self.write_to(self.vendored.as_deref().unwrap_or(folder), folder)?;
        output.warnings.iter().for_each(|w| println!("cargo::warning=daylight: {}", w.replace(['\n', '\r'], " ")));
        if let Some(library) = native::library(&output, folder, &places())? {
            println!("cargo::rustc-link-search=native={}", one_line(&folder.display().to_string())?);
            println!("cargo::rustc-link-lib=static={library}");
        }
        Ok(())
    }

    /// Writes the files of [`Build::run`] to a folder without compiling C or talking to cargo.
    ///
    /// # Errors
    /// A sentence: an unreadable file, a function that is refused, an unknown target, a `gpu` that
    /// is missing from the log, a kernel that is not exact where that is required.
    pub fn write(&self, folder: &Path) -> Result<Output, String> {
        self.write_to(folder, folder)
    }

    /// Writes to `folder`; what was compiled before is kept in `scratch`.
    fn write_to(&self, folder: &Path, scratch: &Path) -> Result<Output, String> {
        let mut warnings = vec![];
        let functions = self.read(scratch)?;
        let records = self.records(&mut warnings)?;
        let targets = self.targets()?;
        let spaces = match &self.schedules {
            Some(folder) => Spaces::with_folder(folder)?,
            None => Spaces::built_in(),
        };
        let tools = Tools { artifacts: scratch.join("artifacts"), ..Tools::find(&places(), Language::Cuda) };
        let local = LocalCompiler::new(tools);
        let wants_cuda = targets.iter().any(|t| t.kind == Kind::Cuda);
        let cuda = if wants_cuda { nvrtc(&local, &mut warnings) } else { None };
        let options = Options {
            records: &records,
            sizes: &self.reading.sizes,
            targets: &targets,
            spaces: &spaces,
            gpu: self.gpu.as_deref(),
            log: self.logs.first().map(PathBuf::as_path),
            require_exact: self.require_exact,
            family: self.family,
            overlap: self.overlap,
            constant: &self.constant,
            cuda,
        };
        let units = apply::units(&functions, &options).map_err(|f| f.message)?;
        warnings.extend(units.iter().filter_map(|u| u.untuned.clone()));
        let files = apply::files(
            &units,
            apply::Emit {
                rust: true,
                c: self.c.clone(),
                rayon: self.rayon,
                link: self.vendored.is_some(),
                ..apply::Emit::default()
            },
        )?;
        apply::write(&files, folder)?;
        if self.family {
            warnings.extend(apply::apart(&units));
        }
        Ok(Output { rust: folder.join("kernels.rs"), units, warnings })
    }

    fn read(&self, scratch: &Path) -> Result<Vec<assemble::Input>, String> {
        let mut paths = self.functions.clone();
        paths.extend(self.written(&scratch.join("functions"))?);
        if paths.is_empty() {
            return Err("no function was given; add one with .function(\"kernels/mean.py\")".into());
        }
        let inputs = self.reading.load(&paths).map_err(|f| f.message)?;
        inputs.into_iter().map(|i| i.map_err(|e| e.failure.message)).collect()
    }

    /// Writes the functions that came without text, and says where.
    fn written(&self, folder: &Path) -> Result<Vec<PathBuf>, String> {
        let mut texts = BTreeMap::new();
        for f in &self.prim_funcs {
            if texts.insert(format!("{}.py", f.name), f.to_string().into_bytes()).is_some() {
                return Err(format!("two functions are called `{}`; give each its own name", f.name));
            }
        }
        if !texts.is_empty() {
            apply::write(&texts, folder)?;
        }
        Ok(self.prim_funcs.iter().map(|f| folder.join(format!("{}.py", f.name))).collect())
    }

    fn records(&self, warnings: &mut Vec<String>) -> Result<Vec<log::Record>, String> {
        let mut records = vec![];
        for path in &self.logs {
            if !path.exists() {
                warnings.push(format!("there is no log at {}; building without it", path.display()));
                continue;
            }
            let log = log::read(path)?;
            warnings.extend(log.skipped.iter().map(|s| s.to_string()));
            records.extend(log.records);
        }
        Ok(records)
    }

    fn targets(&self) -> Result<Vec<Target>, String> {
        if self.targets.is_empty() {
            return Err("no target was given; add one with .target(\"cpu\")".into());
        }
        let host = Machine::here(None).host;
        self.targets.iter().map(|t| Target::parse(t, &host)).collect()
    }
}

fn nvrtc<'a>(local: &'a LocalCompiler, warnings: &mut Vec<String>) -> Option<(&'a dyn Compiler, String)> {
    match local.id(Language::Cuda) {
        Ok(id) => Some((local, id)),
        Err(e) => {
            warnings.push(format!("{}; CUDA text is built in and compiled on first use", e.message));
            None
        }
    }
}

/// The text, unless what follows a line break in it would be a directive of its own to cargo.
fn one_line(text: &str) -> Result<&str, String> {
    if text.contains(['\n', '\r']) {
        return Err(format!("the path {text:?} has a line break in it; rename it"));
    }
    Ok(text)
}

fn places() -> Places {
    Places::of(|name| std::env::var_os(name), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_gives_cargo_one_directive() {
        assert_eq!(one_line("logs/a.jsonl"), Ok("logs/a.jsonl"));
        assert!(one_line("a\ncargo::rustc-link-lib=evil").expect_err("two lines").contains("line break"));
    }
}
