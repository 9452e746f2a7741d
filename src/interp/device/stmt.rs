//! Statements, for all threads that reach them.

use super::{Machine, Result};
use crate::interp::op::InterpError;
use crate::ir::device::{DFor, DStmt};
use crate::ir::kernel::Barrier;
use crate::ir::{Expr, Name};
use std::collections::HashMap;

impl Machine<'_> {
    pub(super) fn list(&mut self, body: &[DStmt], active: &[usize]) -> Result<()> {
        body.iter().try_for_each(|s| self.stmt(s, active))
    }

    fn stmt(&mut self, s: &DStmt, active: &[usize]) -> Result<()> {
        if active.is_empty() {
            return Ok(());
        }
        match s {
            DStmt::For(l) => self.for_loop(l, active),
            DStmt::If { cond, then, otherwise } => {
                let (mut yes, mut no) = (vec![], vec![]);
                for t in active {
                    if self.eval(cond, *t)? != 0 { yes.push(*t) } else { no.push(*t) }
                }
                self.list(then, &yes)?;
                self.list(otherwise, &no)
            }
            DStmt::Store { buffer, indices, value, .. } => self.store(buffer, indices, value, active),
            DStmt::Let { var, value } => {
                let mut values = self.vars.get(var).cloned().unwrap_or_else(|| vec![0; self.threads]);
                for t in active {
                    values[*t] = self.eval(value, *t)?;
                }
                self.vars.insert(var.clone(), values);
                Ok(())
            }
            DStmt::Barrier(b) => self.barrier(*b, active),
            DStmt::Tile(call) => self.tile(call, active),
            DStmt::Instr(i) => self.instruction(i, active),
            DStmt::Copy { .. }
            | DStmt::Var { .. }
            | DStmt::Assign { .. }
            | DStmt::Shuffle { .. }
            | DStmt::Reduce(_) => Err(InterpError::Unsupported("statements that lowering makes".to_string())),
        }
    }

    fn for_loop(&mut self, l: &DFor, active: &[usize]) -> Result<()> {
        let mut extents = vec![];
        for t in active {
            extents.push(self.eval(&l.extent, *t)? as i64);
        }
        for k in 0..extents.iter().copied().max().unwrap_or(0) {
            self.vars.insert(l.var.clone(), vec![k as u64; self.threads]);
            let mut running = vec![];
            for (t, n) in active.iter().zip(&mut extents) {
                if k < *n && l.live.as_ref().map_or(Ok(1), |e| self.eval(e, *t))? != 0 {
                    running.push(*t);
                } else {
                    *n = 0;
                }
            }
            self.list(&l.body, &running)?;
        }
        Ok(())
    }

    /// All threads read before the first one writes.
    fn store(&mut self, buffer: &Name, indices: &[Expr], value: &Expr, active: &[usize]) -> Result<()> {
        let mut all = vec![];
        for t in active {
            let at = self.element(buffer, indices, *t)?;
            all.push((*t, at, self.eval(value, *t)?));
        }
        let common = self.memory.is_common(buffer);
        let mut seen: HashMap<usize, (usize, u64)> = HashMap::new();
        for (t, at, v) in all {
            if common
                && let Some((first, old)) = seen.insert(at, (t, v))
                && old != v
            {
                let user = self.user(buffer);
                let text = format!("threads {first} and {t} store different values to one element of `{user}` at once");
                return Err(InterpError::Threads(text));
            }
            self.memory.write(buffer, at, &[t], Some(v))?;
        }
        Ok(())
    }

    fn barrier(&self, b: Barrier, active: &[usize]) -> Result<()> {
        let granule = match b {
            Barrier::Block | Barrier::ClusterArrive { .. } | Barrier::ClusterWait => self.threads,
            Barrier::Warp => 32.min(self.threads),
            Barrier::Named { threads, .. } => threads as usize,
        };
        self.groups(active, granule)
            .map(drop)
            .ok_or_else(|| InterpError::Threads("only some of the threads of a barrier reach it".to_string()))
    }

    /// The active threads in groups of adjacent ones, all of which have to be active.
    pub(super) fn groups(&self, active: &[usize], granule: usize) -> Option<Vec<Vec<usize>>> {
        let groups: Vec<Vec<usize>> = active.chunk_by(|a, b| a / granule == b / granule).map(<[_]>::to_vec).collect();
        groups.iter().all(|g| g.len() == granule).then_some(groups)
    }
}
