//! Every file of `tests/cases/rules/declines` is a function, a predicate, and the rules that decline it by that
//! predicate, with their sentences.

use super::source::{self, sources};
use super::{asked, cases, root, settle, target};
use daylight::rules::{RULES, Spaces};
use std::collections::BTreeSet;

/// The predicates that are added to those of the rules.
const OF_ALL: [&str; 2] = ["legal_point", "straight_bodies"];

/// The built-in tables; those of `cpu with reduction.cpu vector 3` have one value in place of a knob's.
fn spaces(with: Option<&str>) -> Spaces {
    let Some(with) = with else { return Spaces::built_in() };
    let [table, knob, value] = with.split(' ').collect::<Vec<_>>()[..] else { panic!("a table, a knob and a value") };
    let text = std::fs::read_to_string(root(&format!("schedules/{table}.toml"))).expect("read the table");
    let (head, rest) = text.split_once(&format!("name = \"{knob}\"")).expect("the table has the knob");
    let (own, tail) = rest.split_once("[[knob]]").map_or((rest, String::new()), |(a, b)| (a, format!("[[knob]]{b}")));
    let own = own.split("[knob.at").next().unwrap_or_default().lines();
    let own: Vec<&str> = own.filter(|l| !l.starts_with("default") && !l.starts_with("values")).collect();
    let made = format!("{head}name = \"{knob}\"\ndefault = {value}\nvalues = [{value}]{}\n{tail}", own.join("\n"));
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(format!("{table}.toml")), made).expect("write the table");
    Spaces::with_folder(folder.path()).unwrap_or_else(|e| panic!("{e}"))
}

/// The function, the head (`--- predicate on targets`), the predicate and the targets.
fn parts(text: &str) -> (&str, &str, &str, Vec<&str>) {
    let (func, rest) = text.split_once("--- ").expect("a case has `--- predicate on targets`");
    let head = rest.lines().next().unwrap_or_default();
    let (predicate, targets) = head.split_once(" on ").expect("a case has `--- predicate on targets`");
    (func, head, predicate, targets.split(", ").collect())
}

/// `rule: sentence` of every rule that declines by the predicate.
fn outcome(func: &str, predicate: &str, targets: &[&str]) -> String {
    let mut out = String::new();
    for place in targets {
        let (id, with) = place.split_once(" with ").map_or((*place, None), |(id, with)| (id, Some(with)));
        for v in asked(func, &target(id), &spaces(with)) {
            if let Err(d) = v.arm.map(|_| ())
                && d.reason.predicate == predicate
            {
                out += &format!("{}: {}\n", v.rule, d.reason.text);
            }
        }
    }
    out
}

#[test]
fn declined_functions() {
    settle("declines", |name, text| {
        let (func, head, predicate, targets) = parts(text);
        assert!(name.starts_with(predicate), "{name}.tir is named after its predicate");
        let got = outcome(func, predicate, &targets);
        assert!(!got.is_empty(), "{name}.tir: no rule declines by it");
        format!("{func}--- {head}\n{got}")
    });
}

#[test]
fn every_predicate_has_a_case() {
    let all = sources();
    let said: BTreeSet<(String, String)> = RULES
        .iter()
        .flat_map(|r| source::declines(&all, r.name).into_iter().map(|p| (r.name.to_string(), p)))
        .collect();
    let mut tripped = BTreeSet::new();
    for (_, _, text) in cases("declines") {
        let (_, head, predicate, _) = parts(&text);
        let rules = text.split_once(head).map_or("", |(_, rest)| rest).lines();
        let rules = rules.filter_map(|l| l.split_once(": ")).map(|(rule, _)| rule.to_string());
        tripped.extend(rules.map(|r| (r, predicate.to_string())));
    }
    let missing: Vec<_> = said.difference(&tripped).collect();
    assert!(missing.is_empty(), "no case in tests/cases/rules/declines trips {missing:?}");
    let more: Vec<_> = tripped.difference(&said).filter(|(_, p)| !OF_ALL.contains(&p.as_str())).collect();
    assert!(more.is_empty(), "`Declines:` in the header does not name {more:?}");
    let in_code = source::literals(&all, &[".no(\""]);
    let named: BTreeSet<String> = tripped.into_iter().map(|(_, p)| p).collect();
    assert_eq!(in_code, named, "what the code declines by, and what cases trip");
}
