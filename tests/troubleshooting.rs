//! `docs/troubleshooting.md` has an entry for each refusal and each message of a usual mistake, and none that nothing says.

use crate::common::files;
use std::path::Path;

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The headings of entries, without their marks.
fn entries(page: &str) -> Vec<&str> {
    page.lines().filter_map(|l| l.strip_prefix("### `")?.strip_suffix('`')).collect()
}

/// True where the fixed words of an entry stand in a text, in order.
fn says(text: &str, entry: &str) -> bool {
    let after = |rest: Option<&'_ str>, words: &str| rest?.split_once(words).map(|(_, after)| after.to_string());
    let mut rest = Some(text.to_string());
    entry.split("...").for_each(|words| rest = after(rest.as_deref(), words.trim()));
    rest.is_some()
}

/// The sentences of the golden messages: not what is fine, no source lines, no carets.
fn sentences(golden: &str) -> Vec<&str> {
    let is_one = |l: &&str| l.starts_with("error: ") || l.starts_with("refused ") || l.starts_with("daylight: ");
    golden.lines().filter(is_one).collect()
}

#[test]
fn every_message_has_an_entry() {
    let page = text("docs/troubleshooting.md");
    let entries = entries(&page);
    let golden = text("tests/golden/cli/messages.txt");
    let mut said = sentences(&golden);
    assert!(said.len() > 20, "{said:?}");
    let legalised = text(".ci/legalise_refused.txt");
    said.extend(legalised.lines());
    let told = |message: &&str| entries.iter().any(|e| says(message, e));
    let untold: Vec<&str> = said.into_iter().filter(|m| !told(m)).collect();
    assert!(untold.is_empty(), "no entry in docs/troubleshooting.md: {untold:#?}");
    let missing: Vec<&str> =
        daylight::analysis::refusals().into_iter().filter(|predicate| !entries.contains(predicate)).collect();
    assert!(missing.is_empty(), "refusals without an entry: {missing:?}");
}

/// Texts in the source stand in pieces of format strings; of an entry its words between `...` have to be there.
#[test]
fn every_entry_is_said_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let read = |path| std::fs::read_to_string(path).expect("a source");
    let sources: Vec<String> = files(&root, "rs").into_iter().map(read).collect();
    // What goes on in the next line of a string.
    let joined = |s: &String| s.split("\\\n").map(str::trim_start).collect::<String>();
    let sources: Vec<String> = sources.iter().map(joined).collect();
    let page = text("docs/troubleshooting.md");
    for entry in entries(&page) {
        for words in entry.split("...").map(str::trim).filter(|w| !w.is_empty()) {
            assert!(sources.iter().any(|s| s.contains(words)), "`{entry}`: nothing in src says `{words}`");
        }
    }
}
