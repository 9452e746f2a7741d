//! The house rules that a compiler does not know: who may use whom, and how long a file may be.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Modules that each module may name in `use crate::...`. What is not listed may use nothing.
const LAYERS: &[(&str, &[&str])] = &[
    ("ir", &[]),
    ("log", &[]),
    ("analysis", &["ir"]),
    ("interp", &["ir"]),
    ("target", &["ir"]),
    ("schedule", &["ir", "analysis"]),
    ("rules", &["ir", "analysis", "schedule", "target"]),
    ("tile", &["ir", "analysis", "target"]),
    ("lower", &["ir", "analysis", "target", "tile"]),
    ("codegen", &["ir", "target"]),
    ("sim", &["ir", "interp"]),
    ("backend", &["ir", "codegen", "interp", "target", "sim"]),
    ("measure", &["ir", "backend", "interp", "log"]),
    ("assemble", &["ir", "analysis", "schedule", "rules", "lower", "codegen", "target", "tile", "backend"]),
    ("machine", &["backend", "target"]),
    (
        "job",
        &["ir", "analysis", "assemble", "apply", "backend", "log", "machine", "measure", "rules", "target", "tune"],
    ),
    ("tune", &["ir", "analysis", "interp", "target", "rules", "sim", "backend", "measure", "log", "assemble"]),
    ("apply", &["ir", "target", "rules", "backend", "log", "assemble"]),
    ("report", &["log", "target"]),
];

/// Modules that may use everything.
const ABOVE_ALL: [&str; 3] = ["build", "cli", "lib"];

/// Modules that may read environment and clock: those that meet the outside, and the workers.
const OUTSIDE: [&str; 6] = ["build", "cli", "main", "machine", "backend", "measure"];

const LONGEST_FILE: usize = 500;

/// Rust files under `src` with their text.
fn sources() -> BTreeMap<PathBuf, String> {
    let mut out = BTreeMap::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("src is readable") {
            let path = entry.expect("src is readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).expect("sources are text");
                out.insert(path.strip_prefix(&root).expect("under src").to_path_buf(), text);
            }
        }
    }
    out
}

/// The top-level module of a file.
fn module(path: &Path) -> String {
    let first = path.components().next().expect("a file has a name").as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_string()
}

/// The text without its unit tests, which may use anything, and without comments.
fn without_tests(text: &str) -> String {
    let code = text.split("\n#[cfg(test)]\n").next().unwrap_or(text);
    code.lines().filter(|l| !l.trim_start().starts_with("//")).map(|l| format!("{l}\n")).collect()
}

/// Modules that code names through `crate::`.
fn named(code: &str) -> Vec<String> {
    let mut out = vec![];
    for rest in code.split("crate::").skip(1) {
        let word = |t: &str| t.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        match rest.strip_prefix('{') {
            // use crate::{codegen, lower};
            Some(list) => out.extend(list.split('}').next().unwrap_or("").split(',').map(|p| word(p.trim()))),
            None => out.push(word(rest)),
        }
    }
    out.retain(|m| !m.is_empty());
    out
}

#[test]
fn arrows_between_modules_point_one_way() {
    let mut wrong = vec![];
    for (path, text) in sources() {
        let from = module(&path);
        if ABOVE_ALL.contains(&from.as_str()) || from == "main" || from == "interrupt" {
            continue;
        }
        let allowed = LAYERS.iter().find(|(m, _)| *m == from).map(|(_, a)| *a);
        let allowed = allowed.unwrap_or_else(|| panic!("module `{from}` has no layer; add it to LAYERS"));
        for to in named(&without_tests(&text)) {
            if to != from && !allowed.contains(&to.as_str()) {
                wrong.push(format!("{}: `{from}` may not use `{to}`", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_are_short() {
    let long: Vec<String> = sources()
        .iter()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, n)| *n > LONGEST_FILE)
        .map(|(path, n)| format!("{} has {n} lines, more than {LONGEST_FILE}", path.display()))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn environment_and_clock_are_read_at_the_edges() {
    let mut wrong = vec![];
    for (path, text) in sources() {
        let code = without_tests(&text);
        let reads = ["std::env::", "SystemTime::now", "Instant::now"].iter().find(|w| code.contains(**w));
        if let Some(word) = reads
            && !OUTSIDE.contains(&module(&path).as_str())
        {
            wrong.push(format!("{} uses {word}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn there_are_no_stubs() {
    let words = ["todo!(", "unimplemented!(", "FIXME", "XXX"];
    let found: Vec<String> = sources()
        .iter()
        .filter_map(|(path, text)| Some(format!("{}: {}", path.display(), words.iter().find(|w| text.contains(**w))?)))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn rules_read_fields_of_a_target_and_not_its_name() {
    let words = ["target.id", "target.arch", "target.product", ".table_id()"];
    let found: Vec<String> = sources()
        .iter()
        .filter(|(path, _)| module(path) == "rules" && !path.ends_with("tables.rs"))
        .filter_map(|(path, text)| {
            let code = without_tests(text);
            Some(format!("{}: {}", path.display(), words.iter().find(|w| code.contains(**w))?))
        })
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
