//! The notation of layouts: what it means, that it reads back, and what it says when it is wrong.

use daylight::ir;
use daylight::ir::layout::{Axis, Iter, Point, Swizzle, TileLayout};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn read(text: &str) -> TileLayout {
    TileLayout::parse(text).unwrap_or_else(|why| panic!("{why}"))
}

fn refusal(text: &str) -> String {
    match TileLayout::parse(text) {
        Ok(l) => panic!("{text} reads as {l}"),
        Err(why) => why,
    }
}

#[test]
fn every_form_reads_and_prints_one_way() {
    for (text, printed) in [
        ("S[(32, 8) : (1 @ laneid, 1)]", "S[(32, 8) : (1 @ laneid, 1)]"),
        ("S[(32,8):(1@laneid,1@m)]", "S[(32, 8) : (1 @ laneid, 1)]"),
        ("TileLayout(S[(4, 8)])", "S[(4, 8)]"),
        ("T.TileLayout(T.S[(4, 8) : (8, 1)])", "S[(4, 8)]"),
        ("S[(4, 8) : (1, 4)]", "S[(4, 8) : (1, 4)]"),
        ("S[8, 4, 2]", "S[(8, 4, 2)]"),
        ("S[32 : 1 @ laneid]", "S[32 : 1 @ laneid]"),
        ("S[32 : 1 @ Axis.laneid]", "S[32 : 1 @ laneid]"),
        ("S[(32,) : (1 @ tx,)]", "S[32 : 1 @ tx]"),
        ("S[(32,)]", "S[(32,)]"),
        ("S[32]", "S[(32,)]"),
        ("S[32 : 1]", "S[(32,)]"),
        ("S[()]", "S[()]"),
        ("S[() : ()]", "S[()]"),
        ("S[(1,)]", "S[(1,)]"),
        ("S[8 : 4 @ laneid] + R[4 : 1 @ laneid]", "S[8 : 4 @ laneid] + R[4 : 1 @ laneid]"),
        ("S[4 : -2] + 6", "S[4 : -2] + 6"),
        ("S[4 : 0]", "S[4 : 0]"),
        ("S[(2, 2)] + 5 + -1 @ laneid + 1 @ m", "S[(2, 2)] + 6 + -1 @ laneid"),
        ("S[(2, 2)] + 0", "S[(2, 2)]"),
        ("S[(16 * 4, 8) : (2 * 8, 1)]", "S[(64, 8) : (16, 1)]"),
        (
            "S[1 : 1] + R[(8, 4) : (4 @ laneid, 1 @ laneid)] + 2 @ warpid",
            "S[(1,)] + R[(8, 4) : (4 @ laneid, 1 @ laneid)] + 2 @ warpid",
        ),
        ("64 + R[2 : 3] + S[8 : 4 @ laneid] + 1 @ laneid", "S[8 : 4 @ laneid] + R[2 : 3] + 64 + 1 @ laneid"),
        ("S[8 : \"laneid\"] + R[4 : 'tx']", "S[8 : 1 @ laneid] + R[4 : 1 @ tx]"),
        ("S[(8, 2) : ((4, \"laneid\"), 1)]", "S[(8, 2) : (4 @ laneid, 1)]"),
        ("S[4] + R[(2, 2)]", "S[(4,)] + R[(2, 2)]"),
        ("SwizzleLayout(3, 3, 3)", "ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[(512,)]))"),
        (
            "ComposeLayout(SwizzleLayout(3, 2, 3), TileLayout(S[(8, 32)]))",
            "ComposeLayout(SwizzleLayout(3, 2, 3), TileLayout(S[(8, 32)]))",
        ),
        (
            "T.ComposeLayout(3, 3, 3, T.TileLayout(T.S[(8, 64)]))",
            "ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[(8, 64)]))",
        ),
        (
            "ComposeLayout(3, 3, 3, S[(8, 64)], swizzle_inner=False)",
            "ComposeLayout(SwizzleLayout(3, 3, 3, swizzle_inner=False), TileLayout(S[(8, 64)]))",
        ),
        ("ComposeLayout(3, 3, 3, S[(8, 64)], True)", "ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[(8, 64)]))"),
    ] {
        let layout = read(text);
        assert_eq!(layout.to_string(), printed);
        assert_eq!(read(printed), layout);
        assert_eq!(read(&layout.call_text()), layout);
    }
}

#[test]
fn refusals_say_what_was_expected_where() {
    for (text, why) in [
        ("", "expected a layout such as S[(4, 8)], found the end at column 1"),
        ("S[(32, 8", "expected \",\" or \")\", found the end at column 9"),
        (
            "S[(32, 8) : (1 @ lane, 1)]",
            "there is no axis lane (there are m, TLane, TCol, laneid, warpid, wid_in_wg, wgid, tid_in_wg, tx, bx, by, bz, cbx, cby, cbz) at column 18",
        ),
        ("S[(32, 8) : (1, 1, 1)]", "expected as many strides as extents (2), found 3 at column 22"),
        ("S[(4, 0)]", "shape [4, 0] has an extent under 1 or more elements than can be counted at column 3"),
        ("S[4 : 1] S", "expected the end, found \"S\" at column 10"),
        ("S[4] + S[4]", "found a second S[...], where one is allowed at column 7"),
        ("S[4] + Q[4]", "expected S[...], R[...] or an offset, found Q at column 8"),
        ("R[4 : 1]", "expected \"+\" and S[...], found the end at column 9"),
        ("5)", "expected \"+\" and S[...], found \")\" at column 2"),
        (
            "S[8 : \"lane\"]",
            "there is no axis lane (there are m, TLane, TCol, laneid, warpid, wid_in_wg, wgid, tid_in_wg, tx, bx, by, bz, cbx, cby, cbz) at column 8",
        ),
        ("S[8 : 'tx]", "expected \"'\", found \"]\" at column 10"),
        ("S[99999999999999999999]", "the number is too large at column 3"),
        ("S[4 : 9223372036854775807 * 2]", "the product is too large at column 7"),
        (
            "S[4 : 9223372036854775807]",
            "positions on axis m reach beyond 2^60; use smaller strides or offsets at column 1",
        ),
        (
            "SwizzleLayout(3, 3, 2)",
            "a swizzle's atom_len is at least its swizzle_len, but atom_len is 2 and swizzle_len 3 at column 15",
        ),
        ("SwizzleLayout(3, -3, 2)", "-3 is no number of bits at column 17"),
        ("ComposeLayout(S[4], S[4])", "expected SwizzleLayout, found S at column 15"),
        ("ComposeLayout(SwizzleLayout(3, 3, 3, maybe), S[4])", "expected True or False, found maybe at column 38"),
        ("S[\u{e9}]", "expected a number, found \"\u{e9}\" at column 3"),
    ] {
        assert_eq!(refusal(text), format!("layout \"{text}\": {why}"));
    }
    assert!(refusal(&format!("S[{}1]", "1, ".repeat(32))).contains("at most 32 iters"));
    assert!(refusal(&"(".repeat(5000)).contains("at most 4096 bytes"));
    assert!(refusal("S[2] + R[65537 : 1]").contains("the product of the replica extents is over 65536"));
}

#[test]
fn positions_are_those_of_the_documented_tensor_core_tile() {
    let l = read("S[(8, 2, 4, 2) : (4 @ laneid, 1 @ warpid, 1 @ laneid, 1)] + R[2 : 4 @ warpid] + 5 @ warpid");
    let at = |lane, warp, m| Point::default().with(Axis::LaneId, lane).with(Axis::WarpId, warp).with(Axis::M, m);
    for i in 0..8 {
        for j in 0..16 {
            let first = at(4 * i + j / 2 % 4, j / 8 + 5, j % 2);
            assert_eq!(l.apply_at(&[8, 16], &[i, j]), Ok(first));
            assert_eq!(l.positions(16 * i + j), vec![first, first.with(Axis::WarpId, j / 8 + 9)]);
        }
    }
    assert_eq!(
        (l.size(), l.replicas(), l.span(Axis::WarpId), l.span(Axis::LaneId), l.span(Axis::M)),
        (128, 2, 6, 32, 2)
    );
    assert!(l.apply_at(&[8, 8], &[0, 0]).is_err());
    assert!(l.apply_at(&[8, 16], &[0]).is_err());
}

#[test]
fn a_bare_swizzle_stretches_over_a_shape() {
    let bare = read("SwizzleLayout(3, 3, 3)");
    assert_eq!(
        bare.fit(&[16, 64]).map(|l| l.to_string()),
        Ok("ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[(16, 64)]))".into())
    );
    assert_eq!(read("S[(4, 8)]").fit(&[8, 4]), Ok(read("S[(4, 8)]")));
    assert!(read("S[(4, 8)]").fit(&[8, 8]).is_err());
    assert!(bare.compose(Swizzle::new(0, 1, 1, true).expect("legal")).is_err());
}

fn axis() -> impl Strategy<Value = Axis> {
    (0..Axis::COUNT).prop_map(|i| Axis::ALL[i].0)
}

fn iter() -> impl Strategy<Value = Iter> {
    (1..7i64, -40..40i64, axis()).prop_map(|(e, s, a)| Iter::new(e, s, a))
}

fn layout() -> impl Strategy<Value = TileLayout> {
    let iters = |n| prop::collection::vec(iter(), 0..n);
    let offset = prop::collection::btree_map(axis(), -50..50i64, 0..3);
    let swizzle = prop::option::of((0..4u32, 0..3u32, 0..3u32, any::<bool>()));
    (iters(5), iters(3), offset, swizzle).prop_map(|(shard, replica, offset, swizzle)| {
        let swizzle = swizzle.map(|(m, b, s, inner)| Swizzle::new(m, b, b + s, inner).expect("legal"));
        TileLayout::new(shard, replica, offset, swizzle).expect("small")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn what_is_printed_reads_back(l in layout()) {
        prop_assert_eq!(read(&l.to_string()), l.clone());
        prop_assert_eq!(read(&l.call_text()), l);
    }

    #[test]
    fn hostile_text_is_refused_or_read_but_never_panics(text in "[-SRTC()\\[\\]:,@+*. 0-9a-z=\"']{0,60}") {
        if let Ok(l) = TileLayout::parse(&text) {
            prop_assert_eq!(read(&l.to_string()), l);
        }
    }

    #[test]
    fn damaged_notation_never_panics(l in layout(), at in 0..80usize, with in ".") {
        let mut text: Vec<char> = l.to_string().chars().collect();
        let at = at.min(text.len());
        text.splice(at..text.len().min(at + 1), with.chars());
        let _ = TileLayout::parse(&text.into_iter().collect::<String>());
    }

    #[test]
    fn extreme_numbers_never_panic(e in any::<i64>(), s in any::<i64>(), o in any::<i64>(), e2 in any::<i64>()) {
        let iters = vec![Iter::new(e, s, Axis::M), Iter::new(e2, s, Axis::Tx)];
        if let Ok(l) = TileLayout::new(iters.clone(), vec![], BTreeMap::from([(Axis::M, o)]), None) {
            prop_assert!(l.span(Axis::M) >= 1 && l.size() >= 1);
            l.apply(l.size() - 1);
            l.apply(i64::MAX);
            l.apply(i64::MIN);
        }
        let _ = TileLayout::new(vec![], iters, BTreeMap::new(), None);
    }
}

const SUM: &str = "@T.prim_func\ndef f(A: T.Buffer((4, 8), \"float32\"), B: T.Buffer((4,), \"float32\")):\n    for i, k in T.grid(4, 8):\n        with T.sblock(\"sum\"):\n            vi, vk = T.axis.remap(\"SR\", [i, k])\n            with T.init():\n                B[vi] = T.float32(0.0)\n            B[vi] = B[vi] + A[vi, vk]\n";

#[test]
fn a_layout_is_part_of_a_function_and_has_to_fit_its_buffer() {
    let plain = ir::read(SUM, "sum.py").expect("a function").remove(0);
    assert!(!plain.to_string().contains("layout="));
    let with = |text: &str| {
        let mut f = plain.clone();
        f.buffers[0].layout = Some(read(text));
        f
    };
    let columns = with("S[(4, 8) : (1, 4)]");
    assert_eq!(ir::verify(&columns), Ok(()));
    assert!(columns.to_string().contains("layout=TileLayout(S[(4, 8) : (1, 4)])"), "{columns}");
    assert_ne!(ir::workload_key(&columns), ir::workload_key(&plain));
    assert_eq!(ir::verify(&with("SwizzleLayout(3, 3, 3)")), Ok(()));
    let wrong = ir::verify(&with("S[(4, 4)]")).expect_err("too few elements");
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].message.starts_with("layout S[(4, 4)] is for 16 elements, which is not the size of shape [4, 8]"));
}
