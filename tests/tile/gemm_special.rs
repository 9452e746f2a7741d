//! Products by `mma` in places that random shapes do not reach: loops, stages, other ways to say
//! where fragments are, other ways to start.

use super::case::tile_program;
use super::gemm_shapes::{Product, product, values};
use daylight::interp::Tensor;
use daylight::ir::device::{DStmt, DeviceFunc};
use daylight::ir::{DType, Tile, TileArg};

/// 16 x 8 float32 in the lanes of a warp.
const ACC: &str = "TileLayout(S[(2, 8, 4, 2) : (2, 4 @ laneid, 1 @ laneid, 1)])";

/// The programs: D of float32, A and B of bfloat16 as stored.
pub fn products() -> Vec<Product> {
    vec![long(), stages(), rows_of_warps(), flat_block(), other_start(true), other_start(false), chained()]
}

/// A loop along k that stays one.
fn long() -> Product {
    let body = shared(16, 256, 8)
        + &format!("d = T.alloc_local((16, 8), \"float32\", layout={ACC})\n")
        + "Tx.warp.gemm(d, a, b)\nTx.warp.copy(D, d)";
    known("long", [16, 8, 256], 32, &body, false)
}

/// A in registers, a stage of it for each step of a loop that is written out.
fn stages() -> Product {
    let a = "TileLayout(S[(3, 2, 8, 2, 4, 2) : (8, 2, 4 @ laneid, 4, 1 @ laneid, 1)])";
    let body = shared(16, 48, 8)
        + &format!("d = T.alloc_local((16, 8), \"float32\", layout={ACC})\n")
        + &format!("r = T.alloc_local((3, 16, 16), \"bfloat16\", layout={a})\n")
        + "Tx.warp.copy(d, C)\n"
        + "for s in T.unroll(3):\n    Tx.warp.copy(r[s, :, :], a[:, s * 16:s * 16 + 16])\n"
        + "for u in T.unroll(3):\n    Tx.warp.gemm(d, r[u, :, :], b[u * 16:u * 16 + 16, :], accum=True)\n"
        + "Tx.warp.copy(D, d)";
    known("stages", [16, 8, 48], 32, &body, true)
}

/// Warps by their number in the warpgroup, and A by lanes only: every warp has all of it.
fn rows_of_warps() -> Product {
    let d = "TileLayout(S[(2, 8, 4, 4, 2) : (2, 4 @ laneid, 1 @ wid_in_wg, 1 @ laneid, 1)])";
    let a = "TileLayout(S[(2, 8, 2, 2, 4, 2) : (2, 4 @ laneid, 8, 4, 1 @ laneid, 1)])";
    let body = shared(16, 32, 32)
        + &format!("d = T.alloc_local((16, 32), \"float32\", layout={d})\n")
        + &format!("r = T.alloc_local((16, 32), \"bfloat16\", layout={a})\n")
        + "Tx.warp.copy(r, a)\nTx.cta.gemm(d, r, b)\nTx.cta.copy(D, d)";
    known("rows_of_warps", [16, 32, 32], 128, &body, false)
}

/// Threads in two dimensions.
fn flat_block() -> Product {
    let body = shared(32, 16, 8)
        + "d = T.alloc_local((32, 8), \"float32\", layout=TileLayout(S[(2, 2, 8, 4, 2) : (1 @ warpid, 2, 4 @ laneid, 1 @ laneid, 1)]))\n"
        + "Tx.cta.gemm(d, a, b)\nTx.cta.copy(D, d)";
    let mut p = known("flat_block", [32, 8, 16], 64, &body, false);
    p.func.block = [16, 4, 1];
    p
}

/// C as a third operand, in global memory or in registers.
fn other_start(registers: bool) -> Product {
    let body = shared(16, 16, 8)
        + &format!("d = T.alloc_local((16, 8), \"float32\", layout={ACC})\n")
        + &if registers {
            format!("c = T.alloc_local((16, 8), \"float32\", layout={ACC})\nTx.warp.copy(c, C)\n")
        } else {
            String::new()
        }
        + "Tx.warp.gemm(d, a, b)\nTx.warp.copy(D, d)";
    let mut p = known(if registers { "c_registers" } else { "c_global" }, [16, 8, 16], 32, &body, true);
    let name = p.func.func.buffers[if registers { 7 } else { 2 }].name.clone();
    add_operand(&mut p.func, &Tile::whole(&name, &[16, 8]));
    p
}

fn add_operand(f: &mut DeviceFunc, c: &Tile) {
    for s in &mut f.body {
        if let DStmt::Tile(call) = s
            && call.op == daylight::ir::TileOp::Gemm
        {
            call.args.push(TileArg::Tile(c.clone()));
        }
    }
}

/// The accumulators of one product, rounded, are the A of the next.
fn chained() -> Product {
    let d = "TileLayout(S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)])";
    let body = shared(16, 16, 16)
        + &format!("s = T.alloc_local((16, 16), \"float32\", layout={d})\n")
        + &format!("r = T.alloc_local((16, 16), \"bfloat16\", layout={d})\n")
        + &format!("d = T.alloc_local((16, 16), \"float32\", layout={d})\n")
        + "Tx.warp.gemm(s, a, b)\n"
        + "for i, j in T.grid(2, 4):\n    r[i * 8 + tx // 4, j // 2 * 8 + tx % 4 * 2 + j % 2] = T.Cast(\"bfloat16\", s[i * 8 + tx // 4, j // 2 * 8 + tx % 4 * 2 + j % 2])\n"
        + "Tx.warp.gemm(d, r, b)\nTx.warp.copy(D, d)";
    let mut p = known("chained", [16, 16, 16], 32, &body, false);
    let rounded = Tensor::from_f64(DType::BF16, &[16, 16], &p.want);
    p.want = product(&rounded, &p.args[1], None, [16, 16, 16], [false, false]);
    // sums of the first product that lie next to a tie may round the other way
    p.u_in = 2f64.powi(-9);
    p
}

/// Brings A and B to shared memory.
fn shared(m: i64, k: i64, n: i64) -> String {
    format!(
        "a = T.alloc_shared(({m}, {k}), \"bfloat16\")\nb = T.alloc_shared(({k}, {n}), \"bfloat16\")\n\
         Tx.cta.copy(a, A)\nTx.cta.copy(b, B)\nT.cuda.cta_sync()\n"
    )
}

fn known(name: &str, [m, n, k]: [i64; 3], threads: u32, body: &str, c: bool) -> Product {
    let params: [(&str, &[i64], &str); 4] =
        [("A", &[m, k], "bfloat16"), ("B", &[k, n], "bfloat16"), ("C", &[m, n], "float32"), ("D", &[m, n], "float32")];
    let args = vec![
        values(DType::BF16, &[m, k], 1),
        values(DType::BF16, &[k, n], 2),
        values(DType::F32, &[m, n], 3),
        Tensor::zeros(DType::F32, &[m, n]),
    ];
    let want = product(&args[0], &args[1], c.then_some(&args[2]), [m, n, k], [false, false]);
    let func = tile_program(&params, threads, body);
    Product { name: format!("mma {name}"), func, args, want, u_in: 0.0, u: 2f64.powi(-24), depth: k }
}
