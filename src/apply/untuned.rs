//! What is said of a kernel that is not tuned for its target and size: which it is, what the log has of the function
//! instead, and the command that tunes it.

use super::options::Options;
use super::unit::Rung;
use crate::assemble::{Bindings, Input};
use crate::log::{Outcome, pairs};
use crate::target::Target;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

/// Sizes of the log that are listed.
const MOST_SHOWN: usize = 8;

/// The sentence for a function at the sizes that it is bound to; `None` where its kernel is tuned.
pub(super) fn note(f: &Input, rung: Rung, target: &Target, options: &Options<'_>) -> Option<String> {
    let kernel = match rung {
        Rung::Exact | Rung::SameArch => return None,
        Rung::Neighbour => "the one of another size",
        Rung::Predicted => "the model's choice, which nobody measured",
        Rung::Default => "the default",
    };
    Some(format!("{}: its kernel is {kernel}; {}", untuned(f, &[], target), rest(f, &[], target, options)))
}

/// The sentence for sizes of a function that nothing is tuned for.
pub(super) fn sizes(f: &Input, missing: &[Bindings], target: &Target, options: &Options<'_>) -> String {
    format!("{}; {}", untuned(f, missing, target), rest(f, missing, target, options))
}

fn untuned(f: &Input, sizes: &[Bindings], target: &Target) -> String {
    let at = if sizes.is_empty() { listed(&[&f.bind]) } else { listed(sizes) };
    let at = if at.is_empty() { at } else { format!(" at {at}") };
    format!("{} is not tuned for {}{at}", f.name, target.table_id())
}

/// What the log has, and the command.
fn rest(f: &Input, sizes: &[Bindings], target: &Target, options: &Options<'_>) -> String {
    let id = target.table_id();
    let records = || options.records.iter().filter(|r| r.workload.key == f.key && r.outcome == Outcome::Ok);
    let others: BTreeSet<&str> = records().map(|r| r.target.as_str()).filter(|t| *t != id).collect();
    let here: BTreeSet<&Bindings> = records().filter(|r| r.target == id).map(|r| &r.bind).collect();
    let mut has = vec![];
    if here.contains(&f.bind) {
        has.push("records of it from which its kernel can no longer be made".to_string());
    }
    let here: Vec<&Bindings> = here.into_iter().filter(|b| **b != f.bind).collect();
    if !here.is_empty() {
        let shown = here.len().min(MOST_SHOWN);
        let more = if here.len() > shown { format!(" and {} more", here.len() - shown) } else { String::new() };
        has.push(format!("it at {}{more}", listed(&here[..shown])));
    }
    if !others.is_empty() {
        has.push(format!("it for {}", others.into_iter().collect::<Vec<_>>().join(", ")));
    }
    let has = if has.is_empty() { "nothing of it".to_string() } else { has.join(" and ") };
    format!("the log has {has}; tune it: {}", command(f, sizes, target, options))
}

/// `n=1, n=8`; `m=4 n=8` for several extents.
pub(super) fn listed(sizes: &[impl std::borrow::Borrow<Bindings>]) -> String {
    let texts = sizes.iter().map(|s| pairs(s.borrow())).filter(|s| !s.is_empty());
    texts.collect::<Vec<_>>().join(", ")
}

/// The command that tunes the function at its sizes, or at those.
fn command(f: &Input, sizes: &[Bindings], target: &Target, options: &Options<'_>) -> String {
    let mut values: Vec<(&str, BTreeSet<i64>)> = f.bind.iter().map(|(k, v)| (k.as_str(), [*v].into())).collect();
    for name in f.unbound() {
        let wanted: BTreeSet<i64> = sizes.iter().filter_map(|s| s.get(name)).copied().collect();
        // Some size has to be named: a usual one stands for those that the user knows.
        values.push((name, if wanted.is_empty() { [512].into() } else { wanted }));
    }
    let values = values.iter().map(|(name, all)| {
        let all: Vec<String> = all.iter().map(i64::to_string).collect();
        format!("{name}={}", all.join(","))
    });
    let bind = values.collect::<Vec<_>>().join(",");
    let mut words = vec!["daylight".to_string(), "tune".into(), quoted(&f.file)];
    if Path::new(&f.file).file_stem() != Some(OsStr::new(&f.name)) {
        words.extend(["--function".into(), quoted(&f.name)]);
    }
    if !bind.is_empty() {
        words.extend(["--bind".into(), quoted(&bind)]);
    }
    let id = target.table_id();
    let device = id.split(':').next().unwrap_or(&id);
    words.extend(["--device".into(), device.into(), "--target".into(), id.clone()]);
    words.extend(overlap(f, target, options));
    if let Some(log) = options.log {
        words.extend(["--log".into(), quoted(&log.display().to_string())]);
    }
    words.join(" ")
}

/// What has it measured as the kernels are made that overlap.
fn overlap(f: &Input, target: &Target, options: &Options<'_>) -> Vec<String> {
    let Some(overlap) = options.overlap(f, target) else { return vec![] };
    let mut words = vec!["--overlap".to_string()];
    let constant: Vec<String> = overlap.constant().map(|tensor| format!("{}.{tensor}", f.name)).collect();
    if !constant.is_empty() {
        words.extend(["--constant".to_string(), quoted(&constant.join(","))]);
    }
    words
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=,:+@%".contains(c);
    if word.chars().all(plain) { word.to_string() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("a/b_c.py"), "a/b_c.py");
        assert_eq!(quoted("my kernels/it's.py"), "'my kernels/it'\\''s.py'");
    }
}
