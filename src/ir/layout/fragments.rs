//! The register fragments of tensor-core instructions, as the PTX ISA gives them: which lane of a
//! warp holds which element of a matrix, and as which element of its fragment.

use super::{Axis, Iter, TileLayout};
use std::collections::BTreeMap;

/// A matrix that the 32 lanes of a warp hold together. The layout is over `laneid` and over `m`, the
/// number of the element in the lane's fragment (`a0, a1, ...`), counted in elements and not in
/// 32-bit registers. Rows of an A operand are M and columns K; rows of a B operand K and columns N.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Fragment {
    /// A of `mma.m16n8k16` with 16-bit elements: 16x16, 8 elements a lane.
    M16N8K16A,
    /// B of `mma.m16n8k16` with 16-bit elements: 16x8, 4 elements a lane.
    M16N8K16B,
    /// A of `mma.m16n8k8` with tf32 elements: 16x8, 4 elements a lane.
    M16N8K8Tf32A,
    /// B of `mma.m16n8k8` with tf32 elements: 8x8, 2 elements a lane.
    M16N8K8Tf32B,
    /// A of `mma.m16n8k32` with 8-bit elements: 16x32, 16 elements a lane.
    M16N8K32Int8A,
    /// B of `mma.m16n8k32` with 8-bit elements: 32x8, 8 elements a lane.
    M16N8K32Int8B,
    /// C and D of every `mma.m16n8k*`: 16x8, 4 elements a lane.
    M16N8Acc,
    /// One 8x8 matrix of 16-bit elements that `ldmatrix` loads: 2 elements a lane.
    Ldmatrix,
    /// The same loaded with `.trans`: lanes hold pairs along a column.
    LdmatrixTrans,
}

impl Fragment {
    /// Every fragment.
    pub const ALL: [Fragment; 9] = [
        Fragment::M16N8K16A,
        Fragment::M16N8K16B,
        Fragment::M16N8K8Tf32A,
        Fragment::M16N8K8Tf32B,
        Fragment::M16N8K32Int8A,
        Fragment::M16N8K32Int8B,
        Fragment::M16N8Acc,
        Fragment::Ldmatrix,
        Fragment::LdmatrixTrans,
    ];

    /// Rows and columns of the matrix.
    pub fn shape(self) -> [i64; 2] {
        match self {
            Fragment::M16N8K16A => [16, 16],
            Fragment::M16N8K16B | Fragment::M16N8K8Tf32A | Fragment::M16N8Acc => [16, 8],
            Fragment::M16N8K8Tf32B | Fragment::Ldmatrix | Fragment::LdmatrixTrans => [8, 8],
            Fragment::M16N8K32Int8A => [16, 32],
            Fragment::M16N8K32Int8B => [32, 8],
        }
    }

    /// Elements that each lane holds.
    pub fn elements(self) -> i64 {
        let [rows, columns] = self.shape();
        rows * columns / 32
    }

    /// Where each element is. A lane is `4 group + member`: eight groups of four.
    pub fn layout(self) -> TileLayout {
        let register = |extent, stride| Iter::new(extent, stride, Axis::M);
        let group = Iter::new(8, 4, Axis::LaneId);
        let member = Iter::new(4, 1, Axis::LaneId);
        let shard = match self {
            Fragment::M16N8K16A => vec![register(2, 2), group, register(2, 4), member, register(2, 1)],
            Fragment::M16N8K16B => vec![register(2, 2), member, register(2, 1), group],
            Fragment::M16N8K8Tf32A => vec![register(2, 1), group, register(2, 2), member],
            Fragment::M16N8K8Tf32B => vec![register(2, 1), member, group],
            Fragment::M16N8K32Int8A => vec![register(2, 4), group, register(2, 8), member, register(4, 1)],
            Fragment::M16N8K32Int8B => vec![register(2, 4), member, register(4, 1), group],
            Fragment::M16N8Acc => vec![register(2, 2), group, member, register(2, 1)],
            Fragment::Ldmatrix => vec![group, member, register(2, 1)],
            Fragment::LdmatrixTrans => vec![member, register(2, 1), group],
        };
        TileLayout { shard, replica: vec![], offset: BTreeMap::new(), swizzle: None }
    }
}
