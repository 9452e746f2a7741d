//! Barriers in shared memory, and the copies that they count.
//!
//! A copy with `mbar=` brings its bytes at once, but its elements are there only when a thread has waited
//! for the phase that counted them; until then they are as if nothing had written them. Statements run one
//! after another, so that a wait for a phase that has not completed can never end, and is an error.

use super::tile::Write;
use super::{Machine, Result};
use crate::interp::op::InterpError;
use crate::ir::instr::{Instr, Op, Sync};
use crate::ir::{ExprKind, Name, TileArg, TileCall};
use std::collections::BTreeMap;

/// The word of a barrier: an element of a buffer.
type Word = (Name, usize);

/// The barriers of a block.
#[derive(Default)]
pub(super) struct Mbarriers(BTreeMap<Word, Mbarrier>);

struct Mbarrier {
    /// Arrivals that a phase takes.
    expected: u32,
    /// Arrivals that the current phase lacks.
    pending: u32,
    /// Bytes that were announced and did not come; below 0 when they came first.
    bytes: i64,
    /// Completed phases.
    phase: u64,
    /// Copies that nothing has waited for.
    copies: Vec<Copy>,
}

/// Elements that a copy brought in a phase.
struct Copy {
    phase: u64,
    buffer: Name,
    group: Vec<usize>,
    writes: Vec<Write>,
}

impl Mbarrier {
    /// Another phase begins where nothing is left to wait for.
    fn turn(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.expected;
        }
    }
}

impl Machine<'_> {
    pub(super) fn instruction(&mut self, i: &Instr, active: &[usize]) -> Result<()> {
        let Op::Sync(sync) = i.op else {
            return Err(InterpError::Unsupported("statements that lowering makes".to_string()));
        };
        // All but barriers is done at once, so nothing is left to wait for.
        let Some(bar) = i.places.first() else { return Ok(()) };
        for t in active {
            let at = self.element(&bar.array, std::slice::from_ref(&bar.index), *t)?;
            let word = (bar.array.clone(), at);
            let number = i.values.first().map_or(Ok(0), |e| self.eval(e, *t))? as i64;
            match sync {
                Sync::MbarrierInit { arrivals } => self.init(word, arrivals)?,
                Sync::MbarrierArrive | Sync::MbarrierExpect => self.arrive(word, number)?,
                Sync::MbarrierWait => self.wait(word, number, *t)?,
                Sync::CpAsyncCommit
                | Sync::CpAsyncWait { .. }
                | Sync::MbarrierFence
                | Sync::BulkCommit
                | Sync::BulkWait { .. }
                | Sync::AsyncFence
                | Sync::WgmmaFence
                | Sync::WgmmaCommit
                | Sync::WgmmaWait { .. } => {}
            }
        }
        Ok(())
    }

    fn shown(&self, word: &Word) -> String {
        format!("{}.ptr_to([{}])", self.user(&word.0), word.1)
    }

    fn init(&mut self, word: Word, arrivals: u32) -> Result<()> {
        let text = format!("`{}` is made a barrier a second time", self.shown(&word));
        let new = Mbarrier { expected: arrivals, pending: arrivals, bytes: 0, phase: 0, copies: vec![] };
        match self.barriers.0.insert(word, new) {
            Some(_) => Err(InterpError::Threads(text)),
            None => Ok(()),
        }
    }

    fn barrier_at(&mut self, word: &Word) -> Result<&mut Mbarrier> {
        let shown = self.shown(word);
        self.barriers.0.get_mut(word).ok_or_else(|| {
            InterpError::Threads(format!("`{shown}` is used before T.ptx.mbarrier.init makes it a barrier"))
        })
    }

    /// One arrival, after the announcement of `bytes`.
    fn arrive(&mut self, word: Word, bytes: i64) -> Result<()> {
        let shown = self.shown(&word);
        let b = self.barrier_at(&word)?;
        b.bytes = b.bytes.saturating_add(bytes);
        b.pending = b.pending.checked_sub(1).ok_or_else(|| {
            let text = format!("`{shown}` takes {} arrivals in a phase, and this is one more", b.expected);
            InterpError::Threads(text)
        })?;
        b.turn();
        Ok(())
    }

    fn wait(&mut self, word: Word, parity: i64, t: usize) -> Result<()> {
        let shown = self.shown(&word);
        let statement = format!("T.cuda.mbarrier_wait({shown}, {parity}) of thread {t}");
        if !(0..2).contains(&parity) {
            return Err(InterpError::Threads(format!("{statement}: the phase that is waited for is 0 or 1, in turn")));
        }
        let b = self.barrier_at(&word)?;
        if b.phase % 2 == parity as u64 {
            let (phase, pending, bytes) = (b.phase, b.pending, b.bytes);
            let lack = format!("phase {phase} of the barrier lacks {pending} arrivals and {bytes} bytes");
            return Err(InterpError::Threads(format!("{statement} never ends: {lack} when it is reached")));
        }
        let phase = b.phase;
        let (done, left) = std::mem::take(&mut b.copies).into_iter().partition(|c| c.phase < phase);
        b.copies = left;
        let done: Vec<Copy> = done;
        for copy in done {
            for (at, value) in copy.writes {
                self.memory.write(&copy.buffer, at, &copy.group, value)?;
            }
        }
        Ok(())
    }

    /// A copy whose bytes a barrier counts.
    pub(super) fn counted_copy(
        &mut self,
        call: &TileCall,
        bar: &TileArg,
        group: Vec<usize>,
        writes: Vec<Write>,
    ) -> Result<()> {
        let word = self.word(bar, &group)?;
        let buffer = call.dst.buffer.clone();
        let bytes = call.dst.len().saturating_mul(self.memory.space(&buffer)?.dtype.bytes() as i64);
        for (at, _) in &writes {
            self.memory.write(&buffer, *at, &group, None)?;
        }
        let b = self.barrier_at(&word)?;
        b.copies.push(Copy { phase: b.phase, buffer, group, writes });
        b.bytes = b.bytes.saturating_sub(bytes);
        b.turn();
        Ok(())
    }

    /// Arrives for a product, which is done at once: one that follows may add to it before anyone waits.
    pub(super) fn product_done(&mut self, bar: &TileArg, group: &[usize]) -> Result<()> {
        let word = self.word(bar, group)?;
        self.arrive(word, 0)
    }

    /// The barrier that an argument names.
    fn word(&mut self, bar: &TileArg, group: &[usize]) -> Result<Word> {
        let not_one =
            || InterpError::Threads("`mbar` is one element of a buffer, such as `bar.ptr_to([0])`".to_string());
        match bar {
            TileArg::Tile(t) => match self.places(t, group)?.as_slice() {
                [at] => Ok((t.buffer.clone(), *at)),
                _ => Err(not_one()),
            },
            TileArg::Scalar(e) => match (e.kind(), group) {
                (ExprKind::Load { buffer, indices, .. }, [first, ..]) => {
                    Ok((buffer.clone(), self.element(buffer, indices, *first)?))
                }
                _ => Err(not_one()),
            },
        }
    }
}
