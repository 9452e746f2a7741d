//! Products by warpgroups: what the variant accepts and declines, and programs of one product each over
//! the layouts, types and shares of groups that there are.

use super::case::{Case, Says, buffer, lowered, program, sync};
use super::gemm_shapes::{Product, each_held, each_shared, load, product, store, tiled, values, with_layout};
use Says::{Declines, Takes};
use daylight::interp::Tensor;
use daylight::ir::device::{DFor, DKind, DStmt, DeviceFunc};
use daylight::ir::instr::{Instr, Op, Sync, WgmmaShape};
use daylight::ir::kernel::KStmt;
use daylight::ir::layout::{Axis, Fragment, Iter, Swizzle, TileLayout};
use daylight::ir::{AttrValue, BinOp, Buffer, DType, ExecScope, Expr, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::Active;

const V: &str = "wgmma";
const TWO_LEVEL: &str = "wgmma_two_level";

/// One product by warpgroups.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub input: DType,
    /// Warpgroups along M and N.
    pub groups: [i64; 2],
    /// Instructions of a group along M.
    pub rows: i64,
    /// Columns of an instruction.
    pub n: i64,
    /// Instructions along K.
    pub steps: i64,
    /// Whether A is stored as `[K, M]`, B as `[N, K]`.
    pub transposed: [bool; 2],
    /// Bytes of a line of A and of B: 16 without a permutation.
    pub spans: [i64; 2],
    pub accum: bool,
    /// The variant.
    pub variant: &'static str,
    /// Stages of A and B in shared memory, multiplied one after the other.
    pub stages: i64,
}

/// 64 x 16 x 16 of float16 by one group, both operands contiguous along K, their lines as long as it is.
pub const SMALL: Spec = Spec {
    input: DType::F16,
    groups: [1, 1],
    rows: 1,
    n: 16,
    steps: 1,
    transposed: [false, true],
    spans: [32, 32],
    accum: false,
    variant: V,
    stages: 1,
};

/// Where an element of one of some matrices lies: lines of `span` bytes, all lines of one part of the rows
/// before those of the next; without a permutation, pieces of eight lines of 16 bytes.
pub fn operand([stages, lines, along]: [i64; 3], dtype: DType, span: i64) -> TileLayout {
    let size = dtype.bytes() as i64;
    let part = span / size;
    let iters = if span == 16 {
        vec![(stages, lines * along), (lines / 8, 8 * along), (8, part), (along / part, 8 * part), (part, 1)]
    } else {
        vec![(stages, lines * along), (lines, part), (along / part, lines * part), (part, 1)]
    };
    let iters = iters.into_iter().filter(|(n, _)| *n > 1).map(|(n, stride)| Iter::new(n, stride, Axis::M));
    let plain = TileLayout::of_shard(iters.collect()).expect("a layout");
    if span == 16 {
        return plain;
    }
    let swizzle = Swizzle::new((16 / size).ilog2(), (span / 16).ilog2(), 3, true).expect("a swizzle");
    plain.compose(swizzle).expect("a layout")
}

/// The layout of the sums: groups along both dimensions, four warps of each take turns along the rows.
pub fn sums([gm, gn]: [i64; 2], rows: i64, n: i64) -> TileLayout {
    let warps = |n, stride| Iter::new(n, stride, Axis::WarpId);
    let own = |n, stride| Iter::new(n, stride, Axis::M);
    let grid = vec![warps(gm, 4 * gn), own(rows, n / 8), warps(4, 1), warps(gn, 4), own(n / 8, 1)];
    tiled(Fragment::M16N8Acc, grid, vec![], [gm * rows * 4, gn * n / 8])
}

impl Spec {
    fn shape(&self) -> WgmmaShape {
        WgmmaShape { n: self.n, input: self.input }
    }

    /// Of one stage.
    fn extents(&self) -> [i64; 3] {
        let [gm, gn] = self.groups;
        [64 * gm * self.rows, gn * self.n, self.steps * self.shape().k()]
    }

    fn threads(&self) -> u32 {
        (128 * self.groups[0] * self.groups[1]) as u32
    }

    fn name(&self) -> String {
        let [m, n, k] = self.extents();
        let major = |side: usize| if self.transposed[side] == (side == 1) { "k" } else { "mn" };
        let [gm, gn] = self.groups;
        let (a, b) = (major(0), major(1));
        let (accum, stages) = (if self.accum { " accum" } else { "" }, self.stages);
        let [sa, sb] = self.spans;
        let variant = self.variant;
        format!("{variant} {} {m}x{n}x{k} groups {gm}x{gn} {a}{sa} {b}{sb} stages {stages}{accum}", self.input)
    }

    /// A or B of one stage as stored.
    fn stored(&self, side: usize) -> [i64; 2] {
        let [m, n, k] = self.extents();
        let [r, c] = if side == 0 { [m, k] } else { [k, n] };
        if self.transposed[side] { [c, r] } else { [r, c] }
    }

    /// A or B in shared memory, all stages.
    fn chip(&self, side: usize) -> Buffer {
        let [rows, columns] = self.stored(side);
        let layout = operand([self.stages, rows, columns], self.input, self.spans[side]);
        let shape = [self.stages, rows, columns];
        let own = if self.stages == 1 { &shape[1..] } else { &shape[..] };
        with_layout(buffer(["a", "b"][side], self.input, own, Scope::Shared, ""), layout)
    }

    fn registers(&self) -> Buffer {
        let [m, n, _] = self.extents();
        let layout = sums(self.groups, self.rows, self.n);
        with_layout(buffer("d", self.shape().sum(), &[m, n], Scope::Local, ""), layout)
    }

    /// A or B of all stages in global memory.
    fn global(&self, side: usize) -> [i64; 2] {
        let [rows, columns] = self.stored(side);
        [self.stages * rows, columns]
    }

    /// Brings A or B to shared memory element by element.
    fn fill(&self, side: usize, chip: &Buffer) -> Vec<DStmt> {
        let (global, rows) = (["A", "B"][side], Expr::i64(self.stored(side)[0]));
        each_shared(global, &self.global(side), self.threads(), |at| {
            let divided = |op| Expr::binary(op, at[0].clone(), rows.clone());
            let stage = [divided(BinOp::FloorDiv), divided(BinOp::FloorMod), at[1].clone()];
            let to = if self.stages == 1 { at } else { &stage[..] };
            vec![store(&chip.name, to, load(global, at, self.input))]
        })
    }

    /// The product of one stage.
    fn call(&self) -> TileCall {
        let [m, n, _] = self.extents();
        let tile = |side: usize| {
            let (name, [rows, columns]) = (["a", "b"][side].into(), self.stored(side));
            let whole = Tile::whole(&name, &[rows, columns]);
            let stage = Tile {
                buffer: name,
                begin: vec![Expr::var("s", DType::I64), Expr::i64(0), Expr::i64(0)],
                extent: vec![1, rows, columns],
            };
            TileArg::Tile(if self.stages == 1 { whole } else { stage })
        };
        let mut call =
            TileCall::new(TileOp::Gemm, ExecScope::Cta, Tile::whole(&"d".into(), &[m, n]), vec![tile(0), tile(1)]);
        call.accum = self.accum;
        for (name, turned) in ["transpose_A", "transpose_B"].into_iter().zip(self.transposed) {
            call.config.insert(name.into(), AttrValue::Bool(turned));
        }
        call.forced = Some(self.variant.into());
        call
    }

    /// A kernel of the product alone.
    fn alone(&self) -> DeviceFunc {
        let all = [self.chip(0), self.chip(1), self.registers()];
        program(self.threads(), &all, vec![DStmt::Tile(Box::new(self.call()))])
    }

    /// The program.
    pub fn product(&self) -> Product {
        let [m, n, k] = self.extents();
        let (input, sum) = (self.input, self.shape().sum());
        let [a, b, d] = [self.chip(0), self.chip(1), self.registers()];
        let mut body = [self.fill(0, &a), self.fill(1, &b)].concat();
        body.extend([DStmt::Instr(Instr::from(Sync::AsyncFence)), sync()]);
        body.extend(each_held("C", &d, |at| vec![store(&d.name, at, load("C", at, sum))]));
        let call = DStmt::Tile(Box::new(self.call()));
        let stages = DFor::new("s".into(), Expr::i64(self.stages), DKind::Serial, vec![call.clone()]);
        body.push(if self.stages == 1 { call } else { DStmt::For(stages) });
        body.extend(each_held("D", &d, |at| vec![store(&"D".into(), at, load("d", at, sum))]));
        let of = |name, dtype, shape: &[i64; 2]| buffer(name, dtype, shape, Scope::Global, "");
        let all = [of("A", input, &self.global(0)), of("B", input, &self.global(1)), of("C", sum, &[m, n])];
        let all = [&all[..], &[of("D", sum, &[m, n]), a, b, d]].concat();
        let seed = (m * 1000 + n * 10 + k) as u64;
        let args = vec![
            values(input, &self.global(0), seed),
            values(input, &self.global(1), seed + 1),
            values(sum, &[m, n], seed + 2),
            Tensor::zeros(sum, &[m, n]),
        ];
        Product {
            name: self.name(),
            func: program(self.threads(), &all, body),
            want: self.want(&args),
            args,
            u_in: 0.0,
            u: if sum == DType::I32 { 0.0 } else { 2f64.powi(-24) },
            depth: k * self.stages,
        }
    }

    fn want(&self, args: &[Tensor]) -> Vec<f64> {
        let stage = |side: usize, s: i64| {
            let [rows, columns] = self.stored(side);
            let n = (rows * columns) as usize;
            Tensor::from_f64(self.input, &[rows, columns], &args[side].to_f64()[s as usize * n..][..n])
        };
        let none = vec![0.0; args[2].len()];
        let start = if self.accum { args[2].to_f64() } else { none };
        (0..self.stages).fold(start, |sum, s| {
            let one = product(&stage(0, s), &stage(1, s), None, self.extents(), self.transposed);
            sum.iter().zip(one).map(|(x, y)| x + y).collect()
        })
    }
}

/// The programs.
pub fn products() -> Vec<Product> {
    let (k_major, mn_major) = ([false, true], [true, false]);
    let int8 = Spec { input: DType::I8, ..SMALL };
    let bf16 = Spec { input: DType::BF16, ..SMALL };
    let float8 = Spec { input: DType::E4M3, variant: TWO_LEVEL, ..SMALL };
    let all = [
        Spec { n: 8, ..SMALL },
        Spec { n: 8, spans: [16, 16], transposed: mn_major, ..SMALL },
        Spec { n: 24, spans: [16, 16], steps: 3, accum: true, ..bf16 },
        Spec { n: 96, spans: [128, 128], steps: 4, ..bf16 },
        Spec { n: 96, spans: [64, 64], steps: 2, transposed: mn_major, ..SMALL },
        Spec { n: 256, spans: [64, 128], steps: 2, transposed: [false, false], ..SMALL },
        Spec { n: 64, spans: [128, 64], steps: 3, transposed: mn_major, accum: true, ..bf16 },
        Spec { n: 16, spans: [32, 32], steps: 2, transposed: mn_major, ..bf16 },
        Spec { n: 40, spans: [32, 16], steps: 1, transposed: [true, true], rows: 2, ..SMALL },
        Spec { groups: [2, 1], n: 64, spans: [128, 128], steps: 8, transposed: k_major, ..SMALL },
        Spec { groups: [1, 2], n: 32, spans: [64, 64], steps: 2, transposed: mn_major, accum: true, ..bf16 },
        Spec { groups: [2, 2], rows: 2, n: 24, spans: [16, 32], steps: 2, transposed: k_major, ..SMALL },
        Spec { groups: [2, 1], n: 16, spans: [128, 32], transposed: mn_major, stages: 3, accum: true, ..bf16 },
        Spec { n: 32, spans: [64, 64], steps: 2, ..int8 },
        Spec { groups: [1, 2], n: 48, spans: [128, 128], steps: 4, accum: true, ..int8 },
        Spec { n: 256, spans: [16, 32], steps: 3, ..int8 },
        Spec { input: DType::E4M3, n: 16, spans: [32, 64], steps: 2, ..SMALL },
        Spec { input: DType::E5M2, n: 8, spans: [64, 16], steps: 2, stages: 2, accum: true, ..SMALL },
        Spec { groups: [2, 1], n: 24, spans: [64, 128], steps: 4, ..float8 },
        Spec { input: DType::E5M2, rows: 2, spans: [64, 64], steps: 2, stages: 3, accum: true, ..float8 },
    ];
    all.iter().map(Spec::product).collect()
}

/// The byte of an element of an operand that starts at byte `start`, from the 64 bits of its descriptor alone, by
/// the table of canonical layouts: `t` elements are 16 bytes, 8 lines a piece, and lines of 1, 2, 4 or 8 times 16
/// bytes are permuted by the address bits from 7 on.
fn decoded(bits: u64, mn_major: bool, size: i64, start: i64, free: i64, depth: i64) -> i64 {
    let field = |at: u32| (bits >> at & 0x3fff) as i64 * 16;
    let (leading, stride, t) = (field(16), field(32), 16 / size);
    let (chunks, mask) = [(1, 0), (8, 7), (4, 3), (2, 1)][(bits >> 62) as usize];
    let element = match (mn_major, chunks) {
        (false, 1) => free % 8 * 16 + free / 8 * stride + depth % t * size + depth / t * leading,
        (false, _) => free % 8 * chunks * 16 + free / 8 * stride + depth * size,
        (true, 1) => free % t * size + free / t * stride + depth % 8 * 16 + depth / 8 * leading,
        (true, _) => {
            let (atom, within) = (free / (t * chunks), free % (t * chunks));
            within * size + atom * leading + depth % 8 * chunks * 16 + depth / 8 * stride
        }
    };
    let at = start + element;
    at ^ ((at >> 7 & mask) << 4)
}

/// Checks every element of both operands of every instruction of a product by one group; how many they are.
pub fn elements_lie_where_descriptors_say(spec: &Spec) -> usize {
    let (k, size) = (spec.shape().k(), spec.input.bytes() as i64);
    let mut all = vec![];
    for s in &lowered(&spec.alone(), "sim:sm_90a").launches[0].kernel.body {
        s.visit(&mut |s| {
            if let KStmt::Instr(i) = s
                && let Op::Wgmma { a, b, .. } = &i.op
            {
                let starts = [&i.places[1], &i.places[2]].map(|p| p.index.as_int().expect("a constant"));
                all.push(([*a, *b], starts));
            }
        });
    }
    assert_eq!(all.len() as i64, spec.rows * spec.steps, "{spec:?}");
    let mut checked = 0;
    for (n, (descs, starts)) in (0..).zip(&all) {
        let (step, row) = (n / spec.rows, n % spec.rows);
        for side in 0..2 {
            let chip = spec.chip(side);
            let shape = spec.stored(side);
            let layout = chip.layout.as_ref().expect("a layout");
            let (lines, first) = if side == 0 { (64, row * 64) } else { (spec.n, 0) };
            for (free, depth) in (0..lines).flat_map(|f| (0..k).map(move |d| (f, d))) {
                let depth_first = (side == 0) == spec.transposed[side];
                let (line, column) = (first + free, step * k + depth);
                let at = if depth_first { [column, line] } else { [line, column] };
                let want = layout.apply_at(&shape, &at).expect("a place").get(Axis::M) * size;
                let (desc, start) = (descs[side], starts[side] * size);
                let got = decoded(desc.bits(), depth_first, size, start, free, depth);
                assert_eq!(got, want, "{spec:?}: {free}, {depth} of operand {side} by {}", desc.text());
                assert_eq!(desc.byte(spec.input, start, free, depth), want, "{spec:?}");
                checked += 1;
            }
        }
    }
    checked
}

/// Products of one group over all types, contiguous axes, lengths of lines, and some columns.
pub fn layouts() -> Vec<Spec> {
    let mut all = vec![];
    for input in [DType::F16, DType::BF16, DType::I8, DType::E4M3] {
        for (span, n) in [16, 32, 64, 128].into_iter().flat_map(|s| [8, 16, 32, 64, 96, 128, 192, 256].map(|n| (s, n)))
        {
            for (steps, rows) in [(1, 1), (2, 2), (3, 1), (4, 2), (8, 1)] {
                let of = |transposed, spans| Spec { input, n, steps, rows, transposed, spans, ..SMALL };
                if steps * 32 % span == 0 {
                    all.push(of([false, true], [span, span]));
                }
                if input.bytes() == 2 && n * 2 % span == 0 {
                    all.push(of([true, false], [span, span]));
                }
            }
        }
    }
    all
}

/// The call of a product in its place.
pub fn place(spec: &Spec) -> Case {
    let buffers = [spec.registers(), spec.chip(0), spec.chip(1)];
    Case::new("", "cuda:sm_90a", spec.threads(), &buffers, spec.call(), Takes(V))
}

fn with(name: &str, spec: &Spec, says: Says, change: &dyn Fn(&mut Case)) -> Case {
    let mut c = Case { name: format!("wgmma: {name}"), says, ..place(spec) };
    change(&mut c);
    c
}

/// What the variants accept and decline: what the first refuses, the one of two levels does, which also wants floats of 8 bits.
pub fn cases() -> Vec<Case> {
    let mut all = cases_of_one_level();
    let twins = all.iter().filter_map(|c| {
        let Says::Declines(V, predicate) = c.says else { return None };
        if c.buffers.iter().any(|b| b.dtype == DType::I8) {
            return None;
        }
        let mut c =
            Case { name: format!("{} (two levels)", c.name), says: Says::Declines(TWO_LEVEL, predicate), ..c.clone() };
        c.call.forced = Some(TWO_LEVEL.into());
        let factors = c.buffers.iter_mut().filter(|b| ["a", "b"].contains(&b.name.as_str()) && b.dtype == DType::F16);
        factors.for_each(|b| b.dtype = DType::E4M3);
        Some(c)
    });
    let twins: Vec<Case> = twins.collect();
    all.extend(twins);
    all
}

fn cases_of_one_level() -> Vec<Case> {
    let takes = |name: &str, spec: &Spec| with(name, spec, Takes(V), &|_| {});
    let declines =
        |name: &str, predicate, change: &dyn Fn(&mut Case)| with(name, &SMALL, Declines(V, predicate), change);
    let refuses = |name: &str, predicate, spec: &Spec| with(name, spec, Declines(V, predicate), &|_| {});
    let mn_major = [true, false];
    let acc = |b: &mut Buffer, layout: &str| b.layout = Some(TileLayout::parse(layout).expect("a layout"));
    vec![
        takes("one group", &SMALL),
        takes("two groups along both", &Spec { groups: [2, 2], n: 64, spans: [128, 128], steps: 4, ..SMALL }),
        takes("contiguous along M and N", &Spec { n: 64, spans: [128, 128], transposed: mn_major, ..SMALL }),
        takes("int8", &Spec { input: DType::I8, ..SMALL }),
        with(
            "float8 in two levels",
            &Spec { input: DType::E4M3, variant: TWO_LEVEL, ..SMALL },
            Takes(TWO_LEVEL),
            &|_| {},
        ),
        with(
            "int8 in two levels",
            &Spec { input: DType::I8, variant: TWO_LEVEL, ..SMALL },
            Declines(TWO_LEVEL, "dtype"),
            &|_| {},
        ),
        takes("a stage of a pipeline", &Spec { stages: 2, ..SMALL }),
        with("the scope of a group", &SMALL, Takes(V), &|c| c.call.scope = ExecScope::Warpgroup),
        with("not unless it is forced", &SMALL, Takes("mma"), &|c| c.call.forced = None),
        declines("an earlier GPU", "sm_version", &|c| c.target = "cuda:sm_80"),
        declines("a later GPU", "sm_version", &|c| c.target = "cuda:sm_100a"),
        declines("a warp", "exec_scope", &|c| c.call.scope = ExecScope::Warp),
        declines("some warps only", "all_threads", &|c| c.active = Active::WholeWarps),
        declines("a group and a half", "whole_warpgroups", &|c| c.block = [192, 1, 1]),
        declines("extents disagree", "shapes", &|c| {
            c.call.args[1] = TileArg::Tile(Tile::whole(&"b".into(), &[8, 16]));
        }),
        declines("an unknown argument", "options", &|c| {
            c.call.config.insert("layout".into(), AttrValue::Str("row".into()));
        }),
        declines("D and A in one buffer", "overlap", &|c| {
            c.buffers[1] = with_layout(c.buffers[1].clone(), sums([1, 1], 1, 16));
            c.buffers[1].name = "d".into();
            c.call.args[0] = TileArg::Tile(Tile::whole(&"d".into(), &[64, 16]));
        }),
        declines("float16 sums", "dtype", &|c| c.buffers[0].dtype = DType::F16),
        declines("float32 factors", "dtype", &|c| c.buffers[1..].iter_mut().for_each(|b| b.dtype = DType::F32)),
        declines("two types of factors", "dtype", &|c| c.buffers[2].dtype = DType::BF16),
        declines("D in shared memory", "storage_scope", &|c| c.buffers[0].scope = Scope::Shared),
        declines("A in registers", "storage_scope", &|c| c.buffers[1].scope = Scope::Local),
        declines("B in global memory", "storage_scope", &|c| c.buffers[2].scope = Scope::Global),
        declines("C beside D", "c_place", &|c| {
            c.buffers.push(Buffer { name: "c".into(), ..c.buffers[0].clone() });
            c.call.args.push(TileArg::Tile(Tile::whole(&"c".into(), &[64, 16])));
        }),
        declines("each thread has a D", "accumulators", &|c| c.buffers[0].layout = None),
        declines("warps side by side", "accumulators", &|c| {
            c.buffers[0].layout = Some(warps_along_columns());
        }),
        declines("columns in no order", "accumulators", &|c| {
            let grid = vec![Iter::new(4, 1, Axis::WarpId), Iter::new(2, 2, Axis::M)];
            c.buffers[0].layout = Some(tiled(Fragment::M16N8Acc, grid, vec![], [4, 2]));
        }),
        declines("rows among lanes", "accumulators", &|c| {
            acc(&mut c.buffers[0], "S[(4, 16, 2, 8) : (1@warpid, 2@laneid, 1@laneid, 1)]");
        }),
        refuses("264 columns", "shape", &Spec { n: 264, ..SMALL }),
        refuses("40 columns of int8", "shape", &Spec { input: DType::I8, n: 40, ..SMALL }),
        declines("depth 8", "a_descriptor", &|c| {
            let half = |name: &str, rows| {
                with_layout(
                    buffer(name, DType::F16, &[rows, 8], Scope::Shared, ""),
                    operand([1, rows, 8], DType::F16, 16),
                )
            };
            (c.buffers[1], c.buffers[2]) = (half("a", 64), half("b", 16));
            let whole = |name: &str, rows| TileArg::Tile(Tile::whole(&name.into(), &[rows, 8]));
            c.call.args = vec![whole("a", 64), whole("b", 16)];
        }),
        declines("rows as they are", "a_descriptor", &|c| c.buffers[1].layout = None),
        declines("a part of the rows", "a_descriptor", &|c| {
            c.buffers[1] = with_layout(
                buffer("a", DType::F16, &[128, 16], Scope::Shared, ""),
                operand([1, 128, 16], DType::F16, 32),
            );
            let begin = vec![Expr::i64(64), Expr::i64(0)];
            c.call.args[0] = TileArg::Tile(Tile { buffer: "a".into(), begin, extent: vec![64, 16] });
        }),
        declines("a line that other lines permute", "b_descriptor", &|c| {
            let b = TileLayout::row_major(&[16, 16]).expect("a layout");
            let other = Swizzle::new(3, 1, 1, true).expect("a swizzle");
            c.buffers[2].layout = Some(b.compose(other).expect("a layout"));
        }),
        declines("neither axis is contiguous", "b_descriptor", &|c| acc(&mut c.buffers[2], "S[(16, 16) : (32, 2)]")),
        refuses(
            "bytes along N",
            "b_descriptor",
            &Spec { input: DType::I8, n: 32, transposed: [false, false], ..SMALL },
        ),
        refuses(
            "a group's columns begin within a line",
            "b_descriptor",
            &Spec { groups: [1, 2], n: 32, spans: [32, 128], transposed: [false, false], ..SMALL },
        ),
    ]
}

/// The warps of a group side by side instead of one below the other.
pub fn warps_along_columns() -> TileLayout {
    let grid = vec![Iter::new(2, 2, Axis::WarpId), Iter::new(2, 1, Axis::M), Iter::new(2, 1, Axis::WarpId)];
    tiled(Fragment::M16N8Acc, grid, vec![], [4, 2])
}
