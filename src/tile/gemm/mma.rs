//! Matrix products on tensor cores (`mma.sync`), each warp computing the fragments of D that it holds.
//!
//! When: sm_80 and up, whole warps, M a multiple of 16, N of 8, K of the instruction's depth; float16
//! or bfloat16 into float32, int8 into int32, float32 only with `precision="tf32"` (the low 13 bits
//! of the operands are then ignored). D is in registers whose layout is a grid of accumulator
//! fragments shared out over the warps of the scope. A and B are in registers that hold the
//! fragments which each warp needs, or in shared memory: then they are loaded by `ldmatrix` where
//! rows of 16 bytes lie side by side (transposed where columns do), else by words or elements.
//!
//! before: `Tx.warp.gemm(d[0:16, 0:16], a_smem[0:16, 0:32], b_smem[0:32, 0:16])`
//! after:  `d = 0`, then for each 16 of k: `ldmatrix.x4` of A, `ldmatrix.x4.trans` of B, and
//!         `mma.m16n8k16` for each fragment of D; consecutive ones are independent
//!
//! Declines by naming the condition with its values; `fma` may then take the call.

use super::feed::{Feed, Side, Step};
use super::grid::{Element, Grid};
use super::operands::{Matrix, Product, Start, in_registers, product};
use crate::ir::device::{DFor, DKind, DStmt, index_var};
use crate::ir::instr::{At, Instr, MmaShape, Op};
use crate::ir::layout::Fragment;
use crate::ir::{DType, Expr, Name, TileCall, TileOp};
use crate::tile::loops::unrolled;
use crate::tile::predicates::{all_threads, takes, warps};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant, WARP};

/// Instructions that are written out at most.
const MOST_STEPS: i64 = 2048;
/// Why float32 is not shortened.
pub(super) const EXACT: &str = "float32 operands are multiplied exactly unless the call says precision=\"tf32\"";
/// A longer loop over k stays a loop, where no operand is in registers.
const MOST_UNROLLED_K: i64 = 8;

/// Products on tensor cores.
pub(super) const MMA: Variant = Variant { name: "mma", ops: &[TileOp::Gemm], priority: 20, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let mma = Mma::of(call, cx, r, instruction)?;
    Some(Box::new(move |e| mma.emit(e)))
}

/// Asks whether whole warps with such instructions carry out a call.
pub(super) fn by_warps(call: &TileCall, cx: &Cx, r: &mut Refusals) {
    r.ask("sm_version", takes(cx, cx.target.has.mma, "complete set of matrix instructions", 80));
    warps(call, r);
    all_threads(call, cx, r);
    r.ask("whole_warps", whole_warps(cx));
}

pub(super) fn whole_warps(cx: &Cx) -> Result<(), String> {
    match cx.threads() % WARP {
        0 => Ok(()),
        _ => Err(format!("the block has {} threads, and the last of them are no whole warp", cx.threads())),
    }
}

fn multiples(p: &Product, shape: Option<MmaShape>) -> Result<(), String> {
    let [m, n] = Fragment::M16N8Acc.shape();
    let k = shape.map_or(1, MmaShape::k);
    match [("M", p.m, m), ("N", p.n, n), ("K", p.k, k)].into_iter().find(|(_, x, of)| x % of != 0) {
        Some((name, x, of)) => Err(format!("{name} is {x}, no multiple of {of}")),
        None => Ok(()),
    }
}

/// That registers of an operand hold, in each warp, the lines of D's registers in the same order, and all
/// `steps` of K.
fn warp_tiling(
    d: &Grid,
    (name, lines, own): (&str, &str, usize),
    feed: Option<&Feed>,
    steps: i64,
) -> Result<(), String> {
    let Some(Feed::Registers(grid)) = feed else { return Ok(()) };
    for (warp, (d, x)) in d.numbers.iter().zip(&grid.numbers).enumerate() {
        let (d, x_lines, depth) = (&d[own], &x[own], &x[1 - own]);
        if d != x_lines {
            return Err(format!("warp {warp} holds fragments {d:?} of the {lines} of D, but {x_lines:?} of {name}"));
        }
        if !depth.iter().copied().eq(0..steps) {
            return Err(format!("warp {warp} holds fragments {depth:?} of {name} along K, and needs all of {steps}"));
        }
    }
    Ok(())
}

/// The fragments of C where it is in registers: C has D's type, and lies in memory or in registers as D does.
fn c_place(p: &Product, d: Option<&Grid>, call: &TileCall, cx: &Cx) -> Result<Option<Grid>, String> {
    let Start::Other(c) = &p.start else { return Ok(None) };
    let (to, view) = (&p.d.view, &c.view);
    if view.dtype != to.dtype {
        return Err(format!("C is {}, and D {}: cast it first", view.dtype, to.dtype));
    }
    let Some(d) = d.filter(|_| view.is_local()) else { return Ok(None) };
    let own = accumulators(c, call, cx)?;
    match own.numbers == d.numbers {
        true => Ok(Some(own)),
        false => Err(format!("warps hold other fragments of C `{}` than of D `{}`", view.buffer, to.buffer)),
    }
}

fn accumulators(x: &Matrix, call: &TileCall, cx: &Cx) -> Result<Grid, String> {
    Grid::of(x, Fragment::M16N8Acc, call.scope, cx)
}

/// The instruction for the types of a product.
fn instruction(call: &TileCall, p: &Product) -> Result<MmaShape, String> {
    let [d, a, b] = [&p.d, &p.a, &p.b].map(|x| x.view.dtype);
    match (a, b, d) {
        (DType::F16, DType::F16, DType::F32) => Ok(MmaShape::M16N8K16F16),
        (DType::BF16, DType::BF16, DType::F32) => Ok(MmaShape::M16N8K16BF16),
        (DType::I8, DType::I8, DType::I32) => Ok(MmaShape::M16N8K32I8),
        (DType::F32, DType::F32, DType::F32) if call.allows_tf32() => Ok(MmaShape::M16N8K8TF32),
        (DType::F32, DType::F32, DType::F32) => Err(EXACT.to_string()),
        _ => Err(format!("no instruction multiplies {a} by {b} into {d}")),
    }
}

/// The fragments of A and B.
fn fragments(s: MmaShape) -> [Fragment; 2] {
    match s {
        MmaShape::M16N8K16F16 | MmaShape::M16N8K16BF16 => [Fragment::M16N8K16A, Fragment::M16N8K16B],
        MmaShape::M16N8K8TF32 => [Fragment::M16N8K8Tf32A, Fragment::M16N8K8Tf32B],
        MmaShape::M16N8K32I8 | MmaShape::M16N8K32E4M3 | MmaShape::M16N8K32E5M2 => {
            [Fragment::M16N8K32Int8A, Fragment::M16N8K32Int8B]
        }
    }
}

/// A loop over k whose variable picks registers has to be written out.
fn k_kind(p: &Product, s: MmaShape) -> DKind {
    let registers = p.a.view.is_local() || p.b.view.is_local();
    if registers || p.k / s.k() <= MOST_UNROLLED_K { DKind::Unrolled } else { DKind::Serial }
}

fn steps(p: &Product, s: MmaShape, d: &Grid) -> Result<(), String> {
    let k = if k_kind(p, s) == DKind::Unrolled { p.k / s.k() } else { 1 };
    match d.local[0] * d.local[1] * k {
        n if n <= MOST_STEPS => Ok(()),
        n => Err(format!("{n} instructions of one warp are too many to write out, at most {MOST_STEPS}")),
    }
}

/// A product that decomposes into fragments.
pub(super) struct Mma {
    p: Product,
    pub shape: MmaShape,
    a: Feed,
    b: Feed,
    /// The fragments of C where it is in registers.
    c: Option<Grid>,
    pub d: Grid,
}

/// The fragments of A and B for one step along k, by the variables that number a warp's rows and columns of fragments.
pub(super) struct Loaded {
    pub i: Name,
    pub j: Name,
    pub a: At,
    pub b: At,
}

impl Mma {
    /// The product that a call asks for, of types for which there is such an instruction.
    pub fn of(
        call: &TileCall,
        cx: &Cx,
        r: &mut Refusals,
        instruction: fn(&TileCall, &Product) -> Result<MmaShape, String>,
    ) -> Option<Mma> {
        by_warps(call, cx, r);
        let product = product(call, cx, r);
        let p = product.as_ref();
        let shape = r.ask_if("dtype", p, |p| instruction(call, p));
        r.ask_if("storage_scope", p, in_registers);
        r.ask_if("multiples", p, |p| multiples(p, shape));
        let d = r.ask_if("accumulators", p, |p| accumulators(&p.d, call, cx));
        // what the instruction decides is not asked of types that have none
        let known = p.zip(shape);
        let feed = |x: &Matrix, side, fragment| Feed::of(x, side, fragment, call.scope, cx);
        let a = r.ask_if("a_fragments", known, |(p, s)| feed(&p.a, Side::A, fragments(s)[0]));
        let b = r.ask_if("b_fragments", known, |(p, s)| feed(&p.b, Side::B, fragments(s)[1]));
        let decomposed = known.zip(d.as_ref());
        r.ask_if("warp_tiling", decomposed, |((p, s), d)| {
            warp_tiling(d, ("A", "rows", 0), a.as_ref(), p.k / s.k())?;
            warp_tiling(d, ("B", "columns", 1), b.as_ref(), p.k / s.k())
        });
        let c = r.ask_if("c_place", p, |p| c_place(p, d.as_ref(), call, cx));
        r.ask_if("steps", decomposed, |((p, s), d)| steps(p, s, d));
        Some(Mma { shape: shape?, a: a?, b: b?, c: c?, d: d?, p: product? })
    }

    fn emit(&self, emit: &mut Emit) -> Vec<DStmt> {
        self.steps(emit, |emit, Loaded { i, j, a, b }, body| {
            let sum = self.sum(emit, &i, &j);
            let mma = DStmt::Instr(Instr::new(Op::Mma(self.shape), [sum.clone(), a, b, sum], []));
            body.push(unrolled(&i, self.d.local[0], vec![unrolled(&j, self.d.local[1], vec![mma])]));
        })
    }

    /// Gives D what it starts from, then loads the fragments of each step along k and multiplies them as `multiply` says.
    pub fn steps(&self, emit: &mut Emit, multiply: impl FnOnce(&mut Emit, Loaded, &mut Vec<DStmt>)) -> Vec<DStmt> {
        let Mma { p, shape, d, .. } = self;
        let mut out = self.start(emit);
        let steps = p.k / shape.k();
        let k = emit.loop_var("k", steps);
        let (i, j) = (emit.loop_var("i", d.local[0]), emit.loop_var("j", d.local[1]));
        let [a, b] = fragments(*shape);
        let step = |side, x, feed, fragment| Step { side, x, feed, fragment, d, k: index_var(&k) };
        let mut body = vec![];
        let a = step(Side::A, &p.a, &self.a, a).load(&mut body, emit, &i);
        let b = step(Side::B, &p.b, &self.b, b).load(&mut body, emit, &j);
        multiply(emit, Loaded { i, j, a, b }, &mut body);
        out.push(DStmt::For(DFor::new(k, Expr::i64(steps), k_kind(p, *shape), body)));
        out
    }

    /// The first register of fragment `(i, j)` of D.
    pub fn sum(&self, emit: &Emit, i: &Name, j: &Name) -> At {
        At::new(&self.p.d.view.buffer, emit.simple(self.d.register(&index_var(i), &index_var(j))))
    }

    /// Gives D what it starts from, fragment by fragment.
    fn start(&self, emit: &mut Emit) -> Vec<DStmt> {
        let (to, d) = (&self.p.d.view, &self.d);
        if matches!(self.p.start, Start::Old) {
            return vec![];
        }
        let (i, j) = (emit.loop_var("i", d.local[0]), emit.loop_var("j", d.local[1]));
        let first = d.register(&index_var(&i), &index_var(&j));
        let store = |element: &Element| {
            let value = match &self.p.start {
                Start::Other(c) => self.start_value(c, emit, [index_var(&i), index_var(&j)], element),
                Start::Zero | Start::Old => Expr::constant(0.0, to.dtype),
            };
            to.store(emit.simple(first.clone() + element.register.clone()), value)
        };
        let body = d.fragment.iter().map(store).collect();
        vec![unrolled(&i, d.local[0], vec![unrolled(&j, d.local[1], body)])]
    }

    /// An element of fragment `(i, j)` of C.
    fn start_value(&self, c: &Matrix, emit: &Emit, [i, j]: [Expr; 2], element: &Element) -> Expr {
        let place = match &self.c {
            Some(grid) => grid.register(&i, &j) + element.register.clone(),
            None => {
                let [m, n] = Fragment::M16N8Acc.shape().map(Expr::i64);
                let [row, column] = self.d.place(&emit.cx(), &i, &j);
                c.at(row * m + element.at[0].clone(), column * n + element.at[1].clone())
            }
        };
        c.view.load(emit.simple(place))
    }
}
