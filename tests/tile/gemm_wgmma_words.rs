//! Products of packed words by warpgroups: what the variant accepts and declines, and programs of one product each whose
//! first factor is in registers as its words are decoded.

use super::case::{Case, Says, buffer, program, sync};
use super::gemm_shapes::{Product, each_held, each_shared, load, product, store, tiled, values, with_layout};
use super::gemm_wgmma::{operand, sums};
use Says::{Declines, Takes};
use daylight::interp::Tensor;
use daylight::ir::device::DStmt;
use daylight::ir::instr::{Instr, Sync};
use daylight::ir::layout::{Axis, Fragment, Iter, TileLayout};
use daylight::ir::{AttrValue, Buffer, DType, ExecScope, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::Active;

const V: &str = "wgmma_words";

/// One product of packed words.
#[derive(Clone, Copy, Debug)]
struct Spec {
    m: i64,
    n: i64,
    k: i64,
    groups: i64,
    /// Bytes of a line of B.
    span: i64,
    accum: bool,
}

const SMALL: Spec = Spec { m: 128, n: 16, k: 32, groups: 2, span: 64, accum: true };

impl Spec {
    fn threads(&self) -> u32 {
        128 * self.groups as u32
    }

    /// D, A and B.
    fn buffers(&self) -> [Buffer; 3] {
        let Spec { m, n, k, groups, span, .. } = *self;
        let words = TileLayout::of_group_words(m, k, groups).expect("a layout");
        [
            with_layout(buffer("d", DType::F32, &[m, n], Scope::Local, ""), sums([groups, 1], m / 64 / groups, n)),
            with_layout(buffer("a", DType::F16, &[m, k], Scope::Local, ""), words),
            with_layout(buffer("b", DType::F16, &[n, k], Scope::Shared, ""), operand([1, n, k], DType::F16, span)),
        ]
    }

    fn call(&self) -> TileCall {
        let Spec { m, n, k, .. } = *self;
        let whole = |name: &str, shape: [i64; 2]| Tile::whole(&name.into(), &shape);
        let args = vec![TileArg::Tile(whole("a", [m, k])), TileArg::Tile(whole("b", [n, k]))];
        let mut call = TileCall::new(TileOp::Gemm, ExecScope::Cta, whole("d", [m, n]), args);
        call.accum = self.accum;
        call.config.insert("transpose_B".into(), AttrValue::Bool(true));
        call.forced = Some(V.into());
        call
    }

    fn product(&self) -> Product {
        let Spec { m, n, k, .. } = *self;
        let [d, a, b] = self.buffers();
        let mut body =
            each_shared("B", &[n, k], self.threads(), |at| vec![store(&b.name, at, load("B", at, DType::F16))]);
        body.extend([DStmt::Instr(Instr::from(Sync::AsyncFence)), sync()]);
        body.extend(each_held("A", &a, |at| vec![store(&a.name, at, load("A", at, DType::F16))]));
        body.extend(each_held("C", &d, |at| vec![store(&d.name, at, load("C", at, DType::F32))]));
        body.push(DStmt::Tile(Box::new(self.call())));
        body.extend(each_held("D", &d, |at| vec![store(&"D".into(), at, load("d", at, DType::F32))]));
        let of = |name, dtype, shape: &[i64; 2]| buffer(name, dtype, shape, Scope::Global, "");
        let (half, sum) = (DType::F16, DType::F32);
        let global = [of("A", half, &[m, k]), of("B", half, &[n, k]), of("C", sum, &[m, n]), of("D", sum, &[m, n])];
        let seed = (m * 1000 + n * 10 + k) as u64;
        let args = vec![
            values(half, &[m, k], seed),
            values(half, &[n, k], seed + 1),
            values(sum, &[m, n], seed + 2),
            Tensor::zeros(sum, &[m, n]),
        ];
        let start = self.accum.then_some(&args[2]);
        Product {
            name: format!("wgmma_words {self:?}"),
            func: program(self.threads(), &[&global[..], &[d, a, b]].concat(), body),
            want: product(&args[0], &args[1], start, [m, n, k], [false, true]),
            args,
            u_in: 0.0,
            u: 2f64.powi(-24),
            depth: k,
        }
    }
}

/// The programs.
pub fn products() -> Vec<Product> {
    let all = [
        SMALL,
        Spec { m: 64, n: 8, k: 16, groups: 1, span: 32, accum: false },
        Spec { m: 256, n: 24, k: 64, span: 128, ..SMALL },
        Spec { m: 64, n: 40, k: 128, groups: 1, span: 128, accum: false },
    ];
    all.iter().map(Spec::product).collect()
}

fn with(name: &str, says: Says, change: &dyn Fn(&mut Case)) -> Case {
    let mut c = Case::new("", "cuda:sm_90a", SMALL.threads(), &SMALL.buffers(), SMALL.call(), says);
    c.name = format!("wgmma_words: {name}");
    change(&mut c);
    c
}

/// What the variant accepts and declines.
pub fn cases() -> Vec<Case> {
    let declines = |name: &str, predicate, change: &dyn Fn(&mut Case)| with(name, Declines(V, predicate), change);
    vec![
        with("two groups", Takes(V), &|_| {}),
        declines("an earlier GPU", "sm_version", &|c| c.target = "cuda:sm_80"),
        declines("a later GPU", "sm_version", &|c| c.target = "cuda:sm_100a"),
        declines("a group", "exec_scope", &|c| c.call.scope = ExecScope::Warpgroup),
        declines("some warps only", "all_threads", &|c| c.active = Active::WholeWarps),
        declines("a group and a half", "whole_warpgroups", &|c| c.block = [192, 1, 1]),
        declines("extents disagree", "shapes", &|c| {
            c.call.args[1] = TileArg::Tile(Tile::whole(&"b".into(), &[8, 32]));
        }),
        declines("an unknown argument", "options", &|c| {
            c.call.config.insert("layout".into(), AttrValue::Str("row".into()));
        }),
        declines("D and B in one buffer", "overlap", &|c| {
            c.buffers[0] = buffer("d", DType::F32, &[128, 32], Scope::Local, "");
            c.call.args[1] = TileArg::Tile(Tile::whole(&"d".into(), &[16, 32]));
        }),
        declines("bfloat16", "dtype", &|c| c.buffers[1..].iter_mut().for_each(|b| b.dtype = DType::BF16)),
        declines("A in shared memory", "storage_scope", &|c| c.buffers[1].scope = Scope::Shared),
        declines("B in registers", "storage_scope", &|c| c.buffers[2].scope = Scope::Local),
        declines("D in shared memory", "storage_scope", &|c| c.buffers[0].scope = Scope::Shared),
        declines("the values of one group in both", "words", &|c| {
            c.buffers[1].layout = Some(TileLayout::of_group_words(128, 32, 1).expect("a layout"));
        }),
        declines("each thread has an A", "words", &|c| c.buffers[1].layout = None),
        declines("sums of the other group's rows", "accumulators", &|c| {
            let warps = |n, stride| Iter::new(n, stride, Axis::WarpId);
            let grid = vec![warps(2, -4), warps(4, 1), Iter::new(2, 1, Axis::M)];
            let turned = TileLayout::new(grid, vec![], [(Axis::WarpId, 4)].into(), None).expect("a grid");
            let of = Fragment::M16N8Acc;
            c.buffers[0].layout = Some(of.layout().tile(&turned, &[8, 2], &of.shape()).expect("a layout"));
        }),
        declines("warps in no order", "accumulators", &|c| {
            let grid = vec![Iter::new(8, 1, Axis::WarpId), Iter::new(2, 1, Axis::M)];
            c.buffers[0].layout = Some(tiled(Fragment::M16N8Acc, grid, vec![], [8, 2]));
            c.block = [128, 1, 1];
        }),
        declines("264 columns", "shape", &|c| {
            let wide = Spec { n: 264, ..SMALL };
            c.buffers = wide.buffers().to_vec();
            c.call = wide.call();
        }),
        declines("rows as they are", "b_descriptor", &|c| c.buffers[2].layout = None),
        declines("C beside D", "c_place", &|c| {
            c.buffers.push(Buffer { name: "c".into(), ..c.buffers[0].clone() });
            c.call.accum = false;
            c.call.args.push(TileArg::Tile(Tile::whole(&"c".into(), &[128, 16])));
        }),
    ]
}
