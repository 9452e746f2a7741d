//! Matrix products: what the analysis says of the real functions, and the rules on them.

use daylight::ir::{self, IterVar};
use daylight::rules::{Factor, Prepared, Product};
use std::path::PathBuf;

/// One line of the golden table: the classes, and how each factor lies in memory.
fn line(name: &str, p: &Product) -> String {
    let class = |c: &[IterVar]| c.iter().map(|i| format!("{}:{}", i.var, i.extent)).collect::<Vec<_>>().join(" ");
    let factor = |f: &Factor| {
        let axis = if f.along_depth { "K" } else { "free" };
        let whole = if f.plain { "" } else { " computed" };
        format!("{} of {} along {axis} run {}{whole}", f.narrow.dtype(), f.element, f.run)
    };
    format!(
        "{name}: S[{}] I[{}] J[{}] K[{}] A {} | B {} | {} epilogue {}\n",
        class(&p.batch),
        class(&p.rows),
        class(&p.columns),
        class(&p.depth),
        factor(&p.a),
        factor(&p.b),
        p.dtype,
        p.epilogue.len()
    )
}

#[test]
fn the_corpus_is_classified() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut text = String::new();
    let mut files: Vec<PathBuf> = vec![];
    for kind in ["batched-matmul", "conv", "dynamic", "gemv", "gemv-quant", "low-batch-gemv", "matmul", "reduction"] {
        let list = std::fs::read_dir(root.join("workloads").join(kind)).expect("a folder of workloads");
        files.extend(list.map(|f| f.expect("a file").path()));
    }
    files.sort();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "py")) {
        let name = file.file_stem().and_then(|s| s.to_str()).expect("a name");
        let source = std::fs::read_to_string(file).expect("a readable file");
        let func = ir::read(&source, name).unwrap_or_else(|e| panic!("{e}")).remove(0);
        let input = Prepared::new(&func).unwrap_or_else(|d| panic!("{name}: {}", d.reason));
        match Product::of("matmul", &input) {
            Ok(p) => text += &line(name, &p),
            Err(d) => text += &format!("{name}: {}: {}\n", d.predicate, d.reason),
        }
    }
    let golden = root.join("golden/rules_products.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &text).expect("a writable golden file");
    }
    assert_eq!(text, std::fs::read_to_string(&golden).unwrap_or_default(), "UPDATE_GOLDEN=1 writes it anew");
}
