//! Passes of lowering, each on its own: a scheduled function, and its form before and after the pass, as text.

use crate::common;
use crate::lower_cases::*;
use daylight::lower::{PASSES, Pass, Way, lower_after, passes};
use daylight::target::{HostCpu, Target};
use std::collections::BTreeSet;
use std::path::Path;

/// A pass that changes the function of its name in `golden/lower/passes`, as `NAME.txt` there says.
fn golden(name: &str) {
    golden_on(name, &gpu());
}

/// The same on another target.
fn golden_on(name: &str, target: &Target) {
    golden_case(name, name, target);
}

/// The same of another function, `CASE.py`.
fn golden_case(name: &str, case: &str, target: &Target) {
    let place = format!("golden/lower/passes/{case}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{place}.py"));
    let f = read(&std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display())));
    let all: Vec<&Pass> = passes(Way::Cuda).collect();
    let at = all.iter().position(|p| p.name == name).unwrap_or_else(|| panic!("no pass `{name}`"));
    let form = |pass: &Pass| {
        let launches = lower_after(&f, target, pass).unwrap_or_else(|e| panic!("{name}: {e}"));
        launches.iter().map(|l| format!("\n{l}")).collect::<String>()
    };
    let (before, after) = (form(all[at - 1]), form(all[at]));
    assert_ne!(before, after, "`{name}` does nothing to its own example");
    common::golden(&format!("{place}.txt"), &format!("before {name}\n{before}\nafter {name}\n{after}"));
}

#[test]
fn flatten_gives_every_access_one_index() {
    golden("flatten");
}

#[test]
fn guards_that_always_hold_are_dropped() {
    golden("uniform_guards");
}

#[test]
fn blocks_inside_a_tensor_have_no_conditions() {
    golden("whole_tiles");
}

#[test]
fn unroll_takes_loops_over_registers_and_short_ones() {
    golden("unroll");
}

#[test]
fn loads_inside_expressions_are_lifted_for_batch() {
    golden("lift_loads");
}

#[test]
fn last_steps_alone_have_conditions() {
    golden("last_step");
}

#[test]
fn steps_of_an_unknown_number_ask_whether_they_are_whole() {
    golden_case("last_step", "last_step_symbolic", &gpu());
}

#[test]
fn batch_puts_loads_before_uses() {
    golden("batch");
}

#[test]
fn roles_are_for_threads_of_their_own() {
    golden("roles");
}

#[test]
fn tensor_memory_is_taken_and_given_back() {
    golden_on("tensor_memory", &Target::parse("cuda:sm_100a", &HostCpu::default()).expect("a target"));
}

#[test]
fn roles_take_over_tiles_of_blocks_that_have_not_started() {
    golden_case("roles", "roles_fetched", &Target::parse("cuda:sm_100a", &HostCpu::default()).expect("a target"));
}

#[test]
fn pipeline_runs_copies_ahead() {
    golden("pipeline");
}

#[test]
fn pipeline_copies_single_elements_and_zeros_past_the_end() {
    golden_case("pipeline", "pipeline_elements", &gpu());
}

#[test]
fn pipeline_deals_copies_out_among_the_parts_of_a_computation() {
    golden_case("pipeline", "pipeline_among", &gpu());
}

#[test]
fn barriers_stand_between_a_write_and_another_threads_read() {
    golden("barriers");
}

#[test]
fn guards_go_around_loops_and_are_joined() {
    golden("hoist_guards");
}

#[test]
fn calls_that_no_step_changes_go_before_the_loop() {
    golden("invariants");
}

#[test]
fn pin_keeps_a_row_packed() {
    golden("pin");
}

#[test]
fn every_pass_has_a_name_of_its_own_and_some_way() {
    let names: BTreeSet<&str> = PASSES.iter().map(|p| p.name).collect();
    assert_eq!(names.len(), PASSES.len());
    let ways = [Way::Cuda, Way::Cpu, Way::Program];
    let taken: BTreeSet<&str> = ways.into_iter().flat_map(passes).map(|p| p.name).collect();
    assert_eq!(taken, names);
}

#[test]
fn after_the_last_pass_comes_the_kernel() {
    let last = passes(Way::Cuda).last().expect("there are passes");
    let f = read(include_str!("golden/lower/passes/barriers.py"));
    let launches = lower_after(&f, &gpu(), last).expect("a form");
    let text = launches[0].to_string();
    let kernel = daylight::lower::lower(&f, &gpu(), &[]).expect("a kernel").launches[0].to_string();
    // Here all that `finish` adds are parameters, sizes and types.
    let body = |text: &str| text.lines().filter(|l| l.starts_with("  ") && !l.contains("float32")).count();
    assert_eq!(body(&text), body(&kernel), "{text}\n{kernel}");
}
