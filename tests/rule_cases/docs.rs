//! `docs/rules.md`, from the headers of the rules, their knob tables and the conditions of their spaces.

use super::shown::{self, block};
use super::source::{Source, declines, paragraph, sources};
use super::spaces;
use crate::common;
use daylight::rules::Rule;
use toml::{Table, Value};

const HEAD: &str = "# Rules

What each rule of `src/rules` takes, how it schedules that, and what may vary. Written by a test from the headers of
the rules, from `schedules/*.toml` and from the cases in `tests/cases/rules`; `UPDATE_EXPECT=1 cargo test
rule_cases` writes it anew. Rules stand in the order in which untuned use asks them.

A rule **declines** a function by the first predicate that does not hold. A point of its knobs is left out by the first
of the **conditions** that it breaks; those in italics only keep slow candidates out of the search. In what a function
becomes, `loop` is serial, loops of one step are left out, and brackets hold marks for lowering.
";

/// The paragraphs of a header up to those that are lists or examples.
fn prose(source: &Source) -> String {
    let mut out = String::new();
    for line in source.header.iter().take_while(|l| !l.starts_with("Declines") && !l.starts_with("```")) {
        let starts = ["When", "How"].iter().find(|w| line.starts_with(**w));
        let text = line.replace("[`", "`").replace("`]", "`");
        match starts.zip(text.split_once(':')) {
            Some((_, (word, rest))) => out += &format!("\n**{word}:**{rest}\n"),
            None if text.is_empty() => {}
            None => out += &format!("{text}\n"),
        }
    }
    out.trim_end().to_string()
}

fn value(v: &Value) -> String {
    match v {
        Value::String(s) => s.clone(),
        Value::Integer(n) => n.to_string(),
        Value::Array(all) => all.iter().map(value).collect::<Vec<_>>().join(", "),
        other => panic!("a knob table has texts, integers and lists, not {other:?}"),
    }
}

/// The knobs of a table, with what is said of targets of their own.
fn knobs(rule: &Rule) -> String {
    let table: Table = toml::from_str(rule.table).unwrap_or_else(|e| panic!("{e}"));
    let knobs = table.get("knob").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut out = String::new();
    for k in &knobs {
        let get = |key: &str| k.get(key).map(value).unwrap_or_default();
        let at = k.get("at").and_then(Value::as_table).cloned().unwrap_or_default();
        let at = at.iter().flat_map(|(target, own)| {
            let own = own.as_table().cloned().unwrap_or_default();
            own.into_iter().map(move |(key, v)| format!("; `{target}` {key} {}", value(&v)))
        });
        let values = get("values") + &at.collect::<String>();
        out +=
            &format!("| `{}` | {} | {} | {} | {values} |\n", get("name"), get("unit"), get("meaning"), get("default"));
    }
    match out.is_empty() {
        true => "The knobs are those of the pieces.\n".into(),
        false => format!("| knob | unit | meaning | default | values |\n|---|---|---|---|---|\n{out}"),
    }
}

fn conditions(rule: &Rule) -> String {
    let mut all = spaces::conditions(rule.name);
    all.dedup();
    let mut seen: Vec<String> = vec![];
    for (name, soft) in all {
        let text = if soft { format!("*`{name}`*") } else { format!("`{name}`") };
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    seen.join(" ")
}

fn section(all: &[Source], source: &Source, rule: &Rule) -> String {
    let predicates: Vec<String> = declines(all, rule.name).iter().map(|p| format!("`{p}`")).collect();
    let shown = block(source, rule).unwrap_or_default().join("\n");
    format!(
        "\n### `{}`\n\nDeclines: {}\n\nConditions: {}\n\n{}\n```text\n{shown}\n```\n",
        rule.name,
        predicates.join(" "),
        conditions(rule),
        knobs(rule)
    )
}

#[test]
fn headers_show_what_happens_and_make_the_document() {
    shown::check();
    let all = sources();
    let mut text = HEAD.to_string();
    for source in all.iter().filter(|s| !s.rules.is_empty()) {
        let names: Vec<String> = source.rules.iter().map(|r| format!("`{}`", r.name)).collect();
        for word in ["When", "How", "Declines"] {
            assert!(!paragraph(&source.header, word).is_empty(), "{}: no `{word}:`", source.path.display());
        }
        text += &format!("\n## {}\n\n{}\n", names.join(", "), prose(source));
        source.rules.iter().for_each(|rule| text += &section(&all, source, rule));
    }
    common::golden("../docs/rules.md", &text);
}
