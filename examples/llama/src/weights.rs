//! The weights of a product: as they are, or packed in 4 bits each.

use crate::config::Config;
use crate::device::{Device, Error, Kernels, Memory};

const HALF: usize = 2;

/// A matrix of weights.
pub enum Weights {
    Plain(Memory),
    /// Eight to a word, with a scale for each group of neighbours.
    Packed {
        words: Memory,
        scales: Memory,
        /// Weights.
        size: usize,
    },
}

impl Weights {
    /// Packs `size` weights where the configuration says so.
    pub fn of(plain: Memory, size: usize, c: &Config, device: &Device, kernels: &Kernels) -> Result<Weights, Error> {
        if !c.int4 {
            return Ok(Weights::Plain(plain));
        }
        let (words, scales) = (device.zeros(size / 2)?, device.zeros(size / c.group * HALF)?);
        let [w, s, p] = [&words, &scales, &plain].map(Memory::address);
        // SAFETY: all have room for what `size` weights become.
        unsafe {
            kernels.scales([p, s], size)?;
            kernels.pack([p, s, w], size)?;
        }
        // The plain ones are not needed any more when both are done.
        device.read(&words, &mut [0; 4])?;
        Ok(Weights::Packed { words, scales, size })
    }
}
