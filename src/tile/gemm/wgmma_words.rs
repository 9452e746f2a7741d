//! Matrix products by whole warpgroups (`wgmma`) with values of packed words, which the lanes that decoded them hold.
//!
//! When: sm_90a, blocks of whole warpgroups, float16 into float32. A is in registers with the layout of packed words of
//! warpgroups ([`TileLayout::of_group_words`]), whose lanes take the same words four at a time; B is in shared memory as
//! matrix descriptors name it, as for `wgmma`; D is in registers, the rows of A and all columns in each group. D starts
//! from what it holds, or zero.
//!
//! before: `Tx.cta.gemm(d[0:128, 0:32], a[0:128, 0:64], b_smem[0:32, 0:64], transpose_b=True, accum=True)`
//! after:  `wgmma_fence`; for each 16 of k and each 64 rows of the group `wgmma.m64n32k16` of registers; commit, wait
//!
//! The registers of A may be given other values once the wait is over.
//!
//! Declines by naming the condition with its values.

use super::described::Described;
use super::operands::{Matrix, Product, Start, in_registers, product};
use super::wgmma::{Sums, by_warpgroups};
use crate::ir::device::DStmt;
use crate::ir::instr::{At, Instr, Op, Sync, WgmmaShape};
use crate::ir::layout::TileLayout;
use crate::ir::{DType, ExecScope, Expr, TileCall, TileOp};
use crate::tile::{Cx, Emit, Part, Plan, Refusals, Variant, WARPGROUP};

/// Products of packed words by warpgroups.
pub(super) const WGMMA_WORDS: Variant =
    Variant { name: "wgmma_words", ops: &[TileOp::Gemm], priority: 20, only_forced: true, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    by_warpgroups(call, cx, r, &[ExecScope::Cta]);
    let product = product(call, cx, r);
    let p = product.as_ref();
    r.ask_if("dtype", p, dtype);
    r.ask_if("storage_scope", p, storage);
    let words = r.ask_if("words", p, |p| words(p, cx.threads() / WARPGROUP, cx));
    let sums = r.ask_if("accumulators", p, |p| own_rows(p, Sums::of(&p.d, call, cx)?));
    r.ask_if("c_place", p, |p| p.starts_in_d(": copy it to D first"));
    let shape = r.ask_if("shape", sums.as_ref(), |sums| sums.shape(DType::F16));
    let b = r.ask_if("b_descriptor", p.zip(shape), |(p, s)| Described::of(&p.b, 1, s.n, cx));
    let (shape, words, b, sums, p) = (shape?, words?, b?, sums?, product?);
    Some(Box::new(move |e| Words { shape, words, b, sums, p }.emit(e)))
}

fn dtype(p: &Product) -> Result<(), String> {
    match [&p.d, &p.a, &p.b].map(|x| x.view.dtype) {
        [DType::F32, DType::F16, DType::F16] => Ok(()),
        [d, a, b] => Err(format!("{a} times {b} into {d}, and words are of float16, into float32")),
    }
}

fn storage(p: &Product) -> Result<(), String> {
    in_registers(p)?;
    let name = |x: &Matrix| format!("`{}` is in {} memory", x.view.buffer, x.view.scope.name());
    match (p.a.view.is_local(), p.b.view.is_shared()) {
        (false, _) => Err(format!("{}, and A has to be in registers", name(&p.a))),
        (_, false) => Err(format!("{}, and B has to be in shared memory", name(&p.b))),
        _ => Ok(()),
    }
}

/// The registers of A.
fn words(p: &Product, groups: i64, cx: &Cx) -> Result<Part, String> {
    let (a, part) = (&p.a, Part::of(&p.a.view, cx.ranges)?);
    let wanted = TileLayout::of_group_words(p.m, p.k, groups)?.canonical();
    match a.view.tile_layout()?.canonical() {
        own if own == wanted && a.dims[0] < a.dims[1] => Ok(part),
        own => Err(format!("`{}` has layout {own}, and words of [M, K] have {wanted}", a.view.buffer)),
    }
}

/// That each group has sums of the rows of its words, and of all columns.
fn own_rows(p: &Product, sums: Sums) -> Result<Sums, String> {
    let [rows, columns] = sums.grid.local;
    for (warp, numbers) in (0..).zip(&sums.grid.numbers) {
        let first = warp / 4 * 4 * rows + warp % 4;
        let own = numbers[0].iter().copied().eq((0..rows).map(|i| first + 4 * i));
        if !own || numbers[1].first() != Some(&0) || columns * 8 != p.n {
            let name = &p.d.view.buffer;
            return Err(format!("warp {warp} does not hold all columns of `{name}` in the rows of its words"));
        }
    }
    Ok(sums)
}

/// A product of packed words.
struct Words {
    p: Product,
    shape: WgmmaShape,
    words: Part,
    b: Described,
    sums: Sums,
}

impl Words {
    fn emit(&self, emit: &mut Emit) -> Vec<DStmt> {
        let (cx, shape) = (emit.cx(), self.shape);
        let (d, a, b) = (&self.p.d.view.buffer, &self.p.a.view.buffer, &self.p.b.view.buffer);
        let sync = |s: Sync| DStmt::Instr(Instr::from(s));
        let mut out = vec![sync(Sync::WgmmaFence)];
        // a lane's values of two rows of each 64, a pair of each word
        let of_step = shape.held() / 2;
        for step in 0..(self.p.k / shape.k()) as usize {
            for (i, register) in (0..).zip(&self.sums.tiles) {
                let mut own = vec![Expr::i64(0); self.words.shape.len() - 2];
                own.extend([Expr::i64(2 * i), Expr::i64(of_step * step as i64)]);
                let a = At::new(a, cx.simple(self.words.at(&own)));
                let b = At::new(b, self.b.start(&cx, &Expr::i64(0), step));
                let add = Expr::bool(step > 0 || matches!(self.p.start, Start::Old));
                let op = Op::WgmmaRegisters { shape, b: self.b.desc };
                out.push(DStmt::Instr(Instr::new(op, [At::new(d, register.clone()), a, b], [add])));
            }
        }
        out.extend([sync(Sync::WgmmaCommit), sync(Sync::WgmmaWait { left: 0 })]);
        out
    }
}
