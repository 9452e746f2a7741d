//! Clocks of the CUDA device: a captured graph of launches over rotated buffers, and single launches
//! between two events with the L2 cooled by reading.

use super::Stream;
use super::launch::{Bound, launch};
use crate::runner::device::{Outcome, Region, Timer};
use cudarc::driver::{result, sys};
use std::ffi::CString;
use std::rc::Rc;

/// Reads at least this much, and twice the L2, before a graph that cools itself: its first run finds
/// nothing of the last sample, and the GPU is busy while the graph is enqueued.
const FILLER_BYTES: usize = 128 << 20;
/// A graph lasts about this long, within the limits below.
const GRAPH_NS: f64 = 2e6;
/// Most sets of buffers that a graph goes through.
pub const MOST_SETS: usize = RUNS.1;
/// Fewest and most runs in a graph. One is enough of what lasts longer than a graph should: the events
/// around it are good to a thousandth of that.
const RUNS: (usize, usize) = (1, 64);

/// Reads a large buffer of zeros, which leaves the L2 cold and clean.
pub struct Cooler {
    function: sys::CUfunction,
    buffer: Region,
    blocks: u32,
}

impl Cooler {
    /// Loads the reading kernel (PTX, compiled by the driver for any architecture).
    pub fn new(stream: &Stream, buffer: Region, sms: u32) -> Outcome<Cooler> {
        let ptx = CString::new(include_str!("cool.ptx")).unwrap_or_default();
        // SAFETY: a terminated text; the module stays loaded.
        let function = unsafe {
            let module = result::module::load_data(ptx.as_ptr().cast());
            let module = stream.health.check(module, "loading the kernel that cools the L2")?;
            result::module::get_function(module, CString::from(c"daylight_cool"))
        };
        let function = stream.health.check(function, "looking up the kernel that cools the L2")?;
        Ok(Cooler { function, buffer, blocks: sms * 4 })
    }

    fn read(&self, stream: &Stream, bytes: usize) -> Outcome<()> {
        let mut words = [self.buffer.at, (bytes.min(self.buffer.bytes) / 16) as u64, self.buffer.at];
        launch(stream, self.function, [self.blocks, 1, 1], [512, 1, 1], 0, &mut words)
    }
}

/// Two events with timing.
struct Events {
    start: sys::CUevent,
    end: sys::CUevent,
}

impl Events {
    fn new(stream: &Stream) -> Outcome<Events> {
        let event = || result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let start = stream.health.check(event(), "making an event")?;
        let end = stream.health.check(event(), "making an event")?;
        Ok(Events { start, end })
    }

    /// Nanoseconds of GPU time between the events around what `work` enqueues.
    fn around(&self, stream: &Stream, work: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
        let health = &stream.health;
        // SAFETY: events and stream are alive.
        unsafe {
            health.check(result::event::record(self.start, stream.handle), "recording an event")?;
            work()?;
            health.check(result::event::record(self.end, stream.handle), "recording an event")?;
            health.check(result::event::synchronize(self.end), "running the kernel")?;
            let ms = health.check(result::event::elapsed(self.start, self.end), "reading the clock")?;
            Ok(f64::from(ms) * 1e6)
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; an error means a lost context, reported elsewhere.
        unsafe {
            let _ = result::event::destroy(self.start);
            let _ = result::event::destroy(self.end);
        }
    }
}

/// Nanoseconds of what `work` enqueues, after waiting for it.
pub fn between_events(stream: &Stream, work: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    Events::new(stream)?.around(stream, work)
}

/// How many runs one graph holds and how many bytes are read before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rotation {
    runs: usize,
    /// All there is where the runs don't cool the L2 for each other.
    read: usize,
}

impl Rotation {
    /// For runs over `sets` separate sets of buffers that touch `touched_bytes` each.
    pub fn new(sets: usize, estimate_ns: f64, touched_bytes: u64, l2_bytes: u64) -> Rotation {
        let runs = (GRAPH_NS / estimate_ns.max(1.0)).ceil() as usize;
        let runs = runs.clamp(RUNS.0, RUNS.1);
        let cycle = runs.min(sets) as u64 * touched_bytes;
        if cycle >= 3 * l2_bytes {
            return Rotation { runs, read: FILLER_BYTES.max(2 * l2_bytes as usize) };
        }
        // Cooled once before the graph: no set may come twice.
        Rotation { runs: runs.min(sets), read: usize::MAX }
    }
}

/// Replays a captured graph of runs over rotated buffers.
pub struct GraphTimer {
    stream: Rc<Stream>,
    cooler: Rc<Cooler>,
    events: Events,
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
    rotation: Rotation,
}

impl GraphTimer {
    /// Captures the graph.
    pub fn new(stream: Rc<Stream>, cooler: Rc<Cooler>, runs: Vec<Bound>, rotation: Rotation) -> Outcome<GraphTimer> {
        let events = Events::new(&stream)?;
        let graph = capture(&stream, runs, rotation.runs)?;
        let flags = sys::CUgraphInstantiate_flags_enum(0);
        // SAFETY: the graph is complete.
        let exec = stream.health.check(unsafe { result::graph::instantiate(graph, flags) }, "building the graph")?;
        let timer = GraphTimer { stream, cooler, events, graph, exec, rotation };
        // SAFETY: graph and stream are alive.
        let uploaded = unsafe { result::graph::upload(timer.exec, timer.stream.handle) };
        timer.stream.health.check(uploaded, "uploading the graph")?;
        Ok(timer)
    }
}

fn capture(stream: &Stream, mut runs: Vec<Bound>, count: usize) -> Outcome<sys::CUgraph> {
    let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let sets = runs.len().max(1);
    // SAFETY: the stream is alive; the capture is ended on every path.
    unsafe {
        stream.health.check(result::stream::begin_capture(stream.handle, mode), "starting a capture")?;
        let enqueued = (0..count).try_for_each(|i| runs.get_mut(i % sets).map_or(Ok(()), |r| r.enqueue(stream)));
        let graph = result::stream::end_capture(stream.handle);
        enqueued?;
        stream.health.check(graph, "ending a capture")
    }
}

impl Timer for GraphTimer {
    fn sample(&mut self) -> Outcome<f64> {
        self.cooler.read(&self.stream, self.rotation.read)?;
        let total = self.events.around(&self.stream, || {
            // SAFETY: graph and stream are alive.
            let launched = unsafe { result::graph::launch(self.exec, self.stream.handle) };
            self.stream.health.check(launched, "launching the graph")
        })?;
        Ok(total / self.rotation.runs as f64)
    }

    fn runs(&self) -> usize {
        self.rotation.runs
    }
}

impl Drop for GraphTimer {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; an error means a lost context, reported elsewhere.
        unsafe {
            let _ = result::graph::exec_destroy(self.exec);
            let _ = result::graph::destroy(self.graph);
        }
    }
}

/// Times single runs between two events, each after half a gigabyte was read.
pub struct ColdTimer {
    stream: Rc<Stream>,
    cooler: Rc<Cooler>,
    runs: Vec<Bound>,
    next: usize,
}

impl ColdTimer {
    /// Takes the runs in turn.
    pub fn new(stream: Rc<Stream>, cooler: Rc<Cooler>, runs: Vec<Bound>) -> ColdTimer {
        ColdTimer { stream, cooler, runs, next: 0 }
    }
}

impl Timer for ColdTimer {
    fn sample(&mut self) -> Outcome<f64> {
        let at = self.next % self.runs.len().max(1);
        self.next += 1;
        self.cooler.read(&self.stream, usize::MAX)?;
        let (stream, run) = (&self.stream, self.runs.get_mut(at));
        between_events(stream, || run.map_or(Ok(()), |r| r.enqueue(stream)))
    }

    fn runs(&self) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_are_cold_one_way_or_the_other() {
        let mb = 1 << 20;
        let (all, filler) = (usize::MAX, 128 << 20);
        // Large sets cool each other; long runs need few.
        assert_eq!(Rotation::new(4, 1e5, 64 * mb, 60 * mb), Rotation { runs: 20, read: filler });
        assert_eq!(Rotation::new(2, 5e6, 512 * mb, 60 * mb), Rotation { runs: 1, read: filler });
        assert_eq!(Rotation::new(2, 5e6, 512 * mb, 126 * mb), Rotation { runs: 1, read: 252 << 20 });
        // Small sets never fill the L2: cooled, and each set once.
        assert_eq!(Rotation::new(64, 3e3, 4096, 60 * mb), Rotation { runs: 64, read: all });
        assert_eq!(Rotation::new(3, 3e3, 4096, 60 * mb), Rotation { runs: 3, read: all });
        // Many medium sets would do, but a slow kernel gets through few of them.
        assert_eq!(Rotation::new(60, 1e6, 3 * mb, 60 * mb), Rotation { runs: 2, read: all });
    }
}
