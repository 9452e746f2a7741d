//! Tiles side by side whose blocks are a cluster: those of one column of tiles need the same part of the right factor, those
//! of one row the same of the left, and each block copies its share of that for all (`lower/pass/roles/multicast.rs`), or for
//! products of both (`lower/pass/roles/pair.rs`). The cache gives it once.

use super::split_k::in_cluster;
use crate::rules::find::product::Product;
use crate::rules::parts::*;

/// The knob, and by its value how many tiles along rows and along columns the blocks of a cluster compute.
const KNOB: &str = "multicast";
const SHAPES: [[i64; 2]; 3] = [[1, 1], [2, 1], [1, 2]];
/// The knob that says of how many blocks a product is, one below the other.
const GROUP: &str = "cta_group";

/// Tiles of a cluster along rows and along columns.
pub fn shape(k: &Knobs) -> [i64; 2] {
    let below = |n: i64| [n, 1];
    let own = k.find(KNOB).and_then(|n| SHAPES.get(n as usize)).copied();
    own.or(k.find(GROUP).map(below)).unwrap_or(SHAPES[0])
}

/// Rows and columns of all tiles of a cluster of such a shape, and steps.
pub fn together([rows, columns]: [i64; 2], [m, n, step]: [i64; 3]) -> [i64; 3] {
    [m * rows, n * columns, step]
}

/// Waves of tiles from which on the cache may give too little.
const WAVES: i64 = 2;

/// Clusters are of blocks where some `copy` and nothing else, and have several tiles to share.
pub fn conditions(space: Space, p: &Product, copy: impl At<bool>) -> Space {
    let space = space.require("cluster_of_tiles", move |k| match shape(k) {
        [1, 1] => Ok(()),
        _ if !copy(k) => Err("no threads copy for other blocks".into()),
        _ if in_cluster(k) => Err("the blocks of a tile are a cluster already".into()),
        _ => Ok(()),
    });
    let [_, rows, columns, _] = p.extents();
    space.require("neighbours", move |k| {
        let sides = [(rows, "block_m", "rows"), (columns, "block_n", "columns")];
        let alone =
            sides.iter().zip(shape(k)).find(|((n, tile, _), of)| *of > 1 && n.is_some_and(|n| n <= k.get(tile)));
        alone.map_or(Ok(()), |((.., side), _)| Err(format!("there is a single tile along {side}")))
    })
}

/// They are of use, if at all, where `tiles` are many.
pub fn of_many(space: Space, target: &Target, tiles: impl At<Option<i64>>) -> Space {
    let sms = i64::from(target.sms);
    space.prefer("waves_of_clusters", move |k| match (shape(k), tiles(k)) {
        ([1, 1], _) => Ok(()),
        (_, Some(n)) if n <= WAVES * sms => Err(format!("{n} tiles are no more than {WAVES} waves of {sms}")),
        _ => Ok(()),
    })
}
