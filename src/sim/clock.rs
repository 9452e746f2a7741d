//! Order between accesses: what a thread knows to have happened before what it does next.
//!
//! One counter of stamps runs through a whole run; every event that orders something (a barrier, an
//! arrival, a copy that lands, the start of a block or launch) takes the next stamp. A thread knows
//! another's accesses up to some stamp: by the last barrier of the block, by the last barrier of their
//! warp, or, where threads wait apart from each other, by a list of its own. Shuffles and other warp-wide
//! instructions order no memory. Blocks of one launch know nothing of each other, launches everything of
//! those before.
//!
//! The threads of a cluster have one list of numbers, and its blocks barriers of their own.
//!
//! What goes on by itself is done by further threads, the agents, that nobody knows of but by waiting for it:
//! the asynchronous proxy's copies by [`COPIES`], the matrix instructions of each warpgroup by one of its own,
//! from [`MATRICES`] on.
//!
//! Stands in a circle with `block`, `cluster` and `wgmma`, whose threads and barriers it orders.

use super::block::{WARP, neighbour, position};
use super::cluster::ClusterBarrier;
use super::wgmma::WARPGROUP;

/// The thread that stands for asynchronous copies by the bulk.
pub(super) const COPIES: u32 = 8 * 1024;
/// The thread that stands for the matrix instructions of the first warpgroup; the next ones follow.
pub(super) const MATRICES: u32 = COPIES + 1;

/// Where the order of events stands.
#[derive(Default)]
pub(super) struct Clock {
    /// The stamp of what is done now.
    pub now: u32,
    /// Stamps up to here are of earlier launches.
    pub launch: u32,
    /// Stamps up to here are of earlier blocks, or clusters.
    pub block: u32,
    /// Stamps up to here are before the last barrier of a block of the cluster.
    barriers: Vec<u32>,
    /// That of the cluster.
    pub cluster: ClusterBarrier,
    /// Threads of a block.
    threads: usize,
    /// The same per warp.
    warps: Vec<u32>,
    /// Per thread what it knows of each thread by other means, and then of each agent. Empty where all wait
    /// together.
    apart: Vec<Vec<u32>>,
    /// Stamps of earlier blocks of the launch that the current one knows of.
    arrived: Vec<(u32, u32)>,
    /// Where blocks of this launch started, with their positions.
    blocks: Vec<(u32, [u32; 3])>,
    shape: [u32; 3],
}

impl Clock {
    /// A launch of blocks of that shape, so many in a cluster; `apart`: some threads may wait where others do
    /// not.
    pub fn enter_launch(&mut self, shape: [u32; 3], cluster: u32, apart: bool) {
        self.threads = shape.iter().product::<u32>() as usize;
        self.barriers = vec![0; cluster as usize];
        self.cluster = ClusterBarrier::default();
        let threads = self.threads * cluster as usize;
        self.launch = self.tick();
        self.shape = shape;
        self.blocks.clear();
        self.warps = vec![0; threads.div_ceil(WARP)];
        let agents = 1 + threads.div_ceil(WARPGROUP);
        self.apart = if apart { vec![vec![0; threads + agents]; threads] } else { vec![] };
    }

    pub fn enter_block(&mut self, at: [u32; 3]) {
        self.block = self.tick();
        self.barriers.fill(self.block);
        if self.barriers.len() > 1 {
            self.cluster = ClusterBarrier::new(self.threads * self.barriers.len());
        }
        self.arrived.clear();
        self.blocks.push((self.block, at));
        self.apart.iter_mut().for_each(|known| known.fill(0));
    }

    /// The current stamp, which is used up.
    pub fn tick(&mut self) -> u32 {
        self.now += 1;
        self.now - 1
    }

    /// All threads of the block of thread `t` meet.
    pub fn meet_block(&mut self, t: usize) {
        let block = self.place(t as u32);
        self.barriers[block] = self.tick();
        let own = block * self.threads..(block + 1) * self.threads;
        let Some(apart) = self.apart.get_mut(own.clone()) else { return };
        // of the agents and of other blocks each knows what one of them did
        for who in (0..apart[0].len()).filter(|who| !own.contains(who)) {
            let newest = apart.iter().map(|known| known[who]).max().unwrap_or(0);
            apart.iter_mut().for_each(|known| known[who] = newest);
        }
    }

    /// The stamps of the block of thread `t` up to its last barrier.
    pub fn until_barrier(&self, t: usize) -> (u32, u32) {
        (self.block + 1, self.barriers[self.place(t as u32)])
    }

    /// The current block learns what earlier ones of the launch did at those stamps, first and last.
    pub fn learn_blocks(&mut self, spans: &[(u32, u32)]) {
        self.arrived.extend(spans.iter().filter(|(_, last)| *last <= self.block));
    }

    /// True for a stamp before this block whose accesses, those of agents aside, come before what it does.
    #[inline]
    pub fn before_block(&self, u: u32, stamp: u32) -> bool {
        stamp <= self.launch
            || (u < COPIES && self.arrived.iter().any(|(first, last)| (*first..=*last).contains(&stamp)))
    }

    /// The lanes of a warp meet at a barrier.
    pub fn meet_warp(&mut self, first: usize) {
        self.warps[first / WARP] = self.tick();
        if !self.apart.is_empty() {
            let lanes = first..(first + WARP).min(self.apart.len());
            let all = self.joined(lanes.clone());
            lanes.for_each(|t| self.apart[t].clone_from(&all));
        }
    }

    /// Some threads meet at a barrier of their own.
    pub fn meet_some(&mut self, threads: &[usize]) {
        let all = self.joined(threads.iter().copied());
        threads.iter().for_each(|t| self.apart[*t].clone_from(&all));
        self.tick();
    }

    fn joined(&self, threads: impl Iterator<Item = usize>) -> Vec<u32> {
        let mut all = vec![];
        threads.for_each(|t| self.publish(t, &mut all));
        all
    }

    /// Adds what a thread knows and did to `all`; what it does next has to take a later stamp.
    pub fn publish(&self, t: usize, all: &mut Vec<u32>) {
        let n = self.warps.len() * WARP;
        let threads = self.apart.len();
        all.resize(self.apart[t].len(), 0);
        for (u, k) in all.iter_mut().enumerate().take(threads.min(n)) {
            let warp = if u / WARP == t / WARP { self.warps[t / WARP] } else { 0 };
            let block = self.place(t as u32);
            let of_block = if self.place(u as u32) == block { self.barriers[block] } else { 0 };
            *k = (*k).max(warp).max(of_block).max(self.cluster.known(t, u)).max(self.apart[t][u]);
        }
        all[t] = all[t].max(self.now);
        let agents = all[threads..].iter_mut().zip(&self.apart[t][threads..]);
        agents.for_each(|(k, own)| *k = (*k).max(*own));
    }

    /// A thread learns what was published.
    pub fn learn(&mut self, t: usize, all: &[u32]) {
        self.apart[t].iter_mut().zip(all).for_each(|(k, a)| *k = (*k).max(*a));
    }

    /// A thread learns what an agent did up to a stamp.
    pub fn learn_agent(&mut self, t: usize, agent: u32, stamp: u32) {
        let at = self.apart.len() + (agent - COPIES) as usize;
        if let Some(k) = self.apart[t].get_mut(at) {
            *k = (*k).max(stamp);
        }
    }

    /// True when thread `t` of the current block knows what thread `u` of it did at a stamp.
    #[inline]
    pub fn knows(&self, t: u32, u: u32, stamp: u32) -> bool {
        if u >= COPIES {
            let at = self.apart.len() + (u - COPIES) as usize;
            return self.apart[t as usize].get(at).is_some_and(|k| stamp <= *k);
        }
        let warp = WARP as u32;
        let block = self.place(t);
        (stamp <= self.barriers[block] && self.place(u) == block)
            || u == t
            || (u / warp == t / warp && stamp <= self.warps[(t / warp) as usize])
            || (self.barriers.len() > 1 && self.cluster.knows(t as usize, u as usize, stamp))
            || self.apart.get(t as usize).is_some_and(|known| stamp <= known[u as usize])
    }

    /// The place of a thread's block in its cluster.
    #[inline]
    fn place(&self, t: u32) -> usize {
        if self.barriers.len() == 1 { 0 } else { t as usize / self.threads }
    }

    /// True where two threads are of one block; copies are of every block.
    pub fn same_block(&self, t: u32, u: u32) -> bool {
        u >= COPIES || self.place(t) == self.place(u)
    }

    /// The block of a thread at a stamp of this launch.
    pub fn block_of(&self, stamp: u32, t: u32) -> [u32; 3] {
        let n = self.blocks.partition_point(|(start, _)| *start < stamp);
        let first = self.blocks[n.saturating_sub(1)].1;
        if t >= COPIES { first } else { neighbour(first, self.place(t)) }
    }

    /// Index along x, y, z of a thread in its block.
    pub fn thread(&self, t: u32) -> [u32; 3] {
        position(t as usize % self.threads, self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_order_those_that_meet() {
        let mut c = Clock::default();
        c.enter_launch([64, 1, 1], 1, false);
        c.enter_block([0; 3]);
        let before = c.now;
        assert!(c.knows(5, 5, before) && !c.knows(6, 5, before));
        c.meet_warp(0);
        assert!(c.knows(6, 5, before) && !c.knows(40, 5, before) && !c.knows(6, 5, c.now));
        c.meet_block(0);
        assert!(c.knows(40, 5, before) && !c.knows(40, 5, c.now));
    }

    #[test]
    fn what_is_published_is_passed_on() {
        let mut c = Clock::default();
        c.enter_launch([96, 1, 1], 1, true);
        c.enter_block([0; 3]);
        let mut bar = vec![];
        let first = c.now;
        c.publish(0, &mut bar);
        c.tick();
        c.learn(40, &bar);
        assert!(c.knows(40, 0, first) && !c.knows(40, 0, c.now) && !c.knows(41, 0, first));
        c.meet_some(&[40, 70]);
        assert!(c.knows(70, 0, first) && !c.knows(1, 0, first));
        assert!(!c.knows(40, COPIES, first));
        c.learn_agent(40, COPIES, first);
        c.meet_block(0);
        assert!(c.knows(1, COPIES, first) && !c.knows(1, COPIES, c.now));
    }
}
