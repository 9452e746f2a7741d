//! Matrix products of float32 on tensor cores: each factor is split into two of tf32, and three of their four products
//! are added (3xTF32, `TF32_TF32_F32_X3` of XLA).
//!
//! x = high + low: the instruction ignores the low 13 bits of an operand, so `high` is x as it is, and `low`, exact in
//! float32, is rounded to tf32. The product of both `low` is left out: less than 2^-20 of the whole, and as often too much as
//! too little, as what A's `low` is multiplied by is B rounded to tf32, not cut off. Tensor cores cut off the bits of sums
//! that do not fit. So each step along k starts from zero, and is added to D by an addition that rounds, one for eight terms.
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
use super::tf32::{bits, float, float32, rest, word};
use crate::ir::device::{DKind, DStmt, index_var};
use crate::ir::instr::{At, Instr, MmaShape, Op};
use crate::ir::layout::Fragment;
use crate::ir::{BinOp, DType, Expr, Scope, TileCall, TileOp};
use crate::tile::loops::unrolled;
use crate::tile::{Cx, Emit, Plan, Refusals, Variant};

/// Products of float32, each of three of tf32.
pub(super) const MMA_TF32X3: Variant =
    Variant { name: "mma_tf32x3", ops: &[TileOp::Gemm], priority: 19, only_forced: true, plan };

/// Half of a unit of tf32's last place, in units of float32's.
const HALF: i64 = 0x1000;
/// The largest number of tf32.
const LARGEST: u32 = 0x7f7f_e000;

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let mma = Mma::of(call, cx, r, |_, p| float32(p).map(|()| MmaShape::M16N8K8TF32))?;
    Some(Box::new(move |e| emit(&mma, e)))
}

fn emit(mma: &Mma, emit: &mut Emit) -> Vec<DStmt> {
    let [rows, columns] = mma.d.local;
    let each = Fragment::M16N8Acc.elements();
    mma.steps(emit, |emit, Loaded { i, j, a, b }, body| {
        let right = Split::of(emit, "b", (columns, index_var(&j)), Fragment::M16N8K8Tf32B);
        body.push(unrolled(&j, columns, vec![right.parts(emit, &b, true)]));
        let left = Split::of(emit, "a", (1, Expr::i64(0)), Fragment::M16N8K8Tf32A);
        let part = emit.scratch("part", DType::F32, columns * each, Scope::Local);
        let part = At::new(&part, emit.simple(index_var(&j) * Expr::i64(each)));
        let sums = |emit: &mut Emit, f: &dyn Fn(&mut Emit, Expr) -> DStmt| {
            let all = emit.repeat("e", each, DKind::Unrolled, |emit, e| vec![f(emit, e)]);
            unrolled(&j, columns, vec![all])
        };
        let split = left.parts(emit, &a, false);
        let zeros = sums(emit, &|emit, e| {
            DStmt::store(part.array.clone(), vec![place(emit, &part, e)], Expr::constant(0.0, DType::F32))
        });
        let mut row = vec![split, zeros];
        for [x, y] in [[left.low, right.near], [left.near, right.low], [a, b]] {
            let mma = Instr::new(Op::Mma(mma.shape), [part.clone(), x, y, part.clone()], []);
            row.push(unrolled(&j, columns, vec![DStmt::Instr(mma)]));
        }
        let d = mma.sum(emit, &i, &j);
        row.push(sums(emit, &|emit, e| {
            let value = element(emit, &d, e.clone()) + element(emit, &part, e.clone());
            DStmt::store(d.array.clone(), vec![place(emit, &d, e)], value)
        }));
        body.push(unrolled(&i, rows, row));
    })
}

/// Where element `e` of a fragment is.
fn place(emit: &Emit, fragment: &At, e: Expr) -> Expr {
    emit.simple(fragment.index.clone() + e)
}

fn element(emit: &Emit, fragment: &At, e: Expr) -> Expr {
    Expr::load(fragment.array.clone(), vec![place(emit, fragment, e)], DType::F32)
}

/// The parts of a fragment of one factor.
struct Split {
    /// Finite, for products with the other factor's `low`.
    near: At,
    /// What tf32 leaves out.
    low: At,
    /// Elements that a lane holds.
    each: i64,
}

impl Split {
    /// Registers for the parts of `count` fragments, and which of them this is.
    fn of(emit: &mut Emit, stem: &str, (count, number): (i64, Expr), fragment: Fragment) -> Split {
        let each = fragment.elements();
        let first = emit.simple(number * Expr::i64(each));
        let mut scratch = |part: &str| {
            At::new(&emit.scratch(&format!("{stem}_{part}"), DType::F32, each * count, Scope::Local), first.clone())
        };
        Split { near: scratch("near"), low: scratch("low"), each }
    }

    /// Splits a fragment; with `rounded` what is near it is rounded to tf32, not cut off.
    fn parts(&self, emit: &mut Emit, from: &At, rounded: bool) -> DStmt {
        let largest = f64::from(f32::from_bits(LARGEST));
        let bound = |op, x, sign: f64| Expr::binary(op, x, Expr::constant(sign * largest, DType::F32));
        emit.repeat("e", self.each, DKind::Unrolled, |emit, e| {
            let finite = bound(BinOp::Min, bound(BinOp::Max, element(emit, from, e.clone()), -1.0), 1.0);
            let near = element(emit, &self.near, e.clone());
            let low = rest(near.clone());
            let store = |to: &At, value| DStmt::store(to.array.clone(), vec![place(emit, to, e.clone())], value);
            let mut out = vec![store(&self.near, finite), store(&self.low, float(bits(low) + word(HALF)))];
            out.extend(rounded.then(|| store(&self.near, float(bits(near) + word(HALF)))));
            out
        })
    }
}
