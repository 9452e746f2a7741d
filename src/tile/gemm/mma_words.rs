//! Matrix products on tensor cores (`mma.sync`) with values of packed words, as the lanes that loaded the words hold
//! them.
//!
//! A sum over k has no order, so the values that a lane decodes of its own words stand for whatever k the instruction
//! counts; A is brought in the same order, by loads of 16 bytes from shared memory, in place of `ldmatrix`.
//!
//! When: sm_80 and up, whole warps, float16 into float32. B is in registers, stored as `[N, K]` with the layout of
//! packed words ([`TileLayout::of_words`]); D is in registers, the accumulator fragments of the same columns and all
//! rows in each warp. A is in shared memory with 16 aligned bytes along k. D starts from what it holds, or zero.
//!
//! before: `Tx.cta.gemm(d[0:16, 0:64], a_smem[0:16, 0:64], b[0:64, 0:64], transpose_b=True, accum=True)`
//! after:  for each 8 values of a lane: `row = a_smem[lane // 4, ...]` and that 8 rows below,
//!         `a_frag = row[0], row[4], row8[0], row8[4], row[1], row[5], ...`, and two `mma.m16n8k16` for each fragment of D
//!
//! Declines by naming the condition with its values.

use super::feed::run;
use super::grid::Grid;
use super::mma::by_warps;
use super::operands::{Product, in_registers, product};
use crate::ir::device::{DStmt, index_var};
use crate::ir::instr::{At, Instr, MmaShape, Op};
use crate::ir::kernel::CacheHint;
use crate::ir::layout::words::{CHUNK, QUAD, ROWS, RUN, WORD};
use crate::ir::layout::{Fragment, TileLayout};
use crate::ir::{BinOp, DType, Expr, Name, Scope, TileCall, TileOp};
use crate::tile::copy::moved;
use crate::tile::loops::unrolled;
use crate::tile::{Cx, Emit, Part, Plan, Refusals, Variant, WARP};

/// Products of packed words on tensor cores.
pub(super) const MMA_WORDS: Variant =
    Variant { name: "mma_words", ops: &[TileOp::Gemm], priority: 20, only_forced: true, plan };

/// Elements of a fragment of A that a lane holds.
const OF_A: i64 = 8;

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    by_warps(call, cx, r);
    let product = product(call, cx, r);
    let p = product.as_ref();
    r.ask_if("dtype", p, dtype);
    r.ask_if("storage_scope", p, storage);
    let warps = cx.threads_in(call.scope) / WARP;
    let words = r.ask_if("words", p, |p| words(p, warps, cx));
    let d = r.ask_if("accumulators", p, |p| sums(p, Grid::of(&p.d, Fragment::M16N8Acc, call.scope, cx)?));
    r.ask_if("a_rows", p, |p| match run(&p.a, p.a.dims[1], cx) {
        n if n >= WORD => Ok(()),
        n => Err(format!("{n} elements of `{}` along K lie side by side, aligned, not {WORD}", p.a.view.buffer)),
    });
    r.ask_if("c_place", p, |p| p.starts_in_d(": copy it to D first"));
    let (words, d, p) = (words?, d?, product?);
    Some(Box::new(move |e| Words { p, words, d }.emit(e)))
}

fn dtype(p: &Product) -> Result<(), String> {
    match [&p.d, &p.a, &p.b].map(|x| x.view.dtype) {
        [DType::F32, DType::F16, DType::F16] => Ok(()),
        [d, a, b] => Err(format!("{a} times {b} into {d}, and words are of float16, into float32")),
    }
}

fn storage(p: &Product) -> Result<(), String> {
    in_registers(p)?;
    let name = |x: &super::operands::Matrix| format!("`{}` is in {} memory", x.view.buffer, x.view.scope.name());
    match (p.a.view.is_shared(), p.b.view.is_local()) {
        (false, _) => Err(format!("{}, and A has to be in shared memory", name(&p.a))),
        (_, false) => Err(format!("{}, and B has to be in registers", name(&p.b))),
        _ => Ok(()),
    }
}

/// The registers of B.
fn words(p: &Product, warps: i64, cx: &Cx) -> Result<Part, String> {
    let (b, part) = (&p.b, Part::of(&p.b.view, cx.ranges)?);
    let wanted = TileLayout::of_words(p.n, p.k, warps)?.canonical();
    match b.view.tile_layout()?.canonical() {
        own if own == wanted && b.dims[0] > b.dims[1] => Ok(part),
        own => Err(format!("`{}` has layout {own}, and words of [N, K] have {wanted}", b.view.buffer)),
    }
}

/// The registers of D: all rows, and the columns of the words, in each warp.
fn sums(p: &Product, d: Grid) -> Result<Grid, String> {
    let [rows, columns] = d.local;
    for (warp, numbers) in (0..).zip(&d.numbers) {
        let own = columns * warp..columns * (warp + 1);
        if !numbers[0].iter().copied().eq(0..rows) || !numbers[1].iter().copied().eq(own) || rows * 16 != p.m {
            let name = &p.d.view.buffer;
            return Err(format!("warp {warp} does not hold all rows of `{name}` and the columns of its words"));
        }
    }
    Ok(d)
}

/// A product of packed words.
struct Words {
    p: Product,
    words: Part,
    d: Grid,
}

impl Words {
    fn emit(&self, emit: &mut Emit) -> Vec<DStmt> {
        let mut out = self.d.zeros(&self.p, emit);
        let rows = emit.scratch("a_rows", DType::F16, 2 * WORD, Scope::Local);
        let fragments = emit.scratch("a_frag", DType::F16, 2 * OF_A, Scope::Local);
        for word in 0..self.p.k / (QUAD * WORD) {
            let i = emit.loop_var("i", self.d.local[0]);
            let mut body: Vec<DStmt> = (0..2).map(|half| self.row(emit, &index_var(&i), word, half, &rows)).collect();
            body.extend((0..2 * OF_A).map(|to| element(&rows, &fragments, to)));
            body.extend((0..2).map(|half| self.multiply(emit, &index_var(&i), word, half, &fragments)));
            out.push(unrolled(&i, self.d.local[0], body));
        }
        out
    }

    /// What a lane needs of one row of A.
    fn row(&self, emit: &Emit, i: &Expr, word: i64, half: i64, rows: &Name) -> DStmt {
        let lane = emit.cx().rank(crate::ir::ExecScope::Warp);
        let part = |op| Expr::binary(op, lane.clone(), Expr::i64(QUAD));
        let row = i.clone() * Expr::i64(2 * ROWS) + Expr::i64(half * ROWS) + part(BinOp::FloorDiv);
        let depth = part(BinOp::FloorMod) * Expr::i64(RUN * WORD) + Expr::i64(word / RUN * CHUNK + word % RUN * WORD);
        let from = emit.simple(self.p.a.at(row, depth));
        let to = Expr::i64(half * WORD);
        moved((rows, to), (&self.p.a.view.buffer, from), DType::F16, WORD, CacheHint::Plain)
    }

    /// The products of 16 rows with one half of a word of every eight columns.
    fn multiply(&self, emit: &mut Emit, i: &Expr, word: i64, half: i64, fragments: &Name) -> DStmt {
        let j = emit.loop_var("j", self.d.local[1]);
        let b = self.words.at(&self.element(&index_var(&j), word * WORD + 2 * half));
        let b = At::new(&self.p.b.view.buffer, emit.simple(b));
        let sum = At::new(&self.p.d.view.buffer, emit.simple(self.d.register(i, &index_var(&j))));
        let places = [sum.clone(), At::new(fragments, Expr::i64(half * OF_A)), b, sum];
        let mma = Instr::new(Op::Mma(MmaShape::M16N8K16F16), places, []);
        unrolled(&j, self.d.local[1], vec![DStmt::Instr(mma)])
    }

    /// The index, in what a lane holds of B, of value `k` of fragment `j`.
    fn element(&self, j: &Expr, k: i64) -> Vec<Expr> {
        let mut index = vec![Expr::i64(0); self.words.shape.len() - 2];
        index.extend([j.clone(), Expr::i64(k)]);
        index
    }
}

/// Element `to` of the two fragments of A that a word takes, of 8 values of two rows: the elements of pairs lie four
/// apart.
fn element(rows: &Name, fragments: &Name, to: i64) -> DStmt {
    // registers of a fragment: row, that 8 below, the same further along k; two elements each
    let (step, register, of_pair) = (to / OF_A, to % OF_A / 2, to % 2);
    let from = register % 2 * WORD + 2 * step + register / 2 + of_pair * (WORD / 2);
    let value = Expr::load(rows.clone(), vec![Expr::i64(from)], DType::F16);
    DStmt::store(fragments.clone(), vec![Expr::i64(to)], value)
}
