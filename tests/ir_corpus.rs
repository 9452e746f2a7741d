//! Every file of the corpus is read, printed as TVM printed it, and read again.

use crate::common;
use daylight::ir::{self, PrimFunc};
use std::path::Path;

/// Name and text of every tensor function that is kept in the repository; tile programs have tests of
/// their own, and programs of Python are none.
fn corpus() -> Vec<(String, String)> {
    let all = ["tests/workloads", "benches/workloads", "examples"].into_iter().flat_map(folder);
    all.filter(|(_, text)| text.contains("@T.prim_func") && !text.contains("T.device_entry()")).collect()
}

fn folder(name: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let name = |p: &Path| p.strip_prefix(&root).expect("below the root").display().to_string();
    common::scripts(&root).iter().map(|p| (name(p), std::fs::read_to_string(p).expect("read a workload"))).collect()
}

#[test]
fn the_corpus_is_complete() {
    let index = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads/index.csv"));
    let rows = index.expect("read the index").lines().count() - 1;
    assert_eq!((folder("tests/workloads").len(), rows), (91, 91));
    assert!(folder("benches/workloads").len() >= 18);
}

#[test]
fn printing_gives_the_very_text_that_tvm_printed() {
    let mut failures = vec![];
    let mut corpus = corpus();
    // The examples of whole programs and of a job array have functions written by hand.
    corpus.retain(|(name, _)| ["consumer/", "llama/", "slurm/"].iter().all(|folder| !name.starts_with(folder)));
    for (name, text) in &corpus {
        match ir::read(text, name) {
            Err(e) => failures.push(format!("{e}")),
            Ok(fs) => {
                assert_eq!(fs.len(), 1, "{name}");
                let got = fs[0].to_string();
                if text.trim_end() != got.trim_end() {
                    let differ = text.lines().zip(got.lines()).find(|(a, b)| a != b);
                    failures.push(format!("{name}: {differ:?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), corpus.len(), failures.join("\n"));
}

#[test]
fn canonical_text_reads_back_equal() {
    for (name, text) in corpus() {
        let f = &ir::read(&text, &name).unwrap_or_else(|e| panic!("{e}"))[0];
        ir::verify(f).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let canonical = f.canonical_text();
        let again = &ir::read(&canonical, &name).unwrap_or_else(|e| panic!("{e}"))[0];
        assert_eq!(again.canonical_text(), canonical, "{name}");
        assert_eq!((&again.body, &again.buffers), (&f.body, &f.buffers), "{name}");
        // the order of the user's names for extents is part of the key, and canonical text has others
        let named = PrimFunc { display: f.display.clone(), ..again.clone() };
        assert_eq!(ir::workload_key(&named), ir::workload_key(f), "{name}");
    }
}
