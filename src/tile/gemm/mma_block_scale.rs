//! Matrix products on tensor cores (`mma.sync`) of numbers of 4 and 8 bits, each block of which along K has a scale.
//!
//! When: sm_120a, whole warps. A and B are in shared memory, of `float8_e4m3fn` or `float8_e5m2`, or of uint8 that
//! stand for two `float4_e2m1fn` each; K counts their elements, in whole 32 bytes. The operands `sfa`, of A's rows, and
//! `sfb`, of B's columns, are in shared memory too: `float8_e8m0fnu` for each 32 numbers, or `float8_e4m3fn` for each 16
//! of 4 bits. D is float32 in registers, accumulator fragments shared out over the warps, and starts from what it holds,
//! or zero.
//!
//! before: `Tx.cta.gemm(d[0:64, 0:64], a[0:64, 0:32], b[0:64, 0:32], transpose_b=True, accum=True, sfa=.., sfb=..)`
//! after:  for each 32 bytes along K: `ldmatrix.x4` of A and of B, scales of a row in 32 bits, and an `mma` for each
//!         fragment of D
//!
//! Declines by naming the condition with its values.

use super::feed::{Feed, Side, Step, run};
use super::grid::Grid;
use super::mma::whole_warps;
use super::operands::{Matrix, Product, in_registers, product};
use super::scaled::{SCALES, instruction, scales};
use crate::ir::device::{DFor, DKind, DStmt, index_var};
use crate::ir::instr::{At, BlockScaleMma, Instr, Op};
use crate::ir::kernel::CacheHint;
use crate::ir::layout::Fragment;
use crate::ir::{BinOp, ExecScope, Expr, Name, Scope, TileCall, TileOp};
use crate::tile::copy::moved;
use crate::tile::loops::unrolled;
use crate::tile::predicates::{all_threads, takes, warps};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant};

/// Products of numbers with scales of blocks.
pub(super) const MMA_BLOCK_SCALE: Variant =
    Variant { name: "mma_block_scale", ops: &[TileOp::Gemm], priority: 20, only_forced: true, plan };

/// Scales in 32 bits.
const WORD: i64 = 4;
/// Instructions that are written out at most.
const MOST_STEPS: i64 = 2048;
/// A longer loop over k stays a loop.
const MOST_UNROLLED_K: i64 = 4;

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let has = cx.target.has.block_scale_mma;
    r.ask("sm_version", takes(cx, has, "matrix instruction with scales of blocks", 120));
    warps(call, r);
    all_threads(call, cx, r);
    r.ask("whole_warps", whole_warps(cx));
    let numbers = TileCall { operands: Default::default(), ..call.clone() };
    let product = product(&numbers, cx, r);
    let p = product.as_ref();
    let scales = r.ask_if("scales", p, |p| scales(call, p, &SCALES, cx));
    let shape = r.ask_if("dtype", p.zip(scales.as_ref()), |(p, s)| instruction(p, s));
    r.ask_if("storage_scope", p.zip(scales.as_ref()), |(p, s)| storage(p, s));
    r.ask_if("multiples", p, multiples);
    let d = r.ask_if("accumulators", p, |p| Grid::of(&p.d, Fragment::M16N8Acc, call.scope, cx));
    r.ask_if("a_word", scales.as_ref().zip(shape), |(s, shape)| whole_row(&s[0], shape, cx));
    r.ask_if("b_word", scales.as_ref().zip(shape), |(s, shape)| whole_row(&s[1], shape, cx));
    let feed = |x: &Matrix, side, fragment| Feed::of(x, side, fragment, call.scope, cx);
    let a = r.ask_if("a_fragments", p, |p| feed(&p.a, Side::A, Fragment::M16N8K32Int8A));
    let b = r.ask_if("b_fragments", p, |p| feed(&p.b, Side::B, Fragment::M16N8K32Int8B));
    r.ask_if("c_place", p, |p| p.starts_in_d(": copy it to D first"));
    r.ask_if("steps", d.as_ref(), |d| match d.local[0] * d.local[1] * MOST_UNROLLED_K {
        n if n <= MOST_STEPS => Ok(()),
        n => Err(format!("{n} instructions of one warp are too many to write out, at most {MOST_STEPS}")),
    });
    let (shape, scales, a, b, d, p) = (shape?, scales?, a?, b?, d?, product?);
    let words = [0, 1].map(|side| word_of(&scales[side], shape, cx));
    let together = words[0].min(words[1]) / shape.scales();
    let scaled = Scaled { shape, together, scales, feeds: [a, b], d, p };
    Some(Box::new(move |e| scaled.emit(e)))
}

fn storage(p: &Product, scales: &[Matrix; 2]) -> Result<(), String> {
    in_registers(p)?;
    let [sfa, sfb] = scales;
    match [&p.a, &p.b, sfa, sfb].into_iter().find(|x| !x.view.is_shared()) {
        Some(x) => {
            Err(format!("`{}` is in {} memory: copy it to shared memory first", x.view.buffer, x.view.scope.name()))
        }
        None => Ok(()),
    }
}

fn multiples(p: &Product) -> Result<(), String> {
    let [m, n] = Fragment::M16N8Acc.shape();
    match [("M", p.m, m), ("N", p.n, n), ("K", p.k, BlockScaleMma::row())].into_iter().find(|(_, x, of)| x % of != 0) {
        Some((name, x, of)) => Err(format!("{name} is {x}, no multiple of {of}")),
        None => Ok(()),
    }
}

/// Scales of a line that one load takes.
fn word_of(x: &Matrix, shape: BlockScaleMma, cx: &Cx) -> i64 {
    let (run, least) = (run(x, x.dims[1], cx), shape.scales());
    [WORD, WORD / 2, 1].into_iter().find(|n| run >= *n && x.columns() % n == 0 && *n >= least).unwrap_or(0)
}

/// The scales that an instruction takes of a line are one load.
fn whole_row(x: &Matrix, shape: BlockScaleMma, cx: &Cx) -> Result<(), String> {
    match word_of(x, shape, cx) >= shape.scales() {
        true => Ok(()),
        false => {
            Err(format!("{} scales of `{}` along K do not lie side by side, aligned", shape.scales(), x.view.buffer))
        }
    }
}

/// A product that decomposes into fragments.
struct Scaled {
    p: Product,
    shape: BlockScaleMma,
    /// Instructions along K whose scales are one load.
    together: i64,
    scales: [Matrix; 2],
    feeds: [Feed; 2],
    d: Grid,
}

impl Scaled {
    fn emit(&self, emit: &mut Emit) -> Vec<DStmt> {
        let mut out = self.d.zeros(&self.p, emit);
        let steps = self.p.k / BlockScaleMma::row() / self.together;
        let k = emit.loop_var("k", steps);
        let mut body = vec![];
        let scales = [0, 1].map(|side| self.load_scales(&mut body, emit, side, &index_var(&k)));
        for number in 0..self.together {
            let at = index_var(&k) * Expr::i64(self.together) + Expr::i64(number);
            self.step(&mut body, emit, &scales, (at, number));
        }
        let kind = if steps <= MOST_UNROLLED_K { DKind::Unrolled } else { DKind::Serial };
        out.push(DStmt::For(DFor::new(k, Expr::i64(steps), kind, body)));
        out
    }

    /// Lines of fragments of a warp.
    fn count(&self, side: usize) -> i64 {
        self.d.local[side]
    }

    /// Loads the scales of a warp's rows or columns for some steps, four registers for each line of fragments.
    fn load_scales(&self, out: &mut Vec<DStmt>, emit: &mut Emit, side: usize, k: &Expr) -> Name {
        let (x, n) = (&self.scales[side], self.together * self.shape.scales());
        let scratch = emit.scratch(["a_scale", "b_scale"][side], x.view.dtype, WORD * self.count(side), Scope::Local);
        let var = emit.loop_var("i", self.count(side));
        let (i, zero) = (index_var(&var), Expr::i64(0));
        let lane = |op, n: i64| Expr::binary(op, emit.cx().rank(ExecScope::Warp), Expr::i64(n));
        let line = match side {
            0 => {
                let below = lane(BinOp::FloorMod, 2) * Expr::i64(8);
                self.d.place(&emit.cx(), &i, &zero)[0].clone() * Expr::i64(16) + lane(BinOp::FloorDiv, 4) + below
            }
            _ => self.d.place(&emit.cx(), &zero, &i)[1].clone() * Expr::i64(8) + lane(BinOp::FloorDiv, 4),
        };
        let from = emit.simple(x.at(line, k.clone() * Expr::i64(n)));
        let to = emit.simple(i * Expr::i64(WORD));
        let load = moved((&scratch, to), (&x.view.buffer, from), x.view.dtype, n, CacheHint::Plain);
        out.push(unrolled(&var, self.count(side), vec![load]));
        scratch
    }

    /// The products of 32 bytes along K.
    fn step(&self, out: &mut Vec<DStmt>, emit: &mut Emit, scales: &[Name; 2], (k, number): (Expr, i64)) {
        let d = &self.d;
        let (i, j) = (emit.loop_var("i", d.local[0]), emit.loop_var("j", d.local[1]));
        let step = |side, x, feed, fragment| Step { side, x, feed, fragment, d, k: k.clone() };
        let a = step(Side::A, &self.p.a, &self.feeds[0], Fragment::M16N8K32Int8A).load(out, emit, &i);
        let b = step(Side::B, &self.p.b, &self.feeds[1], Fragment::M16N8K32Int8B).load(out, emit, &j);
        let sum = At::new(&self.p.d.view.buffer, emit.simple(d.register(&index_var(&i), &index_var(&j))));
        let scale = |side: usize, var: &Name| At::new(&scales[side], emit.simple(index_var(var) * Expr::i64(WORD)));
        let first = [(number * self.shape.scales()) as u32; 2];
        let places = [sum.clone(), a, b, sum, scale(0, &i), scale(1, &j)];
        let mma = DStmt::Instr(Instr::new(Op::BlockScaleMma { shape: self.shape, first }, places, []));
        out.push(unrolled(&i, d.local[0], vec![unrolled(&j, d.local[1], vec![mma])]));
    }
}
