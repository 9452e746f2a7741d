//! Products of what lanes have loaded: what the variant accepts and declines, and programs of one product of a warp each
//! whose factors are in registers as loads of eight neighbours leave them.

use super::case::{Case, Says, buffer, program};
use super::gemm_shapes::{Product, each_held, load, product, store, tiled, values, with_layout};
use Says::{Declines, Takes};
use daylight::interp::Tensor;
use daylight::ir::device::DStmt;
use daylight::ir::layout::runs::{Runs, row_scales};
use daylight::ir::layout::{Axis, Fragment, Iter};
use daylight::ir::{AttrValue, Buffer, DType, ExecScope, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::Active;

const V: &str = "mma_runs";
const SUMS: &str = "mma_runs_scaled";

/// One product of a warp.
#[derive(Clone, Copy, Debug)]
struct Spec {
    m: i64,
    n: i64,
    k: i64,
    runs: Runs,
    dtype: DType,
    accum: bool,
    /// Scales of rows, one for each 64 along K.
    scales: bool,
}

const SMALL: Spec = Spec { m: 16, n: 16, k: 64, runs: Runs::Values, dtype: DType::F16, accum: true, scales: false };
const SCALED: Spec = Spec { runs: Runs::Words, scales: true, ..SMALL };
/// Values that share a scale.
const SHARED: i64 = 64;

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
        call.forced = Some(self.variant().into());
        if self.scales {
            call.operands.insert("sfa".into(), TileArg::Tile(whole("s", [m, k / SHARED])));
        }
        call
    }

    fn variant(&self) -> &'static str {
        if self.scales { SUMS } else { V }
    }

    /// The scales of rows, in registers.
    fn scales(&self) -> Buffer {
        let each = (self.k / SHARED).max(1);
        let layout = row_scales(self.m, each).expect("a layout");
        with_layout(buffer("s", DType::F16, &[self.m, each], Scope::Local, ""), layout)
    }

    fn product(&self) -> Product {
        let Spec { m, n, k, dtype, .. } = *self;
        let [d, a, b] = self.buffers();
        let mut body = vec![];
        for (from, to, of) in [("A", &a, dtype), ("B", &b, dtype), ("C", &d, DType::F32)] {
            body.extend(each_held(from, to, |at| vec![store(&to.name, at, load(from, at, of))]));
        }
        if self.scales {
            let s = self.scales();
            body.extend(each_held("S", &s, |at| vec![store(&s.name, at, load("S", at, DType::F16))]));
        }
        body.push(DStmt::Tile(Box::new(self.call())));
        body.extend(each_held("D", &d, |at| vec![store(&"D".into(), at, load("d", at, DType::F32))]));
        let of = |name, dtype, shape: &[i64; 2]| buffer(name, dtype, shape, Scope::Global, "");
        let (sum, shared) = (DType::F32, [m, (k / SHARED).max(1)]);
        let global = [
            of("A", dtype, &[m, k]),
            of("B", dtype, &[n, k]),
            of("C", sum, &[m, n]),
            of("S", dtype, &shared),
            of("D", sum, &[m, n]),
        ];
        let seed = (m * 1000 + n * 10 + k) as u64;
        let args = vec![
            values(dtype, &[m, k], seed),
            values(dtype, &[n, k], seed + 1),
            values(sum, &[m, n], seed + 2),
            values(dtype, &shared, seed + 3),
            Tensor::zeros(sum, &[m, n]),
        ];
        let start = self.accum.then_some(&args[2]);
        let first = if self.scales { scaled(&args[0], &args[3], k) } else { args[0].clone() };
        Product {
            name: format!("{} {self:?}", self.variant()),
            func: program(32, &[&global[..], &[d, a, b, self.scales()]].concat(), body),
            want: product(&first, &args[1], start, [m, n, k], [false, true]),
            args,
            u_in: 0.0,
            u: 2f64.powi(-24),
            depth: k,
        }
    }
}

/// Rows of `k` values, each 64 times their scale.
fn scaled(rows: &Tensor, scales: &Tensor, k: i64) -> Tensor {
    let (values, scales) = (rows.to_f64(), scales.to_f64());
    let all: Vec<f64> = values.iter().enumerate().map(|(i, v)| v * scales[i / SHARED as usize]).collect();
    Tensor::from_f64(DType::F64, &[all.len() as i64 / k, k], &all)
}

/// The programs.
pub fn products() -> Vec<Product> {
    let all = [
        SMALL,
        Spec { n: 8, k: 32, dtype: DType::BF16, accum: false, ..SMALL },
        Spec { m: 32, n: 24, k: 96, ..SMALL },
        Spec { runs: Runs::Words, ..SMALL },
        Spec { m: 48, n: 8, k: 128, runs: Runs::Words, accum: false, ..SMALL },
        SCALED,
        Spec { m: 32, n: 8, k: 192, accum: false, ..SCALED },
    ];
    all.iter().map(Spec::product).collect()
}

fn with(spec: &Spec, name: &str, says: Says, change: &dyn Fn(&mut Case)) -> Case {
    let buffers = [&spec.buffers()[..], &[spec.scales()]].concat();
    let buffers = if spec.scales { &buffers[..] } else { &buffers[..3] };
    let mut c = Case::new("", "cuda:sm_90a", 32, buffers, spec.call(), says);
    c.name = format!("{}: {name}", spec.variant());
    change(&mut c);
    c
}

/// What the variants accept and decline.
pub fn cases() -> Vec<Case> {
    [SMALL, SCALED].iter().flat_map(cases_of).chain(cases_of_scales()).collect()
}

fn cases_of(spec: &Spec) -> Vec<Case> {
    let v = spec.variant();
    let takes = |name: &str, change: &dyn Fn(&mut Case)| with(spec, name, Takes(v), change);
    let declines = |name: &str, predicate, change: &dyn Fn(&mut Case)| with(spec, name, Declines(v, predicate), change);
    let other = if spec.runs == Runs::Words { Runs::Values } else { Runs::Words };
    vec![
        takes("one warp", &|_| {}),
        takes("each of two warps", &|c| c.block = [64, 1, 1]),
        takes("an earlier GPU", &|c| c.target = "cuda:sm_80"),
        takes("a later GPU", &|c| c.target = "cuda:sm_100a"),
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
        declines("A and B of other kinds", "runs", &|c| {
            c.buffers[2].layout = Some(other.second(16, 64).expect("a layout"));
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

fn cases_of_scales() -> Vec<Case> {
    let declines = |name: &str, change: &dyn Fn(&mut Case)| with(&SCALED, name, Declines(SUMS, "scales"), change);
    vec![
        declines("no scales", &|c| c.call.operands.clear()),
        declines("a scale too many", &|c| {
            c.buffers[3] = buffer("s", DType::F16, &[16, 2], Scope::Local, "");
            c.call.operands.insert("sfa".into(), TileArg::Tile(Tile::whole(&"s".into(), &[16, 2])));
        }),
        declines("all scales in each lane", &|c| c.buffers[3].layout = None),
        declines("scales in shared memory", &|c| c.buffers[3].scope = Scope::Shared),
        declines("scales of float32", &|c| c.buffers[3].dtype = DType::F32),
        declines("values, not words", &|c| {
            c.buffers[1].layout = Some(Runs::Values.first(16, 64).expect("a layout"));
            c.buffers[2].layout = Some(Runs::Values.second(16, 64).expect("a layout"));
        }),
    ]
}
