//! One block: threads in shuffled order between the points where they wait for each other.

use super::code::{Code, Op, Slot};
use super::error::{Fault, SimError};
use super::memory::Memory;
use super::thread::{State, Thread};
use crate::ir::kernel::ShuffleMode;

/// Lanes of a warp.
const WARP: usize = 32;

/// The threads of a block, used for one block after another.
pub(super) struct Block<'a> {
    code: &'a Code,
    shape: [u32; 3],
    threads: Vec<Thread>,
    order: Vec<u32>,
    random: u64,
    /// Operations run so far.
    pub instructions: u64,
}

impl<'a> Block<'a> {
    pub fn new(code: &'a Code, shape: [u32; 3], seed: u64) -> Block<'a> {
        let n = shape.iter().product::<u32>();
        let threads = (0..n).map(|_| Thread::new(code)).collect();
        Block { code, shape, threads, order: (0..n).collect(), random: seed, instructions: 0 }
    }

    /// Runs the block of that index to its end.
    pub fn run(&mut self, block: [u32; 3], memory: &mut [Memory]) -> Result<(), SimError> {
        for (t, thread) in self.threads.iter_mut().enumerate() {
            thread.restart(self.code, block, position(t, self.shape));
        }
        self.advance(memory).map_err(|(thread, pc, fault)| SimError::Fault {
            kernel: self.code.symbol.clone(),
            statement: self.statement(pc).to_string(),
            block,
            thread: position(thread, self.shape),
            fault,
        })
    }

    fn advance(&mut self, memory: &mut [Memory]) -> Result<(), (usize, usize, Fault)> {
        loop {
            self.run_ready(memory)?;
            let mut progress = false;
            for first in (0..self.threads.len()).step_by(WARP) {
                progress |= self.meet_warp(first)?;
            }
            if !progress && !self.meet_block()? {
                return Ok(());
            }
        }
    }

    /// Every thread that can, in a new order, to its next stop.
    fn run_ready(&mut self, memory: &mut [Memory]) -> Result<(), (usize, usize, Fault)> {
        for i in (1..self.order.len()).rev() {
            let j = (self.next_random() % (i as u64 + 1)) as usize;
            self.order.swap(i, j);
        }
        for i in 0..self.order.len() {
            let t = self.order[i] as usize;
            let thread = &mut self.threads[t];
            if thread.state == State::Ready {
                let result = thread.run(self.code, memory, &mut self.instructions);
                result.map_err(|fault| (t, thread.pc - 1, fault))?;
            }
        }
        Ok(())
    }

    /// SplitMix64.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e3779b97f4a7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
        z ^ (z >> 31)
    }

    /// Lets a warp pass the warp barrier or shuffle that its lanes wait at. False when none waits.
    fn meet_warp(&mut self, first: usize) -> Result<bool, (usize, usize, Fault)> {
        let lanes = first..(first + WARP).min(self.threads.len());
        let Some(lead) = lanes.clone().find(|t| self.threads[*t].state == State::Warp) else {
            return Ok(false);
        };
        let pc = self.threads[lead].pc;
        let shuffle = matches!(self.code.ops[pc], Op::Shuffle { .. });
        if let Some(other) = lanes.clone().find(|t| self.threads[*t].state != State::Warp || self.threads[*t].pc != pc)
        {
            let other = self.elsewhere(other);
            let fault = if shuffle { Fault::DivergentShuffle(other) } else { Fault::DivergentWarpBarrier(other) };
            return Err((lead, pc, fault));
        }
        if let Op::Shuffle { d, a, mode, width } = self.code.ops[pc] {
            self.shuffle(first, lanes.len(), d, a, mode, width);
        }
        lanes.for_each(|t| self.threads[t].resume());
        Ok(true)
    }

    fn shuffle(&mut self, first: usize, lanes: usize, d: Slot, a: Slot, mode: ShuffleMode, width: u32) {
        let values: Vec<u64> = (0..lanes).map(|l| self.threads[first + l].slots[a as usize]).collect();
        for lane in 0..lanes {
            let (segment, own) = (lane as u32 / width * width, lane as u32 % width);
            let source = match mode {
                ShuffleMode::Xor(mask) => own ^ mask,
                ShuffleMode::Down(delta) => own + delta,
                ShuffleMode::Index(index) => index,
            };
            let source = if source < width { (segment + source) as usize } else { lane };
            let value = values.get(source).copied().unwrap_or(values[lane]);
            self.threads[first + lane].slots[d as usize] = value;
        }
    }

    /// Lets the block pass the barrier that its threads wait at. False when all have ended.
    fn meet_block(&mut self) -> Result<bool, (usize, usize, Fault)> {
        let Some(lead) = self.threads.iter().position(|t| t.state == State::Block) else {
            return Ok(false);
        };
        let pc = self.threads[lead].pc;
        let other = self.threads.iter().position(|t| t.state != State::Block || t.pc != pc);
        if let Some(other) = other {
            return Err((lead, pc, Fault::DivergentBarrier(self.elsewhere(other))));
        }
        self.threads.iter_mut().for_each(Thread::resume);
        Ok(true)
    }

    /// What a thread does instead of waiting here.
    fn elsewhere(&self, t: usize) -> String {
        let [x, y, z] = position(t, self.shape);
        let thread = &self.threads[t];
        match thread.state {
            State::Done => format!("thread ({x}, {y}, {z}) has ended"),
            State::Warp | State::Block | State::Ready => {
                format!("thread ({x}, {y}, {z}) waits at `{}`", self.statement(thread.pc))
            }
        }
    }

    fn statement(&self, pc: usize) -> &str {
        &self.code.statements[self.code.statement_of[pc] as usize]
    }
}

/// Index along x, y, z of thread or block number `n`.
pub(super) fn position(n: usize, shape: [u32; 3]) -> [u32; 3] {
    let (n, [x, y, _]) = (n as u32, shape);
    [n % x, n / x % y, n / x / y]
}
