//! The algebra of layouts against brute force over all elements.

use crate::layouts::{Shaped, axis, coord, dims, number, offset, shaped, size, swizzle};
use daylight::ir::layout::{Axis, Iter, Point, TileLayout};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn places(l: &TileLayout, linear: i64) -> BTreeSet<Point> {
    l.positions(linear).into_iter().collect()
}

fn same_mapping(a: &TileLayout, b: &TileLayout) -> bool {
    a.size() == b.size() && (0..a.size()).all(|x| places(a, x) == places(b, x))
}

/// The definition of a layout, written out a second time.
fn defined(l: &TileLayout, linear: i64) -> BTreeSet<Point> {
    let digits = coord(&l.shard().iter().map(|it| it.extent).collect::<Vec<_>>(), linear);
    let add = |p: Point, axis: Axis, v: i64| p.with(axis, p.get(axis) + v);
    let mut base = l.offset().iter().fold(Point::default(), |p, (a, v)| add(p, *a, *v));
    for (it, c) in l.shard().iter().zip(digits) {
        base = add(base, it.axis, c * it.stride);
    }
    let mut all = vec![base];
    for it in l.replica() {
        all = all.iter().flat_map(|p| (0..it.extent).map(|k| add(*p, it.axis, k * it.stride))).collect();
    }
    let permute = |p: Point| l.swizzle().map_or(p, |s| p.with(Axis::M, s.apply(p.get(Axis::M))));
    all.into_iter().map(permute).collect()
}

/// Whether places at the origin first can be written as iters at all, by trying every factor.
fn expressible(places: &[Point]) -> bool {
    let Some(second) = places.get(1) else { return true };
    if Axis::ALL.iter().filter(|e| second.get(e.0) != 0).count() > 1 {
        return false;
    }
    let add = |p: Point, k: i64| Axis::ALL.iter().fold(p, |p, (a, _)| p.with(*a, p.get(*a) + k * second.get(*a)));
    (2..=places.len()).filter(|e| places.len().is_multiple_of(*e)).any(|e| {
        (0..places.len()).all(|x| places[x] == add(places[x - x % e], (x % e) as i64))
            && expressible(&places.iter().step_by(e).copied().collect::<Vec<_>>())
    })
}

fn minus(a: Point, b: Point) -> Point {
    Axis::ALL.iter().fold(a, |p, (x, _)| p.with(*x, a.get(*x) - b.get(*x)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn places_are_those_of_the_definition(s in shaped(3)) {
        for x in 0..s.layout.size() {
            prop_assert_eq!(places(&s.layout, x), defined(&s.layout, x));
            prop_assert!(places(&s.layout, x).contains(&s.layout.apply(x)));
            prop_assert_eq!(s.layout.apply_at(&s.shape, &coord(&s.shape, x)), Ok(s.layout.apply(x)));
        }
    }

    #[test]
    fn spans_are_those_of_all_places(s in shaped(3)) {
        let all: Vec<Point> = (0..s.layout.size()).flat_map(|x| s.layout.positions(x)).collect();
        for (axis, _) in Axis::ALL {
            let low = all.iter().map(|p| p.get(axis)).min().expect("some");
            let high = all.iter().map(|p| p.get(axis)).max().expect("some");
            let (l, h) = s.layout.range(axis);
            prop_assert_eq!(s.layout.span(axis), 1 + h - l);
            if axis == Axis::M && s.layout.swizzle().is_some() {
                prop_assert!(l <= low && high <= h);
            } else {
                prop_assert_eq!((l, h), (low, high));
            }
        }
    }

    #[test]
    fn canonical_layouts_map_the_same_and_are_least(s in shaped(3)) {
        let c = s.layout.canonical();
        prop_assert!(same_mapping(&c, &s.layout));
        prop_assert_eq!(c.canonical(), c.clone());
        prop_assert!(c.shard().len() <= s.layout.shard().len() && c.replica().len() <= s.layout.replica().len());
        prop_assert!(c.shard().iter().chain(c.replica()).all(|it| it.extent > 1));
    }

    #[test]
    fn equal_mappings_have_one_canonical_form(a in dims(2), b in dims(2)) {
        let layout = |d: Vec<Vec<Iter>>| TileLayout::of_shard(d.concat()).expect("small");
        let (a, b) = (layout(a), layout(b));
        prop_assert_eq!(a.canonical() == b.canonical(), same_mapping(&a, &b));
    }

    #[test]
    fn groups_are_the_dimensions(s in shaped(3)) {
        let groups = s.layout.grouped(&s.shape);
        let groups = groups.map_err(TestCaseError::fail)?;
        for (g, e) in groups.iter().zip(&s.shape) {
            prop_assert_eq!(g.iter().map(|it| it.extent).product::<i64>(), *e);
        }
        let again = TileLayout::new(groups.concat(), s.layout.replica().to_vec(), s.layout.offset().clone(), s.layout.swizzle());
        prop_assert!(same_mapping(&again.map_err(TestCaseError::fail)?, &s.layout));
    }

    #[test]
    fn groups_of_any_shape_are_right_or_refused(s in shaped(2), shape in prop::collection::vec(1..7i64, 0..4)) {
        if let Ok(groups) = s.layout.grouped(&shape) {
            prop_assert_eq!(size(&shape), s.layout.size());
            let again = TileLayout::new(groups.concat(), s.layout.replica().to_vec(), s.layout.offset().clone(), s.layout.swizzle());
            prop_assert!(same_mapping(&again.map_err(TestCaseError::fail)?, &s.layout));
            for (g, e) in groups.iter().zip(&shape) {
                prop_assert_eq!(g.iter().map(|it| it.extent).product::<i64>(), *e);
            }
        }
    }

    #[test]
    fn permuted_layouts_are_those_of_the_transposed_tensor(s in shaped(3), order in any::<u8>()) {
        let mut dims: Vec<usize> = (0..s.shape.len()).collect();
        if !dims.is_empty() {
            dims.rotate_left(usize::from(order) % s.shape.len());
            dims.swap(0, usize::from(order / 16) % s.shape.len());
        }
        let to: Vec<i64> = dims.iter().map(|d| s.shape[*d]).collect();
        let p = s.layout.permute(&s.shape, &dims).map_err(TestCaseError::fail)?;
        for x in 0..s.layout.size() {
            let c = coord(&s.shape, x);
            let moved: Vec<i64> = dims.iter().map(|d| c[*d]).collect();
            prop_assert_eq!(places(&p, number(&to, &moved)), places(&s.layout, x));
        }
    }

    #[test]
    fn slices_are_the_region_or_there_is_none(s in shaped(2), corner in any::<[u8; 8]>()) {
        let begin: Vec<i64> = s.shape.iter().zip(corner).map(|(e, c)| i64::from(c) % e).collect();
        let left = s.shape.iter().zip(&begin).map(|(e, b)| e - b);
        let extent: Vec<i64> = left.zip(&corner[4..]).map(|(n, c)| 1 + i64::from(*c) % n).collect();
        match s.layout.slice(&s.shape, &begin, &extent) {
            Ok(l) => {
                prop_assert_eq!(l.size(), size(&extent));
                for x in 0..l.size() {
                    let at: Vec<i64> = coord(&extent, x).iter().zip(&begin).map(|(c, b)| c + b).collect();
                    prop_assert_eq!(places(&l, x), places(&s.layout, number(&s.shape, &at)));
                }
            }
            Err(_) => {
                let plain = s.layout.unswizzled();
                let irregular = (0..s.shape.len()).any(|d| {
                    let at = |x: i64| {
                        let mut c = begin.clone();
                        c[d] += x;
                        plain.apply(number(&s.shape, &c))
                    };
                    !expressible(&(0..extent[d]).map(|x| minus(at(x), at(0))).collect::<Vec<_>>())
                });
                prop_assert!(irregular, "refused {begin:?} {extent:?}");
            }
        }
    }

    #[test]
    fn tiles_repeat_and_the_grid_is_found_again(
        inner in dims(2), outer in dims(2), inner_offset in offset(), outer_offset in offset(), swizzle in swizzle(),
    ) {
        let extents = |d: &[Vec<Iter>], rank: usize| -> Vec<i64> {
            (0..rank).map(|k| d.get(k).map_or(1, |g| g.iter().map(|it| it.extent).product())).collect()
        };
        let rank = inner.len().max(outer.len());
        let (i, o) = (extents(&inner, rank), extents(&outer, rank));
        let tile = TileLayout::new(inner.concat(), vec![], inner_offset, swizzle).map_err(TestCaseError::fail)?;
        let grid = TileLayout::new(outer.concat(), vec![], outer_offset, None).map_err(TestCaseError::fail)?;
        let whole = tile.tile(&grid, &o, &i).map_err(TestCaseError::fail)?;
        let shape: Vec<i64> = o.iter().zip(&i).map(|(a, b)| a * b).collect();
        let flat = tile.unswizzled();
        for x in 0..whole.size() {
            let c = coord(&shape, x);
            let inside: Vec<i64> = c.iter().zip(&i).map(|(c, e)| c % e).collect();
            let which: Vec<i64> = c.iter().zip(&i).map(|(c, e)| c / e).collect();
            let (a, b) = (flat.apply(number(&i, &inside)), grid.apply(number(&o, &which)));
            let sum = Axis::ALL.iter().fold(a, |p, (x, _)| p.with(*x, a.get(*x) + flat.span(*x) * b.get(*x)));
            prop_assert_eq!(whole.unswizzled().apply(x), sum);
        }
        prop_assert_eq!(whole.swizzle(), tile.swizzle());
        let found = whole.tiles_of(&tile, &shape, &i).map_err(TestCaseError::fail)?;
        prop_assert!(same_mapping(&found, &grid), "{} instead of {}", found, grid);
    }

    #[test]
    fn a_grid_that_is_found_makes_the_layout(whole in shaped(2), inner in shaped(2)) {
        if let Ok(grid) = whole.layout.tiles_of(&inner.layout, &whole.shape, &inner.shape) {
            let o: Vec<i64> = whole.shape.iter().zip(&inner.shape).map(|(a, b)| a / b).collect();
            let again = inner.layout.tile(&grid, &o, &inner.shape).map_err(TestCaseError::fail)?;
            prop_assert!(same_mapping(&again, &whole.layout));
        }
    }

    #[test]
    fn threads_hold_what_is_placed_on_them(s in shaped(2)) {
        let mut by_thread: BTreeMap<Point, BTreeSet<(i64, i64)>> = BTreeMap::new();
        for x in 0..s.layout.size() {
            for p in s.layout.positions(x) {
                let thread = p.with(Axis::M, 0).with(Axis::TCol, 0);
                by_thread.entry(thread).or_default().insert((x, p.get(Axis::M)));
            }
        }
        for (thread, held) in &by_thread {
            let found = s.layout.holds(&thread.with(Axis::Cbz, 3));
            prop_assert_eq!(&found.iter().copied().collect::<BTreeSet<_>>(), held);
            prop_assert_eq!(found.len(), held.len());
        }
        if s.layout.mentions(Axis::LaneId) {
            let last = by_thread.keys().map(|t| t.get(Axis::LaneId)).max().unwrap_or(0);
            prop_assert!(s.layout.holds(&Point::default().with(Axis::LaneId, last + 1)).is_empty());
        }
    }

    #[test]
    fn thread_part_and_local_part_make_the_whole(s in shaped(3)) {
        let (threads, local) = (s.layout.thread_part(), s.layout.local());
        let (mine, theirs): (Vec<_>, Vec<_>) = (0..s.layout.shard().len()).partition(|k| !s.layout.shard()[*k].axis.is_thread());
        let extents: Vec<i64> = s.layout.shard().iter().map(|it| it.extent).collect();
        let pick = |which: &[usize], c: &[i64]| number(
            &which.iter().map(|k| extents[*k]).collect::<Vec<_>>(), &which.iter().map(|k| c[*k]).collect::<Vec<_>>());
        for x in 0..s.layout.size() {
            let c = coord(&extents, x);
            let (a, b) = (local.apply(pick(&mine, &c)), threads.apply(pick(&theirs, &c)));
            let whole = s.layout.apply(x);
            for (axis, _) in Axis::ALL {
                prop_assert_eq!(whole.get(axis), if axis.is_thread() { b } else { a }.get(axis));
            }
        }
        prop_assert_eq!(threads.replicas() * local.replicas(), s.layout.replicas());
    }

    #[test]
    fn runs_are_the_longest(s in shaped(3)) {
        let l = &s.layout;
        let adjacent = |v: i64, x: i64| {
            let first = l.apply(x - x % v);
            l.apply(x) == first.with(Axis::M, first.get(Axis::M) + x % v)
        };
        let runs = |v: i64| l.size() % v == 0 && (0..l.size()).all(|x| adjacent(v, x));
        let starts = |v: i64| (0..l.size()).step_by(v as usize).all(|x| l.positions(x).iter().all(|p| p.get(Axis::M) % v == 0));
        let last = s.shape.last().copied().unwrap_or(1);
        let powers = (0..12).map(|n| 1 << n);
        let best = powers.clone().filter(|v| runs(*v)).max().expect("1");
        let vector = powers.filter(|v| last % v == 0 && runs(*v) && starts(*v)).max().expect("1");
        if l.swizzle().is_none() {
            prop_assert_eq!(l.contiguous_run(), best);
            prop_assert_eq!(l.vector_len(&s.shape), vector);
        } else {
            prop_assert!(runs(l.contiguous_run()) && l.contiguous_run() <= best);
            let v = l.vector_len(&s.shape);
            prop_assert!(runs(v) && starts(v) && last % v == 0);
        }
    }

    #[test]
    fn bijective_means_a_full_box_and_the_inverse_finds_every_element(
        factors in prop::collection::vec((1..5i64, axis(), any::<u8>(), any::<bool>()), 0..5), swizzle in swizzle(), spoil in 0..9usize,
    ) {
        // compact strides on every axis, in a shuffled order, some of them counted backwards
        let mut span: BTreeMap<Axis, i64> = BTreeMap::new();
        let mut offset: BTreeMap<Axis, i64> = BTreeMap::new();
        let mut iters = vec![];
        for (e, a, key, backwards) in &factors {
            let stride = *span.entry(*a).or_insert(1);
            span.insert(*a, stride * e);
            if *backwards {
                *offset.entry(*a).or_insert(0) += (e - 1) * stride;
            }
            iters.push((*key, Iter::new(*e, if *backwards { -stride } else { stride }, *a)));
        }
        iters.sort();
        let mut shard: Vec<Iter> = iters.into_iter().map(|e| e.1).collect();
        if let Some(it) = shard.get_mut(spoil) {
            it.stride += 1;
        }
        let l = TileLayout::new(shard, vec![], offset, swizzle).map_err(TestCaseError::fail)?;
        let all: BTreeSet<Point> = (0..l.size()).map(|x| l.apply(x)).collect();
        let plain = l.unswizzled();
        let in_box = all.iter().all(|p| Axis::ALL.iter().all(|(a, _)| (0..plain.span(*a)).contains(&p.get(*a))));
        let count: i64 = Axis::ALL.iter().map(|(a, _)| plain.span(*a)).product();
        let bijective = in_box && all.len() as i64 == count && count == l.size();
        prop_assert_eq!(l.is_bijective(), bijective);
        if !bijective {
            prop_assert!(l.inverse().is_err() && l.locate(&l.apply(0)).is_none());
            return Ok(());
        }
        let axes = l.position_axes();
        let spans: Vec<i64> = axes.iter().map(|a| plain.span(*a)).collect();
        for x in 0..l.size() {
            let p = l.apply(x);
            prop_assert_eq!(l.locate(&p), Some(x));
            if let Ok(inverse) = l.inverse() {
                let at = number(&spans, &axes.iter().map(|a| p.get(*a)).collect::<Vec<_>>());
                prop_assert_eq!(inverse.apply(at), Point::default().with(Axis::M, x));
            } else {
                prop_assert!(l.swizzle().is_some());
            }
        }
        prop_assert_eq!(l.locate(&Point::default().with(Axis::M, -1)), None);
        prop_assert_eq!(l.locate(&Point::default().with(Axis::Tx, 1)), None);
    }
}

#[test]
fn replicas_of_a_grid_are_found_again() {
    let read = |t: &str| TileLayout::parse(t).expect("a layout");
    let tile = read("S[8 : 4 @ laneid] + R[4 : 1 @ laneid]");
    let grid = read("S[(2, 3) : (1, 2 @ warpid)] + R[2 : 1 @ warpid] + 4 @ warpid");
    let whole = tile.tile(&grid, &[2, 3], &[1, 8]).expect("a layout");
    assert_eq!(
        whole.to_string(),
        "S[(2, 3, 8) : (1, 2 @ warpid, 4 @ laneid)] + R[(4, 2) : (1 @ laneid, 1 @ warpid)] + 4 @ warpid"
    );
    assert_eq!(whole.tiles_of(&tile, &[2, 24], &[1, 8]), Ok(grid));
    let why = read("S[(2, 3, 8) : (1, 2 @ warpid, 4 @ laneid)]").tiles_of(&tile, &[2, 24], &[1, 8]);
    assert_eq!(
        why,
        Err("layout S[(2, 3, 8) : (1, 2 @ warpid, 4 @ laneid)] does not replicate as its tile S[8 : 4 @ laneid] + R[4 : 1 @ laneid] does".into())
    );
    // one long replica iter holds the tile's
    let long = read("S[4 : 1] + R[16 : 1 @ laneid]");
    let grid = long.tiles_of(&read("S[2 : 1] + R[4 : 1 @ laneid]"), &[4], &[2]).expect("a grid");
    assert_eq!(grid.to_string(), "S[(2,)] + R[4 : 1 @ laneid]");
}

#[test]
fn a_scalar_and_units_are_no_special_case() {
    let read = |t: &str| TileLayout::parse(t).expect("a layout");
    for text in ["S[()]", "S[(1,)]", "S[(1, 1) : (7, 3 @ laneid)]", "S[1 : 0]"] {
        let l = read(text);
        assert_eq!((l.size(), l.replicas(), l.contiguous_run(), l.span(Axis::M)), (1, 1, 1, 1));
        assert_eq!(l.apply(0), Point::default());
        assert_eq!(l.canonical().to_string(), "S[()]");
        assert_eq!(l.grouped(&[]), Ok(vec![]));
        assert_eq!(l.grouped(&[1, 1]), Ok(vec![vec![], vec![]]));
        assert!(l.is_bijective());
        assert_eq!(l.inverse().map(|i| i.size()), Ok(1));
        assert_eq!(l.slice(&[1], &[0], &[1]).map(|s| s.size()), Ok(1));
        assert_eq!(l.tile(&read("S[(2, 3)]"), &[2, 3], &[1, 1]).map(|t| t.to_string()), Ok("S[(2, 3)]".into()));
        let grid = read("S[(2, 3)]").tiles_of(&l, &[2, 3], &[1, 1]).expect("a grid");
        assert_eq!(grid.canonical().to_string(), "S[(6,)]");
        assert_eq!(l.covers_scope(1), Ok(()));
    }
}

#[test]
fn bad_arguments_are_sentences() {
    let l = TileLayout::parse("S[(4, 6)]").expect("a layout");
    let says = |r: Result<TileLayout, String>, why: &str| assert_eq!(r, Err(why.to_string()));
    says(l.slice(&[4, 6], &[0, 5], &[4, 2]), "the region of extents [4, 2] at [0, 5] is not inside shape [4, 6]");
    says(l.slice(&[4, 6], &[0], &[4]), "the region of extents [4] at [0] is not inside shape [4, 6]");
    says(
        l.slice(&[4, 6], &[i64::MAX, 0], &[i64::MAX, 1]),
        &format!("the region of extents [{0}, 1] at [{0}, 0] is not inside shape [4, 6]", i64::MAX),
    );
    says(l.permute(&[4, 6], &[0, 0]), "[0, 0] is no permutation of the 2 dimensions of [4, 6]");
    says(
        l.permute(&[4, 5], &[0, 1]),
        "layout S[(4, 6)] is for 24 elements, which is not the size of shape [4, 5]; use a layout of the shape's size",
    );
    says(l.tile(&l, &[4, 6], &[24]), "the grid [4, 6] and the tile [24] differ in rank");
    says(l.tiles_of(&l, &[4, 6], &[4, 4]), "shape [4, 6] is not a grid of tiles of shape [4, 4]");
    says(
        l.tiles_of(&TileLayout::parse("S[(2, 2)]").expect("a layout"), &[4, 6], &[2, 2]),
        "along dimension 0 a tile of layout S[(4, 6)] is not laid out as S[(2, 2)] is",
    );
    assert!(l.grouped(&[0, 24]).is_err() && l.grouped(&[-4, -6]).is_err() && l.grouped(&[i64::MAX, 2]).is_err());
    let far = TileLayout::parse("S[2 : 1152921504606846975]").expect("a layout");
    assert!(far.tile(&far, &[2], &[2]).is_err());
    let lanes = TileLayout::parse("S[(4, 6) : (7 @ laneid, 1 @ warpid)]").expect("a layout");
    assert_eq!(lanes.slice(&[24], &[3], &[6]), Err("elements 3..9 of dimension 0 of [24] lie at irregular distances in layout S[(4, 6) : (7 @ laneid, 1 @ warpid)]; choose a region that starts and ends at whole iters".into()));
}

#[test]
fn a_shaped_layout_fits_its_shape() {
    let s = Shaped { layout: TileLayout::row_major(&[2, 3]).expect("a layout"), shape: vec![2, 3] };
    assert_eq!(s.layout.fit(&s.shape), Ok(s.layout));
}
