//! What tile programs may hold: groups of asynchronous copies, barriers in shared memory, fences. TVM
//! spells them in two ways: as chains that name the whole instruction, which are printed, and shorter.

/// Instructions that people write in tile programs: all else is made by lowering.
// The text of a variant says what its fields are.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// Closes the thread's group of asynchronous copies (`cp.async.commit_group`).
    CpAsyncCommit,
    /// Waits until at most `left` of the thread's newest groups are pending (`cp.async.wait_group`).
    CpAsyncWait { left: u32 },
    /// `bar`: makes a barrier of a 64-bit word in shared memory that expects `arrivals` per phase.
    MbarrierInit { arrivals: u32 },
    /// Makes initialised barriers visible to the asynchronous proxy (`fence.mbarrier_init`).
    MbarrierFence,
    /// `bar`: arrives once.
    MbarrierArrive,
    /// `bar; bytes`: arrives once and adds `bytes` to what the phase waits for
    /// (`mbarrier.arrive.expect_tx`).
    MbarrierExpect,
    /// `bar; parity`: waits until the phase of that parity (0 or 1) has completed.
    MbarrierWait,
    /// Closes the thread's group of bulk stores.
    BulkCommit,
    /// Waits until at most `left` groups of bulk stores are pending; with `read`, only until their
    /// source has been read.
    BulkWait { left: u32, read: bool },
    /// Orders the thread's accesses to shared memory before asynchronous ones
    /// (`fence.proxy.async.shared::cta`).
    AsyncFence,
    /// Orders what the warpgroup did to its registers before matrix instructions that use them
    /// (`wgmma.fence`).
    WgmmaFence,
    /// Closes the warpgroup's group of matrix instructions (`wgmma.commit_group`).
    WgmmaCommit,
    /// Waits until at most `left` of the warpgroup's newest groups are pending (`wgmma.wait_group`).
    WgmmaWait { left: u32 },
}

/// Every spelling after `T.`; the first of each is printed.
const SPELLINGS: [(Sync, &[&str]); 14] = [
    (Sync::CpAsyncCommit, &["ptx.cp.async_.commit_group", "ptx.cp_async.commit_group"]),
    (Sync::CpAsyncWait { left: 0 }, &["ptx.cp.async_.wait_group", "ptx.cp_async.wait_group"]),
    (Sync::MbarrierInit { arrivals: 0 }, &["ptx.mbarrier.init.shared.b64", "ptx.mbarrier.init"]),
    (Sync::MbarrierFence, &["ptx.fence.mbarrier_init.release.cluster", "ptx.fence.mbarrier_init"]),
    (Sync::MbarrierArrive, &["ptx.mbarrier.arrive.shared.b64", "ptx.mbarrier.arrive"]),
    (Sync::MbarrierExpect, &["ptx.mbarrier.arrive.expect_tx.shared.b64", "ptx.mbarrier.arrive.expect_tx"]),
    (Sync::MbarrierWait, &["cuda.mbarrier_wait", "ptx.mbarrier.try_wait"]),
    (Sync::AsyncFence, &["ptx.fence.proxy.async_.shared__cta", "ptx.fence.proxy_async", "ptx.fence.proxy"]),
    (Sync::BulkCommit, &["ptx.cp.async_.bulk.commit_group", "ptx.cp_async.bulk.commit_group"]),
    (Sync::BulkWait { left: 0, read: false }, &["ptx.cp.async_.bulk.wait_group", "ptx.cp_async.bulk.wait_group"]),
    (Sync::BulkWait { left: 0, read: true }, &["ptx.cp.async_.bulk.wait_group.read"]),
    (Sync::WgmmaFence, &["ptx.wgmma.fence.sync.aligned", "ptx.wgmma.fence"]),
    (Sync::WgmmaCommit, &["ptx.wgmma.commit_group.sync.aligned", "ptx.wgmma.commit_group"]),
    (Sync::WgmmaWait { left: 0 }, &["ptx.wgmma.wait_group.sync.aligned", "ptx.wgmma.wait_group"]),
];

impl Sync {
    /// Every spelling.
    pub fn spellings() -> impl Iterator<Item = &'static str> {
        SPELLINGS.iter().flat_map(|(_, names)| names.iter().copied())
    }

    /// The instruction of that spelling, with zeros for its numbers.
    pub fn by_spelling(name: &str) -> Option<Sync> {
        SPELLINGS.iter().find(|(_, names)| names.contains(&name)).map(|(sync, _)| *sync)
    }

    /// The spelling that is printed.
    pub fn spelling(self) -> &'static str {
        let kind = match self {
            Sync::CpAsyncWait { .. } => Sync::CpAsyncWait { left: 0 },
            Sync::MbarrierInit { .. } => Sync::MbarrierInit { arrivals: 0 },
            Sync::BulkWait { read, .. } => Sync::BulkWait { left: 0, read },
            Sync::WgmmaWait { .. } => Sync::WgmmaWait { left: 0 },
            other => other,
        };
        SPELLINGS.iter().find(|(sync, _)| *sync == kind).map_or("", |(_, names)| names[0])
    }
}
