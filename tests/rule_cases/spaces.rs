//! Every file of `tests/cases/rules/spaces` is of one rule: functions that it takes, targets, and points of its
//! space, written as the knobs that differ from the default, each with the condition that refuses it.

use super::source::{literals, sources};
use super::{asked, cases, settle, target};
use daylight::rules::{Arm, RULES, Spaces};
use std::collections::BTreeSet;

/// One function of a file.
struct Part<'t> {
    func: &'t str,
    target: &'t str,
    /// Knobs of the points.
    points: Vec<&'t str>,
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let part = |text| {
        let (func, rest): (_, &str) = str::split_once(text, "--- on ").expect("a function has `--- on target`");
        let mut lines = rest.lines();
        let target = lines.next().unwrap_or_default();
        Part { func, target, points: lines.map(|l| l.split(':').next().unwrap_or(l)).collect() }
    };
    text.split("--- function\n").map(part).collect()
}

fn arm(rule: &str, part: &Part) -> Arm {
    let all = asked(part.func, &target(part.target), &Spaces::built_in());
    let own = all.into_iter().find(|v| v.rule == rule).unwrap_or_else(|| panic!("no rule `{rule}`"));
    own.arm.unwrap_or_else(|d| panic!("{d}\n{}", part.func))
}

/// `knobs: condition: sentence` for each point.
fn outcome(rule: &str, part: &Part) -> String {
    let space = arm(rule, part).space;
    let start = space.default().unwrap_or_else(|| panic!("{rule} has a legal point"));
    let mut out = format!("{}--- on {}\n", part.func, part.target);
    for point in &part.points {
        let values: Option<Vec<(String, &str)>> =
            point.split(' ').map(|kv| kv.split_once('=').map(|(k, v)| (k.into(), v))).collect();
        let values = values.unwrap_or_else(|| panic!("{rule}: `{point}` is a list of knob=value"));
        let knobs = space.set(&start, &values).unwrap_or_else(|e| panic!("{e}"));
        out += &match space.check(&knobs) {
            Ok(()) => format!("{point}: legal\n"),
            Err(e) => format!("{point}: {}: {}\n", e.predicate, e.text),
        };
    }
    out
}

#[test]
fn refused_points() {
    settle("spaces", |rule, text| {
        let got: Vec<String> = parts(text).iter().map(|p| outcome(rule, p)).collect();
        got.join("--- function\n")
    });
}

/// The conditions of a rule's spaces in order, each with whether it is only preferred; one that is asked twice
/// of one function stands twice.
pub fn conditions(rule: &str) -> Vec<(&'static str, bool)> {
    let mut found: Vec<(&'static str, bool)> = vec![];
    let own = cases("spaces").into_iter().find(|(_, name, _)| name == rule);
    let (_, _, text) = own.unwrap_or_else(|| panic!("tests/cases/rules/spaces has no {rule}.tir"));
    for part in parts(&text) {
        let own: Vec<(&'static str, bool)> = arm(rule, &part).space.conditions().collect();
        for (i, c) in own.iter().enumerate() {
            let so_far = own[..=i].iter().filter(|o| *o == c).count();
            if found.iter().filter(|o| *o == c).count() < so_far {
                found.push(*c);
            }
        }
    }
    found
}

#[test]
fn every_condition_has_a_case() {
    let (mut all, mut missing) = (BTreeSet::new(), vec![]);
    for (_, rule, text) in cases("spaces") {
        let asked = conditions(&rule);
        let refused: Vec<&str> = text.lines().filter_map(|l| l.split(": ").nth(1)).collect();
        for (name, _) in &asked {
            let (times, trips) = (asked.iter().filter(|c| c.0 == *name).count(), refused.iter().filter(|r| *r == name));
            if trips.count() < times {
                missing.push(format!("{rule}: {name}"));
            }
            all.insert(name.to_string());
        }
        assert!(RULES.iter().any(|r| r.name == rule), "`{rule}` is a rule");
    }
    missing.dedup();
    assert!(missing.is_empty(), "no case in tests/cases/rules/spaces trips {}", missing.join(", "));
    let code = ["require(\"", "prefer(\"", "whole_groups(space, \""];
    assert_eq!(literals(&sources(), &code), all, "the conditions in the code, and those of the cases");
}
