//! The page of environment variables names those that the code reads, and no others.

use crate::common::files;
use std::collections::BTreeSet;
use std::path::Path;

/// Words of capitals, as variables are called, between two marks.
fn capitals(text: &str, mark: char) -> BTreeSet<String> {
    let word = |w: &&str| {
        let letter = |c: char| c.is_ascii_uppercase() || c == '_';
        w.len() > 1 && w.starts_with(|c: char| c.is_ascii_uppercase()) && w.chars().all(letter)
    };
    text.split(mark).filter(word).map(str::to_string).collect()
}

#[test]
fn variables_are_those_of_the_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/environment.md")).expect("the page");
    let table: String = page.lines().filter(|l| l.starts_with('|')).collect();
    let told = capitals(&table, '`');
    // Where the process's environment is looked at.
    let readers = files(&root.join("src"), "rs").into_iter().filter_map(|p| {
        let text = std::fs::read_to_string(&p).expect("a source");
        let looks = text.contains("env::var") || p.ends_with("backend/places.rs") || p.ends_with("worker/process.rs");
        looks.then(|| text.split("#[cfg(test)]").next().unwrap_or_default().to_string())
    });
    let read: BTreeSet<String> = readers.flat_map(|text| capitals(&text, '"')).collect();
    assert_eq!(read, told, "docs/environment.md names the second");
}
