//! `--rule` and `--set`: which rule and which point of its space.

use super::{Exit, Failure};
use crate::assemble::{Schedulable, Scheduled, Subject};
use crate::log::Setting;
use crate::rules::{Arm, Knobs, RULES, Spaces, is_form_of, unknown, verdicts};
use std::collections::BTreeMap;

/// What was chosen by hand.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choice {
    /// Only this rule, or one of its forms.
    pub rule: Option<String>,
    /// Values of knobs, such as `threads=256` and `hint=evict_first`.
    pub set: Vec<String>,
}

/// The rules that take the function and that `--rule` allows.
///
/// # Errors
/// An unknown rule; no rule takes the function, with each reason.
pub fn arms(subject: &Schedulable, spaces: &Spaces, name: &str, choose: &Choice) -> Result<Vec<Arm>, Failure> {
    let wanted = choose.rule.as_deref();
    check_rule(wanted)?;
    let all = if wanted.is_none() { subject.arms(spaces) } else { vec![] };
    if !all.is_empty() {
        return Ok(all);
    }
    let mut declined = vec![];
    let mut out = vec![];
    for v in verdicts(&subject.prepared, &subject.target, spaces) {
        match v.arm {
            _ if wanted.is_some_and(|w| !is_form_of(v.rule, w)) => {}
            Ok(arm) => out.push(arm),
            Err(d) => declined.push(d.to_string()),
        }
    }
    if out.is_empty() {
        let message = format!("{name}: no rule takes this function on {}: {}", subject.target.id, declined.join("; "));
        return Err(Failure::new(Exit::Failed, message));
    }
    Ok(out)
}

fn check_rule(wanted: Option<&str>) -> Result<(), Failure> {
    let forms: Vec<&str> = RULES.iter().map(|r| r.name).collect();
    let mut names: Vec<&str> = forms.iter().filter_map(|n| n.split('.').next()).collect();
    names.dedup();
    names.extend(&forms);
    match wanted {
        Some(w) if !forms.iter().any(|n| is_form_of(n, w)) => Err(Failure::usage(unknown("rule", w, &names))),
        _ => Ok(()),
    }
}

/// The point that `--set` chooses: the default of the first arm that has all the knobs named, changed.
///
/// # Errors
/// A pair that is not `knob=value`, an unknown knob or choice, or a point that breaks a condition.
pub fn point<'a>(arms: &'a [Arm], choose: &Choice) -> Result<(&'a Arm, Knobs), Failure> {
    let pairs = pairs(&choose.set)?;
    let first = arms.first().ok_or_else(|| Failure::new(Exit::Failed, "no rule takes this function"))?;
    let has = |a: &&Arm| pairs.iter().all(|(n, _)| a.space.knobs.iter().any(|k| k.name == *n));
    let arm = arms.iter().find(has).unwrap_or(first);
    let default = arm.default().ok_or_else(|| Failure::new(Exit::Failed, "no point of the space is legal"))?;
    let knobs = arm.space.set(&default, &pairs).map_err(Failure::usage)?;
    arm.space.check(&knobs).map_err(|why| {
        let form = arm.space.form;
        Failure::usage(format!("the knobs {} are not legal for {form}: {why}", arm.space.show(&knobs)))
    })?;
    Ok((arm, knobs))
}

/// The form of a rule and its knobs.
pub type Chosen = (&'static str, BTreeMap<String, Setting>);

/// A subject as `--rule` and `--set` schedule it, with the rule and the knobs; a tile program leaves nothing to choose.
///
/// # Errors
/// As [`arms`] and [`point`]; a choice for a tile program.
pub fn scheduled<'s>(
    subject: &'s Subject,
    spaces: &Spaces,
    name: &str,
    choose: &Choice,
) -> Result<(Scheduled<'s>, Option<Chosen>), Failure> {
    match subject {
        Subject::Tensor(s) => {
            let arms = arms(s, spaces, name, choose)?;
            let (arm, knobs) = point(&arms, choose)?;
            let schedule = arm.schedule(&knobs).map_err(|e| Failure::new(Exit::Failed, format!("{name}: {e}")))?;
            Ok((Scheduled::Tensor(s, schedule), Some((arm.space.form, arm.space.settings(&knobs)))))
        }
        Subject::Tile(_) if *choose != Choice::default() => {
            Err(Failure::usage(format!("{name}: a tile program has no rule and no knobs to choose")))
        }
        Subject::Tile(program) => Ok((Scheduled::Tile(program), None)),
    }
}

fn pairs(set: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let one = |text: &str| {
        let (name, value) = text.split_once('=')?;
        Some((name.trim().to_string(), value.trim().to_string()))
    };
    let parts = set.iter().flat_map(|s| s.split(',')).filter(|s| !s.trim().is_empty());
    parts
        .map(|t| one(t).ok_or_else(|| Failure::usage(format!("--set {t}: expected knob=value, such as threads=256"))))
        .collect()
}
