//! `daylight log export`: records for other programs.

use super::super::context::Context;
use super::super::output;
use super::args::{self, Format};
use super::{has_outcome, is_about, not_an_input, records};
use crate::job::{Exit, Failure};
use crate::log::{self, Outcome, Record, Selection};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub fn run(cx: &Context, a: &args::Export) -> Result<Exit, Failure> {
    not_an_input(&a.out, &a.logs)?;
    let all = records(&a.logs)?;
    let wanted: Vec<&Record> = all.iter().filter(|r| is_about(r, &a.filter, cx) && has_outcome(r, &a.filter)).collect();
    match a.format {
        Format::Csv => {
            let text = log::csv(&wanted).map_err(Failure::usage)?;
            written(cx, &a.out, &text, wanted.len())?;
        }
        Format::T4 => t4(cx, &a.out, &wanted)?,
    }
    Ok(Exit::Done)
}

/// A T4 file holds one tuning problem on one machine, so several go into a folder. Rankings have no place in it.
fn t4(cx: &Context, out: &Path, wanted: &[&Record]) -> Result<(), Failure> {
    let groups = log::selections(wanted.iter().copied().filter(|r| r.outcome != Outcome::Predicted));
    let is_folder = out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/');
    if groups.is_empty() || (!is_folder && groups.len() != 1) {
        return Err(Failure::usage(several(&groups)));
    }
    let mut names = BTreeSet::new();
    for group in groups.values() {
        let text = log::t4(group).to_string();
        let file = if is_folder { out.join(unused(&mut names, group[0])) } else { PathBuf::from(out) };
        written(cx, &file, &text, group.len())?;
    }
    Ok(())
}

fn several(groups: &BTreeMap<Selection<'_>, Vec<&Record>>) -> String {
    let one = |(s, g): (&Selection<'_>, &Vec<&Record>)| {
        format!("{} {} {} ({})", title(g[0]), s.target, s.env.gpu, s.policy.id)
    };
    let found: Vec<String> = groups.iter().map(one).take(8).collect();
    format!(
        "a T4 file holds one workload on one machine, and {} were asked for{}{}; choose one with --workload, \
         --target and --bind, or name a folder with --out DIR/ for a file of each",
        groups.len(),
        if found.is_empty() { "" } else { ": " },
        found.join(", ")
    )
}

/// The workload's name with the values of its extents.
fn title(r: &Record) -> String {
    r.bind.iter().fold(r.workload.name.clone(), |name, (k, v)| format!("{name}-{k}{v}"))
}

/// A file name for the group of a record that no other group has.
fn unused(taken: &mut BTreeSet<String>, r: &Record) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let stem: String = format!("{}-{}-{}", title(r), r.target, r.env.gpu).chars().map(plain).collect();
    let number = |n: usize| if n == 1 { String::new() } else { format!("-{n}") };
    let free = (1..).map(|n| format!("{stem}{}.json", number(n))).find(|name| !taken.contains(name));
    let name = free.unwrap_or(stem);
    taken.insert(name.clone());
    name
}

fn written(cx: &Context, out: &Path, text: &str, records: usize) -> Result<(), Failure> {
    log::replace(out, text.as_bytes()).map_err(Failure::usage)?;
    if cx.json {
        output::line(&json!({ "schema": 1, "out": out.display().to_string(), "records": records }).to_string());
    }
    output::note(&format!("{}: {records} records", out.display()));
    Ok(())
}
