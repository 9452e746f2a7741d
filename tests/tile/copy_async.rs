//! `copy_async`.

use super::case::{Case, Says, buffer};
use super::copy::{call, part, reached, tile_program, with};
use daylight::interp::Scalars;
use daylight::ir::device::{DStmt, DeviceFunc};
use daylight::ir::instr::{At, Instr, Sync};
use daylight::ir::kernel::{Barrier, KernelParam};
use daylight::ir::{AttrValue, BinOp, Buffer, DType, ExecScope, Expr, Name, Scope, TileArg, TileCall, TileOp};
use daylight::sim::{self, SimOptions};
use daylight::tile::Active;

fn buffers() -> Vec<Buffer> {
    vec![
        buffer("A", DType::F32, &[32, 8], Scope::Global, ""),
        buffer("H", DType::F16, &[32, 8], Scope::Global, ""),
        buffer("N", DType::F16, &[32, 7], Scope::Global, ""),
        buffer("S", DType::F32, &[32, 8], Scope::Shared, ""),
        buffer("M", DType::F16, &[32, 7], Scope::Shared, ""),
        buffer("R", DType::F32, &[32, 8], Scope::Local, "S[(32, 8) : (1 @ laneid, 1)]"),
        buffer("K", DType::F16, &[32, 8], Scope::Shared, ""),
        buffer("C", DType::F32, &[32, 8], Scope::Shared, "S[(32, 8) : (12, 1)]"),
        buffer("X", DType::F32, &[32, 8], Scope::Tensor, ""),
        buffer("bar", DType::U64, &[2], Scope::Shared, ""),
    ]
}

/// The call with an operand of that name.
fn named(mut call: TileCall, key: &str, arg: TileArg) -> TileCall {
    call.operands.insert(key.into(), arg);
    call
}

pub fn cases() -> Vec<Case> {
    use ExecScope::{Cta, Warp};
    let copy = |dst, src| call(TileOp::CopyAsync, Cta, dst, src);
    let all = |name: &str| part(name, &[(0, 32), (0, 8)]);
    let odd = |name: &str| part(name, &[(0, 32), (0, 7)]);
    let bar = |i| TileArg::Tile(part("bar", &[(i, 1)]));
    let load = || copy(all("S"), all("A"));
    let case = |name: &str, call, says| Case::new(name, "sim:sm_90a", 64, &buffers(), call, says);
    let mut missing = load();
    missing.args = vec![TileArg::Scalar(Expr::i64(0))];
    let warp = || call(TileOp::CopyAsync, Warp, all("S"), all("A"));
    let mut threads48 = case("half a warp at the end", warp(), Says::Declines("ldgsts", "all_threads"));
    threads48.block = [48, 1, 1];
    let mut out = vec![
        case("threads take turns", load(), Says::Takes("ldgsts")),
        case("a condition", with(load(), "predicate", AttrValue::Bool(false)), Says::Takes("ldgsts")),
        case("one thread loads boxes", named(load(), "mbar", bar(1)), Says::Takes("tma")),
        case("one thread stores boxes", copy(all("A"), all("S")), Says::Takes("tma")),
        case(
            "rows of a box are 16 bytes",
            copy(part("H", &[(0, 32), (0, 8)]), part("K", &[(0, 32), (0, 8)])),
            Says::Takes("tma"),
        ),
        case("rows that are no multiple of 16 bytes", copy(odd("N"), odd("M")), Says::Declines("tma", "tensor")),
        case("boxes are not dense", copy(all("A"), all("C")), Says::Declines("tma", "boxes")),
        case(
            "an unknown option of tensor copies",
            with(load(), "stages", AttrValue::Int(2)),
            Says::Declines("tma", "options"),
        ),
        case("tensor copies of registers", copy(all("R"), all("A")), Says::Declines("tma", "storage_scope")),
        case("a tensor load without a barrier", load(), Says::Declines("tma", "mbar")),
        reached(case("some threads, of tensor copies", load(), Says::Declines("tma", "reached")), Active::Some),
        case("one thread loads", named(load(), "mbar", bar(1)), Says::Takes("tma")),
        case("one thread stores runs", copy(all("A"), all("C")), Says::Takes("bulk")),
        threads48,
        reached(case("some threads", load(), Says::Declines("bulk", "reached")), Active::Some),
        case("not from shared memory", copy(all("A"), all("S")), Says::Declines("ldgsts", "storage_scope")),
        case("not into registers", copy(all("R"), all("A")), Says::Declines("bulk", "storage_scope")),
        case("narrow rows", copy(odd("M"), odd("N")), Says::Takes("ldgsts")),
        case(
            "single elements",
            copy(part("M", &[(0, 32), (0, 3)]), part("N", &[(0, 32), (0, 3)])),
            Says::Declines("ldgsts", "width"),
        ),
        case(
            "short runs",
            copy(part("A", &[(0, 32), (0, 2)]), part("S", &[(0, 32), (0, 2)])),
            Says::Declines("bulk", "runs"),
        ),
        case("a load without a barrier", load(), Says::Declines("bulk", "mbar")),
        case(
            "a word that is no barrier",
            named(load(), "mbar", TileArg::Tile(part("S", &[(0, 1), (0, 1)]))),
            Says::Declines("bulk", "mbar"),
        ),
        case(
            "a number is no condition",
            named(load(), "predicate", TileArg::Scalar(Expr::i64(1))),
            Says::Declines("ldgsts", "condition"),
        ),
        case("an odd prefetch", with(load(), "prefetch", AttrValue::Int(48)), Says::Declines("ldgsts", "prefetch")),
        case("an unknown option", with(load(), "stages", AttrValue::Int(2)), Says::Declines("ldgsts", "options")),
        case(
            "an unknown option of bulk copies",
            with(load(), "stages", AttrValue::Int(2)),
            Says::Declines("bulk", "options"),
        ),
    ];
    for variant in ["ldgsts", "bulk", "tma"] {
        let no = |predicate| Says::Declines(variant, predicate);
        let name = |what: &str| format!("{what}, {variant}");
        out.push(case(&name("a scalar"), missing.clone(), no("operands")));
        out.push(case(&name("tensor memory"), copy(all("X"), all("A")), no("operands")));
        out.push(case(&name("a conversion"), copy(all("S"), all("H")), no("dtype")));
        out.push(case(&name("another shape"), copy(part("S", &[(0, 8), (0, 8)]), all("A")), no("same_shape")));
    }
    let mut old = case("no bulk copies before sm_90", copy(all("A"), all("S")), Says::Declines("bulk", "sm_version"));
    old.target = "sim:sm_80";
    out.push(old);
    let mut old = case("no tensor maps before sm_90", copy(all("A"), all("S")), Says::Declines("tma", "sm_version"));
    old.target = "sim:sm_80";
    out.push(old);
    let mut cpu = case("no cp.async on a CPU", load(), Says::Declines("ldgsts", "sm_version"));
    cpu.target = "cpu:x86-64-v3";
    out.push(cpu);
    out
}

fn shared(f: &DeviceFunc, dtype: DType) -> Name {
    let found = f.func.buffers.iter().find(|b| b.scope == Scope::Shared && b.dtype == dtype);
    found.expect("a shared buffer of that type").name.clone()
}

pub fn first(then: Vec<DStmt>) -> DStmt {
    let cond = Expr::binary(BinOp::Eq, Expr::var("threadIdx.x", DType::I64), Expr::i64(0));
    DStmt::If { cond, then, otherwise: vec![] }
}

/// Loads by `cp.async`, waits, and stores.
fn ldgsts(
    name: &str,
    dtype: &str,
    shape: &str,
    scope: &str,
    threads: u32,
    layout: &str,
    more: &str,
) -> (String, DeviceFunc, f64) {
    let what = format!("{shape}, \"{dtype}\"");
    let layout = if layout.is_empty() { String::new() } else { format!(", layout={layout}") };
    let body = format!(
        "M = T.alloc_buffer({shape}, \"{dtype}\", scope=\"shared\"{layout})\n\
         Tx.{scope}.copy_async(M, A{more})\nT.cuda.cta_sync()\nTx.{scope}.copy(B, M)"
    );
    let mut f = tile_program(name, &[("A", &what), ("B", &what)], threads, &body);
    let wait = [Instr::from(Sync::CpAsyncCommit), Instr::from(Sync::CpAsyncWait { left: 0 })].map(DStmt::Instr);
    f.body.splice(1..1, wait);
    (name.into(), f, 0.0)
}

/// The statements that make a barrier at the start, announce `bytes`, and wait after statement `load`.
pub fn awaited(f: &mut DeviceFunc, load: usize, bytes: i64) {
    let bar = At::new(&shared(f, DType::U64), Expr::i64(0));
    let wait = Instr::new(Sync::MbarrierWait, [bar.clone()], [Expr::i64(0)]);
    f.body.insert(load + 1, DStmt::Instr(wait));
    let announce = Instr::new(Sync::MbarrierExpect, [bar.clone()], [Expr::i64(bytes)]);
    f.body.insert(load, first(vec![DStmt::Instr(announce)]));
    let make =
        [Instr::new(Sync::MbarrierInit { arrivals: 1 }, [bar], []), Instr::from(Sync::MbarrierFence)].map(DStmt::Instr);
    f.body.splice(0..0, [first(make.to_vec()), DStmt::Barrier(Barrier::Block)]);
}

/// The statements that let the asynchronous proxy see shared memory before statement `store`, and wait
/// for it after.
pub fn flushed(f: &mut DeviceFunc, store: usize) {
    let wait = [Instr::from(Sync::BulkCommit), Instr::from(Sync::BulkWait { left: 0, read: false })].map(DStmt::Instr);
    f.body.splice(store + 1..store + 1, wait);
    f.body.splice(store..store, [DStmt::Instr(Instr::from(Sync::AsyncFence)), DStmt::Barrier(Barrier::Block)]);
}

/// In and out in bulk, a part of wider rows.
fn bulk(name: &str, dtype: &str, [rows, columns, wide]: [i64; 3], layout: &str) -> (String, DeviceFunc, f64) {
    let variant = if name.starts_with("tma") { "tma" } else { "bulk" };
    let layout = if layout.is_empty() { String::new() } else { format!(", layout={layout}") };
    let first = wide - columns;
    let body = format!(
        "M = T.alloc_buffer(({rows}, {columns}), \"{dtype}\", scope=\"shared\"{layout})\n\
         bar = T.alloc_buffer((1,), \"uint64\", scope=\"shared\")\n\
         Tx.cta.copy_async(M, A[0:{rows}, {first}:{wide}], mbar=bar[0:1], dispatch=\"{variant}\")\n\
         Tx.cta.copy_async(B[0:{rows}, {first}:{wide}], M, dispatch=\"{variant}\")\n\
         Tx.cta.copy(B[0:{rows}, 0:{first}], A[0:{rows}, 0:{first}])"
    );
    let what = format!("({rows}, {wide}), \"{dtype}\"");
    let mut f = tile_program(name, &[("A", &what), ("B", &what)], 64, &body);
    let bytes = f.func.buffers.iter().map(|b| b.dtype.bytes() as i64).min().unwrap_or(0);
    flushed(&mut f, 1);
    awaited(&mut f, 0, rows * columns * bytes);
    (name.into(), f, 0.0)
}

/// A tile of a tensor of three dimensions, one of them in the middle of a loop over stages.
fn tma_stages() -> (String, DeviceFunc, f64) {
    let what = "(3, 16, 64), \"float16\"";
    let body = "M = T.alloc_buffer((2, 16, 64), \"float16\", scope=\"shared\", layout=SwizzleLayout(3, 3, 3))\n\
                bar = T.alloc_buffer((1,), \"uint64\", scope=\"shared\")\n\
                Tx.cta.copy_async(M[1:2, 0:16, 0:64], A[2:3, 0:16, 0:64], mbar=bar[0:1], dispatch=\"tma\")\n\
                Tx.cta.copy_async(B[1:2, 0:16, 0:64], M[1:2, 0:16, 0:64], dispatch=\"tma\")\n\
                Tx.cta.copy(B[0:1, 0:16, 0:64], A[0:1, 0:16, 0:64])\n\
                Tx.cta.copy(B[2:3, 0:16, 0:64], A[1:2, 0:16, 0:64])";
    let mut f = tile_program("tma_stages", &[("A", what), ("B", what)], 64, body);
    flushed(&mut f, 1);
    awaited(&mut f, 0, 16 * 64 * 2);
    ("tma_stages".into(), f, 0.0)
}

pub fn programs() -> Vec<(String, DeviceFunc, f64)> {
    let mut out = vec![];
    for dtype in ["int8", "bfloat16", "int32", "float64"] {
        out.push(ldgsts(&format!("ldgsts_{dtype}"), dtype, "(12, 40)", "cta", 40, "", ""));
    }
    out.extend([
        ldgsts("ldgsts_words", "float32", "(7, 13)", "cta", 32, "", ""),
        ldgsts("ldgsts_pairs", "float16", "(5, 6)", "warp", 32, "", ""),
        ldgsts("ldgsts_many", "float16", "(64, 128)", "cta", 32, "", ""),
        ldgsts("ldgsts_swizzled", "float16", "(16, 64)", "cta", 64, "SwizzleLayout(3, 3, 3)", ", prefetch=128"),
        ldgsts("ldgsts_zeros", "float32", "(8, 12)", "cta", 32, "", ", predicate=tid < 0, fill_mode=\"zero\""),
        bulk("bulk_rows", "float32", [6, 64, 72], ""),
        bulk("bulk_padded", "float16", [4, 24, 32], "TileLayout(S[(4, 24) : (32, 1)])"),
        bulk("bulk_bytes", "int8", [3, 48, 64], ""),
        bulk("bulk_chunks", "float16", [8, 64, 128], "SwizzleLayout(3, 3, 3)"),
        bulk("tma_plain", "float32", [6, 64, 72], ""),
        bulk("tma_bytes", "int8", [16, 48, 64], ""),
        bulk("tma_wide", "float64", [4, 16, 20], ""),
        bulk("tma_swizzled", "float16", [16, 64, 128], "SwizzleLayout(3, 3, 3)"),
        bulk("tma_swizzled_64", "bfloat16", [16, 32, 48], "SwizzleLayout(3, 2, 3)"),
        bulk("tma_swizzled_32", "float32", [16, 8, 16], "SwizzleLayout(2, 1, 3)"),
        bulk(
            "tma_atoms",
            "float16",
            [16, 128, 136],
            "ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[(16, 2, 64) : (64, 1024, 1)]))",
        ),
        tma_stages(),
    ]);
    out
}

#[test]
fn asynchronous_copies_are_exact() {
    super::run::agree(programs(), "sim:sm_90a");
}

#[test]
fn asynchronous_copies_read_well() {
    let shown = [
        "ldgsts_words",
        "ldgsts_swizzled",
        "ldgsts_zeros",
        "bulk_rows",
        "bulk_chunks",
        "tma_plain",
        "tma_atoms",
        "tma_stages",
    ];
    super::run::golden("copy_async", programs(), &shown);
}

/// A map that ends before the tensor does: what lies beyond is read as zeros and not written.
#[test]
fn boxes_end_where_their_tensor_ends() {
    let (_, f, _) = bulk("tma_plain", "float32", [6, 64, 72], "");
    let args = super::case::arguments(&f);
    for (of, expected_outside) in [("p0", Some(0.0)), ("p1", None)] {
        let mut program = super::case::lowered(&f, "sim:sm_90a");
        for p in &mut program.launches[0].kernel.params {
            if let KernelParam::TensorMap(map) = p
                && map.buffer.as_str() == of
            {
                (map.dims[0], map.dims[1]) = (70, 4);
            }
        }
        let mut got = args.clone();
        let options = SimOptions { inout: vec!["p1".into()].into_iter().collect(), ..SimOptions::default() };
        sim::run(&program, &mut got, &Scalars::new(), &options).unwrap_or_else(|e| panic!("{e}"));
        for i in 0..6 * 72 {
            let (row, column) = (i / 72, i % 72);
            let outside = column >= 8 && (row >= 4 || column >= 70);
            let want = match (outside, expected_outside) {
                (true, Some(zero)) => zero,
                (true, None) => args[1].get_f64(i),
                (false, _) => args[0].get_f64(i),
            };
            assert_eq!(got[1].get_f64(i), want, "{of}: row {row}, column {column}");
        }
    }
}
