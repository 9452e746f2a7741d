//! How a product on tensor cores is cut into tiles, as its outline says.

/// A product in tiles.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tiles {
    /// Tiles of the launch, parts of the reduced axis counted apart.
    pub tiles: i64,
    /// Fills of shared memory for each.
    pub fills: i64,
    /// Fills that run ahead.
    pub ahead: i64,
    /// Multiply-adds of a step.
    pub products: i64,
    /// Bytes that a step fills.
    pub filled: i64,
    /// Bytes of a row of these.
    pub row: i64,
    /// Bytes that shared memory takes and gives in a step.
    pub shared: i64,
    /// Of each factor, copies of a step, and bytes of each.
    pub copies: [[i64; 2]; 2],
    /// Elements of a result's tile.
    pub outputs: i64,
    /// Bytes that leave for each tile, or come to make its results.
    pub moved: i64,
    /// True where they leave in rows that are not aligned.
    pub unaligned: bool,
    /// True where a row of a tile's results is longer than a line of the cache and ends within one.
    pub broken_lines: bool,
    /// True where each result takes elements of its own besides the product.
    pub fetched: bool,
    /// Functions of an element that its result takes.
    pub functions: i64,
    /// Warpgroups multiply.
    pub warpgroups: bool,
    /// Blocks ask for each tile but the first, and are given it by the hardware.
    pub asked: bool,
    /// Who copies (`roles` of the rule).
    pub role: Role,
}

/// Who copies, and who waits for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// All threads do, and multiply.
    #[default]
    All,
    /// Threads of their own.
    Copy,
    /// The same, in blocks that take one tile after the other.
    Persistent,
    /// And the others take tiles in turn.
    Turns,
}
