//! What threads hold: a layout's thread axes and its memory axes apart.

use super::{Axis, Iter, Point, TileLayout};

impl TileLayout {
    /// Each thread's private bundle: the memory part, with the axes of threads and blocks dropped
    /// from shards, replicas and offsets.
    #[must_use]
    pub fn local(&self) -> TileLayout {
        TileLayout { swizzle: self.swizzle, ..self.only(|axis| !axis.is_thread()) }
    }

    /// The part on axes of threads and blocks: which threads share the elements out.
    #[must_use]
    pub fn thread_part(&self) -> TileLayout {
        self.only(Axis::is_thread)
    }

    /// Which threads hold each element, and not where in memory: memory axes at stride 0, element
    /// numbers as they were. Two layouts give every element to the same threads exactly if the
    /// [`TileLayout::canonical`] forms of their owners are equal (without replicas; with replicas, if
    /// they are).
    #[must_use]
    pub fn owners(&self) -> TileLayout {
        let still = |it: &Iter| if it.axis.is_thread() { *it } else { Iter::new(it.extent, 0, Axis::M) };
        TileLayout { shard: self.shard.iter().map(still).collect(), ..self.thread_part() }
    }

    /// What the threads at `thread` hold, as (number of the element, offset on `m`), in the order of
    /// the elements. Only thread axes that the layout mentions are compared: a layout over lanes says
    /// the same of every warp. Takes time in proportion to size and replicas.
    pub fn holds(&self, thread: &Point) -> Vec<(i64, i64)> {
        let axes: Vec<Axis> = Axis::ALL.iter().map(|e| e.0).filter(|a| a.is_thread() && self.mentions(*a)).collect();
        let mut out = vec![];
        for linear in 0..self.size() {
            let start = out.len();
            for p in self.positions(linear) {
                let held = (linear, p.get(Axis::M));
                if axes.iter().all(|a| p.get(*a) == thread.get(*a)) && !out[start..].contains(&held) {
                    out.push(held);
                }
            }
        }
        out
    }

    fn only(&self, keep: impl Fn(Axis) -> bool) -> TileLayout {
        let iters = |list: &[Iter]| list.iter().filter(|it| keep(it.axis)).copied().collect();
        TileLayout {
            shard: iters(&self.shard),
            replica: iters(&self.replica),
            offset: self.offset.iter().filter(|e| keep(*e.0)).map(|(a, v)| (*a, *v)).collect(),
            swizzle: None,
        }
    }
}
