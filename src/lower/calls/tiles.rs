//! Hands tile calls to the dispatch table.
//!
//! before: `Tx.cta.sum(t2[0:4], t1[0:4, 0:8], axes=(1,), accum=False)`
//! after:  the loops, shuffles and barriers of the variant that was chosen, over flat indices

use crate::ir::device::DStmt;
use crate::ir::kernel::ChosenVariant;
use crate::ir::{Buffer, Expr, Name, TileCall};
use crate::lower::LowerError;
use crate::lower::fact::warps::{Rank, WARP, WARPGROUP, Warps};
use crate::lower::nest::Nest;
use crate::lower::pass::Way;
use crate::tile::{self, Active, Decision, Emit, NoVariant};
use std::collections::BTreeSet;

const PASS: &str = "dispatch";

impl Nest<'_> {
    /// Carries out a call that all threads reach, and notes the decision. It sees the buffers `shown` in
    /// place of those of the same name.
    pub fn carry_out(&mut self, call: &TileCall, shown: &[Buffer]) -> Result<Vec<DStmt>, NoVariant> {
        let (decision, body) = self.with_emit(Active::All, shown, |e| tile::dispatch(call, e))?;
        self.decisions.push(decision);
        Ok(body)
    }

    /// What a variant would know of the launch where all threads reach it.
    pub fn with_cx<R>(&mut self, shown: &[Buffer], f: impl FnOnce(&tile::Cx) -> R) -> R {
        self.with_emit(Active::All, shown, |e| f(&e.cx()))
    }

    fn with_emit<R>(&mut self, active: Active, shown: &[Buffer], f: impl FnOnce(&mut Emit) -> R) -> R {
        let taken = &mut self.taken;
        let mut emit = Emit {
            target: self.target,
            block: self.block,
            buffers: &mut self.buffers,
            shown,
            ranges: &mut self.ranges,
            active,
            guard_scratch: self.way == Way::Program,
            maps: &mut self.maps,
            fresh: &mut |stem| crate::lower::nest::fresh_name(taken, stem),
        };
        f(&mut emit)
    }
}

/// Carries out every call in `body`, whose other accesses are flat already. Decisions are noted in program order,
/// also those after the first call that nothing carries out.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    let lets = variables(&body);
    let mut refused = None;
    let body = list(nest, &lets, body, Active::All, &mut refused);
    refused.map_or(Ok(body), Err)
}

/// Variables whose values may differ between threads.
fn variables(body: &[DStmt]) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    let mut note = |s: &DStmt| {
        if let DStmt::Let { var, .. } | DStmt::Var { var, .. } = s {
            names.insert(var.clone());
        }
    };
    body.iter().for_each(|s| s.visit(&mut note));
    names
}

/// What was chosen, for the kernel's header and the log.
pub fn chosen(decisions: &[Decision]) -> Vec<ChosenVariant> {
    let named = decisions.iter().zip(0..).filter_map(|(d, call)| {
        let variant = d.chosen?.to_string();
        Some(ChosenVariant { call, op: d.call.op.name().to_string(), variant })
    });
    named.collect()
}

fn list(
    nest: &mut Nest,
    lets: &BTreeSet<Name>,
    body: Vec<DStmt>,
    active: Active,
    refused: &mut Option<LowerError>,
) -> Vec<DStmt> {
    let mut stmts = vec![];
    for s in body {
        match s {
            DStmt::Tile(call) => match nest.with_emit(active, &[], |e| tile::dispatch(&call, e)) {
                Ok((decision, body)) => {
                    nest.decisions.push(decision);
                    stmts.extend(body);
                }
                Err(why) => {
                    refused.get_or_insert_with(|| LowerError::new(PASS, &call.dst.buffer, why.to_string()));
                    nest.decisions.push(*why.0);
                }
            },
            s => {
                let inside = match &s {
                    DStmt::For(l) => narrowed(nest, lets, active, &l.extent),
                    DStmt::If { cond, .. } => narrowed(nest, lets, active, cond),
                    _ => active,
                };
                stmts.push(s.map_lists(|inner| list(nest, lets, inner, inside, refused)));
            }
        }
    }
    stmts
}

/// Which threads are left under a condition (or inside a loop of so many steps).
fn narrowed(nest: &mut Nest, lets: &BTreeSet<Name>, active: Active, cond: &Expr) -> Active {
    let block = nest.block;
    let mut rank = |group: u32| {
        let rank_of = |name: &Name| match name.as_str().strip_prefix("threadIdx.") {
            Some(axis) => Some(Rank::of_axis(axis, block, group)),
            // Blocks and the steps of loops: the threads that are left are at the same one.
            None if !lets.contains(name) => Some(Rank::Block),
            None => None,
        };
        Warps { block, group, ranges: &mut nest.ranges, rank_of: &rank_of }.rank(cond)
    };
    let left = match (rank(WARPGROUP), rank(WARP)) {
        (Rank::Constant | Rank::Block, _) => Active::All,
        (Rank::Warpgroup, _) => Active::WholeWarpgroups,
        (Rank::Warp | Rank::Thread, Rank::Thread) => Active::Some,
        (Rank::Warp | Rank::Thread, _) => Active::WholeWarps,
    };
    active.max(left)
}
