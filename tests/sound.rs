//! Functions whose result is not one thing, which are refused when they are read, and their neighbours that are taken.

use crate::common::arm::predicate;
use crate::common::schedule::SplitMix;
use daylight::analysis::refuse;
use daylight::ir::{PrimFunc, read};

fn func(text: &str) -> PrimFunc {
    read(&format!("from tvm.script import tirx as T\n{text}"), "test.py")
        .unwrap_or_else(|e| panic!("{e}\n{text}"))
        .remove(0)
}

/// A function of one block: parameters, loops, and the lines of the block.
fn one(params: &str, loops: &str, lines: &[&str]) -> PrimFunc {
    let lines: String = lines.iter().map(|l| format!("            {l}\n")).collect();
    func(&format!(
        "@T.prim_func(private=True, s_tir=True)\ndef main({params}):\n    for {loops}:\n        with T.sblock(\"b\"):\n{lines}"
    ))
}

fn refusal(f: &PrimFunc) -> Option<(&'static str, String)> {
    refuse(f).err().map(|d| (predicate(d.reason.clone()), d.reason.text))
}

const AB: &str = "A: T.Buffer((64,), \"float32\"), B: T.Buffer((64,), \"float32\")";

/// A copy of `A[v]` to `B` at an index, `v` from 0 to 63.
fn stores_at(index: &str) -> Option<(&'static str, String)> {
    refusal(&one(AB, "i in range(64)", &["v = T.axis.spatial(64, i)", &format!("B[{index}] = A[v]")]))
}

#[test]
fn iterations_that_store_to_one_element_are_named() {
    let cases = [
        ("v // 2", "at v = 0 and at v = 1"),
        ("v % 32", "at v = 0 and at v = 32"),
        ("T.min(v, 5)", "at v = 5 and at v = 6"),
        ("T.max(v, 5)", "at v = 0 and at v = 1"),
        ("v * 2 % 64", "at v = 0 and at v = 32"),
        ("v - v % 3", "at v = 0 and at v = 1"),
        ("T.if_then_else(v < 60, v, 7)", "at v = 7 and at v = 60"),
        ("T.bitwise_and(v, 62)", "at v = 0 and at v = 1"),
        ("0", "for several values of `v`"),
    ];
    for (index, at) in cases {
        let (predicate, text) = stores_at(index).unwrap_or_else(|| panic!("B[{index}] is taken"));
        assert!(predicate == "overlapping_writes" && text.contains(at), "B[{index}]: {predicate}: {text}");
    }
}

#[test]
fn maps_that_are_one_to_one_are_taken() {
    for index in [
        "v",
        "63 - v",
        "v // 8 * 8 + v % 8",
        "v % 8 * 8 + v // 8",
        "(v + 32) % 64",
        "T.bitwise_xor(v, 3)",
        "v * 5 % 64",
    ] {
        assert_eq!(stores_at(index), None, "B[{index}]");
    }
}

#[test]
fn several_iterators_and_stores() {
    let params = "A: T.Buffer((8, 8), \"float32\"), B: T.Buffer((64,), \"float32\"), C: T.Buffer((8, 15), \"float32\")";
    let at = |store: &str| {
        refusal(&one(params, "i, j in T.grid(8, 8)", &["v, w = T.axis.remap(\"SS\", [i, j])", store])).map(|r| r.0)
    };
    assert_eq!(at("B[v * 8 + w] = A[v, w]"), None);
    assert_eq!(at("B[v + w * 8] = A[v, w]"), None);
    assert_eq!(at("C[v, v + w] = A[v, w]"), None, "a skewed store");
    assert_eq!(at("B[v + w] = A[v, w]"), Some("overlapping_writes"));
    assert_eq!(at("B[v * 7 + w] = A[v, w]"), Some("overlapping_writes"));
    let two = |first: &str, second: &str| {
        let lines = ["v = T.axis.spatial(32, i)", first, second];
        refusal(&one(AB, "i in range(32)", &lines)).map(|r| r.0)
    };
    assert_eq!(two("B[v * 2] = A[v]", "B[v * 2 + 1] = A[v]"), None);
    assert_eq!(two("B[v] = A[v]", "B[v + 1] = A[v]"), Some("overlapping_writes"));
}

/// What a guard leaves out nothing has stored: rules stage, vectorize and copy whole blocks.
#[test]
fn a_guarded_block_is_a_scheduled_one() {
    let lines = ["v = T.axis.spatial(64, i)", "T.where(i < 32)", "B[v] = A[v]"];
    assert_eq!(refusal(&one(AB, "i in range(64)", &lines)).map(|r| r.0), Some("already_scheduled"));
}

#[test]
fn large_domains_and_guards() {
    let params = "A: T.Buffer((1048576,), \"float32\"), B: T.Buffer((1048576,), \"float32\")";
    let at = |store: &str| {
        refusal(&one(params, "i in range(1048576)", &["v = T.axis.spatial(1048576, i)", store])).map(|r| r.0)
    };
    assert_eq!(at("B[v // 1024 + v % 1024 * 1024] = A[v]"), None);
    assert_eq!(at("B[v % 524288] = A[v]"), Some("overlapping_writes"));
    assert_eq!(at("B[v] = A[v + 1]"), Some("out_of_bounds"));
    assert_eq!(at("B[v] = T.if_then_else(v < 1048575, A[v + 1], T.float32(0))"), None);
}

#[test]
fn what_lies_outside_is_named() {
    let at = |loops: &str, domain: i64, store: &str| {
        refusal(&one(AB, &format!("i in range({loops})"), &[&format!("v = T.axis.spatial({domain}, i)"), store]))
    };
    for (store, place) in [
        ("B[v] = A[v + 1]", "reads `A[v + 1]`: at v = 63 that is `A[64]`, outside of the shape (64,)"),
        ("B[v] = A[v - 1]", "`A[-1]`"),
        ("B[v * 2] = A[v]", "stores to `B[v*2]`: at v = 32 that is `B[64]`"),
        ("B[v] = T.if_then_else(v < 63, A[v + 2], T.float32(0))", "at v = 62 that is `A[64]`"),
        ("B[v] = T.if_then_else(v > 0 or A[v - 1] > 0.0, T.float32(1), T.float32(0))", "at v = 0"),
    ] {
        let (predicate, text) = at("64", 64, store).unwrap_or_else(|| panic!("{store} is taken"));
        assert!(predicate == "out_of_bounds" && text.contains(place), "{store}: {predicate}: {text}");
    }
    let fine = [
        "B[v] = T.if_then_else(v < 63, A[v + 1], T.float32(0))",
        "B[v] = T.if_then_else(1 <= v and v < 60, A[v - 1] + A[v + 3], T.float32(0))",
        "B[v] = T.if_then_else(v == 0, T.float32(0), A[v - 1])",
        "B[v] = A[T.min(v + 1, 63)]",
        "B[v] = A[(v + 5) % 64]",
    ];
    for store in fine {
        assert_eq!(at("64", 64, store), None, "{store}");
    }
    assert_eq!(at("128", 64, "B[v] = A[v]").map(|r| r.0), Some("loop_outside_domain"));
    assert_eq!(at("32", 64, "B[v] = A[v]").map(|r| r.0), Some("loop_outside_domain"));
    let from = |loops: &str, domain: &str| {
        refusal(&one(AB, &format!("i in {loops}"), &[&format!("v = T.axis.spatial({domain}, i)"), "B[v] = A[v]"]))
    };
    let (predicate, text) = from("range(63)", "(1, 64)").expect("refused");
    assert!(predicate == "loop_outside_domain" && text.contains("from 0") && text.contains("from 1"), "{text}");
    assert_eq!(from("range(64)", "(0, 64)"), None);
    assert_eq!(from("range(64)", "(-1, 63)").map(|r| r.0), Some("loop_outside_domain"));
}

/// Axes of one iteration beside those that matter, as models have them.
#[test]
fn axes_of_one_iteration_hide_no_overlap() {
    let params = "A: T.Buffer((8, 1, 6), \"float32\"), B: T.Buffer((8, 1, 6), \"float32\")";
    let at = |store: &str| {
        let axes = "v, u, w = T.axis.remap(\"SSS\", [i, j, k])";
        refusal(&one(params, "i, j, k in T.grid(8, 1, 6)", &[axes, store])).map(|r| r.0)
    };
    assert_eq!(at("B[v, u, w] = A[v, u, w]"), None);
    assert_eq!(at("B[7 - v, u, (w + 1) % 6] = A[v, u, w]"), None);
    for store in ["B[v // 2, u, w]", "B[v, u, T.max(w - 1, 0)]", "B[T.min(v, 2), 0, w]", "B[0, u, w]"] {
        assert_eq!(at(&format!("{store} = A[v, u, w]")), Some("overlapping_writes"), "{store}");
    }
}

/// What of an index cannot be told from the iterators alone proves nothing.
#[test]
fn an_index_that_is_not_known_is_not_taken_for_another_element() {
    let params = format!("{AB}, s: T.int32");
    let at = |store: &str| refusal(&one(&params, "i in range(64)", &["v = T.axis.spatial(64, i)", store])).map(|r| r.0);
    assert_eq!(at("B[T.max(v, s) % 64] = A[v]"), Some("overlapping_writes"));
}

/// Two blocks over an intermediate `X` of 64 elements, with the loops and lines of each.
fn chained(first: (i64, &str), second: (i64, &str)) -> Option<(&'static str, String)> {
    let mut text =
        format!("@T.prim_func(private=True, s_tir=True)\ndef main({AB}):\n    X = T.sblock_alloc_buffer((64,))\n");
    for (k, (n, line)) in [first, second].into_iter().enumerate() {
        text += &format!(
            "    for i in range({n}):\n        with T.sblock(\"b{k}\"):\n            v = T.axis.spatial({n}, i)\n            {line}\n"
        );
    }
    refusal(&func(&text))
}

#[test]
fn what_nothing_stored_is_not_read() {
    let read_before = |r: Option<(&'static str, String)>, says: &str| {
        let (predicate, text) = r.unwrap_or_else(|| panic!("taken: {says}"));
        assert!(predicate == "read_before_write" && text.contains(says), "{predicate}: {text}");
    };
    assert_eq!(chained((64, "X[v] = A[v]"), (64, "B[v] = X[63 - v]")), None);
    read_before(chained((64, "B[v] = X[v]"), (64, "X[v] = A[v]")), "no block before it");
    read_before(chained((32, "X[v] = A[v]"), (64, "B[v] = X[v]")), "`X[32]` at v = 32");
    read_before(chained((32, "X[v * 2] = A[v]"), (64, "B[v] = X[v]")), "`X[1]` at v = 1");
    assert_eq!(chained((32, "X[v * 2] = A[v]"), (32, "B[v] = X[v * 2]")), None);
    read_before(chained((64, "X[v] = X[v] + A[v]"), (64, "B[v] = X[v]")), "no block before it");
}

/// `T.init()` runs where all reductions are at their first values.
#[test]
fn an_init_is_not_indexed_by_a_reduction() {
    let params = "A: T.Buffer((8, 8), \"float32\"), B: T.Buffer((8,), \"float32\"), C: T.Buffer((1,), \"float32\")";
    let sum = |kinds: &str, extent: i64, out: &str| {
        let axes = format!("v, w = T.axis.remap(\"{kinds}\", [i, k])");
        let (init, add) = (format!("    {out} = T.float32(0)"), format!("{out} = {out} + A[v, w]"));
        let lines = [axes.as_str(), "with T.init():", &init, &add];
        refusal(&one(params, &format!("i, k in T.grid({extent}, 8)"), &lines))
    };
    assert_eq!(sum("SR", 8, "B[v]"), None);
    assert_eq!(sum("RR", 8, "C[0]"), None);
    assert_eq!(sum("RR", 1, "B[v]"), None, "a reduction of one value");
    let (predicate, text) = sum("RR", 8, "B[v]").expect("refused");
    assert!(predicate == "read_before_write" && text.contains("`v` in T.init()"), "{predicate}: {text}");
}

/// Of sizes that are known at run time, what is wrong whatever they are.
#[test]
fn symbolic_sizes() {
    let at = |store: &str| {
        refusal(&func(&format!(
            "@T.prim_func(private=True, s_tir=True)\ndef main(a: T.handle, b: T.handle, m: T.int32):\n    n = T.int32()\n    \
             A = T.match_buffer(a, (n,))\n    B = T.match_buffer(b, (n,))\n    for i in range(n):\n        \
             with T.sblock(\"b\"):\n            v = T.axis.spatial(n, i)\n            {store}\n"
        )))
        .map(|r| r.0)
    };
    assert_eq!(at("B[v] = A[v]"), None);
    assert_eq!(at("B[v] = A[n - 1 - v]"), None);
    assert_eq!(at("B[v] = A[v + 1]"), Some("out_of_bounds"));
    assert_eq!(at("B[v // 2] = A[v]"), Some("overlapping_writes"));
    assert_eq!(at("B[v % 64] = A[v]"), Some("overlapping_writes"));
    assert_eq!(at("B[v] = A[v // 4 * 4 + 3]"), None, "of a size that is a multiple of four");
}

/// The first n rows of a table, as models take positions, are there for every n up to the table's.
#[test]
fn rows_of_a_table_that_is_smaller_than_the_sizes_tried_first() {
    let first = |rows: i64, at: &str| {
        refusal(&func(&format!(
            "n = TypeVar(\"n\")\n@T.prim_func(private=True, s_tir=True)\ndef main(A: T.Buffer(({rows}, 16), \"float32\"), \
             B: T.Buffer((n, 16), \"float32\")):\n    for i, j in T.grid(n, 16):\n        with T.sblock(\"b\"):\n            \
             v, w = T.axis.remap(\"SS\", [i, j])\n            B[v, w] = A[{at}, w]\n"
        )))
        .map(|r| r.0)
    };
    assert_eq!(first(64, "v"), None);
    assert_eq!(first(77, "n - 1 - v"), None);
    assert_eq!(first(10, "v"), None);
    assert_eq!(first(64, "v + 64"), Some("out_of_bounds"), "the row 64 is outside whatever n is");
    assert_eq!(first(64, "v - 1"), Some("out_of_bounds"));
}

/// A random index over `v` and `w`, as text and as a function of them.
struct Index(String, Box<dyn Fn(i64, i64) -> i64>);

fn index(rng: &mut SplitMix, depth: usize) -> Index {
    let constant = |rng: &mut SplitMix, most: usize| rng.below(most) as i64 + 1;
    if depth == 0 || rng.below(4) == 0 {
        return match rng.below(5) {
            0 | 1 => Index("v".into(), Box::new(|v, _| v)),
            2 | 3 => Index("w".into(), Box::new(|_, w| w)),
            _ => {
                let c = constant(rng, 5);
                Index(c.to_string(), Box::new(move |_, _| c))
            }
        };
    }
    let Index(a, f) = index(rng, depth - 1);
    let c = constant(rng, 9);
    match rng.below(8) {
        0 => Index(format!("({a} // {c})"), Box::new(move |v, w| f(v, w).div_euclid(c))),
        1 => Index(format!("({a} % {c})"), Box::new(move |v, w| f(v, w).rem_euclid(c))),
        2 => Index(format!("({a} * {c})"), Box::new(move |v, w| f(v, w) * c)),
        3 => Index(format!("T.min({a}, {c})"), Box::new(move |v, w| f(v, w).min(c))),
        4 => Index(format!("T.max({a}, {c})"), Box::new(move |v, w| f(v, w).max(c))),
        5 => {
            let Index(b, g) = index(rng, depth - 1);
            Index(format!("({a} - {b})"), Box::new(move |v, w| f(v, w) - g(v, w)))
        }
        _ => {
            let Index(b, g) = index(rng, depth - 1);
            Index(format!("({a} + {b})"), Box::new(move |v, w| f(v, w) + g(v, w)))
        }
    }
}

/// 2,000 random blocks: refused exactly where running every iteration finds an element outside or stored to
/// twice. Seed 1.
#[test]
fn random_blocks_are_judged_as_running_them_would() {
    let mut rng = SplitMix(1);
    let (mut taken, mut refused) = (0, 0);
    for case in 0..2000 {
        let (n, m) = (rng.below(7) as i64 + 2, rng.below(7) as i64 + 2);
        // Half of the stores are a plain row of digits, so that not everything is refused.
        let stored = match rng.below(4) {
            0 => Index(format!("(v * {m} + w)"), Box::new(move |v, w| v * m + w)),
            1 => Index(format!("(w * {n} + v)"), Box::new(move |v, w| w * n + v)),
            _ => index(&mut rng, 3),
        };
        let (read, guard) = (index(&mut rng, 2), index(&mut rng, 2));
        let limit = rng.below(9) as i64;
        let params = "A: T.Buffer((16,), \"float32\"), B: T.Buffer((64,), \"float32\")";
        let store = format!("B[{}] = T.if_then_else({} < {limit}, A[{}], T.float32(0))", stored.0, guard.0, read.0);
        let lines = [&format!("v = T.axis.spatial({n}, i)"), &format!("w = T.axis.spatial({m}, j)"), &store];
        let f = one(params, &format!("i, j in T.grid({n}, {m})"), &lines.map(String::as_str));
        let mut seen = std::collections::BTreeSet::new();
        let points = (0..n).flat_map(|v| (0..m).map(move |w| (v, w)));
        let mut bad = false;
        for (v, w) in points {
            let at = stored.1(v, w);
            bad |= !(0..64).contains(&at) || !seen.insert(at);
            bad |= guard.1(v, w) < limit && !(0..16).contains(&read.1(v, w));
        }
        let judged = refusal(&f);
        assert_eq!(judged.is_some(), bad, "case {case}, v < {n}, w < {m}: {store}: {judged:?}");
        if bad { refused += 1 } else { taken += 1 }
    }
    assert!(taken > 200 && refused > 200, "{taken} taken, {refused} refused");
}
