//! What a variant knows about the place of a call, and what it needs to emit code there.

use super::View;
use crate::analysis::{Ranges, simplify};
use crate::ir::{BinOp, Buffer, DType, ExecScope, Expr, Name, Scope, TensorMap, Tile, TileArg, TileCall};
use crate::target::Target;
use std::collections::BTreeMap;

/// Lanes of a warp; every GPU that we build for has 32.
pub const WARP: i64 = 32;
/// Threads of a warpgroup.
pub const WARPGROUP: i64 = 128;

/// Which threads reach a call, the most first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Active {
    /// All threads of the block.
    All,
    /// All threads of some warpgroups.
    WholeWarpgroups,
    /// All lanes of some warps.
    WholeWarps,
    /// Some threads.
    Some,
}

/// The place of a call.
#[derive(Clone, Copy)]
pub struct Cx<'a> {
    /// What the kernel is built for.
    pub target: &'a Target,
    /// Threads per axis of the block.
    pub block: [u32; 3],
    /// All buffers in reach.
    pub buffers: &'a BTreeMap<Name, Buffer>,
    /// Buffers as the call alone sees them, in place of those of the same name.
    pub shown: &'a [Buffer],
    /// Ranges of thread indices, loop variables and extents.
    pub ranges: &'a Ranges,
    /// Which threads reach the call.
    pub active: Active,
}

impl Cx<'_> {
    /// Threads of the block.
    pub fn threads(&self) -> i64 {
        self.block.iter().map(|n| i64::from(*n)).product()
    }

    /// Threads that carry out a call of this scope together.
    pub fn threads_in(&self, scope: ExecScope) -> i64 {
        match scope {
            ExecScope::Thread => 1,
            ExecScope::Warp => WARP,
            ExecScope::Warpgroup => WARPGROUP,
            ExecScope::Cta => self.threads(),
        }
    }

    /// The number of the thread in its block, x fastest.
    pub fn thread(&self) -> Expr {
        let axes = ["threadIdx.z", "threadIdx.y", "threadIdx.x"];
        let sizes = [self.block[2], self.block[1], self.block[0]];
        let join = |at: Expr, (axis, n): (&str, u32)| {
            let own = if n == 1 { Expr::i64(0) } else { Expr::var(Name::new(axis), DType::I64) };
            at * Expr::i64(i64::from(n)) + own
        };
        self.simple(axes.into_iter().zip(sizes).fold(Expr::i64(0), join))
    }

    /// The number of the thread among those that carry out a call of this scope together.
    pub fn rank(&self, scope: ExecScope) -> Expr {
        match scope {
            ExecScope::Thread => Expr::i64(0),
            ExecScope::Warp | ExecScope::Warpgroup => {
                let n = self.threads_in(scope);
                self.simple(Expr::binary(BinOp::FloorMod, self.thread(), Expr::i64(n)))
            }
            ExecScope::Cta => self.thread(),
        }
    }

    /// That the thread is the first of those that carry out a call of this scope together; `None` where
    /// it is alone.
    pub fn is_first(&self, scope: ExecScope) -> Option<Expr> {
        let several = scope != ExecScope::Thread;
        several.then(|| Expr::binary(BinOp::Eq, self.rank(scope), Expr::i64(0)))
    }

    /// An index expression, simplified with what is known here.
    pub fn simple(&self, e: Expr) -> Expr {
        simplify(&e, self.ranges)
    }

    /// A tile with its buffer's type, memory and layout.
    ///
    /// # Errors
    /// Where the buffer is not declared or its layout does not fit its shape.
    pub fn view(&self, tile: &Tile) -> Result<View, String> {
        let shown = self.shown.iter().find(|b| b.name == tile.buffer).or_else(|| self.buffers.get(&tile.buffer));
        View::new(shown.ok_or_else(|| format!("buffer `{}` is not declared", tile.buffer))?, tile)
    }

    /// Operand number `i`, which has to be a tile.
    ///
    /// # Errors
    /// Where it is a scalar or absent.
    pub fn arg(&self, call: &TileCall, i: usize) -> Result<View, String> {
        match call.args.get(i) {
            Some(TileArg::Tile(t)) => self.view(t),
            Some(TileArg::Scalar(_)) => Err(format!("operand {i} is a scalar")),
            None => Err(format!("operand {i} is missing")),
        }
    }

    /// Destination and all tiles among the operands.
    ///
    /// # Errors
    /// As [`Cx::view`].
    pub fn views(&self, call: &TileCall) -> Result<Vec<View>, String> {
        let args = call.args.iter().filter_map(|a| match a {
            TileArg::Tile(t) => Some(t),
            TileArg::Scalar(_) => None,
        });
        std::iter::once(&call.dst).chain(args).map(|t| self.view(t)).collect()
    }
}

/// What a variant emits into.
pub struct Emit<'a> {
    /// What the kernel is built for.
    pub target: &'a Target,
    /// Threads per axis of the block.
    pub block: [u32; 3],
    /// Buffers; a variant adds its scratch here.
    pub buffers: &'a mut BTreeMap<Name, Buffer>,
    /// See [`Cx::shown`].
    pub shown: &'a [Buffer],
    /// Ranges; a variant adds its loop variables here.
    pub ranges: &'a mut Ranges,
    /// Which threads reach the call.
    pub active: Active,
    /// True where nothing but a variant's own barriers keeps its scratch in shared memory from being
    /// written again, in a loop, while threads still read it. False where a pass after dispatch places
    /// barriers between conflicting accesses.
    pub guard_scratch: bool,
    /// Tensor maps of the kernel; a variant adds its own with [`Emit::tensor_map`].
    pub maps: &'a mut Vec<TensorMap>,
    /// Gives a name that nothing has, made of a stem.
    pub fresh: &'a mut dyn FnMut(&str) -> Name,
}

impl Emit<'_> {
    /// The place, for predicates and helpers.
    pub fn cx(&self) -> Cx<'_> {
        let Emit { target, block, shown, active, .. } = *self;
        Cx { target, block, buffers: self.buffers, shown, ranges: self.ranges, active }
    }

    /// A name that nothing has.
    pub fn fresh(&mut self, stem: &str) -> Name {
        (self.fresh)(stem)
    }

    /// A loop variable over `[0, extent)`.
    pub fn loop_var(&mut self, stem: &str, extent: i64) -> Name {
        let name = self.fresh(stem);
        self.ranges.set(name.clone(), 0, extent.max(1) - 1);
        name
    }

    /// Scratch of one dimension in registers or shared memory.
    pub fn scratch(&mut self, stem: &str, dtype: DType, len: i64, scope: Scope) -> Name {
        let name = self.fresh(stem);
        self.buffers.insert(name.clone(), Buffer::new(name.clone(), dtype, vec![Expr::i64(len)], scope));
        name
    }

    /// An index expression, simplified with what is known here.
    pub fn simple(&self, e: Expr) -> Expr {
        simplify(&e, self.ranges)
    }

    /// The name of a tensor map, whose own name does not count: that of an equal one, or a new one.
    pub fn tensor_map(&mut self, map: TensorMap) -> Name {
        let same = |m: &&TensorMap| TensorMap { name: map.name.clone(), ..(*m).clone() } == map;
        if let Some(known) = self.maps.iter().find(same) {
            return known.name.clone();
        }
        let name = self.fresh(&format!("{}_map", map.buffer));
        self.maps.push(TensorMap { name: name.clone(), ..map });
        name
    }
}
