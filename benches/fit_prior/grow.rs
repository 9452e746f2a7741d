//! Grows boosted regression trees on weighted squares.

use daylight::rules::prior::learned::trees::{Forest, Tree, UNIT};
use rayon::prelude::*;

/// Borders of a number.
const BORDERS: usize = 127;
/// Levels of a tree.
const DEPTH: usize = 7;
/// Part of what a tree finds that it adds.
const RATE: f64 = 0.07;
/// Parts of the rows and of the numbers that a tree sees.
const ROWS: f64 = 0.8;
const NUMBERS: f64 = 0.3;
/// Weight of rows on each side of a border, at least.
const LEAST: f64 = 5.0;
/// Weight of rows that say nothing, in each leaf.
const RIDGE: f64 = 1.0;

/// What trees are grown on: numbers, what they should say, and how much that counts.
pub struct Row {
    pub numbers: Vec<f32>,
    pub wanted: f64,
    pub weight: f64,
}

/// As many trees on rows whose numbers have those names.
pub fn forest(names: Vec<String>, rows: &[Row], trees: usize) -> Forest {
    let edges = (0..names.len()).map(|i| borders(rows.iter().map(|r| r.numbers[i]).collect())).collect();
    let mut forest = Forest { names, edges, trees: vec![] };
    let bins: Vec<Vec<u8>> = rows.iter().map(|r| forest.bins(&r.numbers)).collect();
    let mut left: Vec<f64> = rows.iter().map(|r| r.wanted).collect();
    let mut dice = Dice(1);
    for _ in 0..trees {
        let seen: Vec<usize> = (0..rows.len()).filter(|_| dice.roll() < ROWS).collect();
        let numbers: Vec<usize> = (0..forest.names.len()).filter(|_| dice.roll() < NUMBERS).collect();
        let tree = Growing { rows, bins: &bins, left: &left, numbers: &numbers }.tree(seen);
        for (left, bins) in left.iter_mut().zip(&bins) {
            *left -= f64::from(tree.leaves[tree.leaf(bins)]) * UNIT;
        }
        forest.trees.push(tree);
    }
    forest
}

/// Borders between which as many values lie.
fn borders(mut values: Vec<f32>) -> Vec<f32> {
    values.sort_by(f32::total_cmp);
    let most = values.last().copied();
    let mut out: Vec<f32> =
        (1..=BORDERS).filter_map(|i| values.get(i * values.len() / (BORDERS + 1)).copied()).collect();
    out.dedup();
    out.retain(|edge| Some(*edge) != most);
    out
}

/// Numbers from 0 to 1 that are the same in each run (a multiplicative congruential generator, Lehmer's).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0 * 48271 % 0x7fff_ffff;
        self.0 as f64 / f64::from(0x7fff_ffff)
    }
}

/// Weights, and weighted sums of what is left, of some rows.
#[derive(Clone, Copy, Default)]
struct Sums {
    weight: f64,
    left: f64,
}

impl Sums {
    /// By how much the squares shrink where these rows have a leaf.
    fn gain(self) -> f64 {
        self.left * self.left / (self.weight + RIDGE)
    }
}

struct Growing<'a> {
    rows: &'a [Row],
    bins: &'a [Vec<u8>],
    left: &'a [f64],
    numbers: &'a [usize],
}

impl Growing<'_> {
    fn tree(&self, seen: Vec<usize>) -> Tree {
        let mut tree = Tree::default();
        let mut level = vec![seen];
        for _ in 0..DEPTH {
            let mut next = vec![];
            for rows in level {
                let [number, border] = self.best(&rows).unwrap_or([0, u8::MAX]);
                tree.nodes.push([number, border]);
                let (above, below) = rows.into_iter().partition(|r| self.bins[*r][number as usize] > border);
                next.extend([below, above]);
            }
            level = next;
        }
        tree.leaves = level.iter().map(|rows| self.leaf(rows)).collect();
        tree
    }

    fn leaf(&self, rows: &[usize]) -> i16 {
        let all = self.sums(rows);
        (RATE * all.left / (all.weight + RIDGE) / UNIT).round() as i16
    }

    fn sums(&self, rows: &[usize]) -> Sums {
        rows.iter().fold(Sums::default(), |sums, r| self.with(sums, *r))
    }

    fn with(&self, s: Sums, row: usize) -> Sums {
        let weight = self.rows[row].weight;
        Sums { weight: s.weight + weight, left: s.left + weight * self.left[row] }
    }

    /// The number and the border that tell the rows apart best.
    fn best(&self, rows: &[usize]) -> Option<[u8; 2]> {
        let all = self.sums(rows);
        let found: Vec<(f64, [u8; 2])> =
            self.numbers.par_iter().filter_map(|number| self.border(rows, all, *number)).collect();
        // of equal ones the first, however many threads looked
        found.into_iter().reduce(|best, own| if own.0 > best.0 { own } else { best }).map(|(_, at)| at)
    }

    /// The best border of one number, and by how much the squares shrink.
    fn border(&self, rows: &[usize], all: Sums, number: usize) -> Option<(f64, [u8; 2])> {
        let mut sums = [Sums::default(); BORDERS + 1];
        for r in rows {
            let bin = self.bins[*r][number] as usize;
            sums[bin] = self.with(sums[bin], *r);
        }
        let mut best = (all.gain() + 1e-9, None);
        let mut below = Sums::default();
        for (border, of) in sums.iter().enumerate() {
            below = Sums { weight: below.weight + of.weight, left: below.left + of.left };
            let above = Sums { weight: all.weight - below.weight, left: all.left - below.left };
            let gain = below.gain() + above.gain();
            if below.weight >= LEAST && above.weight >= LEAST && gain > best.0 {
                best = (gain, Some([number as u8, border as u8]));
            }
        }
        best.1.map(|at| (best.0, at))
    }
}
