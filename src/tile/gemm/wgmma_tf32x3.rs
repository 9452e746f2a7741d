//! Matrix products of float32 by whole warpgroups: each factor is split into two of tf32, and three of their four products are
//! added (3xTF32, `TF32_TF32_F32_X3` of XLA).
//!
//! x = high + low: the instruction ignores the low 13 bits of an operand, so `high` is x as it is. The product of both `low` is
//! left out: less than 2^-20 of the whole. A is in registers as it is multiplied, high and low. B is read from shared memory, and
//! all threads write its `low` beside it, once for the block, while the products of both `high` are under way. The instruction
//! cuts off what tf32 lacks of `low` too, half of a unit on average, which is added before: numbers that tf32 holds stay as
//! they are.
//!
//! Tensor cores cut off the bits of sums that do not fit. So the products of both `high` of a call, which is short, start from
//! zero in registers of their own and are then added to D by an addition that rounds. The others are a thousandth of them: what
//! is cut off does not show, and those of several calls may be added up by the tensor cores, in registers (`rest`) that start
//! from zero and are added to D after the last call.
//!
//! Infinities and NaNs take part in the product of both `high` alone: where a factor is one, the sum of the other two products
//! is a NaN, as infinity less infinity is, and the minimum of that and a number is the number.
//!
//! When: sm_90a, blocks of whole warpgroups, all of float32. A and B are in shared memory, A in any layout, B as matrix
//! descriptors name it, contiguous along K and in one run; D is in registers as for `wgmma`, and `rest`, where it is given, too.
//!
//! before: `Tx.cta.gemm(d[0:128, 0:128], a_smem[0:128, 0:32], b_smem[0:128, 0:32], transpose_b=True, accum=True)`
//! after:  `ldmatrix` of A, its `low`; for each 8 of k `wgmma.m64n128k8` of A with B into `part`; `low` of B; for each 8 of k
//!         A with the `low` of B and the `low` of A with B into `rest`; `d += part`; `d += min(rest, 3.4e38)` if it is the call's
//!
//! Declines by naming the condition with its values.

use super::described::Described;
use super::feed::{Feed, Side, Step};
use super::operands::{Matrix, Product, Start, product_with};
use super::tf32::{float32, rest};
use super::wgmma::{Sums, by_warpgroups, storage};
use crate::ir::device::{DKind, DStmt};
use crate::ir::instr::{At, Instr, Op, Sync, WgmmaShape};
use crate::ir::kernel::CacheHint;
use crate::ir::layout::Fragment;
use crate::ir::{BinOp, DType, ExecScope, Expr, Name, Scope, TileArg, TileCall, TileOp};
use crate::tile::copy::moved;
use crate::tile::sync::meet;
use crate::tile::{Cx, Emit, Plan, Refusals, Variant};

/// Products of float32 by warpgroups, each of three of tf32.
pub(super) const WGMMA_TF32X3: Variant =
    Variant { name: "wgmma_tf32x3", ops: &[TileOp::Gemm], priority: 18, only_forced: true, plan };

/// Adds what is cut off on average, half of a unit of tf32's last place: 0.35 of one to 1, 0.7 to what is nearly 2.
const ROUNDED: f64 = 1.0 + 1.0 / 2896.0;
/// Elements of one access to shared memory, the widest first.
const LANES: [i64; 3] = [4, 2, 1];

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    by_warpgroups(call, cx, r, &[ExecScope::Cta]);
    let product = product_with(call, &["rest"], cx, r);
    let p = product.as_ref();
    let input = r.ask_if("dtype", p, float32);
    let a = r.ask_if("storage_scope", p, |p| {
        storage(p)?;
        Feed::of(&p.a, Side::A, Fragment::M16N8K8Tf32A, ExecScope::Cta, cx)
    });
    r.ask_if("c_place", p, |p| p.starts_in_d(": copy it to D first"));
    let sums = r.ask_if("accumulators", p, |p| Sums::of(&p.d, call, cx));
    let rest = r.ask_if("rest_place", p.zip(sums.as_ref()), |(p, sums)| rest_place(p, sums, call, cx));
    let shape = r.ask_if("shape", sums.as_ref().zip(input), |(sums, ())| sums.shape(DType::F32));
    let b = r.ask_if("b_descriptor", p.zip(shape), |(p, s)| Described::of(&p.b, 1, s.n, cx));
    r.ask_if("b_run", p.zip(b.as_ref()), |(p, b)| {
        b.run(p.n * p.k).map_err(|why| format!("`{}` is no run: {why}", p.b.view.buffer))
    });
    let (shape, a, b, sums, rest, p) = (shape?, a?, b?, sums?, rest?, product?);
    Some(Box::new(move |e| Tf32x3 { shape, a, b, sums, rest, p }.emit(e)))
}

/// The registers for the products of low parts, where the call names some.
fn rest_place(p: &Product, sums: &Sums, call: &TileCall, cx: &Cx) -> Result<Option<(Name, Vec<Expr>)>, String> {
    let tile = match call.operands.get("rest") {
        None => return Ok(None),
        Some(TileArg::Tile(tile)) => tile,
        Some(TileArg::Scalar(_)) => return Err("`rest` is a scalar, and has to be registers like those of D".into()),
    };
    let rest = Matrix::of(cx, tile, "rest", false)?;
    let (name, local) = (&rest.view.buffer, rest.view.is_local());
    let own = match local && rest.view.dtype == DType::F32 && [rest.rows(), rest.columns()] == [p.m, p.n] {
        true => Sums::of(&rest, call, cx)?,
        false => return Err(format!("`{name}` is no {} by {} of float32 in registers", p.m, p.n)),
    };
    match own.grid.numbers == sums.grid.numbers {
        true => Ok(Some((name.clone(), own.tiles))),
        false => Err(format!("warps hold other parts of `{name}` than of D")),
    }
}

/// A product of float32.
struct Tf32x3 {
    p: Product,
    shape: WgmmaShape,
    /// How fragments of A come into registers.
    a: Feed,
    b: Described,
    sums: Sums,
    /// Registers that the products of low parts are added to, those of each 64 rows of a group.
    rest: Option<(Name, Vec<Expr>)>,
}

/// A fragment of A for one step along k, of each 64 rows of a group.
struct Split {
    high: Vec<At>,
    low: Vec<At>,
}

impl Tf32x3 {
    fn emit(&self, emit: &mut Emit) -> Vec<DStmt> {
        let sync = |s: Sync| DStmt::Instr(Instr::from(s));
        let b = &self.p.b.view.buffer;
        let low_of_b = emit.scratch("b_low", DType::F32, self.p.n * self.p.k, Scope::Shared);
        let part = self.sums.registers(emit, "part", self.shape);
        let (rest, kept) = match &self.rest {
            Some((name, tiles)) => (tiles.iter().map(|at| At::new(name, at.clone())).collect(), true),
            None => (self.sums.registers(emit, "rest", self.shape), false),
        };
        let mut out = vec![];
        let steps: Vec<Split> = (0..self.p.k / self.shape.k()).map(|step| self.split(emit, step, &mut out)).collect();
        out.push(sync(Sync::WgmmaFence));
        for (step, a) in steps.iter().enumerate() {
            self.products(emit, &mut out, (&part, step > 0), &a.high, (b, &self.b, step));
        }
        out.push(sync(Sync::WgmmaCommit));
        self.low_of_b(emit, &low_of_b, &mut out);
        let low = self.b.at_start();
        for (step, a) in steps.iter().enumerate() {
            self.products(emit, &mut out, (&rest, kept || step > 0), &a.high, (&low_of_b, &low, step));
            self.products(emit, &mut out, (&rest, true), &a.low, (b, &self.b, step));
        }
        out.extend([sync(Sync::WgmmaCommit), sync(Sync::WgmmaWait { left: 1 })]);
        let d = (&self.p.d.view.buffer, self.shape);
        out.extend(self.sums.add(emit, d, &part, matches!(self.p.start, Start::Old), |part| part));
        out.push(sync(Sync::WgmmaWait { left: 0 }));
        if !kept {
            out.extend(self.sums.add(emit, d, &rest, true, without_nans));
        }
        out
    }

    /// Loads the fragments of A for a step and makes their `low`.
    fn split(&self, emit: &mut Emit, step: i64, out: &mut Vec<DStmt>) -> Split {
        let (rows, each) = (self.sums.tiles.len() as i64, self.shape.held());
        let var = emit.loop_var("i", rows);
        let (fragment, d) = (Fragment::M16N8K8Tf32A, &self.sums.grid);
        let of = Step { side: Side::A, x: &self.p.a, feed: &self.a, fragment, d, k: Expr::i64(step) };
        let high = of.load(out, emit, &var).array;
        let low = emit.scratch("a_low", DType::F32, rows * each, Scope::Local);
        out.push(emit.repeat("e", rows * each, DKind::Unrolled, |_, e| vec![low_of(&low, &high, e)]));
        // no arithmetic is left until products read it, behind the fence
        out.push(emit.repeat("w", rows * each / 2, DKind::Unrolled, |emit, w| {
            let pair = At::new(&low, emit.simple(w * Expr::i64(2)));
            vec![DStmt::Instr(Instr::new(Op::Pin, [pair], []))]
        }));
        let all = |array: &Name| (0..rows).map(|i| At::new(array, Expr::i64(i * each))).collect();
        Split { high: all(&high), low: all(&low) }
    }

    /// Issues the products of a step into the registers of `to`, which start from zero or `add`.
    fn products(
        &self,
        emit: &Emit,
        out: &mut Vec<DStmt>,
        (to, add): (&[At], bool),
        a: &[At],
        (array, b, step): (&Name, &Described, usize),
    ) {
        let cx = emit.cx();
        for ((i, a), sums) in (0..).zip(a).zip(to) {
            let [_, column] = self.sums.tile_of(&cx, ExecScope::Cta, self.shape, i);
            let b_at = At::new(array, b.start(&cx, &column, step));
            let op = Op::WgmmaRegisters { shape: self.shape, b: b.desc };
            out.push(DStmt::Instr(Instr::new(op, [sums.clone(), a.clone(), b_at], [Expr::bool(add)])));
        }
    }

    /// Has all threads write the `low` of B, each element where it has its `high`.
    fn low_of_b(&self, emit: &mut Emit, to: &Name, out: &mut Vec<DStmt>) {
        let (cx, elements, b) = (emit.cx(), self.p.n * self.p.k, self.p.b.view.buffer.clone());
        let (threads, thread, first) = (cx.threads(), cx.rank(ExecScope::Cta), self.b.start(&cx, &Expr::i64(0), 0));
        let guarded = emit.guard_scratch;
        out.extend(meet(ExecScope::Cta, &emit.cx()).filter(|_| guarded));
        // a condition among products would cost a fence of the compiler's own
        let lanes = LANES.into_iter().find(|n| elements % (threads * n) == 0).unwrap_or(LANES[0]);
        let (turns, left) = (elements / (threads * lanes), elements % (threads * lanes) / lanes);
        let turn = |emit: &mut Emit, u: Expr| {
            let at = emit.simple((u * Expr::i64(threads) + thread.clone()) * Expr::i64(lanes));
            let high = emit.scratch("b_high", DType::F32, lanes, Scope::Local);
            let low = emit.scratch("b_rest", DType::F32, lanes, Scope::Local);
            let (from, zero) = (emit.simple(first.clone() + at.clone()), || Expr::i64(0));
            let load = moved((&high, zero()), (&b, from), DType::F32, lanes, CacheHint::Plain);
            let split = emit.repeat("e", lanes, DKind::Unrolled, |_, e| vec![low_of(&low, &high, e)]);
            vec![load, split, moved((to, at), (&low, zero()), DType::F32, lanes, CacheHint::Plain)]
        };
        if turns > 0 {
            out.push(emit.repeat("u", turns, DKind::Unrolled, turn));
        }
        if left > 0 {
            let cond = Expr::binary(BinOp::Lt, thread.clone(), Expr::i64(left));
            out.push(DStmt::If { cond, then: turn(emit, Expr::i64(turns)), otherwise: vec![] });
        }
        out.extend(guarded.then(|| DStmt::Instr(Instr::from(Sync::AsyncFence))));
        out.extend(meet(ExecScope::Cta, &emit.cx()));
    }
}

/// The sum of products of low parts, or a number that is lost in the other sum where that is no number.
pub fn without_nans(rest: Expr) -> Expr {
    Expr::binary(BinOp::Min, rest, Expr::constant(f64::from(f32::MAX), DType::F32))
}

/// `low[e]`, what tf32 leaves out of `high[e]`.
fn low_of(low: &Name, high: &Name, e: Expr) -> DStmt {
    let x = Expr::load(high.clone(), vec![e.clone()], DType::F32);
    DStmt::store(low.clone(), vec![e], rest(x) * Expr::constant(ROUNDED, DType::F32))
}
