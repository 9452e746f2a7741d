//! What a compiled candidate takes of a multiprocessor, held against the target's limits: a kernel that nobody
//! launches here must be one that can be launched there.

use crate::backend::{Plan, PlanLaunch, Resources};
use crate::ir::Reason;
use crate::target::{Kind, Target};
use serde::Serialize;

/// The predicate of points that are compiled and not measured, because their kernels spill registers.
pub const SPILLS: &str = "spills";

/// Why kernels with those resources are not worth measuring: they keep registers in memory. `None` where they do not.
pub fn spills(res: Resources) -> Option<Reason> {
    let why = || Reason::new(SPILLS, format!("{} bytes of registers are spilled per thread", res.spill));
    (res.spill > 0).then(why)
}

/// Registers, shared memory, and how much of the device they leave at work, of the launch that leaves least.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Occupancy {
    /// Registers of a thread, the most of all kernels.
    pub registers: u32,
    /// Bytes of registers that a thread spills, the most of all kernels.
    pub spilled: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block, static and dynamic.
    pub shared_bytes: u32,
    /// Blocks that a multiprocessor holds at a time.
    pub resident_blocks: u32,
    /// Their threads over those that a multiprocessor can hold.
    pub occupancy: f64,
    /// How often all multiprocessors fill up before every block has run.
    pub waves: f64,
}

impl Occupancy {
    /// Of kernels with that plan and those resources. `None` on a CPU, and where extents are open.
    pub fn of(plan: &Plan, res: Resources, target: &Target) -> Option<Occupancy> {
        if target.kind != Kind::Cuda {
            return None;
        }
        let launches: Option<Vec<Occupancy>> = plan.launches.iter().map(|l| one(l, res, target)).collect();
        launches?.into_iter().min_by(|a, b| a.occupancy.total_cmp(&b.occupancy))
    }

    /// Says which limit keeps the target from running a block.
    ///
    /// # Errors
    /// `threads_per_block`, `shared_memory` or `registers`.
    pub fn check(&self, target: &Target) -> Result<(), Reason> {
        let over = |name: &'static str, has: u32, what: &str, most: u32| {
            Err(Reason::new(name, format!("{has} {what} exceed {most}")))
        };
        if self.threads > target.max_threads {
            return over("threads_per_block", self.threads, "threads", target.max_threads);
        }
        if self.shared_bytes > target.smem_per_block {
            return over("shared_memory", self.shared_bytes, "bytes of shared memory", target.smem_per_block);
        }
        if self.resident_blocks == 0 {
            let all = self.registers * self.threads;
            return over("registers", all, "registers of a block", target.regs_per_sm);
        }
        Ok(())
    }
}

fn one(l: &PlanLaunch, res: Resources, target: &Target) -> Option<Occupancy> {
    let count = |dims: &[crate::backend::Dim; 3]| dims.iter().map(|d| d.as_const()).product::<Option<i64>>();
    let threads = u32::try_from(count(&l.block)?).ok()?;
    let shared_bytes = u32::try_from(l.dynamic_smem.as_const()?).ok()?.saturating_add(res.smem);
    let resident_blocks = target.resident_blocks(threads, res.regs, shared_bytes);
    let places = f64::from(resident_blocks.max(1)) * f64::from(target.sms.max(1));
    Some(Occupancy {
        registers: res.regs,
        spilled: res.spill,
        threads,
        shared_bytes,
        resident_blocks,
        occupancy: f64::from(resident_blocks * threads) / f64::from(target.threads_per_sm.max(1)),
        waves: count(&l.grid)? as f64 / places,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Dim;
    use crate::target::HostCpu;

    fn plan(launches: &[(i64, i64, i64)]) -> Plan {
        let launch = |(grid, threads, smem): &(i64, i64, i64)| PlanLaunch {
            symbol: "k".into(),
            grid: [Dim::Const(*grid), Dim::Const(1), Dim::Const(1)],
            block: [Dim::Const(*threads), Dim::Const(1), Dim::Const(1)],
            cluster: [Dim::Const(1), Dim::Const(1), Dim::Const(1)],
            dynamic_smem: Dim::Const(*smem),
            pdl: false,
            args: vec![],
        };
        Plan { launches: launches.iter().map(launch).collect(), ..Plan::default() }
    }

    fn target(id: &str) -> Target {
        Target::parse(id, &HostCpu::default()).expect("a target")
    }

    #[test]
    fn the_launch_that_leaves_least_at_work_counts() {
        let t = target("cuda:sm_100a");
        let res = Resources { regs: 64, spill: 0, smem: 1024 };
        let both = plan(&[(4 * i64::from(t.sms), 256, 0), (8, 32, 100 << 10)]);
        let found = Occupancy::of(&both, res, &t).expect("constant sizes");
        assert_eq!((found.threads, found.shared_bytes, found.resident_blocks), (32, 101 << 10, 2));
        let first = Occupancy::of(&plan(&[(4 * i64::from(t.sms), 256, 0)]), res, &t).expect("constant sizes");
        assert_eq!((first.resident_blocks, first.occupancy, first.waves), (4, 0.5, 1.0));
        assert_eq!(first.check(&t), Ok(()));
        assert_eq!(Occupancy::of(&both, res, &target("cpu:x86-64-v3")), None);
    }

    #[test]
    fn each_limit_has_its_name() {
        let broken = |id: &str, (threads, smem): (i64, i64), regs: u32| {
            let t = target(id);
            let found = Occupancy::of(&plan(&[(8, threads, smem)]), Resources { regs, spill: 0, smem: 0 }, &t);
            found.expect("constant sizes").check(&t).expect_err("too much").predicate.to_string()
        };
        assert_eq!(broken("cuda:sm_100a", (2048, 0), 16), "threads_per_block");
        assert_eq!(broken("cuda:sm_120a", (256, 100 << 10), 16), "shared_memory");
        assert_eq!(broken("cuda:sm_100a", (1024, 0), 96), "registers");
        let fits = |id: &str| {
            let t = target(id);
            Occupancy::of(&plan(&[(8, 256, 100 << 10)]), Resources::default(), &t).expect("sizes").check(&t)
        };
        assert_eq!(fits("cuda:sm_100a"), Ok(()));
    }
}
