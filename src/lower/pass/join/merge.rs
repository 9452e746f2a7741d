//! Launches that are marked to be one with those before them.
//!
//! The blocks of the first come first, those of the others behind them. Threads lie along x where the launches have
//! blocks of several shapes. Arrays are those of all, so that shared memory adds up.
//!
//! before: grid 8 `p1[blockIdx.x] = ..`; grid 4, marked with `merge`: `p2[blockIdx.x] = ..`
//! after:  grid 12 `if blockIdx.x < 8: p1[blockIdx.x] = ..; else: part = blockIdx.x - 8; p2[part] = ..`

use super::{Place, Share, param_name, params};
use crate::analysis::simplify;
use crate::ir::kernel::{KStmt, KernelParam, Launch};
use crate::ir::{Expr, Name, Stmt};
use crate::lower::LowerError;
use crate::lower::nest::Nest;

const PASS: &str = "merge";

/// Tells launches that are merged which blocks are theirs.
pub fn share(group: &mut [(Nest, Stmt)]) -> Result<(), LowerError> {
    group.iter().try_for_each(|(n, _)| fits(n, &group[0].0))?;
    let flat = group.iter().any(|(n, _)| n.block != group[0].0.block);
    let mut before: Option<Expr> = None;
    for (n, _) in group {
        n.share = Some(Share { place: before.clone().map(Place::After), flat });
        let own = n.grid[0].clone();
        before = Some(before.map_or(own.clone(), |b| simplify(&(b + own), &n.ranges)));
    }
    Ok(())
}

/// Launches of one kernel have a grid along x and as many threads, and no clusters.
fn fits(n: &Nest, first: &Nest) -> Result<(), LowerError> {
    let threads = |n: &Nest| n.block.iter().product::<u32>();
    let fail = |why: String| Err(LowerError::new(PASS, &Name::new(&n.symbol), why));
    if threads(n) != threads(first) {
        return fail(format!("{} threads per block, and {} in the launch before", threads(n), threads(first)));
    }
    if n.cluster > 1 || n.several.is_some() || !n.grid[1].is_int(1) || !n.grid[2].is_int(1) {
        return fail(
            "launches of clusters, of blocks that take several tiles and of grids with several axes stay alone".into(),
        );
    }
    Ok(())
}

/// The launch of both, where the second knows what is before it.
pub fn join(first: Launch, second: Launch) -> Result<Launch, LowerError> {
    independent(&first, &second)?;
    let Launch { kernel: mut a, min_blocks, .. } = first;
    let Launch { kernel: b, min_blocks: other, .. } = second;
    a.params = params(&a, &b);
    a.arrays.extend(b.arrays);
    let mut body = b.body;
    match body.first_mut() {
        Some(KStmt::If { then, .. }) => *then = a.body,
        _ => return Err(LowerError::new(PASS, &Name::new(&b.symbol), "no launch before it shares its blocks")),
    }
    a.body = body;
    let min_blocks = min_blocks.zip(other).map(|(a, b)| a.min(b));
    Ok(Launch { kernel: a, min_blocks, grid: second.grid, block: second.block, cluster: 1 })
}

/// Neither reads or writes what the other writes, and neither reads through a tensor map.
fn independent(a: &Launch, b: &Launch) -> Result<(), LowerError> {
    for (one, other) in [(a, b), (b, a)] {
        for p in &one.kernel.params {
            let why = match p {
                KernelParam::Pointer { name, written: true, .. } if points(other, name) => {
                    format!("`{}` uses it, and `{}` writes it", other.kernel.symbol, one.kernel.symbol)
                }
                KernelParam::TensorMap(_) => "a launch that has tensor maps stays alone".into(),
                KernelParam::Pointer { .. } | KernelParam::Scalar { .. } => continue,
            };
            return Err(LowerError::new(PASS, param_name(p), why));
        }
    }
    Ok(())
}

fn points(l: &Launch, buffer: &Name) -> bool {
    l.kernel.params.iter().any(|p| matches!(p, KernelParam::Pointer { name, .. } if name == buffer))
}
