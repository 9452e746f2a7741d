//! How many neighbouring elements lie side by side in memory.

use super::canon::merged;
use super::{Axis, TileLayout};

impl TileLayout {
    /// The largest power of two `v` such that elements `v k .. v k + v` are held by one thread, side
    /// by side and in order on `m`, for every `k`. In swizzled memory runs also start at multiples of
    /// `v`, and stay within the swizzle's chunk.
    pub fn contiguous_run(&self) -> i64 {
        let iters = merged(&self.shard);
        let run = match iters.last() {
            Some(it) if it.axis == Axis::M && it.stride == 1 => power_of_two_in(it.extent),
            _ => 1,
        };
        match self.swizzle.filter(|s| s.swizzle_len() > 0) {
            Some(s) => run.min(s.chunk()).min(self.alignment(run)),
            None => run,
        }
    }

    /// The largest power of two `v` for which the last dimension of `shape` divides into vectors of
    /// `v` elements that are side by side on `m` and each start at a multiple of `v`.
    pub fn vector_len(&self, shape: &[i64]) -> i64 {
        let run = self.contiguous_run().min(shape.last().map_or(1, |e| power_of_two_in(*e)));
        run.min(self.alignment(run))
    }

    /// The largest power of two up to `run` that divides every start of a run of `run` elements.
    fn alignment(&self, run: i64) -> i64 {
        let mut steps: Vec<i64> =
            merged(&self.replica).iter().filter(|it| it.axis == Axis::M).map(|it| it.stride).collect();
        steps.extend(self.offset.get(&Axis::M));
        let iters = merged(&self.shard);
        if let Some((_, outer)) = iters.split_last() {
            steps.extend(outer.iter().filter(|it| it.axis == Axis::M).map(|it| it.stride));
        }
        steps.into_iter().filter(|s| *s != 0).map(power_of_two_in).fold(run, i64::min)
    }
}

/// The largest power of two that divides a number other than 0.
fn power_of_two_in(n: i64) -> i64 {
    1 << n.trailing_zeros().min(62)
}
