//! The runner over a device that only pretends: what is sampled, dropped, repeated and refused.

use daylight::backend::{Dim, Plan, PlanParam, Role};
use daylight::ir::DType;
use daylight::measure::{LocalRunner, Sampling};
use daylight::runner::device::{Device, ModuleId, Outcome, Protocol, Region, Run, Timer};
use daylight::runner::{Candidate, DeviceFacts, DeviceState, Problem, RunFailure, Runner};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What the device is told to do, and what was asked of it.
#[derive(Default)]
struct Script {
    /// Samples of all timers in the order taken; 100 microseconds when there are no more.
    samples: RefCell<VecDeque<f64>>,
    /// States in the order read; the last one stays.
    states: RefCell<VecDeque<DeviceState>>,
    taken: Cell<usize>,
    read: Cell<usize>,
    allocated: Cell<usize>,
}

struct Pretender {
    facts: DeviceFacts,
    script: Rc<Script>,
}

struct PretendTimer(Rc<Script>);

impl Timer for PretendTimer {
    fn sample(&mut self) -> Outcome<f64> {
        self.0.taken.set(self.0.taken.get() + 1);
        Ok(self.0.samples.borrow_mut().pop_front().unwrap_or(1e5))
    }

    fn runs(&self) -> usize {
        20
    }
}

impl Device for Pretender {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn rotation(&self) -> (u64, usize) {
        (3 * self.facts.l2_bytes, 8)
    }

    fn free_bytes(&mut self) -> Outcome<u64> {
        Ok(1 << 40)
    }

    fn allocate(&mut self, bytes: usize) -> Outcome<Region> {
        self.script.allocated.set(self.script.allocated.get() + 1);
        Ok(Region { at: 1 << 20, bytes })
    }

    fn free(&mut self, _: Region) {
        self.script.allocated.set(self.script.allocated.get() - 1);
    }

    fn upload(&mut self, _: u64, _: &[u8]) -> Outcome<()> {
        Ok(())
    }

    /// Everything looks like an untouched guard zone.
    fn download(&mut self, _: u64, bytes: &mut [u8]) -> Outcome<()> {
        bytes.fill(0xff);
        Ok(())
    }

    fn gather(&mut self, _: u64, _: usize, _: &[u64], bytes: &mut [u8]) -> Outcome<()> {
        bytes.fill(0);
        Ok(())
    }

    fn differ(&mut self, _: u64, _: u64, _: usize) -> Outcome<bool> {
        Ok(true)
    }

    fn copy(&mut self, _: u64, _: u64, _: usize) -> Outcome<()> {
        Ok(())
    }

    fn fill(&mut self, _: Region, _: u8) -> Outcome<()> {
        Ok(())
    }

    fn load(&mut self, _: &Path, _: &[String]) -> Outcome<ModuleId> {
        Ok(ModuleId(0))
    }

    fn unload(&mut self, _: ModuleId) {}

    fn run(&mut self, _: ModuleId, _: &Run) -> Outcome<f64> {
        Ok(1e5)
    }

    fn begin(&mut self, _: ModuleId, _: Vec<Run>, _: Protocol, _: f64, _: u64) -> Outcome<Box<dyn Timer>> {
        Ok(Box::new(PretendTimer(self.script.clone())))
    }

    fn state(&mut self) -> Option<DeviceState> {
        self.script.read.set(self.script.read.get() + 1);
        let mut states = self.script.states.borrow_mut();
        if states.len() > 1 { states.pop_front() } else { states.front().cloned() }
    }

    fn is_lost(&self) -> bool {
        false
    }

    fn policy(&self, _: Protocol) -> &'static str {
        "pretended-v1"
    }
}

/// A runner of a problem that moves `bytes`, at most 10 of them in a nanosecond.
fn runner(samples: &[f64], states: &[DeviceState], bytes: u64) -> (LocalRunner, Rc<Script>) {
    let script = Rc::new(Script {
        samples: RefCell::new(samples.iter().copied().collect()),
        states: RefCell::new(states.iter().cloned().collect()),
        ..Script::default()
    });
    let facts = DeviceFacts { dram_gbps: 10.0, l2_bytes: 1 << 16, ..DeviceFacts::default() };
    let device = Pretender { facts, script: script.clone() };
    let mut runner = LocalRunner::new(Box::new(device), Protocol::Rotate, Sampling::graph());
    runner.prepare(&Problem { bytes: Some(bytes), ..Problem::default() }).expect("it takes the problem");
    (runner, script)
}

fn candidate(id: u64) -> Candidate {
    let name = "B".to_string();
    let param = PlanParam { index: 0, name, dtype: DType::F32, shape: vec![Dim::Const(1000)], role: Role::Out };
    Candidate { id, file: PathBuf::new(), plan: Plan { params: vec![param], workspaces: vec![], launches: vec![] } }
}

fn state(sm_mhz: u32) -> DeviceState {
    DeviceState { sm_mhz, mem_mhz: 3201, temperature_c: 50, throttle: vec![], processes: 0, repeats: 0 }
}

#[test]
fn a_quiet_candidate_takes_four_graphs_and_one_look_at_the_device() {
    let (mut runner, script) = runner(&[], &[state(1980)], 4000);
    let timing = runner.time(&candidate(1), None).expect("it is timed");
    assert_eq!((timing.samples_ns.len(), script.taken.get(), timing.dropped), (3, 4, false));
    assert_eq!((timing.state, script.read.get()), (Some(state(1980)), 2));
    assert_eq!(timing.policy, "pretended-v1");
    runner.time(&candidate(2), None).expect("it is timed");
    assert_eq!((script.taken.get(), script.read.get()), (8, 3), "the state before is that after the last one");
}

#[test]
fn slow_candidates_cost_one_or_two_graphs_and_no_look() {
    let (mut runner, script) = runner(&[2.1e5, 1.5e5, 1.49e5], &[state(1980)], 4000);
    let hopeless = runner.time(&candidate(1), Some(1e5)).expect("it is timed");
    assert_eq!((hopeless.samples_ns, hopeless.dropped, hopeless.state), (vec![2.1e5], true, None));
    assert_eq!(script.read.get(), 0);
    let slow = runner.time(&candidate(2), Some(1e5)).expect("it is timed");
    assert_eq!((slow.samples_ns, slow.dropped, script.taken.get()), (vec![1.49e5], true, 3));
    assert_eq!(script.read.get(), 1, "before the first batch and not after");
}

#[test]
fn a_disturbed_batch_is_taken_again_and_its_state_kept() {
    let samples = [9e4, 9e4, 9e4, 9e4, 1.2e5, 1.2e5, 1.2e5];
    let (mut runner, script) = runner(&samples, &[state(1980), state(1500), state(1500)], 4000);
    let timing = runner.time(&candidate(1), None).expect("it is timed");
    assert_eq!(timing.samples_ns, [1.2e5; 3], "the samples at the lower clock stand alone");
    assert_eq!(timing.state, Some(DeviceState { repeats: 1, ..state(1500) }));
    assert_eq!((script.taken.get(), script.read.get()), (7, 3));
}

#[test]
fn turns_are_repeated_together() {
    let (mut runner, script) = runner(&[], &[state(1980), state(1800), state(1600), state(1400)], 4000);
    let timings = runner.time_interleaved(&[candidate(1), candidate(2)], 6);
    for timing in timings {
        let timing = timing.expect("it is timed");
        assert_eq!(timing.samples_ns.len(), 6);
        assert_eq!(timing.state, Some(DeviceState { repeats: 2, ..state(1400) }), "three batches are enough");
    }
    assert_eq!(script.taken.get(), 2 * (1 + 3 * 6));
    drop(runner);
}

#[test]
fn a_time_that_reading_cannot_have_is_refused_and_one_that_writing_can_is_not() {
    // At least 2 milliseconds at the pins, were it read; the 4000 bytes written may stay in the cache.
    let (mut broken, _) = runner(&[], &[], 20_000_000);
    assert_eq!(broken.time(&candidate(1), None).expect_err("too fast").failure, RunFailure::Impossible);
    let quick = [300.0; 8];
    let (mut written, _) = runner(&quick, &[], 4000);
    let timing = written.time(&candidate(1), None).expect("a cache takes 4000 bytes in 300 ns");
    assert_eq!((timing.samples_ns, timing.state), (vec![300.0; 3], None));
}
