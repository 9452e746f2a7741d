//! The maximum of a row and its sum of exponentials, or its sum and the squares around its mean, in one pass
//! over memory, for `general_reduction.rows` where the row is read again: each thread brings in the elements
//! of a step, reduces them in registers, and corrects what it has once a step (`online_reductions`).

use crate::analysis::Combiner;
use crate::rules::find::rows::{Role, RowBlock, Rows};
use crate::rules::find::shape::find_block;
use crate::rules::parts::*;

/// Splits the columns of a block, given the loop over them.
pub type SplitColumns<'f> = &'f dyn Fn(&mut Schedule, &Name, &Name) -> Result<[Name; 4], ScheduleError>;

/// Binds a loop over those that share a row.
type BindGroup<'f> = &'f dyn Fn(&mut Schedule, &Name) -> Done;

/// Two reductions that one pass can do.
pub struct Pair {
    /// The one that the other reads.
    pub first: Name,
    /// How it combines.
    pub combiner: Combiner,
    /// The other, a sum.
    pub second: Name,
}

/// The first pair of reductions that one pass can do.
pub fn pair(r: &Rows) -> Option<Pair> {
    let reduction = |b: &RowBlock| match b.role {
        Role::Reduce(c @ (Combiner::Max | Combiner::Sum)) => Some((b.name.clone(), c)),
        Role::Reduce(Combiner::Prod | Combiner::Min) | Role::Full | Role::Row => None,
    };
    let all: Vec<(Name, Combiner)> = r.blocks.iter().filter_map(reduction).collect();
    let sums = || all.iter().filter(|(_, c)| *c == Combiner::Sum);
    let pairs = all.iter().flat_map(|(first, combiner)| {
        let second = sums().filter(move |(b, _)| b != first);
        second.map(|(b, _)| Pair { first: first.clone(), combiner: *combiner, second: b.clone() })
    });
    pairs.into_iter().find(|p| fits(r, p))
}

/// True where the step can be taken: it is tried on a copy.
fn fits(r: &Rows, Pair { first, second, .. }: &Pair) -> bool {
    let mut s = r.schedule.clone();
    let mut steps = |b: &Name| {
        let column = s.loops(b).pop()?;
        let [steps, threads, _] = split(&mut s, &column, [None, Some(2), Some(2)]).ok()?;
        order(&mut s, [&threads, &steps]).ok()?;
        Some(steps)
    };
    let (Some(at), Some(_)) = (steps(first), steps(second)) else { return false };
    s.online_reductions(first, second, &at).is_ok()
}

/// Schedules both under the loop `grid`. `loops` splits a block's columns over
/// steps, loads, threads and lanes: `[ko, ku, kt, kv]`, the threads outermost; `bind` binds those. Gives the
/// blocks that are then done.
pub fn schedule(
    s: &mut Schedule,
    grid: &Name,
    Pair { first, combiner, second }: &Pair,
    loops: SplitColumns,
    bind: BindGroup,
) -> Result<Vec<Name>, ScheduleError> {
    let mut at = None;
    for b in [first, second] {
        let column = loops_of_kind(s, b, grid, IterKind::Reduce)[0].clone();
        let [ko, ..] = loops(s, b, &column)?;
        at.get_or_insert(ko);
    }
    let mut made = match at {
        Some(ko) => s.online_reductions(first, second, &ko)?,
        None => vec![],
    };
    let [step, partial, sum, state] = [0, 1, 2, 3].map(|k| made[k].clone());
    let counts: Vec<Name> = made[4..].to_vec();
    let ko = loops_of_kind(s, &state, grid, IterKind::Reduce)[0].clone();
    made.push(s.decompose_reduction(&state, &ko)?);
    for b in [&sum, &partial].into_iter().chain(&counts).chain([&step]) {
        s.compute_at(b, &ko)?;
    }
    bind_states(s, grid, &state, bind)?;
    in_flight(s, &step, &ko)?;
    if let Some(outer) = loops_below(s, &partial, &ko).first().cloned() {
        tile_leaf(s, &outer, LeafOp::Tile(combiner.fold()))?;
    }
    for b in [&partial, &sum].into_iter().chain(&counts) {
        loops_below(s, b, &ko).iter().try_for_each(|l| s.unroll(l))?;
    }
    for b in [first, second] {
        for l in loops_of_kind(s, b, grid, IterKind::Reduce) {
            bind(s, &l)?;
        }
    }
    for b in [first, second, &step, &partial, &sum, &state].into_iter().chain(&counts) {
        for out in outputs(s, b) {
            s.set_scope(&out, Scope::Local)?;
        }
    }
    made.extend([first.clone(), second.clone()]);
    Ok(made)
}

/// Each thread has one state: the iterators are those of steps, threads and rows.
fn bind_states(s: &mut Schedule, grid: &Name, state: &Name, bind: BindGroup) -> Done {
    let binding = find_block(s.func(), state).iters[1].binding.clone();
    match loops_below(s, state, grid).iter().find(|l| binding.uses_var(l)) {
        Some(l) => bind(s, l),
        None => Ok(()),
    }
}

/// All loads of a step are in flight together.
fn in_flight(s: &mut Schedule, step: &Name, ko: &Name) -> Done {
    let loops = loops_below(s, step, ko);
    let Some((lanes, outer)) = loops.split_last() else { return Ok(()) };
    outer.iter().try_for_each(|l| batch_loads(s, l))?;
    s.unroll(lanes)
}
