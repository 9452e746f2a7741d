//! Copies on their way: what was read, and where it goes. Groups of them per thread.
//!
//! The data lands when the thread waits for the copy's group, no earlier: until then the
//! destination cannot be read, and neither side may be written.

use super::clock::COPIES;
use super::code::ArrayInfo;
use super::error::Fault;
use super::mbarrier::Word;
use super::memory::Memory;
use super::shadow::By;
use super::thread::missing;
use super::wgmma::{Issued, WARPGROUP};
use std::collections::VecDeque;

/// Adjacent elements of an array in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'a> {
    pub memory: usize,
    pub array: &'a ArrayInfo,
    pub first: usize,
}

impl<'a> Span<'a> {
    /// Elements of an array from `first` on, in a block whose shared memory comes so many arrays after that
    /// of the first of its cluster.
    pub fn new(array: &'a ArrayInfo, first: usize, shift: usize) -> Span<'a> {
        Span { memory: array.memory(shift), array, first }
    }

    /// An element as text.
    pub fn element(&self, i: usize) -> String {
        format!("{}[{}]", self.array.name, self.first + i)
    }
}

/// A copy on its way.
pub(super) struct Copy<'a> {
    /// The operation that started it.
    pub pc: usize,
    pub dst: Span<'a>,
    /// Nothing is read where it is absent.
    src: Option<Span<'a>>,
    /// Stored bits of the elements.
    bits: Vec<u64>,
}

impl<'a> Copy<'a> {
    /// Starts a copy of `len` elements for the thread of `by`, by whom it is done: reads the source,
    /// announces the destination. Zeros without a source.
    pub fn start(
        by: By,
        done_by: u32,
        dst: Span<'a>,
        src: Option<Span<'a>>,
        len: usize,
        memory: &mut [Memory],
    ) -> Result<Copy<'a>, Fault> {
        let mut bits = vec![0; len];
        if let Some(src) = &src {
            for (i, bits) in bits.iter_mut().enumerate() {
                let from = &mut memory[src.memory];
                *bits = from.read(src.first + i).ok_or_else(|| missing(src.array, src.first + i, from, by.code))?;
                if src.array.writable {
                    from.shadow.read_as(src.first + i, &src.array.name, by, done_by)?;
                }
            }
        }
        let copy = Copy::of(by, done_by, dst, bits, memory)?;
        Ok(Copy { src, ..copy })
    }

    /// Starts a copy of what is in no memory: announces the destination.
    pub fn of(by: By, done_by: u32, dst: Span<'a>, bits: Vec<u64>, memory: &mut [Memory]) -> Result<Copy<'a>, Fault> {
        let to = &mut memory[dst.memory];
        for i in dst.first..dst.first + bits.len() {
            if to.is_pending(i) {
                return Err(Fault::DestinationOverwritten(format!("{}[{i}]", dst.array.name)));
            }
            to.shadow.write_as(i, &dst.array.name, by, done_by)?;
            to.pend(i);
        }
        Ok(Copy { pc: by.pc, dst, src: None, bits })
    }

    /// Checks that the source still is what was read.
    pub fn check_source(&self, memory: &[Memory]) -> Result<(), Fault> {
        let Some(src) = &self.src else { return Ok(()) };
        let changed = |i: &usize| memory[src.memory].read(src.first + i) != Some(self.bits[*i]);
        (0..self.bits.len()).find(changed).map_or(Ok(()), |i| Err(Fault::SourceOverwritten(src.element(i))))
    }

    /// The data arrives, as a write by `done_by` at that stamp.
    pub fn land(&self, memory: &mut [Memory], stamp: u32, done_by: u32) -> Result<(), Fault> {
        let to = &mut memory[self.dst.memory];
        for (i, bits) in self.bits.iter().enumerate() {
            if !to.is_pending(self.dst.first + i) {
                return Err(Fault::DestinationOverwritten(self.dst.element(i)));
            }
            to.write(self.dst.first + i, *bits);
            to.shadow.landed(self.dst.first + i, stamp, done_by, self.pc);
        }
        Ok(())
    }

    /// The fault of ending before the data arrived for sure.
    pub fn never_awaited(&self) -> Fault {
        Fault::NeverAwaited(self.dst.element(0))
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.bits.len()
    }
}

/// The groups of one thread, oldest first.
pub(super) struct Groups<T> {
    open: Vec<T>,
    closed: VecDeque<Vec<T>>,
}

impl<T> Default for Groups<T> {
    fn default() -> Groups<T> {
        Groups { open: vec![], closed: VecDeque::new() }
    }
}

impl<T> Groups<T> {
    pub fn add(&mut self, copy: T) {
        self.open.push(copy);
    }

    pub fn commit(&mut self) {
        self.closed.push_back(std::mem::take(&mut self.open));
    }

    /// Takes out all closed groups but the newest `left`.
    pub fn take(&mut self, left: u32) -> Vec<T> {
        let n = self.closed.len().saturating_sub(left as usize);
        self.closed.drain(..n).flatten().collect()
    }

    /// All copies of closed groups but the newest `left`.
    pub fn older(&mut self, left: u32) -> impl Iterator<Item = &mut T> {
        let n = self.closed.len().saturating_sub(left as usize);
        self.closed.iter_mut().take(n).flatten()
    }

    /// All copies, closed and open.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.closed.iter_mut().flatten().chain(&mut self.open)
    }

    /// All copies, closed and open.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.closed.iter().flatten().chain(&self.open)
    }
}

/// What one block has under way.
#[derive(Default)]
pub(super) struct Async<'a> {
    /// Per thread.
    pub copies: Vec<Groups<Copy<'a>>>,
    pub loads: Vec<Load<'a>>,
    /// Per thread.
    pub stores: Vec<Groups<Store<'a>>>,
    /// Per warpgroup.
    pub matrices: Vec<Groups<Issued>>,
}

/// A bulk copy to shared memory and the barrier that counts it.
pub(super) struct Load<'a> {
    pub thread: usize,
    pub copy: Copy<'a>,
    pub bar: Word<'a>,
    pub bytes: i64,
}

/// A bulk copy to global memory.
pub(super) struct Store<'a> {
    pub copy: Copy<'a>,
    pub stage: Stage,
    /// When it was issued.
    pub stamp: u32,
    /// A wait made sure that the source was read.
    pub awaited: bool,
}

/// How far a bulk store has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Issued,
    SourceRead,
    Done,
}

impl Store<'_> {
    /// One stage further.
    pub fn advance(&mut self, memory: &mut [Memory]) -> Result<(), Fault> {
        self.stage = match self.stage {
            Stage::Issued => {
                self.copy.check_source(memory)?;
                Stage::SourceRead
            }
            Stage::SourceRead => {
                self.copy.land(memory, self.stamp, COPIES)?;
                Stage::Done
            }
            Stage::Done => Stage::Done,
        };
        Ok(())
    }
}

impl<'a> Async<'a> {
    /// Nothing under way for `threads` threads.
    pub fn new(threads: usize) -> Async<'a> {
        fn none<T>(n: usize) -> Vec<Groups<T>> {
            (0..n).map(|_| Groups::default()).collect()
        }
        let matrices = none(threads.div_ceil(WARPGROUP));
        Async { copies: none(threads), loads: vec![], stores: none(threads), matrices }
    }

    /// What a thread that ends has not waited for.
    pub fn left_by(&self, t: usize) -> Option<(usize, Fault)> {
        let copy = self.copies[t].iter().next();
        let store = self.stores[t].iter().find(|s| !s.awaited).map(|s| &s.copy);
        copy.or(store).map(|c| (c.pc, c.never_awaited()))
    }
}
