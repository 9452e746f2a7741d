//! Elementwise operations: `reg`, `smem`, `f32x2`, `cast_vec2`.

use super::case::{Case, Says, buffer, close_to_reference, cuda, lowered, tile_program};
use crate::common;
use daylight::ir::device::DeviceFunc;
use daylight::ir::{AttrValue, DType, ExecScope, Expr, Name, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::Active;

const ROWS: &str = "S[(32, 8) : (1@laneid, 1)]";

fn tile(name: &str, shape: &[i64]) -> TileArg {
    TileArg::Tile(Tile::whole(&Name::new(name), shape))
}

/// `d = op(a, ...)` of 32 x 8 tiles, by a warp.
fn case(name: &str, op: TileOp, scope: Scope, dtypes: [DType; 2], says: Says) -> Case {
    let layout = if scope == Scope::Local { ROWS } else { "" };
    let shape = [32, 8];
    let d = buffer("d", dtypes[0], &shape, scope.clone(), layout);
    let a = buffer("a", dtypes[1], &shape, scope, layout);
    let args = vec![tile("a", &shape); op.arity()];
    let call = TileCall::new(op, ExecScope::Warp, Tile::whole(&Name::new("d"), &shape), args);
    Case::new(name, "cuda:sm_100a", 64, &[d, a], call, says)
}

const F32: [DType; 2] = [DType::F32, DType::F32];

pub fn cases() -> Vec<Case> {
    use Says::{Declines, Takes};
    let mut all = vec![];
    let kinds = [
        ("reg", TileOp::Sqrt, Scope::Local, F32),
        ("smem", TileOp::Sqrt, Scope::Shared, F32),
        ("f32x2", TileOp::Fma, Scope::Local, F32),
        ("cast_vec2", TileOp::Cast, Scope::Local, [DType::BF16, DType::F32]),
    ];
    for (variant, op, scope, dtypes) in kinds {
        let good = |what: &str, says| case(&format!("{variant}: {what}"), op, scope.clone(), dtypes, says);
        let no = |predicate| Declines(variant, predicate);
        all.push(good("a tile by a warp", Takes(variant)));
        let mut few = good("an operand too many", no("operands"));
        few.call.args.push(TileArg::Scalar(Expr::float(1.0, DType::F32)));
        let mut elsewhere = good("device memory", no("storage_scope"));
        elsewhere.buffers[0] = buffer("d", dtypes[0], &[32, 8], Scope::Global, "");
        let mut types = good("integers", no("dtype"));
        types.buffers.iter_mut().for_each(|b| b.dtype = DType::I32);
        let mut some = good("some lanes", no("all_threads"));
        some.active = Active::Some;
        let mut other = good("another part of the destination", no("overlap"));
        other.buffers[0] = buffer("d", dtypes[0], &[40, 8], scope.clone(), "");
        other.call.dst.begin[0] = Expr::i64(4);
        other.call.args = vec![tile("d", &[32, 8]); op.arity()];
        other.call.scope = ExecScope::Thread;
        let mut rounding = good("rounding up", no("rounding"));
        rounding.call.config.insert("rounding".into(), AttrValue::Str("rp".into()));
        all.extend([few, elsewhere, types, some, other, rounding]);
        if scope == Scope::Local {
            let mut turned = good("another lane's rows", no("layout"));
            turned.buffers[1] =
                buffer("a", dtypes[1], &[32, 8], Scope::Local, "S[(4, 8, 8) : (1@laneid, 4@laneid, 1)]");
            all.push(turned);
        }
    }
    let mut flush = case("reg: flush to zero", TileOp::Add, Scope::Local, F32, Declines("reg", "rounding"));
    flush.call.config.insert("ftz".into(), AttrValue::Bool(true));
    let mut own = case("reg: registers of each thread", TileOp::Add, Scope::Local, F32, Declines("reg", "layout"));
    own.buffers.iter_mut().for_each(|b| b.layout = None);
    let mut groups = case("smem: one of two warpgroups", TileOp::Add, Scope::Shared, F32, Declines("smem", "barrier"));
    (groups.block, groups.active, groups.call.scope) = ([256, 1, 1], Active::WholeWarpgroups, ExecScope::Warpgroup);
    let mut hopper = case("f32x2: sm_90", TileOp::Add, Scope::Local, F32, Declines("f32x2", "sm_version"));
    hopper.target = "cuda:sm_90a";
    all.extend([flush, own, groups, hopper]);
    all.extend(pair_cases());
    all
}

fn pair_cases() -> Vec<Case> {
    let columns = "S[(32, 8) : (8, 1@laneid)]";
    let odd = "S[(32, 7) : (1@laneid, 1)]";
    let mut all = vec![];
    for (variant, op, dtypes) in [("f32x2", TileOp::Mul, F32), ("cast_vec2", TileOp::Cast, [DType::F32, DType::F16])] {
        let declines = Says::Declines(variant, "pairs");
        let mut seven = case(&format!("{variant}: 7 elements"), op, Scope::Local, dtypes, declines);
        seven.buffers[0] = buffer("d", dtypes[0], &[32, 7], Scope::Local, odd);
        seven.buffers[1] = buffer("a", dtypes[1], &[32, 7], Scope::Local, odd);
        seven.call.dst = Tile::whole(&Name::new("d"), &[32, 7]);
        seven.call.args = vec![tile("a", &[32, 7]); op.arity()];
        let mut apart = case(&format!("{variant}: pairs apart"), op, Scope::Local, dtypes, declines);
        apart.buffers[1] = buffer("a", dtypes[1], &[32, 8], Scope::Local, "S[(32, 8) : (1@laneid, 2)]");
        let mut column = case(&format!("{variant}: one source for a pair"), op, Scope::Local, dtypes, declines);
        column.buffers[1] = buffer("a", dtypes[1], &[32, 1], Scope::Local, "S[(32, 1) : (1@laneid, 1)]");
        column.call.args = vec![tile("a", &[32, 1]); op.arity()];
        if variant == "f32x2" {
            column.says = Says::Takes("f32x2");
        }
        all.extend([seven, apart, column]);
    }
    let mut rest =
        case("f32x2: rows over registers", TileOp::Add, Scope::Local, F32, Says::Declines("f32x2", "layout"));
    rest.buffers[1] = buffer("a", DType::F32, &[32, 8], Scope::Local, columns);
    all.push(rest);
    all
}

/// How a call is written: name, operands, element type of `A` and `B`, element type of `D`.
const CALLS: [(&str, &str, &str, &str); 24] = [
    ("zero", "", "float32", "float32"),
    ("fill", ", 2.5", "float32", "float16"),
    ("cast", ", A", "float32", "float16"),
    ("cast", ", A", "bfloat16", "float32"),
    ("cast", ", A", "float32", "int32"),
    ("reciprocal", ", A", "float32", "float32"),
    ("sqrt", ", A", "float32", "float32"),
    ("exp", ", A", "float32", "float32"),
    ("exp", ", A", "float16", "float16"),
    ("exp2", ", A", "float32", "float32"),
    ("log2", ", A", "float32", "float32"),
    ("silu", ", A", "float32", "float32"),
    ("silu", ", A", "bfloat16", "bfloat16"),
    ("add", ", A, B", "float32", "float32"),
    ("add", ", A, B", "float16", "float16"),
    ("sub", ", A, ROW", "float32", "float32"),
    ("mul", ", A, COLUMN", "float32", "float32"),
    ("mul", ", A, 3.0", "float32", "float32"),
    ("fdiv", ", 1.0, A", "float32", "float32"),
    ("maximum", ", A, B", "float32", "float32"),
    ("minimum", ", A, ROW", "bfloat16", "bfloat16"),
    ("fma", ", A, COLUMN, B", "float32", "float32"),
    ("fma", ", A, 2.0, D", "float32", "float32"),
    ("add", ", A, B", "int32", "int32"),
];

/// Every call on registers of a warp, on registers of a thread, and on shared memory, where the threads
/// do or do not divide the elements.
pub fn programs() -> Vec<(String, DeviceFunc, f64)> {
    let mut all = vec![];
    for (k, (op, args, from, to)) in CALLS.iter().enumerate() {
        let tolerance = if [*from, *to].iter().any(|t| *t == "float16" || *t == "bfloat16") { 1e-2 } else { 2e-6 };
        all.push((format!("warp_{k}_{op}"), warp_program(op, args, from, to), tolerance));
        all.push((format!("thread_{k}_{op}"), thread_program(op, args, from, to), tolerance));
        for (rows, columns, threads) in [(6, 8, 32), (5, 7, 24)] {
            let p = shared_program(op, args, from, to, [rows, columns, threads]);
            all.push((format!("smem_{rows}x{columns}_{threads}_{k}_{op}"), p, tolerance));
        }
    }
    all
}

/// The call with the tiles that its operands stand for.
fn call_text(scope: &str, op: &str, args: &str, tiles: [&str; 5]) -> String {
    let [d, a, b, row, column] = tiles;
    let args = args.replace("COLUMN", "column").replace("ROW", "row").replace('A', a).replace('B', b).replace('D', d);
    format!("Tx.{scope}.{op}({d}{})", args.replace("column", column).replace("row", row))
}

/// The lines whose condition holds.
fn lines(all: &[(bool, String)]) -> String {
    all.iter().filter(|l| l.0).map(|l| format!("{}\n", l.1)).collect()
}

/// A row of 8 elements in each of 32 lanes.
fn warp_program(op: &str, args: &str, from: &str, to: &str) -> DeviceFunc {
    let uses = |what: &str| args.contains(what);
    let tile = |name: &str, dtype: &str, shape: &str, layout: &str| {
        format!("{name} = T.alloc_local({shape}, \"{dtype}\", layout=T.TileLayout({layout}))")
    };
    let lanes = "T.S[(32, 8) : (1@laneid, 1)]";
    let body = lines(&[
        (uses("A"), tile("a", from, "(32, 8)", lanes)),
        (uses("B"), tile("b", from, "(32, 8)", lanes)),
        (true, tile("d", to, "(32, 8)", lanes)),
        (uses("ROW"), tile("r", from, "(1, 8)", "T.S[(1, 8) : (1, 1)] + T.R[32 : 1@laneid]")),
        (uses("COLUMN"), tile("c", from, "(32, 1)", "T.S[(32, 1) : (1@laneid, 1)]")),
        (uses("COLUMN"), "c[tx, 0] = B[tx, 3]".to_string()),
        (true, "for j in T.serial(8):".to_string()),
        (uses("A"), "    a[tx, j] = A[tx, j]".to_string()),
        (uses("B"), "    b[tx, j] = B[tx, j]".to_string()),
        (uses("ROW"), "    r[0, j] = B[5, j]".to_string()),
        (true, "    d[tx, j] = C[tx, j]".to_string()),
        (true, call_text("warp", op, args, ["d", "a", "b", "r", "c"])),
        (true, "for j in T.serial(8):\n    D[tx, j] = d[tx, j]".to_string()),
    ]);
    let shape: &[i64] = &[32, 8];
    tile_program(&[("A", shape, from), ("B", shape, from), ("C", shape, to), ("D", shape, to)], 32, &body)
}

/// Parts of registers of one thread, in a loop.
fn thread_program(op: &str, args: &str, from: &str, to: &str) -> DeviceFunc {
    let tiles = ["d[2 * i:2 * i + 2, 0:6]", "a[2 * i:2 * i + 2, 2:8]", "b[2:4, 0:6]", "b[1, 2:8]", "b[2:4, 5:6]"];
    let uses = |what: &[&str]| what.iter().any(|w| args.contains(w));
    let b = uses(&["B", "ROW", "COLUMN"]);
    let body = lines(&[
        (uses(&["A"]), format!("a = T.alloc_local((4, 8), \"{from}\")")),
        (b, format!("b = T.alloc_local((4, 8), \"{from}\")")),
        (true, format!("d = T.alloc_local((4, 8), \"{to}\")\nfor i, j in T.grid(4, 8):")),
        (uses(&["A"]), "    a[i, j] = A[i, j]".to_string()),
        (b, "    b[i, j] = B[i, j]".to_string()),
        (true, format!("    d[i, j] = C[i, j]\nfor i in T.serial(2):\n    {}", call_text("thread", op, args, tiles))),
        (true, "for i, j in T.grid(4, 8):\n    D[i, j] = d[i, j]".to_string()),
    ]);
    let shape: &[i64] = &[4, 8];
    tile_program(&[("A", shape, from), ("B", shape, from), ("C", shape, to), ("D", shape, to)], 1, &body)
}

/// Shared memory; the last threads have nothing to do.
fn shared_program(op: &str, args: &str, from: &str, to: &str, [rows, columns, threads]: [i64; 3]) -> DeviceFunc {
    let (row, column) = (format!("b[1, 0:{columns}]"), format!("b[0:{rows}, 2:3]"));
    let n = rows * columns;
    let at = format!("(i * {threads} + tx) // {columns}, (i * {threads} + tx) % {columns}");
    let each = format!("for i in T.serial({}):\n    if i * {threads} + tx < {n}:", (n + threads - 1) / threads);
    let uses = |what: &[&str]| what.iter().any(|w| args.contains(w));
    let b = uses(&["B", "ROW", "COLUMN"]);
    let body = lines(&[
        (uses(&["A"]), format!("a = T.alloc_shared(({rows}, {columns}), \"{from}\")")),
        (b, format!("b = T.alloc_shared(({rows}, {columns}), \"{from}\")")),
        (true, format!("d = T.alloc_shared(({rows}, {columns}), \"{to}\")\n{each}")),
        (uses(&["A"]), format!("        a[{at}] = A[{at}]")),
        (b, format!("        b[{at}] = B[{at}]")),
        (true, format!("        d[{at}] = C[{at}]\nT.cuda.cta_sync()")),
        (true, call_text("cta", op, args, ["d", "a", "b", &row, &column])),
        (true, format!("{each}\n        D[{at}] = d[{at}]")),
    ]);
    let shape: &[i64] = &[rows, columns];
    let params = [("A", shape, from), ("B", shape, from), ("C", shape, to), ("D", shape, to)];
    tile_program(&params, threads as u32, &body)
}

#[test]
fn simulated_programs_agree_with_the_reference() {
    for (name, p, tolerance) in programs() {
        for target in ["cuda:sm_90a", "cuda:sm_100a"] {
            close_to_reference(&format!("{name} on {target}"), &p, target, tolerance);
        }
    }
}

#[test]
fn the_rounding_that_a_call_asks_for_is_in_the_instruction() {
    let p = thread_program("mul", ", A, B, rounding=\"rz\", ftz=True", "float32", "float32");
    assert!(cuda(&p, "cuda:sm_100a").contains("mul.rz.ftz.f32x2"));
    close_to_reference("mul rz ftz", &p, "cuda:sm_100a", 2e-7);
    let p = warp_program("add", ", A, B", "float32", "float32");
    assert!(cuda(&p, "cuda:sm_103a").contains("add.rn.f32x2"));
}

#[test]
fn packed_variants_are_chosen_on_sm_100() {
    let count = |variant: &str| {
        let uses = |p: &DeviceFunc| lowered(p, "cuda:sm_100a").variants.iter().any(|v| v.variant == variant);
        programs().iter().filter(|(_, p, _)| uses(p)).count()
    };
    assert_eq!(count("cast_vec2"), 4);
    assert_eq!(count("f32x2"), 12);
}

/// Programs whose text is kept.
const SHOWN: [&str; 8] = [
    "warp_6_sqrt",
    "warp_2_cast",
    "warp_21_fma",
    "thread_17_mul",
    "thread_12_silu",
    "smem_6x8_32_15_sub",
    "smem_5x7_24_13_add",
    "smem_6x8_32_2_cast",
];

#[test]
fn cuda_text_of_elementwise_operations() {
    let mut text = String::new();
    for (name, p, _) in programs().iter().filter(|p| SHOWN.contains(&p.0.as_str())) {
        let cuda = cuda(p, "cuda:sm_100a");
        let kernel = cuda.find("extern \"C\"").map_or("", |at| &cuda[at..]);
        text.push_str(&format!("// {name}\n{kernel}\n"));
    }
    common::golden("golden/tile/elementwise.cu", &text);
}
