//! Brings a product into the form that tiling starts from: `t[S, I, J] += a[..] * b[..]` over four fused
//! iterators, with staged factors, everything rounded up to whole tiles, and the blocks after it over the
//! same fused axes.

use super::factor::Factor;
use super::product::Product;
use super::shape::find_block;
use crate::ir::{Expr, Name, Stmt};
use crate::rules::parts::{known, output};
use crate::schedule::{Operand, Schedule, ScheduleError};

/// In which order a staged factor lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Major {
    /// `[S, K, I]`, or `[S, K, J]`: rows or columns are contiguous.
    Depth,
    /// `[S, I, K]`, or `[S, J, K]`: the reduced axis is contiguous.
    Free,
}

/// A staged factor.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The block that computes it.
    pub block: Name,
    /// What it writes.
    pub buffer: Name,
}

/// A product ready for tiling.
pub struct Einsum {
    /// The reduction block, over S, I, J, K.
    pub block: Name,
    /// Its loops S, I, J, K; S runs once where there is no batch.
    pub loops: [Name; 4],
    /// The staged factor of the rows.
    pub a: Stage,
    /// The staged factor of the columns.
    pub b: Stage,
    /// What the block writes: `[S, I, J]`.
    pub result: Name,
    /// The blocks that follow, in order, over the fused S, I, J as far as these are not empty.
    pub tails: Vec<Name>,
}

impl Einsum {
    /// Stages, fuses and pads. `majors` are the orders of A and B, `tile` the multiples of I, J and K.
    ///
    /// # Errors
    /// A step whose precondition fails, which is a bug.
    pub fn of(s: &mut Schedule, p: &Product, majors: [Major; 2], tile: [i64; 3]) -> Result<Einsum, ScheduleError> {
        let [batch, rows, columns, depth] = p.groups();
        let map = |major: Major, free: &Vec<Name>| match major {
            Major::Depth => [batch.clone(), depth.clone(), free.clone()],
            Major::Free => [batch.clone(), free.clone(), depth.clone()],
        };
        let mut stage = |f: &Factor, map: [Vec<Name>; 3]| -> Result<Stage, ScheduleError> {
            let block = s.reindex(&p.block, f.operand, &map)?;
            let buffer = output(s, &block);
            if s.func().buffer(&buffer).dtype != f.dtype {
                s.set_dtype(&buffer, f.dtype)?;
            }
            Ok(Stage { block, buffer })
        };
        let a = stage(&p.a, map(majors[0], &rows))?;
        let b = stage(&p.b, map(majors[1], &columns))?;
        let stored = stored_at(s, &p.block);
        let copy = s.reindex(&p.block, Operand::Result, &[batch.clone(), rows.clone(), columns.clone()])?;
        let result = output(s, &p.block);
        let mut tails: Vec<(Name, Vec<(Name, Name)>)> =
            p.epilogue.iter().map(|t| (t.block.clone(), t.follows.clone())).collect();
        if p.kept || s.compute_inline(&copy).is_err() {
            let own = stored_at(s, &copy).into_iter().zip(stored);
            let follows = own.filter_map(|(e, v)| Some((e.as_var()?.clone(), v.as_var()?.clone()))).collect();
            tails.insert(0, (copy, follows));
        }
        s.transform_block_layout(&p.block, &[batch.clone(), rows.clone(), columns.clone(), depth.clone()])?;
        for (block, follows) in &tails {
            let own = |v: &Name| follows.iter().find(|(_, of)| of == v).map(|(own, _)| own.clone());
            let groups = [&batch, &rows, &columns].map(|g| g.iter().filter_map(own).collect::<Vec<_>>());
            let groups: Vec<Vec<Name>> = groups.into_iter().filter(|g| !g.is_empty()).collect();
            s.transform_block_layout(block, &groups)?;
        }
        s.pad_einsum(&p.block, &[1, tile[0], tile[1], tile[2]])?;
        let loops = s.loops(&p.block);
        let loops = known(loops[loops.len().saturating_sub(4)..].to_vec());
        let tails = tails.into_iter().map(|(block, _)| block).collect();
        Ok(Einsum { block: p.block.clone(), loops, a, b, result, tails })
    }
}

/// The indices at which a block stores its result.
fn stored_at(s: &Schedule, block: &Name) -> Vec<Expr> {
    let mut found = vec![];
    for stmt in &find_block(s.func(), block).body {
        stmt.visit(&mut |s| {
            if let Stmt::Store { indices, .. } = s {
                found = indices.clone();
            }
        });
    }
    found
}
