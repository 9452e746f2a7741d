//! One thread: runs until it ends or has to wait for others.

use super::clock::Clock;
use super::code::{ArrayInfo, Code, Op, Place, Slot};
use super::error::Fault;
use super::memory::Memory;
use super::scalar;
use super::shadow::By;

/// Where a thread stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It can go on.
    Ready,
    /// It waits at a warp barrier, a shuffle or an instruction of the whole warp.
    Warp,
    /// It waits at a block barrier.
    Block,
    /// It waits at a named barrier.
    Named,
    /// It waits for a phase of a barrier in shared memory.
    Phase,
    /// It waits at the barrier of the cluster.
    Cluster,
    /// The block has to carry out the operation for it.
    Asks,
    /// It has ended.
    Done,
}

/// A resumable thread.
pub(super) struct Thread {
    /// Its number in the cluster; where there is none, in the block.
    id: u32,
    /// How many arrays the shared memory of its block comes after that of the first of the cluster.
    pub shift: usize,
    pub slots: Vec<u64>,
    /// One bit per number of the set of written slots.
    written: Vec<u64>,
    /// The same of registers that a matrix instruction is using; empty where there are none such.
    locked: Vec<u64>,
    /// The same of registers that were written since the last fence of matrix instructions.
    touched: Vec<u64>,
    /// The operation to run next; of a waiting thread, the one it waits at.
    pub pc: usize,
    pub state: State,
}

impl Thread {
    pub fn new(code: &Code, id: u32, shift: usize) -> Thread {
        let written = vec![0; code.flags.div_ceil(64) as usize];
        let locked = if code.warpgroups { written.clone() } else { vec![] };
        let touched = locked.clone();
        Thread { id, shift, slots: code.slots.clone(), written, locked, touched, pc: 0, state: State::Ready }
    }

    /// Back to the start, as thread `thread` of block `block`.
    pub fn restart(&mut self, code: &Code, block: [u32; 3], thread: [u32; 3]) {
        self.slots.copy_from_slice(&code.slots);
        self.written.fill(0);
        self.locked.fill(0);
        self.touched.fill(u64::MAX);
        for (slot, value) in code.indices.iter().zip(block.into_iter().chain(thread)) {
            self.slots[*slot as usize] = u64::from(value);
        }
        (self.pc, self.state) = (0, State::Ready);
    }

    pub fn get(&self, s: Slot) -> u64 {
        self.slots[s as usize]
    }

    pub fn int(&self, s: Slot) -> i64 {
        self.get(s) as i64
    }

    fn set(&mut self, s: Slot, v: u64) {
        self.slots[s as usize] = v;
    }

    fn has(&self, flag: u32) -> bool {
        self.written[flag as usize / 64] >> (flag % 64) & 1 == 1
    }

    fn mark(&mut self, flag: u32) {
        self.written[flag as usize / 64] |= 1 << (flag % 64);
    }

    /// Runs to the next stop and adds the operations to `count`. On a fault `pc` is the operation
    /// after the one at fault.
    pub fn run(&mut self, code: &Code, clock: &Clock, memory: &mut [Memory], count: &mut u64) -> Result<(), Fault> {
        loop {
            let op = code.ops[self.pc];
            self.pc += 1;
            *count += 1;
            match op {
                Op::Mov { d, a } => self.set(d, self.get(a)),
                Op::Unary { op, dtype, d, a } => self.set(d, scalar::apply_unary(op, dtype, self.get(a))),
                Op::Int { op, dtype, d, a, b } => {
                    self.set(d, scalar::apply_int(op, dtype, self.get(a), self.get(b)));
                }
                Op::Float { op, dtype, d, a, b } => {
                    self.set(d, scalar::apply_float(op, dtype, self.get(a), self.get(b)));
                }
                Op::Cast { from, to, d, a } => self.set(d, scalar::apply_cast(from, to, self.get(a))),
                Op::Reinterpret { from, to, d, a } => self.set(d, scalar::apply_reinterpret(from, to, self.get(a))),
                Op::Call { op, from, to, d, args } => {
                    let args = args.map(|a| self.get(a));
                    self.set(d, scalar::apply_call(op, from, to, args));
                }
                Op::Select { d, c, a, b } => self.set(d, self.get(if self.get(c) != 0 { a } else { b })),
                Op::Jump { to } => self.pc = to as usize,
                Op::JumpIfZero { c, to } if self.get(c) == 0 => self.pc = to as usize,
                Op::JumpIfNot { c, to } if self.get(c) != 0 => self.pc = to as usize,
                Op::JumpIfZero { .. } | Op::JumpIfNot { .. } => {}
                Op::LoopEnter { i, limit, exit } if self.int(i) >= self.int(limit) => self.pc = exit as usize,
                Op::LoopEnter { .. } => {}
                Op::LoopNext { i, limit, body } => {
                    let next = self.int(i) + 1;
                    self.set(i, next as u64);
                    if next < self.int(limit) {
                        self.pc = body as usize;
                    }
                }
                Op::Forget { var } => {
                    let flag = code.vars[var as usize].flag;
                    self.written[flag as usize / 64] &= !(1 << (flag % 64));
                }
                Op::Wrote { var } => self.mark(code.vars[var as usize].flag),
                Op::Check { var } => {
                    let var = &code.vars[var as usize];
                    if !self.has(var.flag) {
                        return Err(Fault::Unwritten(var.name.clone()));
                    }
                }
                Op::Load { d, array, index } => {
                    let array = &code.arrays[array as usize];
                    let i = in_bounds(array, self.int(index), 1)?;
                    let v = self.load(array, i, memory, self.by(code, clock))?;
                    self.set(d, v);
                }
                Op::Store { array, index, a } => {
                    let array = &code.arrays[array as usize];
                    let i = in_bounds(array, self.int(index), 1)?;
                    let v = self.get(a);
                    self.store(array, i, v, memory, self.by(code, clock))?;
                }
                Op::Copy { dst, dst_index, src, src_index, lanes } => {
                    let (dst, src) = (&code.arrays[dst as usize], &code.arrays[src as usize]);
                    let to = in_bounds(dst, aligned(dst, self.int(dst_index), lanes)?, lanes)?;
                    let from = in_bounds(src, aligned(src, self.int(src_index), lanes)?, lanes)?;
                    for lane in 0..lanes as usize {
                        let v = self.load(src, from + lane, memory, self.by(code, clock))?;
                        self.store(dst, to + lane, v, memory, self.by(code, clock))?;
                    }
                }
                Op::WarpBarrier | Op::Shuffle { .. } | Op::Instr { threads: 2.., .. } => {
                    return self.stop(State::Warp);
                }
                Op::BlockBarrier => return self.stop(State::Block),
                Op::NamedBarrier { .. } => return self.stop(State::Named),
                Op::Instr { .. } | Op::ClusterArrive { .. } | Op::ClusterWait => return self.stop(State::Asks),
                Op::Halt => return self.stop(State::Done),
            }
        }
    }

    fn stop(&mut self, state: State) -> Result<(), Fault> {
        self.pc -= 1;
        self.state = state;
        Ok(())
    }

    /// Lets a waiting thread go on behind the operation it waits at.
    pub fn resume(&mut self) {
        self.pc += 1;
        self.state = State::Ready;
    }

    /// Itself, as one that accesses memory in the operation before `pc`.
    fn by<'a>(&self, code: &'a Code, clock: &'a Clock) -> By<'a> {
        By { code, clock, thread: self.id, pc: self.pc - 1 }
    }

    pub fn load(&self, array: &ArrayInfo, i: usize, memory: &mut [Memory], by: By) -> Result<u64, Fault> {
        let unwritten = || Fault::Unwritten(format!("{}[{i}]", array.name));
        match array.place {
            Place::Slots { base, flag } => {
                if !self.has(flag + i as u32) {
                    return Err(unwritten());
                }
                self.unused(array, flag, i)?;
                Ok(self.slots[base as usize + i])
            }
            Place::Memory(_) | Place::Shared(_) => {
                let memory = &mut memory[array.memory(self.shift)];
                let bits = memory.read(i).ok_or_else(|| missing(array, i, memory, by.code))?;
                if array.writable {
                    memory.shadow.read(i, &array.name, by)?;
                }
                Ok(scalar::from_stored(bits, array.dtype))
            }
        }
    }

    pub fn store(&mut self, array: &ArrayInfo, i: usize, v: u64, memory: &mut [Memory], by: By) -> Result<(), Fault> {
        if !array.writable {
            return Err(Fault::ReadOnly(array.name.clone()));
        }
        match array.place {
            Place::Slots { base, flag } => {
                self.unused(array, flag, i)?;
                if !self.touched.is_empty() {
                    set_bit(&mut self.touched, flag + i as u32, true);
                }
                self.slots[base as usize + i] = v;
                self.mark(flag + i as u32);
            }
            Place::Memory(_) | Place::Shared(_) => {
                let memory = &mut memory[array.memory(self.shift)];
                if memory.is_pending(i) {
                    return Err(Fault::DestinationOverwritten(format!("{}[{i}]", array.name)));
                }
                let bits = scalar::to_stored(v, array.dtype);
                if memory.shadow.replicas && memory.holds(i, bits) && memory.shadow.repeats(i, by) {
                    return Ok(());
                }
                memory.shadow.write(i, &array.name, by)?;
                memory.write(i, bits);
            }
        }
        Ok(())
    }

    /// That no unfinished matrix instruction uses a register.
    fn unused(&self, array: &ArrayInfo, flag: u32, i: usize) -> Result<(), Fault> {
        if !self.locked.is_empty() && bit(&self.locked, flag + i as u32) {
            return Err(Fault::InFlight(format!("{}[{i}]", array.name)));
        }
        Ok(())
    }

    /// True where one of some registers was written since the last fence.
    pub fn touched(&self, array: &ArrayInfo, first: usize, len: usize) -> bool {
        let flag = array.flag();
        (first..first + len).any(|i| bit(&self.touched, flag + i as u32))
    }

    /// Orders writes of registers before matrix instructions.
    pub fn fence_registers(&mut self) {
        self.touched.fill(0);
    }

    /// A register whatever uses it.
    pub fn peek(&self, array: &ArrayInfo, i: usize) -> Result<u64, Fault> {
        match array.place {
            Place::Slots { base, flag } if self.has(flag + i as u32) => Ok(self.slots[base as usize + i]),
            _ => Err(Fault::Unwritten(format!("{}[{i}]", array.name))),
        }
    }

    /// Gives a register the value that a matrix instruction will have written to it.
    pub fn lock(&mut self, array: &ArrayInfo, i: usize, value: u64) {
        if let Place::Slots { base, flag } = array.place {
            self.slots[base as usize + i] = value;
            self.mark(flag + i as u32);
            set_bit(&mut self.locked, flag + i as u32, true);
        }
    }

    /// Registers that an instruction still uses.
    pub fn lock_again(&mut self, array: &ArrayInfo, first: usize, len: usize) {
        let flag = array.flag();
        (first..first + len).for_each(|i| set_bit(&mut self.locked, flag + i as u32, true));
    }

    /// Registers that an instruction is done with.
    pub fn unlock(&mut self, array: &ArrayInfo, first: usize, len: usize) {
        let flag = array.flag();
        (first..first + len).for_each(|i| set_bit(&mut self.locked, flag + i as u32, false));
    }
}

fn bit(bits: &[u64], n: u32) -> bool {
    bits[n as usize / 64] >> (n % 64) & 1 == 1
}

fn set_bit(bits: &mut [u64], n: u32, on: bool) {
    let (word, mask) = (&mut bits[n as usize / 64], 1 << (n % 64));
    *word = if on { *word | mask } else { *word & !mask };
}

/// Why an element that holds no value cannot be read.
#[cold]
pub(super) fn missing(array: &ArrayInfo, i: usize, memory: &Memory, code: &Code) -> Fault {
    let element = format!("{}[{i}]", array.name);
    match memory.is_pending(i) {
        true => Fault::Pending(element),
        false => Fault::UnwrittenElement { element, writers: code.writers(&array.name) },
    }
}

pub(super) fn in_bounds(array: &ArrayInfo, index: i64, lanes: u32) -> Result<usize, Fault> {
    let last = index + i64::from(lanes) - 1;
    if index >= 0 && (last as u64) < array.len {
        return Ok(index as usize);
    }
    let index = if index < 0 { index } else { index.max(array.len as i64) };
    Err(Fault::OutOfBounds { array: array.name.clone(), index, len: array.len })
}

pub(super) fn aligned(array: &ArrayInfo, index: i64, lanes: u32) -> Result<i64, Fault> {
    if index % i64::from(lanes) == 0 {
        return Ok(index);
    }
    Err(Fault::Misaligned { array: array.name.clone(), index, lanes })
}
