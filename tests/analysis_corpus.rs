//! The analyses on the corpus: which files are refused, and that flops and bytes are those of its
//! index.

use crate::common;
use daylight::analysis::{Facts, index_text, normalize, work};
use daylight::ir::{PrimFunc, read};
use daylight::rules::Prepared;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/workloads")
}

/// One line of the corpus index with the function it stands for.
struct Entry {
    name: String,
    kind: String,
    flops: Option<u64>,
    bytes: Option<u64>,
    bind: BTreeMap<String, i64>,
    func: PrimFunc,
}

/// The sizes in a note such as `flops and bytes for n=512, m=8`.
fn sizes(note: &str) -> BTreeMap<String, i64> {
    let list = note.strip_prefix("flops and bytes for ").unwrap_or("");
    let pair = |p: &str| p.trim().split_once('=').map(|(n, v)| (n.to_string(), v.parse().expect("a size")));
    list.split(',').filter_map(pair).collect()
}

fn corpus() -> Vec<Entry> {
    let mut rows = csv::Reader::from_path(folder().join("index.csv")).expect("the index");
    let entry = |row: csv::StringRecord| {
        let (name, kind) = (row[0].to_string(), row[1].to_string());
        let file = folder().join(&kind).join(format!("{name}.py"));
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let mut funcs = read(&text, &name).unwrap_or_else(|e| panic!("{e}"));
        let number = |k: usize| row[k].parse().ok();
        Entry { name, kind, flops: number(5), bytes: number(6), bind: sizes(&row[8]), func: funcs.remove(0) }
    };
    rows.records().map(|r| entry(r.expect("a row"))).collect()
}

#[test]
fn flops_and_bytes_are_those_of_the_index() {
    let mut wrong = vec![];
    let entries = corpus();
    for e in entries.iter().filter(|e| e.kind != "refused") {
        let got = work(&e.func.bind(&e.bind));
        if (got.flops, got.bytes) != (e.flops, e.bytes) {
            wrong.push(format!("{}/{}: {got:?}, not {:?} {:?}", e.kind, e.name, e.flops, e.bytes));
        }
        if !e.bind.is_empty() {
            let open = work(&e.func);
            assert_eq!(open.bytes, None, "{}", e.name);
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(entries.len(), 91);
}

#[test]
fn five_files_are_refused_by_name() {
    let want = BTreeMap::from([
        ("mixtral_8x7b-topk_route-64x8-f32", "extern_call"),
        ("llama3_8b-cublas_matmul-512x4096x4096-f16", "extern_call"),
        ("llama3_8b-paged_attention_decode-h32kv8d128-f16", "already_scheduled"),
        ("gcn_cora-csr_spmv-2708-f32", "data_dependent_extent"),
        ("llama3_8b-scheduled_matmul-m512n4096k4096-f16", "already_scheduled"),
    ]);
    for e in corpus() {
        let refused = Prepared::new(&e.func).err();
        assert_eq!(
            refused.as_ref().map(|d| &*d.reason.predicate),
            want.get(e.name.as_str()).copied(),
            "{}: {refused:?}",
            e.name
        );
    }
}

/// True for functions of blocks under loops, as TVM's operators are.
fn has_blocks(e: &Entry) -> bool {
    !["refused", "serial"].contains(&e.kind.as_str())
}

#[test]
fn the_rest_normalises_to_one_loop_per_iterator() {
    for e in corpus().iter().filter(|e| has_blocks(e)) {
        let f = normalize(&e.func).unwrap_or_else(|d| panic!("{}: {d}", e.name));
        daylight::ir::verify(&f).unwrap_or_else(|v| panic!("{}: {v:?}", e.name));
        let facts = Facts::of(&f);
        for b in &facts.blocks {
            let bound: Vec<_> = b.iters.iter().map(|it| it.binding.as_var().cloned()).collect();
            assert_eq!(bound, b.loops.iter().cloned().map(Some).collect::<Vec<_>>(), "{}: {}", e.name, b.name);
            let units = b.iters.iter().filter(|it| it.extent.is_int(1)).count();
            assert!(units <= 1 && b.kind.starts_with('S'), "{}: {} is {}", e.name, b.name, b.kind);
        }
        assert_eq!(normalize(&f).expect("again").canonical_text(), f.canonical_text(), "{}", e.name);
    }
}

/// Every block of the corpus in one line: kind, flags, reducer, dominant read.
#[test]
fn facts_of_the_corpus() {
    let mut text = String::new();
    for e in corpus().iter().filter(|e| has_blocks(e)) {
        let f = normalize(&e.func).expect("normalises");
        text.push_str(&format!("{}/{}\n", e.kind, e.name));
        for b in &Facts::of(&f).blocks {
            let flags = [
                (b.is_reduction, "reduction"),
                (b.is_injective(), "injective"),
                (b.is_elementwise(), "elementwise"),
                (b.is_gemv().is_some(), "gemv"),
            ];
            let flags: Vec<&str> = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
            let reducer = b.reducer.as_ref().map_or(String::new(), |r| format!(" {:?}", r.combiner));
            let dominant = b.dominant_read(&f).map_or("nothing".to_string(), |e| index_text(&e));
            let name = f.display_name(&b.name);
            text.push_str(&format!("  {name} {} [{}]{reducer} reads {dominant}\n", b.kind, flags.join(" ")));
        }
    }
    common::golden("golden/analysis/facts.txt", &text);
}
