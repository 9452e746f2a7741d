//! Matrix products: what the analysis says of the real functions, and the rules on them.

use super::harness::{kernel_at, target};
use super::products::{Matmul, check_all, check_points, convolution, grouped_scores};
use daylight::ir::{self, IterVar};
use daylight::rules::{Ask, Factor, Knobs, Prepared, Product, RULES, Spaces};
use rand::prelude::*;
use std::path::PathBuf;

/// One line of the golden table: the classes, and how each factor lies in memory.
fn line(name: &str, p: &Product) -> String {
    let class = |c: &[IterVar]| c.iter().map(|i| format!("{}:{}", i.var, i.extent)).collect::<Vec<_>>().join(" ");
    let factor = |f: &Factor| {
        let axis = if f.along_depth { "K" } else { "free" };
        let whole = if f.plain { "" } else { " computed" };
        format!("{} of {} along {axis} run {}{whole}", f.dtype, f.element, f.run)
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
    let (target, spaces) = (target("cuda:sm_90a"), Spaces::built_in());
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
        let input = Prepared::new(&func).unwrap_or_else(|d| panic!("{name}: {}", d.reason.text));
        match Product::of(&Ask::of(&RULES[0], &input, &target, &spaces)) {
            Ok(p) => text += &line(name, &p),
            Err(d) => text += &format!("{name}: {}: {}\n", d.reason.predicate, d.reason.text),
        }
    }
    let golden = root.join("golden/rules_products.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &text).expect("a writable golden file");
    }
    assert_eq!(text, std::fs::read_to_string(&golden).unwrap_or_default(), "UPDATE_GOLDEN=1 writes it anew");
}

#[test]
fn products_on_cuda_cores() {
    let mut cases = vec![];
    for (i, [m, n, k]) in [[2, 3, 2], [5, 7, 3], [64, 64, 16], [37, 53, 29], [130, 36, 40]].into_iter().enumerate() {
        let plain = Matmul::new("float32", m, n, k);
        cases.push(plain.clone().transposed(i % 2 == 1, i / 2 % 2 == 1).case());
        cases.push(plain.transposed(i % 2 == 0, i / 2 % 2 == 0).with_epilogue().case());
    }
    cases.push(Matmul::new("float32", 6, 10, 9).batched(3).case());
    cases.push(Matmul::new("float32", 9, 12, 20).batched(2).transposed(false, true).with_epilogue().case());
    cases.push(Matmul::new("float16", 18, 24, 40).case());
    cases.push(Matmul::new("float16", 18, 24, 40).accumulated("float32").with_epilogue().case());
    cases.push(Matmul::new("int8", 20, 8, 24).accumulated("int32").case());
    check_all(cases, "matmul.fma", "cuda:sm_90a");
}

/// A batch of rows that are rows of one matrix: results do not lie at axes of their own.
#[test]
fn heads_that_share_a_key_on_cuda_cores() {
    for case in [grouped_scores(8, 4, 37, 20), grouped_scores(8, 4, 64, 16), grouped_scores(6, 2, 33, 80)] {
        check_points(&case, "matmul.fma", "cuda:sm_90a", |space, rng| {
            let (whole, parts): (Vec<_>, Vec<_>) = space.points().into_iter().partition(|k| k.get("split_k") == 1);
            let drawn = [whole.sample(rng, 3), parts.sample(rng, 1)].into_iter().flatten();
            space.default().into_iter().chain(drawn.cloned()).collect()
        });
    }
}

#[test]
fn symbolic_products_on_cuda_cores() {
    let cases =
        [1, 5, 150].into_iter().map(|m| Matmul::new("float32", m, 24, 20).symbolic().transposed(false, true).case());
    check_all(cases.collect(), "matmul.fma", "cuda:sm_90a");
}

#[test]
fn convolutions_on_cuda_cores() {
    let cases = vec![
        convolution("float32", [1, 3, 5, 6], 4, 3, 1),
        convolution("float32", [2, 4, 9, 7], 5, 3, 2),
        convolution("float32", [2, 3, 8, 8], 6, 4, 4),
        convolution("float16", [1, 8, 6, 6], 8, 3, 1),
    ];
    check_all(cases, "matmul.fma", "cuda:sm_90a");
}

#[test]
fn parts_of_the_reduced_axis() {
    let plain = Matmul::new("float32", 37, 20, 70);
    let cases = [plain.clone().case(), plain.clone().batched(2).with_epilogue().case(), plain.symbolic().case()];
    let tile = [("block_m", 32), ("block_n", 32), ("block_k", 8), ("thread_m", 4), ("thread_n", 4)];
    for case in &cases {
        check_points(case, "matmul.fma", "cuda:sm_90a", |space, _| {
            let set = |parts| {
                let mut values: Vec<(String, i64)> = tile.iter().map(|(name, n)| (name.to_string(), *n)).collect();
                values.push(("split_k".into(), parts));
                space.set(&space.default().expect("a legal point"), &values)
            };
            [2, 4].into_iter().map(|parts| set(parts).expect("knobs of the rule")).collect()
        });
    }
}

/// Sums of one part on their way to rows that vectors do not divide.
#[test]
fn sums_that_pass_through_shared_memory() {
    let odd = Matmul::new("float32", 37, 45, 70);
    let halves = Matmul::new("float16", 18, 27, 40).accumulated("float32");
    let cases = [
        odd.clone().case(),
        odd.clone().transposed(true, false).with_epilogue().case(),
        odd.batched(3).transposed(false, true).with_epilogue().case(),
        halves.with_epilogue().case(),
    ];
    for (case, id) in cases.iter().zip(["cuda:sm_90a", "cuda:sm_80", "cuda:sm_90a", "cuda:sm_120a"]) {
        check_points(case, "matmul.fma", id, |space, rng| {
            let passing = |k: &Knobs| k.get("split_k") == 1 && k.get("add_parts") == 1;
            let points: Vec<Knobs> = space.points().into_iter().filter(passing).collect();
            assert!(!points.is_empty(), "no point of `matmul.fma` on {id} has its sums in shared memory");
            points.sample(rng, 4).cloned().collect()
        });
    }
}

/// Aligned rows along the reduced axis, copied by element: the copies stand among the steps that are multiplied.
#[test]
fn copies_of_elements_among_the_steps() {
    let aligned = Matmul::new("float32", 37, 45, 72);
    let cases = [
        aligned.clone().transposed(false, true).with_epilogue().case(),
        aligned.clone().batched(2).case(),
        aligned.symbolic().transposed(false, true).case(),
    ];
    for case in &cases {
        check_points(case, "matmul.fma", "cuda:sm_90a", |space, rng| {
            let points: Vec<Knobs> = space.points().into_iter().filter(|k| k.get("elements") == 1).collect();
            assert!(!points.is_empty(), "no point of `matmul.fma` copies by element");
            points.sample(rng, 4).cloned().collect()
        });
    }
    let tile = [("block_m", 32), ("block_n", 64), ("block_k", 8), ("stages", 3), ("elements", 1)];
    let text = kernel_at(&cases[0], "matmul.fma", &tile);
    let (_, steps) = text.split_once("cp_async_wait 1").expect("copies that run ahead");
    let (_, part) = steps.split_once("unroll ").expect("steps that are written out");
    assert!(part.contains("cp_async4") && !part.contains("cp_async16"), "{text}");
}
