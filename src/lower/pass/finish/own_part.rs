//! From a launch of its own to a part of a kernel: its blocks are behind those of others, and its threads may lie
//! along x alone.
//!
//! before: grid 4, block (8, 8): `p0[blockIdx.x * 64 + threadIdx.y * 8 + threadIdx.x]`, 8 blocks before it
//! after:  grid 12, block 64: `if blockIdx.x < 8: pass; else: part = blockIdx.x - 8; x = threadIdx.x % 8; ..`

use super::narrow::Types;
use crate::analysis::simplify;
use crate::ir::device::{DStmt, index_var};
use crate::ir::kernel::KStmt;
use crate::ir::{BinOp, Expr, Name, ThreadTag};
use crate::lower::nest::{Nest, THREADS};
use crate::lower::pass::join::Place;
use std::collections::{BTreeMap, BTreeSet};

/// The index that each name is in place of, with its value.
type Names = BTreeMap<ThreadTag, (Name, Expr)>;

/// Names for what a part has in place of indices of the kernel.
pub struct OwnPart {
    /// Blocks of other launches before its own.
    before: Option<Expr>,
    names: Names,
}

impl OwnPart {
    /// Turns grid and block into those of the kernel; `None` where the launch is alone.
    pub fn of(nest: &mut Nest) -> Option<OwnPart> {
        let share = nest.share.take()?;
        let mut names = Names::new();
        let block = index_var(&ThreadTag::BlockX.name().into());
        let mut before = None;
        match &share.place {
            None => {}
            Some(Place::After(blocks)) => {
                let all = simplify(&(blocks.clone() + nest.grid[0].clone()), &nest.ranges);
                name_block(nest, &mut names, (block - blocks.clone(), all, i64::from(i32::MAX)));
                before = Some(blocks.clone());
            }
            Some(Place::On(groups)) => {
                let blocks = groups.blocks();
                name_block(nest, &mut names, (groups.own(&block), Expr::i64(blocks), blocks));
            }
        }
        if share.flat {
            flatten(nest, &mut names);
        }
        Some(OwnPart { before, names })
    }

    /// The statements in terms of these names.
    pub fn rename(&self, body: &[DStmt]) -> Vec<DStmt> {
        let map = |n: &Name| Some(index_var(&self.names.get(&ThreadTag::by_name(n.as_str())?)?.0));
        body.iter().map(|s| s.subst(&map)).collect()
    }

    /// The values of those that the statements use.
    pub fn lets(&self, types: &mut Types, body: &[DStmt]) -> Vec<KStmt> {
        let used = vars(body);
        let mut bind = |(var, value): &(Name, Expr)| {
            let value = types.index(value);
            types.vars.insert(var.clone(), value.dtype());
            KStmt::Let { var: var.clone(), value }
        };
        self.names.values().filter(|(name, _)| used.contains(name)).map(&mut bind).collect()
    }

    /// The body as the blocks take it that are not of a launch before it; these are still without statements.
    pub fn behind(&self, types: &Types, body: Vec<KStmt>) -> Vec<KStmt> {
        let Some(before) = &self.before else { return body };
        let block = index_var(&ThreadTag::BlockX.name().into());
        let cond = types.value(&Expr::binary(BinOp::Lt, block, before.clone()));
        vec![KStmt::If { cond, then: vec![], otherwise: body }]
    }
}

/// Names the number of the block in its own launch, which is this of its number in a grid of so many blocks, at most so many.
fn name_block(nest: &mut Nest, names: &mut Names, (own, grid, most): (Expr, Expr, i64)) {
    let block = ThreadTag::BlockX;
    let last = nest.ranges.get(&Name::new(block.name())).map_or(0, |r| r.hi);
    let part = nest.fresh("part");
    nest.ranges.set(part.clone(), 0, last);
    nest.ranges.set(block.name(), 0, most - 1);
    names.insert(block, (part, own));
    nest.grid[0] = grid;
}

fn vars(body: &[DStmt]) -> BTreeSet<Name> {
    let mut used = BTreeSet::new();
    let mut note = |e: &Expr| e.visit(&mut |e| used.extend(e.as_var().cloned()));
    body.iter().for_each(|s| s.visit(&mut |s| s.for_each_expr(&mut note)));
    used
}

/// Puts all threads along x.
fn flatten(nest: &mut Nest, names: &mut Names) {
    let thread = index_var(&ThreadTag::ThreadX.name().into());
    let (mut inner, block) = (1, nest.block);
    if block[1..] == [1, 1] {
        return;
    }
    for (tag, threads) in THREADS.into_iter().zip(block).filter(|(_, n)| *n > 1) {
        let threads = i64::from(threads);
        let own = nest.fresh("thread");
        nest.ranges.set(own.clone(), 0, threads - 1);
        let of = Expr::binary(BinOp::FloorDiv, thread.clone(), Expr::i64(inner));
        names.insert(tag, (own, Expr::binary(BinOp::FloorMod, of, Expr::i64(threads))));
        inner *= threads;
    }
    nest.ranges.set(ThreadTag::ThreadX.name(), 0, inner - 1);
    let all = block.iter().product();
    nest.block = [all, 1, 1];
    for (_, value) in names.values_mut() {
        *value = simplify(value, &nest.ranges);
    }
}
