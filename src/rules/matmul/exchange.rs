//! Whether the factors of a product are multiplied in order, or exchanged: columns of the result are then the rows of
//! instructions, of which there are 64 at a time, and rows their columns, of which there are 8 at a time.

use crate::rules::Knobs;

/// The order in which factors are multiplied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Factors {
    #[default]
    InOrder,
    Exchanged,
}

impl Factors {
    /// What is said of rows and columns of the result, of rows and columns of instructions.
    pub fn order<T>(self, [rows, columns]: [T; 2]) -> [T; 2] {
        match self {
            Factors::InOrder => [rows, columns],
            Factors::Exchanged => [columns, rows],
        }
    }

    /// A block's tile, by rows and columns of instructions.
    pub fn tile(self, k: &Knobs) -> [i64; 2] {
        self.order([k.get("block_m"), k.get("block_n")])
    }

    /// Warpgroups that share out these.
    pub fn groups(self, k: &Knobs) -> [i64; 2] {
        self.order(["groups_m", "groups_n"].map(|name| k.find(name).unwrap_or(1)))
    }
}
