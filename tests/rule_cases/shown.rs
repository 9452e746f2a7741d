//! The header of each rule shows a function and the loops that it becomes at the rule's default point.
//! `docs/rules.md` is written from headers, so `docs.rs` asks first that these are right.

use super::loops::function;
use super::nest::nest;
use super::source::{Source, sources};
use super::{asked, target, usual};
use daylight::rules::{RULES, Rule, Spaces};

const FENCE: &str = "```";

/// The lines of the block that shows a rule, without the fence.
pub fn block(source: &Source, rule: &Rule) -> Option<Vec<String>> {
    let at = source.header.iter().position(|l| l.starts_with(&format!("{} on ", rule.name)))?;
    Some(source.header[at..].iter().take_while(|l| *l != FENCE).cloned().collect())
}

/// The block as it should be: the same function, and what became of it.
fn shown(rule: &Rule, block: &[String]) -> Vec<String> {
    let (head, before) = block.split_first().expect("a head line");
    let (_, on) = head.split_once(" on ").expect("`rule on target`");
    let before: Vec<&String> = before.iter().take_while(|l| !l.starts_with("after:")).collect();
    let strip = |l: &String| l.strip_prefix("before: ").unwrap_or(l).trim_start().to_string();
    let text: Vec<String> = before.iter().map(|l| strip(l)).collect();
    let text = function(&text.join("\n"));
    let all = asked(&text, &target(on), &Spaces::built_in());
    let own = all.into_iter().find(|v| v.rule == rule.name).expect("the rule is asked");
    let arm = own.arm.unwrap_or_else(|d| panic!("{d}\n{text}"));
    let point = arm.space.default().unwrap_or_else(|| panic!("{} has a legal point", rule.name));
    let done = arm.schedule(&point).unwrap_or_else(|e| panic!("{e}"));
    let after = nest(done.func()).into_iter().enumerate();
    let after = after.map(|(i, l)| format!("{}{l}", if i == 0 { "after:  " } else { "        " }));
    [head].into_iter().chain(before).cloned().chain(after).collect()
}

/// Fails where a header shows something else than what happens.
pub fn check() {
    let mut wrong = vec![];
    for source in sources().into_iter().filter(|s| !s.rules.is_empty()) {
        let mut text = source.text.clone();
        for rule in RULES.iter().filter(|r| source.rules.iter().any(|own| own.name == r.name)) {
            let Some(block) = block(&source, rule) else {
                wrong.push(format!("{} shows no `{} on {}`", source.path.display(), rule.name, usual(rule)));
                continue;
            };
            let lines = |list: &[String]| list.iter().map(|l| format!("//! {l}\n")).collect::<String>();
            let (old, new) = (lines(&block), lines(&shown(rule, &block)));
            if old != new {
                wrong.push(format!("{}: want\n{old}got\n{new}", source.path.display()));
                text = text.replace(&old, &new);
            }
        }
        if std::env::var_os("UPDATE_EXPECT").is_some() && text != source.text {
            std::fs::write(&source.path, text).expect("write the header");
            wrong.clear();
        }
    }
    assert!(wrong.is_empty(), "UPDATE_EXPECT=1 accepts\n{}", wrong.join("\n"));
}
