//! One block, or the blocks of a cluster: threads in shuffled order between the points where they wait
//! for each other.

use super::arrivals::Arrivals;
use super::clock::Clock;
use super::code::{Code, Op, Slot};
use super::cp_async::Async;
use super::error::{Fault, SimError};
use super::mbarrier::Mbarriers;
use super::memory::Memory;
use super::shadow::By;
use super::tcgen05::TensorMemory;
use super::thread::{State, Thread};
use super::unstarted::Unstarted;
use super::wgmma;
use crate::ir::instr::{self, Space, Tcgen05};
use crate::ir::kernel::ShuffleMode;
use std::collections::BTreeSet;
use std::ops::Range;

/// Lanes of a warp.
pub(super) const WARP: usize = 32;

/// A fault with its thread and operation.
pub(super) type At = (usize, usize, Fault);

/// The threads of a block or cluster, used for one after another.
pub(super) struct Block<'a> {
    pub code: &'a Code,
    shape: [u32; 3],
    /// Threads of a block.
    pub per_block: usize,
    pub threads: Vec<Thread>,
    order: Vec<u32>,
    random: u64,
    /// The order of accesses, over all blocks and launches.
    pub clock: Clock,
    /// Copies on their way.
    pub under_way: Async<'a>,
    pub mbarriers: Mbarriers,
    pub tensor: TensorMemory,
    /// Numbers of the memories that the asynchronous proxy reads, in the first block of a cluster.
    pub bulk_sources: BTreeSet<usize>,
    /// What of the launch has not started.
    pub unstarted: Unstarted,
    /// Blocks of the launch that have arrived at counters.
    pub arrivals: Arrivals,
    /// Operations run so far.
    pub instructions: u64,
}

impl<'a> Block<'a> {
    pub fn new(code: &'a Code, shape: [u32; 3], cluster: u32, seed: u64, mut clock: Clock) -> Block<'a> {
        clock.enter_launch(shape, cluster, code.learns_apart);
        let per_block = shape.iter().product::<u32>();
        let n = per_block * cluster;
        let shift = |t: u32| (t / per_block) as usize * code.shared();
        let threads = (0..n).map(|t| Thread::new(code, t, shift(t))).collect();
        Block {
            code,
            shape,
            per_block: per_block as usize,
            threads,
            order: (0..n).collect(),
            random: seed,
            clock,
            under_way: Async::default(),
            mbarriers: Mbarriers::default(),
            tensor: TensorMemory::default(),
            bulk_sources: bulk_sources(code),
            unstarted: Unstarted::default(),
            arrivals: Arrivals::default(),
            instructions: 0,
        }
    }

    /// Runs the block of that index, and those of its cluster, which come after it along x, to the end.
    pub fn run(&mut self, block: [u32; 3], memory: &mut [Memory]) -> Result<(), SimError> {
        self.clock.enter_block(block);
        for (t, thread) in self.threads.iter_mut().enumerate() {
            thread.restart(self.code, neighbour(block, t / self.per_block), position(t % self.per_block, self.shape));
        }
        if self.code.waits_apart {
            self.under_way = Async::new(self.threads.len());
            self.mbarriers.clear();
            self.tensor = TensorMemory::new(self.threads.len());
        }
        let done = self.advance(memory).and_then(|()| self.tensor.left()).and_then(|()| self.commits_awaited());
        done.map_err(|(thread, pc, fault)| SimError::Fault {
            kernel: self.code.symbol.clone(),
            statement: self.code.statement(pc).to_string(),
            block: neighbour(block, thread / self.per_block),
            thread: position(thread % self.per_block, self.shape),
            fault,
        })
    }

    fn advance(&mut self, memory: &mut [Memory]) -> Result<(), At> {
        loop {
            self.run_ready(memory)?;
            let mut progress = false;
            for first in (0..self.threads.len()).step_by(WARP) {
                progress |= self.meet_warp(first, memory)?;
            }
            if self.code.waits_apart {
                progress |= self.meet_named()? | self.deliver(false, memory)? | self.wake()? | self.wake_cluster()?;
            }
            if progress || self.meet_blocks()? {
                continue;
            }
            if !self.code.waits_apart {
                return Ok(());
            }
            if let Some(load) = self.under_way.loads.first().filter(|_| self.have_ended()) {
                return Err((load.thread, load.copy.pc, load.copy.never_awaited()));
            }
            // What is under way may be what the rest waits for.
            let arrived = self.deliver(true, memory)?;
            if !self.wake()? && !arrived {
                return self.stuck();
            }
        }
    }

    fn have_ended(&self) -> bool {
        self.threads.iter().all(|t| t.state == State::Done)
    }

    /// Every thread that can, in a new order, to its next stop.
    fn run_ready(&mut self, memory: &mut [Memory]) -> Result<(), At> {
        for i in (1..self.order.len()).rev() {
            let j = (self.next_random() % (i as u64 + 1)) as usize;
            self.order.swap(i, j);
        }
        for i in 0..self.order.len() {
            let t = self.order[i] as usize;
            if self.threads[t].state == State::Ready {
                self.run_thread(t, memory)?;
            }
        }
        Ok(())
    }

    /// One thread to its next stop where others have to come.
    fn run_thread(&mut self, t: usize, memory: &mut [Memory]) -> Result<(), At> {
        loop {
            let thread = &mut self.threads[t];
            let result = thread.run(self.code, &self.clock, memory, &mut self.instructions);
            result.map_err(|fault| (t, thread.pc - 1, fault))?;
            match thread.state {
                State::Asks => self.serve(t, memory)?,
                State::Done if self.code.waits_apart => {
                    self.clock.cluster.ends(t).map_err(|fault| self.fault(t, fault))?;
                    if let Some((pc, array)) = wgmma::left(&self.under_way.matrices[t / wgmma::WARPGROUP]) {
                        let name = self.code.arrays[array as usize].name.clone();
                        return Err((t, pc, Fault::NeverAwaited(name)));
                    }
                    return self.under_way.left_by(t).map_or(Ok(()), |(pc, fault)| Err((t, pc, fault)));
                }
                State::Ready
                | State::Warp
                | State::Block
                | State::Named
                | State::Phase
                | State::Cluster
                | State::Done => return Ok(()),
            }
            if self.threads[t].state != State::Ready {
                return Ok(());
            }
        }
    }

    /// A fault of a thread where it stands.
    pub(super) fn fault(&self, t: usize, fault: Fault) -> At {
        (t, self.threads[t].pc, fault)
    }

    /// SplitMix64.
    pub(super) fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e3779b97f4a7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
        z ^ (z >> 31)
    }

    /// Lets a warp pass the barrier, shuffle or instruction that its lanes wait at, or its warpgroup pass the
    /// instruction. False when none waits, or some may still come.
    fn meet_warp(&mut self, first: usize, memory: &mut [Memory]) -> Result<bool, At> {
        let mut lanes = first..(first + WARP).min(self.threads.len());
        let Some(lead) = lanes.clone().find(|t| self.threads[*t].state == State::Warp) else {
            return Ok(false);
        };
        let pc = self.threads[lead].pc;
        let mut size = WARP;
        if let Op::Instr { threads, .. } = self.code.ops[pc]
            && threads as usize > WARP
        {
            size = threads as usize;
            let first = first / size * size;
            lanes = first..(first + size).min(self.threads.len());
        }
        let first = lanes.start;
        let other = lanes.clone().find(|t| self.threads[*t].state != State::Warp || self.threads[*t].pc != pc);
        if let Some(other) = other {
            if lanes.clone().any(|t| self.may_come(t)) {
                return Ok(false);
            }
            return Err((lead, pc, self.divergent_warp(pc, self.elsewhere(other))));
        }
        match self.code.ops[pc] {
            Op::Shuffle { d, a, mode, width } => self.shuffle(first, lanes.len(), d, a, mode, width),
            Op::Instr { .. } if lanes.len() < size => {
                let why = format!("there are only {} of its {size} threads", lanes.len());
                return Err((lead, pc, Fault::DivergentInstruction(why)));
            }
            Op::Instr { n, .. } => self.carry_out(first, &self.code.instrs[n as usize], memory)?,
            _ => self.clock.meet_warp(first),
        }
        lanes.for_each(|t| self.threads[t].resume());
        Ok(true)
    }

    /// True for a thread that waits for something that others may still do.
    fn may_come(&self, t: usize) -> bool {
        matches!(self.threads[t].state, State::Ready | State::Named | State::Phase | State::Cluster)
    }

    fn divergent_warp(&self, pc: usize, other: String) -> Fault {
        match self.code.ops[pc] {
            Op::Shuffle { .. } => Fault::DivergentShuffle(other),
            Op::Instr { .. } => Fault::DivergentInstruction(other),
            _ => Fault::DivergentWarpBarrier(other),
        }
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

    /// Lets blocks pass the barrier that their threads wait at. False when none does.
    fn meet_blocks(&mut self) -> Result<bool, At> {
        let mut progress = false;
        for first in (0..self.threads.len()).step_by(self.per_block) {
            progress |= self.meet_block(first..first + self.per_block)?;
        }
        Ok(progress)
    }

    /// Lets the block of these threads pass the barrier that they wait at. False when none waits, or some
    /// may still come.
    fn meet_block(&mut self, mut threads: Range<usize>) -> Result<bool, At> {
        let Some(lead) = threads.clone().find(|t| self.threads[*t].state == State::Block) else {
            return Ok(false);
        };
        let pc = self.threads[lead].pc;
        let other = threads.clone().find(|t| self.threads[*t].state != State::Block || self.threads[*t].pc != pc);
        if let Some(other) = other {
            if threads.any(|t| self.may_come(t)) {
                return Ok(false);
            }
            return Err((lead, pc, Fault::DivergentBarrier(self.elsewhere(other))));
        }
        self.clock.meet_block(lead);
        threads.for_each(|t| self.threads[t].resume());
        Ok(true)
    }

    /// What a thread does instead of waiting here.
    pub(super) fn elsewhere(&self, t: usize) -> String {
        let [x, y, z] = position(t % self.per_block, self.shape);
        let thread = &self.threads[t];
        match thread.state {
            State::Done => format!("thread ({x}, {y}, {z}) has ended"),
            State::Warp | State::Block | State::Named | State::Phase | State::Cluster | State::Asks | State::Ready => {
                format!("thread ({x}, {y}, {z}) waits at `{}`", self.code.statement(thread.pc))
            }
        }
    }

    /// A thread as one that accesses memory where it stands.
    pub(super) fn by(&self, t: usize) -> By<'_> {
        By { code: self.code, clock: &self.clock, thread: t as u32, pc: self.threads[t].pc }
    }
}

/// Numbers of the memories of the first block that the asynchronous proxy reads: sources of bulk and tensor stores, operands of
/// matrix instructions, and scales that are copied for them.
fn bulk_sources(code: &Code) -> BTreeSet<usize> {
    let reads = |i: &&instr::Instr<_, _>| {
        let products = matches!(
            i.op,
            instr::Op::Wgmma { .. }
                | instr::Op::WgmmaRegisters { .. }
                | instr::Op::Tcgen05(Tcgen05::Mma { .. } | Tcgen05::ScaledMma { .. } | Tcgen05::CopyScales { .. })
        );
        products || matches!(i.op, instr::Op::BulkStore | instr::Op::TensorStore { .. })
    };
    let sources = code.instrs.iter().filter(reads).flat_map(|i| super::instr::sites(i, &[Space::Shared], false));
    sources.map(|s| code.arrays[s.array as usize].memory(0)).collect()
}

/// The block that comes so many after another along x.
pub(super) fn neighbour(block: [u32; 3], n: usize) -> [u32; 3] {
    [block[0] + n as u32, block[1], block[2]]
}

/// Index along x, y, z of thread or block number `n`.
pub(super) fn position(n: usize, shape: [u32; 3]) -> [u32; 3] {
    let (n, [x, y, _]) = (n as u32, shape);
    [n % x, n / x % y, n / x / y]
}
