//! Products of packed words: what the variant accepts and declines, and programs of one product each whose second
//! factor is in registers as its words hold it.

use super::case::{Case, Says, buffer, program, sync};
use super::gemm_shapes::{Product, each_held, each_shared, load, product, store, tiled, values, with_layout};
use Says::{Declines, Takes};
use daylight::interp::Tensor;
use daylight::ir::device::DStmt;
use daylight::ir::layout::{Axis, Fragment, Iter, TileLayout};
use daylight::ir::{AttrValue, Buffer, DType, ExecScope, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::Active;

const V: &str = "mma_words";

/// One product of packed words.
#[derive(Clone, Copy, Debug)]
struct Spec {
    m: i64,
    n: i64,
    k: i64,
    warps: i64,
    accum: bool,
}

const SMALL: Spec = Spec { m: 16, n: 16, k: 64, warps: 2, accum: true };

impl Spec {
    fn threads(&self) -> u32 {
        32 * self.warps as u32
    }

    /// D, A and B.
    fn buffers(&self) -> [Buffer; 3] {
        let Spec { m, n, k, warps, .. } = *self;
        let grid = vec![
            Iter::new(m / 16, n / 8 / warps, Axis::M),
            Iter::new(warps, 1, Axis::WarpId),
            Iter::new(n / 8 / warps, 1, Axis::M),
        ];
        let sums = tiled(Fragment::M16N8Acc, grid, vec![], [m / 16, n / 8]);
        let words = TileLayout::of_words(n, k, warps).expect("a layout");
        [
            with_layout(buffer("d", DType::F32, &[m, n], Scope::Local, ""), sums),
            buffer("a", DType::F16, &[m, k], Scope::Shared, ""),
            with_layout(buffer("b", DType::F16, &[n, k], Scope::Local, ""), words),
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
            each_shared("A", &[m, k], self.threads(), |at| vec![store(&a.name, at, load("A", at, DType::F16))]);
        body.push(sync());
        body.extend(each_held("B", &b, |at| vec![store(&b.name, at, load("B", at, DType::F16))]));
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
            name: format!("mma_words {self:?}"),
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
        Spec { n: 8, warps: 1, accum: false, ..SMALL },
        Spec { m: 48, n: 64, k: 128, ..SMALL },
        Spec { m: 32, n: 96, k: 192, warps: 4, accum: false },
    ];
    all.iter().map(Spec::product).collect()
}

fn with(name: &str, says: Says, change: &dyn Fn(&mut Case)) -> Case {
    let mut c = Case::new("", "cuda:sm_90a", SMALL.threads(), &SMALL.buffers(), SMALL.call(), says);
    c.name = format!("mma_words: {name}");
    change(&mut c);
    c
}

/// What the variant accepts and declines.
pub fn cases() -> Vec<Case> {
    let declines = |name: &str, predicate, change: &dyn Fn(&mut Case)| with(name, Declines(V, predicate), change);
    vec![
        with("two warps", Takes(V), &|_| {}),
        with("an earlier GPU", Takes(V), &|c| c.target = "cuda:sm_80"),
        with("a later GPU", Takes(V), &|c| c.target = "cuda:sm_100a"),
        declines("no GPU", "sm_version", &|c| c.target = "cpu:x86-64-v3"),
        declines("a thread", "exec_scope", &|c| c.call.scope = ExecScope::Thread),
        declines("some threads only", "all_threads", &|c| c.active = Active::Some),
        declines("a warp and a half", "whole_warps", &|c| c.block = [48, 1, 1]),
        declines("extents disagree", "shapes", &|c| {
            c.call.args[1] = TileArg::Tile(Tile::whole(&"b".into(), &[8, 64]));
        }),
        declines("an unknown argument", "options", &|c| {
            c.call.config.insert("layout".into(), AttrValue::Str("row".into()));
        }),
        declines("D and A in one buffer", "overlap", &|c| {
            c.buffers[0] = buffer("d", DType::F32, &[16, 64], Scope::Local, "");
            c.call.args[0] = TileArg::Tile(Tile::whole(&"d".into(), &[16, 64]));
        }),
        declines("bfloat16", "dtype", &|c| c.buffers[1..].iter_mut().for_each(|b| b.dtype = DType::BF16)),
        declines("A in registers", "storage_scope", &|c| c.buffers[1].scope = Scope::Local),
        declines("B in shared memory", "storage_scope", &|c| c.buffers[2].scope = Scope::Shared),
        declines("D in shared memory", "storage_scope", &|c| c.buffers[0].scope = Scope::Shared),
        declines("the values of one warp in both", "words", &|c| {
            c.buffers[2].layout = Some(TileLayout::of_words(16, 64, 1).expect("a layout"));
        }),
        declines("each thread has a B", "words", &|c| c.buffers[2].layout = None),
        declines("sums of other columns", "accumulators", &|c| {
            let grid = vec![Iter::new(2, -1, Axis::WarpId)];
            let turned = TileLayout::new(grid, vec![], [(Axis::WarpId, 1)].into(), None).expect("a grid");
            let of = Fragment::M16N8Acc;
            c.buffers[0].layout = Some(of.layout().tile(&turned, &[1, 2], &of.shape()).expect("a layout"));
        }),
        declines("A column by column", "a_rows", &|c| {
            c.buffers[1].layout = Some(TileLayout::parse("S[(16, 64) : (1, 16)]").expect("a layout"));
        }),
        declines("C beside D", "c_place", &|c| {
            c.buffers.push(Buffer { name: "c".into(), ..c.buffers[0].clone() });
            c.call.accum = false;
            c.call.args.push(TileArg::Tile(Tile::whole(&"c".into(), &[16, 16])));
        }),
    ]
}
