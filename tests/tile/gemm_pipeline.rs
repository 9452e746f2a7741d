//! A whole product `C = A B` as a tile program: blocks of threads stage tiles of A and B in shared
//! memory, two at a time, while tensor cores multiply the ones before.

use super::case::{buffer, program, random};
use super::gemm_shapes::{Product, each_held, product, store, swizzled, tiled, with_layout};
use daylight::interp::Tensor;
use daylight::ir::device::{DFor, DKind, DStmt, index_var};
use daylight::ir::instr::{Instr, Sync};
use daylight::ir::kernel::Barrier;
use daylight::ir::layout::{Axis, Fragment, Iter, TileLayout};
use daylight::ir::{BinOp, Buffer, DType, ExecScope, Expr, Name, Scope, Tile, TileArg, TileCall, TileOp};

/// The product of matrices whose extents are multiples of the tile's.
#[derive(Clone, Copy)]
pub struct Pipeline {
    pub dtype: DType,
    /// M, N and K.
    pub extents: [i64; 3],
    /// Of a block, along M, N and K.
    pub tile: [i64; 3],
    /// Warps along M and N.
    pub warps: [i64; 2],
    /// How tiles are brought to shared memory.
    pub copy: TileOp,
}

/// The pipelines that tests run.
pub fn products() -> Vec<Product> {
    let small = Pipeline {
        dtype: DType::F16,
        extents: [64, 32, 96],
        tile: [32, 32, 32],
        warps: [2, 1],
        copy: TileOp::CopyAsync,
    };
    let all = [
        small,
        Pipeline { dtype: DType::BF16, extents: [64, 128, 64], tile: [64, 64, 64], warps: [2, 2], ..small },
        Pipeline { copy: TileOp::Copy, ..small },
    ];
    all.iter().map(Pipeline::product).collect()
}

/// Pipelines with the tiles of real kernels, for GPUs: the simulator would take long.
#[allow(dead_code)] // in the binary without a GPU
pub fn large() -> Vec<Product> {
    let of = |dtype, tile, warps| Pipeline { dtype, extents: [256, 256, 512], tile, warps, copy: TileOp::CopyAsync };
    let all = [
        of(DType::BF16, [128, 128, 32], [2, 2]),
        of(DType::F16, [64, 128, 64], [2, 4]),
        of(DType::BF16, [128, 64, 64], [4, 1]),
    ];
    all.iter().map(Pipeline::product).collect()
}

impl Pipeline {
    /// The program, on random matrices.
    pub fn product(&self) -> Product {
        let [m, n, k] = self.extents;
        let args =
            vec![random(self.dtype, &[m, k], 1), random(self.dtype, &[k, n], 2), Tensor::zeros(DType::F32, &[m, n])];
        let want = product(&args[0], &args[1], None, self.extents, [false, false]);
        let [bm, bn, bk] = self.tile;
        let name = format!("pipeline {} {m}x{n}x{k} by {bm}x{bn}x{bk}", self.dtype);
        Product { name, func: self.program(), args, want, u_in: 0.0, u: 2f64.powi(-24), depth: k }
    }

    /// The tile program.
    pub fn program(&self) -> daylight::ir::DeviceFunc {
        let ([m, n, k], [bm, bn, bk]) = (self.extents, self.tile);
        let threads = (32 * self.warps[0] * self.warps[1]) as u32;
        let of = |name: &str, dtype, shape: &[i64], scope| buffer(name, dtype, shape, scope, "");
        let buffers = [
            of("A", self.dtype, &[m, k], Scope::Global),
            of("B", self.dtype, &[k, n], Scope::Global),
            of("C", DType::F32, &[m, n], Scope::Global),
            stages(of("a", self.dtype, &[2, bm, bk], Scope::Shared)),
            stages(of("b", self.dtype, &[2, bk, bn], Scope::Shared)),
            with_layout(of("d", DType::F32, &[bm, bn], Scope::Local), self.accumulators()),
        ];
        let step = Name::new("step");
        let (at, steps) = (index_var(&step), k / bk);
        let next = at.clone() + Expr::i64(1);
        let more = Expr::binary(BinOp::Lt, next.clone(), Expr::i64(steps));
        let stage = rem(at, 2);
        let d = Tile::whole(&"d".into(), &[bm, bn]);
        let mut product = TileCall::new(
            TileOp::Gemm,
            ExecScope::Cta,
            d.clone(),
            vec![
                part("a", &[stage.clone(), zero(), zero()], &[1, bm, bk]),
                part("b", &[stage, zero(), zero()], &[1, bk, bn]),
            ],
        );
        product.accum = true;
        product.forced = Some("mma".into());
        let body = vec![
            DStmt::If { cond: more, then: self.fetch(&next), otherwise: vec![] },
            DStmt::Instr(Instr::from(Sync::CpAsyncCommit)),
            DStmt::Instr(Instr::from(Sync::CpAsyncWait { left: 1 })),
            DStmt::Barrier(Barrier::Block),
            DStmt::Tile(Box::new(product)),
            DStmt::Barrier(Barrier::Block),
        ];
        let row = Expr::var("blockIdx.y", DType::I64) * Expr::i64(bm);
        let column = Expr::var("blockIdx.x", DType::I64) * Expr::i64(bn);
        let TileArg::Tile(result) = part("C", &[row, column], &[bm, bn]) else { unreachable!("a part is a tile") };
        let out = TileCall::new(TileOp::Copy, ExecScope::Cta, result, vec![TileArg::Tile(d)]);
        let zero_d = |at: &[Expr]| vec![store(&"d".into(), at, Expr::float(0.0, DType::F32))];
        let mut all = each_held("zero", &buffers[5], zero_d);
        all.extend(self.fetch(&zero()));
        all.push(DStmt::Instr(Instr::from(Sync::CpAsyncCommit)));
        all.push(DStmt::For(DFor::new(step, Expr::i64(steps), DKind::Serial, body)));
        all.push(DStmt::Tile(Box::new(out)));
        let mut f = program(threads, &buffers, all);
        f.grid = [Expr::i64(n / bn), Expr::i64(m / bm), Expr::i64(1)];
        f
    }

    /// Brings the tiles of a step to its stage.
    fn fetch(&self, step: &Expr) -> Vec<DStmt> {
        let [bm, bn, bk] = self.tile;
        let row = Expr::var("blockIdx.y", DType::I64) * Expr::i64(bm);
        let column = Expr::var("blockIdx.x", DType::I64) * Expr::i64(bn);
        let depth = step.clone() * Expr::i64(bk);
        let stage = rem(step.clone(), 2);
        let copy = |to: &str, from: &str, at: [Expr; 2], [rows, columns]: [i64; 2]| {
            let TileArg::Tile(dst) = part(to, &[stage.clone(), zero(), zero()], &[1, rows, columns]) else {
                unreachable!("a part is a tile")
            };
            let src = part(from, &at, &[rows, columns]);
            DStmt::Tile(Box::new(TileCall::new(self.copy, ExecScope::Cta, dst, vec![src])))
        };
        vec![copy("a", "A", [row, depth.clone()], [bm, bk]), copy("b", "B", [depth, column], [bk, bn])]
    }

    /// D in fragments, an equal part for each warp.
    fn accumulators(&self) -> TileLayout {
        let ([bm, bn, _], [wm, wn]) = (self.tile, self.warps);
        let (m, n) = (bm / 16 / wm, bn / 8 / wn);
        let grid = vec![
            Iter::new(wm, wn, Axis::WarpId),
            Iter::new(m, n, Axis::M),
            Iter::new(wn, 1, Axis::WarpId),
            Iter::new(n, 1, Axis::M),
        ];
        tiled(Fragment::M16N8Acc, grid, vec![], [m * wm, n * wn])
    }
}

/// Two stages whose rows of 64 or 128 bytes have their chunks of 16 bytes permuted.
fn stages(b: Buffer) -> Buffer {
    let shape: Vec<i64> = b.shape.iter().filter_map(Expr::as_int).collect();
    let bits = if shape[2] % 64 == 0 { 3 } else { 2 };
    let layout = swizzled(shape[0] * shape[1], shape[2], 3, bits);
    with_layout(b, layout)
}

fn part(buffer: &str, begin: &[Expr], extent: &[i64]) -> TileArg {
    TileArg::Tile(Tile { buffer: buffer.into(), begin: begin.to_vec(), extent: extent.to_vec() })
}

fn zero() -> Expr {
    Expr::i64(0)
}

fn rem(a: Expr, n: i64) -> Expr {
    Expr::binary(BinOp::FloorMod, a, Expr::i64(n))
}
