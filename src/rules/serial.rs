//! `serial.cuda` and `serial.cpu`: blocks with loops inside, whose statements have an order.
//!
//! When: every block has a loop inside, and so none that reduces: a scan over each row, a scatter, a search, a reduction
//! of a length of its own for each output. No other rule takes such a block (`straight_bodies`).
//! How: all iterations fused, one after the other on a thread of a GPU or in chunks of a task of the CPU, each of which
//! runs the block's statements as they are written.
//! Declines: `target_kind`, `loops_inside`.
//!
//! ```text
//! serial.cuda on cuda:sm_90a
//! before: float32 A[4096, 256]
//!         float32 O[i] = O[i] + A[i, k] | in order
//! after:  blockIdx.x 64, threadIdx.x 64: loop 256: O += A
//! ```
//!
//! ```text
//! serial.cpu on cpu
//! before: float32 A[4096, 256]
//!         float32 O[i] = O[i] + A[i, k] | in order
//! after:  parallel 4096: loop 256: O += A
//! ```

use crate::analysis::Decline;
use crate::rules::find::shape::{find_block, size};
use crate::rules::parts::*;

/// The GPU form.
pub const CUDA: Rule = Rule::new(Kind::Cuda, "serial.cuda", include_str!("schedules/serial.cuda.toml"), cuda);

/// The CPU form.
pub const CPU: Rule = Rule::new(Kind::Cpu, "serial.cpu", include_str!("schedules/serial.cpu.toml"), cpu);

/// The blocks, with how many iterations each has where that is constant.
struct Serial(Vec<(Name, Option<i64>)>);

struct Cuda(Serial);

struct Cpu(Serial);

fn cuda(ask: &Ask) -> Answer {
    Ok(Found::new(ask.start.clone(), Cuda(serial(ask)?)))
}

fn cpu(ask: &Ask) -> Answer {
    Ok(Found::new(ask.start.clone(), Cpu(serial(ask)?)))
}

fn serial(ask: &Ask) -> Result<Serial, Decline> {
    let mut found = vec![];
    for name in ask.blocks() {
        let block = find_block(ask.start.func(), &name);
        if !block.is_serial() {
            return Err(ask.no("loops_inside", format!("block `{name}` has no loop inside")));
        }
        let iterations = size(&axes_of_kind(ask.start, &name, IterKind::Spatial));
        found.push((name, iterations));
    }
    Ok(Serial(found))
}

impl Serial {
    fn fewest(&self) -> Option<i64> {
        self.0.iter().map(|(_, n)| *n).min().flatten()
    }
}

impl Accepted for Cuda {
    fn constrain(&self, space: Space, _: &Target) -> Space {
        step_fits(space, self.0.fewest(), |k| k.get("threads"))
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        for (block, _) in &self.0.0 {
            let all = fuse_kind(s, block, IterKind::Spatial)?;
            let [grid, thread] = split(s, &all, [None, Some(k.get("threads"))])?;
            s.bind(&grid, ThreadTag::BlockX)?;
            s.bind(&thread, ThreadTag::ThreadX)?;
        }
        Ok(())
    }

    /// How long a body takes is not known without measuring.
    fn outline(&self, _: &Knobs) -> Option<Outline> {
        None
    }
}

impl Accepted for Cpu {
    fn constrain(&self, space: Space, _: &Target) -> Space {
        step_fits(space, self.0.fewest(), |k| k.get("iterations"))
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        for (block, _) in &self.0.0 {
            let all = fuse_kind(s, block, IterKind::Spatial)?;
            let [task, _] = split(s, &all, [None, Some(k.get("iterations"))])?;
            s.parallel(&task)?;
        }
        Ok(())
    }

    fn outline(&self, _: &Knobs) -> Option<Outline> {
        None
    }
}
