//! Functions that only move and convert data: transposes of any rank, with fused neighbours.

use super::harness::{Case, check_all, check_point, kernel_at, points, scalars, target};
use daylight::interp::{self, Mode, Tensor};
use daylight::ir::{self, DType, PrimFunc};
use daylight::rules::{Prepared, Spaces, verdicts};
use rand::prelude::*;
use std::path::Path;

const TRANSPOSES: &[&str] = &["transpose.cuda", "transpose.cpu", "fallback.cuda", "fallback.cpu"];

fn list(items: &[String]) -> String {
    format!("({}{})", items.join(", "), if items.len() == 1 { "," } else { "" })
}

/// `O[v0, v1, ...] = value`, where `A` has the axes of `O` in the order `perm`: axis `perm[k]` of the
/// output is axis `k` of the input. `IN` in `value` is the element read. `params` are further ones.
fn permuted(from: &str, to: &str, shape: &[i64], perm: &[usize], value: &str, params: &str) -> Case {
    let dims: Vec<String> = shape.iter().map(|n| n.to_string()).collect();
    let pick = |names: &str| -> Vec<String> { perm.iter().map(|p| format!("{names}{p}")).collect() };
    let own = |names: &str| -> Vec<String> { (0..shape.len()).map(|p| format!("{names}{p}")).collect() };
    let from_shape: Vec<String> = perm.iter().map(|p| dims[*p].clone()).collect();
    let value = value.replace("IN", &format!("A[{}]", pick("v").join(", ")));
    let text = format!(
        "@T.prim_func(s_tir=True)
def main(A: T.Buffer({}, \"{from}\"){params}, O: T.Buffer({}, \"{to}\")):
    for {} in T.grid({}):
        with T.sblock(\"O\"):
            {} = T.axis.remap(\"{}\", [{}])
            O[{}] = {value}
",
        list(&from_shape),
        list(&dims),
        own("i").join(", "),
        dims.join(", "),
        own("v").join(", "),
        "S".repeat(shape.len()),
        own("i").join(", "),
        own("v").join(", "),
    );
    let order: String = perm.iter().map(|p| p.to_string()).collect();
    Case { name: format!("permute-{}-{order}-{from}-{to}-{value}", dims.join("x")), text, extents: vec![], length: 0 }
}

fn plain(dtype: &str, shape: &[i64], perm: &[usize]) -> Case {
    permuted(dtype, dtype, shape, perm, "IN", "")
}

#[test]
fn matrices() {
    let mut cases = vec![];
    for [m, n] in [[2, 2], [3, 5], [37, 53], [64, 128], [8, 1031], [96, 40], [1, 7]] {
        cases.push(plain("float32", &[m, n], &[1, 0]));
    }
    let (transposes, rest): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(|c| !c.name.contains("-1x7-"));
    check_all(transposes, TRANSPOSES);
    check_all(rest, &["fallback.cuda", "fallback.cpu"]);
}

#[test]
fn element_types() {
    let mut cases = vec![];
    for dtype in ["float16", "bfloat16", "int8", "float64", "int64"] {
        for [m, n] in [[64, 96], [33, 80], [7, 29]] {
            cases.push(plain(dtype, &[m, n], &[1, 0]));
        }
    }
    check_all(cases, TRANSPOSES);
}

#[test]
fn higher_ranks() {
    let cases = vec![
        plain("float16", &[2, 6, 7, 16], &[0, 3, 1, 2]),
        plain("float32", &[2, 16, 5, 5], &[0, 2, 3, 1]),
        plain("float32", &[4, 9, 6], &[2, 1, 0]),
        plain("float16", &[3, 8, 2, 40], &[3, 0, 2, 1]),
    ];
    check_all(cases, TRANSPOSES);
}

#[test]
fn kept_innermost_axes_are_no_transposes() {
    let cases = vec![
        plain("float32", &[2, 3, 8, 16], &[0, 2, 1, 3]),
        plain("float16", &[3, 16, 8], &[1, 0, 2]),
        plain("float32", &[5, 7, 9], &[1, 0, 2]),
    ];
    check_all(cases, &["fallback.cuda", "fallback.cpu"]);
}

#[test]
fn fused_neighbours() {
    let half = "T.Cast(\"float16\", IN)";
    let mut cases = vec![];
    for [m, n] in [[64, 48], [17, 40], [9, 13]] {
        let bias = format!(", B: T.Buffer(({n},), \"float32\")");
        let both = format!(", B: T.Buffer(({m}, {n}), \"float32\"), C: T.Buffer(({m},), \"float32\")");
        let twice = format!(", B: T.Buffer(({n}, {m}), \"float32\")");
        cases.push(permuted("float32", "float16", &[m, n], &[1, 0], half, ""));
        cases.push(permuted("int8", "float32", &[m, n], &[1, 0], "T.Cast(\"float32\", IN) * T.float32(0.5)", ""));
        cases.push(permuted("float32", "float32", &[m, n], &[1, 0], "IN + B[v1]", &bias));
        cases.push(permuted("float32", "float32", &[m, n], &[1, 0], "IN * C[v0] + B[v0, v1]", &both));
        cases.push(permuted("float32", "float32", &[m, n], &[1, 0], "IN - B[v1, v0]", &twice));
    }
    check_all(cases, TRANSPOSES);
}

/// Rows that no vector divides: what lies as the output does moves in vectors all the same.
fn odd_rows(from: &str, to: &str, shape: &[i64]) -> Vec<Case> {
    let (perm, last): (Vec<usize>, usize) = ((0..shape.len()).collect(), shape.len() - 1);
    let all = list(&shape.iter().map(i64::to_string).collect::<Vec<_>>());
    let at = (0..shape.len()).map(|p| format!("v{p}")).collect::<Vec<_>>().join(", ");
    let bias = format!(", B: T.Buffer(({},), \"{from}\")", shape[last]);
    let first = format!(", B: T.Buffer(({},), \"{from}\")", shape[0]);
    let other = format!(", B: T.Buffer({all}, \"{from}\")");
    let values = [
        ("IN".to_string(), String::new()),
        (format!("IN + B[v{last}]"), bias),
        ("IN * B[v0]".to_string(), first),
        (format!("IN * B[{at}]"), other),
    ];
    let cast = |value: String| if from == to { value } else { format!("T.Cast(\"{to}\", {value})") };
    values.map(|(value, params)| permuted(from, to, shape, &perm, &cast(value), &params)).into()
}

#[test]
fn vectors_go_on_into_the_next_row() {
    let shapes: [&[i64]; 7] = [&[3, 5], &[1, 7], &[37, 53], &[64, 81], &[5, 9, 13], &[2, 4099], &[1031, 4]];
    let mut cases: Vec<Case> = shapes.iter().flat_map(|s| odd_rows("float16", "float16", s)).collect();
    cases.extend(odd_rows("float32", "float16", &[33, 37]));
    cases.extend(odd_rows("int8", "float32", &[19, 23]));
    cases.extend(odd_rows("float64", "float64", &[7, 11]));
    check_all(cases, &["fallback.cuda", "fallback.cpu"]);
    let wide = |value: usize| {
        kernel_at(&odd_rows("float16", "float16", &[37, 53])[value], "fallback.cuda", &[("threads", 64)])
    };
    for (value, operands) in [(0, 1), (1, 1), (2, 1), (3, 2)] {
        // In blocks whose tile is whole, and in the others where all elements of a vector are inside.
        let text = wide(value);
        assert_eq!(text.matches("copy8 ").count(), 2 * (operands + 1), "{text}");
    }
}

#[test]
fn symbolic_extents() {
    let text = "n = TypeVar(\"n\")
@T.prim_func(s_tir=True)
def main(A: T.Buffer((T.int64(2), n, T.int64(24)), \"float32\"), O: T.Buffer((T.int64(2), T.int64(24), n), \"float32\")):
    for i, j, k in T.grid(T.int64(2), T.int64(24), n):
        with T.sblock(\"O\"):
            vi, vj, vk = T.axis.remap(\"SSS\", [i, j, k])
            O[vi, vj, vk] = A[vi, vk, vj]
";
    let case = |n: i64| Case { name: format!("symbolic-{n}"), text: text.into(), extents: vec![("n", n)], length: 0 };
    check_all([1, 5, 37, 64].map(case).into(), TRANSPOSES);
}

/// The name and text of each file of a kind in the corpus.
fn corpus(kind: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads").join(kind);
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let files =
        entries.map(|e| e.expect("read the folder").path()).filter(|p| p.extension().is_some_and(|e| e == "py"));
    let name = |p: &Path| p.file_stem().expect("a file has a name").to_string_lossy().into_owned();
    files.map(|p| (name(&p), std::fs::read_to_string(&p).expect("read a file"))).collect()
}

/// Normal-like floats, all bits of unsigned integers, indices of any tensor for signed ones.
fn inputs(func: &PrimFunc, extents: &[(&'static str, i64)], rng: &mut StdRng) -> Vec<Tensor> {
    let extent = |e: &ir::Expr| {
        let bound = |v| extents.iter().find(|(n, _)| *n == func.display_name(v)).expect("a bound extent").1;
        e.as_int().or(e.as_var().map(bound)).expect("extents are constants or names")
    };
    let shapes: Vec<Vec<i64>> = func.buffer_params().map(|b| b.shape.iter().map(extent).collect()).collect();
    let least = shapes.iter().filter_map(|s| s.first()).min().copied().unwrap_or(1);
    let value = |dtype: DType, rng: &mut StdRng| match dtype {
        d if d.is_float() => rng.random_range(-8i32..=8) as f64 / 8.0 + 1.0,
        DType::U32 => rng.random::<u32>() as f64,
        _ => rng.random_range(0..least) as f64,
    };
    let make = |(b, shape): (&ir::Buffer, &Vec<i64>)| {
        let values: Vec<f64> = (0..shape.iter().product::<i64>()).map(|_| value(b.dtype, rng)).collect();
        Tensor::from_f64(b.dtype, shape, &values)
    };
    func.buffer_params().zip(&shapes).map(make).collect()
}

/// Checks a function under every rule that takes it, at the default point and two random ones.
fn check_function(name: &str, func: &PrimFunc, extents: &[(&'static str, i64)]) {
    let case = Case { name: name.into(), text: String::new(), extents: extents.to_vec(), length: 0 };
    let input = Prepared::new(func).unwrap_or_else(|d| panic!("{name}: {}: {}", d.reason.predicate, d.reason.text));
    let mut rng = StdRng::seed_from_u64(name.len() as u64);
    let args = inputs(func, extents, &mut rng);
    let mut want = args.clone();
    interp::run(func, &mut want, &scalars(func), Mode::F64).unwrap_or_else(|e| panic!("{name}: {e}"));
    for target in ["cuda:sm_90a", "cpu"].map(target) {
        let mut taken = false;
        for v in verdicts(&input, &target, &Spaces::built_in()) {
            let Ok(arm) = v.arm else { continue };
            taken = true;
            for knobs in points(&arm.space, &mut rng).iter().take(3) {
                check_point(&arm, &case, &input, &target, knobs, &args, &want);
            }
        }
        assert!(taken, "{name}: no rule takes it on {}", target.id);
    }
}

fn read(name: &str, text: &str) -> PrimFunc {
    ir::read(text, name).unwrap_or_else(|e| panic!("{name}: {e}")).remove(0)
}

/// Products accumulated in float16, whose rounding exceeds the tolerance here; rules for products have tests
/// of their own.
fn is_product(name: &str) -> bool {
    name.contains("o_proj") || name.contains("gate_up")
}

/// The constants of a file of the corpus that become smaller, so that the simulator can run it whole.
const SMALLER: [(&str, &[(i64, i64)]); 5] = [
    ("bert_base-sum_last-_b_x_s_x768-f32", &[(768, 37)]),
    ("llama3_8b-attn_qk_decode-h32s_n_d128-f16", &[(32, 3), (128, 24)]),
    ("llama3_8b-fused_rope-_n_x48x128-f16", &[]),
    ("llama3_8b-rms_norm-_n_x4096-f16", &[(4096, 41)]),
    ("llama3_8b-softmax-32x_n_x_m_-f32", &[(32, 3)]),
];

#[test]
fn dynamic_functions_of_the_corpus_scheduled_symbolically() {
    use rayon::prelude::*;
    let files: Vec<_> = corpus("dynamic").into_iter().filter(|(name, _)| !is_product(name)).collect();
    files.par_iter().for_each(|(name, text)| {
        let (_, sizes) = SMALLER.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{name} is in the list"));
        let smaller = |text: String, (from, to): &(i64, i64)| {
            text.replace(&format!("T.int64({from})"), &format!("T.int64({to})"))
        };
        let func = read(name, &sizes.iter().fold(text.clone(), smaller));
        for n in [1, 3, 19] {
            let extents =
                ["n", "m", "b", "s", "batch_size", "seq_len"].map(|e| (e, if e == "batch_size" { 1 } else { n }));
            check_function(&format!("{name} n={n}"), &func, &extents);
        }
    });
}
