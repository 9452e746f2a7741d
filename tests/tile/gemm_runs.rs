//! Products of what lanes have loaded: what the variant accepts and declines, and programs of one product of a warp each
//! whose factors are in registers as loads of eight neighbours leave them.

use super::case::{Case, Says, buffer, program};
use super::gemm_shapes::{Product, each_held, load, product, store, tiled, values, with_layout};
use Says::{Declines, Takes};
use daylight::interp::Tensor;
use daylight::ir::device::DStmt;
use daylight::ir::layout::runs::Runs;
use daylight::ir::layout::{Axis, Fragment, Iter};
use daylight::ir::{AttrValue, Buffer, DType, ExecScope, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::Active;

const V: &str = "mma_runs";

/// One product of a warp.
#[derive(Clone, Copy, Debug)]
struct Spec {
    m: i64,
    n: i64,
    k: i64,
    runs: Runs,
    dtype: DType,
    accum: bool,
}

const SMALL: Spec = Spec { m: 16, n: 16, k: 64, runs: Runs::Values, dtype: DType::F16, accum: true };

impl Spec {
    /// D, A and B.
    fn buffers(&self) -> [Buffer; 3] {
        let Spec { m, n, k, runs, dtype, .. } = *self;
        let grid = vec![Iter::new(m / 16, n / 8, Axis::M), Iter::new(n / 8, 1, Axis::M)];
        let sums = tiled(Fragment::M16N8Acc, grid, vec![], [m / 16, n / 8]);
        let local = |name, shape: &[i64], layout| with_layout(buffer(name, dtype, shape, Scope::Local, ""), layout);
        [
            with_layout(buffer("d", DType::F32, &[m, n], Scope::Local, ""), sums),
            local("a", &[m, k], runs.first(m, k).expect("a layout")),
            local("b", &[n, k], runs.second(n, k).expect("a layout")),
        ]
    }

    fn call(&self) -> TileCall {
        let Spec { m, n, k, .. } = *self;
        let whole = |name: &str, shape: [i64; 2]| Tile::whole(&name.into(), &shape);
        let args = vec![TileArg::Tile(whole("a", [m, k])), TileArg::Tile(whole("b", [n, k]))];
        let mut call = TileCall::new(TileOp::Gemm, ExecScope::Warp, whole("d", [m, n]), args);
        call.accum = self.accum;
        call.config.insert("transpose_B".into(), AttrValue::Bool(true));
        call.forced = Some(V.into());
        call
    }

    fn product(&self) -> Product {
        let Spec { m, n, k, dtype, .. } = *self;
        let [d, a, b] = self.buffers();
        let mut body = vec![];
        for (from, to, of) in [("A", &a, dtype), ("B", &b, dtype), ("C", &d, DType::F32)] {
            body.extend(each_held(from, to, |at| vec![store(&to.name, at, load(from, at, of))]));
        }
        body.push(DStmt::Tile(Box::new(self.call())));
        body.extend(each_held("D", &d, |at| vec![store(&"D".into(), at, load("d", at, DType::F32))]));
        let of = |name, dtype, shape: &[i64; 2]| buffer(name, dtype, shape, Scope::Global, "");
        let sum = DType::F32;
        let global = [of("A", dtype, &[m, k]), of("B", dtype, &[n, k]), of("C", sum, &[m, n]), of("D", sum, &[m, n])];
        let seed = (m * 1000 + n * 10 + k) as u64;
        let args = vec![
            values(dtype, &[m, k], seed),
            values(dtype, &[n, k], seed + 1),
            values(sum, &[m, n], seed + 2),
            Tensor::zeros(sum, &[m, n]),
        ];
        let start = self.accum.then_some(&args[2]);
        Product {
            name: format!("mma_runs {self:?}"),
            func: program(32, &[&global[..], &[d, a, b]].concat(), body),
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
        Spec { n: 8, k: 32, dtype: DType::BF16, accum: false, ..SMALL },
        Spec { m: 32, n: 24, k: 96, ..SMALL },
        Spec { runs: Runs::Words, ..SMALL },
        Spec { m: 48, n: 8, k: 128, runs: Runs::Words, accum: false, ..SMALL },
    ];
    all.iter().map(Spec::product).collect()
}

fn with(name: &str, says: Says, change: &dyn Fn(&mut Case)) -> Case {
    let mut c = Case::new("", "cuda:sm_90a", 32, &SMALL.buffers(), SMALL.call(), says);
    c.name = format!("mma_runs: {name}");
    change(&mut c);
    c
}

/// What the variant accepts and declines.
pub fn cases() -> Vec<Case> {
    let declines = |name: &str, predicate, change: &dyn Fn(&mut Case)| with(name, Declines(V, predicate), change);
    vec![
        with("one warp", Takes(V), &|_| {}),
        with("each of two warps", Takes(V), &|c| c.block = [64, 1, 1]),
        with("an earlier GPU", Takes(V), &|c| c.target = "cuda:sm_80"),
        with("a later GPU", Takes(V), &|c| c.target = "cuda:sm_100a"),
        declines("no GPU", "sm_version", &|c| c.target = "cpu:x86-64-v3"),
        declines("a thread", "exec_scope", &|c| c.call.scope = ExecScope::Thread),
        declines("some threads only", "all_threads", &|c| c.active = Active::Some),
        declines("a warp and a half", "whole_warps", &|c| c.block = [48, 1, 1]),
        declines("two warps together", "one_warp", &|c| {
            c.block = [64, 1, 1];
            c.call.scope = ExecScope::Cta;
        }),
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
        declines("float16 times bfloat16", "dtype", &|c| c.buffers[2].dtype = DType::BF16),
        declines("D in shared memory", "storage_scope", &|c| c.buffers[0].scope = Scope::Shared),
        declines("A as values and B as words", "runs", &|c| {
            c.buffers[2].layout = Some(Runs::Words.second(16, 64).expect("a layout"));
        }),
        declines("each thread has a B", "runs", &|c| c.buffers[2].layout = None),
        declines("A in shared memory", "runs", &|c| {
            c.buffers[1] = buffer("a", DType::F16, &[16, 64], Scope::Shared, "")
        }),
        declines("sums of each thread", "accumulators", &|c| c.buffers[0].layout = None),
        declines("C beside D", "c_place", &|c| {
            c.buffers.push(Buffer { name: "c".into(), ..c.buffers[0].clone() });
            c.call.accum = false;
            c.call.args.push(TileArg::Tile(Tile::whole(&"c".into(), &[16, 16])));
        }),
    ]
}
