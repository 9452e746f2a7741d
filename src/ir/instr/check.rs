//! What operations ask of their immediates, and of types that belong together, besides their signature.

use super::{BlockScaleMma, Instr, Op, Sync, TENSOR_COLUMNS, Tcgen05};
use crate::ir::{Contiguous, DType, MatrixDesc};

/// Most arrivals that a barrier counts.
const MAX_ARRIVALS: u32 = (1 << 20) - 1;

impl Instr {
    /// Checks immediates and types, where the arrays of its places hold `types`.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn check(&self, types: &[DType]) -> Result<(), String> {
        let values: Vec<DType> = self.values.iter().map(|e| e.dtype()).collect();
        match (&self.op, types, values.as_slice()) {
            (Op::Fold3(_), _, all) if all.iter().any(|d| *d != DType::F32) => {
                Err("a maximum or minimum of three is of float32 values".into())
            }
            (Op::CastPair, [to, from], _) => cast_pair(*to, *from),
            (Op::Halves, _, [word]) if *word != DType::U32 => Err(format!("halves are taken of uint32, not of {word}")),
            (Op::CpAsync { bytes, prefetch }, _, valid) => {
                let sizes = matches!(bytes, 4 | 8 | 16) && prefetch.is_none_or(|n| matches!(n, 64 | 128 | 256));
                if !sizes || valid.iter().any(|d| *d != DType::Bool) {
                    let why = "an asynchronous copy is of 4, 8 or 16 bytes under a boolean, and fetches 64, 128 or 256 bytes ahead";
                    return Err(why.into());
                }
                copy(types, u64::from(*bytes))
            }
            (Op::BulkLoad | Op::BulkStore, _, _) => copy(types, 16),
            (Op::LdMatrix { count, transpose }, [registers, rows], _)
            | (Op::StMatrix { count, transpose }, [rows, registers], _) => {
                matrices(*count, *transpose, *registers, *rows)
            }
            (Op::ClusterStore, [to], [_, from]) if to != from || !matches!(to.bytes(), 4 | 8) => {
                let one = "expected one type of 32 or 64 bits";
                Err(format!("a store of {from} to {to} elements of another block; {one}"))
            }
            (Op::ClusterLoad { lanes }, [to, from], _)
                if to != from || !matches!(u64::from(*lanes) * from.bytes(), 2 | 4 | 8 | 16) =>
            {
                let one = "expected one type, and 2, 4, 8 or 16 bytes";
                Err(format!("a load of {lanes} {from} elements of another block to {to}; {one}"))
            }
            (Op::BlockScaleMma { shape, first }, ..) => numbers_of_scales(*shape, *first),
            (Op::Tcgen05(op), [to, from, ..], _) => match op {
                Tcgen05::Load { .. } if to != from => {
                    Err(format!("a load of {from} from tensor memory into registers of {to}"))
                }
                Tcgen05::Store { .. } if to != from => {
                    Err(format!("a store of registers of {from} to {to} in tensor memory"))
                }
                _ => tensor_memory(op, &values),
            },
            (Op::Tcgen05(op), ..) => tensor_memory(op, &values),
            (Op::Prmt, _, all) if all.iter().any(|d| *d != DType::U32) => {
                Err("bytes are taken of uint32, as a uint32 says".into())
            }
            (Op::Wgmma { shape, a, b }, ..) => shape.check().and_then(|()| product(shape.input, &[a, b], &values)),
            (Op::WgmmaRegisters { shape, b }, ..) => shape.check().and_then(|()| product(shape.input, &[b], &values)),
            (Op::SetMaxReg { registers, .. }, ..) if !(24..=256).contains(registers) || registers % 8 != 0 => {
                Err(format!("{registers} registers of a thread; expected 24 to 256, a multiple of 8"))
            }
            (Op::Sync(Sync::MbarrierInit { arrivals }), ..) if !(1..=MAX_ARRIVALS).contains(arrivals) => {
                Err(format!("a barrier of {arrivals} arrivals; expected 1 to {MAX_ARRIVALS}"))
            }
            _ => Ok(()),
        }
    }
}

/// That the scales of a row are some of four, from a multiple of their number on.
fn numbers_of_scales(shape: BlockScaleMma, first: [u32; 2]) -> Result<(), String> {
    let each = shape.scales();
    match first.iter().any(|n| i64::from(*n) + each > 4 || i64::from(*n) % each != 0) {
        true => Err(format!("{each} scales of a row start at number {} of four, or {}", first[0], first[1])),
        false => Ok(()),
    }
}

fn cast_pair(to: DType, from: DType) -> Result<(), String> {
    let narrow = |d| matches!(d, DType::F16 | DType::BF16);
    if to == DType::F32 && narrow(from) || from == DType::F32 && narrow(to) {
        return Ok(());
    }
    Err(format!("a pair is converted between float32 and a 16-bit float, not from {from} to {to}"))
}

fn tensor_memory(op: &Tcgen05, values: &[DType]) -> Result<(), String> {
    match op {
        Tcgen05::Alloc { columns, .. } | Tcgen05::Dealloc { columns, .. }
            if !(32..=TENSOR_COLUMNS).contains(columns) || columns.count_ones() != 1 =>
        {
            Err(format!("{columns} columns of tensor memory; expected a power of two from 32 to {TENSOR_COLUMNS}"))
        }
        Tcgen05::Load { count } | Tcgen05::Store { count } if !(1..=32).contains(count) || count.count_ones() != 1 => {
            Err(format!("a load or store of {count} times 8 columns; expected a power of two up to 32"))
        }
        Tcgen05::Mma { shape, a, b } => shape.check().and_then(|()| product(shape.input, &[a, b], values)),
        Tcgen05::ScaledMma { shape, a, b, first } => {
            shape.check()?;
            numbers_of_scales(shape.of, *first)?;
            [a, b].into_iter().zip(shape.of.elements()).try_for_each(|(d, input)| product(input, &[d], values))
        }
        _ => Ok(()),
    }
}

/// What products of matrices that descriptors name have in common.
fn product(input: DType, descs: &[&MatrixDesc], values: &[DType]) -> Result<(), String> {
    if values != [DType::Bool] {
        return Err("whether a product is added to what is there is a boolean".into());
    }
    for d in descs {
        if d.contiguous == Contiguous::Free && input.bytes() != 2 {
            return Err(format!("matrices of {input} are contiguous along the reduced axis"));
        }
        if [d.leading, d.stride].iter().any(|n| n % 16 != 0 || *n >= 1 << 18) {
            return Err(format!("the descriptor {} has a distance that is no multiple of 16 below 2^18", d.text()));
        }
        if !d.in_period() {
            return Err(format!("the descriptor {} has a distance within the period of its permutation", d.text()));
        }
    }
    Ok(())
}

/// A copy between places of one type.
fn copy(types: &[DType], bytes: u64) -> Result<(), String> {
    match types {
        [to, from, ..] if to != from || to.bytes() > bytes => {
            Err(format!("a copy of {bytes} bytes from {from} to {to} elements"))
        }
        _ => Ok(()),
    }
}

fn matrices(count: u32, transpose: bool, registers: DType, rows: DType) -> Result<(), String> {
    let bytes = registers.bytes();
    if registers == rows && bytes <= 4 && (!transpose || bytes == 2) && matches!(count, 1 | 2 | 4) {
        return Ok(());
    }
    Err(format!(
        "{count} matrices between {registers} registers and {rows} elements: expected 1, 2 or 4 of one type of at most \
         32 bits, of 16 bits where they are transposed"
    ))
}
