//! Kernels to bytecode.

use super::code::{ArrayInfo, Code, Op, Place, Slot, VarInfo};
use crate::ir::kernel::{ArrayScope, Barrier, KStmt, Kernel, KernelParam};
use crate::ir::{Expr, Name};
use std::collections::HashMap;

/// Slots for values that live no longer than a statement; deeper statements use lasting ones.
const TEMPORARIES: u32 = 64;

/// The thread indices, in the order of [`Code::indices`].
const INDICES: [&str; 6] = ["blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"];

pub(super) struct Compiler {
    pub code: Code,
    slots: HashMap<Name, Slot>,
    vars: HashMap<Name, u32>,
    arrays: HashMap<Name, u32>,
    constants: HashMap<u64, Slot>,
    temporaries: u32,
    statement: u32,
}

/// Compiles a kernel. `scalars` are the values of its scalar parameters as slots, `lens` the
/// numbers of elements of its pointers, both in order.
pub(super) fn compile(kernel: &Kernel, scalars: &[u64], lens: &[u64]) -> Code {
    let mut c = Compiler {
        code: Code { symbol: kernel.symbol.clone(), slots: vec![0; TEMPORARIES as usize], ..Code::default() },
        slots: HashMap::new(),
        vars: HashMap::new(),
        arrays: HashMap::new(),
        constants: HashMap::new(),
        temporaries: 0,
        statement: 0,
    };
    c.code.indices = INDICES.map(|name| {
        let slot = c.lasting();
        c.slots.insert(name.into(), slot);
        slot
    });
    c.params(kernel, scalars, lens);
    c.declare_arrays(kernel);
    c.body(&kernel.body);
    c.emit(Op::Halt);
    c.code
}

impl Compiler {
    fn params(&mut self, kernel: &Kernel, scalars: &[u64], lens: &[u64]) {
        let (mut scalars, mut lens) = (scalars.iter(), lens.iter());
        for p in &kernel.params {
            match p {
                KernelParam::Pointer { name, dtype, written, .. } => {
                    let place = Place::Memory(self.code.arrays.len() as u32);
                    let len = lens.next().copied().unwrap_or(0);
                    self.declare(
                        name,
                        ArrayInfo { name: name.to_string(), dtype: *dtype, len, place, writable: *written },
                    );
                }
                KernelParam::TensorMap(map) => self.code.maps.push((**map).clone()),
                KernelParam::Scalar { name, .. } => {
                    let slot = self.lasting();
                    self.code.slots[slot as usize] = scalars.next().copied().unwrap_or(0);
                    self.slots.insert(name.clone(), slot);
                }
            }
        }
    }

    fn declare_arrays(&mut self, kernel: &Kernel) {
        let mut memories = self.code.arrays.len() as u32;
        for a in &kernel.arrays {
            let place = match a.scope {
                ArrayScope::Shared | ArrayScope::Tensor => {
                    memories += 1;
                    Place::Shared(memories - 1)
                }
                ArrayScope::Register => {
                    let (base, flag) = (self.code.slots.len() as Slot, self.code.flags);
                    self.code.slots.resize(self.code.slots.len() + a.len as usize, 0);
                    self.code.flags += a.len;
                    Place::Slots { base, flag }
                }
            };
            let info = ArrayInfo { name: a.name.to_string(), dtype: a.dtype, len: a.len.into(), place, writable: true };
            self.declare(&a.name, info);
        }
    }

    fn declare(&mut self, name: &Name, info: ArrayInfo) {
        self.arrays.insert(name.clone(), self.code.arrays.len() as u32);
        self.code.arrays.push(info);
    }

    /// Appends an operation; returns its number.
    pub(super) fn emit(&mut self, op: Op) -> usize {
        self.code.ops.push(op);
        self.code.statement_of.push(self.statement);
        self.code.ops.len() - 1
    }

    /// Appends an operation with a result of its own.
    pub(super) fn op(&mut self, make: impl FnOnce(Slot) -> Op) -> Slot {
        let d = if self.temporaries < TEMPORARIES { self.temporaries } else { self.lasting() };
        self.temporaries += 1;
        self.emit(make(d));
        d
    }

    /// Lets a jump lead here.
    pub(super) fn patch(&mut self, jump: usize) {
        let here = self.code.ops.len() as u32;
        match &mut self.code.ops[jump] {
            Op::Jump { to } | Op::JumpIfZero { to, .. } | Op::JumpIfNot { to, .. } => *to = here,
            Op::LoopEnter { exit, .. } => *exit = here,
            other => panic!("{other:?} is no jump"),
        }
    }

    /// A slot that nothing else uses.
    pub(super) fn lasting(&mut self) -> Slot {
        self.code.slots.push(0);
        self.code.slots.len() as Slot - 1
    }

    pub(super) fn constant(&mut self, bits: u64) -> Slot {
        if let Some(slot) = self.constants.get(&bits) {
            return *slot;
        }
        let slot = self.lasting();
        self.code.slots[slot as usize] = bits;
        self.constants.insert(bits, slot);
        slot
    }

    pub(super) fn array(&self, name: &Name) -> u32 {
        *self.arrays.get(name).unwrap_or_else(|| panic!("array `{name}` is not declared"))
    }

    /// Names a value.
    pub(super) fn bind(&mut self, name: &Name, value: Slot) {
        let d = self.slot_of(name);
        self.emit(Op::Mov { d, a: value });
    }

    fn slot_of(&mut self, name: &Name) -> Slot {
        if let Some(slot) = self.slots.get(name) {
            return *slot;
        }
        let slot = self.lasting();
        self.slots.insert(name.clone(), slot);
        slot
    }

    pub(super) fn read_var(&mut self, name: &Name) -> Slot {
        let slot = *self.slots.get(name).unwrap_or_else(|| panic!("variable `{name}` is not declared"));
        match self.vars.get(name).copied() {
            Some(var) => {
                self.emit(Op::Check { var });
                // The variable may change before the value is used (in a shuffle's own statement).
                self.op(|d| Op::Mov { d, a: slot })
            }
            None => slot,
        }
    }

    fn wrote(&mut self, name: &Name) {
        if let Some(var) = self.vars.get(name).copied() {
            self.emit(Op::Wrote { var });
        }
    }

    fn body(&mut self, stmts: &[KStmt]) {
        stmts.iter().for_each(|s| self.stmt(s));
    }

    fn stmt(&mut self, s: &KStmt) {
        self.temporaries = 0;
        self.code.statements.push(s.head());
        self.statement = self.code.statements.len() as u32 - 1;
        match s {
            KStmt::Let { var, value } => {
                let value = self.expr(value);
                self.bind(var, value);
            }
            KStmt::Var { var, init, .. } => self.var(var, init.as_ref()),
            KStmt::Assign { var, value } => {
                let value = self.expr(value);
                self.bind(var, value);
                self.wrote(var);
            }
            KStmt::Store { array, index, value, hint: _ } => {
                let (array, index) = (self.array(array), self.expr(index));
                let a = self.expr(value);
                self.emit(Op::Store { array, index, a });
            }
            KStmt::Copy { dst, dst_index, src, src_index, lanes, hint: _ } => {
                let (dst, src) = (self.array(dst), self.array(src));
                let (dst_index, src_index) = (self.expr(dst_index), self.expr(src_index));
                self.emit(Op::Copy { dst, dst_index, src, src_index, lanes: *lanes });
            }
            KStmt::For { var, extent, live, body, .. } => self.for_loop(var, extent, live.as_ref(), body),
            KStmt::If { cond, then, otherwise } => self.conditional(cond, then, otherwise),
            KStmt::Barrier(b) => {
                self.code.waits_apart |= !matches!(b, Barrier::Warp | Barrier::Block);
                self.code.learns_apart |= matches!(b, Barrier::Named { .. });
                self.emit(match *b {
                    Barrier::Warp => Op::WarpBarrier,
                    Barrier::Block => Op::BlockBarrier,
                    Barrier::Named { id, threads } => Op::NamedBarrier { id, threads },
                    Barrier::ClusterArrive { release } => Op::ClusterArrive { release },
                    Barrier::ClusterWait => Op::ClusterWait,
                });
            }
            KStmt::Instr(i) => self.instr(i),
            KStmt::Shuffle { dst, mode, value, width } => {
                let a = self.expr(value);
                let d = self.slot_of(dst);
                self.emit(Op::Shuffle { d, a, mode: *mode, width: *width });
                self.wrote(dst);
            }
            KStmt::Prefetch { .. } => {}
        }
    }

    fn var(&mut self, name: &Name, init: Option<&Expr>) {
        match init {
            Some(value) => {
                let value = self.expr(value);
                self.bind(name, value);
            }
            None => {
                self.slot_of(name);
                let var = self.code.vars.len() as u32;
                self.code.vars.push(VarInfo { name: name.to_string(), flag: self.code.flags });
                self.code.flags += 1;
                self.vars.insert(name.clone(), var);
                self.emit(Op::Forget { var });
            }
        }
    }

    fn for_loop(&mut self, var: &Name, extent: &Expr, live: Option<&Expr>, body: &[KStmt]) {
        let value = self.expr(extent);
        let (i, limit) = (self.slot_of(var), self.lasting());
        self.emit(Op::Mov { d: limit, a: value });
        let zero = self.constant(0);
        self.emit(Op::Mov { d: i, a: zero });
        let enter = self.emit(Op::LoopEnter { i, limit, exit: 0 });
        let start = self.code.ops.len() as u32;
        let ends = live.map(|e| {
            let c = self.expr(e);
            self.emit(Op::JumpIfZero { c, to: 0 })
        });
        self.body(body);
        self.emit(Op::LoopNext { i, limit, body: start });
        [Some(enter), ends].into_iter().flatten().for_each(|jump| self.patch(jump));
    }

    fn conditional(&mut self, cond: &Expr, then: &[KStmt], otherwise: &[KStmt]) {
        let c = self.expr(cond);
        let skip = self.emit(Op::JumpIfZero { c, to: 0 });
        self.body(then);
        if otherwise.is_empty() {
            return self.patch(skip);
        }
        let end = self.emit(Op::Jump { to: 0 });
        self.patch(skip);
        self.body(otherwise);
        self.patch(end);
    }
}
