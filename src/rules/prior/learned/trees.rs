//! Boosted regression trees: numbers in, the sum of what the trees say out.

use serde::{Deserialize, Serialize};

/// Trees that were grown one on what the ones before left over.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Forest {
    /// What is looked at, in the order of the numbers.
    pub names: Vec<String>,
    /// Ascending borders of each number, at most 254, which trees compare with.
    pub edges: Vec<Vec<f32>>,
    /// The trees.
    pub trees: Vec<Tree>,
}

/// A full binary tree. Node `i` goes on to `2 i + 1`, or to `2 i + 2` where its number lies above its border.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Tree {
    /// For each node, level by level, the position of its number and of its border; one after the last border is never
    /// crossed.
    pub nodes: Vec<[u8; 2]>,
    /// What each leaf adds, in [`UNIT`]s.
    pub leaves: Vec<i16>,
}

/// What leaves count in.
pub const UNIT: f64 = 1.0 / 4096.0;

impl Forest {
    /// Between which borders each of `numbers` lies.
    pub fn bins(&self, numbers: &[f32]) -> Vec<u8> {
        let bin = |(n, edges): (&f32, &Vec<f32>)| edges.partition_point(|e| e < n) as u8;
        numbers.iter().zip(&self.edges).map(bin).collect()
    }

    /// The sum of what the trees say of `numbers`.
    pub fn sum(&self, numbers: &[f32]) -> f64 {
        let bins = self.bins(numbers);
        let sum: i64 = self.trees.iter().map(|t| i64::from(t.leaves[t.leaf(&bins)])).sum();
        sum as f64 * UNIT
    }
}

impl Tree {
    /// The leaf that numbers between such borders come to.
    pub fn leaf(&self, bins: &[u8]) -> usize {
        let mut node = 0;
        while let Some([number, border]) = self.nodes.get(node) {
            node = 2 * node + 1 + usize::from(bins[*number as usize] > *border);
        }
        node - self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_go_right_above_a_border_and_add_up() {
        let tree = |leaves: [i16; 4]| Tree { nodes: vec![[0, 0], [1, 0], [1, 1]], leaves: leaves.into() };
        let forest = Forest {
            names: vec!["a".into(), "b".into()],
            edges: vec![vec![1.0], vec![2.0, 3.0]],
            trees: vec![tree([1, 2, 3, 4]), tree([10, 20, 30, 40])],
        };
        let cases = [([1.0, 2.0], 11.0), ([1.0, 2.5], 22.0), ([1.5, 3.0], 33.0), ([1.5, 3.5], 44.0)];
        for (numbers, sum) in cases {
            assert_eq!(forest.sum(&numbers), sum * UNIT, "{numbers:?}");
        }
    }
}
