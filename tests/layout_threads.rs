//! Relations between thread axes against brute force, and expressions of a layout against its values.

use crate::layouts::{coord, number, shaped, size};
use daylight::ir::layout::{Axis, Iter, Point, TileLayout};
use daylight::ir::{BinOp, DType, Expr, ExprKind};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The thread of the block at a place.
fn tx(p: &Point) -> i64 {
    let warp = p.get(Axis::WarpId) + p.get(Axis::WidInWg) + 4 * p.get(Axis::WgId);
    p.get(Axis::Tx) + p.get(Axis::TidInWg) + p.get(Axis::LaneId) + 32 * warp
}

fn thread_iter() -> impl Strategy<Value = Iter> {
    let axes = [Axis::LaneId, Axis::WarpId, Axis::WidInWg, Axis::WgId, Axis::TidInWg, Axis::Tx, Axis::M];
    let stride = prop_oneof![Just(1i64), Just(2), Just(4), Just(8), Just(16), Just(32), Just(64), -33..65i64];
    let extent = prop_oneof![Just(1i64), Just(2), Just(4), Just(8), Just(32), 3..7i64];
    (extent, stride, 0..axes.len()).prop_map(move |(e, s, a)| Iter::new(e, s, axes[a]))
}

/// Iters that count threads one after another, shuffled, some replicated, some backwards.
fn counting() -> impl Strategy<Value = TileLayout> {
    let factor = (prop_oneof![Just(2i64), Just(4), Just(8), 1..4i64], any::<u8>(), any::<u8>(), any::<u8>());
    prop::collection::vec(factor, 0..5).prop_map(|factors| {
        let (mut at, mut shard, mut replica, mut offset) = (1i64, vec![], vec![], BTreeMap::new());
        for (e, key, replicated, kind) in factors {
            let (mut stride, mut axis) = (at, Axis::Tx);
            if kind % 4 == 1 && at * e <= 32 {
                axis = Axis::LaneId;
            } else if kind % 4 == 1 && at % 32 == 0 {
                (stride, axis) = (at / 32, Axis::WarpId);
            } else if kind % 4 == 2 && at * e <= 128 {
                axis = Axis::TidInWg;
            }
            if kind >= 224 {
                *offset.entry(axis).or_insert(0) += (e - 1) * stride;
                stride = -stride;
            }
            at *= e;
            let list = if replicated < 64 { &mut replica } else { &mut shard };
            list.push((key, Iter::new(e, stride, axis)));
        }
        shard.sort();
        let strip = |v: Vec<(u8, Iter)>| v.into_iter().map(|e| e.1).collect();
        TileLayout::new(strip(shard), strip(replica), offset, None).expect("small")
    })
}

fn thread_layout() -> impl Strategy<Value = TileLayout> {
    let iters = |n| prop::collection::vec(thread_iter(), 0..n);
    let offset = prop_oneof![Just(BTreeMap::new()), (0..70i64).prop_map(|v| BTreeMap::from([(Axis::Tx, v)]))];
    let free = (iters(4), iters(2), offset).prop_map(|(s, r, o)| TileLayout::new(s, r, o, None).expect("small"));
    prop_oneof![free, counting()]
}

fn eval(e: &Expr, values: &dyn Fn(&str) -> i64) -> i64 {
    let go = |e: &Expr| eval(e, values);
    match e.kind() {
        ExprKind::Int { value, dtype } => {
            assert_eq!(*dtype, DType::I64);
            *value
        }
        ExprKind::Var { name, .. } => values(name.as_str()),
        ExprKind::Cast { dtype: DType::I64, arg } => go(arg),
        ExprKind::Binary { op, a, b } => {
            assert_eq!((a.dtype(), b.dtype()), (DType::I64, DType::I64));
            let (a, b) = (go(a), go(b));
            match op {
                BinOp::Add => a + b,
                BinOp::Sub => a - b,
                BinOp::Mul => a * b,
                BinOp::FloorDiv => a.div_euclid(b),
                BinOp::FloorMod => a.rem_euclid(b),
                BinOp::BitXor => a ^ b,
                BinOp::BitAnd => a & b,
                BinOp::Shl => a << b,
                BinOp::Shr => a >> b,
                other => panic!("{other:?} in an index"),
            }
        }
        other => panic!("{other:?} in an index"),
    }
}

/// Index variables of a shape; some 64-bit, some 32-bit, and some constants.
fn indices(shape: &[i64], at: &[i64], kinds: u32) -> Vec<Expr> {
    (0..shape.len())
        .map(|d| match kinds >> (2 * d) & 3 {
            0 => Expr::i32(at[d]),
            1 => Expr::var(format!("v{d}"), DType::I64),
            _ => Expr::var(format!("v{d}"), DType::I32),
        })
        .collect()
}

fn check_expressions(l: &TileLayout, shape: &[i64], kinds: u32) -> Result<(), TestCaseError> {
    for x in 0..l.size() {
        let at = coord(shape, x);
        let indices = indices(shape, &at, kinds);
        let value = |name: &str| at[name[1..].parse::<usize>().expect("a dimension")];
        let offset = l.memory_offset(shape, &indices).map_err(TestCaseError::fail)?;
        prop_assert_eq!(offset.dtype(), DType::I64);
        prop_assert_eq!(eval(&offset, &value), l.apply(x).get(Axis::M), "{:?}", offset);
        for (axis, _) in Axis::ALL {
            let e = l.axis_value(axis, shape, &indices).map_err(TestCaseError::fail)?;
            prop_assert_eq!(eval(&e, &value), l.unswizzled().apply(x).get(axis));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn expressions_are_the_positions(s in shaped(3), kinds in any::<u32>()) {
        check_expressions(&s.layout, &s.shape, kinds)?;
    }

    #[test]
    fn expressions_over_shapes_that_cut_iters_are_the_positions(s in shaped(2), kinds in any::<u32>(), cut in 1..40i64) {
        let n = s.layout.size();
        let rows = (1..=cut).rev().find(|r| n % r == 0).expect("1 divides");
        check_expressions(&s.layout, &[rows, n / rows], kinds)?;
    }

    #[test]
    fn bundles_lead_back_to_the_elements_that_threads_hold(s in shaped(3), kinds in any::<u32>()) {
        let l = s.layout.unswizzled();
        let local = l.local();
        let Ok(bundle) = l.local_shape(&s.shape) else { return Ok(()) };
        prop_assert_eq!(size(&bundle), local.size());
        let threads: BTreeSet<Point> =
            (0..l.size()).flat_map(|x| l.positions(x)).map(|p| p.with(Axis::M, 0).with(Axis::TCol, 0)).collect();
        let mut found = BTreeSet::new();
        for thread in &threads {
            for y in 0..size(&bundle) {
                let at = coord(&bundle, y);
                let value = |name: &str| at[name[1..].parse::<usize>().expect("a dimension")];
                let lane = |a: Axis| Expr::i64(thread.get(a));
                let Ok(c) = l.coordinates(&s.shape, &lane, &indices(&bundle, &at, kinds)) else { return Ok(()) };
                let c: Vec<i64> = c.iter().map(|e| eval(e, &value)).collect();
                prop_assert!(c.iter().zip(&s.shape).all(|(c, e)| (0..*e).contains(c)));
                let x = number(&s.shape, &c);
                let here: BTreeSet<Point> = l.positions(x).into_iter().filter(|p| p.with(Axis::M, 0).with(Axis::TCol, 0) == *thread).collect();
                let stored: BTreeSet<Point> = local.positions(y).into_iter().map(|p| thread.with(Axis::M, p.get(Axis::M)).with(Axis::TCol, p.get(Axis::TCol))).collect();
                prop_assert_eq!(here, stored);
                found.insert(x);
            }
        }
        prop_assert_eq!(found.len() as i64, l.size());
    }

    #[test]
    fn owners_are_equal_when_every_element_has_the_same_threads(a in shaped(2), b in shaped(2), restride in any::<u16>()) {
        let threads = |l: &TileLayout, x: i64| -> BTreeSet<Point> {
            l.positions(x).into_iter().map(|p| p.with(Axis::M, 0).with(Axis::TCol, 0)).collect()
        };
        // the same threads with other registers
        let other: Vec<Iter> = a.layout.shard().iter().enumerate()
            .map(|(k, it)| if it.axis.is_thread() { *it } else { Iter::new(it.extent, i64::from(restride >> k & 3), Axis::M) }).collect();
        let other = TileLayout::new(other, a.layout.replica().to_vec(), a.layout.offset().clone(), None);
        prop_assert_eq!(other.map_err(TestCaseError::fail)?.owners().canonical(), a.layout.owners().canonical());
        let equal = a.layout.size() == b.layout.size() && (0..a.layout.size()).all(|x| threads(&a.layout, x) == threads(&b.layout, x));
        let claimed = a.layout.owners().canonical() == b.layout.owners().canonical();
        let plain = a.layout.replica().is_empty() && b.layout.replica().is_empty();
        prop_assert!((!plain || claimed == equal) && (!claimed || equal));
    }

    #[test]
    fn a_layout_covers_a_scope_when_every_thread_is_counted_once(l in thread_layout(), near in 0..200i64) {
        let part = l.thread_part();
        let within = |p: &Point| [(Axis::LaneId, 32), (Axis::WidInWg, 4), (Axis::TidInWg, 128)]
            .iter().all(|(a, n)| (0..*n).contains(&p.get(*a)));
        let places: Vec<Point> = (0..part.size()).flat_map(|x| part.positions(x)).collect();
        let mut threads: Vec<i64> = places.iter().map(tx).collect();
        threads.sort_unstable();
        for n in [near, places.len() as i64, 32, 128] {
            let covered = places.iter().all(within) && threads.iter().copied().eq(0..n);
            prop_assert_eq!(l.covers_scope(n).is_ok(), covered, "{} {} {:?}", l, n, l.covers_scope(n));
        }
    }

    #[test]
    fn threads_are_the_same_in_other_words(l in thread_layout()) {
        let by_thread = l.by_thread().map_err(TestCaseError::fail)?;
        for x in 0..l.size() {
            for (a, b) in l.positions(x).iter().zip(by_thread.positions(x)) {
                prop_assert_eq!((tx(a), a.get(Axis::M)), (b.get(Axis::Tx), b.get(Axis::M)));
                prop_assert_eq!(tx(&b), b.get(Axis::Tx));
            }
        }
        for (split, gone, inner) in [
            (l.by_warp(), [Axis::Tx, Axis::TidInWg], [Axis::LaneId, Axis::LaneId]),
            (l.by_warpgroup(), [Axis::Tx, Axis::WarpId], [Axis::TidInWg, Axis::WidInWg]),
        ] {
            let Ok(split) = split else { continue };
            for (gone, inner) in gone.into_iter().zip(inner) {
                prop_assert!(!split.mentions(gone));
                let (low, high) = split.range(inner);
                prop_assert!(!l.mentions(gone) || (low >= 0 && Some(high) < inner.limit()));
            }
            for x in 0..l.size() {
                let places = |l: &TileLayout| {
                    let mut all: Vec<_> = l.positions(x).iter().map(|p| (tx(p), p.get(Axis::M))).collect();
                    all.sort_unstable();
                    all
                };
                prop_assert_eq!(places(&l), places(&split));
            }
        }
    }
}

fn read(text: &str) -> TileLayout {
    TileLayout::parse(text).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn anchors_of_scopes() {
    for (text, threads) in [
        ("S[(32, 8) : (1 @ laneid, 1)]", 32),
        ("S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]", 32),
        ("S[8 : 4 @ laneid] + R[4 : 1 @ laneid]", 32),
        ("S[(2, 2, 8, 4) : (2 @ warpid, 1 @ warpid, 4 @ laneid, 1 @ laneid)]", 128),
        ("S[(128, 64) : (1 @ tid_in_wg, 1)]", 128),
        ("S[(4, 32, 8) : (1 @ wid_in_wg, 1 @ laneid, 1)]", 128),
        ("S[(2, 128) : (1 @ wgid, 1 @ tid_in_wg)]", 256),
        ("S[(100, 3) : (1 @ tx, 1)]", 100),
        ("S[4 : 1] + R[32 : 1 @ laneid]", 32),
        ("S[(4,)]", 1),
    ] {
        assert_eq!(read(text).covers_scope(threads), Ok(()), "{text}");
    }
    for (text, threads, why) in [
        ("S[(16, 8) : (1 @ laneid, 1)]", 32, "counts 16 threads, where the scope has 32"),
        ("S[(16, 8) : (2 @ laneid, 1)]", 32, "leaves threads out or counts them twice"),
        ("S[(32, 2) : (1 @ laneid, 0 @ laneid)]", 32, "leaves threads out or counts them twice"),
        ("S[128 : 1 @ laneid]", 128, "gives laneid values from 0 to 127, beyond 0..32"),
        ("S[16 : 1 @ laneid] + 16 @ laneid", 16, "starts at thread 16, not at thread 0 of the scope"),
        ("S[(2, 32) : (1 @ bx, 1 @ laneid)]", 32, "counts blocks (bx), not the 32 threads of a scope"),
        ("S[(4, 8)]", 32, "counts 1 threads, where the scope has 32"),
    ] {
        assert_eq!(read(text).covers_scope(threads), Err(format!("layout {} {why}", read(text))), "{text}");
    }
}

#[test]
fn indices_are_divided_only_where_they_are_split() {
    let v = |n: &str| Expr::var(n, DType::I64);
    let offset =
        |text: &str, shape: &[i64], indices: &[Expr]| read(text).memory_offset(shape, indices).expect("an offset");
    let times = |e: Expr, k: i64| e * Expr::i64(k);
    assert_eq!(offset("S[(4, 8)]", &[4, 8], &[v("i"), v("j")]), times(v("i"), 8) + v("j"));
    assert_eq!(
        offset("S[(4, 8) : (8, 1)] + 5", &[4, 8], &[v("i"), Expr::i32(3)]),
        times(v("i"), 8) + Expr::i64(3) + Expr::i64(5)
    );
    assert_eq!(offset("S[(32, 8) : (1 @ laneid, 1)]", &[32, 8], &[v("i"), v("j")]), v("j"));
    assert_eq!(offset("S[(1, 8)]", &[1, 8], &[v("i"), v("j")]), v("j"));
    assert_eq!(offset("S[(1,)]", &[1], &[v("i")]), Expr::i64(0));
    let half = |op, e: Expr| Expr::binary(op, e, Expr::i64(8));
    assert_eq!(
        offset("S[(4, 8) : (100, 1)]", &[32], &[v("i")]),
        times(half(BinOp::FloorDiv, v("i")), 100) + half(BinOp::FloorMod, v("i"))
    );
    let swizzled = read("ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[(8, 64)]))");
    let plain = times(v("i"), 64) + v("j");
    let bits = Expr::binary(BinOp::BitAnd, Expr::binary(BinOp::Shr, plain.clone(), Expr::i64(6)), Expr::i64(7));
    let expected = Expr::binary(BinOp::BitXor, plain, Expr::binary(BinOp::Shl, bits, Expr::i64(3)));
    assert_eq!(swizzled.memory_offset(&[8, 64], &[v("i"), v("j")]), Ok(expected));
    assert!(swizzled.memory_offset(&[8, 64], &[v("i")]).is_err());
    assert!(swizzled.memory_offset(&[8, 32], &[v("i"), v("j")]).is_err());
}

#[test]
fn rows_of_a_warp_tile_are_found_from_lane_and_register() {
    let thread = |a: Axis| Expr::var(a.name(), DType::I32);
    let lane = || Expr::cast(DType::I64, thread(Axis::LaneId));
    let v = |n: &str| Expr::var(n, DType::I64);
    let rows = read("S[(32, 8) : (1 @ laneid, 1)]");
    assert_eq!(rows.local_shape(&[32, 8]), Ok(vec![1, 8]));
    assert_eq!(rows.coordinates(&[32, 8], &thread, &[v("i"), v("j")]), Ok(vec![lane(), v("j")]));
    let pairs = read("S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]");
    let by = |op, k| Expr::binary(op, lane(), Expr::i64(k));
    assert_eq!(pairs.local_shape(&[8, 8]), Ok(vec![1, 2]));
    let found = pairs.coordinates(&[8, 8], &thread, &[v("i"), v("j")]);
    assert_eq!(found, Ok(vec![by(BinOp::FloorDiv, 4), by(BinOp::FloorMod, 4) * Expr::i64(2) + v("j")]));
    let twice = read("S[(32, 2) : (1 @ laneid, 0 @ laneid)]");
    assert_eq!(
        twice.local_shape(&[32, 2]),
        Err(format!("layout {twice} places 2 elements in one place, by stride 0 on laneid"))
    );
    let overlap = read("S[(4, 4) : (3 @ laneid, 1 @ laneid)]");
    let why = format!(
        "the threads of layout {overlap} do not tell which elements they hold: its strides over threads overlap"
    );
    assert_eq!(overlap.coordinates(&[16], &thread, &[v("i")]), Err(why));
    assert!(pairs.coordinates(&[8, 8], &thread, &[v("i")]).is_err());
}

#[test]
fn threads_that_carry_from_lanes_into_warps_are_refused() {
    for (text, axis, warps) in [
        ("S[(6, 16) : (16 @ tx, 1 @ tx)] + 8 @ tx", "tx", "warpid"),
        ("S[12 : 3 @ tx]", "tx", "warpid"),
        ("S[48 : 1 @ tid_in_wg]", "tid_in_wg", "wid_in_wg"),
    ] {
        let why = read(text).by_warp().expect_err("a carry");
        assert_eq!(why, format!("layout {} does not divide {axis} into whole {warps} and laneid", read(text)));
    }
    assert_eq!(read("S[(4, 8)]").by_warp(), Ok(read("S[(4, 8)]")));
    assert_eq!(read("S[(64, 2) : (1 @ tx, 1)]").by_warp(), Ok(read("S[(2, 32, 2) : (1 @ warpid, 1 @ laneid, 1)]")));
    assert_eq!(number(&[2, 3], &coord(&[2, 3], 4)), 4);
    assert_eq!(size(&[2, 3]), 6);
}
