//! Iterators whose neighbours share a factor are taken apart into groups and members, and only those.

use daylight::analysis::normalize;
use daylight::interp::{self, Mode, Tensor};
use daylight::ir::{self, PrimFunc};

fn read(text: &str) -> PrimFunc {
    let text = format!("from tvm.script import tirx as T\n@T.prim_func(private=True, s_tir=True)\n{text}");
    ir::read(&text, "main").unwrap_or_else(|e| panic!("{e}\n{text}")).remove(0)
}

/// Scores of query heads against the keys that they share, `index` the key head, and what follows.
fn scores(index: &str, after: &str) -> PrimFunc {
    read(&format!(
        "def main(Q: T.Buffer((12, 5), \"float32\"), K: T.Buffer((12, 7, 5), \"float32\"), O: T.Buffer((12, 7), \"float32\")):
    C = T.sblock_alloc_buffer((12, 7), \"float32\")
    for h, j, k in T.grid(12, 7, 5):
        with T.sblock(\"C\"):
            vh, vj, vk = T.axis.remap(\"SSR\", [h, j, k])
            with T.init():
                C[vh, vj] = T.float32(0.0)
            C[vh, vj] = C[vh, vj] + Q[vh, vk] * K[{index}, vj, vk]
    for h, j in T.grid(12, 7):
        with T.sblock(\"O\"):
            vh, vj = T.axis.remap(\"SS\", [h, j])
            O[vh, vj] = {after}
"
    ))
}

fn same_results(f: &PrimFunc, g: &PrimFunc) {
    let make = |b: &ir::Buffer| {
        let shape: Vec<i64> = b.shape.iter().filter_map(|e| e.as_int()).collect();
        let values = (0..shape.iter().product::<i64>()).map(|i| ((i * 37 % 19) as f64 - 9.0) / 4.0);
        Tensor::from_f64(b.dtype, &shape, &values.collect::<Vec<_>>())
    };
    let args: Vec<Tensor> = f.buffer_params().map(make).collect();
    let run = |f: &PrimFunc| {
        let mut args = args.clone();
        interp::run(f, &mut args, &Default::default(), Mode::Exact).expect("runs");
        args.iter().map(|t| t.to_f64()).collect::<Vec<_>>()
    };
    assert_eq!(run(f), run(g));
}

/// The loops of each nest after normalising, as extents.
fn nests(f: &PrimFunc) -> Vec<Vec<i64>> {
    let g = normalize(f).expect("accepted");
    ir::verify(&g).expect("well formed");
    same_results(f, &g);
    let loops = |s: &ir::Stmt| {
        let mut extents = vec![];
        s.visit(&mut |s| {
            if let ir::Stmt::For(l) = s {
                extents.extend(l.extent.as_int());
            }
        });
        extents
    };
    g.body.iter().map(loops).collect()
}

#[test]
fn heads_that_share_keys_are_members_of_a_group() {
    assert_eq!(nests(&scores("vh // 4", "C[vh, vj]")), [vec![3, 4, 7, 5], vec![3, 4, 7]]);
    assert_eq!(nests(&scores("vh // 3", "C[vh, vj] * Q[vh, 0]")), [vec![4, 3, 7, 5], vec![4, 3, 7]]);
}

#[test]
fn one_group_is_no_axis() {
    assert_eq!(nests(&scores("vh // 12", "C[vh, vj]")), [vec![12, 7, 5], vec![12, 7]]);
}

#[test]
fn a_result_that_is_a_parameter_is_copied() {
    let f = read(
        "def main(Q: T.Buffer((12, 5), \"float32\"), K: T.Buffer((3, 7, 5), \"float32\"), C: T.Buffer((12, 7), \"float32\")):
    for h, j, k in T.grid(12, 7, 5):
        with T.sblock(\"C\"):
            vh, vj, vk = T.axis.remap(\"SSR\", [h, j, k])
            with T.init():
                C[vh, vj] = T.float32(0.0)
            C[vh, vj] = C[vh, vj] + Q[vh, vk] * K[vh // 4, vj, vk]
",
    );
    assert_eq!(nests(&f), [vec![3, 4, 7, 5], vec![3, 4, 7]]);
}

#[test]
fn the_groups_as_text() {
    let g = normalize(&scores("vh // 4", "C[vh, vj]")).expect("accepted");
    let text = g.to_string();
    let update = "Q[vh_group * 4 + vh_member, vk] * K[vh_group, vj, vk]";
    assert!(text.contains(update) && text.contains("C[vh_group, vh_member, vj]"), "{text}");
    assert!(text.contains("O[vh_group * 4 + vh_member, vj] = C[vh_group, vh_member, vj]"), "{text}");
}

#[test]
fn other_indices_stay() {
    let whole = [vec![12, 7, 5], vec![12, 7]];
    for index in ["vh", "vh % 4", "vh // 4 + vh % 4", "vh // 5", "vh // 4 * 2"] {
        assert_eq!(nests(&scores(index, "C[vh, vj]")), whole, "{index}");
    }
    // the result is read in another way too
    assert_eq!(nests(&scores("vh // 4", "C[vh, vj] + C[11 - vh, vj]")), whole);
    assert_eq!(nests(&scores("vh // 4", "C[vh, vj] + C[0, vj]")), whole);
}
