//! What every intrinsic of a `Program` satisfies: its places are in the right memory, hold the right
//! type and are aligned, its numbers are in range, and all lanes reach what they do together.

use super::Check;
use crate::analysis::multiple_of;
use crate::ir::intrinsic::{Access, At, Intrinsic, MmaShape, PackedOp, Rounding};
use crate::ir::kernel::ArrayScope;
use crate::ir::{DType, Expr, Name};
use crate::lower::LowerError;
use crate::target::Kind;

/// Bytes that bulk copies, and rows of matrices, are aligned to.
const WIDE: i64 = 16;
/// Most arrivals that a barrier counts.
const MAX_ARRIVALS: u32 = (1 << 20) - 1;

/// Where a place has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Register,
    Shared,
    Global,
}

type Checked = Result<(), LowerError>;

impl Check<'_> {
    /// Checks one intrinsic.
    pub fn intrinsic(&mut self, i: &Intrinsic) -> Checked {
        if self.kind != Kind::Cuda {
            return self.error(&Name::new("instruction"), format!("`{i}` is for a GPU, and the kernel is for a CPU"));
        }
        self.in_cluster(i)?;
        if i.is_warp_wide() {
            self.whole_warp()?;
        }
        let mut result = Ok(());
        i.for_each_expr(|e| {
            if result.is_ok() {
                result = self.expr(e).map(drop);
            }
        });
        i.for_each_place(|at, access, _| {
            if result.is_ok() {
                result = self.access(&at.array, &at.index, access == Access::Write);
            }
        });
        result?;
        self.operands(i)
    }

    /// What is for clusters stands in a launch of clusters; what waits in shared memory does not.
    fn in_cluster(&self, i: &Intrinsic) -> Checked {
        let at = Name::new("instruction");
        match i {
            Intrinsic::ClusterStore { .. } if self.cluster == 1 => {
                self.error(&at, format!("`{i}` stands in no launch of clusters"))
            }
            Intrinsic::MbarrierInit { .. }
            | Intrinsic::BulkLoad { .. }
            | Intrinsic::BulkStore { .. }
            | Intrinsic::TensorLoad { .. }
            | Intrinsic::TensorStore { .. }
                if self.cluster > 1 =>
            {
                self.error(&at, format!("`{i}` is not supported in a launch of clusters"))
            }
            _ => Ok(()),
        }
    }

    fn operands(&self, i: &Intrinsic) -> Checked {
        match i {
            Intrinsic::Packed { op, rounding, ftz, dst, a, b, c } => {
                if (*op == PackedOp::Fma) != c.is_some() {
                    return self.error(&dst.array, "packed `fma` takes three operands, other packed arithmetic two");
                }
                let mut all = [dst, a, b].into_iter().chain(c);
                match self.dtype(dst)? {
                    DType::F16 if *ftz || *rounding != Rounding::Nearest => {
                        self.error(&dst.array, "packed float16 arithmetic rounds to nearest, denormals included")
                    }
                    DType::F16 => all.try_for_each(|at| self.registers(at, &[DType::F16], 4)),
                    _ => all.try_for_each(|at| self.registers(at, &[DType::F32], 8)),
                }
            }
            Intrinsic::Fold3 { dst, a, b, c, .. } => {
                if [a, b, c].iter().any(|e| e.dtype() != DType::F32) {
                    return self.error(&dst.array, "a maximum or minimum of three is of float32 values");
                }
                self.registers(dst, &[DType::F32], 4)
            }
            Intrinsic::CastPair { dst, src } => self.cast_pair(dst, src),
            Intrinsic::Halves { dst, word } if word.dtype() != DType::U32 => {
                self.error(&dst.array, format!("halves are taken of uint32, not of {}", word.dtype()))
            }
            Intrinsic::Halves { dst, .. } => self.registers(dst, &[DType::F16, DType::BF16], 4),
            Intrinsic::Pin { pair } => self.registers(pair, &[DType::F16, DType::BF16], 4),
            Intrinsic::CpAsync { dst, src, bytes, valid, prefetch } => {
                let sizes = matches!(bytes, 4 | 8 | 16) && prefetch.is_none_or(|n| matches!(n, 64 | 128 | 256));
                if !sizes || valid.as_ref().is_some_and(|e| e.dtype() != DType::Bool) {
                    let why = "an asynchronous copy is of 4, 8 or 16 bytes under a boolean, and fetches 64, 128 or 256 bytes ahead";
                    return self.error(&dst.array, why);
                }
                self.copy(dst, Memory::Shared, src, Memory::Global, i64::from(*bytes))
            }
            Intrinsic::LdMatrix { dst, src, count, transpose } => self.matrices(dst, src, *count, *transpose),
            Intrinsic::StMatrix { dst, src, count, transpose } => self.matrices(src, dst, *count, *transpose),
            Intrinsic::Mma { shape, d, a, b, c } => self.mma(*shape, [d, a, b, c]),
            Intrinsic::MbarrierInit { bar, arrivals } => {
                if !(1..=MAX_ARRIVALS).contains(arrivals) {
                    return self
                        .error(&bar.array, format!("a barrier of {arrivals} arrivals; expected 1 to {MAX_ARRIVALS}"));
                }
                self.mbarrier(bar)
            }
            Intrinsic::MbarrierArrive { bar } => self.mbarrier(bar),
            Intrinsic::MbarrierExpect { bar, bytes: e } | Intrinsic::MbarrierWait { bar, parity: e } => {
                self.number(bar, e)?;
                self.mbarrier(bar)
            }
            Intrinsic::BulkLoad { dst, src, bytes, bar } => {
                self.mbarrier(bar)?;
                self.bulk(dst, Memory::Shared, src, Memory::Global, bytes)
            }
            Intrinsic::BulkStore { dst, src, bytes } => self.bulk(dst, Memory::Global, src, Memory::Shared, bytes),
            Intrinsic::TensorLoad { dst, map, coords, bar } => {
                self.mbarrier(bar)?;
                self.tensor(map, coords, dst)
            }
            Intrinsic::TensorStore { map, coords, src } => self.tensor(map, coords, src),
            Intrinsic::ClusterStore { dst, peer, value } => {
                self.number(dst, peer)?;
                let dtype = self.dtype(dst)?;
                if dtype != value.dtype() || !matches!(dtype.bytes(), 4 | 8) {
                    let why = format!(
                        "a store of {} to {dtype} elements of another block; expected one type of 32 or 64 bits",
                        value.dtype()
                    );
                    return self.error(&dst.array, why);
                }
                self.place(dst, Memory::Shared, dtype.bytes() as i64)
            }
            Intrinsic::CpAsyncCommit
            | Intrinsic::CpAsyncWait { .. }
            | Intrinsic::MbarrierFence
            | Intrinsic::BulkCommit
            | Intrinsic::BulkWait { .. }
            | Intrinsic::AsyncFence => Ok(()),
        }
    }

    fn memory(&self, name: &Name) -> Memory {
        match self.kernel.array(name).map(|a| a.scope) {
            Some(ArrayScope::Register) => Memory::Register,
            Some(ArrayScope::Shared) => Memory::Shared,
            None => Memory::Global,
        }
    }

    fn dtype(&self, at: &At) -> Result<DType, LowerError> {
        self.kernel.element(&at.array).map_or_else(|| self.error(&at.array, "it is not declared"), Ok)
    }

    /// A place in that memory, aligned to so many bytes.
    fn place(&self, at: &At, memory: Memory, align: i64) -> Checked {
        if self.memory(&at.array) != memory {
            let place = match memory {
                Memory::Register => "registers",
                Memory::Shared => "shared memory",
                Memory::Global => "global memory",
            };
            return self.error(&at.array, format!("the instruction expects it in {place}"));
        }
        let lanes = (align / self.dtype(at)?.bytes() as i64).max(1);
        if multiple_of(&at.index, &self.ranges) % lanes != 0 {
            return self.error(&at.array, format!("`{at}` is not known to be aligned to {align} bytes"));
        }
        let own = self.kernel.array(&at.array).map_or(align, |a| i64::from(a.align));
        // Shared arrays start at multiples of 16 bytes whatever they ask for.
        if memory == Memory::Register && lanes > 1 && own < align {
            return self
                .error(&at.array, format!("the instruction expects an array aligned to {align} bytes, not {own}"));
        }
        Ok(())
    }

    /// Registers of one of those types.
    fn registers(&self, at: &At, types: &[DType], align: i64) -> Checked {
        let dtype = self.dtype(at)?;
        if !types.contains(&dtype) {
            let names: Vec<String> = types.iter().map(ToString::to_string).collect();
            return self.error(&at.array, format!("the instruction expects {}, not {dtype}", names.join(" or ")));
        }
        self.place(at, Memory::Register, align)
    }

    fn cast_pair(&self, dst: &At, src: &At) -> Checked {
        let (to, from) = (self.dtype(dst)?, self.dtype(src)?);
        let narrow = |d| matches!(d, DType::F16 | DType::BF16);
        if !(to == DType::F32 && narrow(from) || from == DType::F32 && narrow(to)) {
            let why = format!("a pair is converted between float32 and a 16-bit float, not from {from} to {to}");
            return self.error(&dst.array, why);
        }
        self.place(dst, Memory::Register, 2 * to.bytes() as i64)?;
        self.place(src, Memory::Register, 2 * from.bytes() as i64)
    }

    /// A copy between places of one type, both aligned.
    fn copy(&self, dst: &At, to: Memory, src: &At, from: Memory, align: i64) -> Checked {
        let (d, s) = (self.dtype(dst)?, self.dtype(src)?);
        if d != s || d.bytes() as i64 > align {
            return self.error(&dst.array, format!("a copy of {align} bytes from {s} to {d} elements"));
        }
        self.place(dst, to, align)?;
        self.place(src, from, align)
    }

    fn bulk(&self, dst: &At, to: Memory, src: &At, from: Memory, bytes: &Expr) -> Checked {
        self.number(dst, bytes)?;
        let size = multiple_of(bytes, &self.ranges);
        if size % WIDE != 0 || bytes.as_int().is_some_and(|n| n <= 0) {
            return self
                .error(&dst.array, "the size of a bulk copy is not known to be a positive multiple of 16 bytes");
        }
        self.copy(dst, to, src, from, WIDE)
    }

    /// A box of a tensor map in shared memory.
    fn tensor(&self, map: &Name, coords: &[Expr], at: &At) -> Checked {
        let Some(m) = self.kernel.tensor_map(map) else { return self.error(map, "the tensor map is not declared") };
        m.check().or_else(|why| self.error(map, why))?;
        if coords.len() != m.dims.len() || coords.iter().any(|c| !c.dtype().is_int()) {
            return self.error(map, format!("a box has {} integer coordinates", m.dims.len()));
        }
        if self.dtype(at)? != m.dtype || self.kernel.element(&m.buffer) != Some(m.dtype) {
            return self.error(map, format!("the box, its tensor and `{}` differ in type", at.array));
        }
        let align = m.swizzle.align();
        if self.kernel.array(&at.array).is_none_or(|a| i64::from(a.align) < align) {
            return self.error(&at.array, format!("a box lies in shared memory aligned to {align} bytes"));
        }
        self.place(at, Memory::Shared, align)
    }

    fn matrices(&self, registers: &At, rows: &At, count: u32, transpose: bool) -> Checked {
        let (dtype, other) = (self.dtype(registers)?, self.dtype(rows)?);
        let bytes = dtype.bytes();
        if dtype != other || bytes > 4 || transpose && bytes != 2 || !matches!(count, 1 | 2 | 4) {
            let why = format!(
                "{count} matrices between {dtype} registers and {other} elements: expected 1, 2 or 4 of one type of at \
                 most 32 bits, of 16 bits where they are transposed"
            );
            return self.error(&registers.array, why);
        }
        self.place(registers, Memory::Register, 4)?;
        self.place(rows, Memory::Shared, WIDE)
    }

    fn mma(&self, shape: MmaShape, [d, a, b, c]: [&At; 4]) -> Checked {
        let (input, sum) = shape.dtypes();
        self.registers(a, &[input], 4)?;
        self.registers(b, &[input], 4)?;
        self.registers(c, &[sum], 4)?;
        self.registers(d, &[sum], 4)
    }

    fn mbarrier(&self, bar: &At) -> Checked {
        let dtype = self.dtype(bar)?;
        if !matches!(dtype, DType::I64 | DType::U64) {
            return self.error(&bar.array, format!("a barrier is a 64-bit integer in shared memory, not {dtype}"));
        }
        self.place(bar, Memory::Shared, 8)
    }

    fn number(&self, at: &At, e: &Expr) -> Checked {
        if e.dtype().is_int() {
            return Ok(());
        }
        self.error(&at.array, format!("a size, parity or block is an integer, not {}", e.dtype()))
    }
}
