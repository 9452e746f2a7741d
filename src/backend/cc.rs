//! C text to a shared object through the system's C compiler.

use super::{CompileError, CompileFailure};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

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
        let bytes = version(program, VERSION_LIMIT).map_err(|e| format!("{} {e}", program.display()))?;
        let text = String::from_utf8_lossy(&bytes);
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

/// How long a compiler may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// The beginning of what `cc --version` says. A program that hangs or does not end is ended.
fn version(program: &Path, limit: Duration) -> Result<Vec<u8>, String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| format!("could not be started: {e}"))?;
    let (out, (tell, said)) = (child.stdout.take(), mpsc::channel());
    std::thread::spawn(move || {
        let mut bytes = vec![];
        let read = out.map_or(Ok(0), |out| out.take(1 << 14).read_to_end(&mut bytes));
        // Nobody listens after the limit.
        let _ = tell.send(read.map(|_| bytes));
    });
    let said = said.recv_timeout(limit);
    let _ = child.kill();
    let _ = child.wait();
    match said {
        Ok(bytes) => bytes.map_err(|e| format!("did not say its version: {e}")),
        Err(_) => Err(format!("did not say its version within {} s", limit.as_secs())),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_that_floods_or_hangs_is_ended() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let flood = version(&program("flood", "echo cc 1; exec yes"), VERSION_LIMIT).unwrap();
        assert!(flood.starts_with(b"cc 1\n") && flood.len() <= 1 << 14);
        let hang = version(&program("hang", "exec sleep 1000"), Duration::from_millis(300)).unwrap_err();
        assert!(hang.contains("within"), "{hang}");
    }
}
