//! Calls that random ones (`tests/tile_random`) found to be decided or carried out wrongly.

use super::case::{Case, Says, buffer, close_to_reference, tile_program};
use daylight::ir::device::DeviceFunc;
use daylight::ir::{DType, ExecScope, Name, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::Active;

pub fn cases() -> Vec<Case> {
    let a = buffer("a", DType::F32, &[128, 4], Scope::Local, "S[(128, 4) : (1@tid_in_wg, 1)]");
    let d = Name::new("a");
    let whole = Tile::whole(&d, &[128, 4]);
    let zero = TileCall::new(TileOp::Zero, ExecScope::Warpgroup, whole, vec![]);
    let mut warp =
        Case::new("a warp of a warpgroup", "cuda:sm_90a", 128, &[a], zero, Says::Declines("reg", "all_threads"));
    warp.active = Active::WholeWarps;
    let mut warpgroup = warp.clone();
    (warpgroup.name, warpgroup.says) = ("one of two warpgroups".into(), Says::Takes("reg"));
    (warpgroup.active, warpgroup.block) = (Active::WholeWarpgroups, [256, 1, 1]);
    vec![warp, warpgroup, empty(), large()]
}

/// Adjacency of an empty tile was asked for by division.
fn empty() -> Case {
    let (a, s) = (buffer("a", DType::F32, &[8], Scope::Global, ""), buffer("s", DType::F32, &[8], Scope::Shared, ""));
    let tile = |name: &str| Tile { extent: vec![0], ..Tile::whole(&Name::new(name), &[8]) };
    let call = TileCall::new(TileOp::Copy, ExecScope::Thread, tile("s"), vec![TileArg::Tile(tile("a"))]);
    Case::new("an empty tile", "cuda:sm_90a", 32, &[a, s], call, Says::Takes("vec_auto"))
}

/// The number of elements overflowed.
fn large() -> Case {
    let shape = [1 << 40, 1 << 40];
    let (a, s) =
        (buffer("a", DType::F32, &shape, Scope::Global, ""), buffer("s", DType::F32, &shape, Scope::Shared, ""));
    let tile = |name: &str| Tile::whole(&Name::new(name), &shape);
    let call = TileCall::new(TileOp::Sum, ExecScope::Cta, tile("s"), vec![TileArg::Tile(tile("a"))]);
    Case::new("2^80 elements", "cuda:sm_90a", 32, &[a, s], call, Says::Declines("shared", "shape"))
}

/// Programs that gave wrong results, or none.
fn programs() -> Vec<(&'static str, DeviceFunc)> {
    let all_lanes = "a = T.alloc_local((32, 2), \"float32\", layout=TileLayout(S[(32, 2) : (1@laneid, 1)]))\n\
        d = T.alloc_local((1,), \"float32\")\nfor j in T.serial(2):\n    a[tx, j] = A[tx, j]\nd[0] = C[0]\n\
        Tx.warp.sum(d, a, axes=(0, 1), accum=True)\nB[tx] = d[0]";
    let all_warps = "a = T.alloc_local((32, 3), \"float32\", layout=TileLayout(S[(32, 3) : (1@laneid, 1@warpid)]))\n\
        d = T.alloc_local((32,), \"float32\", layout=TileLayout(S[(32,) : (1@laneid,)]))\n\
        a[tx % 32, tx // 32] = A[tx % 32, tx // 32]\nTx.cta.max(d, a, axes=1)\nB[tx] = d[tx % 32]";
    let odd_rows =
        "s = T.alloc_shared((15, 16, 10), \"float16\")\nTx.cta.copy(s, A)\nT.cuda.cta_sync()\nTx.cta.copy(B, s)";
    let params =
        |a: &'static [i64], b: &'static [i64], dtype| [("A", a, dtype), ("C", &[1][..], dtype), ("B", b, dtype)];
    vec![
        ("all lanes hold a tile without threads", tile_program(&params(&[32, 2], &[32], "float32"), 32, all_lanes)),
        ("all warps hold a tile over lanes", tile_program(&params(&[32, 3], &[96], "float32"), 96, all_warps)),
        ("rows that are no whole runs", tile_program(&params(&[15, 16, 10], &[15, 16, 10], "float16"), 128, odd_rows)),
    ]
}

#[test]
fn what_went_wrong_goes_right() {
    for (name, p) in programs() {
        close_to_reference(name, &p, "cuda:sm_90a", 1e-5);
    }
}
