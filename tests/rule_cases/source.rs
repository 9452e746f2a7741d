//! The headers of the files in `src/rules`, and the predicates that they say a rule declines by.

use super::root;
use crate::common::files;
use daylight::rules::{RULES, Rule};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A file of `src/rules`.
pub struct Source {
    pub path: PathBuf,
    pub text: String,
    /// The lines of its header.
    pub header: Vec<String>,
    /// The rules that it makes.
    pub rules: Vec<&'static Rule>,
}

/// All of them, those with rules in the order of [`RULES`] first.
pub fn sources() -> Vec<Source> {
    let mut all: Vec<Source> = files(&root("src/rules"), "rs").into_iter().map(source).collect();
    let first = |s: &Source| RULES.iter().position(|r| s.rules.iter().any(|own| own.name == r.name));
    all.sort_by_key(|s| (first(s).unwrap_or(RULES.len()), s.path.clone()));
    all
}

fn source(path: PathBuf) -> Source {
    let text = std::fs::read_to_string(&path).expect("read a source");
    let header = text.lines().map_while(|l| l.strip_prefix("//!")).map(|l| l.strip_prefix(' ').unwrap_or(l));
    let header = header.map(str::to_string).collect();
    let rules = RULES.iter().filter(|r| text.contains(&format!("schedules/{}.toml", r.name))).collect();
    Source { path, text, header, rules }
}

/// The paragraph of a header that begins with a word; empty where there is none.
pub fn paragraph(header: &[String], word: &str) -> String {
    let from = header.iter().skip_while(|l| !l.starts_with(word));
    let own = from.take_while(|l| !l.is_empty() && !l.starts_with("```"));
    own.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// The predicates that the headers say a rule, or what several rules use (`Product::of`), declines by. A list goes
/// `a`, `b`; `owner`: `c`, the predicates of [`Other::of`]: what comes before the first owner is of all in the file.
pub fn declines(all: &[Source], owner: &str) -> BTreeSet<String> {
    let home = |s: &&Source| match owner.contains("::") {
        true => paragraph(&s.header, "Declines").contains(&format!("`{owner}`:")),
        false => s.rules.iter().any(|r| r.name == owner),
    };
    let home = all.iter().find(home).unwrap_or_else(|| panic!("no header says what `{owner}` declines by"));
    let list = paragraph(&home.header, "Declines");
    let parts: Vec<&str> = list.split('`').collect();
    let (mut of, mut found) = (owner, BTreeSet::new());
    for around in parts.windows(3).step_by(2) {
        let [before, word, after] = around else { continue };
        if after.starts_with(':') {
            of = word;
        } else if of == owner && before.ends_with('[') {
            found.extend(declines(all, word));
        } else if of == owner {
            found.insert(word.to_string());
        }
    }
    found
}

/// The names in `start` .. `"` of all sources without their tests, as in `.no("name"`.
pub fn literals(all: &[Source], starts: &[&str]) -> BTreeSet<String> {
    let names = |s: &Source, start: &str| -> Vec<String> {
        let code = s.text.split("mod tests {").next().unwrap_or_default();
        code.split(start).skip(1).filter_map(|rest| rest.split('"').next().map(str::to_string)).collect()
    };
    all.iter().flat_map(|s| starts.iter().flat_map(|start| names(s, start)).collect::<Vec<_>>()).collect()
}
