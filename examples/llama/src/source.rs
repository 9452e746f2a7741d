//! Where weights come from: a file of safetensors with the names that Llama's have there, or a seed.

use crate::config::Dtype;
use crate::device::{Device, Error, Kernels, Memory};
use crate::model::bytes;
use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::SafeTensors;
use std::borrow::Cow;
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

    /// The tensors of these names one after the other, `size` elements in all, as the type that the kernels were built for.
    pub fn tensor(
        &mut self,
        (device, kernels, dtype): (&Device, &Kernels, Dtype),
        names: &[&str],
        size: usize,
    ) -> Result<Memory, Error> {
        let mut memory = device.zeros(size * 2)?;
        match self {
            Source::File(map) => fill_from(map, (device, dtype), names, size, &mut memory)?,
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

fn fill_from(
    map: &Mmap,
    (device, dtype): (&Device, Dtype),
    names: &[&str],
    size: usize,
    memory: &mut Memory,
) -> Result<(), Error> {
    let file = SafeTensors::deserialize(map)?;
    let mut offset = 0;
    for name in names {
        let tensor = file.tensor(name)?;
        if tensor.dtype() != safetensors::Dtype::BF16 {
            return Err(format!("{name} is {:?}, expected BF16", tensor.dtype()).into());
        }
        if offset + tensor.data().len() > size * 2 {
            return Err(format!("{name} has the shape {:?}, more than this model has room for", tensor.shape()).into());
        }
        device.write(memory, offset, &converted(tensor.data(), dtype))?;
        offset += tensor.data().len();
    }
    if offset != size * 2 {
        return Err(format!("{} hold {} elements, expected {size}", names.join(", "), offset / 2).into());
    }
    Ok(())
}

/// Bytes of bfloat16 as those of another type.
fn converted(data: &[u8], dtype: Dtype) -> Cow<'_, [u8]> {
    match dtype {
        Dtype::Bfloat16 => data.into(),
        Dtype::Float16 => data
            .chunks_exact(2)
            .flat_map(|b| f16::from_f32(bf16::from_le_bytes([b[0], b[1]]).to_f32()).to_le_bytes())
            .collect::<Vec<_>>()
            .into(),
    }
}
