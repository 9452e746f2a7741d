//! The folder list reads like the data flow: the ten lines of code in "Where does this go?" of
//! `docs/architecture.md` are in the files that it names, and nowhere else.

use std::path::{Path, PathBuf};

/// Files of the project that hold code or tables of knobs, with their texts.
fn texts(folder: &Path, out: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the project") {
        let entry = entry.expect("an entry");
        let (path, kind) = (entry.path(), entry.file_type().expect("its kind"));
        // The link by which the rules' package has the tables of knobs is not followed.
        if kind.is_dir() {
            texts(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs" || e == "toml") {
            let text = std::fs::read_to_string(&path).expect("text");
            out.push((path, text));
        }
    }
}

/// The cells of a row of the table, where `\|` is no border.
fn cells(row: &str) -> Vec<String> {
    let inside = row.trim().trim_matches('|').replace("\\|", "\0");
    inside.split('|').map(|cell| cell.trim().trim_matches('`').replace('\0', "|")).collect()
}

#[test]
fn ten_lines_of_code_are_where_the_document_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = include_str!("../docs/architecture.md");
    let section = document.split("## Where does this go?").nth(1).expect("the section");
    let rows: Vec<&str> =
        section.lines().take_while(|l| !l.starts_with("## ")).filter(|l| l.starts_with("| `")).collect();
    assert_eq!(rows.len(), 10);
    let mut files = vec![];
    texts(&root.join("src"), &mut files);
    texts(&root.join("schedules"), &mut files);
    for row in rows {
        let [line, file, because] = &cells(row)[..] else { panic!("{row} has other than three cells") };
        assert!(!because.is_empty(), "{row} gives no reason");
        let with: Vec<&Path> = files
            .iter()
            .filter(|(_, text)| text.lines().any(|l| l.trim() == line))
            .map(|(path, _)| path.strip_prefix(root).expect("inside the project"))
            .collect();
        assert_eq!(with, [Path::new(file)], "{line}");
    }
}
