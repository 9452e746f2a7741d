//! Statistics of vectors beside their product: each group of lanes computes those of its vectors in the loop that
//! reads these for the rows of the matrix, so that they cost arithmetic alone, once for all rows of the group.

use crate::analysis::{self, Facts};
use crate::ir::ExprKind;
use crate::rules::find::shape::{Axis, find_block};
use crate::rules::find::statistic::Statistic;
use crate::rules::parts::*;
use crate::schedule::Operand;

/// Makes the vectors of a product, where they are computed and not just read, a block of its own before the product.
pub fn apart_from(s: &mut Schedule, product: &Name, row: &Name) -> Result<Option<Name>, ScheduleError> {
    match computed(s, product, row) {
        Some((side, groups)) => s.reindex(product, side, &groups).map(Some),
        None => Ok(None),
    }
}

/// Brings such a block into the loop over loads of the product.
pub fn compute_vector(s: &mut Schedule, vector: Option<&Name>, loads: &Name) -> Done {
    let Some(vector) = vector else { return Ok(()) };
    keep_in_registers(s, vector)?;
    s.compute_at(vector, loads)?;
    loops_below(s, vector, loads).iter().try_for_each(|l| unroll_loop(s, l))
}

/// The factor that rows share, where it is more than a load, with the iterators that it depends on.
fn computed(s: &Schedule, product: &Name, row: &Name) -> Option<(Operand, Vec<Vec<Name>>)> {
    let facts = Facts::of(s.func());
    let own = facts.block(product)?;
    let row = &own.iters.iter().find(|i| i.binding.uses_var(row))?.var;
    let factors = analysis::factors(&own.reducer.as_ref()?.term)?;
    let sides = [Operand::Left, Operand::Right].into_iter().zip(&factors);
    let mut shared = sides.map(|(side, f)| (side, analysis::narrow(f))).filter(|(_, f)| !f.uses_var(row));
    let (side, value) = shared.find(|(_, f)| !matches!(f.kind(), ExprKind::Load { .. }))?;
    let used = own.iters.iter().filter(|i| value.uses_var(&i.var));
    Some((side, used.map(|i| vec![i.var.clone()]).collect()))
}

/// How a product is cut.
pub struct Cut<'a> {
    /// The axes that number products, tell their vectors apart, and are reduced.
    pub axes: [&'a [Axis]; 3],
    /// Groups of a block, and rows of a group.
    pub shape: [i64; 2],
    /// Vectors of a group.
    pub vectors: i64,
    /// Loads in flight, lanes, and values of a load.
    pub step: [i64; 3],
}

/// A statistic whose partial sums run in the loops of the product's.
pub struct Beside {
    block: Name,
    /// The iterator over groups of its block.
    group: Name,
    sums: Name,
    partial: Name,
    reads: Vec<Name>,
}

impl Beside {
    /// Brings a statistic into the loops of the product `sums`: over blocks, groups, lanes, steps and loads.
    pub fn of(s: &mut Schedule, statistic: &Statistic, cut: &Cut, sums: &Name) -> Result<Beside, ScheduleError> {
        let [nb, ny] = known(s.replicate(&statistic.block, &statistic.along, &cut.shape)?);
        let group = find_block(s.func(), &statistic.block).iters[1].var.clone();
        let [outer, vectors, reduce] = cut.axes.map(|a| statistic.axes(a));
        let one = |at: &Name| Axis { at: at.clone(), extent: None };
        order_axes(s, &[&outer, &[one(&nb), one(&ny)], &vectors, &reduce])?;
        let outer = fuse_any(s, &outer)?;
        let vectors = fuse_any(s, &vectors)?;
        let all = fuse_all(s, &reduce)?;
        let m = match &vectors {
            Some(m) => s.split(m, &[None, Some(cut.vectors)])?,
            None => vec![],
        };
        let [unroll, lanes, width] = cut.step.map(Some);
        let [ko, ku, kt, kv] = split(s, &all, [None, unroll, lanes, width])?;
        let rf = s.rfactor(&kt, 0)?;
        let partial = output(s, &rf);
        let inner: Vec<&Name> = [&ny, &kt, &ko, &ku].into_iter().chain(&statistic.unit).collect();
        let (tiles, _) = blocks_first(s, outer, &m, nb, &inner, &kv)?;
        merge(s, sums, &rf, 5 + usize::from(tiles.is_some()))?;
        Ok(Beside { block: statistic.block.clone(), group, sums: rf, partial, reads: statistic.reads.clone() })
    }

    /// Stages what it reads, and starts its sums before the `steps`.
    pub fn sum(&self, s: &mut Schedule, [lanes, steps, loads]: [&Name; 3], width: i64) -> Done {
        for read in &self.reads {
            stage_read(s, &self.sums, read, loads, width, 0)?;
        }
        loops_below(s, &self.sums, loads).iter().try_for_each(|l| unroll_loop(s, l))?;
        let init = s.decompose_reduction(&self.sums, steps)?;
        loops_below(s, &init, lanes).iter().try_for_each(|l| unroll_loop(s, l))?;
        s.set_scope(&self.partial, Scope::Local)
    }

    /// Adds the sums of the lanes, under the loop over blocks.
    pub fn finish(&self, s: &mut Schedule, grid: &Name) -> Done {
        s.reverse_compute_at(&self.block, grid)?;
        for l in loops_of_kind(s, &self.block, grid, IterKind::Reduce) {
            s.bind(&l, ThreadTag::ThreadX)?;
        }
        let block = find_block(s.func(), &self.block);
        let group = |l: &Name| block.iter(&self.group).is_some_and(|it| it.binding.uses_var(l));
        for l in loops_of_kind(s, &self.block, grid, IterKind::Spatial) {
            match group(&l) {
                true => s.bind(&l, ThreadTag::ThreadY)?,
                false => unroll_loop(s, &l)?,
            }
        }
        keep_in_registers(s, &self.block)
    }
}

/// Puts the loops over blocks outermost, and all of them into one but for the loop over tiles of vectors where there are
/// several; gives both.
pub fn blocks_first(
    s: &mut Schedule,
    outer: Option<Name>,
    m: &[Name],
    nb: Name,
    inner: &[&Name],
    last: &Name,
) -> Result<(Option<Name>, Name), ScheduleError> {
    let tiles = m.first().filter(|m| loop_extent(s, m) != Some(1)).cloned();
    let blocks: Vec<Name> =
        [outer, m.first().filter(|_| tiles.is_none()).cloned(), Some(nb)].into_iter().flatten().collect();
    let mut order: Vec<Name> = tiles.iter().chain(&blocks).chain(inner.iter().copied()).cloned().collect();
    order.extend(m.get(1).cloned());
    order.push(last.clone());
    s.reorder(&order)?;
    let grid = fuse_loops(s, &blocks)?;
    Ok((tiles, grid))
}

/// Puts two nests into one, `depth` loops deep; the one that comes first keeps its loops.
fn merge(s: &mut Schedule, a: &Name, b: &Name, depth: usize) -> Done {
    let blocks = s.blocks();
    let place = |n: &Name| blocks.iter().position(|b| b == n);
    let [first, second] = if place(a) < place(b) { [a, b] } else { [b, a] };
    for k in 0..depth {
        let (into, from) = (s.loops(first)[k].clone(), s.loops(second)[k].clone());
        s.merge_loops(&into, &from)?;
    }
    Ok(())
}
