//! Choosing the variant of a call.

use super::decision::{Decision, NoVariant, Refusals, Verdict};
use super::{Cx, Emit, Plan, Variant, variants};
use crate::ir::TileCall;
use crate::ir::device::DStmt;

/// What every variant of the operation says to the call, and which one is taken.
///
/// # Errors
/// Where the call forces a variant that does not exist.
pub fn decide(call: &TileCall, cx: &Cx) -> Result<Decision, NoVariant> {
    let (decision, _) = planned(call, cx);
    if decision.asks_for_unknown() { Err(NoVariant(Box::new(decision))) } else { Ok(decision) }
}

/// The statements of the variant that carries out the call.
///
/// # Errors
/// Where no variant accepts, or the forced one does not: the whole table of reasons.
pub fn dispatch(call: &TileCall, emit: &mut Emit) -> Result<(Decision, Vec<DStmt>), NoVariant> {
    match planned(call, &emit.cx()) {
        (decision, Some(plan)) => Ok((decision, plan(emit))),
        (decision, None) => Err(NoVariant(Box::new(decision))),
    }
}

/// The decision, with the plan of the variant that is taken.
fn planned(call: &TileCall, cx: &Cx) -> (Decision, Option<Plan>) {
    let (mut verdicts, mut taken) = (vec![], None);
    for v in variants(call.op) {
        let (verdict, plan) = verdict(v, call, cx);
        let wanted = call.forced.as_ref().map_or(!v.only_forced, |n| v.name == n);
        taken = taken.or(plan.filter(|_| wanted).map(|plan| (v.name, plan)));
        verdicts.push(verdict);
    }
    let (chosen, plan) = taken.unzip();
    (Decision { call: call.clone(), verdicts, chosen }, plan)
}

/// What a variant says, and its plan where it accepts.
fn verdict(v: &Variant, call: &TileCall, cx: &Cx) -> (Verdict, Option<Plan>) {
    let mut refusals = Refusals::default();
    let plan = (v.plan)(call, cx, &mut refusals);
    let Refusals { asked, noted: refusals } = refusals;
    assert!(plan.is_some() || !refusals.is_empty(), "`{}` neither takes `{call}` nor says why not", v.name);
    let plan = plan.filter(|_| refusals.is_empty());
    (Verdict { variant: v.name, priority: v.priority, asked, refusals }, plan)
}
