//! Common operations as tensor functions: what `daylight new` writes. A file for each, or for a family, and a row in
//! [`OPERATIONS`]; all are made with [`PrimFuncBuilder`].

// A path begins with a module of `daylight` everywhere, in that module too.
extern crate self as operation;

use daylight_ir as ir;

mod activation;
mod attention;
mod elementwise;
mod gated_mlp;
mod layer_norm;
mod matmul;
mod matmul_block_scaled;
mod matmul_int4;
mod reduce;
mod rms_norm;
mod softmax;
mod steps;
mod transpose;
mod values;

pub use values::{Need, Opt, Values};

use crate::ir::{PrimFunc, PrimFuncBuilder, nearest};

/// An operation that functions can be written for.
#[derive(Debug)]
pub struct Operation {
    /// Its name, which functions have that are given none.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// What its parameters and its result are.
    pub detail: &'static str,
    /// Options that it has.
    pub options: &'static [Opt],
    /// Words that `daylight new` takes, as an example.
    pub example: &'static str,
    /// Adds parameters and blocks.
    make: fn(&Values, &mut PrimFuncBuilder) -> Result<(), String>,
}

/// Every operation, in the order of the help.
pub const OPERATIONS: [&Operation; 15] = [
    &matmul::MATMUL,
    &matmul_int4::MATMUL_INT4,
    &matmul_block_scaled::MATMUL_BLOCK_SCALED,
    &gated_mlp::GATED_MLP,
    &attention::SCORES,
    &attention::VALUES,
    &softmax::SOFTMAX,
    &rms_norm::RMS_NORM,
    &layer_norm::LAYER_NORM,
    &reduce::SUM,
    &reduce::MEAN,
    &reduce::MAX,
    &reduce::MIN,
    &elementwise::ELEMENTWISE,
    &transpose::TRANSPOSE,
];

/// The operation of that name.
///
/// # Errors
/// A sentence with the nearest name, or all of them.
pub fn by_name(name: &str) -> Result<&'static Operation, String> {
    let names = OPERATIONS.iter().map(|o| o.name);
    OPERATIONS.iter().find(|o| o.name == name).copied().ok_or_else(|| match nearest(name, names.clone()) {
        Some(near) => format!("there is no operation `{name}`; did you mean `{near}`?"),
        None => format!("there is no operation `{name}`; there are {}", names.collect::<Vec<_>>().join(", ")),
    })
}

impl Operation {
    /// The function of that name for some options, each with its value; that of a flag is not looked at.
    ///
    /// ```
    /// # mod daylight { pub use daylight_operation as operation; }
    /// let options = [("m", "n"), ("n", "4096"), ("k", "11008"), ("dtype", "bfloat16"), ("residual", "")];
    /// let func = daylight::operation::by_name("matmul")?.function("down", &options)?;
    /// assert!(func.to_string().contains("def down(A: T.Buffer((n, T.int64(11008)), \"bfloat16\")"));
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// A sentence: an option that it has not or that is missing, a value that is none, sizes that do not agree.
    pub fn function(&self, name: &str, options: &[(&str, &str)]) -> Result<PrimFunc, String> {
        let values = Values::new(self.options, options).map_err(|e| format!("{}: {e}", self.name))?;
        let mut function = PrimFuncBuilder::new(name);
        (self.make)(&values, &mut function).map_err(|e| format!("{}: {e}", self.name))?;
        function.finish()
    }
}
