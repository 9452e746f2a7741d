//! `copy`.

use super::case::{Case, Says, buffer};
use daylight::ir::device::DeviceFunc;
use daylight::ir::{AttrValue, Buffer, DType, ExecScope, Expr, Function, Name, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::Active;

/// Part of a buffer: first index and extent of each dimension.
pub fn part(name: &str, dims: &[(i64, i64)]) -> Tile {
    let begin = dims.iter().map(|d| Expr::i64(d.0)).collect();
    Tile { buffer: Name::new(name), begin, extent: dims.iter().map(|d| d.1).collect() }
}

/// A call that moves one tile.
pub fn call(op: TileOp, scope: ExecScope, dst: Tile, src: Tile) -> TileCall {
    TileCall::new(op, scope, dst, vec![TileArg::Tile(src)])
}

/// The call with a named argument.
pub fn with(mut call: TileCall, key: &str, value: AttrValue) -> TileCall {
    call.config.insert(key.into(), value);
    call
}

/// The case reached by such threads only.
pub fn reached(mut case: Case, active: Active) -> Case {
    case.active = active;
    case
}

fn word(text: &str) -> AttrValue {
    AttrValue::Str(text.into())
}

const ROWS: &str = "S[(32, 8) : (1 @ laneid, 1)]";

/// Operand A of `mma.m16n8k16`.
const FRAGMENT: &str = "S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)]";

fn buffers() -> Vec<Buffer> {
    vec![
        buffer("A", DType::F32, &[32, 8], Scope::Global, ""),
        buffer("H", DType::F16, &[32, 8], Scope::Global, ""),
        buffer("S", DType::F32, &[32, 8], Scope::Shared, ""),
        buffer("R", DType::F32, &[32, 8], Scope::Local, ROWS),
        buffer("Q", DType::F32, &[32, 8], Scope::Local, "S[(4, 8, 8) : (1, 1 @ laneid, 4)] + R[4 : 8 @ laneid]"),
        buffer("P", DType::F32, &[32, 8], Scope::Local, ""),
        buffer("F", DType::F16, &[16, 16], Scope::Shared, ""),
        buffer("D", DType::F16, &[16, 16], Scope::Local, FRAGMENT),
        buffer("U", DType::F16, &[16, 16], Scope::Shared, "S[(16, 16) : (18, 1)]"),
        buffer("E", DType::F16, &[32, 8], Scope::Local, ROWS),
        buffer("L", DType::F16, &[32, 8], Scope::Shared, ""),
        buffer("X", DType::F32, &[32, 8], Scope::Tensor, ""),
    ]
}

pub fn cases() -> Vec<Case> {
    use ExecScope::{Cta, Thread, Warp, Warpgroup};
    let copy = |scope, dst, src| call(TileOp::Copy, scope, dst, src);
    let all = |name: &str| part(name, &[(0, 32), (0, 8)]);
    let case = |name: &str, threads, call, says| Case::new(name, "sim:sm_90a", threads, &buffers(), call, says);
    let no = |predicate| Says::Declines("vec_auto", predicate);
    let nor = |predicate| Says::Declines("fallback", predicate);
    let mut missing = copy(Cta, all("S"), all("A"));
    missing.args = vec![TileArg::Scalar(Expr::i64(0))];
    let own_rows = copy(Cta, part("A", &[(0, 16), (0, 8)]), part("A", &[(8, 16), (0, 8)]));
    let rows_apart = copy(Cta, part("A", &[(0, 16), (0, 8)]), part("A", &[(16, 16), (0, 8)]));
    let half = copy(Warp, part("R", &[(0, 16), (0, 8)]), part("S", &[(0, 16), (0, 8)]));
    let partial = copy(Warp, all("S"), all("A"));
    let square = |name: &str| part(name, &[(0, 16), (0, 16)]);
    let load = || copy(Warp, square("D"), square("F"));
    let not = |predicate| Says::Declines("ldstmatrix", predicate);
    let mut store = case("no stmatrix before sm_90", 32, copy(Warp, square("F"), square("D")), not("sm_version"));
    store.target = "sim:sm_80";
    let mut all_widths = widths();
    let quarter = |name: &str| part(name, &[(0, 16), (0, 4)]);
    let mut out = vec![
        case("a fragment", 32, load(), Says::Takes("ldstmatrix")),
        case("a fragment is stored", 32, copy(Warp, square("F"), square("D")), Says::Takes("ldstmatrix")),
        store,
        case("a scalar for matrices", 32, missing.clone(), not("operands")),
        case("matrices are not converted", 32, copy(Warp, all("S"), all("H")), not("dtype")),
        case("matrices of another shape", 32, copy(Warp, part("D", &[(0, 8), (0, 8)]), square("F")), not("same_shape")),
        case("a warp that is not complete", 48, load(), not("all_threads")),
        case("one thread has no matrix", 32, copy(Thread, square("D"), square("F")), not("exec_scope")),
        case("matrices in device memory", 32, copy(Warp, all("E"), all("H")), not("storage_scope")),
        case("matrices of 32 bits", 32, copy(Warp, all("R"), all("S")), not("element")),
        case("half a matrix", 32, copy(Warp, quarter("D"), quarter("F")), not("shape")),
        case("rows that are not aligned", 32, copy(Warp, square("D"), square("U")), not("rows")),
        case("rows of lanes are no matrices", 32, copy(Warp, all("E"), all("L")), not("fragments")),
        case("a hint for shared memory", 32, with(load(), "cache", word("nc")), not("options")),
        case("threads take turns", 32, copy(Cta, all("S"), all("A")), Says::Takes("vec_auto")),
        case("each lane its row", 32, copy(Warp, all("R"), all("S")), Says::Takes("vec_auto")),
        case("from each lane its row", 64, copy(Warp, all("S"), all("R")), Says::Takes("vec_auto")),
        case("registers to registers", 32, copy(Warp, all("R"), all("R")), no("overlap")),
        case("of one thread", 32, copy(Thread, all("P"), all("A")), Says::Takes("vec_auto")),
        case("rows apart in one buffer", 32, rows_apart, Says::Takes("vec_auto")),
        case("a warp that others leave alone", 64, copy(Warp, all("S"), all("A")), Says::Takes("vec_auto")),
        case("a scalar", 32, missing.clone(), no("operands")),
        case("a scalar for one thread", 32, missing, nor("operands")),
        case("tensor memory", 32, copy(Cta, all("X"), all("A")), no("operands")),
        case("a conversion", 32, copy(Cta, all("S"), all("H")), no("dtype")),
        case("a conversion by one thread", 32, copy(Cta, all("S"), all("H")), nor("dtype")),
        case("another shape", 32, copy(Cta, part("S", &[(0, 8), (0, 8)]), all("A")), no("same_shape")),
        case("another shape by one thread", 32, copy(Cta, part("S", &[(0, 8), (0, 8)]), all("A")), nor("same_shape")),
        case("rows that overlap", 32, own_rows.clone(), no("overlap")),
        case("rows that overlap, by one thread", 32, own_rows, nor("overlap")),
        case("half a warp at the end", 48, partial.clone(), no("all_threads")),
        case("half a warp at the end is served by one lane", 48, partial.clone(), Says::Takes("fallback")),
        reached(case("some lanes", 64, partial.clone(), no("all_threads")), Active::Some),
        reached(case("some lanes, by one of them", 64, partial.clone(), nor("reached")), Active::Some),
        reached(case("whole warps", 64, partial, Says::Takes("vec_auto")), Active::WholeWarps),
        reached(
            case("one of two warpgroups", 256, copy(Warpgroup, all("S"), all("A")), Says::Takes("vec_auto")),
            Active::WholeWarpgroups,
        ),
        reached(
            case("warps of a warpgroup", 128, copy(Warpgroup, all("S"), all("A")), no("all_threads")),
            Active::WholeWarps,
        ),
        case("an unknown hint", 32, with(copy(Cta, all("S"), all("A")), "cache", word("warm")), no("cache")),
        case(
            "an unknown hint to one thread",
            32,
            with(copy(Cta, all("S"), all("A")), "cache", AttrValue::Int(1)),
            nor("cache"),
        ),
        case("a hint", 32, with(copy(Cta, all("S"), all("A")), "cache", word("streaming")), Says::Takes("vec_auto")),
        case("a condition", 32, with(copy(Cta, all("S"), all("A")), "predicate", AttrValue::Bool(true)), no("options")),
        case(
            "a condition to one thread",
            32,
            with(copy(Cta, all("S"), all("A")), "predicate", AttrValue::Bool(true)),
            nor("options"),
        ),
        case("half of the lanes hold the tile", 32, half, no("partition")),
        case("registers of one thread, for a warp", 32, copy(Warp, all("P"), all("S")), no("partition")),
        case("registers of a warp, for one thread", 32, copy(Thread, all("R"), all("S")), no("partition")),
        case("registers of other lanes", 32, copy(Warp, all("R"), all("Q")), no("partition")),
        case("registers of a warp, for the block", 64, copy(Cta, all("R"), all("S")), no("partition")),
        case("registers that one thread cannot serve", 32, copy(Warp, all("P"), all("S")), nor("storage_scope")),
    ];
    out.append(&mut all_widths);
    out.extend(shifted());
    out.extend(super::gemm_tcgen05::copies());
    out
}

/// Eight neighbours of rows that begin anywhere.
fn shifted() -> Vec<Case> {
    let row = |name: &str, k: i64, n: i64| part(name, &[(3, 1), (k, n)]);
    let buffers = [
        buffer("A", DType::F16, &[5, 203], Scope::Global, ""),
        buffer("B", DType::BF16, &[5, 203], Scope::Global, ""),
        buffer("E", DType::F16, &[5, 200], Scope::Global, ""),
        buffer("F", DType::F32, &[5, 203], Scope::Global, ""),
        buffer("C", DType::F16, &[5, 8], Scope::Global, "S[(5, 8) : (85, 2)]"),
        buffer("S", DType::F16, &[5, 203], Scope::Shared, ""),
        buffer("R", DType::F16, &[5, 64], Scope::Local, ""),
        buffer("Q", DType::BF16, &[5, 64], Scope::Local, ""),
        buffer("P", DType::F32, &[5, 64], Scope::Local, ""),
        buffer("L", DType::F16, &[32, 8], Scope::Local, ROWS),
    ];
    let case = |name: &str, call: TileCall, says| {
        Case::new(&format!("{name}, shifted"), "sim:sm_90a", 32, &buffers, call, says)
    };
    let copy = |dst, src| call(TileOp::Copy, ExecScope::Thread, dst, src);
    let load = || copy(row("R", 0, 8), row("A", 5, 8));
    let no = |predicate| Says::Declines("vec_shifted", predicate);
    let mut missing = load();
    missing.args = vec![TileArg::Scalar(Expr::i64(0))];
    let mut warp = load();
    warp.scope = ExecScope::Warp;
    vec![
        case("an odd row", load(), Says::Takes("vec_shifted")),
        case("an odd row of bfloat16", copy(row("Q", 8, 8), row("B", 6, 8)), Says::Takes("vec_shifted")),
        case("the end of an odd row", copy(row("R", 2, 8), row("A", 195, 8)), Says::Takes("vec_shifted")),
        case("a scalar", missing, no("operands")),
        case("a conversion", copy(row("P", 0, 8), row("A", 5, 8)), no("dtype")),
        case("another shape", copy(row("R", 0, 8), row("A", 5, 16)), no("same_shape")),
        case("the same place", copy(row("A", 5, 8), row("A", 5, 8)), no("overlap")),
        case("an unknown hint", with(load(), "cache", word("warm")), no("cache")),
        case("an option", with(load(), "predicate", AttrValue::Bool(true)), no("options")),
        case("a warp", warp, no("exec_scope")),
        case("registers of lanes", copy(part("L", &[(3, 1), (0, 8)]), row("A", 5, 8)), no("partition")),
        case("from shared memory", copy(row("R", 0, 8), row("S", 5, 8)), no("storage_scope")),
        case("of 32 bits", copy(row("P", 0, 8), row("F", 5, 8)), no("halves")),
        case("of another size", copy(row("R", 0, 4), row("A", 5, 4)), no("halves")),
        case("an aligned row", copy(row("R", 0, 8), row("E", 8, 8)), no("unaligned")),
        case("elements apart", copy(row("R", 0, 8), row("C", 0, 8)), no("neighbours")),
        case("registers that begin with half a pair", copy(row("R", 1, 8), row("A", 5, 8)), no("neighbours")),
    ]
}

/// Each width, of elements of 16 bits.
fn widths() -> Vec<Case> {
    let tile = |name: &str, n: i64| part(name, &[(0, 1), (0, n)]);
    let mut out = vec![];
    for bits in [16, 32, 64, 128, 256] {
        let variant: &'static str = match bits {
            16 => "vec_16b",
            32 => "vec_32b",
            64 => "vec_64b",
            128 => "vec_128b",
            _ => "vec_256b",
        };
        let n = bits / 16;
        let mut buffers = [
            buffer("A", DType::F16, &[4, 64], Scope::Global, ""),
            buffer("F", DType::F32, &[4, 64], Scope::Global, ""),
            buffer("R", DType::F16, &[1, 64], Scope::Local, ""),
            buffer("C", DType::F16, &[1, 64], Scope::Global, "S[(1, 64) : (64, 2)]"),
            buffer("L", DType::F16, &[32, 8], Scope::Local, ROWS),
        ];
        buffers[0].align = Some(32);
        let case = |name: &str, call: TileCall, says| {
            Case::new(&format!("{name}, {bits} bits"), "sim:sm_100a", 32, &buffers, call, says)
        };
        let copy = |dst, src| call(TileOp::Copy, ExecScope::Thread, dst, src);
        let load = || copy(tile("R", n), tile("A", n));
        let no = |predicate| Says::Declines(variant, predicate);
        let mut forced = load();
        forced.forced = Some(variant.into());
        let mut missing = load();
        missing.args = vec![TileArg::Scalar(Expr::i64(0))];
        let mut warp = load();
        warp.scope = ExecScope::Warp;
        out.extend([
            case("one access", forced, Says::Takes(variant)),
            case("a scalar", missing, no("operands")),
            case("a conversion", copy(tile("R", n), tile("F", n)), no("dtype")),
            case("another shape", copy(tile("R", n), tile("A", 2 * n)), no("same_shape")),
            case("the same place", copy(tile("A", n), tile("A", n)), no("overlap")),
            case("an unknown hint", with(load(), "cache", word("warm")), no("cache")),
            case("an option", with(load(), "predicate", AttrValue::Bool(true)), no("options")),
            case("a warp", warp, no("exec_scope")),
            case("registers of lanes", copy(tile("L", 8), tile("A", 8)), no("partition")),
            case("another size", copy(tile("R", 3), tile("A", 3)), no("size")),
            // elements apart: single accesses, of 16 bits whatever is asked for
            match bits {
                16 => case("a whole row", copy(tile("R", 8), tile("A", 8)), no("width")),
                _ => case("elements apart", copy(tile("R", n), tile("C", n)), no("width")),
            },
        ]);
    }
    out
}

/// The tile program in a text of parameters, threads and statements.
pub fn tile_program(name: &str, params: &[(&str, &str)], threads: u32, body: &str) -> DeviceFunc {
    let list: Vec<String> = params.iter().map(|(n, _)| format!("{n}_ptr: T.handle")).collect();
    let mut text = format!("@T.prim_func\ndef {name}({}):\n", list.join(", "));
    for (n, what) in params {
        text += &format!("    {n} = T.match_buffer({n}_ptr, {what})\n");
    }
    text += &format!("    T.device_entry()\n    T.cta_id([1])\n    tid = T.thread_id([{threads}])\n");
    body.lines().for_each(|l| text += &format!("    {l}\n"));
    let mut all = daylight::ir::read_any(&text, name).unwrap_or_else(|e| panic!("{e}\n{text}"));
    match all.pop() {
        Some(Function::Tile(f)) => f,
        _ => panic!("no tile program:\n{text}"),
    }
}

/// Through shared memory: `shape` of `dtype` with a layout there, by all threads of a scope.
fn staged(name: &str, dtype: &str, shape: &str, layout: &str, scope: &str, threads: u32) -> (String, DeviceFunc, f64) {
    let what = format!("{shape}, \"{dtype}\"");
    let layout = if layout.is_empty() { String::new() } else { format!(", layout={layout}") };
    let body = format!(
        "M = T.alloc_buffer({shape}, \"{dtype}\", scope=\"shared\"{layout})\n\
         Tx.{scope}.copy(M, A)\nT.cuda.cta_sync()\nTx.{scope}.copy(B, M)"
    );
    (name.to_string(), tile_program(name, &[("A", &what), ("B", &what)], threads, &body), 0.0)
}

/// Through registers with a layout, by way of shared memory.
fn held(name: &str, dtype: &str, shape: &str, layout: &str, scope: &str, threads: u32) -> (String, DeviceFunc, f64) {
    let what = format!("{shape}, \"{dtype}\"");
    let body = format!(
        "M = T.alloc_buffer({shape}, \"{dtype}\", scope=\"shared\")\n\
         R = T.alloc_buffer({shape}, \"{dtype}\", scope=\"local\", layout=TileLayout({layout}))\n\
         Q = T.alloc_buffer({shape}, \"{dtype}\", scope=\"local\", layout=TileLayout({layout}))\n\
         Tx.{scope}.copy(R, A)\nTx.{scope}.copy(M, R)\nT.cuda.cta_sync()\n\
         Tx.{scope}.copy(Q, M)\nTx.{scope}.copy(R, Q)\nTx.{scope}.copy(B, R)"
    );
    (name.to_string(), tile_program(name, &[("A", &what), ("B", &what)], threads, &body), 0.0)
}

/// Programs that end with every element of `B` written.
pub fn programs() -> Vec<(String, DeviceFunc, f64)> {
    let mut out = vec![];
    for dtype in ["int8", "uint8", "float16", "bfloat16", "int32", "float32", "int64", "float64"] {
        out.push(staged(&format!("staged_{dtype}"), dtype, "(16, 24)", "", "cta", 48));
        out.push(held(&format!("held_{dtype}"), dtype, "(32, 8)", "S[(32, 8) : (1 @ laneid, 1)]", "warp", 32));
    }
    out.extend([
        staged("prime", "float32", "(7, 13)", "", "cta", 32),
        staged("one_element", "float16", "(1,)", "", "cta", 64),
        staged("odd_threads", "float32", "(9, 20)", "", "cta", 37),
        staged("many_turns", "float16", "(64, 136)", "", "cta", 32),
        staged("one_row", "float32", "(1, 100)", "", "cta", 96),
        staged("swizzled", "float16", "(16, 64)", "SwizzleLayout(3, 3, 3)", "cta", 64),
        staged("columns", "float32", "(16, 12)", "TileLayout(S[(16, 12) : (1, 16)])", "cta", 32),
        staged("padded", "float32", "(12, 8)", "TileLayout(S[(12, 8) : (9, 1)])", "warp", 32),
        staged("padded_evenly", "float16", "(12, 8)", "TileLayout(S[(12, 8) : (12, 1)])", "warp", 32),
        held("threads_of_a_block", "float32", "(96, 4)", "S[(96, 4) : (1 @ tx, 1)]", "cta", 96),
        held("fragment", "float16", "(16, 16)", "S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)]", "warp", 32),
        held("threads_of_a_warpgroup", "float16", "(128, 6)", "S[(128, 6) : (1 @ tid_in_wg, 1)]", "warpgroup", 128),
        held("replicas", "float32", "(8, 8)", "S[(8, 8) : (1 @ laneid, 1)] + R[4 : 8 @ laneid]", "warp", 32),
    ]);
    out.extend([16, 32, 64, 128, 256].map(one_access));
    out.extend(all_matrices());
    out.extend([
        ("parts".into(), parts(), 0.0),
        ("thread_parts".into(), thread_parts(), 0.0),
        ("anywhere".into(), anywhere(), 0.0),
        ("anywhere_ragged".into(), anywhere_ragged(), 0.0),
        ("hints".into(), hints(), 0.0),
        ("serial".into(), serial(), 0.0),
        ("some_warps".into(), some_warps(), 0.0),
    ]);
    out
}

/// From shared memory to registers and back, of a layout in which a row of 8 is one access.
fn matrices(
    name: &str,
    shape: &str,
    shared: &str,
    layout: &str,
    scope: &str,
    threads: u32,
) -> (String, DeviceFunc, f64) {
    let what = format!("{shape}, \"float16\"");
    let shared = if shared.is_empty() { String::new() } else { format!(", layout={shared}") };
    let body = format!(
        "M = T.alloc_buffer({shape}, \"float16\", scope=\"shared\"{shared})\n\
         N = T.alloc_buffer({shape}, \"float16\", scope=\"shared\"{shared})\n\
         R = T.alloc_buffer({shape}, \"float16\", scope=\"local\", layout=TileLayout({layout}))\n\
         Tx.cta.copy(M, A)\nT.cuda.cta_sync()\n\
         Tx.{scope}.copy(R, M, dispatch=\"ldstmatrix\")\nTx.{scope}.copy(N, R, dispatch=\"ldstmatrix\")\n\
         T.cuda.cta_sync()\nTx.cta.copy(B, N)"
    );
    (name.to_string(), tile_program(name, &[("A", &what), ("B", &what)], threads, &body), 0.0)
}

fn all_matrices() -> Vec<(String, DeviceFunc, f64)> {
    let b = "S[(2, 4, 2, 8) : (2, 1 @ laneid, 1, 4 @ laneid)]";
    let wide = "S[(2, 8, 3, 2, 4, 2) : (2, 4 @ laneid, 8, 4, 1 @ laneid, 1)]";
    let warps = "S[(2, 2, 8, 2, 4, 2) : (1 @ warpid, 2, 4 @ laneid, 4, 1 @ laneid, 1)]";
    let columns = "TileLayout(S[(16, 16) : (1, 16)])";
    vec![
        matrices("matrix_a", "(16, 16)", "", FRAGMENT, "warp", 32),
        matrices(
            "matrix_a_swizzled",
            "(16, 64)",
            "SwizzleLayout(3, 3, 3)",
            "S[(2, 8, 8, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)]",
            "warp",
            32,
        ),
        matrices("matrix_b", "(16, 8)", "", b, "warp", 32),
        matrices("matrix_of_columns", "(16, 16)", columns, FRAGMENT, "warp", 32),
        matrices("matrix_single", "(8, 8)", "", "S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]", "warp", 32),
        matrices("matrix_wide", "(16, 48)", "", wide, "warp", 32),
        matrices("matrix_of_warps", "(32, 16)", "", warps, "cta", 64),
    ]
}

/// Sub-regions whose begin depends on loops, one of them unaligned.
fn parts() -> DeviceFunc {
    let body = "M = T.alloc_buffer((3, 16), \"float32\", scope=\"shared\")\n\
                for i in T.serial(4):\n\
                \x20   Tx.cta.copy(M[1:2, 4:12], A[i * 2:i * 2 + 1, 4:12])\n\
                \x20   Tx.cta.copy(M[2:3, 1:6], A[i * 2 + 1:i * 2 + 2, 3:8])\n\
                \x20   T.cuda.cta_sync()\n\
                \x20   Tx.cta.copy(B[i, 0:8], M[1, 4:12])\n\
                \x20   Tx.cta.copy(B[i, 8:13], M[2, 1:6])\n\
                \x20   T.cuda.cta_sync()";
    tile_program("parts", &[("A", "(8, 12), \"float32\""), ("B", "(4, 13), \"float32\"")], 32, body)
}

/// What one thread moves to and from its registers, begin indices in loops.
fn thread_parts() -> DeviceFunc {
    let body = "R = T.alloc_buffer((16,), \"float16\", scope=\"local\")\n\
                for k in T.unroll(2):\n\
                \x20   Tx.copy(R[k * 8:k * 8 + 8], A[tid * 16 + k * 8:tid * 16 + k * 8 + 8])\n\
                Tx.copy(B[tid, 0:16], R)\n\
                Tx.copy(B[tid, 16:19], R[2:5])";
    tile_program("thread_parts", &[("A", "(512,), \"float16\""), ("B", "(32, 19), \"float16\"")], 32, body)
}

/// Rows that begin anywhere.
fn anywhere() -> DeviceFunc {
    let body = "R = T.alloc_buffer((24,), \"float16\", scope=\"local\")\n\
                for k in T.unroll(3):\n\
                \x20   Tx.copy(R[k * 8:k * 8 + 8], A[tid, 3 + k * 8:3 + k * 8 + 8])\n\
                Tx.copy(B[tid, 0:24], R)";
    tile_program("anywhere", &[("A", "(32, 27), \"float16\""), ("B", "(32, 24), \"float16\"")], 32, body)
}

/// The same of a tensor that ends within a word.
fn anywhere_ragged() -> DeviceFunc {
    let body = "R = T.alloc_buffer((8,), \"float16\", scope=\"local\")\n\
                Tx.copy(R, A[0, tid * 3:tid * 3 + 8])\n\
                Tx.copy(B[tid, 0:8], R)";
    tile_program("anywhere_ragged", &[("A", "(1, 101), \"float16\""), ("B", "(32, 8), \"float16\"")], 32, body)
}

/// One thread of the block, then one of each warp.
fn serial() -> DeviceFunc {
    let body = "M = T.alloc_buffer((5, 7), \"float16\", scope=\"shared\")\n\
                Tx.cta.copy(M, A, dispatch=\"fallback\")\nT.cuda.cta_sync()\n\
                Tx.warp.copy(B, M, dispatch=\"fallback\")";
    tile_program("serial", &[("A", "(5, 7), \"float16\""), ("B", "(5, 7), \"float16\"")], 64, body)
}

/// The first warp and the others copy parts of their own.
fn some_warps() -> DeviceFunc {
    let body = "M = T.alloc_buffer((2, 40), \"float32\", scope=\"shared\")\n\
                if tid < 32:\n\
                \x20   Tx.warp.copy(M[0:1, 0:40], A[0:1, 0:40])\n\
                else:\n\
                \x20   Tx.warp.copy(M[1:2, 0:40], A[1:2, 0:40])\n\
                T.cuda.cta_sync()\n\
                Tx.cta.copy(B, M)";
    tile_program("some_warps", &[("A", "(2, 40), \"float32\""), ("B", "(2, 40), \"float32\"")], 64, body)
}

/// Each thread loads and stores so many bits at once.
fn one_access(bits: i64) -> (String, DeviceFunc, f64) {
    let (name, n) = (format!("one_access_{bits}"), bits / 16);
    let what = format!("({},), \"float16\", align=32", 32 * n);
    let part = format!("[tid * {n}:tid * {n} + {n}]");
    let body = format!(
        "R = T.alloc_buffer(({n},), \"float16\", scope=\"local\")\n\
         Tx.copy(R, A{part}, dispatch=\"vec_{bits}b\")\nTx.copy(B{part}, R, dispatch=\"vec_{bits}b\")"
    );
    let f = tile_program(&name, &[("A", &what), ("B", &what)], 32, &body);
    (name, f, 0.0)
}

fn hints() -> DeviceFunc {
    let body = "R = T.alloc_buffer((8,), \"float32\", scope=\"local\")\n\
                Tx.copy(R[0:4], A[tid * 8:tid * 8 + 4], dispatch=\"vec_128b\", cache=\"nc\")\n\
                Tx.copy(R[4:8], A[tid * 8 + 4:tid * 8 + 8], cache=\"no_allocate\")\n\
                Tx.copy(B[tid * 8:tid * 8 + 8], R, cache=\"streaming\")";
    tile_program("hints", &[("A", "(256,), \"float32\""), ("B", "(256,), \"float32\"")], 32, body)
}

#[test]
fn copies_are_exact() {
    super::run::agree(programs(), "sim:sm_100a");
}

#[test]
fn copies_read_well() {
    let shown = [
        "staged_float16",
        "held_float32",
        "odd_threads",
        "swizzled",
        "parts",
        "thread_parts",
        "anywhere_ragged",
        "hints",
        "serial",
        "matrix_a_swizzled",
        "matrix_b",
        "matrix_of_warps",
    ];
    super::run::golden("copy", programs(), &shown);
}
