//! From a thread and an element of its bundle back to the element of the tensor: how a layout shares
//! the work on a tensor out among threads.

use super::symbolic::{binary, to_i64};
use super::{Axis, Iter, TileLayout};
use crate::ir::{BinOp, Expr};
use std::collections::BTreeMap;

impl TileLayout {
    /// The shape of each thread's bundle: for each dimension of `shape`, how many elements along it a
    /// thread holds. Element `y` of the bundle is in memory where `local()` places it.
    pub fn local_shape(&self, shape: &[i64]) -> Result<Vec<i64>, String> {
        self.refuse_aliases()?;
        let held = |group: &Vec<Iter>| group.iter().filter(|it| !it.axis.is_thread()).map(|it| it.extent).product();
        Ok(self.grouped(shape)?.iter().map(held).collect())
    }

    /// The bundles of a tensor of `shape`. An error where the values on an axis do not tell the
    /// coordinates of its iters apart.
    pub fn bundles(&self, shape: &[i64]) -> Result<Bundles, String> {
        self.refuse_aliases()?;
        let groups = self.grouped(shape)?;
        Ok(Bundles { counters: self.counters(&groups)?, groups, offset: self.offset.clone() })
    }

    /// [`Bundles::coordinates`] for a tensor of `shape`.
    pub fn coordinates(
        &self,
        shape: &[i64],
        thread: &dyn Fn(Axis) -> Expr,
        local: &[Expr],
    ) -> Result<Vec<Expr>, String> {
        let bundle = self.local_shape(shape)?;
        if local.len() != bundle.len() {
            return Err(format!("{} indices are given for a bundle of shape {bundle:?}", local.len()));
        }
        Ok(self.bundles(shape)?.coordinates(thread, local))
    }

    /// The iters over threads, replicas included, by axis and stride; each one's step is a multiple of
    /// all that the smaller ones on its axis count.
    fn counters(&self, groups: &[Vec<Iter>]) -> Result<Vec<Iter>, String> {
        let replicas = self.replica.iter().filter(|it| it.extent > 1);
        let mut all: Vec<Iter> =
            groups.iter().flatten().chain(replicas).filter(|it| it.axis.is_thread()).copied().collect();
        all.sort_by_key(|it| (it.axis, it.stride));
        let apart = |w: &[Iter]| w[0].axis != w[1].axis || w[1].stride % (w[0].stride * w[0].extent) == 0;
        if all.iter().all(|it| it.stride > 0) && all.windows(2).all(apart) {
            return Ok(all);
        }
        Err(format!(
            "the threads of layout {self} do not tell which elements they hold: its strides over threads overlap"
        ))
    }

    /// Refuses elements that differ on no axis although their iter is over threads.
    fn refuse_aliases(&self) -> Result<(), String> {
        match self.shard.iter().find(|it| it.axis.is_thread() && it.stride == 0 && it.extent > 1) {
            None => Ok(()),
            Some(it) => {
                Err(format!("layout {self} places {} elements in one place, by stride 0 on {}", it.extent, it.axis))
            }
        }
    }
}

/// How threads share the elements of a tensor out, each by its bundle.
#[derive(Clone, PartialEq, Debug)]
pub struct Bundles {
    /// The iters of each dimension.
    groups: Vec<Vec<Iter>>,
    /// The iters over threads, by axis and stride.
    counters: Vec<Iter>,
    offset: BTreeMap<Axis, i64>,
}

impl Bundles {
    /// The coordinates of element `local` of a thread's bundle (see [`TileLayout::local_shape`]), where
    /// `thread` gives the thread's value on an axis. The thread is one that the layout gives elements
    /// to; of replicas all get the same coordinates.
    pub fn coordinates(&self, thread: &dyn Fn(Axis) -> Expr, local: &[Expr]) -> Vec<Expr> {
        let mut out = vec![];
        for (group, index) in self.groups.iter().zip(local) {
            let index = to_i64(index);
            let held: i64 = group.iter().filter(|it| !it.axis.is_thread()).map(|it| it.extent).product();
            let (mut weight, mut inside, mut sum) = (1i64, 1i64, Expr::i64(0));
            for it in group.iter().rev() {
                let digit = if it.axis.is_thread() {
                    let last = self.counters.iter().rev().find(|c| c.axis == it.axis) == Some(it);
                    self.thread_digit(*it, thread(it.axis), last)
                } else {
                    let digit = split(index.clone(), inside, it.extent, inside * it.extent == held);
                    inside *= it.extent;
                    digit
                };
                sum = binary(BinOp::Add, binary(BinOp::Mul, digit, Expr::i64(weight)), sum);
                weight *= it.extent;
            }
            out.push(sum);
        }
        out
    }

    /// The coordinate on an iter over threads; `last` where nothing on its axis counts in larger steps.
    fn thread_digit(&self, it: Iter, value: Expr, last: bool) -> Expr {
        let start = self.offset.get(&it.axis).copied().unwrap_or(0);
        split(binary(BinOp::Sub, to_i64(&value), Expr::i64(start)), it.stride, it.extent, last)
    }
}

/// `value / step % extent`, the remainder left out where nothing lies above.
fn split(value: Expr, step: i64, extent: i64, last: bool) -> Expr {
    let above = binary(BinOp::FloorDiv, value, Expr::i64(step));
    if last { above } else { binary(BinOp::FloorMod, above, Expr::i64(extent)) }
}
