//! C text to a shared object through the system's C compiler.

use super::{CompileError, CompileFailure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What to do when the C compiler is missing.
pub const CC_ADVICE: &str = "no C compiler was found: install gcc or clang so that `cc` is on the path, or set CC";

/// The C compiler.
#[derive(Clone, Debug)]
pub struct Cc {
    program: PathBuf,
    id: String,
}

impl Cc {
    /// Asks the compiler for its version.
    ///
    /// # Errors
    /// A sentence, when it does not start.
    pub fn new(program: &Path) -> Result<Cc, String> {
        let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|e| format!("{} could not be started: {e}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let id = text.lines().next().unwrap_or("cc").trim().to_string();
        Ok(Cc { program: program.to_path_buf(), id })
    }

    /// The first line of `cc --version`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Compiles `source` to the shared object `object`; gives the warnings.
    ///
    /// # Errors
    /// The compiler's messages.
    pub fn shared_object(&self, source: &Path, object: &Path, target: &str) -> Result<String, CompileError> {
        let mut options = options(target)?;
        options.extend(["-shared".to_string(), "-lm".to_string()]);
        self.compile(source, object, &options)
    }

    /// Compiles `source` to an object file that is linked later; gives the warnings.
    ///
    /// # Errors
    /// The compiler's messages.
    pub fn object(&self, source: &Path, object: &Path, target: &str) -> Result<String, CompileError> {
        let mut options = options(target)?;
        options.push("-c".to_string());
        self.compile(source, object, &options)
    }

    fn compile(&self, source: &Path, object: &Path, options: &[String]) -> Result<String, CompileError> {
        let mut command = Command::new(&self.program);
        // Libraries come after the source that needs them.
        let (libraries, options): (Vec<_>, Vec<_>) = options.iter().partition(|o| o.starts_with("-l"));
        command.args(options).arg("-o").arg(object).arg(source).args(libraries);
        // Messages name the file as `kernel.c`, wherever it lies, so that equal failures read alike.
        let shown = format!("{}", source.display());
        let output = command.stdin(Stdio::null()).output().map_err(|e| {
            CompileError::new(CompileFailure::ToolMissing, format!("{}: {e}; {CC_ADVICE}", self.program.display()))
        })?;
        let log = String::from_utf8_lossy(&output.stderr).replace(&shown, "kernel.c");
        if output.status.success() {
            return Ok(log.trim().to_string());
        }
        let failure = if output.status.code().is_some() { CompileFailure::Rejected } else { CompileFailure::Crashed };
        Err(CompileError::new(failure, format!("cc failed ({}): {}", output.status, log.trim())))
    }
}

/// Options for a target id: IEEE arithmetic with contraction, optimised for the named level.
///
/// # Errors
/// When the id names no CPU.
pub fn options(target: &str) -> Result<Vec<String>, CompileError> {
    let machine: &[&str] = match target.strip_prefix("cpu:") {
        Some("x86-64-v2") => &["-march=x86-64-v2"],
        Some("x86-64-v3") => &["-march=x86-64-v3"],
        Some("x86-64-v4") => &["-march=x86-64-v4", "-mprefer-vector-width=512"],
        Some("aarch64") => &[],
        _ => {
            let text = format!("`{target}` is not a CPU target; expected one such as cpu:x86-64-v3");
            return Err(CompileError::new(CompileFailure::Rejected, text));
        }
    };
    // errno and floating-point traps are not part of any result; dropping them lets sqrt and selects vectorise.
    let common = [
        "-std=gnu11",
        "-O3",
        "-ffp-contract=fast",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fno-semantic-interposition",
        "-fPIC",
    ];
    Ok(common.iter().chain(machine).map(|o| o.to_string()).collect())
}
