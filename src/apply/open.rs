//! Kernels of a function whose extents are known at run time: for each size that is tuned the kernel that was
//! measured, and its schedule taken of the function as it is, where the rule takes that point for every size. In
//! between the schedule of the next larger size serves, above all of them that of the largest.
//!
//! Without a list of sizes, those of the log are tuned sizes.

use super::kernel::{self, Draft, Kernel};
use super::ladder::{self, Found, Wanted, machine};
use super::options::Options;
use super::unit::Rung;
use super::untuned;
use super::when::When;
use crate::assemble::{Bindings, Exit, Failure, Input, Schedulable, smaller_first};
use crate::backend::Plan;
use crate::log::{Outcome, Record};
use crate::target::Target;

/// Sizes of one function that are built at most.
const MOST: usize = 64;
/// Sizes that are taken from a log unasked.
const MOST_LOGGED: usize = 16;

/// The kernels of a function for one target, in the order in which they are asked whether they take a size.
///
/// # Errors
/// Why there are none; a size that is not exactly the one that was measured, where that is required.
pub(super) fn drafts(f: &Input, name: &str, target: &Target, options: &Options<'_>) -> Result<Vec<Draft>, Failure> {
    let open = f.schedulable(target)?;
    let params = Plan::params(&open.prepared.func, &open.roles).map_err(|e| Failure::new(Exit::Failed, e))?;
    let Tuned { exact, general, missing } = tuned(f, name, &open, options)?;
    let is_tuned = missing.is_empty() && !exact.is_empty();
    let mut out = exact;
    if options.require_exact {
        exactly(f, target, &out, &missing)?;
    } else {
        out.extend(every_size(f, name, &open, general, options).or_else(|why| match out.is_empty() {
            true => Err(why),
            // Other sizes than those are refused at run time.
            false => Ok(vec![]),
        })?);
    }
    if let (false, Some(last)) = (is_tuned, out.last_mut()) {
        last.unit.untuned = Some(untuned::sizes(f, &missing, target, options));
    }
    out.iter_mut().for_each(|d| d.unit.params.clone_from(&params));
    Ok(out)
}

/// What the log has for the sizes of a function.
struct Tuned {
    /// A kernel for each size alone.
    exact: Vec<Draft>,
    /// Kernels for every size, at the points of those.
    general: Vec<Draft>,
    /// Sizes that nobody measured.
    missing: Vec<Bindings>,
}

fn tuned(f: &Input, name: &str, open: &Schedulable, options: &Options<'_>) -> Result<Tuned, Failure> {
    let (target, id) = (&open.target, open.target.table_id());
    let gpu = machine(options.records, &id, options.gpu).map_err(Failure::usage)?;
    let names = Plan::extents(&f.func);
    let mut out = Tuned { exact: vec![], general: vec![], missing: vec![] };
    for size in sizes(f, target, gpu, options)? {
        let one = f.at(&size);
        let subject = one.schedulable(target)?;
        let flags = options.flags(&one, target);
        let wanted = Wanted { key: &one.key, bind: &one.bind, target: &id, flags: &flags };
        let found = ladder::of_size(options.records, &wanted, gpu, (&subject, options.spaces));
        if found.as_ref().is_none_or(|found| found.rung != Rung::SameArch) {
            out.missing.push(size.clone());
        }
        let Some(found) = found else { continue };
        let taken: Bindings = size.iter().map(|(k, v)| (names.get(k).unwrap_or(k).clone(), *v)).collect();
        if let Some(kernel) = at_knobs(open, &found, options) {
            out.general.push(draft(name, f, open, When::UpTo(taken.clone()), kernel));
        }
        out.exact.push(draft(name, &one, &subject, When::Exactly(taken), kernel::replayed(found, options)));
    }
    Ok(out)
}

/// The kernels that take every size together: the last one what is left by the others, or else the default all.
fn every_size(
    f: &Input,
    name: &str,
    open: &Schedulable,
    mut general: Vec<Draft>,
    options: &Options<'_>,
) -> Result<Vec<Draft>, Failure> {
    thin(&mut general);
    match general.last_mut() {
        Some(last) => last.unit.when = When::Always,
        None => general.push(draft(name, f, open, When::Always, kernel::default(f, open, options)?)),
    }
    Ok(general)
}

fn draft(name: &str, f: &Input, subject: &Schedulable, when: When, kernel: Kernel) -> Draft {
    let mut draft = kernel::draft(name, f, subject, kernel);
    draft.unit.when = when;
    draft
}

/// The sizes that kernels are made for: those that are asked for, else those of the log.
fn sizes(f: &Input, target: &Target, gpu: Option<&str>, options: &Options<'_>) -> Result<Vec<Bindings>, Failure> {
    let asked = f.sizes(options.sizes);
    if asked.len() > MOST {
        let text = format!(
            "{}: {} sizes are asked for, which are a kernel each or more; ask for {MOST} at most",
            f.name,
            asked.len()
        );
        return Err(Failure::usage(text));
    }
    if !asked.is_empty() {
        return Ok(asked);
    }
    let ours = |r: &&Record| {
        r.workload.key == f.key
            && r.target == target.table_id()
            && r.outcome == Outcome::Ok
            && Some(r.env.gpu.as_str()) == gpu
    };
    let mut logged: Vec<Bindings> = options.records.iter().filter(ours).filter_map(|r| open_part(f, &r.bind)).collect();
    smaller_first(&mut logged);
    let (all, last) = (logged.len(), logged.len().min(MOST_LOGGED).saturating_sub(1));
    // Of many some are taken, the smallest and the largest among them.
    Ok(if all <= MOST_LOGGED { logged } else { (0..=last).map(|i| logged[i * (all - 1) / last].clone()).collect() })
}

/// What a record's extents say of those that are open, where they are of this function as far as it is bound.
fn open_part(f: &Input, bind: &Bindings) -> Option<Bindings> {
    let open = f.unbound();
    let bound = f.bind.iter().all(|(k, v)| bind.get(k) == Some(v)) && bind.len() == f.bind.len() + open.len();
    let values = open.iter().map(|name| Some((name.to_string(), *bind.get(*name)?)));
    if bound { values.collect() } else { None }
}

/// The kernel for every size at the point of a record, where the rule takes it there.
fn at_knobs(open: &Schedulable, found: &Found<'_>, options: &Options<'_>) -> Option<Kernel> {
    let r = found.record;
    let schedule = open.logged(&[], (&r.rule, r.rule_version), &r.knobs, options.spaces)?;
    let rung = if found.rung == Rung::SameArch { Rung::Neighbour } else { found.rung };
    Some(kernel::kernel(&schedule, open.assemble(&schedule).ok()?, rung, (r, found.measured_us)))
}

/// Drops kernels that nothing is left for: below size 1 there is none, and the next one may take the same sizes with
/// the same text. The last will take every size.
fn thin(general: &mut Vec<Draft>) {
    let mut i = 0;
    while i + 1 < general.len() {
        let (a, b) = (&general[i], &general[i + 1]);
        let covered = i + 2 == general.len() || b.unit.when.covers(&a.unit.when);
        let least = matches!(&a.unit.when, When::UpTo(size) if size.values().all(|v| *v == 1));
        if least || covered && a.source.text == b.source.text {
            general.remove(i);
        } else {
            i += 1;
        }
    }
}

/// That every size is exactly the one that was measured.
fn exactly(f: &Input, target: &Target, drafts: &[Draft], missing: &[Bindings]) -> Result<(), Failure> {
    let not = drafts.iter().find(|d| d.unit.rung != Rung::Exact).map(|d| d.unit.rung.name());
    let why = match (missing.is_empty(), not) {
        (false, _) => untuned::listed(missing) + " has no measured kernel",
        (true, Some(rung)) => format!("a kernel is \"{rung}\", not \"exact\""),
        (true, None) if drafts.is_empty() => "its sizes are known at run time and none is tuned".into(),
        (true, None) => return Ok(()),
    };
    Err(Failure::new(Exit::Failed, format!("{}: --require-exact: for {}: {why}", f.name, target.id)))
}
