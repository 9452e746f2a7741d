//! Waiting that not all threads of a block take part in: named barriers, phases of barriers in shared
//! memory.

use super::block::{At, Block, WARP};
use super::code::Op;
use super::error::Fault;
use super::thread::State;

impl Block<'_> {
    /// Lets threads pass the named barriers that are complete. Warps come as a whole.
    pub(super) fn meet_named(&mut self) -> Result<bool, At> {
        let mut progress = false;
        for lead in 0..self.threads.len() {
            let Some((id, threads)) = self.named(lead) else { continue };
            let waiting: Vec<usize> =
                (0..self.threads.len()).filter(|t| self.named(*t).is_some_and(|n| n.0 == id)).collect();
            let other = waiting.iter().find(|t| self.named(**t) != Some((id, threads)));
            if let Some(other) = other {
                let why = format!("it is for {threads} threads, but {}", self.elsewhere(*other));
                return Err(self.fault(lead, Fault::DivergentNamedBarrier(why)));
            }
            if waiting.len() > threads as usize {
                let why = format!("{} threads wait at barrier {id}, which is for {threads}", waiting.len());
                return Err(self.fault(lead, Fault::DivergentNamedBarrier(why)));
            }
            if waiting.len() == threads as usize {
                self.whole_warps(&waiting)?;
                self.clock.meet_some(&waiting);
                waiting.iter().for_each(|t| self.threads[*t].resume());
                progress = true;
            }
        }
        Ok(progress)
    }

    /// The named barrier that a thread waits at.
    fn named(&self, t: usize) -> Option<(u32, u32)> {
        match (self.threads[t].state, self.code.ops[self.threads[t].pc]) {
            (State::Named, Op::NamedBarrier { id, threads }) => Some((id, threads)),
            _ => None,
        }
    }

    fn whole_warps(&self, waiting: &[usize]) -> Result<(), At> {
        for t in waiting {
            let first = t / WARP * WARP;
            let mut lanes = first..(first + WARP).min(self.threads.len());
            let pc = self.threads[*t].pc;
            if let Some(other) = lanes.find(|l| self.threads[*l].state != State::Named || self.threads[*l].pc != pc) {
                return Err(self.fault(*t, Fault::DivergentNamedBarrier(self.elsewhere(other))));
            }
        }
        Ok(())
    }

    /// Lets threads go on whose phase has completed.
    pub(super) fn wake(&mut self) -> Result<bool, At> {
        let mut progress = false;
        for t in 0..self.threads.len() {
            if self.threads[t].state == State::Phase && self.phase_completed(t)? {
                self.learn_phase(t)?;
                self.threads[t].resume();
                progress = true;
            }
        }
        Ok(progress)
    }

    /// Why no thread can go on, where some wait apart from the others.
    pub(super) fn stuck(&mut self) -> Result<(), At> {
        if let Some(t) = self.threads.iter().position(|t| t.state == State::Phase) {
            let lack = self.phase_lack(t);
            return Err(self.fault(t, Fault::Deadlock(lack)));
        }
        self.cluster_stuck()?;
        let Some(t) = self.threads.iter().position(|t| t.state == State::Named) else { return Ok(()) };
        let other = self.threads.iter().position(|t| t.state != State::Named).unwrap_or(t);
        let n = self.threads.iter().filter(|t| t.state == State::Named).count();
        let why = format!("only {n} threads wait at named barriers, and {}", self.elsewhere(other));
        Err(self.fault(t, Fault::DivergentNamedBarrier(why)))
    }
}
