//! Where weights come from: a file of safetensors with the names that Llama's have there, or a seed.

use crate::device::{Device, Error, Kernels, Memory};
use crate::model::bytes;
use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};
use std::path::Path;

/// Weights of a model.
pub enum Source {
    /// A file, mapped.
    File(Mmap),
    /// Values between `-0.035` and `0.035` (a deviation of 0.02) that depend on their place and the tensor's number alone.
    Seed(u32),
}

impl Source {
    /// # Errors
    /// When there is no such file.
    pub fn file(path: &Path) -> Result<Source, Error> {
        let file = std::fs::File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
        // SAFETY: nobody is expected to change the weights while the program reads them.
        Ok(Source::File(unsafe { Mmap::map(&file) }?))
    }

    /// The tensors of these names one after the other, `size` elements of bfloat16 in all.
    pub fn tensor(&mut self, device: &Device, kernels: &Kernels, names: &[&str], size: usize) -> Result<Memory, Error> {
        let mut memory = device.zeros(size * 2)?;
        match self {
            Source::File(map) => fill_from(map, device, names, size, &mut memory)?,
            Source::Seed(next) => {
                *next = next.wrapping_add(1);
                let (mut seed, mut spread) = (device.zeros(4)?, device.zeros(4)?);
                device.write(&mut seed, 0, bytes(&[*next]))?;
                device.write(&mut spread, 0, bytes(&[0.035f32]))?;
                // SAFETY: the three are as large as `fill` says.
                unsafe { kernels.fill([seed.address(), spread.address(), memory.address()], size) }?;
                device.read(&spread, &mut [0; 4])?;
            }
        }
        Ok(memory)
    }
}

fn fill_from(map: &Mmap, device: &Device, names: &[&str], size: usize, memory: &mut Memory) -> Result<(), Error> {
    let file = SafeTensors::deserialize(map)?;
    let mut offset = 0;
    for name in names {
        let tensor = file.tensor(name)?;
        if tensor.dtype() != Dtype::BF16 {
            return Err(format!("{name} is {:?}, expected BF16", tensor.dtype()).into());
        }
        if offset + tensor.data().len() > size * 2 {
            return Err(format!("{name} has the shape {:?}, more than this model has room for", tensor.shape()).into());
        }
        device.write(memory, offset, tensor.data())?;
        offset += tensor.data().len();
    }
    if offset != size * 2 {
        return Err(format!("{} hold {} elements, expected {size}", names.join(", "), offset / 2).into());
    }
    Ok(())
}
