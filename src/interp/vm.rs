//! Runs bytecode.

use super::compile::Val;
use super::math;
use super::op::{Access, Code, FloatCmp, FloatOp, IntOp, InterpError, Op, REGS, Reg};
use super::round::{
    float_bits, float_to_int, float_value, floor_div, int_to_float, round_to, shift_left, shift_right, shift_right_u64,
    wrap_int,
};
use super::tensor::{chunk, read_bits};
use crate::ir::{DType, PrimFunc};

/// Elements of a buffer that is written.
pub(super) struct Cells<T> {
    pub values: Vec<T>,
    /// Which of them have been written, where that is noted.
    pub written: Option<Vec<bool>>,
}

impl<T: Copy> Cells<T> {
    #[inline]
    fn store(&mut self, at: usize, v: T) {
        self.values[at] = v;
        if let Some(written) = &mut self.written {
            written[at] = true;
        }
    }

    /// Calls `f` with every element that has been written, or that may have been.
    pub fn each_written(&self, mut f: impl FnMut(usize, T)) {
        let is = |i: &usize| self.written.as_ref().is_none_or(|w| w[*i]);
        (0..self.values.len()).filter(is).for_each(|i| f(i, self.values[i]));
    }
}

/// What holds a buffer's elements during a run.
pub(super) enum Slot<'a> {
    /// Floats that are written, at full width.
    Floats(Cells<f64>),
    /// Integers that are written.
    Ints(Cells<i64>),
    /// An argument that is only read.
    Bytes(DType, &'a [u8]),
    /// Nothing: elements are computed when they are read.
    Absent,
}

impl Slot<'_> {
    /// Which elements have been written, where that is noted.
    pub fn written(&self) -> Option<&[bool]> {
        match self {
            Slot::Floats(cells) => cells.written.as_deref(),
            Slot::Ints(cells) => cells.written.as_deref(),
            Slot::Bytes(..) | Slot::Absent => None,
        }
    }
}

/// Computes elements of buffers that hold nothing yet.
pub(super) trait Source {
    /// The element of a float buffer at a flat index.
    fn float(&mut self, vm: &mut Vm, buffer: u16, flat: usize) -> Result<f64, InterpError>;
    /// The element of an integer buffer at a flat index.
    fn int(&mut self, vm: &mut Vm, buffer: u16, flat: usize) -> Result<i64, InterpError>;
    /// A cell was stored to.
    fn written(&mut self, cell: u16);
}

/// For code without demand-driven loads.
pub(super) struct NoSource;

impl Source for NoSource {
    fn float(&mut self, _: &mut Vm, _: u16, _: usize) -> Result<f64, InterpError> {
        Err(InterpError::Unsupported("a demand-driven load here".to_string()))
    }
    fn int(&mut self, _: &mut Vm, _: u16, _: usize) -> Result<i64, InterpError> {
        Err(InterpError::Unsupported("a demand-driven load here".to_string()))
    }
    fn written(&mut self, _: u16) {}
}

/// The registers and the buffers.
pub(super) struct Vm<'a> {
    pub ints: Box<[i64; REGS]>,
    pub floats: Box<[f64; REGS]>,
    pub slots: Vec<Slot<'a>>,
    pub f: &'a PrimFunc,
}

fn file<T: Copy>(v: T) -> Box<[T; REGS]> {
    match vec![v; REGS].into_boxed_slice().try_into() {
        Ok(b) => b,
        Err(_) => unreachable!("the slice has the array's length"),
    }
}

impl<'a> Vm<'a> {
    pub fn new(f: &'a PrimFunc, slots: Vec<Slot<'a>>) -> Vm<'a> {
        Vm { ints: file(0), floats: file(0.0), slots, f }
    }

    /// Puts the constants of a piece of code into its registers.
    pub fn load_constants(&mut self, code: &Code) {
        code.int_consts.iter().for_each(|(r, v)| self.ints[*r as usize] = *v);
        code.float_consts.iter().for_each(|(r, v)| self.floats[*r as usize] = *v);
    }

    /// The bits of an element that was passed in: of an `f64` for floats, of an `i64` else.
    pub fn stored(&self, buffer: u16, flat: usize) -> Result<u64, InterpError> {
        match &self.slots[buffer as usize] {
            Slot::Bytes(dtype, data) if dtype.is_float() => {
                Ok(float_value(read_bits(data, *dtype, flat), *dtype).to_bits())
            }
            Slot::Bytes(dtype, data) => Ok(wrap_int(read_bits(data, *dtype, flat) as i64, *dtype) as u64),
            Slot::Floats(v) => Ok(v.values[flat].to_bits()),
            Slot::Ints(v) => Ok(v.values[flat] as u64),
            Slot::Absent => {
                let name = self.f.display_name(&self.f.buffers[buffer as usize].name);
                Err(InterpError::Unsupported(format!("a read of `{name}` before anything is stored there")))
            }
        }
    }

    /// The bits of a register, as [`Vm::stored`] gives them.
    pub fn bits_of(&self, v: Val) -> u64 {
        match v {
            Val::I(r) => self.i(r) as u64,
            Val::F(r) => self.x(r).to_bits(),
        }
    }

    /// Sets a register from bits.
    pub fn set_bits(&mut self, v: Val, bits: u64) {
        match v {
            Val::I(r) => self.ints[r as usize] = bits as i64,
            Val::F(r) => self.floats[r as usize] = f64::from_bits(bits),
        }
    }

    fn i(&self, r: Reg) -> i64 {
        self.ints[r as usize]
    }

    fn x(&self, r: Reg) -> f64 {
        self.floats[r as usize]
    }

    /// The flat index of an access.
    #[inline]
    fn flat(&self, a: &Access) -> Result<usize, InterpError> {
        let mut flat = 0;
        for (r, extent, stride) in &a.dims {
            let i = self.i(*r);
            if i as u64 >= *extent as u64 {
                return Err(self.out_of_bounds(a));
            }
            flat += i * stride;
        }
        Ok(flat as usize)
    }

    #[cold]
    fn out_of_bounds(&self, a: &Access) -> InterpError {
        let buffer = &self.f.buffers[a.buffer as usize];
        InterpError::OutOfBounds {
            buffer: self.f.display_name(&buffer.name).to_string(),
            index: a.dims.iter().map(|d| self.i(d.0)).collect(),
            shape: a.dims.iter().map(|d| d.1).collect(),
        }
    }

    #[cold]
    fn unwritten(&self, a: &Access) -> InterpError {
        let buffer = &self.f.buffers[a.buffer as usize];
        InterpError::Unwritten {
            buffer: self.f.display_name(&buffer.name).to_string(),
            index: a.dims.iter().map(|d| self.i(d.0)).collect(),
        }
    }

    #[inline]
    fn load_float(&self, a: &Access) -> Result<f64, InterpError> {
        let at = self.flat(a)?;
        Ok(match &self.slots[a.buffer as usize] {
            Slot::Floats(v) => v.values[at],
            Slot::Bytes(DType::F32, data) => f32::from_le_bytes(chunk(data, at)) as f64,
            Slot::Bytes(dtype, data) => float_value(read_bits(data, *dtype, at), *dtype),
            Slot::Ints(_) | Slot::Absent => f64::NAN,
        })
    }

    #[inline]
    fn load_int(&self, a: &Access) -> Result<i64, InterpError> {
        let at = self.flat(a)?;
        Ok(match &self.slots[a.buffer as usize] {
            Slot::Ints(v) => v.values[at],
            Slot::Bytes(dtype, data) => wrap_int(read_bits(data, *dtype, at) as i64, *dtype),
            Slot::Floats(_) | Slot::Absent => 0,
        })
    }

    /// Whether an element has been written, of a buffer of which that is noted.
    fn is_written(&self, a: &Access) -> Result<bool, InterpError> {
        let at = self.flat(a)?;
        Ok(self.slots[a.buffer as usize].written().is_none_or(|w| w[at]))
    }

    /// Notes whether an element has been written.
    fn note(&mut self, a: &Access, is: bool) -> Result<(), InterpError> {
        let at = self.flat(a)?;
        match &mut self.slots[a.buffer as usize] {
            Slot::Floats(Cells { written: Some(w), .. }) | Slot::Ints(Cells { written: Some(w), .. }) => w[at] = is,
            Slot::Floats(_) | Slot::Ints(_) | Slot::Bytes(..) | Slot::Absent => {}
        }
        Ok(())
    }

    /// Runs from `pc` to `Halt`.
    pub fn run<S: Source>(&mut self, code: &Code, mut pc: usize, source: &mut S) -> Result<(), InterpError> {
        loop {
            let op = code.ops[pc];
            pc += 1;
            match op {
                Op::AddI { d, a, b } => self.ints[d as usize] = self.i(a).wrapping_add(self.i(b)),
                Op::MulI { d, a, b } => self.ints[d as usize] = self.i(a).wrapping_mul(self.i(b)),
                Op::Int { op, d, a, b } => self.ints[d as usize] = int_op(op, self.i(a), self.i(b)),
                Op::NegI { d, a } => self.ints[d as usize] = self.i(a).wrapping_neg(),
                Op::InvertI { d, a } => self.ints[d as usize] = !self.i(a),
                Op::NotI { d, a } => self.ints[d as usize] = (self.i(a) == 0) as i64,
                Op::Wrap { d, a, dtype } => self.ints[d as usize] = wrap_int(self.i(a), dtype),
                Op::PopCount { d, a, dtype } => self.ints[d as usize] = field(self.i(a), dtype).count_ones() as i64,
                Op::Clz { d, a, dtype } => {
                    let spare = 64 - 8 * dtype.bytes() as i64;
                    self.ints[d as usize] = field(self.i(a), dtype).leading_zeros() as i64 - spare;
                }
                Op::AddF { d, a, b } => self.floats[d as usize] = self.x(a) + self.x(b),
                Op::MulF { d, a, b } => self.floats[d as usize] = self.x(a) * self.x(b),
                Op::Float { op, d, a, b } => self.floats[d as usize] = float_op(op, self.x(a), self.x(b)),
                Op::Compare { op, d, a, b } => self.ints[d as usize] = compare(op, self.x(a), self.x(b)) as i64,
                Op::NegF { d, a } => self.floats[d as usize] = -self.x(a),
                Op::Call1 { f, d, a } => self.floats[d as usize] = f(self.x(a)),
                Op::Call2 { op, d, a, b } => {
                    let f = math::binary(op).ok_or_else(|| InterpError::Unsupported(format!("`T.{}`", op.name())))?;
                    self.floats[d as usize] = f(self.x(a), self.x(b));
                }
                Op::Fma { d, a, b, c } => self.floats[d as usize] = self.x(a).mul_add(self.x(b), self.x(c)),
                Op::IsNan { d, a } => self.ints[d as usize] = self.x(a).is_nan() as i64,
                Op::IsInf { d, a } => self.ints[d as usize] = self.x(a).is_infinite() as i64,
                Op::Round { d, a, dtype } => self.floats[d as usize] = round_to(self.x(a), dtype),
                Op::IntToFloat { d, a, from, to } => self.floats[d as usize] = int_to_float(self.i(a), from, to),
                Op::FloatToInt { d, a, dtype } => self.ints[d as usize] = float_to_int(self.x(a), dtype),
                Op::Bits { d, a, from, to } => {
                    self.ints[d as usize] = wrap_int(float_bits(self.x(a), from) as i64, to);
                }
                Op::FromBits { d, a, dtype } => self.floats[d as usize] = float_value(self.i(a) as u64, dtype),
                Op::MovI { d, a } => self.ints[d as usize] = self.i(a),
                Op::MovF { d, a } => self.floats[d as usize] = self.x(a),
                Op::SelectI { d, c, a, b } => self.ints[d as usize] = self.i(if self.i(c) != 0 { a } else { b }),
                Op::SelectF { d, c, a, b } => self.floats[d as usize] = self.x(if self.i(c) != 0 { a } else { b }),
                Op::Jump { to } => pc = to as usize,
                Op::JumpIfZero { c, to } if self.i(c) == 0 => pc = to as usize,
                Op::JumpIfNot { c, to } if self.i(c) != 0 => pc = to as usize,
                Op::JumpIfZero { .. } | Op::JumpIfNot { .. } => {}
                Op::LoopEnter { i, limit, exit } if self.i(i) >= self.i(limit) => pc = exit as usize,
                Op::LoopEnter { .. } => {}
                Op::LoopNext { i, limit, body } => {
                    let next = self.i(i) + 1;
                    self.ints[i as usize] = next;
                    if next < self.i(limit) {
                        pc = body as usize;
                    }
                }
                Op::LoadI { d, access } => self.ints[d as usize] = self.load_int(&code.accesses[access as usize])?,
                Op::LoadF { d, access } => {
                    self.floats[d as usize] = self.load_float(&code.accesses[access as usize])?
                }
                Op::StoreI { s, access } => self.store_int(s, &code.accesses[access as usize])?,
                Op::StoreF { s, access } => self.store_float(s, &code.accesses[access as usize])?,
                Op::WasWritten { access } => {
                    let a = &code.accesses[access as usize];
                    if !self.is_written(a)? {
                        return Err(self.unwritten(a));
                    }
                }
                Op::Copied { from, to } => {
                    let written = self.is_written(&code.accesses[from as usize])?;
                    self.note(&code.accesses[to as usize], written)?;
                }
                Op::DemandI { d, access } => {
                    let a = &code.accesses[access as usize];
                    let at = self.flat(a)?;
                    self.ints[d as usize] = source.int(self, a.buffer, at)?;
                }
                Op::DemandF { d, access } => {
                    let a = &code.accesses[access as usize];
                    let at = self.flat(a)?;
                    self.floats[d as usize] = source.float(self, a.buffer, at)?;
                }
                Op::Written { cell } => source.written(cell),
                Op::Halt => return Ok(()),
            }
        }
    }

    #[inline]
    fn store_float(&mut self, s: Reg, a: &Access) -> Result<(), InterpError> {
        let (at, v) = (self.flat(a)?, self.x(s));
        match &mut self.slots[a.buffer as usize] {
            Slot::Floats(cells) => cells.store(at, v),
            Slot::Ints(_) | Slot::Bytes(..) | Slot::Absent => return Err(unwritable()),
        }
        Ok(())
    }

    #[inline]
    fn store_int(&mut self, s: Reg, a: &Access) -> Result<(), InterpError> {
        let (at, v) = (self.flat(a)?, self.i(s));
        match &mut self.slots[a.buffer as usize] {
            Slot::Ints(cells) => cells.store(at, v),
            Slot::Floats(_) | Slot::Bytes(..) | Slot::Absent => return Err(unwritable()),
        }
        Ok(())
    }
}

#[cold]
fn unwritable() -> InterpError {
    InterpError::Unsupported("a store of another type than the buffer's".to_string())
}

/// The bits of an integer of some type, zero-extended.
fn field(v: i64, dtype: DType) -> u64 {
    (v as u64) & (u64::MAX >> (64 - 8 * dtype.bytes()))
}

/// An integer operation; a quotient or remainder by 0 is 0.
fn int_op(op: IntOp, a: i64, b: i64) -> i64 {
    let divides =
        matches!(op, IntOp::FloorDiv | IntOp::FloorMod | IntOp::TruncDiv | IntOp::TruncMod | IntOp::DivU | IntOp::ModU);
    if divides && b == 0 {
        return 0;
    }
    let (ua, ub) = (a as u64, b as u64);
    match op {
        IntOp::Sub => a.wrapping_sub(b),
        IntOp::FloorDiv => floor_div(a, b),
        IntOp::FloorMod => a.wrapping_sub(floor_div(a, b).wrapping_mul(b)),
        IntOp::TruncDiv => a.wrapping_div(b),
        IntOp::TruncMod => a.wrapping_rem(b),
        IntOp::Min => a.min(b),
        IntOp::Max => a.max(b),
        IntOp::And => a & b,
        IntOp::Or => a | b,
        IntOp::Xor => a ^ b,
        IntOp::Shl => shift_left(a, b),
        IntOp::Shr => shift_right(a, b),
        IntOp::Eq => (a == b) as i64,
        IntOp::Ne => (a != b) as i64,
        IntOp::Lt => (a < b) as i64,
        IntOp::Le => (a <= b) as i64,
        IntOp::DivU => (ua / ub) as i64,
        IntOp::ModU => (ua % ub) as i64,
        IntOp::MinU => ua.min(ub) as i64,
        IntOp::MaxU => ua.max(ub) as i64,
        IntOp::ShrU => shift_right_u64(ua, ub) as i64,
        IntOp::LtU => (ua < ub) as i64,
        IntOp::LeU => (ua <= ub) as i64,
    }
}

/// Minimum and maximum give the other operand where one is NaN, as `fmin` and `fmax` of C do.
fn float_op(op: FloatOp, a: f64, b: f64) -> f64 {
    match op {
        FloatOp::Sub => a - b,
        FloatOp::Div => a / b,
        FloatOp::FloorDiv => (a / b).floor(),
        FloatOp::FloorMod => a - b * (a / b).floor(),
        FloatOp::TruncDiv => (a / b).trunc(),
        FloatOp::TruncMod => a % b,
        FloatOp::Min => a.min(b),
        FloatOp::Max => a.max(b),
    }
}

fn compare(op: FloatCmp, a: f64, b: f64) -> bool {
    match op {
        FloatCmp::Eq => a == b,
        FloatCmp::Ne => a != b,
        FloatCmp::Lt => a < b,
        FloatCmp::Le => a <= b,
    }
}
