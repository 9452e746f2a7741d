//! Grows boosted regression trees on weighted squares, leaf by leaf: of the leaves of a tree that one goes on next of which two tell
//! the rows apart best.

use daylight::rules::prior::learned::trees::{Forest, Seen, Tree, UNIT};
use rayon::prelude::*;

/// Forests that are grown apart, from other parts of the rows and numbers, and say their mean.
const FORESTS: u64 = 3;
/// Trees of each.
const TREES: usize = 300;
/// Leaves of a tree.
const LEAVES: usize = 255;
/// Borders of a number.
const BORDERS: usize = 127;
/// Part of what a tree finds that it adds.
const RATE: f64 = 0.12;
/// Parts of the rows and of the numbers that a tree sees.
const ROWS: f64 = 0.8;
const NUMBERS: f64 = 0.5;
/// Weight of rows on each side of a border, at least.
const LEAST: f64 = 5.0;
/// Weight of rows that say nothing, in each leaf.
const RIDGE: f64 = 1.0;
/// Part of the squares by which a border has to make them shrink.
const GAIN: f64 = 1e-9;

/// What trees are grown on: numbers, what they should say, and how much that counts.
pub struct Row {
    pub numbers: Vec<f32>,
    pub wanted: f64,
    pub weight: f64,
}

/// Trees on rows whose numbers have those names.
pub fn forest(names: Vec<String>, rows: &[Row]) -> Forest {
    let edges =
        (0..names.len()).into_par_iter().map(|i| borders(rows.iter().map(|r| r.numbers[i]).collect())).collect();
    let seen = Seen { names, edges };
    let bins: Vec<Vec<u8>> = rows.par_iter().map(|r| seen.bins(&r.numbers)).collect();
    let columns: Vec<Vec<u8>> =
        (0..seen.names.len()).into_par_iter().map(|i| bins.iter().map(|b| b[i]).collect()).collect();
    let trees = (1..=FORESTS).flat_map(|seed| boosted(rows, &bins, &columns, Dice(seed))).collect();
    Forest { seen, trees }
}

/// Trees of which each is grown on what the ones before left over.
fn boosted(rows: &[Row], bins: &[Vec<u8>], columns: &[Vec<u8>], mut dice: Dice) -> Vec<Tree> {
    let mut left: Vec<f64> = rows.iter().map(|r| r.wanted).collect();
    let grown = |_| {
        let seen: Vec<u32> = (0..rows.len() as u32).filter(|_| dice.roll() < ROWS).collect();
        let numbers: Vec<usize> = (0..columns.len()).filter(|_| dice.roll() < NUMBERS).collect();
        let tree = Growing { rows, columns, left: &left, numbers: &numbers }.tree(seen);
        left.par_iter_mut().zip(bins).for_each(|(left, bins)| {
            *left -= f64::from(tree.says(bins)) * UNIT * FORESTS as f64;
        });
        tree
    };
    (0..TREES).map(grown).collect()
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
    fn and(self, other: Sums) -> Sums {
        Sums { weight: self.weight + other.weight, left: self.left + other.left }
    }

    fn without(self, other: Sums) -> Sums {
        Sums { weight: self.weight - other.weight, left: self.left - other.left }
    }

    /// By how much the squares shrink where these rows have a leaf.
    fn gain(self) -> f64 {
        self.left * self.left / (self.weight + RIDGE)
    }

    /// What a leaf of these rows adds.
    fn adds(self) -> i16 {
        (RATE * self.left / (self.weight + RIDGE) / FORESTS as f64 / UNIT).round() as i16
    }
}

/// The sums of the rows of a leaf between any two borders of a number.
type Between = [Sums; BORDERS + 1];

struct Growing<'a> {
    rows: &'a [Row],
    /// Of each number, between which borders that of each row lies.
    columns: &'a [Vec<u8>],
    left: &'a [f64],
    numbers: &'a [usize],
}

/// A leaf that may go on.
struct Leaf {
    rows: Vec<u32>,
    all: Sums,
    between: Vec<Between>,
    best: Option<Border>,
}

/// Where a leaf may go on.
#[derive(Clone, Copy)]
struct Border {
    gain: f64,
    number: usize,
    border: u8,
}

/// A node of a tree that grows: a leaf, or where it went on, with the positions of both nodes below.
enum Grown {
    Leaf(Leaf),
    Split(Border, [usize; 2]),
}

impl Growing<'_> {
    fn tree(&self, seen: Vec<u32>) -> Tree {
        let between = self.between(&seen);
        let mut nodes = vec![Grown::Leaf(self.leaf(seen, between))];
        for _ in 1..LEAVES {
            let Some((at, border)) = next(&nodes) else { break };
            let split = Grown::Split(border, [nodes.len(), nodes.len() + 1]);
            if let Grown::Leaf(leaf) = std::mem::replace(&mut nodes[at], split) {
                nodes.extend(self.split(leaf, border).map(Grown::Leaf));
            }
        }
        let mut tree = Tree::default();
        finish(&mut tree, &nodes, 0);
        tree
    }

    fn leaf(&self, rows: Vec<u32>, between: Vec<Between>) -> Leaf {
        let all = rows.iter().fold(Sums::default(), |sums, r| sums.and(self.sums(*r)));
        let best = between.par_iter().zip(self.numbers).filter_map(|(of, number)| best(of, all, *number));
        let best = best.collect::<Vec<Border>>();
        // of equal ones the first, however many threads looked
        let best = best.into_iter().reduce(|best, own| if own.gain > best.gain { own } else { best });
        Leaf { rows, all, between, best }
    }

    /// Of the leaf with fewer rows the sums are counted, of the other they are what that leaves.
    fn split(&self, leaf: Leaf, at: Border) -> [Leaf; 2] {
        let column = &self.columns[at.number];
        let (above, below): (Vec<u32>, Vec<u32>) = leaf.rows.iter().partition(|r| column[**r as usize] > at.border);
        let fewer = self.between(if above.len() < below.len() { &above } else { &below });
        let mut rest = leaf.between;
        for (rest, fewer) in rest.iter_mut().flatten().zip(fewer.iter().flatten()) {
            *rest = rest.without(*fewer);
        }
        let [of_below, of_above] = if above.len() < below.len() { [rest, fewer] } else { [fewer, rest] };
        [self.leaf(below, of_below), self.leaf(above, of_above)]
    }

    fn sums(&self, row: u32) -> Sums {
        let weight = self.rows[row as usize].weight;
        Sums { weight, left: weight * self.left[row as usize] }
    }

    fn between(&self, rows: &[u32]) -> Vec<Between> {
        let sums: Vec<Sums> = rows.iter().map(|r| self.sums(*r)).collect();
        let of = |number: &usize| {
            let mut between = [Sums::default(); BORDERS + 1];
            for (r, sums) in rows.iter().zip(&sums) {
                let bin = &mut between[self.columns[*number][*r as usize] as usize];
                *bin = bin.and(*sums);
            }
            between
        };
        self.numbers.par_iter().map(of).collect()
    }
}

/// The leaf that goes on next.
fn next(nodes: &[Grown]) -> Option<(usize, Border)> {
    let border = |(at, node): (usize, &Grown)| match node {
        Grown::Leaf(leaf) => Some((at, leaf.best?)),
        Grown::Split(..) => None,
    };
    nodes.iter().enumerate().filter_map(border).reduce(|best, own| if own.1.gain > best.1.gain { own } else { best })
}

/// Adds a node, and those below it, to a tree.
fn finish(tree: &mut Tree, nodes: &[Grown], at: usize) {
    match &nodes[at] {
        Grown::Leaf(leaf) => tree.leaf(leaf.all.adds()),
        Grown::Split(border, [below, above]) => {
            let split = tree.split(border.number as u8, border.border);
            finish(tree, nodes, *below);
            tree.above(split).expect("a tree has few leaves");
            finish(tree, nodes, *above);
        }
    }
}

/// The best border of one number.
fn best(between: &Between, all: Sums, number: usize) -> Option<Border> {
    let mut found: Option<Border> = None;
    let mut below = Sums::default();
    for (border, of) in between.iter().enumerate() {
        below = below.and(*of);
        let above = all.without(below);
        let gain = below.gain() + above.gain() - all.gain();
        let better = gain > found.map_or(GAIN, |f| f.gain);
        if better && below.weight >= LEAST && above.weight >= LEAST {
            found = Some(Border { gain, number, border: border as u8 });
        }
    }
    found
}
