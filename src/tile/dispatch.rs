//! Choosing the variant of a call.

use super::decision::{Decision, NoVariant, Refusal, Verdict};
use super::{Cx, Emit, Variant, variants};
use crate::ir::TileCall;
use crate::ir::device::DStmt;

/// What every variant of the operation says to the call, and which one is taken.
///
/// # Errors
/// Where the call forces a variant that does not exist.
pub fn decide(call: &TileCall, cx: &Cx) -> Result<Decision, NoVariant> {
    let table = variants(call.op);
    if let Some(name) = &call.forced
        && table.iter().all(|v| v.name != name)
    {
        let known = table.iter().map(|v| v.name).collect();
        return Err(NoVariant::Unknown { name: name.clone(), op: call.op, known });
    }
    let verdicts: Vec<Verdict> = table.iter().map(|v| verdict(v, call, cx)).collect();
    let wanted = |v: &Variant| call.forced.as_ref().map_or(!v.only_forced, |n| v.name == n);
    let taken = table.iter().zip(&verdicts).find(|(v, d)| d.refusals.is_empty() && wanted(v));
    let chosen = taken.map(|(v, _)| v.name);
    Ok(Decision { call: call.clone(), verdicts, chosen })
}

/// The statements of the variant that carries out the call.
///
/// # Errors
/// Where no variant accepts, or the forced one does not: the whole table of reasons.
pub fn dispatch(call: &TileCall, emit: &mut Emit) -> Result<(Decision, Vec<DStmt>), NoVariant> {
    let decision = decide(call, &emit.cx())?;
    let Some(name) = decision.chosen else { return Err(NoVariant::AllRefused(Box::new(decision))) };
    let variant = variants(call.op).into_iter().find(|v| v.name == name);
    let variant =
        variant.unwrap_or_else(|| panic!("variant `{name}` was chosen from the table of `{}`", call.op.name()));
    let body = (variant.emit)(call, emit);
    Ok((decision, body))
}

fn verdict(v: &Variant, call: &TileCall, cx: &Cx) -> Verdict {
    let refusal = |p: &super::Predicate| (p.check)(call, cx).err().map(|reason| Refusal { predicate: p.name, reason });
    Verdict { variant: v.name, priority: v.priority, refusals: v.when.iter().filter_map(refusal).collect() }
}
