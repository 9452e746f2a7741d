//! Normal form and facts on small functions: what is accepted, and what is said about it.

use crate::common::arm::predicate;
use daylight::analysis::{BlockFacts, Combiner, Facts, index_text, normalize, refusals, refuse, roles, work};
use daylight::ir::{PrimFunc, Role, read};

const HEAD: &str = "from tvm.script import tirx as T\n";

fn func(text: &str) -> PrimFunc {
    read(&format!("{HEAD}{text}"), "test.py").unwrap_or_else(|e| panic!("{e}")).remove(0)
}

/// A function of one block, from its loops, iterators and body.
fn one_block(params: &str, loops: &str, body: &[&str]) -> PrimFunc {
    let lines: Vec<String> = body.iter().map(|l| format!("            {l}\n")).collect();
    func(&format!(
        "@T.prim_func(private=True, s_tir=True)\ndef main({params}):\n    for {loops}:\n        with T.sblock(\"b\"):\n{}",
        lines.concat()
    ))
}

/// The matrix product of the seed notes: 10x20x1 times 10x1x30.
fn unit_matmul() -> PrimFunc {
    let params = "A: T.Buffer((T.int64(10), T.int64(20), T.int64(1)), \"int64\"), \
                  B: T.Buffer((T.int64(10), T.int64(1), T.int64(30)), \"int64\"), \
                  C: T.Buffer((T.int64(10), T.int64(20), T.int64(30)), \"int64\")";
    one_block(
        params,
        "i0, i1, i2, k in T.grid(T.int64(10), T.int64(20), T.int64(30), T.int64(1))",
        &[
            "v0, v1, v2, v3 = T.axis.remap(\"SSSR\", [i0, i1, i2, k])",
            "with T.init():",
            "    C[v0, v1, v2] = T.int64(0)",
            "C[v0, v1, v2] = C[v0, v1, v2] + A[v0, v1, v3] * B[v0, v3, v2]",
        ],
    )
}

fn first(f: &PrimFunc) -> BlockFacts {
    Facts::of(f).blocks.remove(0)
}

#[test]
fn a_unit_reduction_keeps_its_flag() {
    let f = normalize(&unit_matmul()).expect("accepted");
    let b = first(&f);
    assert_eq!((b.kind.as_str(), b.is_reduction, b.has_reduce_iter()), ("SSS", true, false));
    assert_eq!(b.dominant_read(&f).map(|e| index_text(&e)).as_deref(), Some("v0*20 + v1"));
    assert_eq!(b.reducer.as_ref().map(|r| r.combiner), Some(Combiner::Sum));
    assert!(b.is_gemv().is_none());
}

fn declined(f: &PrimFunc) -> &'static str {
    predicate(normalize(f).expect_err("declined").reason)
}

const VECTORS: &str = "A: T.Buffer((16,), \"float32\"), B: T.Buffer((16,), \"float32\")";

/// The loops and iterators of the only block of the normal form, and what it stores.
fn normal(f: &PrimFunc) -> String {
    let text = normalize(f).expect("has a normal form").to_string();
    let lines: Vec<&str> = text.lines().map(|l| l.trim().trim_end_matches(':')).collect();
    let from = lines.iter().position(|l| l.starts_with("for ")).expect("a loop");
    lines[from..].iter().filter(|l| !l.starts_with("with ")).copied().collect::<Vec<_>>().join("; ")
}

#[test]
fn tiled_loops_become_the_iterators_own() {
    let tiled = |loops: &str, index: &str| {
        one_block(VECTORS, loops, &[&format!("vi = T.axis.spatial(16, {index})"), "B[vi] = A[vi] + T.float32(1)"])
    };
    let want = "for l0 in range(16); vi = T.axis.spatial(16, l0); B[vi] = A[vi] + T.float32(1.0)";
    assert_eq!(normal(&tiled("i, j in T.grid(4, 4)", "i * 4 + j")), want);
    assert_eq!(normal(&tiled("i, j in T.grid(8, 2)", "j * 8 + i")), want);
    assert_eq!(declined(&tiled("i, j in T.grid(4, 4)", "i * 4 + j // 2")), "loops_match_iterators");
    assert_eq!(declined(&tiled("i, j in T.grid(4, 5)", "i * 4 + j")), "loops_match_iterators");
    assert_eq!(declined(&tiled("i, j in T.grid(4, 16)", "j")), "loops_match_iterators");
}

#[test]
fn permuted_and_shifted_loops_become_the_iterators_own() {
    let square = "A: T.Buffer((4, 5), \"float32\"), B: T.Buffer((5, 4), \"float32\")";
    let f =
        one_block(square, "i, j in T.grid(4, 5)", &["vi, vj = T.axis.remap(\"SS\", [j, i])", "B[vi, vj] = A[vj, vi]"]);
    let want = "for l0, l1 in T.grid(5, 4); vi, vj = T.axis.remap(\"SS\", [l0, l1]); B[vi, vj] = A[vj, vi]";
    assert_eq!(normal(&f), want);
    let f = one_block(VECTORS, "i in range(15)", &["vi = T.axis.spatial((1, 16), i + 1)", "B[vi] = A[vi - 1]"]);
    let want = "for l0 in range(15); vi = T.axis.spatial(15, l0); B[vi + 1] = A[vi]";
    assert_eq!(normal(&f), want);
    let f = one_block(VECTORS, "i in T.serial(1, 16)", &["vi = T.axis.spatial((1, 16), i)", "B[vi] = A[vi - 1]"]);
    assert_eq!(normal(&f), want);
    let f = one_block(VECTORS, "i in range(15)", &["vi = T.axis.spatial(16, i + 1)", "B[vi] = A[vi]"]);
    assert_eq!(declined(&f), "bindings_are_loops");
}

#[test]
fn loops_start_at_zero() {
    let f = one_block(VECTORS, "i in range(1, 16)", &["vi = T.axis.spatial(16, i)", "B[vi] = A[vi]"]);
    assert_eq!(declined(&f), "zero_based_loops");
}

#[test]
fn loop_kinds_and_predicates_are_not_looked_at() {
    let f = one_block(
        VECTORS,
        "i in T.thread_binding(16, thread=\"blockIdx.x\")",
        &["vi = T.axis.spatial(16, i)", "T.where(i < 8)", "B[vi] = A[vi]"],
    );
    assert!(normalize(&f).is_ok());
    assert_eq!(refuse(&f).expect_err("scheduled").reason.predicate, "already_scheduled");
}

#[test]
fn scalars_become_spatial() {
    let scalars = "A: T.Buffer((1, 1), \"float32\"), B: T.Buffer((), \"float32\")";
    let f = one_block(scalars, "i, j in T.grid(1, 1)", &["vi, vj = T.axis.remap(\"RR\", [i, j])", "B[()] = A[vi, vj]"]);
    assert_eq!(first(&normalize(&f).expect("accepted")).kind, "S");
    let bare = func(
        "@T.prim_func(private=True, s_tir=True)\ndef main(A: T.Buffer((), \"float32\"), B: T.Buffer((), \"float32\")):\n    \
         with T.sblock(\"b\"):\n        B[()] = A[()] + T.float32(1)\n",
    );
    let g = normalize(&bare).expect("accepted");
    let b = first(&g);
    assert_eq!((b.kind.as_str(), b.loops.len(), b.is_injective()), ("S", 1, true));
}

#[test]
fn whole_reductions_get_a_spatial_iterator() {
    let f = one_block(
        "A: T.Buffer((16,), \"float32\"), B: T.Buffer((1,), \"float32\")",
        "i in range(16)",
        &["vi = T.axis.reduce(16, i)", "with T.init():", "    B[0] = T.float32(-1)", "B[0] = T.max(A[vi], B[0])"],
    );
    let b = first(&normalize(&f).expect("accepted"));
    assert_eq!((b.kind.as_str(), b.is_reduction), ("SR", true));
    let r = b.reducer.expect("a maximum, its operands swapped");
    assert_eq!((r.combiner, r.identity.as_float()), (Combiner::Max, Some(-1.0)));
    assert!(!r.term.loads(&r.buffer));
}

/// Sums that do not start from 0 would count their start once per partial sum.
#[test]
fn only_neutral_starts_are_reducers() {
    let sum = |start: &str, update: &str| {
        let start = format!("    B[vi] = T.float32({start})");
        let update = format!("B[vi] = {update}");
        let body = ["vi, vk = T.axis.remap(\"SR\", [i, k])", "with T.init():", &start, &update];
        let params = "A: T.Buffer((4, 8), \"float32\"), B: T.Buffer((4,), \"float32\")";
        first(&one_block(params, "i, k in T.grid(4, 8)", &body)).reducer.map(|r| r.combiner)
    };
    assert_eq!(sum("0", "B[vi] + A[vi, vk]"), Some(Combiner::Sum));
    assert_eq!(sum("0", "A[vi, vk] + B[vi]"), Some(Combiner::Sum));
    assert_eq!(sum("1", "B[vi] + A[vi, vk]"), None);
    assert_eq!(sum("1", "A[vi, vk] * B[vi]"), Some(Combiner::Prod));
    assert_eq!(sum("3", "T.min(B[vi], A[vi, vk])"), Some(Combiner::Min));
    assert_eq!(sum("0", "B[vi] - A[vi, vk]"), None);
    assert_eq!(sum("0", "B[vi] + A[vi, vk] * B[vi]"), None);
}

#[test]
fn a_gemv_names_its_vector_in_either_order() {
    let gemv = |product: &str| {
        let update = format!("C[v0] = C[v0] + {product}");
        let params =
            "W: T.Buffer((8, 16), \"float32\"), X: T.Buffer((16,), \"float32\"), C: T.Buffer((8,), \"float32\")";
        let body = ["v0, v1 = T.axis.remap(\"SR\", [i, k])", "with T.init():", "    C[v0] = T.float32(0)", &update];
        let f = one_block(params, "i, k in T.grid(8, 16)", &body);
        let b = first(&f);
        b.is_gemv().map(|v| v.iter().map(|a| f.display_name(&a.buffer).to_string()).collect::<Vec<_>>())
    };
    assert_eq!(gemv("W[v0, v1] * X[v1]"), Some(vec!["X".to_string()]));
    assert_eq!(gemv("X[v1] * W[v0, v1]"), Some(vec!["X".to_string()]));
    assert_eq!(gemv("W[v0, v1]"), None);
}

#[test]
fn shapes_of_access() {
    let params = "A: T.Buffer((4, 8), \"float32\"), b: T.Buffer((8,), \"float32\"), C: T.Buffer((4, 8), \"float32\")";
    let facts = |value: &str| {
        let store = format!("C[v0, v1] = {value}");
        let f = one_block(params, "i, j in T.grid(4, 8)", &["v0, v1 = T.axis.remap(\"SS\", [i, j])", &store]);
        let b = first(&f);
        let broadcast = b.reads.iter().any(|r| b.is_broadcast(&r.buffer));
        (b.is_injective(), b.is_elementwise(), broadcast)
    };
    assert_eq!(facts("A[v0, v1] * A[v0, v1]"), (true, true, false));
    assert_eq!(facts("A[v0, v1] + b[v1]"), (true, false, true));
    assert_eq!(facts("A[3 - v0, v1]"), (true, false, false));
}

fn refusal(f: &PrimFunc) -> Option<&'static str> {
    refuse(f).err().map(|d| predicate(d.reason))
}

#[test]
fn functions_that_no_rule_may_touch() {
    let block = |body: &[&str]| refusal(&one_block(VECTORS, "i in range(16)", body));
    assert_eq!(block(&["vi = T.axis.spatial(16, i)", "B[vi] = A[vi]"]), None);
    assert_eq!(block(&["vi = T.axis.opaque(16, i)", "B[vi] = A[vi]"]), Some("opaque_block"));
    assert_eq!(block(&["vi = T.axis.spatial(16, i)", "B[0] = A[vi]"]), Some("overlapping_writes"));
    assert_eq!(block(&["vi = T.axis.spatial(16, i)", "B[vi] = A[vi] + B[15 - vi]"]), Some("loop_carried_dependence"));
    assert_eq!(
        block(&["vi = T.axis.spatial(16, i)", "B[T.Cast(\"int32\", A[vi])] = T.float32(vi)"]),
        None,
        "the author answers for them"
    );
    assert_eq!(block(&["vi = T.axis.spatial(16, i)", "T.evaluate(0)"]), Some("no_store"));
    let empty = "A: T.Buffer((16,), \"float32\"), B: T.Buffer((0,), \"float32\")";
    let none = one_block(empty, "i in range(0)", &["vi = T.axis.spatial(16, i)", "B[vi] = A[vi]"]);
    assert_eq!(refusal(&none), Some("zero_extent"));
    let bare = func(
        "@T.prim_func(private=True, s_tir=True)\ndef main(A: T.Buffer((4,), \"float32\")):\n    \
         for i in range(4):\n        A[i] = T.float32(0)\n",
    );
    assert_eq!(refusal(&bare), Some("statement_outside_block"));
    let nested = func(
        "@T.prim_func(private=True, s_tir=True)\ndef main(A: T.Buffer((4, 4), \"float32\")):\n    \
         for i in range(4):\n        with T.sblock(\"o\"):\n            vi = T.axis.spatial(4, i)\n            \
         for j in range(4):\n                with T.sblock(\"n\"):\n                    \
         vj = T.axis.spatial(4, j)\n                    A[vi, vj] = T.float32(0)\n",
    );
    assert_eq!(refusal(&nested), Some("nested_block"));
    let huge = "A: T.Buffer((4611686018427387904,), \"int8\"), B: T.Buffer((4611686018427387904,), \"int8\")";
    let huge = one_block(huge, "i in range(T.int64(16))", &["vi = T.axis.spatial(T.int64(16), i)", "B[vi] = A[vi]"]);
    assert_eq!(refusal(&huge), Some("huge_extent"));
    assert_eq!(refusals().len(), 17);
}

#[test]
fn roles_and_parts() {
    let f = func(
        "@T.prim_func(private=True, s_tir=True)\ndef main(A: T.Buffer((64, 16), \"float16\"), B: T.Buffer((8, 4), \"float16\"), \
         C: T.Buffer((4,), \"float32\"), s: T.float32):\n    \
         for i, j in T.grid(8, 4):\n        with T.sblock(\"a\"):\n            \
         v0, v1 = T.axis.remap(\"SS\", [i, j])\n            \
         B[v0, v1] = A[v0 + 8, v1] + A[v0 + 12, v1]\n    \
         for i in range(4):\n        with T.sblock(\"b\"):\n            \
         v0 = T.axis.spatial(4, i)\n            C[v0] = C[v0] * s\n",
    );
    assert_eq!(roles(&f), [Role::In, Role::Out, Role::Inout, Role::Scalar]);
    let w = work(&f);
    // Rows 8 to 19 of A in four columns, all of B, C read and written.
    assert_eq!((w.flops, w.bytes), (Some(32 + 4), Some(12 * 4 * 2 + 32 * 2 + 2 * 16)));
}

/// Rows and columns between those that are read cost nothing; two slices that meet cost what both do.
#[test]
fn steps_between_elements_are_not_read() {
    let bytes = |value: &str| {
        let f = func(&format!(
            "@T.prim_func(private=True, s_tir=True)\ndef main(A: T.Buffer((64, 48), \"float32\"), \
             B: T.Buffer((16, 8), \"float32\")):\n    for i, j in T.grid(16, 8):\n        with T.sblock(\"a\"):\n            \
             v0, v1 = T.axis.remap(\"SS\", [i, j])\n            B[v0, v1] = {value}\n"
        ));
        work(&f).bytes.map(|b| b / 4 - 16 * 8)
    };
    assert_eq!(bytes("A[v0 * 2, v1]"), Some(16 * 8), "every other row");
    assert_eq!(bytes("A[v0 * 4 + 3, v1 * 6]"), Some(16 * 8), "of rows and columns");
    assert_eq!(bytes("A[v0 * 2, v1] + A[v0 * 2 + 1, v1]"), Some(32 * 8), "the even and the odd rows");
    assert_eq!(bytes("A[v0 * 2, v1] + A[v0 * 2 + 2, v1]"), Some(17 * 8), "slices that share rows");
    assert_eq!(bytes("A[v0 * 2, v1] + A[v0 * 3, v1]"), Some(46 * 8), "of several steps what lies between counts");
    assert_eq!(bytes("A[v0 * 2 + v1, v1]"), Some(38 * 8), "a step of one among them");
    assert_eq!(bytes("T.if_then_else(v0 > 0, A[v0 * 2 - 1, v1], T.float32(0))"), Some(15 * 8), "odd rows from 1 on");
    let many: Vec<String> = (0..14).map(|k| format!("A[v0 * 2 + {}, v1]", 2 * k)).collect();
    assert_eq!(bytes(&many.join(" + ")), Some(29 * 8), "the hull of many slices");
}
