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
    /// Queries of a prompt that are looked at together: their scores are a matrix of so many rows.
    pub chunk: usize,
    /// The type of what is computed, and of weights that are not packed.
    #[serde(default)]
    pub dtype: Dtype,
    /// True where the weights of products are packed, 4 bits each.
    #[serde(default)]
    pub int4: bool,
    /// Neighbouring weights of 4 bits that share a scale.
    pub group: usize,
}

/// A type of 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    #[default]
    Bfloat16,
    Float16,
}

impl Config {
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|e| e.to_string())?;
        if config.group == 0 || !config.group.is_multiple_of(8) || config.chunk == 0 {
            return Err("group has to be a multiple of 8, and chunk at least 1".into());
        }
        Ok(config)
    }

    /// Positions that the chunks of the longest prompt reach.
    #[allow(dead_code)] // only the build reads it
    pub fn reach(&self) -> Vec<i64> {
        let most = self.prompt.iter().copied().max().unwrap_or(1);
        (1..).map(|n| n * self.chunk as i64).take_while(|n| n - (self.chunk as i64) < most).collect()
    }
}
