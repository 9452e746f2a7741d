//! Factors of products that lanes load from memory into their registers, eight neighbours of a row at a time, for the
//! variant `mma_runs`.
//!
//! before: `for i < 16, k < 64 { a[i, k] = if_then_else(step * 64 + k < 200, x[i, step * 64 + k], 0) }`
//! after:  `for x < 2, y < 2 { if (..) { for v < 8 { r[v] = x[row(x), ..] } } else { r = 0 }; for v < 8 { a[..] = r[v] } }`
//!
//! Rows outside of the tensor are read as its last one (`clamped`). Neighbours that are no aligned access are shifted out
//! of the words that they lie in (`shifted`).
//! Stands in a circle with `fragments` and `part_loops`, of whose pass it is a part.

use super::clamped;
use super::part_loops::Held;
use super::shifted::{self, Source, filled};
use crate::analysis::linear;
use crate::ir::device::{DStmt, index_var};
use crate::ir::kernel::CacheHint;
use crate::ir::layout::Axis;
use crate::ir::layout::runs::{Runs, row_scales};
use crate::ir::layout::words::{CHUNK, WORD};
use crate::ir::{Buffer, DType, Expr, ExprKind, Name, Scope, Tile, TileArg, TileCall};
use crate::lower::nest::Nest;
use crate::lower::pass::guards::all_free_of;
use crate::lower::pass::pipeline::copied;

/// The variants of products: by values, and by words whose scales multiply sums.
pub const VARIANT: &str = "mma_runs";
pub const SCALED: &str = "mma_runs_scaled";

/// True for variants of factors that lanes load.
pub fn by_runs(variant: &Option<String>) -> bool {
    matches!(variant.as_deref(), Some(VARIANT | SCALED))
}

/// Gives the scales of the first factor registers of their own: of each row one for each load of words.
///
/// # Errors
/// Where rows are no whole fragments.
pub fn scales(nest: &mut Nest, factor: &mut Held) -> Result<(), String> {
    let shape = of_scales(factor);
    let layout = row_scales(shape[0], shape[1])?;
    let n = Expr::i64(layout.span(Axis::M));
    let name = nest.scratch(&format!("{}_row_scales", factor.buffer), DType::F16, n, Scope::Local);
    let tile = Buffer::new(name.clone(), DType::F16, shape.map(Expr::i64).to_vec(), Scope::Local);
    nest.held.insert(name.clone(), Buffer { layout: Some(layout), ..tile });
    factor.scales = Some(name);
    Ok(())
}

/// Rows, and scales of each.
fn of_scales(factor: &Held) -> [i64; 2] {
    let [rows, depth] = factor.shape;
    [rows, depth / CHUNK]
}

/// The call of a product with the scales of its first factor.
pub fn scaled(mut call: TileCall, factor: &Held) -> TileCall {
    if let Some(name) = &factor.scales {
        call.operands.insert("sfa".into(), TileArg::Tile(Tile::whole(name, &of_scales(factor))));
    }
    call
}

/// How lanes load the factors: by words where the values of one are computed of them.
pub fn kind(launch: &[DStmt], factors: [&Name; 2]) -> Runs {
    let mut packed = false;
    let mut note = |s: &DStmt| {
        if let DStmt::Store { buffer, value, .. } = s
            && factors.contains(&buffer)
        {
            packed |= value.any(&|e| matches!(e.kind(), ExprKind::Load { dtype: DType::U32, .. }));
        }
    };
    launch.iter().for_each(|s| s.visit(&mut note));
    if packed { Runs::Words } else { Runs::Values }
}

/// The loops over the runs of all rows, which `loops` count, of which `v` counts neighbours: `body` stores one value, of
/// memory or zero. `None` where they are no neighbours in memory.
///
/// `row` is the place of a value's row in its tile.
pub fn loaded(nest: &mut Nest, row: &Expr, loops: [(&Name, i64); 2], v: &Name, body: &[DStmt]) -> Option<Vec<DStmt>> {
    let [DStmt::Store { buffer, indices, value, hint }] = body else { return None };
    let (cond, load) = copied(value)?;
    let (conds, load) = clamped::rows(nest, cond, load, row);
    let ExprKind::Load { buffer: from, indices: at, dtype } = load.kind() else { return None };
    let (last, outer) = at.split_last()?;
    let neighbours = linear(last, v, &nest.ranges).is_some_and(|(step, _)| step.is_int(1));
    if !neighbours || !nest.is_global(from) || outer.iter().any(|e| e.uses_var(v)) {
        return None;
    }
    let keep = |run: &Name| {
        let own = Expr::load(run.clone(), vec![index_var(v)], *dtype);
        DStmt::unrolled(v, WORD, vec![DStmt::store(buffer.clone(), indices.clone(), own)])
    };
    let cond = all_free_of(&nest.ranges, conds.clone(), &[(v.clone(), WORD)]);
    let Some(cond) = cond.filter(|_| shifted::is_aligned(nest, from, at, v)) else {
        return shifted::loaded(nest, loops, Source { from, at, v, conds, hint: *hint }, keep);
    };
    let run = nest.scratch(&format!("{buffer}_run"), *dtype, Expr::i64(WORD), Scope::Local);
    let again = nest.loop_var("v", WORD);
    let element = load.subst(&|n| (n == v).then(|| index_var(&again)));
    let read = filled_or_zero(&run, (&again, WORD), cond, element, *hint);
    let [(x, rows), (y, n)] = loops;
    Some(vec![DStmt::unrolled(x, rows, vec![DStmt::unrolled(y, n, vec![read, keep(&run)])])])
}

/// Fills `n` registers, which loop `var` counts, with one vector load of what `value` says, or with zeros where the
/// condition fails.
pub fn filled_or_zero(to: &Name, (var, n): (&Name, i64), cond: Option<Expr>, value: Expr, hint: CacheHint) -> DStmt {
    let zero = DStmt::store(to.clone(), vec![index_var(var)], Expr::constant(0.0, value.dtype()));
    let load = filled((to, &Expr::i64(0)), (var, n), value, hint);
    match cond {
        None => load,
        Some(cond) => DStmt::If { cond, then: vec![load], otherwise: vec![DStmt::unrolled(var, n, vec![zero])] },
    }
}
