//! What the passes over one launch share: buffers as this kernel sees them, ranges of variables,
//! thread extents, fresh names.

use super::LowerError;
use super::pass::Way;
use super::pass::finish::used_buffers;
use super::pass::join::Share;
use super::pass::swizzle::Permutation;
use crate::analysis::{Ranges, simplify};
use crate::ir::device::{DStmt, index_var, map_list};
use crate::ir::{Buffer, DType, DeviceLaunch, Expr, ExprKind, Mark, Name, PrimFunc, Scope, TensorMap, ThreadTag};
use crate::target::{Kind, Target};
use crate::tile::Decision;
use std::collections::{BTreeMap, BTreeSet};

/// One launch on its way down.
pub(super) struct Nest<'a> {
    pub func: &'a PrimFunc,
    pub target: &'a Target,
    pub symbol: String,
    /// Blocks per axis.
    pub grid: [Expr; 3],
    /// Threads per axis.
    pub block: [u32; 3],
    /// Blocks per cluster, each of which is one of `grid` until `finish`; 1 where there are none.
    pub cluster: u32,
    pub min_blocks: Option<u32>,
    /// Blocks take several steps of the loop over blocks, one after the other (`roles`).
    pub several: Option<Several>,
    /// How it is to be one launch with that before it.
    pub joins: Option<Joins>,
    /// What it knows of the launches that it is one with.
    pub share: Option<Share>,
    /// All buffers by name; passes change dtypes and shapes, and add staging.
    pub buffers: BTreeMap<Name, Buffer>,
    /// Ranges of extents, thread indices and every loop variable met so far.
    pub ranges: Ranges,
    /// Which passes it goes through; barriers of a tile program are where the program has them.
    pub way: Way,
    /// What was decided for each tile call, in the order of dispatch.
    pub decisions: Vec<Decision>,
    pub taken: BTreeSet<Name>,
    /// Tensor maps that tile calls ask for.
    pub maps: Vec<TensorMap>,
    /// Register tiles that the threads of the block hold together, with their shapes and layouts.
    pub held: BTreeMap<Name, Buffer>,
    /// How arrays in shared memory are permuted.
    pub permuted: BTreeMap<Name, Permutation>,
    /// Shared arrays of which each warp has its own part, with barriers of the warp.
    pub of_warps: BTreeSet<Name>,
    /// Arrays in shared memory whose accesses barriers in shared memory order.
    pub counted: BTreeSet<Name>,
    /// Elements of what each block of a cluster has of the buffers that they share.
    pub parts: BTreeMap<Name, i64>,
    /// Shapes of tensors as fills see them, some dimensions joined.
    pub joined: BTreeMap<Name, Vec<Expr>>,
}

/// How a block comes to the tiles that it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Several {
    /// So many blocks stride over all of them.
    Strided(i64),
    /// It is given those of blocks that have not started.
    Fetched,
}

/// How a launch is one kernel with that before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Joins {
    /// Its blocks stand behind those of the other in the grid, and know nothing of them.
    Beside,
    /// Its blocks are run by those of the other that end last.
    Behind,
}

impl Joins {
    /// What a mark of the loop over blocks says.
    pub fn of(mark: &Mark) -> Option<Joins> {
        match mark {
            Mark::Merge(true) => Some(Joins::Beside),
            Mark::LastBlock(true) => Some(Joins::Behind),
            _ => None,
        }
    }
}

/// The thread axes, fastest first.
pub(super) const THREADS: [ThreadTag; 3] = [ThreadTag::ThreadX, ThreadTag::ThreadY, ThreadTag::ThreadZ];
/// The grid axes.
pub(super) const BLOCKS: [ThreadTag; 3] = [ThreadTag::BlockX, ThreadTag::BlockY, ThreadTag::BlockZ];

/// A grid axis has at most this many blocks (`2^31 - 1` on x).
const MAX_GRID: i64 = i32::MAX as i64;

impl<'a> Nest<'a> {
    /// A launch with nothing known but its shape. `body_names` are the names its body declares.
    pub fn new(
        func: &'a PrimFunc,
        target: &'a Target,
        symbol: String,
        grid: [Expr; 3],
        block: [u32; 3],
        body_names: BTreeSet<Name>,
    ) -> Nest<'a> {
        let buffers: BTreeMap<Name, Buffer> = func.buffers.iter().map(|b| (b.name.clone(), widened(b))).collect();
        let mut ranges = Ranges::of_func(func);
        for (tag, blocks) in BLOCKS.iter().zip(&grid) {
            ranges.set(tag.name(), 0, blocks.as_int().unwrap_or(MAX_GRID).max(1) - 1);
        }
        for (tag, threads) in THREADS.iter().zip(block) {
            ranges.set(tag.name(), 0, threads as i64 - 1);
        }
        let mut taken = body_names;
        taken.extend(buffers.keys().cloned());
        taken.extend(func.extents.iter().map(|e| e.name.clone()));
        Nest {
            func,
            target,
            symbol,
            grid,
            block,
            cluster: 1,
            min_blocks: None,
            several: None,
            joins: None,
            share: None,
            buffers,
            ranges,
            way: Way::of(target),
            decisions: vec![],
            taken,
            maps: vec![],
            held: BTreeMap::new(),
            permuted: BTreeMap::new(),
            of_warps: BTreeSet::new(),
            counted: BTreeSet::new(),
            parts: BTreeMap::new(),
            joined: BTreeMap::new(),
        }
    }

    /// True for a CUDA (or simulated) kernel.
    pub fn cuda(&self) -> bool {
        self.target.kind == Kind::Cuda
    }

    /// Threads of an axis, or blocks of a cluster.
    pub fn threads(&self, tag: ThreadTag) -> i64 {
        if tag == ThreadTag::ClusterX {
            return i64::from(self.cluster);
        }
        THREADS.iter().position(|t| *t == tag).map_or(1, |i| self.block[i] as i64)
    }

    /// The thread axes that have more than one thread, x first.
    pub fn live_axes(&self) -> Vec<ThreadTag> {
        THREADS.into_iter().filter(|t| self.threads(*t) > 1).collect()
    }

    /// The thread axes, and that of the blocks of a cluster where there are several.
    pub fn cluster_axes(&self) -> Vec<ThreadTag> {
        let cluster = (self.cluster > 1).then_some(ThreadTag::ClusterX);
        self.live_axes().into_iter().chain(cluster).collect()
    }

    /// The index of the thread on an axis, or of its block in the cluster.
    pub fn thread(&self, tag: ThreadTag) -> Expr {
        if self.threads(tag) == 1 { Expr::i64(0) } else { index_var(&Name::new(tag.name())) }
    }

    /// A name that nothing has: `stem`, else `stem_1`, `stem_2`, ...
    pub fn fresh(&mut self, stem: &str) -> Name {
        fresh_name(&mut self.taken, stem)
    }

    /// Statements with a value in place of a variable.
    pub fn with_value(&self, body: &[DStmt], var: &Name, value: &Expr) -> Vec<DStmt> {
        let at = |n: &Name| (n == var).then(|| value.clone());
        map_list(body, &mut |e| if e.uses_var(var) { simplify(&e.subst(&at), &self.ranges) } else { e.clone() })
    }

    /// A loop variable over `[0, extent)`.
    pub fn loop_var(&mut self, stem: &str, extent: i64) -> Name {
        let name = self.fresh(stem);
        self.ranges.set(name.clone(), 0, extent - 1);
        name
    }

    /// A new array of `len` elements, whose name is made of a stem.
    pub fn scratch(&mut self, stem: &str, dtype: DType, len: Expr, scope: Scope) -> Name {
        let name = self.fresh(stem);
        self.buffers.insert(name.clone(), Buffer::new(name.clone(), dtype, vec![len], scope));
        name
    }

    /// The buffer of that name; an error names what refers to it.
    pub fn buffer(&self, pass: &'static str, name: &Name) -> Result<&Buffer, LowerError> {
        self.buffers.get(name).ok_or_else(|| LowerError::new(pass, name, "the buffer is not declared"))
    }

    /// What the launch looks like with these statements: those of its buffers that they mention.
    pub fn form(self, body: Vec<DStmt>) -> DeviceLaunch {
        let mut used = used_buffers(&body);
        let mut note = |s: &DStmt| {
            if let DStmt::Tile(call) = s {
                call.for_each_tile(|t| used.extend([t.buffer.clone()]));
            }
            if let DStmt::Reduce(r) = s {
                used.extend([r.dst.clone()]);
            }
        };
        body.iter().for_each(|s| s.visit(&mut note));
        let buffers = self.buffers.into_values().filter(|b| used.contains(&b.name)).collect();
        let Nest { symbol, grid, block, cluster, min_blocks, .. } = self;
        DeviceLaunch { symbol, grid, block, cluster, min_blocks, buffers, body }
    }

    /// True for a buffer in registers.
    pub fn is_local(&self, name: &Name) -> bool {
        self.buffers.get(name).is_some_and(|b| b.scope == Scope::Local)
    }

    /// True for a buffer in shared memory.
    pub fn is_shared(&self, name: &Name) -> bool {
        self.buffers.get(name).is_some_and(|b| is_shared(&b.scope))
    }

    /// True for a buffer that the blocks of a cluster share.
    pub fn is_cluster(&self, name: &Name) -> bool {
        self.buffers.get(name).is_some_and(|b| b.scope == Scope::Cluster)
    }

    /// True for a buffer in tensor memory.
    pub fn is_tensor(&self, name: &Name) -> bool {
        self.buffers.get(name).is_some_and(|b| b.scope == Scope::Tensor)
    }

    /// True for a buffer in device memory.
    pub fn is_global(&self, name: &Name) -> bool {
        !self.is_local(name) && !self.is_shared(name) && !self.is_tensor(name)
    }

    /// True for an element of a buffer in device memory.
    pub fn is_global_load(&self, e: &Expr) -> bool {
        matches!(e.kind(), ExprKind::Load { buffer, .. } if self.is_global(buffer))
    }
}

/// `stem`, else `stem_1`, `stem_2`, ...: the first that is not taken, which it then is.
pub(super) fn fresh_name(taken: &mut BTreeSet<Name>, stem: &str) -> Name {
    let mut name = Name::new(stem);
    let mut n = 0;
    while !taken.insert(name.clone()) {
        n += 1;
        name = Name::new(format!("{stem}_{n}"));
    }
    name
}

/// True for an index of the block, in the grid or in its cluster.
pub(super) fn is_of_block(v: &Name) -> bool {
    v.as_str().starts_with("blockIdx.") || v.as_str() == ThreadTag::ClusterX.name()
}

/// True for the scopes of a thread block's memory.
pub(super) fn is_shared(scope: &Scope) -> bool {
    matches!(scope, Scope::Shared | Scope::SharedDyn | Scope::Cluster)
}

fn widened(b: &Buffer) -> Buffer {
    let mut b = b.clone();
    for e in b.shape.iter_mut().chain(&mut b.strides).chain(&mut b.elem_offset) {
        *e = crate::lower::pass::widen::index(e);
    }
    b
}
