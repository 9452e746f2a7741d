//! Products of numbers with scales of blocks: what the variant accepts and declines, and programs of one product each.

use super::case::{Case, Says, buffer, program, sync};
use super::gemm_shapes::{Product, each_held, each_shared, load, store, tiled, values, with_layout};
use Says::{Declines, Takes};
use daylight::interp::Tensor;
use daylight::ir::device::DStmt;
use daylight::ir::layout::{Axis, Fragment, Iter, TileLayout};
use daylight::ir::{AttrValue, Buffer, DType, ExecScope, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::Active;

const V: &str = "mma_block_scale";
/// The numbers of four bits without sign.
const FOUR: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Types of numbers and scales.
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    pub element: DType,
    pub scale: DType,
}

impl Scales {
    /// Numbers in an element.
    pub fn packed(self) -> i64 {
        if self.element == DType::U8 { 2 } else { 1 }
    }

    /// Numbers with one scale.
    fn block(self) -> i64 {
        if self.scale == DType::E4M3 { 16 } else { 32 }
    }

    /// Scales of a line of `k` elements.
    pub fn of_line(self, k: i64) -> i64 {
        k * self.packed() / self.block()
    }

    /// Scales that are positive.
    pub fn positive(self, shape: &[i64], seed: u64) -> Tensor {
        let sizes: Vec<f64> = values(DType::F32, shape, seed).to_f64().iter().map(|x| x.abs() + 0.1).collect();
        Tensor::from_f64(self.scale, shape, &sizes)
    }

    /// The sum of products of a row of the first tensor and one of the second, by scales in the third and fourth.
    pub fn sum(self, args: &[Tensor], k: i64, lines: [i64; 2]) -> f64 {
        let number = |t: &Tensor, line: i64, i: i64| match self.packed() {
            1 => t.get_f64((line * k + i) as usize),
            _ => {
                let code = t.get_i64((line * k + i / 2) as usize) >> (4 * (i % 2)) & 15;
                FOUR[code as usize % 8] * if code > 7 { -1.0 } else { 1.0 }
            }
        };
        let scaled = |side: usize, i: i64| {
            let scale = args[2 + side].get_f64((lines[side] * self.of_line(k) + i / self.block()) as usize);
            number(&args[side], lines[side], i) * scale
        };
        (0..k * self.packed()).map(|i| scaled(0, i) * scaled(1, i)).sum()
    }
}

/// One product.
#[derive(Clone, Copy, Debug)]
struct Spec {
    m: i64,
    n: i64,
    /// Elements of a line.
    k: i64,
    element: DType,
    scale: DType,
    warps: [i64; 2],
    accum: bool,
}

const SMALL: Spec = Spec { m: 32, n: 16, k: 64, element: DType::U8, scale: DType::E4M3, warps: [2, 1], accum: true };

impl Spec {
    fn threads(&self) -> u32 {
        32 * (self.warps[0] * self.warps[1]) as u32
    }

    fn of(&self) -> Scales {
        Scales { element: self.element, scale: self.scale }
    }

    fn scales(&self) -> i64 {
        self.of().of_line(self.k)
    }

    /// D, A, B and the scales of both.
    fn buffers(&self) -> [Buffer; 5] {
        let Spec { m, n, k, warps: [wm, wn], .. } = *self;
        let grid = vec![
            Iter::new(wm, wn, Axis::WarpId),
            Iter::new(m / 16 / wm, n / 8 / wn, Axis::M),
            Iter::new(wn, 1, Axis::WarpId),
            Iter::new(n / 8 / wn, 1, Axis::M),
        ];
        let sums = tiled(Fragment::M16N8Acc, grid, vec![], [m / 16, n / 8]);
        let shared = |name: &str, dtype, shape: [i64; 2]| buffer(name, dtype, &shape, Scope::Shared, "");
        [
            with_layout(buffer("d", DType::F32, &[m, n], Scope::Local, ""), sums),
            shared("a", self.element, [m, k]),
            shared("b", self.element, [n, k]),
            shared("sfa", self.scale, [m, self.scales()]),
            shared("sfb", self.scale, [n, self.scales()]),
        ]
    }

    fn call(&self) -> TileCall {
        let Spec { m, n, k, .. } = *self;
        let whole = |name: &str, shape: [i64; 2]| Tile::whole(&name.into(), &shape);
        let args = vec![TileArg::Tile(whole("a", [m, k])), TileArg::Tile(whole("b", [n, k]))];
        let mut call = TileCall::new(TileOp::Gemm, ExecScope::Cta, whole("d", [m, n]), args);
        call.accum = self.accum;
        call.config.insert("transpose_B".into(), AttrValue::Bool(true));
        for (name, lines) in [("sfa", m), ("sfb", n)] {
            call.operands.insert(name.into(), TileArg::Tile(whole(name, [lines, self.scales()])));
        }
        call.forced = Some(V.into());
        call
    }

    fn product(&self) -> Product {
        let Spec { m, n, k, element, scale, .. } = *self;
        let (s, sum) = (self.scales(), DType::F32);
        let [d, a, b, sfa, sfb] = self.buffers();
        let mut body = vec![];
        for (global, to, shape) in [("A", &a, [m, k]), ("B", &b, [n, k]), ("P", &sfa, [m, s]), ("Q", &sfb, [n, s])] {
            body.extend(each_shared(global, &shape, self.threads(), |at| {
                vec![store(&to.name, at, load(global, at, to.dtype))]
            }));
        }
        body.push(sync());
        body.extend(each_held("C", &d, |at| vec![store(&d.name, at, load("C", at, sum))]));
        body.push(DStmt::Tile(Box::new(self.call())));
        body.extend(each_held("D", &d, |at| vec![store(&"D".into(), at, load("d", at, sum))]));
        let of = |name, dtype, shape: &[i64; 2]| buffer(name, dtype, shape, Scope::Global, "");
        let global = [
            of("A", element, &[m, k]),
            of("B", element, &[n, k]),
            of("P", scale, &[m, s]),
            of("Q", scale, &[n, s]),
            of("C", sum, &[m, n]),
            of("D", sum, &[m, n]),
        ];
        let args = vec![
            values(element, &[m, k], 1),
            values(element, &[n, k], 2),
            self.of().positive(&[m, s], 3),
            self.of().positive(&[n, s], 4),
            values(sum, &[m, n], 5),
            Tensor::zeros(sum, &[m, n]),
        ];
        let all = [&global[..], &[d, a, b, sfa, sfb]].concat();
        Product {
            name: format!("{V} {self:?}"),
            func: program(self.threads(), &all, body),
            want: self.sums(&args),
            args,
            u_in: 0.0,
            u: 2f64.powi(-24),
            depth: k * self.of().packed(),
        }
    }

    /// Plain arithmetic.
    fn sums(&self, args: &[Tensor]) -> Vec<f64> {
        let sum = |r: i64, c: i64| self.of().sum(args, self.k, [r, c]);
        let start = |o: i64| if self.accum { args[4].get_f64(o as usize) } else { 0.0 };
        (0..self.m * self.n).map(|o| start(o) + sum(o / self.n, o % self.n)).collect()
    }
}

/// The programs: every format, scales in one load and in several, loops over k written out and not.
pub fn products() -> Vec<Product> {
    let [e4m3, e5m2, e8m0] = [DType::E4M3, DType::E5M2, DType::E8M0];
    let all = [
        SMALL,
        Spec { m: 16, n: 8, k: 32, warps: [1, 1], accum: false, ..SMALL },
        Spec { m: 64, n: 48, k: 192, warps: [2, 2], ..SMALL },
        Spec { scale: e8m0, ..SMALL },
        Spec { scale: e8m0, k: 96, n: 24, accum: false, ..SMALL },
        Spec { element: e4m3, scale: e8m0, k: 128, ..SMALL },
        Spec { element: e4m3, scale: e8m0, k: 64, ..SMALL },
        Spec { element: e5m2, scale: e8m0, k: 96, warps: [1, 2], ..SMALL },
        Spec { element: e5m2, scale: e8m0, k: 1024, warps: [1, 2], ..SMALL },
    ];
    all.iter().map(Spec::product).collect()
}

fn with(name: &str, says: Says, change: &dyn Fn(&mut Case)) -> Case {
    let mut c = Case::new("", "cuda:sm_120a", SMALL.threads(), &SMALL.buffers(), SMALL.call(), says);
    c.name = format!("{V}: {name}");
    change(&mut c);
    c
}

/// What the variant accepts and declines.
pub fn cases() -> Vec<Case> {
    let declines = |name: &str, predicate, change: &dyn Fn(&mut Case)| with(name, Declines(V, predicate), change);
    let laid =
        |c: &mut Case, at: usize, text: &str| c.buffers[at].layout = Some(TileLayout::parse(text).expect("a layout"));
    vec![
        with("two warps", Takes(V), &|_| {}),
        declines("the data centre's Blackwell", "sm_version", &|c| c.target = "cuda:sm_100a"),
        declines("an earlier GPU", "sm_version", &|c| c.target = "cuda:sm_90a"),
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
            c.call.args[0] = TileArg::Tile(Tile::whole(&"d".into(), &[32, 64]));
            c.buffers[0] = buffer("d", DType::F32, &[32, 64], Scope::Local, "");
        }),
        declines("no scales", "scales", &|c| c.call.operands.clear()),
        declines("scales of other rows", "scales", &|c| {
            c.call.operands.insert("sfa".into(), TileArg::Tile(Tile::whole(&"sfa".into(), &[16, 8])));
        }),
        declines("another operand", "scales", &|c| {
            let scales = c.call.operands["sfb"].clone();
            c.call.operands.insert("sfc".into(), scales);
        }),
        declines("float16", "dtype", &|c| c.buffers[1..3].iter_mut().for_each(|b| b.dtype = DType::F16)),
        declines("fewer scales than blocks", "dtype", &|c| {
            for (name, lines, at) in [("sfa", 32, 3), ("sfb", 16, 4)] {
                c.buffers[at] = buffer(name, DType::E4M3, &[lines, 4], Scope::Shared, "");
                c.call.operands.insert(name.into(), TileArg::Tile(Tile::whole(&name.into(), &[lines, 4])));
            }
        }),
        declines("A in registers", "storage_scope", &|c| c.buffers[1].scope = Scope::Local),
        declines("scales in registers", "storage_scope", &|c| c.buffers[3].scope = Scope::Local),
        declines("D in shared memory", "storage_scope", &|c| c.buffers[0].scope = Scope::Shared),
        declines("half an instruction", "multiples", &|c| {
            for (at, name, lines) in [(0, "a", 32), (1, "b", 16)] {
                c.call.args[at] = TileArg::Tile(Tile::whole(&name.into(), &[lines, 16]));
            }
        }),
        declines("sums in rows", "accumulators", &|c| laid(c, 0, "S[(32, 16) : (1@laneid, 1)]")),
        declines("scales of A column by column", "a_word", &|c| laid(c, 3, "S[(32, 8) : (1, 32)]")),
        declines("scales of B column by column", "b_word", &|c| laid(c, 4, "S[(16, 8) : (1, 16)]")),
        declines("A in global memory", "a_fragments", &|c| c.buffers[1].scope = Scope::Global),
        declines("B in global memory", "b_fragments", &|c| c.buffers[2].scope = Scope::Global),
        declines("C beside D", "c_place", &|c| {
            c.buffers.push(Buffer { name: "c".into(), ..c.buffers[0].clone() });
            c.call.accum = false;
            c.call.args.push(TileArg::Tile(Tile::whole(&"c".into(), &[32, 16])));
        }),
        declines("many fragments of a warp", "steps", &|c| {
            let large = Spec { m: 256, n: 512, warps: [1, 1], ..SMALL };
            (c.buffers, c.call) = (large.buffers().to_vec(), large.call());
            c.block = [large.threads(), 1, 1];
        }),
    ]
}
