//! Compiles expressions to bytecode. Loop and block variables have registers of their own,
//! intermediate values share a stack of temporary ones.

use super::Mode;
use super::layout::{Layout, Scalar, buffer_index};
use super::op::{Access, Code, InterpError, Op, REGS, Reg};
use super::round::{round_to, wrap_int};
use crate::ir::{DType, Expr, ExprKind, Name, PrimFunc};
use std::collections::{BTreeSet, HashMap};

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
    /// Buffers of which is noted what has been written.
    pub noted: BTreeSet<Name>,
    /// Loops that no reduction runs over start at their end.
    pub backwards: bool,
    ints: HashMap<i64, Reg>,
    floats: HashMap<u64, Reg>,
    /// Temporaries grow from 0, registers that last from the top.
    temp: [usize; 2],
    high: [usize; 2],
    top: [usize; 2],
}

pub(super) type Result<T> = std::result::Result<T, InterpError>;

impl<'f> Compiler<'f> {
    pub fn new(f: &'f PrimFunc, layout: &'f Layout, mode: Mode) -> Result<Compiler<'f>> {
        let mut c = Compiler {
            f,
            layout,
            mode,
            code: Code::default(),
            vars: HashMap::new(),
            demand: None,
            noted: BTreeSet::new(),
            backwards: false,
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

    pub fn fresh(&mut self, file: usize) -> Result<Reg> {
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
    pub fn new_int(&mut self, make: impl Fn(Reg) -> Op) -> Result<Val> {
        let d = self.fresh(0)?;
        self.emit(make(d));
        Ok(Val::I(d))
    }

    /// Emits an operation with a fresh float destination, rounded in exact mode.
    pub fn new_float(&mut self, dtype: DType, make: impl Fn(Reg) -> Op) -> Result<Val> {
        let d = self.fresh(1)?;
        self.emit(make(d));
        if self.mode != Mode::F64 && dtype != DType::F64 {
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
            ExprKind::Load { buffer, indices, dtype } => self.load(buffer, indices, *dtype, self.mode == Mode::Checked),
            ExprKind::Unary { op, arg } => self.unary(*op, arg),
            ExprKind::Binary { op, a, b } => self.binary(*op, a, b),
            ExprKind::Select { cond, then, otherwise } => {
                let c = self.expr(cond)?.int()?;
                match (self.expr(then)?, self.expr(otherwise)?) {
                    (Val::I(a), Val::I(b)) => self.new_int(|d| Op::SelectI { d, c, a, b }),
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

    /// Code for a load; `checked` ones stop at elements of intermediates that were never written.
    pub fn load(&mut self, buffer: &Name, indices: &[Expr], dtype: DType, checked: bool) -> Result<Val> {
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
        let checked = checked && !self.f.is_param(buffer);
        let d = self.fresh(dtype.is_float() as usize)?;
        self.emit(match (dtype.is_float(), computed) {
            (false, false) => Op::LoadI { d, access },
            (false, true) => Op::DemandI { d, access },
            (true, false) => Op::LoadF { d, access },
            (true, true) => Op::DemandF { d, access },
        });
        if checked {
            self.emit(Op::WasWritten { access });
        }
        Ok(if dtype.is_float() { Val::F(d) } else { Val::I(d) })
    }
}

/// What stands for every ill-typed function that slipped past the verifier.
pub(super) fn mismatch() -> InterpError {
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
