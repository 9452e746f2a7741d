//! The house rules that a compiler does not know: who may use whom, how long a file and how full a folder may be, and
//! in how many places a new thing has to be named.

use crate::common::files;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Modules that each module may name in `use crate::...`. What is not listed may use nothing. Those that are
/// crates are not here: they may use what their manifests name.
const LAYERS: &[(&str, &[&str])] = &[
    ("files", &[]),
    ("log", &["files"]),
    ("parallel", &[]),
    ("backend", &["ir", "codegen", "parallel", "log", "files"]),
    ("runner", &["ir", "backend", "interp", "machine", "parallel", "log", "files"]),
    ("measure", &["ir", "backend", "runner", "interp", "log"]),
    ("assemble", &["ir", "analysis", "schedule", "rules", "lower", "codegen", "target", "tile", "backend"]),
    ("machine", &["backend", "target"]),
    (
        "job",
        &[
            "ir", "analysis", "assemble", "backend", "runner", "log", "machine", "measure", "rules", "target", "tune",
            "files",
        ],
    ),
    (
        "tune",
        &["ir", "analysis", "interp", "target", "rules", "sim", "backend", "runner", "measure", "log", "assemble"],
    ),
    ("apply", &["ir", "analysis", "target", "rules", "schedule", "backend", "log", "assemble", "files"]),
    ("report", &["log", "target"]),
];

/// Modules that may use everything.
const ABOVE_ALL: [&str; 3] = ["build", "cli", "lib"];

/// Modules that may read environment and clock: those that meet the outside, and the workers.
const OUTSIDE: [&str; 8] = ["build", "cli", "main", "machine", "backend", "files", "runner", "measure"];

const LONGEST_FILE: usize = 500;

const MOST_FILES: usize = 25;

/// Rust files under `src` with their text.
fn sources() -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("sources are text");
        (path.strip_prefix(&root).expect("under src").to_path_buf(), text)
    };
    files(&root, "rs").into_iter().map(read).collect()
}

/// The top-level module of a file.
fn module(path: &Path) -> String {
    let first = path.components().next().expect("a file has a name").as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_string()
}

/// What a module that is a crate may use, as its manifest has it.
fn by_manifest(module: &str) -> Option<Vec<String>> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(module).join("Cargo.toml");
    let text = std::fs::read_to_string(manifest).ok()?;
    let modules = text.lines().filter_map(|l| Some(l.strip_prefix("daylight-")?.split('.').next()?.to_string()));
    Some(modules.collect())
}

/// The text without its unit tests, which may use anything, and without comments.
fn without_tests(text: &str) -> String {
    // A single line for tests may stand anywhere; a module of tests is the end of a file.
    let mut ends = text.match_indices("\n#[cfg(test)]\n");
    let is_module = |rest: &str| rest.lines().nth(2).is_some_and(|l| l.contains("mod ") && l.ends_with('{'));
    let code = ends.find(|(at, _)| is_module(&text[*at..])).map_or(text, |(at, _)| &text[..at]);
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
        let layer = || LAYERS.iter().find(|(m, _)| *m == from).map(|(_, a)| a.iter().map(|m| m.to_string()).collect());
        let allowed = by_manifest(&from).or_else(layer);
        let allowed: Vec<String> = allowed.unwrap_or_else(|| panic!("module `{from}` has no layer; add it to LAYERS"));
        for to in named(&without_tests(&text)) {
            if to != from && !allowed.contains(&to) {
                wrong.push(format!("{}: `{from}` may not use `{to}`", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `cargo test` runs no tests of a package that is no default member.
#[test]
fn modules_that_are_crates_are_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("the manifest");
    let members = manifest.split("default-members = [").nth(1).and_then(|rest| rest.split(']').next());
    let members: BTreeSet<&str> = members.expect("a list").split(',').map(|m| m.trim().trim_matches('"')).collect();
    let modules: BTreeSet<String> = sources().keys().map(|path| module(path)).collect();
    let crates = modules.iter().filter(|m| by_manifest(m).is_some()).map(|m| format!("src/{m}"));
    let crates: BTreeSet<String> = crates.chain([".".to_string()]).collect();
    assert_eq!(members, crates.iter().map(String::as_str).collect());
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
fn folders_are_small() {
    let mut folders: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for path in sources().keys() {
        *folders.entry(path.parent().expect("a file is in a folder").to_path_buf()).or_default() += 1;
    }
    folders.retain(|_, n| *n > MOST_FILES);
    assert!(folders.is_empty(), "folders with more than {MOST_FILES} files: {folders:?}");
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

/// The modules from the root of the crate down to a file: `["ir", "read", "stmt"]`.
fn modules(path: &Path) -> Vec<String> {
    let mut all: Vec<String> = path.with_extension("").iter().map(|p| p.to_string_lossy().into_owned()).collect();
    all.pop_if(|last| last == "mod");
    all
}

/// Every path of some code that begins with one of `roots`, groups in braces taken apart.
fn paths(code: &str, roots: &[&str]) -> Vec<Vec<String>> {
    let mut found = vec![];
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for root in roots {
        for (at, _) in code.match_indices(&format!("{root}::")) {
            let inside = code[..at].ends_with(|c| is_word(c) || c == ':');
            if !inside {
                path_tree(&code[at..], &mut vec![], &mut found);
            }
        }
    }
    found
}

/// Reads `a::b`, or `a::{b, c::d}`; returns what follows.
fn path_tree<'a>(code: &'a str, before: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let depth = before.len();
    let mut rest = code.trim_start();
    loop {
        if let Some(mut group) = rest.strip_prefix('{') {
            while !group.trim_start().starts_with('}') && !group.trim().is_empty() {
                let after = path_tree(group, before, found).trim_start();
                group = after.strip_prefix(',').unwrap_or(after);
            }
            rest = group.trim_start().strip_prefix('}').unwrap_or("");
            break;
        }
        let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        before.push(rest[..len].to_string());
        rest = &rest[len..];
        match rest.strip_prefix("::") {
            Some(next) if len > 0 => rest = next,
            _ => {
                found.push(before.clone());
                // What is not a path, such as `*`, is skipped.
                let end = rest.find([',', '}', ';', '\n']).unwrap_or(rest.len());
                rest = &rest[end..];
                break;
            }
        }
    }
    before.truncate(depth);
    rest
}

/// Who uses whom among the files of a folder, by their paths and by what `mod.rs` hands on.
struct Uses {
    /// Each file by its modules.
    files: BTreeMap<Vec<String>, PathBuf>,
    /// What a `mod.rs` uses, under the name that it has there.
    handed_on: BTreeMap<Vec<String>, Vec<String>>,
}

impl Uses {
    fn of(sources: &BTreeMap<PathBuf, String>) -> Uses {
        let files: BTreeMap<Vec<String>, PathBuf> = sources.keys().map(|p| (modules(p), p.clone())).collect();
        let mut handed_on = BTreeMap::new();
        for (path, text) in sources.iter().filter(|(p, _)| p.ends_with("mod.rs")) {
            let own = modules(path);
            for line in without_tests(text).split("use ").skip(1) {
                let mut found = vec![];
                path_tree(line, &mut vec![], &mut found);
                for to in found {
                    let name: Vec<String> = own.iter().chain(to.last()).cloned().collect();
                    let to = match to[0].as_str() {
                        "crate" => to[1..].to_vec(),
                        _ => own.iter().chain(&to).cloned().collect(),
                    };
                    handed_on.insert(name, to);
                }
            }
        }
        Uses { files, handed_on }
    }

    /// The files beside it that a file names.
    fn beside(&self, path: &Path, text: &str) -> BTreeSet<PathBuf> {
        let own = modules(path);
        let named = paths(&without_tests(text), &["crate", "super"]);
        let files = named.iter().filter_map(|p| self.file(&own, p));
        files.filter(|to| to.parent() == path.parent() && *to != path && !to.ends_with("mod.rs")).collect()
    }

    /// The file that a path in module `own` leads to.
    fn file(&self, own: &[String], path: &[String]) -> Option<PathBuf> {
        let ups = path.iter().take_while(|p| *p == "super").count();
        let mut full = match path[0].as_str() {
            "crate" => path[1..].to_vec(),
            _ => own[..own.len().checked_sub(ups)?].iter().chain(&path[ups..]).cloned().collect(),
        };
        // A name may be handed on more than once.
        for _ in 0..4 {
            match self.handed_on.get(&full) {
                Some(to) if !self.files.contains_key(&full) => full = to.clone(),
                _ => break,
            }
        }
        (1..=full.len()).rev().find_map(|n| self.files.get(&full[..n]).cloned())
    }
}

/// The files that a file's opening comment says it is in a circle with.
fn circles_told(text: &str) -> String {
    let header = text.lines().take_while(|l| l.starts_with("//!"));
    header.filter(|l| l.contains("circle")).collect()
}

/// Files of one folder may name each other in one direction only, but where a line of the opening comment says
/// why there is a circle: it has this word and the name of the other file in backticks.
#[test]
fn files_of_a_folder_form_no_circles() {
    let sources = sources();
    let uses = Uses::of(&sources);
    let mut open: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
    for (path, text) in sources.iter().filter(|(p, _)| !p.ends_with("mod.rs")) {
        let told = circles_told(text);
        let name = |p: &PathBuf| format!("`{}`", p.file_stem().unwrap_or_default().to_string_lossy());
        let mut beside = uses.beside(path, text);
        beside.retain(|to| !told.contains(&name(to)));
        open.insert(path.clone(), beside);
    }
    assert!(open.values().map(BTreeSet::len).sum::<usize>() > 200, "files name files beside them: {open:?}");
    // What names nobody that is left is in no circle.
    while let Some(done) = open.iter().find(|(_, to)| to.iter().all(|t| !open.contains_key(t))).map(|(p, _)| p.clone())
    {
        open.remove(&done);
    }
    let left = |to: &BTreeSet<PathBuf>| to.iter().filter(|t| open.contains_key(*t)).cloned().collect::<Vec<_>>();
    let circles: Vec<String> = open.iter().map(|(path, to)| format!("{} -> {:?}", path.display(), left(to))).collect();
    assert!(circles.is_empty(), "files name each other in a circle:\n{}", circles.join("\n"));
}

/// One thing of a kind that grows, and the lines that had to be written for it outside its own files.
struct Added {
    kind: &'static str,
    /// The words by which code names it.
    names: &'static [&'static str],
    /// Its own files, and those that use it as they use anything of its kind.
    own: &'static [&'static str],
    /// Where it is entered, with how many rows.
    rows: &'static [(&'static str, usize)],
}

/// What `CONTRIBUTING.md` says of adding one: a file, and a row in a table.
const ADDED: [Added; 7] = [
    Added {
        kind: "schedule primitive",
        names: &["pad_einsum", "PadEinsum"],
        own: &["schedule/primitive/reduction/pad_einsum.rs", "rules/find/einsum.rs"],
        rows: &[("schedule/steps.rs", 1)],
    },
    Added {
        kind: "operation of `new`",
        names: &["transpose::TRANSPOSE", "TRANSPOSE"],
        own: &["operation/transpose.rs"],
        rows: &[("operation/mod.rs", 1)],
    },
    Added { kind: "rule, of two forms", names: &["window"], own: &["rules/window"], rows: &[("rules/mod.rs", 2)] },
    Added {
        kind: "tile variant",
        names: &["ldstmatrix"],
        own: &["tile/copy/ldstmatrix.rs"],
        rows: &[("tile/copy/mod.rs", 1)],
    },
    Added {
        kind: "pass",
        names: &["pin::run", "\"pin\""],
        own: &["lower/pass/pin.rs"],
        rows: &[("lower/pass/mod.rs", 1)],
    },
    Added { kind: "target", names: &["sm_120a"], own: &[], rows: &[("target/table.rs", 1)] },
    // The case, and what the compiler then asks for: its row, its PTX, what it does.
    Added {
        kind: "instruction",
        names: &["Pin"],
        own: &["lower/pass/pin.rs", "tile/gemm/wgmma_tf32x3.rs"],
        rows: &[("codegen/instr/mod.rs", 1), ("ir/instr/mod.rs", 1), ("ir/instr/signature.rs", 1), ("sim/instr.rs", 1)],
    },
];

/// True where a line of code has a name as a word of its own.
fn names_it(line: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(name)
        .any(|(at, _)| !line[..at].ends_with(is_word) && !line[at + name.len()..].starts_with(is_word))
}

/// The `mod` line that a new file needs, in the folder that it is in, is not counted.
#[test]
fn one_more_of_a_kind_is_one_row_in_one_table() {
    let sources = sources();
    for added in ADDED {
        let others = sources.iter().filter(|(path, _)| !added.own.iter().any(|own| path.starts_with(own)));
        let mut rows: Vec<(String, usize)> = vec![];
        for (path, text) in others {
            let code = without_tests(text);
            let lines = code.lines().filter(|l| !l.trim_start_matches("pub ").starts_with("mod "));
            let count = lines.filter(|l| added.names.iter().any(|name| names_it(l, name))).count();
            rows.extend((count > 0).then(|| (path.display().to_string(), count)));
        }
        let wanted: Vec<(String, usize)> = added.rows.iter().map(|(path, n)| (path.to_string(), *n)).collect();
        assert_eq!(rows, wanted, "{}: files that name {:?}, with the number of lines", added.kind, added.names);
        assert!(added.own.iter().all(|own| sources.keys().any(|p| p.starts_with(own))), "{}", added.kind);
    }
}
