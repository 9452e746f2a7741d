//! Who accessed an element last: what races are found by.
//!
//! Per element the last write and two reads are kept, packed in 64 bits each: stamp, operation, thread.
//! Of the readers since the last write the newest is kept and one more, rather of another block or warp
//! than of the same: a reader in between may be forgotten only when two others are there that a barrier of
//! a warp hides. Pages come into being when something is accessed in them.
//!
//! Stands in a circle with `block`, whose width of a warp it counts with.

use super::block::WARP;
use super::clock::{COPIES, Clock, MATRICES};
use super::code::Code;
use super::error::{Fault, Party, Race};

/// Elements of a page.
const PAGE: usize = 256;

/// Bits of a thread (up to [`COPIES`]) and of an operation in a record; the rest are those of the stamp.
const THREAD_BITS: u32 = 14;
const PC_BITS: u32 = 19;
const LAST_PC: usize = (1 << PC_BITS) - 1;

/// Who accesses, and where in the code.
#[derive(Clone, Copy)]
pub(super) struct By<'a> {
    pub code: &'a Code,
    pub clock: &'a Clock,
    pub thread: u32,
    pub pc: usize,
}

/// An access; 0 is none.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Record(u64);

impl Record {
    fn new(stamp: u32, thread: u32, pc: usize) -> Record {
        let low = (pc.min(LAST_PC) as u64) << THREAD_BITS | u64::from(thread);
        Record(u64::from(stamp) << (THREAD_BITS + PC_BITS) | low)
    }

    fn stamp(self) -> u32 {
        (self.0 >> (THREAD_BITS + PC_BITS)) as u32
    }

    fn thread(self) -> u32 {
        self.0 as u32 & ((1 << THREAD_BITS) - 1)
    }

    fn pc(self) -> usize {
        (self.0 >> THREAD_BITS) as usize & LAST_PC
    }
}

#[derive(Clone, Copy, Default)]
struct Cell {
    write: Record,
    reads: [Record; 2],
}

/// The records of an array.
#[derive(Default)]
pub(super) struct Shadow {
    pages: Vec<Option<Box<[Cell; PAGE]>>>,
    /// True for shared memory: accesses of earlier blocks are of another array.
    shared: bool,
    /// Stores of the value that is there need no order.
    pub replicas: bool,
}

impl Shadow {
    /// For an array of `len` elements.
    pub fn new(len: usize, shared: bool) -> Shadow {
        Shadow { pages: (0..len.div_ceil(PAGE)).map(|_| None).collect(), shared, replicas: false }
    }

    #[inline]
    fn cell(&mut self, i: usize) -> &mut Cell {
        &mut self.pages[i / PAGE].get_or_insert_with(|| Box::new([Cell::default(); PAGE]))[i % PAGE]
    }

    /// A read of element `i` of the array called `name`.
    #[inline]
    pub fn read(&mut self, i: usize, name: &str, by: By) -> Result<(), Fault> {
        self.read_as(i, name, by, by.thread)
    }

    /// A read that `thread` does when the thread of `by` tells it to.
    pub fn read_as(&mut self, i: usize, name: &str, by: By, thread: u32) -> Result<(), Fault> {
        let shared = self.shared;
        let cell = self.cell(i);
        if !ordered(cell.write, by, shared) {
            return Err(race(name, i, by, false, cell.write, true));
        }
        self.note_read(i, by, thread);
        Ok(())
    }

    fn note_read(&mut self, i: usize, by: By, thread: u32) {
        let shared = self.shared;
        let cell = self.cell(i);
        let new = Record::new(by.clock.now, thread, by.pc);
        let [first, second] = cell.reads;
        if first.thread() != thread || by.clock.block >= first.stamp() {
            let far = |r: Record| r.stamp() <= by.clock.block || r.thread() / WARP as u32 != thread / WARP as u32;
            let keep_second = !ordered(second, by, shared) && far(second) && !far(first);
            cell.reads[1] = if keep_second { second } else { first };
        }
        cell.reads[0] = new;
    }

    /// A read by an agent that does all its work in order, when the thread of `by` tells it to.
    pub fn read_in_turn(&mut self, i: usize, name: &str, by: By, agent: u32) -> Result<(), Fault> {
        match self.cell(i).write.thread() == agent {
            true => {
                self.note_read(i, by, agent);
                Ok(())
            }
            false => self.read_as(i, name, by, agent),
        }
    }

    /// True where a store by `by` of the value that is there may go without order, and has none.
    pub fn repeats(&mut self, i: usize, by: By) -> bool {
        let shared = self.shared;
        !ordered(self.cell(i).write, by, shared)
    }

    /// A write to element `i` of the array called `name`.
    #[inline]
    pub fn write(&mut self, i: usize, name: &str, by: By) -> Result<(), Fault> {
        self.write_as(i, name, by, by.thread)
    }

    /// A write that `thread` does when the thread of `by` tells it to.
    pub fn write_as(&mut self, i: usize, name: &str, by: By, thread: u32) -> Result<(), Fault> {
        self.may_write(i, name, by)?;
        *self.cell(i) = Cell { write: Record::new(by.clock.now, thread, by.pc), reads: [Record::default(); 2] };
        Ok(())
    }

    /// That a write would come after all accesses so far.
    pub fn may_write(&mut self, i: usize, name: &str, by: By) -> Result<(), Fault> {
        let shared = self.shared;
        let cell = self.cell(i);
        if !ordered(cell.write, by, shared) {
            return Err(race(name, i, by, true, cell.write, true));
        }
        match cell.reads.iter().find(|r| !ordered(**r, by, shared)) {
            Some(read) => Err(race(name, i, by, true, *read, false)),
            None => Ok(()),
        }
    }

    /// A write by an agent that does all its work in order, when the thread of `by` tells it to; gives what comes
    /// before it.
    pub fn update_as(&mut self, i: usize, name: &str, by: By, agent: u32) -> Result<[(u32, u32); 2], Fault> {
        let shared = self.shared;
        let cell = self.cell(i);
        if cell.write.thread() != agent && !ordered(cell.write, by, shared) {
            return Err(race(name, i, by, true, cell.write, true));
        }
        if let Some(read) = cell.reads.iter().find(|r| !ordered(**r, by, shared)) {
            return Err(race(name, i, by, true, *read, false));
        }
        let reads = cell.reads.map(|r| (r.thread(), r.stamp()));
        *cell = Cell { write: Record::new(by.clock.now, agent, by.pc), reads: [Record::default(); 2] };
        Ok(reads)
    }

    /// The last write to an element after that stamp: its stamp, thread and operation.
    pub fn last_write(&self, i: usize, after: u32) -> Option<(u32, u32, usize)> {
        let write = self.pages.get(i / PAGE)?.as_ref()?[i % PAGE].write;
        (write.stamp() > after).then(|| (write.stamp(), write.thread(), write.pc()))
    }

    /// The data of a copy, whose destination nobody accessed since it was announced, has arrived.
    pub fn landed(&mut self, i: usize, stamp: u32, thread: u32, pc: usize) {
        self.cell(i).write = Record::new(stamp, thread, pc);
    }
}

/// True when an access comes before what `by` does now.
#[inline]
fn ordered(r: Record, by: By, shared: bool) -> bool {
    let (clock, stamp) = (by.clock, r.stamp());
    if stamp <= clock.block {
        return shared || clock.before_block(r.thread(), stamp);
    }
    clock.knows(by.thread, r.thread(), stamp)
}

#[cold]
fn race(name: &str, i: usize, by: By, write: bool, other: Record, other_wrote: bool) -> Fault {
    let statement = by.code.statement(other.pc()).to_string();
    let block = by.clock.block_of(other.stamp(), other.thread());
    let party = match other.thread() {
        COPIES => Party::Copy,
        t if t > COPIES => Party::Matrices(t - MATRICES),
        t => Party::Thread(by.clock.thread(t)),
    };
    let same_block = other.stamp() > by.clock.block && by.clock.same_block(by.thread, other.thread());
    let element = format!("{name}[{i}]");
    Fault::Race(Box::new(Race { element, write, party, block, same_block, statement, other_wrote }))
}
