//! The shape of a model. `build.rs` reads it to make kernels, the program to lay out memory.

use serde::Deserialize;

/// The file that the program was built for, `configs/tiny.toml` unless `LLAMA_CONFIG` names another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub layers: usize,
    pub hidden: usize,
    /// Gated units of a layer.
    pub inner: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub vocab: usize,
    pub rope_base: f64,
    /// Positions that a sequence has room for.
    pub capacity: usize,
    /// Sequences side by side.
    pub slots: usize,
    /// Tokens of a prompt that kernels are tuned for; the last is the most that one may have.
    pub prompt: Vec<i64>,
    /// Sequences that go on side by side that kernels are tuned for. The build and the clock read it.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    pub batch: Vec<i64>,
    /// Positions looked at that kernels are tuned for.
    pub span: Vec<i64>,
}

impl Config {
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Config, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }
}
