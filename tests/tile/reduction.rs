//! Reductions: `local`, `shared`, `sm100_packed`, `cross_warp`, `staged`.

use crate::case::{Case, Says, buffer, close_to_reference, cuda, tile_program};
use crate::common;
use daylight::ir::device::DeviceFunc;
use daylight::ir::{DType, ExecScope, Name, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::Active;

/// A reduction of all of `a` to all of `d`, both in registers with these layouts.
struct Regs {
    scope: ExecScope,
    src: (&'static [i64], &'static str),
    dst: (&'static [i64], &'static str),
    axes: &'static [usize],
    threads: u32,
}

impl Regs {
    fn case(&self, name: &str, says: Says) -> Case {
        let a = buffer("a", DType::F32, self.src.0, Scope::Local, self.src.1);
        let d = buffer("d", DType::F32, self.dst.0, Scope::Local, self.dst.1);
        let call = call(TileOp::Sum, self.scope, ("d", self.dst.0), ("a", self.src.0), self.axes);
        Case::new(name, "cuda:sm_90a", self.threads, &[a, d], call, says)
    }
}

fn call(op: TileOp, scope: ExecScope, dst: (&str, &[i64]), src: (&str, &[i64]), axes: &[usize]) -> TileCall {
    let tile = |(name, shape): (&str, &[i64])| Tile::whole(&Name::new(name), shape);
    TileCall { axes: axes.to_vec(), ..TileCall::new(op, scope, tile(dst), vec![TileArg::Tile(tile(src))]) }
}

const THREAD: Regs = Regs { scope: ExecScope::Thread, src: (&[4], ""), dst: (&[1], ""), axes: &[0], threads: 1 };
const WARP: Regs = Regs {
    scope: ExecScope::Warp,
    src: (&[32, 8], "S[(32, 8) : (1@laneid, 1)]"),
    dst: (&[1, 8], "S[(1, 8) : (1, 1)] + R[32 : 1@laneid]"),
    axes: &[0],
    threads: 64,
};

pub fn cases() -> Vec<Case> {
    let mut all = local_cases();
    all.dedup_by(|a, b| a.name == b.name);
    all
}

fn local_cases() -> Vec<Case> {
    use Says::{Declines, Takes};
    let mut shared = THREAD.case("local: a source in shared memory", Declines("local", "storage_scope"));
    shared.buffers[0].scope = Scope::Shared;
    let mut mixed = THREAD.case("local: two types", Declines("local", "dtype"));
    mixed.buffers[0].dtype = DType::F16;
    let mut some = WARP.case("local: some lanes only", Declines("local", "threads"));
    some.active = Active::Some;
    let columns = Regs {
        src: (&[4, 64], "S[(4, 64) : (64@tx, 1@tx)]"),
        dst: (&[1, 64], "S[(1, 64) : (1, 1@tx)] + R[4 : 64@tx]"),
        scope: ExecScope::Cta,
        threads: 256,
        axes: &[0],
    };
    let half = Regs { dst: (&[1, 8], "S[(1, 8) : (1, 1)] + R[16 : 1@laneid]"), ..WARP };
    vec![
        THREAD.case("local: four registers of a thread", Takes("local")),
        WARP.case("local: rows among lanes", Takes("local")),
        shared,
        mixed,
        some,
        half.case("local: half of the lanes hold the result", Declines("local", "layout")),
        columns.case("local: over warps", Declines("local", "lanes")),
    ]
}

/// What is done in text, with the names that it uses and a tolerance.
pub fn programs() -> Vec<(String, DeviceFunc, f64)> {
    let mut all = vec![];
    for op in ["sum", "prod", "max", "min"] {
        for accum in ["False", "True"] {
            all.extend(register_programs(op, accum));
        }
    }
    all
}

fn register_programs(op: &str, accum: &str) -> Vec<(String, DeviceFunc, f64)> {
    let exact = |dtype: &str| if dtype == "float32" { 1e-5 } else { 8e-3 };
    let thread = |n: i64, dtype: &str| {
        let body = format!(
            "a = T.alloc_local(({n},), \"{dtype}\")\nd = T.alloc_local((1,), \"{dtype}\")\nfor i in T.serial({n}):\n    \
             a[i] = A[tx, i]\nd[0] = C[tx]\nTx.{op}(d, a, accum={accum})\nB[tx] = d[0]"
        );
        let p = tile_program(&[("A", &[3, n], dtype), ("C", &[3], dtype), ("B", &[3], dtype)], 3, &body);
        (format!("{op}_thread_{n}_{dtype}_{accum}"), p, exact(dtype))
    };
    let rows = {
        let body = format!(
            "a = T.alloc_local((5, 6, 7), \"float32\")\nd = T.alloc_local((5, 7), \"float32\")\n\
             for i, j, k in T.grid(5, 6, 7):\n    a[i, j, k] = A[i, j, k]\nfor i, k in T.grid(5, 7):\n    \
             d[i, k] = C[i, k]\nfor r in T.serial(2):\n    \
             Tx.{op}(d[2 * r:2 * r + 2, 0:7], a[2 * r:2 * r + 2, 2:6, 0:7], axes=1, accum={accum})\n\
             for i, k in T.grid(5, 7):\n    B[i, k] = d[i, k]"
        );
        let matrix: &[i64] = &[5, 7];
        let params = [("A", &[5, 6, 7][..], "float32"), ("C", matrix, "float32"), ("B", matrix, "float32")];
        (format!("{op}_thread_middle_{accum}"), tile_program(&params, 1, &body), 1e-5)
    };
    // each thread has 2 x 3 values; the rows are spread over threads and reduced with the middle axis
    let spread = |scope: &str, threads: i64, src: &str, dst: &str, groups: &str, row: &str, dtype: &str| {
        let body = format!(
            "a = T.alloc_local(({threads}, 2, 3), \"{dtype}\", layout=TileLayout({src}))\n\
             d = T.alloc_local(({groups}, 3), \"{dtype}\", layout=TileLayout({dst}))\n\
             for i, j in T.grid(2, 3):\n    a[tx, i, j] = A[tx, i, j]\nfor j in T.serial(3):\n    d[{row}, j] = C[{row}, j]\n\
             Tx.{scope}.{op}(d, a, axes=(0, 1), accum={accum})\nfor j in T.serial(3):\n    B[tx, j] = d[{row}, j]"
        );
        let out: &[i64] = &[threads, 3];
        let params = [("A", &[threads, 2, 3][..], dtype), ("C", out, dtype), ("B", out, dtype)];
        let p = tile_program(&params, threads as u32, &body);
        (format!("{op}_{scope}_{threads}_{dtype}_{accum}"), p, exact(dtype))
    };
    let lanes = "S[(1, 3) : (1, 1)] + R[32 : 1@laneid]";
    let warp = spread("warp", 32, "S[(32, 2, 3) : (1@laneid, 3, 1)]", lanes, "1", "0", "float32");
    let cta =
        spread("cta", 32, "S[(32, 2, 3) : (1@tx, 3, 1)]", "S[(1, 3) : (1, 1)] + R[32 : 1@tx]", "1", "0", "bfloat16");
    vec![thread(1, "float32"), thread(7, "float32"), thread(5, "float16"), rows, warp, cta]
}

#[test]
fn simulated_programs_agree_with_the_reference() {
    for (name, p, tolerance) in programs() {
        close_to_reference(&name, &p, "cuda:sm_90a", tolerance);
    }
}

#[test]
fn cuda_text_of_reductions() {
    let mut text = String::new();
    for (name, p, _) in programs() {
        if name.starts_with("sum_") && name.ends_with("_False") {
            text.push_str(&format!("// {name}\n{}\n", kernel(&cuda(&p, "cuda:sm_90a"))));
        }
    }
    common::golden("golden/tile/reduction.cu", &text);
}

/// The kernel without header and prelude.
fn kernel(text: &str) -> &str {
    text.find("extern \"C\"").map_or(text, |at| &text[at..])
}
