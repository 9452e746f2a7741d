//! The outline of a matrix product on CUDA cores, from sizes and knobs.

use crate::rules::find::product::Product;
use crate::rules::{LaunchOutline, Outline};

/// The sizes of a product, all constant.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Products side by side.
    pub batch: i64,
    /// Rows, columns and steps of one product.
    pub extent: [i64; 3],
    /// Bytes of an element of the factors, and of the result.
    pub bytes: [i64; 3],
}

/// How a point shares a product out.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Rows, columns and steps of a block's tile.
    pub block: [i64; 3],
    /// Rows and columns of a thread.
    pub thread: [i64; 2],
    /// Tiles in shared memory.
    pub stages: i64,
    /// Second argument of the launch bounds.
    pub min_blocks: i64,
    /// Parts into which the reduced axis is cut.
    pub split: i64,
}

impl Sizes {
    /// The sizes, where all are known.
    pub fn of(p: &Product) -> Option<Sizes> {
        let [batch, rows, columns, depth] = p.extents();
        let bytes = [p.a.narrow.dtype(), p.b.narrow.dtype(), p.dtype].map(|d| d.bytes() as i64);
        Some(Sizes { batch: batch?, extent: [rows?, columns?, depth?], bytes })
    }

    /// Tiles along rows and columns.
    fn tiles(&self, s: &Shares) -> [i64; 2] {
        [0, 1].map(|side| over(self.extent[side], s.block[side]))
    }

    /// Blocks of the grid.
    pub fn blocks(&self, s: &Shares) -> i64 {
        self.tiles(s).iter().product::<i64>() * self.batch * s.split
    }
}

/// How often `b` fits into `a`, rounded up.
pub fn over(a: i64, b: i64) -> i64 {
    (a + b - 1) / b.max(1)
}

/// The launch of a product, and that of the sums of its parts.
pub fn fma(z: &Sizes, s: &Shares) -> Outline {
    let ([m, n, k], [a, b, c]) = (z.extent, z.bytes);
    let [rows, columns] = z.tiles(s);
    let threads = s.block[0] / s.thread[0] * (s.block[1] / s.thread[1]);
    let staged = s.block[2] * (s.block[0] * a + s.block[1] * b);
    let each = staged / threads.max(1);
    let [tm, tn] = s.thread;
    let padded = (rows * s.block[0] * columns * s.block[1]) as f64 / (m * n).max(1) as f64;
    let main = LaunchOutline {
        blocks: z.blocks(s),
        threads,
        min_blocks: s.min_blocks,
        state_regs: tm * tn + tm + tn + 24,
        load_regs: each / 4,
        smem: staged * s.stages.max(1),
        load_bytes: 16,
        in_flight: each * (s.stages - 1).max(1),
        steps: over(over(k, s.split), s.block[2]),
        read: z.batch * (m * k * a + n * k * b),
        written: z.batch * m * n * c * s.split,
        padding: padded,
        instructions: s.block[2] * (tm * tn + (tm + tn) / 4) + each / 4 + 20,
        flops: z.batch * m * n * k * 2,
        staged: true,
        ..LaunchOutline::default()
    };
    let mut launches = vec![main];
    if s.split > 1 {
        let outputs = z.batch * m * n;
        launches.push(LaunchOutline {
            blocks: over(outputs, 256),
            threads: 256,
            state_regs: 24,
            load_regs: s.split,
            load_bytes: c,
            in_flight: c * s.split,
            steps: 1,
            read: outputs * c * s.split,
            written: outputs * c,
            instructions: 4 * s.split + 20,
            flops: outputs * s.split,
            from_cache: true,
            ..LaunchOutline::default()
        });
    }
    Outline { launches }
}
