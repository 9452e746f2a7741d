//! Barriers in shared memory: phases that complete when all arrivals and all announced bytes came.

use super::error::Fault;
use std::collections::BTreeMap;

/// Most bytes that one phase may wait for.
const MAX_BYTES: i64 = (1 << 20) - 1;

/// The barriers of a block by array and element.
#[derive(Default)]
pub(super) struct Mbarriers(BTreeMap<(u32, usize), Mbarrier>);

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
}

impl Mbarriers {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn init(&mut self, key: (u32, usize), name: &str, arrivals: u32) -> Result<(), Fault> {
        let new = Mbarrier { expected: arrivals, pending: arrivals, bytes: 0, phase: 0, visible: false };
        match self.0.insert(key, new) {
            Some(_) => Err(Fault::Mbarrier(format!("`{name}` is made a barrier a second time"))),
            None => Ok(()),
        }
    }

    /// Makes all barriers visible to the asynchronous proxy.
    pub fn fence(&mut self) {
        self.0.values_mut().for_each(|b| b.visible = true);
    }

    fn get(&mut self, key: (u32, usize), name: &str) -> Result<&mut Mbarrier, Fault> {
        self.0.get_mut(&key).ok_or_else(|| Fault::Mbarrier(format!("`{name}` is used before it is made a barrier")))
    }

    /// One arrival, after the announcement of `bytes`.
    pub fn arrive(&mut self, key: (u32, usize), name: &str, bytes: i64) -> Result<(), Fault> {
        let b = self.get(key, name)?;
        b.announce(name, bytes)?;
        b.pending = b.pending.checked_sub(1).ok_or_else(|| {
            Fault::Mbarrier(format!("`{name}` takes {} arrivals in a phase, and this is one more", b.expected))
        })?;
        b.turn();
        Ok(())
    }

    /// Checks that the asynchronous proxy may count on a barrier.
    pub fn is_ready(&mut self, key: (u32, usize), name: &str) -> Result<(), Fault> {
        if self.get(key, name)?.visible {
            return Ok(());
        }
        let why = "was made without a fence after it (`mbarrier_fence`), so that a bulk copy may not see it";
        Err(Fault::Mbarrier(format!("`{name}` {why}")))
    }

    /// So many bytes came.
    pub fn complete(&mut self, key: (u32, usize), name: &str, bytes: i64) -> Result<(), Fault> {
        let b = self.get(key, name)?;
        b.announce(name, -bytes)?;
        b.turn();
        Ok(())
    }

    /// True when the phase of that parity has completed.
    pub fn has_completed(&mut self, key: (u32, usize), name: &str, parity: i64) -> Result<bool, Fault> {
        if !(0..2).contains(&parity) {
            return Err(Fault::Mbarrier(format!(
                "`{name}` is waited for with parity {parity}, which is neither 0 nor 1"
            )));
        }
        Ok(self.get(key, name)?.phase % 2 != parity as u64)
    }

    /// What keeps a barrier from completing its phase.
    pub fn lack(&mut self, key: (u32, usize), name: &str) -> String {
        match self.0.get(&key) {
            Some(b) => format!(
                "phase {} of `{name}` still lacks {} arrivals and {} bytes, and no thread can go on",
                b.phase, b.pending, b.bytes
            ),
            None => format!("`{name}` is no barrier"),
        }
    }
}

impl Mbarrier {
    fn announce(&mut self, name: &str, bytes: i64) -> Result<(), Fault> {
        self.bytes += bytes;
        if self.bytes.abs() <= MAX_BYTES {
            return Ok(());
        }
        Err(Fault::Mbarrier(format!("`{name}` counts {} bytes, and can count no more than {MAX_BYTES}", self.bytes)))
    }

    fn turn(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.expected;
        }
    }
}
