//! Boosted regression trees: numbers in, the sum of what the trees say out; and the file that they are kept in.
//!
//! The file is a line of JSON (names and borders) and then the nodes of one tree after the other, each before those below it: of a node
//! that goes on the position of its number and of its border, a byte each; of a leaf 255 and what it adds, two bytes, the
//! low one first.

use serde::{Deserialize, Serialize};

/// Trees that were grown one on what the ones before left over, or beside each other.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Forest {
    /// What they look at.
    pub seen: Seen,
    /// The trees.
    pub trees: Vec<Tree>,
}

/// What trees look at.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// The names of the numbers, in their order, at most 255.
    pub names: Vec<String>,
    /// Ascending borders of each number, at most 254, which trees compare with.
    pub edges: Vec<Vec<f32>>,
}

/// A binary tree: its nodes, each before those below it, what lies below a border before what lies above.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tree(Vec<Node>);

#[derive(Clone, Copy, PartialEq, Debug)]
struct Node {
    /// Position of the number that is looked at, or [`LEAF`].
    number: u8,
    /// Position of the border that it is compared with; one after the last is never crossed.
    border: u8,
    /// Where the tree goes on above the border (below it, with the next node); of a leaf, the bits of what it adds.
    above: u16,
}

/// The number of a leaf.
const LEAF: u8 = u8::MAX;

/// What leaves count in.
pub const UNIT: f64 = 1.0 / 32768.0;

impl Forest {
    /// The sum of what the trees say of `numbers`.
    pub fn sum(&self, numbers: &[f32]) -> f64 {
        let bins = self.seen.bins(numbers);
        self.trees.iter().map(|t| i64::from(t.says(&bins))).sum::<i64>() as f64 * UNIT
    }

    /// The trees of a file; `None` of one that is none.
    pub fn read(file: &[u8]) -> Option<Forest> {
        let end = file.iter().position(|b| *b == b'\n')?;
        let mut forest = Forest { seen: serde_json::from_slice(&file[..end]).ok()?, trees: vec![] };
        let mut rest = &file[end + 1..];
        while !rest.is_empty() {
            let mut tree = Tree::default();
            tree.read(&mut rest)?;
            forest.trees.push(tree);
        }
        Some(forest)
    }

    /// The file of these trees.
    pub fn write(&self) -> Vec<u8> {
        let mut file = serde_json::to_vec(&self.seen).expect("names and numbers are written");
        file.push(b'\n');
        for node in self.trees.iter().flat_map(|t| &t.0) {
            match node.number {
                LEAF => file.extend([[LEAF].as_slice(), &node.above.to_le_bytes()].concat()),
                number => file.extend([number, node.border]),
            }
        }
        file
    }
}

impl Seen {
    /// Between which borders each of `numbers` lies.
    pub fn bins(&self, numbers: &[f32]) -> Vec<u8> {
        let bin = |(n, edges): (&f32, &Vec<f32>)| edges.partition_point(|e| e < n) as u8;
        numbers.iter().zip(&self.edges).map(bin).collect()
    }
}

impl Tree {
    /// Adds a leaf, which adds so many [`UNIT`]s.
    pub fn leaf(&mut self, adds: i16) {
        self.0.push(Node { number: LEAF, border: 0, above: adds as u16 });
    }

    /// Adds a node that goes on: the nodes below its border come next, and after [`Tree::above`] of what this gives those above.
    pub fn split(&mut self, number: u8, border: u8) -> usize {
        self.0.push(Node { number, border, above: 0 });
        self.0.len() - 1
    }

    /// From here on nodes lie above the border of a node; `None` where there are more before than it can tell.
    pub fn above(&mut self, split: usize) -> Option<()> {
        self.0[split].above = u16::try_from(self.0.len()).ok()?;
        Some(())
    }

    /// What the tree adds for numbers between such borders, in [`UNIT`]s.
    pub fn says(&self, bins: &[u8]) -> i16 {
        let mut at = 0;
        loop {
            let node = self.0[at];
            if node.number == LEAF {
                return node.above as i16;
            }
            at = if bins[node.number as usize] > node.border { node.above as usize } else { at + 1 };
        }
    }

    /// The node that comes next in a file, and those below it.
    fn read(&mut self, rest: &mut &[u8]) -> Option<()> {
        let number = next(rest)?;
        if number == LEAF {
            self.leaf(i16::from_le_bytes([next(rest)?, next(rest)?]));
            return Some(());
        }
        let split = self.split(number, next(rest)?);
        self.read(rest)?;
        self.above(split)?;
        self.read(rest)
    }
}

fn next(rest: &mut &[u8]) -> Option<u8> {
    let (first, more) = rest.split_first()?;
    *rest = more;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds two splits, of the second number above the first.
    fn add(tree: &mut Tree, [below, between, above]: [i16; 3]) {
        let first = tree.split(0, 0);
        tree.leaf(below);
        tree.above(first).unwrap();
        let second = tree.split(1, 1);
        tree.leaf(between);
        tree.above(second).unwrap();
        tree.leaf(above);
    }

    fn forest() -> Forest {
        let seen = Seen { names: vec!["a".into(), "b".into()], edges: vec![vec![1.0], vec![2.0, 3.0]] };
        let (mut flat, mut deep) = (Tree::default(), Tree::default());
        add(&mut flat, [1, 2, 3]);
        let first = deep.split(1, 0);
        add(&mut deep, [10, 20, 30]);
        deep.above(first).unwrap();
        deep.leaf(-40);
        Forest { seen, trees: vec![flat, deep] }
    }

    #[test]
    fn trees_go_on_above_a_border_and_add_up() {
        let cases = [([1.0, 2.0], 11.0), ([1.5, 2.0], 22.0), ([1.0, 2.5], -39.0), ([1.5, 3.5], -37.0)];
        for (numbers, sum) in cases {
            assert_eq!(forest().sum(&numbers), sum * UNIT, "{numbers:?}");
        }
    }

    #[test]
    fn a_file_gives_the_trees_again_and_half_of_one_gives_none() {
        let file = forest().write();
        assert_eq!(Forest::read(&file), Some(forest()));
        assert_eq!(Forest::read(&file[..file.len() - 1]), None);
        assert_eq!(Forest::read(b"{}"), None);
    }
}
