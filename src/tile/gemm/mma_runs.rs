//! Matrix products on tensor cores (`mma.sync`) with both factors in registers, as lanes load them from memory.
//!
//! A sum over k has no order: a lane's loads of eight neighbours, of a row of A and of one of B, are fragments for an
//! order of k that both share ([`Runs`]). Nothing passes through shared memory.
//!
//! When: sm_80 and up, whole warps, float16 or bfloat16 into float32, and one warp at a time. A is stored as `[M, K]`
//! and B as `[N, K]` in registers with layouts of the same kind of runs; D is in registers as accumulator fragments.
//! D starts from what it holds, or zero.
//!
//! before: `Tx.warp.gemm(d[0:16, 0:32], a[0:16, 0:64], b[0:32, 0:64], transpose_b=True, accum=True)`
//! after:  for each 16 values along k: `mma.m16n8k16` for each fragment of D
//!
//! Declines by naming the condition with its values.

use super::grid::Grid;
use super::mma::by_warps;
use super::operands::{Matrix, Product, in_registers, product_with};
use crate::ir::device::{DStmt, index_var};
use crate::ir::instr::{At, Instr, MmaShape, Op};
use crate::ir::layout::runs::Runs;
use crate::ir::layout::{Fragment, TileLayout};
use crate::ir::{DType, ExecScope, Expr, Name, TileCall, TileOp};
use crate::tile::loops::unrolled;
use crate::tile::{Cx, Emit, Part, Plan, Refusals, Variant};

/// Products of what lanes have loaded.
pub(super) const MMA_RUNS: Variant =
    Variant { name: "mma_runs", ops: &[TileOp::Gemm], priority: 20, only_forced: true, plan };

/// Values of a fragment of A, and of one of B, that a lane holds.
const OF: [i64; 2] = [8, 4];

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let loaded = Loaded::of(call, &[], cx, r)?;
    Some(Box::new(move |e| loaded.emit(e)))
}

fn one_warp(scope: ExecScope, cx: &Cx) -> Result<(), String> {
    match scope == ExecScope::Warp || cx.threads() == cx.threads_in(ExecScope::Warp) {
        true => Ok(()),
        false => Err(format!("the {} threads of a {} are several warps", cx.threads_in(scope), scope.name())),
    }
}

fn instruction(p: &Product) -> Result<MmaShape, String> {
    match [&p.d, &p.a, &p.b].map(|x| x.view.dtype) {
        [DType::F32, DType::F16, DType::F16] => Ok(MmaShape::M16N8K16F16),
        [DType::F32, DType::BF16, DType::BF16] => Ok(MmaShape::M16N8K16BF16),
        [d, a, b] => Err(format!("{a} times {b} into {d}, and runs are of float16 or bfloat16, into float32")),
    }
}

/// The registers of A and B, and how lanes have loaded them.
fn runs(p: &Product, cx: &Cx) -> Result<([Part; 2], Runs), String> {
    let parts = [Part::of(&p.a.view, cx.ranges)?, Part::of(&p.b.view, cx.ranges)?];
    for kind in [Runs::Values, Runs::Words] {
        let wanted = [kind.first(p.m, p.k), kind.second(p.n, p.k)];
        if holds(&p.a, [0, 1], &wanted[0]) && holds(&p.b, [1, 0], &wanted[1]) {
            return Ok((parts, kind));
        }
    }
    let own = |x: &Matrix| x.view.tile_layout().map_or("no layout".to_string(), |l| l.canonical().to_string());
    let (a, b) = (&p.a.view.buffer, &p.b.view.buffer);
    Err(format!("`{a}` has {} and `{b}` {}, which are no runs of [M, K] and [N, K]", own(&p.a), own(&p.b)))
}

fn holds(x: &Matrix, dims: [usize; 2], wanted: &Result<TileLayout, String>) -> bool {
    let ordered = (x.dims[0] < x.dims[1]) == (dims[0] < dims[1]);
    let own = x.view.tile_layout().map(|l| l.canonical());
    ordered && x.view.is_local() && own.ok().zip(wanted.as_ref().ok()).is_some_and(|(own, w)| own == w.canonical())
}

/// A product of what lanes have loaded.
pub(super) struct Loaded {
    pub p: Product,
    pub kind: Runs,
    pub d: Grid,
    shape: MmaShape,
    a: Part,
    b: Part,
}

impl Loaded {
    /// The product of a call, which may have these named operands.
    pub fn of(call: &TileCall, operands: &[&str], cx: &Cx, r: &mut Refusals) -> Option<Loaded> {
        by_warps(call, cx, r);
        r.ask("one_warp", one_warp(call.scope, cx));
        let product = product_with(call, operands, cx, r);
        let p = product.as_ref();
        let shape = r.ask_if("dtype", p, instruction);
        r.ask_if("storage_scope", p, in_registers);
        let d = r.ask_if("accumulators", p, |p| Grid::of(&p.d, Fragment::M16N8Acc, call.scope, cx));
        let runs = r.ask_if("runs", p, |p| runs(p, cx));
        r.ask_if("c_place", p, |p| p.starts_in_d(": copy it to D first"));
        let (shape, ([a, b], kind), d, p) = (shape?, runs?, d?, product?);
        Some(Loaded { p, kind, d, shape, a, b })
    }

    fn emit(&self, emit: &mut Emit) -> Vec<DStmt> {
        let mut out = self.d.zeros(&self.p, emit);
        let steps = self.steps();
        let s = emit.loop_var("s", steps);
        let products = self.products(emit, &index_var(&s), &self.p.d.view.buffer, &|i, j| self.d.register(i, j));
        out.push(unrolled(&s, steps, vec![products]));
        out
    }

    /// Instructions along k.
    pub fn steps(&self) -> i64 {
        self.p.k / self.shape.k()
    }

    /// Values along k of an instruction.
    pub fn step(&self) -> i64 {
        self.shape.k()
    }

    /// The products of the values of one step along k, that of fragment `(i, j)` added to registers of `sums` from where
    /// `register` says.
    pub fn products(
        &self,
        emit: &mut Emit,
        step: &Expr,
        sums: &Name,
        register: &dyn Fn(&Expr, &Expr) -> Expr,
    ) -> DStmt {
        let steps = Expr::i64(self.steps());
        let [i, j] = [("i", self.d.local[0]), ("j", self.d.local[1])].map(|(v, n)| emit.loop_var(v, n));
        let [row, column] = [&i, &j].map(index_var);
        let loaded = |part: &Part, line: &Expr, n: i64| {
            let first = part.at(&vec![Expr::i64(0); part.shape.len()]);
            first + (line.clone() * steps.clone() + step.clone()) * Expr::i64(n)
        };
        let a = At::new(&self.p.a.view.buffer, emit.simple(loaded(&self.a, &row, OF[0])));
        let b = At::new(&self.p.b.view.buffer, emit.simple(loaded(&self.b, &column, OF[1])));
        let sum = At::new(sums, emit.simple(register(&row, &column)));
        let mma = DStmt::Instr(Instr::new(Op::Mma(self.shape), [sum.clone(), a, b, sum], []));
        unrolled(&i, self.d.local[0], vec![unrolled(&j, self.d.local[1], vec![mma])])
    }
}
