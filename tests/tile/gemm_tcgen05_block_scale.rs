//! Products in tensor memory of numbers with scales of blocks: what the variant accepts and declines, and programs of one
//! product each.

use super::case::{Case, Says, buffer, program, sync};
use super::gemm_block_scale::Scales;
use super::gemm_shapes::{Product, each_held, each_shared, load, store, values, with_layout};
use super::gemm_tcgen05::{lanes, sums};
use super::gemm_wgmma::operand;
use Says::{Declines, Takes};
use daylight::interp::Tensor;
use daylight::ir::device::DStmt;
use daylight::ir::instr::{At, Instr, Sync};
use daylight::ir::layout::{Axis, Iter, TileLayout};
use daylight::ir::{AttrValue, BinOp, Buffer, DType, ExecScope, Expr, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::Active;

const V: &str = "tcgen05_block_scale";
const ROWS: i64 = 128;

/// One product.
#[derive(Clone, Copy, Debug)]
struct Spec {
    n: i64,
    /// Elements of a line.
    k: i64,
    of: Scales,
    /// Bytes of a line of A and of B in shared memory.
    spans: [i64; 2],
    /// A second product of the same factors is added to the first.
    accum: bool,
}

const NVF4: Scales = Scales { element: DType::U8, scale: DType::E4M3 };
const SMALL: Spec = Spec { n: 128, k: 32, of: NVF4, spans: [32, 32], accum: false };

/// Four scales of each of 128 lines in 512 bytes, words of a line 512 bytes apart.
fn blocks(lines: i64, scales: i64) -> TileLayout {
    let own = |n, stride| Iter::new(n, stride, Axis::M);
    let iters = vec![own(lines / 128, 128 * scales), own(4, 4), own(32, 16), own(scales / 4, 512), own(4, 1)];
    TileLayout::of_shard(iters).expect("a layout")
}

impl Spec {
    fn threads(&self) -> u32 {
        128
    }

    fn scales(&self) -> i64 {
        self.of.of_line(self.k)
    }

    /// A, B and the scales of both.
    fn shared(&self) -> [Buffer; 4] {
        let Spec { n, k, of, spans, .. } = *self;
        let chip = |name, lines, span| {
            let layout = operand([1, lines, k], of.element, span);
            with_layout(buffer(name, of.element, &[lines, k], Scope::Shared, ""), layout)
        };
        let scaled = |name, lines| {
            let own = buffer(name, of.scale, &[lines, self.scales()], Scope::Shared, "");
            with_layout(own, blocks(lines, self.scales()))
        };
        [chip("a", ROWS, spans[0]), chip("b", n, spans[1]), scaled("sfa", ROWS), scaled("sfb", n)]
    }

    /// The sums, in tensor memory and in registers, and the barrier.
    fn held(&self) -> [Buffer; 3] {
        let shape = [ROWS, self.n];
        [
            with_layout(buffer("d", DType::F32, &shape, Scope::Tensor, ""), lanes(self.n)),
            with_layout(buffer("r", DType::F32, &shape, Scope::Local, ""), sums(self.n, 1)),
            buffer("bar", DType::U64, &[1], Scope::Shared, ""),
        ]
    }

    fn call(&self, accum: bool) -> TileCall {
        let whole = |name: &str, shape: [i64; 2]| Tile::whole(&name.into(), &shape);
        let args = [("a", ROWS), ("b", self.n)].map(|(name, lines)| TileArg::Tile(whole(name, [lines, self.k])));
        let mut call = TileCall::new(TileOp::Gemm, ExecScope::Cta, whole("d", [ROWS, self.n]), args.to_vec());
        call.accum = accum;
        call.config.insert("transpose_B".into(), AttrValue::Bool(true));
        for (name, lines) in [("sfa", ROWS), ("sfb", self.n)] {
            call.operands.insert(name.into(), TileArg::Tile(whole(name, [lines, self.scales()])));
        }
        call.operands.insert("mbar".into(), TileArg::Tile(Tile::whole(&"bar".into(), &[1])));
        call.forced = Some(V.into());
        call
    }

    fn product(&self) -> Product {
        let Spec { n, k, of, .. } = *self;
        let (s, sum) = (self.scales(), DType::F32);
        let ([a, b, sfa, sfb], [d, r, bar]) = (self.shared(), self.held());
        let at = || [At::new(&"bar".into(), Expr::i64(0))];
        let does = |s: Sync, values: Vec<Expr>| DStmt::Instr(Instr::new(s, at(), values));
        let first = Expr::binary(BinOp::Eq, Expr::var("threadIdx.x", DType::I64), Expr::i64(0));
        let init =
            vec![does(Sync::MbarrierInit { arrivals: 1 }, vec![]), DStmt::Instr(Instr::from(Sync::MbarrierFence))];
        let mut body = vec![DStmt::If { cond: first, then: init, otherwise: vec![] }];
        for (global, to, shape) in
            [("A", &a, [ROWS, k]), ("B", &b, [n, k]), ("P", &sfa, [ROWS, s]), ("Q", &sfb, [n, s])]
        {
            body.extend(each_shared(global, &shape, self.threads(), |at| {
                vec![store(&to.name, at, load(global, at, to.dtype))]
            }));
        }
        body.extend([DStmt::Instr(Instr::from(Sync::AsyncFence)), sync()]);
        for turn in 0..if self.accum { 2 } else { 1 } {
            body.push(DStmt::Tile(Box::new(self.call(turn > 0))));
            body.extend([does(Sync::MbarrierWait, vec![Expr::i64(turn)]), sync()]);
        }
        let [dst, src] = ["r", "d"].map(|name| Tile::whole(&name.into(), &[ROWS, n]));
        body.push(DStmt::Tile(Box::new(TileCall::new(TileOp::Copy, ExecScope::Cta, dst, vec![TileArg::Tile(src)]))));
        body.extend(each_held("D", &r, |at| vec![store(&"D".into(), at, load("r", at, sum))]));
        let global = |name, dtype, shape: &[i64; 2]| buffer(name, dtype, shape, Scope::Global, "");
        let params = [
            global("A", of.element, &[ROWS, k]),
            global("B", of.element, &[n, k]),
            global("P", of.scale, &[ROWS, s]),
            global("Q", of.scale, &[n, s]),
            global("D", sum, &[ROWS, n]),
        ];
        let args = vec![
            values(of.element, &[ROWS, k], 1),
            values(of.element, &[n, k], 2),
            of.positive(&[ROWS, s], 3),
            of.positive(&[n, s], 4),
            Tensor::zeros(sum, &[ROWS, n]),
        ];
        let times = if self.accum { 2.0 } else { 1.0 };
        let want = (0..ROWS * n).map(|o| times * of.sum(&args, k, [o / n, o % n])).collect();
        Product {
            name: format!("{V} {self:?}"),
            func: program(self.threads(), &[&params[..], &[a, b, sfa, sfb, d, r, bar]].concat(), body),
            want,
            args,
            u_in: 0.0,
            u: 2f64.powi(-24),
            depth: 2 * k * of.packed(),
        }
    }
}

/// The programs: every format, scales in one copy and in several.
pub fn products() -> Vec<Product> {
    let [e4m3, e5m2, e8m0] = [DType::E4M3, DType::E5M2, DType::E8M0];
    let of = |element, scale| Scales { element, scale };
    let all = [
        SMALL,
        Spec { k: 128, spans: [128, 64], accum: true, ..SMALL },
        Spec { n: 256, k: 64, of: of(DType::U8, e8m0), spans: [64, 64], ..SMALL },
        Spec { k: 128, of: of(e4m3, e8m0), spans: [128, 128], ..SMALL },
        Spec { k: 256, of: of(e5m2, e8m0), spans: [64, 32], ..SMALL },
    ];
    all.iter().map(Spec::product).collect()
}

fn with(name: &str, spec: &Spec, says: Says, change: &dyn Fn(&mut Case)) -> Case {
    let buffers = [&spec.held()[..], &spec.shared()].concat();
    let mut c = Case::new("", "cuda:sm_100a", spec.threads(), &buffers, spec.call(false), says);
    c.name = format!("{V}: {name}");
    change(&mut c);
    c
}

/// What the variant accepts and declines.
pub fn cases() -> Vec<Case> {
    let declines =
        |name: &str, predicate, change: &dyn Fn(&mut Case)| with(name, &SMALL, Declines(V, predicate), change);
    let mxf8 = Spec { k: 128, of: Scales { element: DType::E5M2, scale: DType::E8M0 }, spans: [128, 128], ..SMALL };
    vec![
        with("numbers of four bits", &SMALL, Takes(V), &|_| {}),
        with("numbers of eight bits", &mxf8, Takes(V), &|c| c.target = "cuda:sm_103a"),
        with("one thread", &SMALL, Takes(V), &|c| c.call.scope = ExecScope::Thread),
        declines("a GPU without tensor memory", "sm_version", &|c| c.target = "cuda:sm_120a"),
        declines("some warps only", "reached", &|c| c.active = Active::WholeWarps),
        declines("no barrier", "mbar", &|c| drop(c.call.operands.remove("mbar"))),
        declines("extents disagree", "shapes", &|c| {
            c.call.args[1] = TileArg::Tile(Tile::whole(&"b".into(), &[64, 32]));
        }),
        declines("an unknown argument", "options", &|c| {
            c.call.config.insert("layout".into(), AttrValue::Str("row".into()));
        }),
        declines("D and A in one buffer", "overlap", &|c| {
            c.call.args[0] = TileArg::Tile(Tile::whole(&"d".into(), &[ROWS, 32]));
        }),
        declines("no scales", "scales", &|c| drop(c.call.operands.remove("sfb"))),
        declines("float16 sums", "dtype", &|c| c.buffers[0].dtype = DType::F16),
        declines("D in registers", "storage_scope", &|c| c.call.dst.buffer = "r".into()),
        declines("B in global memory", "storage_scope", &|c| c.buffers[4].scope = Scope::Global),
        declines("C beside D", "c_place", &|c| {
            c.buffers.push(Buffer { name: "c".into(), ..c.buffers[0].clone() });
            c.call.args.push(TileArg::Tile(Tile::whole(&"c".into(), &[ROWS, 128])));
        }),
        declines("rows in no lanes", "d_place", &|c| c.buffers[0].layout = None),
        declines("64 columns", "shape", &|c| {
            for (name, at) in [("b", 4), ("sfb", 6)] {
                c.buffers[at].shape[0] = Expr::i64(64);
                c.buffers[at].layout = None;
                let columns = c.buffers[at].shape[1].as_int().expect("a constant");
                let tile = TileArg::Tile(Tile::whole(&name.into(), &[64, columns]));
                match name {
                    "b" => c.call.args[1] = tile,
                    _ => drop(c.call.operands.insert(name.into(), tile)),
                }
            }
            c.call.dst.extent = vec![ROWS, 64];
        }),
        declines("rows as they are", "a_descriptor", &|c| c.buffers[3].layout = None),
        declines("columns of numbers side by side", "b_descriptor", &|c| {
            c.buffers[4].layout = Some(TileLayout::parse("S[(128, 32) : (1, 128)]").expect("a layout"));
        }),
        declines("scales row by row", "a_scales", &|c| c.buffers[5].layout = None),
        declines("scales in registers", "b_scales", &|c| c.buffers[6].scope = Scope::Local),
    ]
}
