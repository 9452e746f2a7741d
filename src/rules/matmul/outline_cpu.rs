//! The outline of a matrix product on the CPU, from sizes and knobs.

use super::outline::Sizes;
use crate::rules::space::limits::over;
use crate::rules::{LaunchOutline, Outline};

/// How a point shares a product out.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// Rows, columns and steps of a task's block.
    pub block: [i64; 3],
    /// Rows of the tile in registers.
    pub rows: i64,
    /// Columns of it.
    pub columns: i64,
    /// Vector operations of the tile for one step along the reduced axis (a fraction where vectors run along it).
    pub steps_per_operation: i64,
    /// Vector registers that it wants, and those that there are.
    pub registers: [i64; 2],
    /// Bytes of a vector.
    pub vector: i64,
    /// Elements that a task packs for one block of the reduced axis.
    pub packed: i64,
}

/// The launch of a product whose tasks own blocks of the result.
pub fn blocks(z: &Sizes, b: &Blocks) -> Outline {
    let ([m, n, k], [size_a, size_b, size_c]) = (z.extent, z.bytes);
    let [rows, columns] = [over(m, b.block[0]), over(n, b.block[1])];
    let turns = over(k, b.block[2]);
    let tiles = over(b.block[0], b.rows) * over(b.block[1], b.columns);
    let steps = (tiles * turns * over(b.block[2], b.steps_per_operation)).max(1);
    let lanes = (b.vector / 4).max(1);
    let operations = (b.rows * b.columns * b.steps_per_operation / lanes).max(1);
    // A tile is added to the task's block at the end; elements are packed about one a cycle.
    let beside = over(turns * (b.packed + 2 * tiles * operations), steps);
    Outline::one(LaunchOutline {
        blocks: z.batch * rows * columns,
        // The guess counts 16 registers.
        load_regs: over(16 * b.registers[0], b.registers[1].max(1)),
        load_bytes: b.vector,
        in_flight: b.vector,
        steps,
        read: z.batch * (m * k * size_a + k * n * size_b),
        written: z.batch * m * n * size_c,
        instructions: operations + b.rows / 2 + b.columns * b.steps_per_operation / lanes + 1 + beside,
        flops: 2 * z.batch * m * n * k,
        ..LaunchOutline::default()
    })
}
