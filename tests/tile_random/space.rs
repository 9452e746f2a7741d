//! Shapes whose dimensions are made of pieces, some over threads and some in memory, and the layouts
//! that pieces give.

use super::rng::Rng;
use daylight::ir::ExecScope;
use daylight::ir::layout::{Axis, Iter, Swizzle, TileLayout};
use std::collections::BTreeMap;

/// A part of a dimension: over threads at a stride, or in memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Piece {
    Threads(Iter),
    Memory(i64),
}

impl Piece {
    pub fn extent(self) -> i64 {
        match self {
            Piece::Threads(it) => it.extent,
            Piece::Memory(n) => n,
        }
    }
}

/// Dimensions with their pieces, outermost first, and what is held several times.
#[derive(Clone, Debug, Default)]
pub struct Space {
    pub dims: Vec<Vec<Piece>>,
    pub replica: Vec<Iter>,
}

impl Space {
    pub fn shape(&self) -> Vec<i64> {
        self.dims.iter().map(|d| d.iter().map(|p| p.extent()).product()).collect()
    }

    /// The space without some dimensions; threads along them hold copies, or only the first of them
    /// anything.
    pub fn without(&self, gone: &[usize], to_all: bool) -> Space {
        let mut out = self.clone();
        for d in gone {
            for p in std::mem::take(&mut out.dims[*d]) {
                if let Piece::Threads(it) = p
                    && to_all
                {
                    out.replica.push(it);
                }
            }
        }
        out
    }

    /// A layout with strides in memory that are dense, permuted, or with gaps.
    pub fn layout(&self, rng: &mut Rng) -> TileLayout {
        let mut order: Vec<(usize, usize)> = vec![];
        for (d, pieces) in self.dims.iter().enumerate() {
            order.extend(pieces.iter().enumerate().filter(|(_, p)| matches!(p, Piece::Memory(_))).map(|(k, _)| (d, k)));
        }
        if rng.chance(30) {
            rng.shuffle(&mut order);
        }
        let mut strides = BTreeMap::new();
        let mut stride = if rng.chance(10) { rng.between(2, 3) } else { 1 };
        for at in order.into_iter().rev() {
            strides.insert(at, stride);
            stride *= self.dims[at.0][at.1].extent();
            if rng.chance(10) {
                stride += rng.pick(&[1, 2, 4]);
            }
        }
        let mut shard = vec![];
        for (d, pieces) in self.dims.iter().enumerate() {
            if pieces.is_empty() {
                shard.push(Iter::new(1, 1, Axis::M));
            }
            for (k, p) in pieces.iter().enumerate() {
                shard.push(match p {
                    Piece::Threads(it) => *it,
                    Piece::Memory(n) => Iter::new(*n, strides[&(d, k)], Axis::M),
                });
            }
        }
        let mut offset = BTreeMap::new();
        if rng.chance(8) {
            offset.insert(Axis::M, rng.between(1, 4));
        }
        TileLayout::new(shard, self.replica.clone(), offset, None).expect("small layouts")
    }
}

/// Factors of a number of threads, with their strides, nearest neighbours first.
fn factors(rng: &mut Rng, threads: i64) -> Vec<(i64, i64)> {
    let (mut left, mut stride, mut out) = (threads, 1, vec![]);
    while left > 1 {
        let divisors: Vec<i64> = (2..=left).filter(|d| left % d == 0).collect();
        let n = if rng.chance(35) { left } else { rng.pick(&divisors) };
        out.push((n, stride));
        stride *= n;
        left /= n;
    }
    out
}

/// Iters over the threads of a scope: lanes, warps, warpgroups and their threads, or `tx`.
fn thread_iters(rng: &mut Rng, scope: ExecScope, threads: i64) -> Vec<Iter> {
    let on =
        |list: Vec<(i64, i64)>, axis| list.into_iter().map(move |(n, s)| Iter::new(n, s, axis)).collect::<Vec<_>>();
    let by_warps = |rng: &mut Rng, warps, axis| {
        let mut all = on(factors(rng, 32), Axis::LaneId);
        all.extend(on(factors(rng, warps), axis));
        all
    };
    match scope {
        ExecScope::Thread => vec![],
        ExecScope::Warp => on(factors(rng, 32), Axis::LaneId),
        ExecScope::Warpgroup if rng.chance(50) => on(factors(rng, 128), Axis::TidInWg),
        ExecScope::Warpgroup => by_warps(rng, 4, Axis::WidInWg),
        ExecScope::Cta if threads % 32 == 0 && rng.chance(10) => on(factors(rng, 32), Axis::LaneId),
        ExecScope::Cta if threads % 32 == 0 && rng.chance(40) => by_warps(rng, threads / 32, Axis::WarpId),
        ExecScope::Cta => on(factors(rng, threads), Axis::Tx),
    }
}

/// A random space shared out among the threads of a scope, with few elements per thread.
pub fn space(rng: &mut Rng, scope: ExecScope, threads: i64, most: i64) -> Space {
    let rank = rng.between(1, 3) as usize;
    let mut out = Space { dims: vec![vec![]; rank], replica: vec![] };
    let mut held = 1;
    for d in 0..rank {
        for _ in 0..rng.between(0, 2) {
            let n = rng.pick(&[1, 2, 2, 3, 4, 4, 5, 7, 8, 8, 16]);
            if held * n <= most {
                held *= n;
                out.dims[d].push(Piece::Memory(n));
            }
        }
    }
    for it in thread_iters(rng, scope, threads) {
        if rng.chance(10) {
            out.replica.push(it);
            continue;
        }
        let d = rng.below(rank as i64) as usize;
        let at = rng.below(out.dims[d].len() as i64 + 1) as usize;
        out.dims[d].insert(at, Piece::Threads(it));
    }
    out
}

/// The layout of a shape in memory that all threads see: none, permuted, with gaps, swizzled.
pub fn memory_layout(rng: &mut Rng, shape: &[i64], plain_only: bool) -> Option<TileLayout> {
    if rng.chance(50) || plain_only && rng.chance(50) {
        return None;
    }
    let dims = shape.iter().map(|n| vec![Piece::Memory(*n)]).collect();
    let layout = Space { dims, replica: vec![] }.layout(rng);
    if !plain_only && rng.chance(35) {
        let (per, len) = (rng.between(0, 4) as u32, rng.between(1, 3) as u32);
        let atom = rng.between(i64::from(len), 4) as u32;
        if let Ok(s) = Swizzle::new(per, len, atom, rng.chance(50)) {
            let row_major = TileLayout::row_major(shape).ok()?;
            return row_major.compose(s).ok();
        }
    }
    Some(layout)
}
