//! The outlines of short windows, from sizes and knobs.

use crate::analysis::BlockFacts;
use crate::ir::DType;
use crate::rules::find::operands::read_once;
use crate::rules::space::limits::lanes;
use crate::rules::{Knobs, LaunchOutline, Outline};
use crate::schedule::Schedule;

/// The sizes of one windowed reduction.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    outputs: i64,
    steps: i64,
    dtype: DType,
    /// Tensors read.
    operands: i64,
    /// Bytes of all of them.
    read: i64,
}

impl Window {
    /// The sizes, where all are known.
    pub fn of(s: &Schedule, facts: &BlockFacts, steps: i64, outputs: Option<i64>) -> Option<Window> {
        let (operands, read) = read_once(s, &facts.reads)?;
        let dtype = facts.writes.first().map(|w| s.func().buffer(&w.buffer).dtype)?;
        Some(Window { outputs: outputs?, steps, dtype, operands, read })
    }

    fn launch(&self, blocks: i64, threads: i64) -> LaunchOutline {
        let size = self.dtype.bytes() as i64;
        LaunchOutline {
            blocks,
            threads,
            state_regs: 24,
            load_bytes: size,
            in_flight: size,
            steps: 1,
            read: self.read,
            written: self.outputs * size,
            instructions: 1,
            unjudged: true,
            flops: self.outputs.saturating_mul(self.steps).saturating_mul(self.operands.max(1)),
            ..LaunchOutline::default()
        }
    }
}

/// Windows on a GPU: one or several outputs per thread.
pub fn cuda(w: &Window, k: &Knobs) -> Outline {
    let (threads, outputs) = (k.get("threads"), k.get("outputs"));
    let together = k.get("unroll").clamp(1, w.steps);
    let step = threads * outputs;
    let blocks = (w.outputs + step - 1) / step;
    let loads = together * outputs * w.operands.max(1);
    let bytes = loads.min(32) * w.dtype.bytes() as i64;
    Outline::one(LaunchOutline {
        min_blocks: k.get("min_blocks"),
        load_regs: loads.min(32),
        in_flight: bytes,
        steps: (w.steps + together - 1) / together,
        padding: (blocks * step) as f64 / w.outputs.max(1) as f64,
        instructions: 4 * loads,
        ..w.launch(blocks, threads)
    })
}

/// Windows on the CPU: tasks of several rows of `last` outputs, vectors where the reads move `along`.
pub fn cpu(w: &Window, last: i64, along: bool, k: &Knobs) -> Outline {
    let width = if along { lanes(k.get("vector"), w.dtype) } else { 1 };
    let rows = (w.outputs / last.max(1)).max(1);
    Outline::one(LaunchOutline {
        load_bytes: if along { k.get("vector") } else { w.dtype.bytes() as i64 },
        in_flight: k.get("vector"),
        steps: k.get("rows") * (last / width).max(1),
        instructions: 2 * w.steps * w.operands.max(1),
        ..w.launch((rows + k.get("rows") - 1) / k.get("rows"), 1)
    })
}
