//! Programs of one matrix product each: operands brought to registers or shared memory element by
//! element, one `gemm`, and D written to global memory, with what plain arithmetic makes of it.

use super::case::{buffer, program, random, sync};
use daylight::interp::Tensor;
use daylight::ir::device::{DFor, DKind, DStmt, DeviceFunc, index_var};
use daylight::ir::instr::MmaShape;
use daylight::ir::layout::{Axis, Fragment, Iter, Swizzle, TileLayout};
use daylight::ir::{AttrValue, BinOp, Buffer, DType, ExecScope, Expr, Name, Scope, Tile, TileArg, TileCall, TileOp};
use std::collections::BTreeMap;

/// A program that runs, what it is run on, and what it has to give.
pub struct Product {
    pub name: String,
    pub func: DeviceFunc,
    /// Tensors of all parameters; the last is the result.
    pub args: Vec<Tensor>,
    /// The result, in float64.
    pub want: Vec<f64>,
    /// Roundoff of the inputs as they are multiplied, 0 where that is exact.
    pub u_in: f64,
    /// Roundoff of the accumulator, 0 for integers.
    pub u: f64,
    /// Length of the sums.
    pub depth: i64,
}

impl Product {
    /// What is wrong with a result: `norm(o - r) <= 4 (u + u sqrt(L)) norm(r)`, and no element off by
    /// more than `64 (u + u sqrt(L)) max(|r|, rms r)`.
    pub fn mistake(&self, got: &Tensor) -> Option<String> {
        let u = self.u_in + self.u + self.u * (self.depth as f64).sqrt();
        let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
        let size = norm(&mut self.want.iter().copied());
        let rms = size / (self.want.len() as f64).sqrt();
        let difference = |i: usize| (got.get_f64(i) - self.want[i]).abs();
        if let Some(i) = (0..self.want.len()).find(|i| {
            let off = difference(*i);
            off.is_nan() || off > 64.0 * u * self.want[*i].abs().max(rms)
        }) {
            return Some(format!("{}: element {i} is {}, not {}", self.name, got.get_f64(i), self.want[i]));
        }
        let off = norm(&mut (0..self.want.len()).map(difference));
        (off > 4.0 * u * size).then(|| format!("{}: off by {off} in norm, which is {size}", self.name))
    }
}

/// One product by `mma`.
#[derive(Clone, Debug)]
pub struct Spec {
    pub shape: MmaShape,
    pub scope: ExecScope,
    /// Warps along M and N.
    pub warps: [i64; 2],
    /// Fragments of a warp along M, N and K.
    pub fragments: [i64; 3],
    /// Warps take turns in rows of fragments, instead of adjacent ones.
    pub interleaved: bool,
    pub transposed: [bool; 2],
    /// Which of A and B are in registers.
    pub registers: [bool; 2],
    pub accum: bool,
    /// 0: row-major, 1: rows padded by 16 bytes, 2: rows padded by one element, 3: swizzled.
    pub memory: u32,
}

/// `count` products of random shapes, the same for the same seed.
pub fn specs(count: usize, seed: u64) -> Vec<Spec> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            spec(&mut |n| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                ((state >> 33) % n) as i64
            })
        })
        .collect()
}

fn spec(draw: &mut dyn FnMut(u64) -> i64) -> Spec {
    let shapes = [MmaShape::M16N8K16F16, MmaShape::M16N8K16BF16, MmaShape::M16N8K8TF32, MmaShape::M16N8K32I8];
    let shape = shapes[draw(4) as usize];
    let scope = [ExecScope::Warp, ExecScope::Warpgroup, ExecScope::Cta][draw(3) as usize];
    let warps = match scope {
        ExecScope::Warpgroup => [[1, 4], [2, 2], [4, 1]][draw(3) as usize],
        ExecScope::Cta => [[1, 1], [1, 2], [2, 1], [3, 1], [2, 2], [1, 3], [4, 2], [2, 4]][draw(8) as usize],
        ExecScope::Thread | ExecScope::Warp => [1, 1],
    };
    let most_k = 128 / shape.k() as u64;
    Spec {
        shape,
        scope,
        warps,
        fragments: [1 + draw(3), 1 + draw(6), 1 + draw(most_k.min(6))],
        interleaved: draw(2) == 1,
        transposed: [draw(2) == 1, draw(2) == 1],
        registers: [draw(3) == 0, draw(3) == 0],
        accum: draw(3) == 0,
        memory: draw(4) as u32,
    }
}

impl Spec {
    fn extents(&self) -> [i64; 3] {
        let [m, n, k] = self.fragments;
        [16 * m * self.warps[0], 8 * n * self.warps[1], self.shape.k() * k]
    }

    pub fn name(&self, number: usize) -> String {
        let [m, n, k] = self.extents();
        let side = |i: usize| {
            let turned = if self.transposed[i] { "t" } else { "" };
            format!("{}{turned}", if self.registers[i] { "r" } else { "s" })
        };
        let (scope, [wm, wn]) = (self.scope.name(), self.warps);
        let (dtype, a, b) = (self.shape.dtypes().0, side(0), side(1));
        format!("{number} {dtype} {m}x{n}x{k} {scope} {wm}x{wn} {a} {b} memory {} accum {}", self.memory, self.accum)
    }

    /// The grid of fragments of D, as warps and registers.
    fn d_grid(&self) -> Vec<Iter> {
        let ([m, n, _], [wm, wn]) = (self.fragments, self.warps);
        let turns = |warps: Iter, own: Iter| if self.interleaved { [own, warps] } else { [warps, own] };
        let mut all = turns(warp(wm, wn), Iter::new(m, n, Axis::M)).to_vec();
        all.extend(turns(warp(wn, 1), Iter::new(n, 1, Axis::M)));
        all
    }

    fn d_layout(&self) -> TileLayout {
        let ([m, n, _], [wm, wn]) = (self.fragments, self.warps);
        tiled(Fragment::M16N8Acc, self.d_grid(), vec![], [m * wm, n * wn])
    }

    /// Layout of A or B in registers, in the orientation of the product.
    fn operand_layout(&self, side: usize) -> TileLayout {
        let ([m, n, k], [wm, wn]) = (self.fragments, self.warps);
        let own = if side == 0 { Iter::new(m, k, Axis::M) } else { Iter::new(n, 1, Axis::M) };
        let warps = if side == 0 { warp(wm, wn) } else { warp(wn, 1) };
        let split = if self.interleaved { [own, warps] } else { [warps, own] };
        let depth = Iter::new(k, if side == 0 { 1 } else { n }, Axis::M);
        let fragment = fragments(self.shape)[side];
        if side == 0 {
            tiled(fragment, [&split[..], &[depth]].concat(), vec![warp(wn, 1)], [m * wm, k])
        } else {
            tiled(fragment, [&[depth], &split[..]].concat(), vec![warp(wm, wn)], [k, n * wn])
        }
    }

    fn stored(&self, side: usize) -> [i64; 2] {
        let [m, n, k] = self.extents();
        let [r, c] = if side == 0 { [m, k] } else { [k, n] };
        if self.transposed[side] { [c, r] } else { [r, c] }
    }

    /// The buffer that holds A or B on chip; shared ones may have longer rows than the tile.
    fn chip(&self, side: usize) -> Buffer {
        let (name, dtype) = (["a", "b"][side], self.shape.dtypes().0);
        let [rows, columns] = self.stored(side);
        if self.registers[side] {
            let layout = self.operand_layout(side);
            let layout = if self.transposed[side] {
                layout.permute(&[columns, rows], &[1, 0]).expect("a matrix can be turned")
            } else {
                layout
            };
            return with_layout(buffer(name, dtype, &[rows, columns], Scope::Local, ""), layout);
        }
        let bytes = dtype.bytes() as i64;
        let pad = [0, 16 / bytes, 1, 0][self.memory as usize];
        let own = buffer(name, dtype, &[rows, columns + pad], Scope::Shared, "");
        let chunk = (16 / bytes).ilog2();
        match (self.memory, columns * bytes % 128, columns * bytes % 64) {
            (3, 0, _) => with_layout(own, swizzled(rows, columns, chunk, 3)),
            (3, _, 0) => with_layout(own, swizzled(rows, columns, chunk, 2)),
            _ => own,
        }
    }

    /// The program.
    pub fn product(&self, number: usize) -> Product {
        let (input, sum) = self.shape.dtypes();
        let [m, n, k] = self.extents();
        let threads = (32 * self.warps[0] * self.warps[1]) as u32;
        let mut d = buffer("d", sum, &[m, n], Scope::Local, "");
        d.layout = Some(self.d_layout());
        let chip = [self.chip(0), self.chip(1)];
        let all = vec![
            buffer("A", input, &self.stored(0), Scope::Global, ""),
            buffer("B", input, &self.stored(1), Scope::Global, ""),
            buffer("C", sum, &[m, n], Scope::Global, ""),
            buffer("D", sum, &[m, n], Scope::Global, ""),
            chip[0].clone(),
            chip[1].clone(),
            d.clone(),
        ];
        let mut body = vec![];
        for (side, global) in ["A", "B"].into_iter().enumerate() {
            body.extend(if self.registers[side] {
                each_held(global, &chip[side], |at| vec![store(&chip[side].name, at, load(global, at, input))])
            } else {
                each_shared(global, &self.stored(side), threads, |at| {
                    vec![store(&chip[side].name, at, load(global, at, input))]
                })
            });
        }
        body.push(sync());
        body.extend(each_held("C", &d, |at| vec![store(&d.name, at, load("C", at, sum))]));
        body.push(self.call(&chip));
        body.extend(each_held("D", &d, |at| vec![store(&"D".into(), at, load("d", at, sum))]));
        let args = self.arguments();
        let want = self.want(&args);
        let integer = sum == DType::I32;
        let tf32 = self.shape == MmaShape::M16N8K8TF32;
        Product {
            name: self.name(number),
            func: program(threads, &all, body),
            args,
            want,
            u_in: if tf32 { 2f64.powi(-10) } else { 0.0 },
            u: if integer { 0.0 } else { 2f64.powi(-24) },
            depth: k,
        }
    }

    fn call(&self, chip: &[Buffer; 2]) -> DStmt {
        let [m, n, _] = self.extents();
        let operand = |side: usize| TileArg::Tile(Tile::whole(&chip[side].name, &self.stored(side)));
        let mut call =
            TileCall::new(TileOp::Gemm, self.scope, Tile::whole(&"d".into(), &[m, n]), vec![operand(0), operand(1)]);
        call.accum = self.accum;
        for (side, name) in ["transpose_A", "transpose_B"].into_iter().enumerate() {
            call.config.insert(name.into(), AttrValue::Bool(self.transposed[side]));
        }
        if self.shape == MmaShape::M16N8K8TF32 {
            call.config.insert("precision".into(), AttrValue::Str("tf32".into()));
        }
        call.forced = Some("mma".into());
        DStmt::Tile(Box::new(call))
    }

    fn arguments(&self) -> Vec<Tensor> {
        let (input, sum) = self.shape.dtypes();
        let [m, n, k] = self.extents();
        let seed = (m * 1000 + n * 10 + k) as u64;
        vec![
            values(input, &self.stored(0), seed),
            values(input, &self.stored(1), seed + 1),
            values(sum, &[m, n], seed + 2),
            Tensor::zeros(sum, &[m, n]),
        ]
    }

    fn want(&self, args: &[Tensor]) -> Vec<f64> {
        product(&args[0], &args[1], self.accum.then_some(&args[2]), self.extents(), self.transposed)
    }
}

/// `A B`, added to C, in float64.
pub fn product(a: &Tensor, b: &Tensor, c: Option<&Tensor>, [m, n, k]: [i64; 3], transposed: [bool; 2]) -> Vec<f64> {
    let at = |t: &Tensor, r: i64, c: i64, rows: i64, columns: i64, turned: bool| {
        t.get_f64(if turned { c * rows + r } else { r * columns + c } as usize)
    };
    let element = |i: i64, j: i64| {
        let start = c.map_or(0.0, |c| c.get_f64((i * n + j) as usize));
        let term = |l: i64| at(a, i, l, m, k, transposed[0]) * at(b, l, j, k, n, transposed[1]);
        start + (0..k).map(term).sum::<f64>()
    };
    (0..m * n).map(|x| element(x / n, x % n)).collect()
}

/// Random values; small whole numbers of integers.
pub fn values(dtype: DType, shape: &[i64], seed: u64) -> Tensor {
    if dtype.is_float() {
        return random(dtype, shape, seed);
    }
    let scaled: Vec<f64> = random(DType::F64, shape, seed).to_f64().iter().map(|x| (x * 127.0).round()).collect();
    Tensor::from_f64(dtype, shape, &scaled)
}

/// Runs `f` for every element of a buffer in registers that the running thread holds. Loops are named
/// after `stem`.
pub fn each_held(stem: &str, b: &Buffer, f: impl Fn(&[Expr]) -> Vec<DStmt>) -> Vec<DStmt> {
    let shape: Vec<i64> = b.shape.iter().filter_map(Expr::as_int).collect();
    let layout = b.layout.clone().unwrap_or(TileLayout::row_major(&shape).expect("a shape"));
    let layout = layout.by_warp().expect("whole warps");
    let local = layout.local_shape(&shape).expect("shares");
    let (x, y) = (Name::new(format!("{stem}_x")), Name::new(format!("{stem}_y")));
    let thread = Expr::var("threadIdx.x", DType::I64);
    let value = |axis: Axis| match axis {
        Axis::LaneId => Expr::binary(BinOp::FloorMod, thread.clone(), Expr::i64(32)),
        _ => Expr::binary(BinOp::FloorDiv, thread.clone(), Expr::i64(32)),
    };
    let at = layout.coordinates(&shape, &value, &[index_var(&x), index_var(&y)]).expect("coordinates");
    vec![unrolled(x, local[0], vec![unrolled(y, local[1], f(&at))])]
}

/// Runs `f` for every element of a matrix, shared out among the threads of the block.
pub fn each_shared(stem: &str, shape: &[i64; 2], threads: u32, f: impl Fn(&[Expr]) -> Vec<DStmt>) -> Vec<DStmt> {
    let (n, step) = (shape[0] * shape[1], Name::new(format!("{stem}_s")));
    let t = i64::from(threads);
    let linear = index_var(&step) * Expr::i64(t) + Expr::var("threadIdx.x", DType::I64);
    let columns = || Expr::i64(shape[1]);
    let at = [
        Expr::binary(BinOp::FloorDiv, linear.clone(), columns()),
        Expr::binary(BinOp::FloorMod, linear.clone(), columns()),
    ];
    let mut body = f(&at);
    if n % t != 0 {
        let cond = Expr::binary(BinOp::Lt, linear, Expr::i64(n));
        body = vec![DStmt::If { cond, then: body, otherwise: vec![] }];
    }
    vec![DStmt::For(DFor::new(step, Expr::i64((n + t - 1) / t), DKind::Serial, body))]
}

fn unrolled(var: Name, extent: i64, body: Vec<DStmt>) -> DStmt {
    DStmt::For(DFor::new(var, Expr::i64(extent), DKind::Unrolled, body))
}

pub fn store(buffer: &Name, at: &[Expr], value: Expr) -> DStmt {
    DStmt::store(buffer.clone(), at.to_vec(), value)
}

pub fn load(buffer: &str, at: &[Expr], dtype: DType) -> Expr {
    Expr::load(buffer, at.to_vec(), dtype)
}

/// A layout made of fragments.
pub fn tiled(fragment: Fragment, grid: Vec<Iter>, replica: Vec<Iter>, shape: [i64; 2]) -> TileLayout {
    let replica = replica.into_iter().filter(|it| it.extent > 1).collect();
    let outer = TileLayout::new(grid, replica, BTreeMap::new(), None).expect("a grid");
    fragment.layout().tile(&outer, &shape, &fragment.shape()).expect("a layout of fragments")
}

/// Rows of 64 or 128 bytes (and multiples), chunks of 16 bytes permuted by the row.
pub fn swizzled(rows: i64, columns: i64, chunk: u32, bits: u32) -> TileLayout {
    let swizzle = Swizzle::new(chunk, bits, 3, true).expect("a swizzle");
    TileLayout::row_major(&[rows, columns]).and_then(|l| l.compose(swizzle)).expect("a layout")
}

pub fn with_layout(b: Buffer, layout: TileLayout) -> Buffer {
    Buffer { layout: Some(layout), ..b }
}

fn warp(extent: i64, stride: i64) -> Iter {
    Iter::new(extent, stride, Axis::WarpId)
}

/// The fragments of A and B.
pub fn fragments(s: MmaShape) -> [Fragment; 2] {
    match s {
        MmaShape::M16N8K16F16 | MmaShape::M16N8K16BF16 => [Fragment::M16N8K16A, Fragment::M16N8K16B],
        MmaShape::M16N8K8TF32 => [Fragment::M16N8K8Tf32A, Fragment::M16N8K8Tf32B],
        MmaShape::M16N8K32I8 | MmaShape::M16N8K32E4M3 | MmaShape::M16N8K32E5M2 => {
            [Fragment::M16N8K32Int8A, Fragment::M16N8K32Int8B]
        }
    }
}
