//! From clusters to blocks: until here an element of the grid is a cluster, and a block is known by its
//! place in it.
//!
//! before: grid 8, clusters of 4, `p0[blockIdx.x * 64 + clusterCtaIdx.x * 16]`
//! after:  grid 32, `cluster = blockIdx.x // 4; rank = blockIdx.x % 4; p0[cluster * 64 + rank * 16]`

use super::narrow::Types;
use crate::analysis::simplify;
use crate::ir::device::{DStmt, index_var};
use crate::ir::kernel::KStmt;
use crate::ir::{BinOp, Expr, Name, ThreadTag};
use crate::lower::nest::Nest;

/// Names for the number of a block's cluster and for its place in there.
pub struct OwnCluster {
    number: Name,
    rank: Name,
    blocks: i64,
}

impl OwnCluster {
    /// Turns the grid into one of blocks; `None` where it is that already.
    pub fn of(nest: &mut Nest) -> Option<OwnCluster> {
        let blocks = i64::from(nest.cluster);
        if blocks == 1 {
            return None;
        }
        let block = Name::new(ThreadTag::BlockX.name());
        let last = nest.ranges.get(&block).map_or(0, |r| r.hi).min(i64::from(i32::MAX) / blocks - 1);
        let (number, rank) = (nest.fresh("cluster"), nest.fresh("rank"));
        nest.ranges.set(number.clone(), 0, last);
        nest.ranges.set(rank.clone(), 0, blocks - 1);
        nest.ranges.set(block, 0, (last + 1) * blocks - 1);
        nest.grid[0] = simplify(&(nest.grid[0].clone() * Expr::i64(blocks)), &nest.ranges);
        Some(OwnCluster { number, rank, blocks })
    }

    /// The statements in terms of both names.
    pub fn rename(&self, body: &[DStmt]) -> Vec<DStmt> {
        let map = |n: &Name| match ThreadTag::by_name(n.as_str())? {
            ThreadTag::BlockX => Some(index_var(&self.number)),
            ThreadTag::ClusterX => Some(index_var(&self.rank)),
            _ => None,
        };
        body.iter().map(|s| s.subst(&map)).collect()
    }

    /// The values of both.
    pub fn lets(&self, types: &mut Types) -> Vec<KStmt> {
        let block = index_var(&ThreadTag::BlockX.name().into());
        let mut bind = |var: &Name, op| {
            let value = types.index(&Expr::binary(op, block.clone(), Expr::i64(self.blocks)));
            types.vars.insert(var.clone(), value.dtype());
            KStmt::Let { var: var.clone(), value }
        };
        vec![bind(&self.number, BinOp::FloorDiv), bind(&self.rank, BinOp::FloorMod)]
    }
}
