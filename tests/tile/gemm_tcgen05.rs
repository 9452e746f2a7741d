//! Products in tensor memory, and copies from there: what the variants accept and decline, and programs of one product
//! each over types, layouts and shares of warpgroups.

use super::case::{Case, Says, buffer, program, sync};
use super::gemm_shapes::{Product, each_held, each_shared, load, product, store, tiled, values, with_layout};
use super::gemm_wgmma::operand;
use Says::{Declines, Takes};
use daylight::interp::Tensor;
use daylight::ir::device::DStmt;
use daylight::ir::instr::{At, CtaGroup, Instr, Sync, Tcgen05Shape};
use daylight::ir::layout::{Axis, Fragment, Iter, TileLayout};
use daylight::ir::{AttrValue, BinOp, Buffer, DType, ExecScope, Expr, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::Active;

const V: &str = "tcgen05";
const L: &str = "tcgen05_load";
const S: &str = "tcgen05_store";
const TARGET: &str = "cuda:sm_100a";
const ROWS: i64 = 128;

/// One product in tensor memory.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    input: DType,
    n: i64,
    /// Instructions along K.
    steps: i64,
    /// Warpgroups that share the columns.
    groups: i64,
    /// Whether A is stored as `[K, M]`, B as `[N, K]`.
    transposed: [bool; 2],
    /// Bytes of a line of A and of B: 16 without a permutation.
    spans: [i64; 2],
    /// A second product of the same factors is added to the first.
    accum: bool,
    /// The first is added to what registers hold.
    started: bool,
}

/// 128 x 16 x 16 of float16, both operands contiguous along K.
const SMALL: Spec = Spec {
    input: DType::F16,
    n: 16,
    steps: 1,
    groups: 1,
    transposed: [false, true],
    spans: [32, 32],
    accum: false,
    started: false,
};

/// Row `i` in lane `i`, columns side by side.
pub fn lanes(columns: i64) -> TileLayout {
    TileLayout::of_shard(vec![Iter::new(ROWS, 1, Axis::TLane), Iter::new(columns, 1, Axis::TCol)]).expect("a layout")
}

/// Accumulators of warpgroups, each warp of which has the rows that it can read.
pub fn sums(n: i64, groups: i64) -> TileLayout {
    let (warps, own) = (|n, stride| Iter::new(n, stride, Axis::WarpId), |n, stride| Iter::new(n, stride, Axis::M));
    let each = n / 8 / groups;
    tiled(Fragment::M16N8Acc, vec![warps(4, 1), own(2, each), warps(groups, 4), own(each, 1)], vec![], [8, n / 8])
}

impl Spec {
    fn shape(&self) -> Tcgen05Shape {
        Tcgen05Shape { n: self.n, input: self.input, group: CtaGroup::One }
    }

    fn extents(&self) -> [i64; 3] {
        [ROWS, self.n, self.steps * self.shape().k()]
    }

    fn threads(&self) -> u32 {
        128 * self.groups as u32
    }

    fn name(&self) -> String {
        let [m, n, k] = self.extents();
        let [sa, sb] = self.spans;
        let major = |side: usize| if self.transposed[side] == (side == 1) { "k" } else { "mn" };
        let (a, b, accum) = (major(0), major(1), if self.accum { " accum" } else { "" });
        let started = if self.started { " started" } else { "" };
        format!("tcgen05 {} {m}x{n}x{k} groups {} {a}{sa} {b}{sb}{accum}{started}", self.input, self.groups)
    }

    /// A or B as stored.
    fn stored(&self, side: usize) -> [i64; 2] {
        let [m, n, k] = self.extents();
        let [r, c] = if side == 0 { [m, k] } else { [k, n] };
        if self.transposed[side] { [c, r] } else { [r, c] }
    }

    fn chip(&self, side: usize) -> Buffer {
        let [rows, columns] = self.stored(side);
        let layout = operand([1, rows, columns], self.input, self.spans[side]);
        with_layout(buffer(["a", "b"][side], self.input, &[rows, columns], Scope::Shared, ""), layout)
    }

    /// The sums, in tensor memory and in registers, and the barrier.
    fn held(&self) -> [Buffer; 3] {
        let (sum, shape) = (self.shape().sum(), [ROWS, self.n]);
        [
            with_layout(buffer("d", sum, &shape, Scope::Tensor, ""), lanes(self.n)),
            with_layout(buffer("r", sum, &shape, Scope::Local, ""), sums(self.n, self.groups)),
            buffer("bar", DType::U64, &[1], Scope::Shared, ""),
        ]
    }

    fn call(&self, accum: bool) -> TileCall {
        let tile = |side: usize| TileArg::Tile(Tile::whole(&["a", "b"][side].into(), &self.stored(side)));
        let dst = Tile::whole(&"d".into(), &[ROWS, self.n]);
        let mut call = TileCall::new(TileOp::Gemm, ExecScope::Cta, dst, vec![tile(0), tile(1)]);
        call.accum = accum;
        for (name, turned) in ["transpose_A", "transpose_B"].into_iter().zip(self.transposed) {
            call.config.insert(name.into(), AttrValue::Bool(turned));
        }
        if self.input == DType::F32 {
            call.config.insert("precision".into(), AttrValue::Str("tf32".into()));
        }
        call.operands.insert("mbar".into(), TileArg::Tile(Tile::whole(&"bar".into(), &[1])));
        call.forced = Some(V.into());
        call
    }

    fn copy(&self, [to, from]: [&str; 2]) -> TileCall {
        let [dst, src] = [to, from].map(|name| Tile::whole(&name.into(), &[ROWS, self.n]));
        TileCall::new(TileOp::Copy, ExecScope::Cta, dst, vec![TileArg::Tile(src)])
    }

    /// The program.
    pub fn product(&self) -> Product {
        let [m, n, k] = self.extents();
        let (input, sum) = (self.input, self.shape().sum());
        let ([a, b], [d, r, bar]) = ([self.chip(0), self.chip(1)], self.held());
        let at = || [At::new(&"bar".into(), Expr::i64(0))];
        let does = |s: Sync, values: Vec<Expr>| DStmt::Instr(Instr::new(s, at(), values));
        let first = Expr::binary(BinOp::Eq, Expr::var("threadIdx.x", DType::I64), Expr::i64(0));
        let init =
            vec![does(Sync::MbarrierInit { arrivals: 1 }, vec![]), DStmt::Instr(Instr::from(Sync::MbarrierFence))];
        let mut body = vec![DStmt::If { cond: first, then: init, otherwise: vec![] }];
        for (side, chip) in [&a, &b].into_iter().enumerate() {
            let global = ["A", "B"][side];
            let fill = |at: &[Expr]| vec![store(&chip.name, at, load(global, at, input))];
            body.extend(each_shared(global, &self.stored(side), self.threads(), fill));
        }
        body.extend([DStmt::Instr(Instr::from(Sync::AsyncFence)), sync()]);
        if self.started {
            body.extend(each_held("C", &r, |at| vec![store(&"r".into(), at, load("C", at, sum))]));
            body.extend([DStmt::Tile(Box::new(self.copy(["d", "r"]))), sync()]);
        }
        for turn in 0..if self.accum { 2 } else { 1 } {
            body.push(DStmt::Tile(Box::new(self.call(turn > 0 || self.started))));
            // nobody may be a phase behind when the next one completes
            body.extend([does(Sync::MbarrierWait, vec![Expr::i64(turn)]), sync()]);
        }
        body.push(DStmt::Tile(Box::new(self.copy(["r", "d"]))));
        body.extend(each_held("D", &r, |at| vec![store(&"D".into(), at, load("r", at, sum))]));
        let of = |name, dtype, shape: &[i64; 2]| buffer(name, dtype, shape, Scope::Global, "");
        let mut params = vec![of("A", input, &self.stored(0)), of("B", input, &self.stored(1))];
        let seed = (n * 10 + k) as u64;
        let mut args = vec![values(input, &self.stored(0), seed), values(input, &self.stored(1), seed + 1)];
        if self.started {
            params.push(of("C", sum, &[m, n]));
            args.push(values(sum, &[m, n], seed + 2));
        }
        params.push(of("D", sum, &[m, n]));
        args.push(Tensor::zeros(sum, &[m, n]));
        let all = [&params[..], &[a, b, d, r, bar]].concat();
        let times = if self.accum { 2.0 } else { 1.0 };
        let once = product(&args[0], &args[1], None, [m, n, k], self.transposed);
        let start = |at: usize| if self.started { args[2].get_f64(at) } else { 0.0 };
        let want = once.iter().enumerate().map(|(at, x)| x * times + start(at)).collect();
        Product {
            name: self.name(),
            func: program(self.threads(), &all, body),
            args,
            want,
            u_in: if input == DType::F32 { 2f64.powi(-11) } else { 0.0 },
            u: if sum == DType::I32 { 0.0 } else { 2f64.powi(-24) },
            depth: 2 * k,
        }
    }
}

/// The programs; the last one is of int8, which sm_103a does not multiply so.
pub fn products() -> Vec<Product> {
    let mn_major = [true, false];
    let all = [
        Spec { spans: [16, 16], ..SMALL },
        Spec { n: 96, spans: [128, 128], steps: 4, ..SMALL },
        Spec { input: DType::BF16, n: 64, spans: [64, 128], steps: 2, transposed: [false, false], ..SMALL },
        Spec { input: DType::BF16, n: 64, spans: [128, 64], steps: 3, transposed: mn_major, accum: true, ..SMALL },
        Spec { n: 256, spans: [32, 64], steps: 2, groups: 2, ..SMALL },
        Spec { n: 48, spans: [32, 16], groups: 1, accum: true, ..SMALL },
        Spec { input: DType::F32, n: 32, spans: [128, 128], steps: 4, groups: 2, ..SMALL },
        Spec { input: DType::E4M3, n: 32, spans: [64, 64], steps: 2, ..SMALL },
        Spec { input: DType::E5M2, n: 16, spans: [32, 16], ..SMALL },
        Spec { n: 96, steps: 2, started: true, ..SMALL },
        Spec { input: DType::BF16, n: 128, groups: 2, accum: true, started: true, ..SMALL },
        Spec { input: DType::I8, n: 32, started: true, ..SMALL },
        Spec { input: DType::I8, n: 80, spans: [64, 32], steps: 2, accum: true, ..SMALL },
    ];
    all.iter().map(Spec::product).collect()
}

fn with(name: &str, spec: &Spec, says: Says, change: &dyn Fn(&mut Case)) -> Case {
    let (of, call) = match says {
        Takes(L) | Declines(L, _) => (L, spec.copy(["r", "d"])),
        Takes(S) | Declines(S, _) => (S, spec.copy(["d", "r"])),
        Takes(_) | Declines(..) => (V, spec.call(false)),
    };
    let [d, r, bar] = spec.held();
    let all = [d, r, bar, spec.chip(0), spec.chip(1)];
    let mut c = Case::new(&format!("{of}: {name}"), TARGET, spec.threads(), &all, call, says);
    change(&mut c);
    c
}

/// What the variant of products accepts and declines.
pub fn cases() -> Vec<Case> {
    let takes = |name: &str, spec: &Spec| with(name, spec, Takes(V), &|_| {});
    let declines =
        |name: &str, predicate, change: &dyn Fn(&mut Case)| with(name, &SMALL, Declines(V, predicate), change);
    let refuses = |name: &str, predicate, spec: &Spec| with(name, spec, Declines(V, predicate), &|_| {});
    let int8 = Spec { input: DType::I8, ..SMALL };
    vec![
        takes("float16", &SMALL),
        takes("tf32", &Spec { input: DType::F32, ..SMALL }),
        takes("float8", &Spec { input: DType::E5M2, ..SMALL }),
        takes("int8", &int8),
        takes("contiguous along M and N", &Spec { n: 64, spans: [128, 128], transposed: [true, false], ..SMALL }),
        with("one thread", &SMALL, Takes(V), &|c| c.call.scope = ExecScope::Thread),
        declines("a GPU without tensor memory", "sm_version", &|c| c.target = "cuda:sm_90a"),
        declines("some warps only", "reached", &|c| c.active = Active::WholeWarps),
        declines("no barrier", "mbar", &|c| c.call.operands.clear()),
        declines("a barrier of 32 bits", "mbar", &|c| c.buffers[2].dtype = DType::U32),
        declines("extents disagree", "shapes", &|c| {
            c.call.args[1] = TileArg::Tile(Tile::whole(&"b".into(), &[8, 16]));
        }),
        declines("an unknown argument", "options", &|c| {
            c.call.config.insert("layout".into(), AttrValue::Str("row".into()));
        }),
        declines("D and A in one buffer", "overlap", &|c| {
            c.call.args[0] = TileArg::Tile(Tile::whole(&"d".into(), &[ROWS, 16]));
        }),
        declines("float16 sums", "dtype", &|c| c.buffers[0].dtype = DType::F16),
        declines("float32 as it is", "dtype", &|c| c.buffers[3..].iter_mut().for_each(|b| b.dtype = DType::F32)),
        with("int8 where it is not", &int8, Declines(V, "dtype"), &|c| c.target = "cuda:sm_103a"),
        declines("D in registers", "storage_scope", &|c| c.call.dst.buffer = "r".into()),
        declines("B in global memory", "storage_scope", &|c| c.buffers[4].scope = Scope::Global),
        declines("C beside D", "c_place", &|c| {
            c.buffers.push(Buffer { name: "c".into(), ..c.buffers[0].clone() });
            c.call.args.push(TileArg::Tile(Tile::whole(&"c".into(), &[ROWS, 16])));
        }),
        declines("rows in no lanes", "d_place", &|c| c.buffers[0].layout = None),
        declines("columns apart", "d_place", &|c| {
            c.buffers[0].layout = Some(TileLayout::parse("S[(128, 16) : (1@TLane, 2@TCol)]").expect("a layout"));
        }),
        refuses("24 columns", "shape", &Spec { n: 24, ..SMALL }),
        refuses("272 columns", "shape", &Spec { n: 272, ..SMALL }),
        declines("rows as they are", "a_descriptor", &|c| c.buffers[3].layout = None),
        declines("neither axis is contiguous", "b_descriptor", &|c| {
            c.buffers[4].layout = Some(TileLayout::parse("S[(16, 16) : (32, 2)]").expect("a layout"));
        }),
    ]
}

/// What copies from tensor memory, and to it, accept and decline.
pub fn copies() -> Vec<Case> {
    [L, S].into_iter().flat_map(of_way).collect()
}

fn of_way(way: &'static str) -> Vec<Case> {
    let declines =
        |name: &str, predicate, change: &dyn Fn(&mut Case)| with(name, &SMALL, Declines(way, predicate), change);
    let two = Spec { n: 64, groups: 2, ..SMALL };
    vec![
        with("one warpgroup", &SMALL, Takes(way), &|_| {}),
        with("two warpgroups", &two, Takes(way), &|_| {}),
        with("the scope of a group", &SMALL, Takes(way), &|c| c.call.scope = ExecScope::Warpgroup),
        declines("a GPU without tensor memory", "sm_version", &|c| c.target = "cuda:sm_120a"),
        declines("a warp", "exec_scope", &|c| c.call.scope = ExecScope::Warp),
        declines("some warps only", "all_threads", &|c| c.active = Active::WholeWarps),
        declines("a hint", "options", &|c| {
            c.call.config.insert("cache".into(), AttrValue::Str("nc".into()));
        }),
        declines("a conversion", "dtype", &|c| c.buffers[1].dtype = DType::I32),
        declines("16 bits", "dtype", &|c| c.buffers[..2].iter_mut().for_each(|b| b.dtype = DType::F16)),
        declines("another shape", "same_shape", &|c| c.call.dst.extent = vec![64, 16]),
        declines("columns in shared memory", "storage_scope", &|c| c.buffers[0].scope = Scope::Shared),
        declines("registers in shared memory", "storage_scope", &|c| c.buffers[1].scope = Scope::Shared),
        declines("rows in no lanes", "tensor_place", &|c| c.buffers[0].layout = None),
        declines("each thread has all", "registers", &|c| c.buffers[1].layout = None),
        declines("rows of other warps", "registers", &|c| {
            let (warps, own) = (Iter::new(4, 1, Axis::WarpId), |n, stride| Iter::new(n, stride, Axis::M));
            let grid = vec![own(2, 2), warps, own(2, 1)];
            c.buffers[1].layout = Some(tiled(Fragment::M16N8Acc, grid, vec![], [8, 2]));
        }),
    ]
}
