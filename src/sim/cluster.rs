//! Blocks of a cluster: their barrier, and accesses of one to the shared memory of another.
//!
//! The blocks of a cluster run together, their threads in one shuffled order. The threads of a block are
//! numbered after those of the blocks before it. A thread that has waited at the barrier knows what every
//! thread did before it arrived there with a release. Found besides races: threads that do not all arrive, or arrive twice;
//! an access before a wait, when the other block may not have started; a thread that ends after an access, or
//! after it arrived, without waiting, when a block may have ended that others access.

use super::block::{At, Block};
use super::code::{ArrayInfo, Slot};
use super::error::Fault;
use super::instr::{Instr, Site};
use super::memory::Memory;
use super::scalar;
use super::thread::{State, aligned, in_bounds, missing};

/// The barrier of all threads of a cluster.
#[derive(Default)]
pub(super) struct ClusterBarrier {
    /// Completed phases.
    phase: usize,
    /// Arrivals that the current phase lacks.
    missing: usize,
    /// The stamps at which threads arrived in the current phase; 0 of those that did not.
    arrived: Vec<u32>,
    /// The same of the last two completed phases, by the number of the phase.
    known: [Vec<u32>; 2],
    /// Phases that a thread has waited for.
    waited: Vec<usize>,
    /// Threads that accessed another block and have not arrived since.
    accessed: Vec<bool>,
}

impl ClusterBarrier {
    pub fn new(threads: usize) -> ClusterBarrier {
        let zeros = || vec![0; threads];
        ClusterBarrier {
            phase: 0,
            missing: threads,
            arrived: zeros(),
            known: [zeros(), zeros()],
            waited: vec![0; threads],
            accessed: vec![false; threads],
        }
    }

    /// Thread `t` arrives at a stamp; what it does later has a greater one.
    pub fn arrive(&mut self, t: usize, stamp: u32) -> Result<(), Fault> {
        if self.arrived[t] != 0 || self.waited[t] < self.phase {
            return Err(cluster("this thread arrived before, and has not waited since"));
        }
        (self.arrived[t], self.accessed[t]) = (stamp, false);
        self.missing -= 1;
        if self.missing == 0 {
            self.phase += 1;
            self.missing = self.arrived.len();
            let next = vec![0; self.missing];
            self.known[self.phase % 2] = std::mem::replace(&mut self.arrived, next);
        }
        Ok(())
    }

    /// True where a thread may pass, which it then has done.
    fn pass(&mut self, t: usize) -> Result<bool, Fault> {
        if self.waited[t] < self.phase {
            self.waited[t] += 1;
            return Ok(true);
        }
        if self.arrived[t] == 0 {
            return Err(cluster("this thread waits for a phase that it has not arrived for"));
        }
        Ok(false)
    }

    /// True where thread `t` knows what `u` did at a stamp.
    pub fn knows(&self, t: usize, u: usize, stamp: u32) -> bool {
        stamp <= self.known(t, u)
    }

    /// The stamp up to which thread `t` knows what `u` did.
    pub fn known(&self, t: usize, u: usize) -> u32 {
        self.waited.get(t).filter(|n| **n > 0).map_or(0, |n| self.known[n % 2][u])
    }

    /// Notes an access to another block.
    pub fn access(&mut self, t: usize) -> Result<(), Fault> {
        if self.waited[t] == 0 {
            return Err(cluster("the other block may not have started: wait at a barrier of the cluster first"));
        }
        self.accessed[t] = true;
        Ok(())
    }

    /// What is wrong with a thread that ends.
    pub fn ends(&self, t: usize) -> Result<(), Fault> {
        if self.accessed.get(t) == Some(&true) {
            return Err(cluster("the thread ends after an access to another block, which may have ended before"));
        }
        let waits = |n: &usize| *n < self.phase || self.arrived[t] != 0;
        if self.waited.get(t).is_some_and(waits) {
            return Err(cluster("the thread ends without waiting at the barrier of the cluster where it arrived"));
        }
        Ok(())
    }
}

fn cluster(why: &str) -> Fault {
    Fault::Cluster(why.into())
}

impl<'a> Block<'a> {
    pub(super) fn cluster_arrive(&mut self, t: usize, release: bool) -> Result<(), At> {
        // Without a release others learn of nothing since the start of the cluster.
        let stamp = if release { self.clock.tick() } else { self.clock.block };
        self.clock.cluster.arrive(t, stamp).map_err(|fault| self.fault(t, fault))
    }

    /// Lets a thread pass, or wait.
    pub(super) fn cluster_wait(&mut self, t: usize) -> Result<(), At> {
        if !self.clock.cluster.pass(t).map_err(|fault| self.fault(t, fault))? {
            self.threads[t].state = State::Cluster;
        }
        Ok(())
    }

    /// Stores a value in the shared memory of block `peer` of the cluster.
    pub(super) fn cluster_store(&mut self, t: usize, i: &Instr, memory: &mut [Memory]) -> Result<(), Fault> {
        let ([d], [peer, a]) = i.operands();
        let (n, i, array) = self.of_peer(t, *d, *peer, 1)?;
        let bits = scalar::to_stored(self.threads[t].get(*a), array.dtype);
        let to = &mut memory[n];
        to.shadow.write(i, &array.name, self.by(t))?;
        to.write(i, bits);
        Ok(())
    }

    /// Loads so many elements from the shared memory of block `peer` of the cluster.
    pub(super) fn cluster_load(&mut self, t: usize, i: &Instr, lanes: usize, memory: &mut [Memory]) -> Result<(), At> {
        let ([d, s], [peer]) = i.operands();
        let place = self.of_peer(t, *s, *peer, lanes as u32);
        let (n, first, array) = place.map_err(|fault| self.fault(t, fault))?;
        for e in 0..lanes {
            let by = self.by(t);
            let from = &mut memory[n];
            let bits = from.read(first + e).ok_or_else(|| missing(array, first + e, from, by.code));
            let bits = bits.and_then(|bits| from.shadow.read(first + e, &array.name, by).map(|()| bits));
            let bits = bits.map_err(|fault| self.fault(t, fault))?;
            self.put(t, *d, e, scalar::from_stored(bits, array.dtype), memory)?;
        }
        Ok(())
    }

    /// Arrives at a barrier of block `peer` of the cluster.
    pub(super) fn peer_arrive(&mut self, t: usize, i: &Instr) -> Result<(), Fault> {
        let ([bar], [peer]) = i.operands();
        let block = self.peer(t, *peer)?;
        let word = self.ready_in(block, t, *bar)?;
        self.arrive_at_word(t, word, 0)
    }

    /// The memory of another block in which an array is, and its elements there, so many.
    fn of_peer(&mut self, t: usize, at: Site, peer: Slot, len: u32) -> Result<(usize, usize, &'a ArrayInfo), Fault> {
        let peer = self.peer(t, peer)?;
        let array = &self.code.arrays[at.array as usize];
        let i = in_bounds(array, aligned(array, self.threads[t].int(at.index), len)?, len)?;
        Ok((array.memory(peer * self.code.shared()), i, array))
    }

    /// The block of the cluster that a thread accesses.
    fn peer(&mut self, t: usize, peer: Slot) -> Result<usize, Fault> {
        self.clock.cluster.access(t)?;
        let (peer, blocks) = (self.threads[t].int(peer), self.threads.len() / self.per_block);
        match (0..blocks as i64).contains(&peer) {
            true => Ok(peer as usize),
            false => Err(cluster(&format!("block {peer} of a cluster of {blocks}"))),
        }
    }

    /// Lets threads go on whose phase has completed.
    pub(super) fn wake_cluster(&mut self) -> Result<bool, At> {
        let mut progress = false;
        for t in 0..self.threads.len() {
            if self.threads[t].state == State::Cluster
                && self.clock.cluster.pass(t).map_err(|fault| self.fault(t, fault))?
            {
                self.threads[t].resume();
                progress = true;
            }
        }
        Ok(progress)
    }

    /// Why no thread can go on, where some wait for the others of the cluster.
    pub(super) fn cluster_stuck(&self) -> Result<(), At> {
        let Some(t) = self.threads.iter().position(|t| t.state == State::Cluster) else { return Ok(()) };
        let missing = |u: &usize| self.clock.cluster.arrived[*u] == 0;
        let other = (0..self.threads.len()).find(missing).unwrap_or(t);
        let why = format!("not all threads arrive at the barrier of the cluster: {}", self.elsewhere(other));
        Err(self.fault(t, Fault::Cluster(why)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_what_came_before_arrivals_that_it_has_waited_for() {
        let mut b = ClusterBarrier::new(2);
        b.arrive(0, 5).unwrap();
        assert_eq!(b.pass(0), Ok(false));
        b.arrive(1, 7).unwrap();
        assert!(!b.knows(0, 1, 7) && b.pass(0) == Ok(true));
        assert!(b.knows(0, 1, 7) && !b.knows(0, 1, 8) && !b.knows(1, 0, 5));
        b.arrive(0, 9).unwrap();
        assert!(b.pass(1) == Ok(true) && b.knows(1, 0, 5) && !b.knows(1, 0, 9));
    }

    #[test]
    fn arrivals_and_waits_alternate() {
        let mut b = ClusterBarrier::new(2);
        assert!(b.pass(0).is_err());
        b.arrive(0, 1).unwrap();
        assert!(b.arrive(0, 2).is_err() && b.ends(0).is_err() && b.ends(1).is_ok());
        b.arrive(1, 3).unwrap();
        assert!(b.arrive(0, 4).is_err() && b.access(0).is_err());
        assert!(b.pass(0) == Ok(true) && b.ends(0).is_ok() && b.access(0).is_ok() && b.ends(0).is_err());
    }
}
