//! Tiled products: a layout repeated over a grid of tiles, and finding the grid again.

use super::{Axis, Iter, TileLayout};

impl TileLayout {
    /// This layout, of a tile of `inner_shape`, repeated over a grid of `outer_shape` whose tiles
    /// `outer` places: a tensor of the elementwise product of the shapes. The positions of `outer`
    /// count in tiles, so that before any swizzle
    /// `result(x) = self(x mod inner_shape) + span * outer(x / inner_shape)` on every axis, where
    /// `span` is this layout's own (1 on axes that it does not use). A swizzle of this layout is
    /// the result's; `outer` has none.
    pub fn tile(&self, outer: &TileLayout, outer_shape: &[i64], inner_shape: &[i64]) -> Result<TileLayout, String> {
        if outer_shape.len() != inner_shape.len() {
            return Err(format!("the grid {outer_shape:?} and the tile {inner_shape:?} differ in rank"));
        }
        if let Some(s) = outer.swizzle {
            return Err(format!("a grid of tiles has no swizzle, but {s} is given"));
        }
        let spans = self.spans();
        let mut shard = vec![];
        for (grid, tile) in outer.grouped(outer_shape)?.iter().zip(self.grouped(inner_shape)?) {
            for it in grid {
                shard.push(scaled(*it, spans[it.axis as usize])?);
            }
            shard.extend(tile);
        }
        let mut replica = self.replica.clone();
        for it in &outer.replica {
            replica.push(scaled(*it, spans[it.axis as usize])?);
        }
        let mut offset = self.offset.clone();
        for (axis, v) in &outer.offset {
            let moved = scaled(Iter::new(1, *v, *axis), spans[*axis as usize])?.stride;
            let slot = offset.entry(*axis).or_insert(0);
            *slot = slot.checked_add(moved).ok_or("the offset of a tiled layout is too large")?;
        }
        TileLayout::new(shard, replica, offset, self.swizzle)
    }

    /// The grid that makes this layout, of a tensor of `shape`, from tiles of `inner`:
    /// `inner.tile(grid, shape / inner_shape, inner_shape)` maps as this layout does. Where `inner`
    /// counts lanes or warps of a warpgroup, this layout's coarser axes of threads are split into those
    /// first ([`TileLayout::by_warp`], [`TileLayout::by_warpgroup`]). The error says what does not fit.
    pub fn tiles_of(&self, inner: &TileLayout, shape: &[i64], inner_shape: &[i64]) -> Result<TileLayout, String> {
        let divides = |(n, i): (&i64, &i64)| *i >= 1 && n % i == 0;
        if shape.len() != inner_shape.len() || !shape.iter().zip(inner_shape).all(divides) {
            return Err(format!("shape {shape:?} is not a grid of tiles of shape {inner_shape:?}"));
        }
        let own = self.in_axes_of(inner)?.canonical();
        let tile = inner.canonical();
        if own.swizzle != tile.swizzle {
            return Err(format!("layout {self} and its tile {inner} have different swizzles"));
        }
        let grid_shape: Vec<i64> = shape.iter().zip(inner_shape).map(|(n, i)| n / i).collect();
        let factored: Vec<i64> = grid_shape.iter().zip(inner_shape).flat_map(|(g, i)| [*g, *i]).collect();
        let spans = tile.spans();
        let unscale = |it: Iter| unscaled(it, spans[it.axis as usize]);
        let mut shard = vec![];
        for (dim, (pair, tile_iters)) in own.grouped(&factored)?.chunks(2).zip(tile.grouped(inner_shape)?).enumerate() {
            if pair[1] != tile_iters {
                return Err(format!("along dimension {dim} a tile of layout {self} is not laid out as {inner} is"));
            }
            for it in &pair[0] {
                shard.push(unscale(*it)?);
            }
        }
        let replica = without(&own.replica, &tile.replica)
            .ok_or_else(|| format!("layout {self} does not replicate as its tile {inner} does"))?;
        let replica = replica.into_iter().map(unscale).collect::<Result<_, _>>()?;
        let mut offset = own.offset.clone();
        for (axis, v) in &tile.offset {
            *offset.entry(*axis).or_insert(0) -= v;
        }
        for (axis, v) in &mut offset {
            *v = unscaled(Iter::new(2, *v, *axis), spans[*axis as usize])?.stride;
        }
        let grid = TileLayout::new(shard, replica, offset, None)?;
        match tile.tile(&grid, &grid_shape, inner_shape) {
            Ok(again) if again.canonical() == own => Ok(grid),
            _ => Err(format!("layout {self} is not made of tiles of layout {inner}")),
        }
    }

    /// The same placement in terms of the axes of threads that `inner` counts.
    fn in_axes_of(&self, inner: &TileLayout) -> Result<TileLayout, String> {
        let in_warpgroup = inner.mentions(Axis::WidInWg) || inner.mentions(Axis::TidInWg);
        let own = if in_warpgroup { self.by_warpgroup()? } else { self.clone() };
        if inner.mentions(Axis::LaneId) { own.by_warp() } else { Ok(own) }
    }

    /// The span on every axis before the swizzle.
    fn spans(&self) -> [i64; Axis::COUNT] {
        Axis::ALL.map(|(axis, _)| {
            let (low, high) = self.affine_range(axis);
            1 + high - low
        })
    }
}

fn scaled(it: Iter, span: i64) -> Result<Iter, String> {
    let stride = it.stride.checked_mul(span);
    let stride = stride.ok_or_else(|| format!("a tiled layout reaches too far on axis {}", it.axis))?;
    Ok(Iter { stride, ..it })
}

fn unscaled(it: Iter, span: i64) -> Result<Iter, String> {
    if it.stride % span == 0 {
        return Ok(Iter { stride: it.stride / span, ..it });
    }
    Err(format!("a step of {} on axis {} is no multiple of the tile's span there, which is {span}", it.stride, it.axis))
}

/// The replica iters that are left when those of the tile are taken away; both canonical. A tile's
/// iter may be the inner part of a longer one.
fn without(all: &[Iter], tile: &[Iter]) -> Option<Vec<Iter>> {
    let mut rest = all.to_vec();
    for t in tile {
        let at = rest.iter().position(|it| it.axis == t.axis && it.stride == t.stride && it.extent % t.extent == 0)?;
        rest[at] = Iter::new(rest[at].extent / t.extent, t.stride * t.extent, t.axis);
        rest.retain(|it| it.extent > 1);
    }
    Some(rest)
}
