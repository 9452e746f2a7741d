//! The order in which the elements of a box are visited, and how many of them one access takes.

use crate::analysis::{Ranges, linear, multiple_of, simplify};
use crate::ir::{Expr, Name};
use crate::tile::View;
use crate::tile::view::unravel;

/// Widest access to shared memory and to registers of targets without wider loads, in bytes.
const PLAIN_ACCESS: i64 = 16;

/// Variables of an element's number in a walk.
const RUN: &str = "run of a walk";
const LANE: &str = "lane of a walk";

/// From an index into a box to an element offset.
type Place<'a> = Box<dyn Fn(&[Expr]) -> Expr + 'a>;

/// One side of a copy: where the elements of a box are.
pub(crate) struct Side<'a> {
    /// The element offset in the storage.
    pub at: Place<'a>,
    /// The same before the permutation of memory.
    pub plain: Place<'a>,
    /// Elements that the permutation moves together.
    pub chunk: i64,
    /// Bytes of an element.
    pub bytes: i64,
    /// Alignment of the storage in bytes.
    pub align: i64,
    /// Widest access in bytes.
    pub widest: i64,
    /// True for device memory, whose accesses should be adjacent above all.
    pub global: bool,
}

/// An order of visit, `lanes` elements at a time.
pub(crate) struct Walk {
    extent: Vec<i64>,
    /// Dimensions of the box, the slowest first.
    order: Vec<usize>,
    /// Elements of one access, a power of two that divides their number.
    pub lanes: i64,
}

impl<'a> Side<'a> {
    /// The side of a tile, over indices that `spread` turns into indices of the tile. Accesses to
    /// device memory and registers are up to `widest` bytes.
    pub fn of(view: &'a View, widest: i64, spread: impl Fn(&[Expr]) -> Vec<Expr> + Clone + 'a) -> Side<'a> {
        let swizzle = view.layout().ok().and_then(|(l, _)| l.swizzle());
        let to_plain = spread.clone();
        Side {
            at: Box::new(move |i| view.at(&spread(i))),
            plain: Box::new(move |i| view.at_unswizzled(&to_plain(i))),
            chunk: swizzle.map_or(i64::MAX, |s| if s.swizzle_len() > 0 { s.chunk() } else { i64::MAX }),
            bytes: view.dtype.bytes() as i64,
            align: if view.is_local() { i64::MAX } else { view.align },
            widest: if view.is_shared() { PLAIN_ACCESS } else { widest.max(PLAIN_ACCESS) },
            global: view.is_global(),
        }
    }

    /// True where every `lanes` elements from a multiple of `lanes` on, in the order of the walk, are
    /// adjacent and aligned.
    pub fn takes(&self, walk: &Walk, ranges: &Ranges) -> bool {
        let lanes = walk.lanes;
        let wide = lanes * self.bytes;
        let fits = wide <= self.widest && wide <= self.align && (self.chunk == i64::MAX || self.chunk % lanes == 0);
        fits && self.run_starts(walk, ranges).is_some_and(|start| multiple_of(&start.0, &start.1) % lanes == 0)
    }

    /// Where run number `number` of a walk starts. Known to be a multiple of the walk's lanes where
    /// [`Side::takes`] says so: a number with factors of its own may hide that from `multiple_of`, which
    /// then takes the way that `takes` went.
    pub fn start(&self, walk: &Walk, number: &Expr, ranges: &Ranges) -> Expr {
        let simple =
            |index: Vec<Expr>, ranges: &Ranges| -> Vec<Expr> { index.iter().map(|e| simplify(e, ranges)).collect() };
        let index = walk.index(number.clone() * Expr::i64(walk.lanes));
        let start = simplify(&(self.at)(&simple(index, ranges)), ranges);
        if multiple_of(&start, ranges) % walk.lanes == 0 {
            return start;
        }
        let (number_of, inside) = walk.runs_and_lanes(ranges);
        let start = simplify(&(self.at)(&simple(walk.index(number_of), &inside)), &inside);
        let set = |n: &Name| match n.as_str() {
            RUN => Some(number.clone()),
            LANE => Some(Expr::i64(0)),
            _ => None,
        };
        simplify(&start.subst(&set), ranges)
    }

    /// Where runs of `lanes` adjacent elements start, if the walk meets its elements in such runs.
    fn run_starts(&self, walk: &Walk, ranges: &Ranges) -> Option<(Expr, Ranges)> {
        let (number, inside) = walk.runs_and_lanes(ranges);
        let index: Vec<Expr> = walk.index(number).iter().map(|e| simplify(e, &inside)).collect();
        let (step, start) = linear(&(self.plain)(&index), &Name::new(LANE), &inside)?;
        step.is_int(1).then_some((start, inside))
    }
}

impl Walk {
    /// The order that allows the widest accesses on all sides; of equals one that meets adjacent
    /// elements one after the other, in device memory above all, and the last dimension fastest.
    pub fn widest(extent: &[i64], sides: &[&Side], ranges: &Ranges) -> Walk {
        if extent.contains(&0) {
            return Walk::in_order(extent);
        }
        let orders = (0..extent.len().max(1)).map(|fastest| order(extent.len(), fastest));
        let scored = orders.map(|order| {
            let mut walk = Walk { extent: extent.to_vec(), order, lanes: 1 };
            walk.lanes = walk.most_lanes(sides, ranges);
            let score = (walk.lanes, walk.adjacency(sides, ranges));
            (score, walk)
        });
        let best = scored.reduce(|best, next| if next.0 >= best.0 { next } else { best });
        best.map_or_else(|| Walk::in_order(extent), |(_, walk)| walk)
    }

    /// One element after the other, row-major.
    pub fn in_order(extent: &[i64]) -> Walk {
        Walk { extent: extent.to_vec(), order: (0..extent.len()).collect(), lanes: 1 }
    }

    /// The order in which a dimension is the fastest, so many elements at a time.
    pub fn along(extent: &[i64], fastest: usize, lanes: i64) -> Walk {
        Walk { extent: extent.to_vec(), order: order(extent.len(), fastest), lanes }
    }

    /// The longest runs, of a multiple of `unit` bytes, that are adjacent and aligned to that on all
    /// sides; `None` where there are none.
    pub fn runs(extent: &[i64], sides: &[&Side], unit: i64, ranges: &Ranges) -> Option<Walk> {
        let mut lengths = vec![];
        let mut inner = 1;
        for n in extent.iter().rev() {
            lengths.push(inner * n);
            inner *= n;
        }
        lengths.reverse();
        lengths.extend(sides.iter().map(|s| s.chunk).min());
        let walk = |lanes| Walk { lanes, ..Walk::in_order(extent) };
        let fits = |s: &&Side, walk: &Walk| {
            let whole = walk.len() % walk.lanes == 0 && walk.lanes * s.bytes % unit == 0 && s.align % unit == 0;
            let kept = s.chunk == i64::MAX || s.chunk % walk.lanes == 0;
            let aligned = |(start, inside): (Expr, Ranges)| multiple_of(&start, &inside) * s.bytes % unit == 0;
            whole && kept && s.run_starts(walk, ranges).is_some_and(aligned)
        };
        lengths.into_iter().map(walk).find(|w| sides.iter().all(|s| fits(s, w)))
    }

    /// Number of elements.
    pub fn len(&self) -> i64 {
        self.extent.iter().product()
    }

    /// The index of element number `number` of the walk.
    pub fn index(&self, number: Expr) -> Vec<Expr> {
        let turned: Vec<i64> = self.order.iter().map(|d| self.extent[*d]).collect();
        let mut out = vec![Expr::i64(0); self.extent.len()];
        for (d, i) in self.order.iter().zip(unravel(number, &turned)) {
            out[*d] = i;
        }
        out
    }

    /// The number of any element, made of its run and its lane in the run, with their ranges.
    fn runs_and_lanes(&self, ranges: &Ranges) -> (Expr, Ranges) {
        let mut inside = ranges.clone();
        inside.set(RUN, 0, self.len() / self.lanes - 1);
        inside.set(LANE, 0, self.lanes - 1);
        let var = |n: &str| Expr::var(Name::new(n), crate::ir::DType::I64);
        (var(RUN) * Expr::i64(self.lanes) + var(LANE), inside)
    }

    fn most_lanes(&self, sides: &[&Side], ranges: &Ranges) -> i64 {
        let bytes = sides.iter().map(|s| s.bytes).max().unwrap_or(1);
        let widths = [32, 16, 8, 4, 2].map(|width| width / bytes);
        let lanes = widths.into_iter().find(|lanes| {
            let walk = Walk { lanes: *lanes, extent: self.extent.clone(), order: self.order.clone() };
            *lanes > 1 && self.len() % lanes == 0 && sides.iter().all(|s| s.takes(&walk, ranges))
        });
        lanes.unwrap_or(1)
    }

    /// How much of what follows each other is adjacent.
    fn adjacency(&self, sides: &[&Side], ranges: &Ranges) -> i64 {
        let Some(fastest) = self.order.last().map(|d| self.extent[*d]) else { return 0 };
        let walk = Walk { lanes: fastest, extent: self.extent.clone(), order: self.order.clone() };
        let adjacent = |s: &&&Side| s.run_starts(&walk, ranges).is_some();
        sides.iter().filter(adjacent).map(|s| if s.global { 2 } else { 1 }).sum()
    }
}

/// All dimensions, the fastest last.
fn order(rank: usize, fastest: usize) -> Vec<usize> {
    (0..rank).filter(|d| *d != fastest).chain((rank > 0).then_some(fastest)).collect()
}
