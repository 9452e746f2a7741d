//! Matrix products of float32 on tensor cores: each factor is split into two of tf32, and three of their four products
//! are added (3xTF32, `TF32_TF32_F32_X3` of XLA).
//!
//! x = high + low: the instruction ignores the low 13 bits of an operand, so `high` is x as it is, and `low`, exact in
//! float32, is rounded to tf32. The product of both `low` is left out: less than 2^-20 of the whole, and as often too much as
//! too little, as the one beside the other factor's `low` is taken from numbers that are rounded, not cut off. Tensor cores cut
//! off the bits of sums that do not fit. So each step along k starts from zero, and is added to D by an addition that rounds:
//! errors are those of a sum in float32 of a quarter of the terms.
//!
//! Infinities and NaNs take part in the product of the `high` alone: where `low` is multiplied they stand for the largest tf32
//! number, as 0 times them is no number. Numbers beyond that one (3.4012e38) are taken for it.
//!
//! When: as `mma`, all of float32.
//!
//! before: `Tx.cta.gemm(d[0:64, 0:64], a_smem[0:64, 0:8], b_smem[0:8, 0:64], accum=True)`
//! after:  `ldmatrix` of A and B; `near` and `low` of each; for each fragment of D `part = 0`, `mma.m16n8k8` of A's `low` with
//!         B's `near`, of A's `near` with B's `low` and of A with B into `part`; `d += part`
//!
//! Declines by naming the condition with its values.

use super::mma::{Loaded, Mma};
use super::operands::Product;
use crate::ir::device::{DKind, DStmt, index_var};
use crate::ir::instr::{At, Instr, MmaShape, Op};
use crate::ir::layout::Fragment;
use crate::ir::{BinOp, DType, Expr, ExprKind, Name, Scope, TileCall, TileOp};
use crate::tile::loops::unrolled;
use crate::tile::{Cx, Emit, Plan, Refusals, Variant};

/// Products of float32, each of three of tf32.
pub(super) const MMA_TF32X3: Variant =
    Variant { name: "mma_tf32x3", ops: &[TileOp::Gemm], priority: 19, only_forced: true, plan };

/// Bits of a float32 that tf32 has.
const HIGH: i64 = 0xffff_e000;
/// Half of a unit of tf32's last place, in units of float32's.
const HALF: i64 = 0x1000;
/// The largest number of tf32.
const LARGEST: u32 = 0x7f7f_e000;

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let mma = Mma::of(call, cx, r, float32)?;
    Some(Box::new(move |e| emit(&mma, e)))
}

fn float32(_: &TileCall, p: &Product) -> Result<MmaShape, String> {
    match [&p.d, &p.a, &p.b].map(|x| x.view.dtype) {
        [DType::F32, DType::F32, DType::F32] => Ok(MmaShape::M16N8K8TF32),
        [d, a, b] => Err(format!("{a} times {b} into {d}, and what is split into parts of tf32 is float32")),
    }
}

fn emit(mma: &Mma, emit: &mut Emit) -> Vec<DStmt> {
    let [rows, columns] = mma.d.local;
    let each = Fragment::M16N8Acc.elements();
    mma.steps(emit, |emit, Loaded { i, j, a, b }, body| {
        let right = Split::of(emit, "b", columns, Fragment::M16N8K8Tf32B);
        body.push(unrolled(&j, columns, right.parts(emit, &b, &j, true)));
        let left = Split::of(emit, "a", 1, Fragment::M16N8K8Tf32A);
        let mut row = left.parts(emit, &a, &i, false);
        let part = emit.scratch("part", DType::F32, columns * each, Scope::Local);
        let sum = |e: Expr| index_var(&j) * Expr::i64(each) + e;
        let over = |emit: &mut Emit, f: &dyn Fn(&mut Emit, Expr) -> DStmt| {
            let all = emit.repeat("e", each, DKind::Unrolled, |emit, e| vec![f(emit, e)]);
            unrolled(&j, columns, vec![all])
        };
        row.push(over(emit, &|emit, e| {
            DStmt::store(part.clone(), vec![emit.simple(sum(e))], Expr::constant(0.0, DType::F32))
        }));
        let first = At::new(&part, emit.simple(sum(Expr::i64(0))));
        let zero = Expr::i64(0);
        let (of_a, of_b) = (|x: &Name| At::new(x, zero.clone()), |x: &Name| right.at(emit, x, &j));
        let products =
            [[of_a(&left.low), of_b(&right.near)], [of_a(&left.near), of_b(&right.low)], [a.clone(), b.clone()]];
        for [x, y] in products {
            let mma = Instr::new(Op::Mma(mma.shape), [first.clone(), x, y, first.clone()], []);
            row.push(unrolled(&j, columns, vec![DStmt::Instr(mma)]));
        }
        let d = mma.sum(emit, &i, &j);
        row.push(over(emit, &|emit, e| {
            let to = emit.simple(d.index.clone() + e.clone());
            let load = |array: &Name, at: Expr| Expr::load(array.clone(), vec![at], DType::F32);
            let value = load(&d.array, to.clone()) + load(&part, emit.simple(sum(e)));
            DStmt::store(d.array.clone(), vec![to], value)
        }));
        body.push(unrolled(&i, rows, row));
    })
}

/// The parts of the fragments of one factor.
struct Split {
    /// Finite, for products with the other factor's `low`.
    near: Name,
    /// What tf32 leaves out.
    low: Name,
    /// Elements of a fragment that a lane holds.
    each: i64,
    /// Fragments.
    count: i64,
}

impl Split {
    fn of(emit: &mut Emit, stem: &str, count: i64, fragment: Fragment) -> Split {
        let each = fragment.elements();
        let mut scratch = |part: &str| emit.scratch(&format!("{stem}_{part}"), DType::F32, each * count, Scope::Local);
        Split { near: scratch("near"), low: scratch("low"), each, count }
    }

    /// Where fragment `var` begins.
    fn at(&self, emit: &Emit, of: &Name, var: &Name) -> At {
        At::new(of, emit.simple(self.first(var)))
    }

    fn first(&self, var: &Name) -> Expr {
        if self.count == 1 { Expr::i64(0) } else { index_var(var) * Expr::i64(self.each) }
    }

    /// Splits the fragment that begins at `from`; with `rounded` what is near it is rounded to tf32, not cut off.
    fn parts(&self, emit: &mut Emit, from: &At, var: &Name, rounded: bool) -> Vec<DStmt> {
        let largest = f64::from(f32::from_bits(LARGEST));
        let bound = |op, x, sign: f64| Expr::binary(op, x, Expr::constant(sign * largest, DType::F32));
        let all = emit.repeat("e", self.each, DKind::Unrolled, |emit, e| {
            let x = Expr::load(from.array.clone(), vec![emit.simple(from.index.clone() + e.clone())], DType::F32);
            let finite = bound(BinOp::Min, bound(BinOp::Max, x, -1.0), 1.0);
            let at = emit.simple(self.first(var) + e);
            let near = Expr::load(self.near.clone(), vec![at.clone()], DType::F32);
            let low = near.clone() - float(Expr::binary(BinOp::BitAnd, bits(near.clone()), word(HIGH)));
            let mut out = vec![
                DStmt::store(self.near.clone(), vec![at.clone()], finite),
                DStmt::store(self.low.clone(), vec![at.clone()], float(bits(low) + word(HALF))),
            ];
            if rounded {
                out.push(DStmt::store(self.near.clone(), vec![at], float(bits(near) + word(HALF))));
            }
            out
        });
        vec![all]
    }
}

fn word(n: i64) -> Expr {
    Expr::int(n, DType::U32)
}

fn bits(x: Expr) -> Expr {
    Expr::new(ExprKind::Reinterpret { dtype: DType::U32, arg: x })
}

fn float(x: Expr) -> Expr {
    Expr::new(ExprKind::Reinterpret { dtype: DType::F32, arg: x })
}
