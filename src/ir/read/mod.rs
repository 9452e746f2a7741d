//! Reads TVMScript: the text that TVM 0.27 prints and the dialect of older releases.
//!
//! Python is parsed by tree-sitter (`syntax`) into plain trees (`ast`) after a scan for hostile
//! nesting (`guard`); the trees become a `PrimFunc` (`module`, `func`, `block`, `stmt`, `expr`).

mod ast;
mod attr;
mod block;
mod buffer;
mod call;
mod diagnose;
mod error;
mod expr;
mod func;
mod guard;
mod limit;
mod module;
mod number;
mod region;
mod relax;
mod scope;
mod spelled_out;
mod stmt;
mod syntax;
mod tile;
mod tree;
mod value;

use super::relax::RelaxFunc;
use super::{Function, PrimFunc};
pub use error::ReadError;

/// Stack of the thread that parses and reads; nesting is bounded by `guard`, this is room to spare.
const STACK_BYTES: usize = 64 << 20;

/// Reads every tensor function of a text, canonically named. `file` names the input in errors.
///
/// # Errors
/// The first problem found, with its line and column: syntax, unknown names, wrong dtypes, ranks or
/// numbers of arguments, extents that overflow; a tile program.
pub fn read(text: &str, file: &str) -> Result<Vec<PrimFunc>, ReadError> {
    let tensor = |f| match f {
        Function::Tensor(f) => Ok(f),
        Function::Tile(f) => {
            let message = format!("`{}` is a tile program; a tensor function was expected", f.func.name);
            let start = text.find("T.device_entry").unwrap_or(0);
            Err(error::Problem { at: error::Span { start, end: start }, message }.locate(text, file))
        }
    };
    read_any(text, file)?.into_iter().map(tensor).collect()
}

/// Reads every function of a text, tensor functions and tile programs, canonically named.
///
/// # Errors
/// As [`read`], and what is wrong with a tile program: unknown operations, regions outside their
/// buffer, layouts of another size, threads that are declared in contradiction.
pub fn read_any(text: &str, file: &str) -> Result<Vec<Function>, ReadError> {
    with_room(text, file, module::read_module)
}

/// Reads every relax function of a text: which functions they call, how often, with tensors of which sizes.
///
/// # Errors
/// A syntax error; a call of a tensor function that is not written as TVM prints it.
pub fn read_relax(text: &str, file: &str) -> Result<Vec<RelaxFunc>, ReadError> {
    with_room(text, file, relax::read_relax)
}

/// Reads on a thread with a large stack.
fn with_room<T: Send>(
    text: &str,
    file: &str,
    read: impl FnOnce(&str) -> Result<T, error::Problem> + Send,
) -> Result<T, ReadError> {
    let read = || read(text).map_err(|p| p.locate(text, file));
    std::thread::scope(|s| {
        let worker = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(s, read);
        match worker.map(|w| w.join()) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(e) => {
                let message = format!("no thread to parse on: {e}");
                Err(error::Problem { at: error::Span::default(), message }.locate(text, file))
            }
        }
    })
}
