//! Random layouts for the tests of the layout algebra.

use daylight::ir::layout::{Axis, Iter, Swizzle, TileLayout};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A layout with a shape that it can be grouped by.
#[derive(Clone, Debug)]
pub struct Shaped {
    pub layout: TileLayout,
    pub shape: Vec<i64>,
}

/// Axes that are picked often enough to meet each other.
const AXES: [Axis; 6] = [Axis::M, Axis::M, Axis::M, Axis::LaneId, Axis::WarpId, Axis::TCol];

pub fn axis() -> impl Strategy<Value = Axis> {
    (0..AXES.len()).prop_map(|i| AXES[i])
}

pub fn iter() -> impl Strategy<Value = Iter> {
    let extent = prop_oneof![Just(1i64), Just(2), Just(2), Just(3), Just(4)];
    let stride = prop_oneof![Just(0i64), Just(1), Just(1), Just(2), Just(3), Just(4), Just(8), Just(12), -4..20i64];
    (extent, stride, axis()).prop_map(|(e, s, a)| Iter::new(e, s, a))
}

pub fn offset() -> impl Strategy<Value = BTreeMap<Axis, i64>> {
    prop_oneof![
        Just(BTreeMap::new()),
        prop::collection::btree_map(axis(), prop_oneof![Just(4i64), Just(8), -9..9i64], 0..3)
    ]
}

pub fn swizzle() -> impl Strategy<Value = Option<Swizzle>> {
    let some = (0..3u32, 0..3u32, 0..2u32, any::<bool>())
        .prop_map(|(m, b, s, inner)| Swizzle::new(m, b, b + s, inner).expect("legal"));
    prop_oneof![Just(None), some.prop_map(Some)]
}

/// Iters of each dimension of a shape of up to `rank` dimensions.
pub fn dims(rank: usize) -> impl Strategy<Value = Vec<Vec<Iter>>> {
    prop::collection::vec(prop::collection::vec(iter(), 0..3), 0..=rank)
}

/// As many dimensions as said, some of them with row-major neighbours that merge.
pub fn shaped(rank: usize) -> impl Strategy<Value = Shaped> {
    let replica = prop_oneof![Just(vec![]), prop::collection::vec(iter(), 0..3)];
    let parts = (dims(rank), replica, offset(), swizzle(), any::<u8>());
    parts.prop_map(|(mut dims, replica, offset, swizzle, neighbours)| {
        let mut iters: Vec<&mut Iter> = dims.iter_mut().flatten().collect();
        for k in (1..iters.len()).rev() {
            if neighbours >> (k % 8) & 1 == 1 {
                let inner = *iters[k];
                *iters[k - 1] = Iter::new(iters[k - 1].extent, inner.extent * inner.stride, inner.axis);
            }
        }
        let shape = dims.iter().map(|d| d.iter().map(|it| it.extent).product()).collect();
        let layout = TileLayout::new(dims.concat(), replica, offset, swizzle).expect("small");
        Shaped { layout, shape }
    })
}

/// Coordinates of element number `linear`.
pub fn coord(shape: &[i64], mut linear: i64) -> Vec<i64> {
    let mut out: Vec<i64> = vec![];
    for e in shape.iter().rev() {
        out.push(linear % e);
        linear /= e;
    }
    out.reverse();
    out
}

/// The number of the element with these coordinates.
pub fn number(shape: &[i64], coord: &[i64]) -> i64 {
    shape.iter().zip(coord).fold(0, |n, (e, c)| n * e + c)
}

pub fn size(shape: &[i64]) -> i64 {
    shape.iter().product()
}
