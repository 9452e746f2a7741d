//! Functions from files and folders of TVMScript.

use super::{Assembly, Exit, Failure, Schedulable, Scheduled, Subject, TileProgram, guarded};
use crate::analysis::{Awkward, plain_views, resize, roles, shrink};
use crate::ir::{self, DeviceFunc, Function as Parsed, PrimFunc, ReadError, Reason};
use crate::target::Target;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Why a tile program is not tuned.
pub const SCHEDULED: &str =
    "a tile program is already scheduled; check, explain, run and verify take it, there is nothing to tune";

/// Values of extents, by the user's or the canonical name.
pub type Bindings = BTreeMap<String, i64>;

/// Values of extents that stay open, by the user's or the canonical name.
pub type Sizes = BTreeMap<String, Vec<i64>>;

/// A function as read, and as bound by `--bind`.
#[derive(Clone, Debug)]
pub struct Input {
    /// The file, as it was named.
    pub file: String,
    /// The function's name, or its file's when it is a nameless `main`.
    pub name: String,
    /// As read.
    pub original: PrimFunc,
    /// With extents replaced by the values of `--bind`.
    pub func: PrimFunc,
    /// The values that it took, by the user's names.
    pub bind: Bindings,
    /// Key of the function as read.
    pub key: String,
    /// A tile program; the functions above are then its header alone.
    pub program: Option<DeviceFunc>,
}

/// A file that gave no functions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BadFile {
    /// The file, as it was named.
    pub file: String,
    /// The exit code and the sentence.
    pub failure: Failure,
    /// Where, for text that was not understood.
    pub at: Option<(usize, usize)>,
}

impl std::fmt::Display for BadFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.failure.fmt(f)
    }
}

impl std::error::Error for BadFile {}

/// What is wanted of the functions in some files.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Values of extents.
    pub bind: Bindings,
    /// Sizes of extents that stay open: the functions are read without them, and have them on request
    /// ([`Input::sizes`]).
    pub sizes: Sizes,
    /// Names of functions, where not all are wanted.
    pub functions: Vec<String>,
    /// All functions are strict, whatever they say of themselves.
    pub strict: bool,
}

/// Reads every function of some files with values for extents.
///
/// # Errors
/// As of [`Reading::load`].
pub fn load(bind: &Bindings, paths: &[PathBuf]) -> Result<Vec<Result<Input, BadFile>>, Failure> {
    Reading { bind: bind.clone(), ..Reading::default() }.load(paths)
}

impl Reading {
    /// Reads every file; folders stand for the `*.py` files in them. What cannot be read does not keep
    /// the rest from being read.
    ///
    /// # Errors
    /// A name that is no extent of any function, or of no function, while all files were read.
    pub fn load(&self, paths: &[PathBuf]) -> Result<Vec<Result<Input, BadFile>>, Failure> {
        let mut all = vec![];
        for path in paths {
            match files(path) {
                Ok(found) => found.iter().for_each(|f| all.extend(self.read(f))),
                Err(message) => all.push(Err(bad(path, Failure::usage(message), None))),
            }
        }
        if all.iter().all(Result::is_ok) {
            check_bind(self.bind.keys().chain(self.sizes.keys()), all.iter().flatten())?;
            check_functions(&self.functions, all.iter().flatten())?;
        }
        let is_wanted = |i: &Input| self.functions.is_empty() || self.functions.iter().any(|n| i.is_called(n));
        all.retain(|i| i.as_ref().map_or(true, is_wanted));
        Ok(all)
    }

    fn read(&self, path: &Path) -> Vec<Result<Input, BadFile>> {
        let file = path.display().to_string();
        let functions = bytes_of(path).map_err(|e| bad(path, Failure::usage(format!("cannot read {file}: {e}")), None));
        let parsed = |bytes: Vec<u8>| {
            let bug = |f: Failure| Err(bad(path, f, None));
            guarded(&file, || Ok(parse(path, &bytes))).unwrap_or_else(bug)
        };
        match functions.and_then(parsed) {
            Ok(list) => list.into_iter().map(|f| Ok(self.input(path, f))).collect(),
            Err(e) => vec![Err(e)],
        }
    }

    fn input(&self, path: &Path, parsed: Parsed) -> Input {
        let parsed = match parsed {
            Parsed::Tensor(f) if self.strict => Parsed::Tensor(plain_views(&f).strict()),
            Parsed::Tensor(f) => Parsed::Tensor(plain_views(&f)),
            program => program,
        };
        let key = parsed.key();
        let (original, program) = match parsed {
            Parsed::Tensor(f) => (f, None),
            Parsed::Tile(p) => (p.func.clone(), Some(p)),
        };
        let stem = || path.file_stem().map_or("main".to_string(), |s| s.to_string_lossy().into_owned());
        let name = if original.name == "main" { stem() } else { original.name.clone() };
        let mut bind = Bindings::new();
        for name in extents(&original) {
            let user = original.display_name(&name);
            if let Some(v) = self.bind.get(user).or_else(|| self.bind.get(name.as_str())) {
                bind.insert(user.to_string(), *v);
            }
        }
        Input { file: path.display().to_string(), name, func: original.bind(&bind), original, bind, key, program }
    }
}

/// Refuses a name that no function has.
fn check_functions<'a>(names: &[String], inputs: impl Iterator<Item = &'a Input> + Clone) -> Result<(), Failure> {
    let Some(name) = names.iter().find(|n| !inputs.clone().any(|i| i.is_called(n))) else { return Ok(()) };
    let known: Vec<&str> = inputs.map(|i| i.name.as_str()).collect();
    Err(Failure::usage(match crate::target::nearest(name, known.iter().copied()) {
        Some(near) => format!("--function {name}: there is no function of that name; did you mean `{near}`?"),
        None => format!("--function {name}: there is no function of that name; there are {}", known.join(", ")),
    }))
}

fn bad(path: &Path, failure: Failure, at: Option<(usize, usize)>) -> BadFile {
    BadFile { file: path.display().to_string(), failure, at }
}

/// The file itself, or the `*.py` files of a folder and the folders in it, by name.
fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let cannot = |e: std::io::Error| format!("cannot read {}: {e}", path.display());
    if !std::fs::metadata(path).map_err(cannot)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let out = python(path)?;
    if out.is_empty() {
        return Err(format!("the folder {} holds no *.py files", path.display()));
    }
    Ok(out)
}

/// The `*.py` files of a folder and the folders in it, by name.
fn python(path: &Path) -> Result<Vec<PathBuf>, String> {
    let cannot = |e: std::io::Error| format!("cannot read {}: {e}", path.display());
    let mut out = vec![];
    for entry in std::fs::read_dir(path).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let is_dir = entry.file_type().map_err(cannot)?.is_dir();
        let inner = entry.path();
        if is_dir {
            out.extend(python(&inner)?);
        } else if inner.extension().is_some_and(|e| e == "py") {
            out.push(inner);
        }
    }
    out.sort();
    Ok(out)
}

/// Bytes that buffers may have together: 64 TiB.
const MOST_MEMORY: i64 = 1 << 46;

/// A little more than the reader takes, so that it says what is too much of a file without an end.
const MOST_BYTES: u64 = 9 << 20;

/// The file's bytes, as far as the reader may want them. A pipe by name, which nobody may ever write to, is no
/// file; those under `/dev` and `/proc` (`/dev/stdin`) are somebody's who does.
fn bytes_of(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::{Error, ErrorKind, Read};
    use std::os::unix::fs::FileTypeExt;
    let kind = std::fs::metadata(path)?.file_type();
    let lent = ["/dev", "/proc"].iter().any(|root| path.starts_with(root));
    if (kind.is_fifo() || kind.is_socket()) && !lent {
        return Err(Error::new(ErrorKind::InvalidInput, "it is a pipe, not a file; write its text to a file"));
    }
    let mut bytes = vec![];
    std::fs::File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Parsed>, BadFile> {
    let file = path.display().to_string();
    let refuse = |e: ReadError| bad(path, Failure::new(Exit::Input, e.to_string()), Some((e.line, e.column)));
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let line = 1 + bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count();
        let message = format!("{file}:{line}:1: the text is not UTF-8");
        bad(path, Failure::new(Exit::Input, message), Some((line, 1)))
    })?;
    let functions = ir::read_any(text, &file).map_err(refuse)?;
    if functions.is_empty() {
        let message = format!("{file}:1:1: there is no tensor function in the file; expected @T.prim_func");
        return Err(bad(path, Failure::new(Exit::Input, message), Some((1, 1))));
    }
    for f in &functions {
        let verified = match f {
            Parsed::Tensor(f) => ir::verify(f),
            Parsed::Tile(p) => ir::verify_device(p),
        };
        if let Err(errors) = verified {
            let text: Vec<String> = errors.iter().map(|e| e.to_string()).collect();
            let message = format!("{file}: {}: {}", f.name(), text.join("; "));
            return Err(bad(path, Failure::new(Exit::Input, message), None));
        }
    }
    Ok(functions)
}

/// The extents that have no value: symbolic ones, and parameters that are extents.
fn extents(f: &PrimFunc) -> Vec<ir::Name> {
    let mut all: Vec<ir::Name> = f.extents.iter().map(|e| e.name.clone()).collect();
    for (p, role) in f.params.iter().zip(roles(f)) {
        if let (ir::Param::Scalar { name, .. }, ir::Role::Extent) = (p, role)
            && !all.contains(name)
        {
            all.push(name.clone());
        }
    }
    all
}

/// Refuses a name that no function knows.
fn check_bind<'a>(
    mut names: impl Iterator<Item = &'a String>,
    inputs: impl Iterator<Item = &'a Input>,
) -> Result<(), Failure> {
    let mut known = BTreeSet::new();
    for i in inputs {
        for name in extents(&i.original) {
            known.insert(i.original.display_name(&name).to_string());
            known.insert(name.to_string());
        }
    }
    match names.find(|k| !known.contains(*k)) {
        None => Ok(()),
        Some(name) => Err(Failure::usage(match crate::target::nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("--bind {name}: no function has this extent; did you mean `{near}`?"),
            None if known.is_empty() => format!("--bind {name}: the functions have no symbolic extents"),
            None => format!("--bind {name}: no function has this extent"),
        })),
    }
}

impl Input {
    /// True for the name by which it goes, and for the one in its file.
    /// True where this is its name, in the file or as it is told from others.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.original.name == name
    }

    /// The function made ready to be scheduled for a target.
    ///
    /// # Errors
    /// A function that is refused.
    pub fn schedulable(&self, target: &Target) -> Result<Schedulable, Failure> {
        self.require_tensor()?;
        let subject = Schedulable::new(&self.func, &self.original, target.clone());
        subject.map_err(|d| Failure::new(Exit::Input, format!("{}: refused: {d}", self.name)))
    }

    /// The function or program on a target.
    ///
    /// # Errors
    /// A function that is refused.
    pub fn subject(&self, target: &Target) -> Result<Subject, Failure> {
        match &self.program {
            None => self.schedulable(target).map(|s| Subject::Tensor(Box::new(s))),
            Some(program) => {
                Ok(Subject::Tile(Box::new(TileProgram { program: program.clone(), target: target.clone() })))
            }
        }
    }

    /// The kernels of the function or program.
    ///
    /// # Errors
    /// A tile program on a CPU (exit code 3); the pass that cannot lower it, or a call that no variant
    /// carries out, with the whole table of reasons.
    pub fn assembly(&self, scheduled: &Scheduled<'_>, target: &Target) -> Result<Assembly, Failure> {
        self.lowered(scheduled, target, |s| s.assemble())
    }

    /// What lowering makes of the function or program.
    ///
    /// # Errors
    /// As of [`Input::assembly`].
    pub fn lowered<T>(
        &self,
        scheduled: &Scheduled<'_>,
        target: &Target,
        lower: impl FnOnce(&Scheduled<'_>) -> Result<T, Reason>,
    ) -> Result<T, Failure> {
        if scheduled.is_for_another_kind() {
            let text = format!("{}: a tile program is for GPUs; {} is none", self.name, target.id);
            return Err(Failure::new(Exit::Input, text));
        }
        lower(scheduled).map_err(|why| Failure::new(Exit::Failed, format!("{}: {why}", self.name)))
    }

    /// Refuses a tile program.
    ///
    /// # Errors
    /// The sentence that says what takes it.
    pub fn require_tensor(&self) -> Result<(), Failure> {
        match self.program {
            None => Ok(()),
            Some(_) => {
                Err(Failure::new(Exit::Input, format!("{}: refused: already_scheduled: {SCHEDULED}", self.name)))
            }
        }
    }

    /// The function at awkward sizes; symbolic extents that have no value get one.
    pub fn resized(&self, to: Awkward) -> Input {
        let mut bind = self.bind.clone();
        bind.extend(self.unbound().into_iter().map(|name| (name.to_string(), to.extent())));
        let func = resize(&self.original.bind(&bind), to);
        Input { func, bind, ..self.clone() }
    }

    /// The function with smaller sizes, whose loops run about `steps` steps; `None` where none are found.
    pub fn shrunk(&self, steps: u64) -> Option<Input> {
        Some(Input { func: shrink(&self.func, steps)?, ..self.clone() })
    }

    /// The extents that are still symbolic, by the user's names.
    pub fn unbound(&self) -> Vec<&str> {
        self.func.extents.iter().map(|e| self.func.display_name(&e.name)).collect()
    }

    /// Bytes of all buffers; `None` where an extent has no value or the sum overflows.
    pub fn bytes(&self) -> Option<i64> {
        let size = |b: &ir::Buffer| b.len()?.checked_mul(i64::try_from(b.dtype.bytes()).ok()?);
        self.func.buffers.iter().try_fold(0i64, |sum, b| sum.checked_add(size(b)?))
    }

    /// Refuses a function with symbolic extents, or of sizes that nothing holds.
    ///
    /// # Errors
    /// Which `--bind` is missing, or too large.
    pub fn require_bound(&self) -> Result<(), Failure> {
        let names: Vec<String> = extents(&self.func).iter().map(|n| self.func.display_name(n).to_string()).collect();
        if names.is_empty() {
            return match self.bytes() {
                Some(bytes) if bytes < MOST_MEMORY => Ok(()),
                Some(_) | None => {
                    let text = format!(
                        "{}: at these sizes its buffers have more bytes than any machine; bind smaller ones",
                        self.name
                    );
                    Err(Failure::usage(text))
                }
            };
        }
        let example: Vec<String> = names.iter().map(|n| format!("{n}=512")).collect();
        let (list, example) = (names.join(", "), example.join(","));
        let what = if names.len() == 1 { "the extent" } else { "the extents" };
        let have = if names.len() == 1 { "has no value; give it" } else { "have no value; give them" };
        Err(Failure::usage(format!("{}: {what} {list} {have} with --bind {example}", self.name)))
    }
}
