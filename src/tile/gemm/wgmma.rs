//! Matrix products on tensor cores by whole warpgroups (`wgmma`), operands read from shared memory.
//!
//! When: sm_90a, blocks of whole warpgroups, A and B of a 16-bit float, an 8-bit float, int8, or float32 with `precision="tf32"`
//! (the low 13 bits of the operands are then ignored), in shared memory as matrix descriptors name them: pieces of 8 lines
//! of 16 bytes, or of 32, 64 or 128 permuted within. D is in registers, shared out so that the four warps of a group hold 16
//! rows each of every 64, and of these the same columns, 8 to 256. D starts from what it holds, or zero.
//!
//! before: `Tx.cta.gemm(d[0:128, 0:128], a_smem[0:128, 0:64], b_smem[0:64, 0:128], accum=True)`
//! after:  `wgmma_fence`; for each 16 of k and each 64 rows of the group `wgmma.m64n128k16`; commit, wait
//!
//! What threads and asynchronous copies wrote to A and B has to be fenced for the asynchronous proxy before the
//! barrier in front of the call (`lower/pass/proxy.rs`, or the program).
//!
//! Declines by naming the condition with its values.

use super::described::Described;
use super::grid::Grid;
use super::mma::EXACT;
use super::operands::{Matrix, Product, Start, product};
use crate::ir::device::{DKind, DStmt};
use crate::ir::instr::{At, Instr, Op, Sync, WgmmaShape};
use crate::ir::layout::Fragment;
use crate::ir::{BinOp, DType, ExecScope, Expr, Name, Scope, TileCall, TileOp};
use crate::tile::predicates::{all_threads, scope_in, takes};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant, WARPGROUP};

/// Warps of a group.
const WARPS: i64 = 4;

/// Products by warpgroups.
pub(super) const WGMMA: Variant =
    Variant { name: "wgmma", ops: &[TileOp::Gemm], priority: 20, only_forced: true, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let wgmma = Wgmma::of(call, cx, r, |p| input(call, p))?;
    Some(Box::new(move |e| wgmma.emit(e)))
}

/// Asks whether whole warpgroups with such instructions carry out a call in one of these scopes.
pub(super) fn by_warpgroups(call: &TileCall, cx: &Cx, r: &mut Refusals, scopes: &[ExecScope]) {
    r.ask("sm_version", takes(cx, cx.target.has.wgmma, "matrix instructions of warpgroups", 90));
    scope_in(call, scopes, r);
    all_threads(call, cx, r);
    r.ask("whole_warpgroups", whole_warpgroups(cx));
}

fn whole_warpgroups(cx: &Cx) -> Result<(), String> {
    match cx.threads() % WARPGROUP {
        0 => Ok(()),
        _ => Err(format!("the block has {} threads, and the last of them are no whole warpgroup", cx.threads())),
    }
}

/// The type of both factors.
pub(super) fn input(call: &TileCall, p: &Product) -> Result<DType, String> {
    let [d, a, b] = [&p.d, &p.a, &p.b].map(|x| x.view.dtype);
    let shape = WgmmaShape { n: 8, input: a };
    match a == b && d == shape.sum() && shape.check().is_ok() {
        true if a == DType::F32 && !call.allows_tf32() => Err(EXACT.to_string()),
        true => Ok(a),
        false => Err(format!("no instruction of warpgroups multiplies {a} by {b} into {d}")),
    }
}

pub(super) fn storage(p: &Product) -> Result<(), String> {
    super::operands::in_registers(p)?;
    super::operands::in_shared(p)
}

/// The registers of D.
pub(super) struct Sums {
    pub grid: Grid,
    /// The first register of each 64 rows of a group.
    pub tiles: Vec<Expr>,
}

impl Sums {
    pub fn of(d: &Matrix, call: &TileCall, cx: &Cx) -> Result<Sums, String> {
        let grid = Grid::of(d, Fragment::M16N8Acc, call.scope, cx)?;
        for (group, warps) in grid.numbers.chunks(WARPS as usize).enumerate() {
            let [_, columns] = &warps[0];
            let adjacent = columns.iter().zip(0..).all(|(c, j)| c - columns[0] == j);
            let same = warps.iter().zip(0..).all(|(w, i)| {
                w[1] == *columns
                    && w[0].iter().zip(&warps[0][0]).all(|(own, first)| first % WARPS == 0 && own - first == i)
            });
            if !adjacent || !same {
                return Err(format!(
                    "the warps of group {group} do not hold 16 rows each of 64 rows with the same adjacent columns"
                ));
            }
        }
        let register = |i: i64, j: i64| cx.simple(grid.register(&Expr::i64(i), &Expr::i64(j)));
        let each = grid.fragment.len() as i64;
        let [rows, columns] = grid.local;
        let tiles: Vec<Expr> = (0..rows).map(|i| register(i, 0)).collect();
        let dense = |i: i64, j: i64| cx.simple(register(i, j) - register(i, 0)).is_int(j * each);
        match (0..rows).all(|i| (0..columns).all(|j| dense(i, j))) {
            true => Ok(Sums { grid, tiles }),
            false => Err(format!("the columns of `{}` are not in adjacent registers", d.view.buffer)),
        }
    }

    /// Rows, in instructions, of the `i`th of the running group, and its columns.
    pub fn tile_of(&self, cx: &Cx, scope: ExecScope, shape: WgmmaShape, i: i64) -> [Expr; 2] {
        // the same in all threads of a group, which the number of the warp would not show
        let group = Expr::binary(BinOp::FloorDiv, cx.rank(scope), Expr::i64(WARPGROUP));
        let first = cx.simple(group * Expr::i64(WARPS));
        let [row, column] = self.grid.place_of(cx, &first, &Expr::i64(i), &Expr::i64(0));
        let column = column * Expr::i64(Fragment::M16N8Acc.shape()[1]);
        let tile = |at: Expr, n: i64| cx.simple(Expr::binary(BinOp::FloorDiv, at, Expr::i64(n)));
        [tile(row, WARPS), tile(column, shape.n)]
    }

    /// Registers of a call's own for as many sums, those of each 64 rows of a group.
    pub fn registers(&self, emit: &mut Emit, stem: &str, shape: WgmmaShape) -> Vec<At> {
        let (rows, each) = (self.tiles.len() as i64, shape.registers());
        let name = emit.scratch(stem, shape.sum(), rows * each, Scope::Local);
        (0..rows).map(|i| At::new(&name, Expr::i64(i * each))).collect()
    }

    /// Adds what `value` makes of each of such registers to those of `d`, or stores it where D has no `old` sums.
    pub fn add(
        &self,
        emit: &mut Emit,
        (d, shape): (&Name, WgmmaShape),
        from: &[At],
        old: bool,
        value: impl Fn(Expr) -> Expr,
    ) -> Vec<DStmt> {
        let dtype = shape.sum();
        let add = |emit: &mut Emit, to: &Expr, from: &At| {
            emit.repeat("e", shape.registers(), DKind::Unrolled, |emit, e| {
                let to = emit.simple(to.clone() + e.clone());
                let own = Expr::load(from.array.clone(), vec![emit.simple(from.index.clone() + e)], dtype);
                let value = value(own);
                let value = if old { Expr::load(d.clone(), vec![to.clone()], dtype) + value } else { value };
                vec![DStmt::store(d.clone(), vec![to], value)]
            })
        };
        self.tiles.iter().zip(from).map(|(to, from)| add(emit, to, from)).collect()
    }

    /// The instruction, as wide as what a group holds.
    pub fn shape(&self, input: DType) -> Result<WgmmaShape, String> {
        let shape = WgmmaShape { n: self.grid.local[1] * Fragment::M16N8Acc.shape()[1], input };
        shape.check().map(|()| shape)
    }
}

/// A product that decomposes into instructions of warpgroups.
pub(super) struct Wgmma {
    pub p: Product,
    pub shape: WgmmaShape,
    a: Described,
    b: Described,
    pub sums: Sums,
    scope: ExecScope,
}

impl Wgmma {
    /// Asks all predicates of a product of factors of the type that `input` finds.
    pub fn of(
        call: &TileCall,
        cx: &Cx,
        r: &mut Refusals,
        input: impl FnOnce(&Product) -> Result<DType, String>,
    ) -> Option<Wgmma> {
        by_warpgroups(call, cx, r, &[ExecScope::Warpgroup, ExecScope::Cta]);
        let product = product(call, cx, r);
        let p = product.as_ref();
        let input = r.ask_if("dtype", p, input);
        r.ask_if("storage_scope", p, storage);
        r.ask_if("c_place", p, |p| p.starts_in_d(": copy it to D first"));
        let sums = r.ask_if("accumulators", p, |p| Sums::of(&p.d, call, cx));
        let shape = r.ask_if("shape", sums.as_ref().zip(input), |(sums, input)| sums.shape(input));
        let known = p.zip(shape);
        let a = r.ask_if("a_descriptor", known, |(p, _)| Described::of(&p.a, 0, WgmmaShape::ROWS, cx));
        let b = r.ask_if("b_descriptor", known, |(p, s)| Described::of(&p.b, 1, s.n, cx));
        Some(Wgmma { shape: shape?, a: a?, b: b?, sums: sums?, p: product?, scope: call.scope })
    }

    fn emit(&self, emit: &mut Emit) -> Vec<DStmt> {
        let d = &self.p.d.view.buffer;
        let sums: Vec<At> = self.sums.tiles.iter().map(|register| At::new(d, register.clone())).collect();
        self.products(&emit.cx(), &sums, matches!(self.p.start, Start::Old))
    }

    /// Issues all products, of each 64 rows of a group into the registers that begin at one of `sums`, and waits for them. They
    /// start from what these hold (`adds`), or from zero.
    pub fn products(&self, cx: &Cx, sums: &[At], adds: bool) -> Vec<DStmt> {
        let sync = |s: Sync| DStmt::Instr(Instr::from(s));
        let mut out = vec![sync(Sync::WgmmaFence)];
        for step in 0..(self.p.k / self.shape.k()) as usize {
            for (i, at) in (0..).zip(sums) {
                let [row, column] = self.sums.tile_of(cx, self.scope, self.shape, i);
                let a = At::new(&self.p.a.view.buffer, self.a.start(cx, &row, step));
                let b = At::new(&self.p.b.view.buffer, self.b.start(cx, &column, step));
                let op = Op::Wgmma { shape: self.shape, a: self.a.desc, b: self.b.desc };
                out.push(DStmt::Instr(Instr::new(op, [at.clone(), a, b], [Expr::bool(step > 0 || adds)])));
            }
        }
        out.extend([sync(Sync::WgmmaCommit), sync(Sync::WgmmaWait { left: 0 })]);
        out
    }
}
