//! How the dimensions of source and destination of a reduction belong together.

use crate::ir::{Expr, TileCall};

/// Which dimensions are kept and which reduced. The destination may have reduced dimensions as
/// extent 1 or not at all; other dimensions of extent 1 may come and go as well.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Axes {
    /// Dimensions of the source that stay.
    pub kept: Vec<usize>,
    /// Dimensions of the source that are reduced.
    pub reduced: Vec<usize>,
    /// For each dimension of the destination the place in `kept` that it is, `None` for extent 1.
    of_dst: Vec<Option<usize>>,
}

impl Axes {
    /// The dimensions of a source of these extents, for a destination of any shape.
    ///
    /// # Errors
    /// Where axes are absent, repeated or out of range, or there is nothing to reduce.
    pub fn split(call: &TileCall, src: &[i64]) -> Result<Axes, String> {
        let mut reduced = call.axes.clone();
        reduced.sort_unstable();
        reduced.dedup();
        if reduced.is_empty() || reduced.len() != call.axes.len() || reduced.iter().any(|a| *a >= src.len()) {
            return Err(format!("axes {:?} are not one or more different axes of extents {src:?}", call.axes));
        }
        if src.contains(&0) {
            return Err(format!("there is nothing to reduce in extents {src:?}"));
        }
        let kept: Vec<usize> = (0..src.len()).filter(|d| !reduced.contains(d)).collect();
        Ok(Axes { kept, reduced, of_dst: vec![] })
    }

    /// The correspondence for a call with these extents.
    ///
    /// # Errors
    /// As [`Axes::split`], and where extents do not agree.
    pub fn of(call: &TileCall, src: &[i64], dst: &[i64]) -> Result<Axes, String> {
        let mut axes = Axes::split(call, src)?;
        let mut long = (0..axes.kept.len()).filter(|k| src[axes.kept[*k]] > 1);
        let mut of_dst = vec![];
        for n in dst {
            let from = if *n == 1 { None } else { long.next() };
            if *n != 1 && from.is_none_or(|k| src[axes.kept[k]] != *n) {
                return Err(disagree(&axes.kept, src, dst));
            }
            of_dst.push(from);
        }
        if long.next().is_some() {
            return Err(disagree(&axes.kept, src, dst));
        }
        axes.of_dst = of_dst;
        Ok(axes)
    }

    /// Extents of the kept dimensions of a source of that shape.
    pub fn kept_of(&self, src: &[i64]) -> Vec<i64> {
        self.kept.iter().map(|d| src[*d]).collect()
    }

    /// Extents of the reduced dimensions of a source of that shape.
    pub fn reduced_of(&self, src: &[i64]) -> Vec<i64> {
        self.reduced.iter().map(|d| src[*d]).collect()
    }

    /// The index into the source made of indices along kept and reduced dimensions.
    pub fn src_index(&self, kept: &[Expr], reduced: &[Expr]) -> Vec<Expr> {
        let mut all: Vec<(usize, Expr)> = self.kept.iter().copied().zip(kept.iter().cloned()).collect();
        all.extend(self.reduced.iter().copied().zip(reduced.iter().cloned()));
        all.sort_by_key(|e| e.0);
        all.into_iter().map(|e| e.1).collect()
    }

    /// The index into the destination made of indices along kept dimensions.
    pub fn dst_index(&self, kept: &[Expr]) -> Vec<Expr> {
        self.of_dst.iter().map(|from| from.map_or(Expr::i64(0), |k| kept[k].clone())).collect()
    }
}

fn disagree(kept: &[usize], src: &[i64], dst: &[i64]) -> String {
    let left: Vec<i64> = kept.iter().map(|d| src[*d]).collect();
    format!("extents {src:?} without the reduced axes are {left:?}, but the destination has {dst:?}")
}
