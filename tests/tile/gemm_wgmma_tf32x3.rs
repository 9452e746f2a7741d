//! Products of float32 by warpgroups, three of tf32 for each: what the variant accepts and declines, and programs of one
//! product each.

use super::case::{Case, Says, buffer};
use super::gemm_shapes::{Product, with_layout};
use super::gemm_wgmma::{SMALL, Spec, operand, place, sums, warps_along_columns};
use Says::{Declines, Takes};
use daylight::ir::{AttrValue, Buffer, DType, ExecScope, Scope, Tile, TileArg};
use daylight::tile::Active;

const V: &str = "wgmma_tf32x3";

/// 64 x 16 x 8 by one group, both operands contiguous along K, their lines as long as it is.
const OF_FLOAT32: Spec = Spec { input: DType::F32, variant: V, ..SMALL };

/// The programs; `high` is cut off, so that products of both `low` are up to 2^-20 of the whole.
pub fn products() -> Vec<Product> {
    let all = [
        Spec { n: 16, ..OF_FLOAT32 },
        Spec { n: 24, spans: [64, 64], steps: 2, accum: true, ..OF_FLOAT32 },
        Spec { n: 96, spans: [128, 128], steps: 4, ..OF_FLOAT32 },
        Spec { n: 40, spans: [16, 128], steps: 4, transposed: [true, true], ..OF_FLOAT32 },
        Spec { groups: [2, 1], n: 16, spans: [128, 64], steps: 4, accum: true, ..OF_FLOAT32 },
        Spec { groups: [1, 2], n: 32, spans: [128, 128], steps: 8, ..OF_FLOAT32 },
        Spec { rows: 2, n: 16, spans: [128, 128], steps: 4, stages: 3, accum: true, ..OF_FLOAT32 },
    ];
    all.iter().map(product).collect()
}

/// One whose B has fewer elements than the block has threads: the condition on these costs fences of the compiler's own.
pub fn few() -> Product {
    product(&Spec { n: 8, ..OF_FLOAT32 })
}

fn product(spec: &Spec) -> Product {
    Product { u_in: 2f64.powi(-21), ..spec.product() }
}

fn with(name: &str, spec: &Spec, says: Says, change: &dyn Fn(&mut Case)) -> Case {
    let mut c = Case { name: format!("{V}: {name}"), says, ..place(spec) };
    change(&mut c);
    c
}

/// Another set of registers like those of D, as the operand for the products of low parts.
fn rest(c: &mut Case, change: &dyn Fn(&mut Buffer)) {
    let mut rest = Buffer { name: "r".into(), ..c.buffers[0].clone() };
    change(&mut rest);
    c.buffers.push(rest);
    c.call.operands.insert("rest".into(), TileArg::Tile(Tile::whole(&"r".into(), &[64, 16])));
}

pub fn cases() -> Vec<Case> {
    let takes = |name: &str, spec: &Spec| with(name, spec, Takes(V), &|_| {});
    let declines =
        |name: &str, predicate, change: &dyn Fn(&mut Case)| with(name, &OF_FLOAT32, Declines(V, predicate), change);
    vec![
        takes("one group", &OF_FLOAT32),
        takes("two groups along both", &Spec { groups: [2, 2], n: 64, spans: [128, 128], steps: 4, ..OF_FLOAT32 }),
        takes("A contiguous along M", &Spec { transposed: [true, true], spans: [128, 32], ..OF_FLOAT32 }),
        takes("a stage of a pipeline", &Spec { stages: 2, ..OF_FLOAT32 }),
        with("registers for the rest", &OF_FLOAT32, Takes(V), &|c| rest(c, &|_| {})),
        with("of the high parts alone", &Spec { variant: "wgmma", ..OF_FLOAT32 }, Takes("wgmma"), &|c| {
            c.call.config.insert("precision".into(), AttrValue::Str("tf32".into()));
        }),
        declines("an earlier GPU", "sm_version", &|c| c.target = "cuda:sm_80"),
        declines("a group", "exec_scope", &|c| c.call.scope = ExecScope::Warpgroup),
        declines("some warps only", "all_threads", &|c| c.active = Active::WholeWarps),
        declines("a group and a half", "whole_warpgroups", &|c| c.block = [192, 1, 1]),
        declines("extents disagree", "shapes", &|c| {
            c.call.args[1] = TileArg::Tile(Tile::whole(&"b".into(), &[8, 8]));
        }),
        declines("an unknown argument", "options", &|c| {
            c.call.config.insert("layout".into(), AttrValue::Str("row".into()));
        }),
        declines("D and A in one buffer", "overlap", &|c| {
            c.buffers[1] = with_layout(c.buffers[1].clone(), sums([1, 1], 1, 8));
            c.buffers[1].name = "d".into();
            c.call.args[0] = TileArg::Tile(Tile::whole(&"d".into(), &[64, 8]));
        }),
        declines("float16", "dtype", &|c| c.buffers[1..].iter_mut().for_each(|b| b.dtype = DType::F16)),
        declines("A in registers", "storage_scope", &|c| c.buffers[1].scope = Scope::Local),
        declines("C beside D", "c_place", &|c| {
            c.buffers.push(Buffer { name: "c".into(), ..c.buffers[0].clone() });
            c.call.args.push(TileArg::Tile(Tile::whole(&"c".into(), &[64, 16])));
        }),
        declines("warps side by side", "accumulators", &|c| c.buffers[0].layout = Some(warps_along_columns())),
        declines("the rest in shared memory", "rest_place", &|c| rest(c, &|r| r.scope = Scope::Shared)),
        declines("the rest of float16", "rest_place", &|c| rest(c, &|r| r.dtype = DType::F16)),
        with("264 columns", &Spec { n: 264, ..OF_FLOAT32 }, Declines(V, "shape"), &|_| {}),
        declines("A in global memory", "storage_scope", &|c| c.buffers[1].scope = Scope::Global),
        declines("B as it is", "b_descriptor", &|c| c.buffers[2].layout = None),
        with(
            "B contiguous along N",
            &Spec { transposed: [false, false], ..OF_FLOAT32 },
            Declines(V, "b_descriptor"),
            &|_| {},
        ),
        declines("B with gaps", "b_run", &|c| {
            let whole = operand([1, 16, 16], DType::F32, 64);
            c.buffers[2] = with_layout(buffer("b", DType::F32, &[16, 16], Scope::Shared, ""), whole);
            c.call.args[1] = TileArg::Tile(Tile::whole(&"b".into(), &[16, 8]));
        }),
    ]
}
