//! Compiles expressions to bytecode. Loop and block variables have registers of their own,
//! intermediate values share a stack of temporary ones.

use super::layout::{Layout, Scalar, buffer_index};
use super::op::{Access, Code, FloatCmp, FloatOp, IntOp, InterpError, Op, REGS, Reg};
use super::round::{round_to, wrap_int};
use super::{Mode, math};
use crate::ir::{BinOp, DType, Expr, ExprKind, Intrin, Name, PrimFunc, UnOp};
use std::collections::HashMap;

/// A value in a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Val {
    I(Reg),
    F(Reg),
}

/// What stands for loads and stores of certain buffers in demand-driven code.
#[derive(Clone, Default)]
pub(super) struct Demand {
    /// Buffers that the block being compiled writes: their cell and the indices they are stored at.
    pub cells: HashMap<Name, Cell>,
    /// Buffers whose elements are computed when read.
    pub computed: Vec<Name>,
}

/// The element of a buffer that one instance of a block writes.
#[derive(Clone)]
pub(super) struct Cell {
    pub number: u16,
    pub value: Val,
    pub indices: Vec<Expr>,
}

pub(super) struct Compiler<'f> {
    pub f: &'f PrimFunc,
    pub layout: &'f Layout,
    pub mode: Mode,
    pub code: Code,
    pub vars: HashMap<Name, Val>,
    pub demand: Option<Demand>,
    ints: HashMap<i64, Reg>,
    floats: HashMap<u64, Reg>,
    /// Temporaries grow from 0, registers that last from the top.
    temp: [usize; 2],
    high: [usize; 2],
    top: [usize; 2],
}

type Result<T> = std::result::Result<T, InterpError>;

impl<'f> Compiler<'f> {
    pub fn new(f: &'f PrimFunc, layout: &'f Layout, mode: Mode) -> Result<Compiler<'f>> {
        let mut c = Compiler {
            f,
            layout,
            mode,
            code: Code::default(),
            vars: HashMap::new(),
            demand: None,
            ints: HashMap::new(),
            floats: HashMap::new(),
            temp: [0; 2],
            high: [0; 2],
            top: [REGS; 2],
        };
        for (name, v) in &layout.scalars {
            let val = match v {
                Scalar::Int(v) => Val::I(c.int(*v)?),
                Scalar::Float(v) => Val::F(c.float(*v)?),
            };
            c.vars.insert(name.clone(), val);
        }
        Ok(c)
    }

    pub fn emit(&mut self, op: Op) {
        self.code.ops.push(op);
    }

    pub fn here(&self) -> u32 {
        self.code.ops.len() as u32
    }

    /// Fills in the target of a jump that was emitted before.
    pub fn patch(&mut self, at: u32, target: u32) {
        match &mut self.code.ops[at as usize] {
            Op::Jump { to } | Op::JumpIfZero { to, .. } | Op::JumpIfNot { to, .. } => *to = target,
            Op::LoopEnter { exit, .. } => *exit = target,
            other => panic!("{other:?} is no jump"),
        }
    }

    /// Marks the temporaries in use; [`Compiler::release`] gives back those taken since.
    pub fn mark(&self) -> [usize; 2] {
        self.temp
    }

    pub fn release(&mut self, mark: [usize; 2]) {
        self.temp = mark;
    }

    /// A temporary integer register.
    pub fn temporary(&mut self) -> Result<Reg> {
        self.fresh(0)
    }

    fn fresh(&mut self, file: usize) -> Result<Reg> {
        let r = self.temp[file];
        if r + 1 >= self.top[file] {
            return Err(InterpError::Unsupported("a function this large".to_string()));
        }
        self.temp[file] += 1;
        self.high[file] = self.high[file].max(self.temp[file]);
        Ok(r as Reg)
    }

    /// From here on temporaries are others than those used so far, so that this code can run in the
    /// middle of the code before it.
    pub fn separate_temporaries(&mut self) {
        self.temp = self.high;
    }

    /// The value of an extent.
    pub fn extent(&self, e: &Expr) -> Result<i64> {
        super::layout::constant(e, &self.layout.scalars)
    }

    /// A register that lasts, in the file for a dtype.
    pub fn lasting(&mut self, dtype: DType) -> Result<Val> {
        let file = dtype.is_float() as usize;
        if self.top[file] <= self.high[file] + 1 {
            return Err(InterpError::Unsupported("a function this large".to_string()));
        }
        self.top[file] -= 1;
        let r = self.top[file] as Reg;
        Ok(if file == 1 { Val::F(r) } else { Val::I(r) })
    }

    pub fn int(&mut self, v: i64) -> Result<Reg> {
        if let Some(r) = self.ints.get(&v) {
            return Ok(*r);
        }
        let r = self.lasting(DType::I64)?.int()?;
        self.ints.insert(v, r);
        self.code.int_consts.push((r, v));
        Ok(r)
    }

    fn float(&mut self, v: f64) -> Result<Reg> {
        if let Some(r) = self.floats.get(&v.to_bits()) {
            return Ok(*r);
        }
        let r = self.lasting(DType::F64)?.float()?;
        self.floats.insert(v.to_bits(), r);
        self.code.float_consts.push((r, v));
        Ok(r)
    }

    /// Emits an operation with a fresh integer destination.
    fn to_int(&mut self, make: impl Fn(Reg) -> Op) -> Result<Val> {
        let d = self.fresh(0)?;
        self.emit(make(d));
        Ok(Val::I(d))
    }

    /// Emits an operation with a fresh float destination, rounded in exact mode.
    fn to_float(&mut self, dtype: DType, make: impl Fn(Reg) -> Op) -> Result<Val> {
        let d = self.fresh(1)?;
        self.emit(make(d));
        if self.mode == Mode::Exact && dtype != DType::F64 {
            self.emit(Op::Round { d, a: d, dtype });
        }
        Ok(Val::F(d))
    }

    /// Copies a value to a register of the same file.
    pub fn mov(&mut self, to: Val, from: Val) -> Result<()> {
        match (to, from) {
            (Val::I(d), Val::I(a)) if d != a => self.emit(Op::MovI { d, a }),
            (Val::F(d), Val::F(a)) if d != a => self.emit(Op::MovF { d, a }),
            (Val::I(_), Val::I(_)) | (Val::F(_), Val::F(_)) => {}
            _ => return Err(mismatch()),
        }
        Ok(())
    }

    /// Code for an expression. The register must not be written by the caller.
    pub fn expr(&mut self, e: &Expr) -> Result<Val> {
        match e.kind() {
            ExprKind::Int { value, dtype } => Ok(Val::I(self.int(wrap_int(*value, *dtype))?)),
            ExprKind::Float { bits, dtype } => Ok(Val::F(self.float(round_to(f64::from_bits(*bits), *dtype))?)),
            ExprKind::Str(_) => Err(InterpError::Unsupported("strings".to_string())),
            ExprKind::Var { name, .. } => {
                self.vars.get(name).copied().ok_or_else(|| InterpError::UnknownExtent(name.clone()))
            }
            ExprKind::Load { buffer, indices, dtype } => self.load(buffer, indices, *dtype),
            ExprKind::Unary { op, arg } => self.unary(*op, arg),
            ExprKind::Binary { op, a, b } => self.binary(*op, a, b),
            ExprKind::Select { cond, then, otherwise } => {
                let c = self.expr(cond)?.int()?;
                match (self.expr(then)?, self.expr(otherwise)?) {
                    (Val::I(a), Val::I(b)) => self.to_int(|d| Op::SelectI { d, c, a, b }),
                    (Val::F(a), Val::F(b)) => {
                        let d = self.fresh(1)?;
                        self.emit(Op::SelectF { d, c, a, b });
                        Ok(Val::F(d))
                    }
                    _ => Err(mismatch()),
                }
            }
            ExprKind::IfThenElse { cond, then, otherwise } => self.branch(cond, then, otherwise),
            ExprKind::Cast { dtype, arg } => self.cast(*dtype, arg),
            ExprKind::Reinterpret { dtype, arg } => self.reinterpret(*dtype, arg),
            ExprKind::Call { op, args, dtype } => self.call(*op, args, *dtype),
            ExprKind::Extern { callee, .. } => Err(InterpError::Unsupported(format!("calls of `{callee}`"))),
            ExprKind::Let { var, value, body } => {
                self.bind(var, value)?;
                self.expr(body)
            }
        }
    }

    /// Gives a variable a register that holds a value.
    pub fn bind(&mut self, var: &Name, value: &Expr) -> Result<()> {
        let mark = self.mark();
        let v = self.expr(value)?;
        let reg = self.lasting(value.dtype())?;
        self.mov(reg, v)?;
        self.release(mark);
        self.vars.insert(var.clone(), reg);
        Ok(())
    }

    /// The access for a buffer element, with its index computations emitted.
    pub fn access(&mut self, buffer: &Name, indices: &[Expr]) -> Result<u32> {
        let number = buffer_index(self.f, buffer);
        let shape = &self.layout.shapes[number];
        if shape.len() != indices.len() {
            let name = self.f.display_name(buffer);
            return Err(InterpError::Unsupported(format!("an access of `{name}` with the wrong number of indices")));
        }
        let mut dims = Vec::with_capacity(shape.len());
        for (k, (e, extent)) in indices.iter().zip(shape).enumerate() {
            let stride = shape[k + 1..].iter().product();
            dims.push((self.expr(e)?.int()?, *extent, stride));
        }
        self.code.accesses.push(Access { buffer: number as u16, dims });
        Ok(self.code.accesses.len() as u32 - 1)
    }

    fn load(&mut self, buffer: &Name, indices: &[Expr], dtype: DType) -> Result<Val> {
        let mut computed = false;
        if let Some(demand) = &self.demand {
            if let Some(cell) = demand.cells.get(buffer) {
                if cell.indices == indices {
                    return Ok(cell.value);
                }
                let name = self.f.display_name(buffer);
                return Err(InterpError::Unsupported(format!("a block that reads other elements of its `{name}`")));
            }
            computed = demand.computed.contains(buffer);
        }
        let access = self.access(buffer, indices)?;
        match (dtype.is_float(), computed) {
            (false, false) => self.to_int(|d| Op::LoadI { d, access }),
            (false, true) => self.to_int(|d| Op::DemandI { d, access }),
            (true, _) => {
                let d = self.fresh(1)?;
                self.emit(if computed { Op::DemandF { d, access } } else { Op::LoadF { d, access } });
                Ok(Val::F(d))
            }
        }
    }

    fn unary(&mut self, op: UnOp, arg: &Expr) -> Result<Val> {
        let dtype = arg.dtype();
        match (op, self.expr(arg)?) {
            (UnOp::Neg, Val::F(a)) => self.to_float(dtype, |d| Op::NegF { d, a }),
            (UnOp::Neg, Val::I(a)) => self.wrapped(dtype, |d| Op::NegI { d, a }),
            (UnOp::Not, Val::I(a)) => self.to_int(|d| Op::NotI { d, a }),
            (UnOp::BitNot, Val::I(a)) => self.wrapped(dtype, |d| Op::InvertI { d, a }),
            (UnOp::Not | UnOp::BitNot, Val::F(_)) => Err(mismatch()),
        }
    }

    fn wrapped(&mut self, dtype: DType, make: impl Fn(Reg) -> Op) -> Result<Val> {
        let v = self.to_int(make)?;
        if !matches!(dtype, DType::I64 | DType::U64 | DType::Bool) {
            let d = v.int()?;
            self.emit(Op::Wrap { d, a: d, dtype });
        }
        Ok(v)
    }

    fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Result<Val> {
        if matches!(op, BinOp::And | BinOp::Or) {
            return self.logic(op, a, b);
        }
        let dtype = a.dtype();
        match (self.expr(a)?, self.expr(b)?) {
            (Val::F(x), Val::F(y)) => self.float_binary(op, x, y, dtype),
            (Val::I(x), Val::I(y)) => {
                let index = dtype == DType::I32 && is_index(a) && is_index(b);
                self.int_binary(op, x, y, if index { DType::I64 } else { dtype })
            }
            _ => Err(mismatch()),
        }
    }

    fn float_binary(&mut self, op: BinOp, a: Reg, b: Reg, dtype: DType) -> Result<Val> {
        let arithmetic = match op {
            BinOp::Add => return self.to_float(dtype, |d| Op::AddF { d, a, b }),
            BinOp::Mul => return self.to_float(dtype, |d| Op::MulF { d, a, b }),
            BinOp::Sub => FloatOp::Sub,
            BinOp::Div => FloatOp::Div,
            BinOp::FloorDiv => FloatOp::FloorDiv,
            BinOp::FloorMod => FloatOp::FloorMod,
            BinOp::TruncDiv => FloatOp::TruncDiv,
            BinOp::TruncMod => FloatOp::TruncMod,
            BinOp::Min => FloatOp::Min,
            BinOp::Max => FloatOp::Max,
            BinOp::Eq => return self.to_int(|d| Op::Compare { op: FloatCmp::Eq, d, a, b }),
            BinOp::Ne => return self.to_int(|d| Op::Compare { op: FloatCmp::Ne, d, a, b }),
            BinOp::Lt => return self.to_int(|d| Op::Compare { op: FloatCmp::Lt, d, a, b }),
            BinOp::Le => return self.to_int(|d| Op::Compare { op: FloatCmp::Le, d, a, b }),
            BinOp::Gt => return self.to_int(|d| Op::Compare { op: FloatCmp::Lt, d, a: b, b: a }),
            BinOp::Ge => return self.to_int(|d| Op::Compare { op: FloatCmp::Le, d, a: b, b: a }),
            BinOp::And | BinOp::Or | BinOp::BitAnd | BinOp::BitOr | BinOp::BitXor | BinOp::Shl | BinOp::Shr => {
                return Err(mismatch());
            }
        };
        self.to_float(dtype, |d| Op::Float { op: arithmetic, d, a, b })
    }

    fn int_binary(&mut self, op: BinOp, a: Reg, b: Reg, dtype: DType) -> Result<Val> {
        let unsigned = dtype == DType::U64;
        let pick = |signed, for_u64| if unsigned { for_u64 } else { signed };
        // (operation, its operands swapped, its result may need wrapping)
        let (op, swap, wraps) = match op {
            BinOp::Add => return self.wrapped(dtype, |d| Op::AddI { d, a, b }),
            BinOp::Mul => return self.wrapped(dtype, |d| Op::MulI { d, a, b }),
            BinOp::Sub => (IntOp::Sub, false, true),
            BinOp::FloorDiv => (pick(IntOp::FloorDiv, IntOp::DivU), false, true),
            BinOp::FloorMod => (pick(IntOp::FloorMod, IntOp::ModU), false, false),
            BinOp::TruncDiv | BinOp::Div => (pick(IntOp::TruncDiv, IntOp::DivU), false, true),
            BinOp::TruncMod => (pick(IntOp::TruncMod, IntOp::ModU), false, false),
            BinOp::Min => (pick(IntOp::Min, IntOp::MinU), false, false),
            BinOp::Max => (pick(IntOp::Max, IntOp::MaxU), false, false),
            BinOp::BitAnd => (IntOp::And, false, false),
            BinOp::BitOr => (IntOp::Or, false, false),
            BinOp::BitXor => (IntOp::Xor, false, false),
            BinOp::Shl => (IntOp::Shl, false, true),
            BinOp::Shr => (pick(IntOp::Shr, IntOp::ShrU), false, false),
            BinOp::Eq => (IntOp::Eq, false, false),
            BinOp::Ne => (IntOp::Ne, false, false),
            BinOp::Lt => (pick(IntOp::Lt, IntOp::LtU), false, false),
            BinOp::Le => (pick(IntOp::Le, IntOp::LeU), false, false),
            BinOp::Gt => (pick(IntOp::Lt, IntOp::LtU), true, false),
            BinOp::Ge => (pick(IntOp::Le, IntOp::LeU), true, false),
            BinOp::And | BinOp::Or => return Err(mismatch()),
        };
        let (a, b) = if swap { (b, a) } else { (a, b) };
        let make = |d| Op::Int { op, d, a, b };
        if wraps { self.wrapped(dtype, make) } else { self.to_int(make) }
    }

    /// `and` and `or` evaluate their right side only where it decides.
    fn logic(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Result<Val> {
        let x = self.expr(a)?.int()?;
        let d = self.fresh(0)?;
        self.emit(Op::MovI { d, a: x });
        let jump = self.here();
        self.emit(if op == BinOp::And { Op::JumpIfZero { c: d, to: 0 } } else { Op::JumpIfNot { c: d, to: 0 } });
        let y = self.expr(b)?.int()?;
        self.emit(Op::MovI { d, a: y });
        let end = self.here();
        self.patch(jump, end);
        Ok(Val::I(d))
    }

    fn branch(&mut self, cond: &Expr, then: &Expr, otherwise: &Expr) -> Result<Val> {
        let float = then.dtype().is_float();
        let c = self.expr(cond)?.int()?;
        let r = self.fresh(float as usize)?;
        let d = if float { Val::F(r) } else { Val::I(r) };
        let skip = self.here();
        self.emit(Op::JumpIfZero { c, to: 0 });
        let v = self.expr(then)?;
        self.mov(d, v)?;
        let done = self.here();
        self.emit(Op::Jump { to: 0 });
        let start = self.here();
        self.patch(skip, start);
        let v = self.expr(otherwise)?;
        self.mov(d, v)?;
        let end = self.here();
        self.patch(done, end);
        Ok(d)
    }

    /// In `F64` mode floats are not rounded to narrower types, but integers are: their rounding is
    /// part of what the function says and does not depend on how sums are ordered.
    fn cast(&mut self, dtype: DType, arg: &Expr) -> Result<Val> {
        let from = arg.dtype();
        match self.expr(arg)? {
            Val::I(a) if dtype.is_float() => {
                let d = self.fresh(1)?;
                self.emit(Op::IntToFloat { d, a, from });
                if dtype != DType::F64 {
                    self.emit(Op::Round { d, a: d, dtype });
                }
                Ok(Val::F(d))
            }
            Val::I(a) if dtype.bytes() > from.bytes() && (from.is_unsigned() || dtype.is_signed()) => Ok(Val::I(a)),
            Val::I(a) => self.to_int(|d| Op::Wrap { d, a, dtype }),
            Val::F(a) if !dtype.is_float() => self.to_int(|d| Op::FloatToInt { d, a, dtype }),
            Val::F(a) if self.mode == Mode::F64 || dtype == DType::F64 => Ok(Val::F(a)),
            Val::F(a) => self.to_float(dtype, |d| Op::MovF { d, a }),
        }
    }

    fn reinterpret(&mut self, dtype: DType, arg: &Expr) -> Result<Val> {
        let from = arg.dtype();
        match (self.expr(arg)?, dtype.is_float()) {
            (Val::F(a), false) => self.to_int(|d| Op::Bits { d, a, from, to: dtype }),
            (Val::I(a), true) => {
                let d = self.fresh(1)?;
                self.emit(Op::FromBits { d, a, dtype });
                Ok(Val::F(d))
            }
            (Val::I(a), false) => self.to_int(|d| Op::Wrap { d, a, dtype }),
            (Val::F(a), true) => {
                let bits = self.to_int(|d| Op::Bits { d, a, from, to: DType::I64 })?.int()?;
                let d = self.fresh(1)?;
                self.emit(Op::FromBits { d, a: bits, dtype });
                Ok(Val::F(d))
            }
        }
    }

    fn call(&mut self, op: Intrin, args: &[Expr], dtype: DType) -> Result<Val> {
        let values = args.iter().map(|a| self.expr(a)).collect::<Result<Vec<_>>>()?;
        match (op, values.as_slice()) {
            (Intrin::PopCount, [Val::I(a)]) => {
                let (a, dtype) = (*a, args[0].dtype());
                self.to_int(|d| Op::PopCount { d, a, dtype })
            }
            (Intrin::Clz, [Val::I(a)]) => {
                let (a, dtype) = (*a, args[0].dtype());
                self.to_int(|d| Op::Clz { d, a, dtype })
            }
            (Intrin::IsNan, [Val::F(a)]) => self.to_int(|d| Op::IsNan { d, a: *a }),
            (Intrin::IsInf, [Val::F(a)]) => self.to_int(|d| Op::IsInf { d, a: *a }),
            (Intrin::Fma, [Val::F(a), Val::F(b), Val::F(c)]) => {
                self.to_float(dtype, |d| Op::Fma { d, a: *a, b: *b, c: *c })
            }
            (_, [Val::F(a)]) if math::unary(op).is_some() => {
                let Some(f) = math::unary(op) else { unreachable!("just looked up") };
                self.to_float(dtype, |d| Op::Call1 { f, d, a: *a })
            }
            (_, [Val::F(a), Val::F(b)]) => self.to_float(dtype, |d| Op::Call2 { op, d, a: *a, b: *b }),
            _ => Err(InterpError::Unsupported(format!("`T.{}` of {} arguments of this type", op.name(), args.len()))),
        }
    }
}

/// Index arithmetic: nothing but variables and constants, taken not to overflow.
fn is_index(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Var { .. } | ExprKind::Int { .. } => true,
        ExprKind::Binary { a, b, .. } => is_index(a) && is_index(b),
        _ => false,
    }
}

fn mismatch() -> InterpError {
    InterpError::Unsupported("operators on mixed or unfit types".to_string())
}

impl Val {
    /// The integer register; an error on a float.
    pub fn int(self) -> Result<Reg> {
        match self {
            Val::I(r) => Ok(r),
            Val::F(_) => Err(mismatch()),
        }
    }

    /// The float register; an error on an integer.
    pub fn float(self) -> Result<Reg> {
        match self {
            Val::F(r) => Ok(r),
            Val::I(_) => Err(mismatch()),
        }
    }
}
