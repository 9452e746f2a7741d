//! `permute_layout`.

use super::case::{Case, Says, buffer};
use super::copy::{call, part, reached, tile_program, with};
use daylight::ir::device::DeviceFunc;
use daylight::ir::{AttrValue, Buffer, DType, ExecScope, Expr, Scope, TileArg, TileOp};
use daylight::tile::Active;

const ROWS: &str = "S[(32, 8) : (1 @ laneid, 1)]";

fn buffers() -> Vec<Buffer> {
    let of = |name: &str, dtype, shape: &[i64], scope, layout: &str| buffer(name, dtype, shape, scope, layout);
    vec![
        of("A", DType::F32, &[32, 8], Scope::Local, ROWS),
        of("B", DType::F32, &[32, 8], Scope::Local, "S[(8, 4, 8) : (1, 8 @ laneid, 1 @ laneid)]"),
        of("H", DType::F16, &[32, 8], Scope::Local, ROWS),
        of("Q", DType::F32, &[32, 8], Scope::Local, "S[(4, 8, 8) : (1, 1 @ laneid, 4)] + R[4 : 8 @ laneid]"),
        of("S", DType::F32, &[32, 8], Scope::Shared, ""),
        of("T", DType::F32, &[32, 8], Scope::Shared, "S[(32, 8) : (1, 32)]"),
        of("W", DType::F32, &[32, 8], Scope::Shared, "SwizzleLayout(2, 1, 2)"),
        of("G", DType::F32, &[32, 8], Scope::Global, ""),
        of("X", DType::F32, &[32, 8], Scope::Tensor, ""),
    ]
}

pub fn cases() -> Vec<Case> {
    use ExecScope::{Cta, Warp};
    let permute = |scope, dst, src| call(TileOp::PermuteLayout, scope, dst, src);
    let all = |name: &str| part(name, &[(0, 32), (0, 8)]);
    let case = |name: &str, threads, call, says| Case::new(name, "sim:sm_90a", threads, &buffers(), call, says);
    let no = |predicate| Says::Declines("warp_xor_swizzle", predicate);
    let mut missing = permute(Warp, all("A"), all("B"));
    missing.args = vec![TileArg::Scalar(Expr::i64(0))];
    let odd = permute(Warp, part("S", &[(0, 24), (0, 8)]), part("T", &[(0, 24), (0, 8)]));
    let mut square = case("a block of two dimensions", 32, permute(Warp, all("B"), all("A")), no("block"));
    square.block = [32, 2, 1];
    vec![
        case("between registers", 32, permute(Warp, all("B"), all("A")), Says::Takes("warp_xor_swizzle")),
        case("within shared memory", 32, permute(Warp, all("T"), all("S")), Says::Takes("warp_xor_swizzle")),
        case("a scalar", 32, missing, no("operands")),
        case("tensor memory", 32, permute(Warp, all("X"), all("A")), no("operands")),
        case("a conversion", 32, permute(Warp, all("B"), all("H")), no("dtype")),
        case("another shape", 32, permute(Warp, part("S", &[(0, 8), (0, 8)]), all("T")), no("same_shape")),
        case("a block", 32, permute(Cta, all("T"), all("S")), no("exec_scope")),
        square,
        case("half a warp at the end", 48, permute(Warp, all("T"), all("S")), no("all_threads")),
        reached(case("some lanes", 32, permute(Warp, all("T"), all("S")), no("all_threads")), Active::Some),
        case("from shared memory to registers", 32, permute(Warp, all("A"), all("S")), no("storage_scope")),
        case("device memory", 32, permute(Warp, all("S"), all("G")), no("storage_scope")),
        case("no power of two", 32, odd, no("count")),
        case("a swizzle", 32, permute(Warp, all("W"), all("S")), no("unswizzled")),
        case("replicas", 32, permute(Warp, all("A"), all("Q")), no("bijective")),
        case("an option", 32, with(permute(Warp, all("T"), all("S")), "bits", AttrValue::Int(2)), no("options")),
    ]
}

/// Registers of one layout to registers of another, in every warp.
fn between(name: &str, dtype: &str, shape: &str, from: &str, to: &str) -> (String, DeviceFunc, f64) {
    let what = format!("{shape}, \"{dtype}\"");
    let body = format!(
        "R = T.alloc_buffer({shape}, \"{dtype}\", scope=\"local\", layout=TileLayout({from}))\n\
         Q = T.alloc_buffer({shape}, \"{dtype}\", scope=\"local\", layout=TileLayout({to}))\n\
         Tx.warp.copy(R, A)\n\
         Tx.warp.permute_layout(Q, R)\n\
         Tx.warp.copy(B, Q)"
    );
    (name.into(), tile_program(name, &[("A", &what), ("B", &what)], 32, &body), 0.0)
}

/// Shared memory of one layout to shared memory of another.
fn within(name: &str, dtype: &str, shape: &str, from: &str, to: &str) -> (String, DeviceFunc, f64) {
    let what = format!("{shape}, \"{dtype}\"");
    let body = format!(
        "M = T.alloc_buffer({shape}, \"{dtype}\", scope=\"shared\", layout=TileLayout({from}))\n\
         N = T.alloc_buffer({shape}, \"{dtype}\", scope=\"shared\", layout=TileLayout({to}))\n\
         Tx.warp.copy(M, A)\nT.cuda.warp_sync()\n\
         Tx.warp.permute_layout(N, M)\nT.cuda.warp_sync()\n\
         Tx.warp.copy(B, N)"
    );
    (name.into(), tile_program(name, &[("A", &what), ("B", &what)], 32, &body), 0.0)
}

pub fn programs() -> Vec<(String, DeviceFunc, f64)> {
    let mut out = vec![];
    for dtype in ["int8", "float16", "float32", "int64"] {
        let columns = "S[(8, 4, 8) : (1, 8 @ laneid, 1 @ laneid)]";
        out.push(between(&format!("registers_{dtype}"), dtype, "(32, 8)", ROWS, columns));
        out.push(within(&format!("shared_{dtype}"), dtype, "(32, 8)", "S[(32, 8) : (8, 1)]", "S[(32, 8) : (1, 32)]"));
    }
    let (name, mut warps, tolerance) =
        between("warps", "float32", "(32, 8)", ROWS, "S[(8, 4, 8) : (1, 8 @ laneid, 1 @ laneid)]");
    warps.block = [96, 1, 1];
    out.push((name, warps, tolerance));
    out.extend([
        between("square", "float32", "(32, 32)", "S[(32, 32) : (1 @ laneid, 1)]", "S[(32, 32) : (1, 1 @ laneid)]"),
        between(
            "one_each",
            "float32",
            "(4, 8)",
            "S[(4, 8) : (8 @ laneid, 1 @ laneid)]",
            "S[(4, 8) : (1 @ laneid, 4 @ laneid)]",
        ),
        within("shared_square", "float32", "(32, 32)", "S[(32, 32) : (32, 1)]", "S[(32, 32) : (1, 32)]"),
        within("shared_pair", "float64", "(8, 8)", "S[(8, 8) : (8, 1)]", "S[(8, 8) : (1, 8)]"),
    ]);
    out
}

#[test]
fn permutations_are_exact() {
    super::run::agree(programs(), "sim:sm_90a");
}

#[test]
fn permutations_read_well() {
    super::run::golden(
        "permute_layout",
        programs(),
        &["registers_float32", "square", "shared_float32", "shared_square"],
    );
}
