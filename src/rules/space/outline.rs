//! What a point's kernels look like from afar: enough to guess how long they take, known without
//! scheduling anything. Rules attach outlines to their spaces; the tuner's prior reads them.

use super::tiles::Tiles;

/// The launches of one candidate, in order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outline {
    /// The launches.
    pub launches: Vec<LaunchOutline>,
}

impl Outline {
    /// One launch.
    pub fn one(launch: LaunchOutline) -> Outline {
        Outline { launches: vec![launch] }
    }

    /// One launch, and a second where it leaves several parts.
    pub fn in_parts(first: LaunchOutline, parts: i64, second: impl FnOnce() -> LaunchOutline) -> Outline {
        Outline { launches: [Some(first), (parts > 1).then(second)].into_iter().flatten().collect() }
    }
}

/// One launch. On the CPU a block is a task of the parallel loop, and has one thread.
#[derive(Clone, PartialEq, Debug)]
pub struct LaunchOutline {
    /// Blocks of the grid.
    pub blocks: i64,
    /// Threads of a block.
    pub threads: i64,
    /// Blocks per multiprocessor that the launch bounds ask for, which limits registers.
    pub min_blocks: i64,
    /// Registers of a thread besides those of loads in flight.
    pub state_regs: i64,
    /// Registers that the loads in flight want.
    pub load_regs: i64,
    /// Shared memory of a block in bytes.
    pub smem: i64,
    /// Width of one load in bytes.
    pub load_bytes: i64,
    /// Bytes that one thread has in flight.
    pub in_flight: i64,
    /// Trips of the main loop, one after the other; each waits for its loads.
    pub steps: i64,
    /// Bytes read from DRAM.
    pub read: i64,
    /// Bytes written.
    pub written: i64,
    /// Steps of later passes over what caches or shared memory keep, in latencies of DRAM.
    pub again: f64,
    /// Elements stepped over for each element there is, 1 where the steps fit.
    pub padding: f64,
    /// Passes that the accesses of a warp take in all steps together (`passes`), where they are others than those of
    /// loads in flight and of results.
    pub passes: Option<f64>,
    /// Bytes of the sectors that accesses touch for each byte that they want.
    pub sectors: f64,
    /// Instructions of one thread in one step.
    pub instructions: i64,
    /// Scalar operations of the launch.
    pub flops: i64,
    /// True where matrix instructions do them.
    pub tensor_core: bool,
    /// How threads combine what they have.
    pub combine: Combine,
    /// How often they do, one time after the other.
    pub rounds: i64,
    /// Blocks of a cluster, which combine together.
    pub cluster: i64,
    /// True where those add what each of them summed.
    pub adds_parts: bool,
    /// True where a block first fills shared memory and waits for that.
    pub staged: bool,
    /// True where that is what all blocks read, before each reads its own.
    pub shares: bool,
    /// True where it reads what the launch before has just written, from the cache.
    pub from_cache: bool,
    /// True where that launch's blocks do it that end last: it is none of its own. Its sizes are still those of one, which is what
    /// the trees have seen.
    pub last_block: bool,
    /// True where no drawn function has judged the constants: it orders candidates and chooses no default, and accesses
    /// and what a block does alone are not counted.
    pub unjudged: bool,
    /// Of a product on tensor cores, how it is cut into tiles.
    pub tiles: Option<Tiles>,
}

impl Default for LaunchOutline {
    /// One thread that does nothing.
    fn default() -> LaunchOutline {
        LaunchOutline {
            blocks: 1,
            threads: 1,
            min_blocks: 1,
            state_regs: 0,
            load_regs: 0,
            smem: 0,
            load_bytes: 0,
            in_flight: 0,
            steps: 0,
            read: 0,
            written: 0,
            again: 0.0,
            padding: 1.0,
            passes: None,
            sectors: 1.0,
            instructions: 0,
            flops: 0,
            tensor_core: false,
            combine: Combine::default(),
            rounds: 1,
            cluster: 1,
            adds_parts: false,
            staged: false,
            shares: false,
            from_cache: false,
            last_block: false,
            unjudged: false,
            tiles: None,
        }
    }
}

/// Lanes that access memory together, and bytes that pass between a multiprocessor and its first-level cache or shared
/// memory at a time.
const LANES: f64 = 32.0;
const PASS: f64 = 128.0;
/// Passes in the time of an access, however narrow: its address, its tag and the register that waits for it.
const LEAST: f64 = 4.0;

/// Passes that an access of a warp takes, of `bytes` of each lane side by side in global memory.
pub fn passes(bytes: i64) -> f64 {
    in_shared(bytes).max(LEAST)
}

/// The same in shared memory, without bank conflicts.
pub fn in_shared(bytes: i64) -> f64 {
    LANES * bytes as f64 / PASS
}

impl LaunchOutline {
    /// Passes that the accesses of a warp take in all steps together.
    pub fn all_passes(&self) -> f64 {
        let width = self.load_bytes.max(1);
        let loads = (self.steps * self.in_flight) as f64 / width as f64;
        let threads = (self.blocks * self.threads).max(1) as f64;
        let stores = self.written as f64 / threads / width as f64;
        self.passes.unwrap_or_else(|| (loads + stores) * passes(width))
    }
}

/// How the threads of a block combine their results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Combine {
    /// Threads that meet through warp shuffles; 1 where none do.
    pub lanes: i64,
    /// Parts that meet in shared memory; 1 where none do.
    pub parts: i64,
    /// Values per thread.
    pub values: i64,
}

impl Default for Combine {
    /// Nothing to combine.
    fn default() -> Combine {
        Combine { lanes: 1, parts: 1, values: 1 }
    }
}

impl Combine {
    /// `threads` threads share each of `values` values: within warps by shuffles, between them through
    /// shared memory.
    pub fn across(threads: i64, values: i64, warp: i64) -> Combine {
        Combine { lanes: threads.clamp(1, warp.max(1)), parts: (threads / warp.max(1)).max(1), values }
    }
}
