//! Barriers in shared memory: phases that complete when all arrivals and all announced bytes came.

use super::error::Fault;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Most bytes that one phase may wait for.
const MAX_BYTES: i64 = (1 << 20) - 1;

/// The word of a barrier: element `i` of an array of one block of the cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    pub block: usize,
    pub array: u32,
    pub i: usize,
    pub name: &'a str,
}

impl Word<'_> {
    fn key(&self) -> (usize, u32, usize) {
        (self.block, self.array, self.i)
    }
}

impl Display for Word<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.name, self.i)
    }
}

/// The barriers of a cluster by block, array and element.
#[derive(Default)]
pub(super) struct Mbarriers(BTreeMap<(usize, u32, usize), Mbarrier>);

struct Mbarrier {
    /// Arrivals that a phase takes.
    expected: u32,
    /// Arrivals that the current phase lacks.
    pending: u32,
    /// Bytes that were announced and did not come; below 0 when they came first.
    bytes: i64,
    /// Completed phases.
    phase: u64,
    /// The asynchronous proxy knows of it.
    visible: bool,
    /// What those know that arrived in the current phase.
    open: Vec<u32>,
    /// What those knew that arrived in completed phases.
    done: Vec<u32>,
    /// The thread of another block whose commit arrived since one of its own block last waited, and its operation.
    unseen: Option<(usize, usize)>,
}

impl Mbarriers {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn init(&mut self, word: Word, arrivals: u32) -> Result<(), Fault> {
        let new = Mbarrier {
            expected: arrivals,
            pending: arrivals,
            bytes: 0,
            phase: 0,
            visible: false,
            open: vec![],
            done: vec![],
            unseen: None,
        };
        match self.0.insert(word.key(), new) {
            Some(_) => Err(Fault::Mbarrier(format!("`{word}` is made a barrier a second time"))),
            None => Ok(()),
        }
    }

    /// Makes all barriers of a block visible to the asynchronous proxy.
    pub fn fence(&mut self, block: usize) {
        self.0.iter_mut().filter(|(at, _)| at.0 == block).for_each(|(_, b)| b.visible = true);
    }

    fn get(&mut self, word: Word) -> Result<&mut Mbarrier, Fault> {
        self.0
            .get_mut(&word.key())
            .ok_or_else(|| Fault::Mbarrier(format!("`{word}` is used before it is made a barrier")))
    }

    /// One arrival, after the announcement of `bytes`, of a thread that knows so much.
    pub fn arrive(&mut self, word: Word, bytes: i64, known: &[u32]) -> Result<(), Fault> {
        let b = self.get(word)?;
        join(&mut b.open, known);
        b.announce(word, bytes)?;
        b.pending = b.pending.checked_sub(1).ok_or_else(|| {
            Fault::Mbarrier(format!("`{word}` takes {} arrivals in a phase, and this is one more", b.expected))
        })?;
        b.turn();
        Ok(())
    }

    /// One arrival for what a thread of another block started, which comes later by itself.
    pub fn arrive_late(&mut self, word: Word, known: &[u32], by: (usize, usize)) -> Result<(), Fault> {
        self.arrive(word, 0, known)?;
        self.get(word)?.unseen = Some(by);
        Ok(())
    }

    /// An arrival of that kind that no thread has waited for: thread and operation, array and element.
    pub fn unseen(&self) -> Option<((usize, usize), (u32, usize))> {
        self.0.iter().find_map(|((_, array, i), b)| b.unseen.map(|by| (by, (*array, *i))))
    }

    /// Checks that the asynchronous proxy may count on a barrier.
    pub fn is_ready(&mut self, word: Word) -> Result<(), Fault> {
        if self.get(word)?.visible {
            return Ok(());
        }
        let why = "was made without a fence after it (`mbarrier_fence`), so that a bulk copy may not see it";
        Err(Fault::Mbarrier(format!("`{word}` {why}")))
    }

    /// So many bytes came; who waits for them knows so much.
    pub fn complete(&mut self, word: Word, bytes: i64, known: &[u32]) -> Result<(), Fault> {
        let b = self.get(word)?;
        join(&mut b.open, known);
        b.announce(word, -bytes)?;
        b.turn();
        Ok(())
    }

    /// True when the phase of that parity has completed.
    pub fn has_completed(&mut self, word: Word, parity: i64) -> Result<bool, Fault> {
        if !(0..2).contains(&parity) {
            return Err(Fault::Mbarrier(format!(
                "`{word}` is waited for with parity {parity}, which is neither 0 nor 1"
            )));
        }
        Ok(self.get(word)?.phase % 2 != parity as u64)
    }

    /// What those knew that arrived in completed phases.
    pub fn known(&mut self, word: Word) -> Result<&[u32], Fault> {
        let b = self.get(word)?;
        b.unseen = None;
        Ok(&b.done)
    }

    /// What keeps a barrier from completing its phase.
    pub fn lack(&self, word: Word) -> String {
        match self.0.get(&word.key()) {
            Some(b) => format!(
                "phase {} of `{word}` still lacks {} arrivals and {} bytes, and no thread can go on",
                b.phase, b.pending, b.bytes
            ),
            None => format!("`{word}` is no barrier"),
        }
    }
}

impl Mbarrier {
    fn announce(&mut self, word: Word, bytes: i64) -> Result<(), Fault> {
        self.bytes += bytes;
        if self.bytes.abs() <= MAX_BYTES {
            return Ok(());
        }
        Err(Fault::Mbarrier(format!("`{word}` counts {} bytes, and can count no more than {MAX_BYTES}", self.bytes)))
    }

    fn turn(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.expected;
            join(&mut self.done, &std::mem::take(&mut self.open));
        }
    }
}

fn join(all: &mut Vec<u32>, more: &[u32]) {
    all.resize(all.len().max(more.len()), 0);
    all.iter_mut().zip(more).for_each(|(a, m)| *a = (*a).max(*m));
}
