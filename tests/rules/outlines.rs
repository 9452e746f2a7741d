//! Outlines say beforehand what a program will look like; here they are held to the programs: launches, blocks
//! and threads of points of every rule for GPUs, over the corpus.

use super::corpus::inputs;
use super::harness::target;
use daylight::assemble::Schedulable;
use daylight::ir::kernel::{Launch, Program};
use daylight::job::Input;
use daylight::lower::lower;
use daylight::rules::{Arm, Knobs, LaunchOutline, Outline, Space, Spaces};
use rand::prelude::*;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Points of a rule for one function, besides the default.
const POINTS: usize = 6;

/// The default point of a rule and random ones.
fn points(arm: &Arm, seed: u64) -> Vec<Knobs> {
    let legal = arm.space.points();
    let random = legal.sample(&mut StdRng::seed_from_u64(seed), POINTS).cloned();
    arm.space.default().into_iter().chain(arm.default()).chain(random).collect()
}

fn of_launch(l: &Launch) -> [i64; 2] {
    let blocks = l.grid.iter().map(|e| e.as_int().expect("sizes are constant where there is an outline"));
    [blocks.product(), i64::from(l.threads())]
}

fn of_outline(l: &LaunchOutline) -> [i64; 2] {
    [l.blocks, l.threads]
}

/// Where an outline is another than its program. A piece without an outline is left out of the whole.
fn difference(space: &Space, outline: &Outline, program: &Program) -> Option<String> {
    let own = outline.launches.iter().filter(|l| !l.last_block);
    let said: Vec<[i64; 2]> = own.map(of_outline).collect();
    let made: Vec<[i64; 2]> = program.launches.iter().map(of_launch).collect();
    let mut rest = made.iter();
    let in_order = said.iter().all(|s| rest.any(|m| s == m));
    let whole = said.len() == made.len() || space.form.starts_with("pieces");
    (!in_order || !whole).then(|| format!("[blocks, threads]: the outline says {said:?}, the program is {made:?}"))
}

/// What there is against the outlines of a function, by rule, and the rules that have outlines for it.
fn accusations(input: &Input) -> (Vec<(String, String)>, BTreeSet<&'static str>) {
    let subject = Schedulable::new(&input.func, &input.func, target("cuda:sm_90a"));
    let subject = subject.unwrap_or_else(|d| panic!("{}: {d}", input.file));
    let (mut found, mut outlined) = (vec![], BTreeSet::new());
    for arm in subject.arms(&Spaces::built_in()) {
        for knobs in points(&arm, 7) {
            let Some(outline) = arm.outline(&knobs) else { continue };
            outlined.insert(arm.space.form);
            let at = format!("{} {}: {}", input.file, arm.space.form, arm.space.show(&knobs));
            let schedule = arm.schedule(&knobs).unwrap_or_else(|e| panic!("{at}: {e}"));
            // What does not fit the device is no program.
            let Ok(program) = lower(schedule.func(), &subject.target, &[]) else { continue };
            let said = difference(&arm.space, &outline, &program)
                .map(|why| (arm.space.form.to_string(), format!("{at}: {why}")));
            found.extend(said);
        }
    }
    (found, outlined)
}

#[test]
fn outlines_are_what_programs_become() {
    let all: Vec<_> = inputs().par_iter().map(accusations).collect();
    let mut by_form: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut outlined = BTreeSet::new();
    for (found, forms) in all {
        found.into_iter().for_each(|(form, why)| by_form.entry(form).or_default().push(why));
        outlined.extend(forms);
    }
    let shown = by_form.iter().map(|(form, list)| {
        let first: Vec<&str> = list.iter().take(5).map(String::as_str).collect();
        format!("{form}: {} points\n  {}", list.len(), first.join("\n  "))
    });
    let shown: Vec<String> = shown.collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    assert!(outlined.len() >= 10, "{outlined:?}");
}
