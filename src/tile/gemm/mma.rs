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

use super::feed::{Feed, Side, Step, on_lanes};
use super::fma::unrolled;
use super::grid::Grid;
use super::operands::{Matrix, OPTIONS, OVERLAP, Product, SHAPES, STORAGE_SCOPE, Start, accepted, product, tf32};
use crate::ir::device::{DFor, DKind, DStmt, index_var};
use crate::ir::instr::{At, Instr, MmaShape, Op};
use crate::ir::layout::Fragment;
use crate::ir::{DType, Expr, TileCall, TileOp};
use crate::tile::predicates::{ALL_THREADS, WARPS, takes};
use crate::tile::{Cx, Emit, Predicate, Variant, WARP};

/// Instructions that are written out at most.
const MOST_STEPS: i64 = 2048;
/// A longer loop over k stays a loop, where no operand is in registers.
const MOST_UNROLLED_K: i64 = 8;

/// Products on tensor cores.
pub(super) const MMA: Variant = Variant {
    name: "mma",
    ops: &[TileOp::Gemm],
    priority: 20,
    only_forced: false,
    when: &[
        SM_VERSION,
        WARPS,
        ALL_THREADS,
        WHOLE_WARPS,
        SHAPES,
        OPTIONS,
        OVERLAP,
        DTYPE,
        STORAGE_SCOPE,
        MULTIPLES,
        ACCUMULATORS,
        A_FRAGMENTS,
        B_FRAGMENTS,
        WARP_TILING,
        C_PLACE,
        STEPS,
    ],
    emit,
};

const SM_VERSION: Predicate = Predicate {
    name: "sm_version",
    check: |_, cx| takes(cx, cx.target.has.mma, "complete set of matrix instructions", 80),
};

const WHOLE_WARPS: Predicate = Predicate {
    name: "whole_warps",
    check: |_, cx| match cx.threads() % WARP {
        0 => Ok(()),
        _ => Err(format!("the block has {} threads, and the last of them are no whole warp", cx.threads())),
    },
};

const DTYPE: Predicate =
    Predicate { name: "dtype", check: |call, cx| product(call, cx, |p| instruction(call, p).map(drop)) };

const MULTIPLES: Predicate = Predicate {
    name: "multiples",
    check: |call, cx| {
        product(call, cx, |p| {
            let [m, n] = Fragment::M16N8Acc.shape();
            let k = instruction(call, p).map_or(1, MmaShape::k);
            match [("M", p.m, m), ("N", p.n, n), ("K", p.k, k)].into_iter().find(|(_, x, of)| x % of != 0) {
                Some((name, x, of)) => Err(format!("{name} is {x}, no multiple of {of}")),
                None => Ok(()),
            }
        })
    },
};

const ACCUMULATORS: Predicate =
    Predicate { name: "accumulators", check: |call, cx| product(call, cx, |p| accumulators(call, cx, p).map(drop)) };

const A_FRAGMENTS: Predicate = Predicate {
    name: "a_fragments",
    check: |call, cx| product(call, cx, |p| known(call, p, |s| feed(call, cx, p, s, Side::A).map(drop))),
};

const B_FRAGMENTS: Predicate = Predicate {
    name: "b_fragments",
    check: |call, cx| product(call, cx, |p| known(call, p, |s| feed(call, cx, p, s, Side::B).map(drop))),
};

/// Registers of A and B hold, in each warp, the rows and columns of D's registers in the same order.
const WARP_TILING: Predicate = Predicate {
    name: "warp_tiling",
    check: |call, cx| {
        product(call, cx, |p| {
            known(call, p, |s| {
                let Ok(d) = accumulators(call, cx, p) else { return Ok(()) };
                let want = d.numbers(cx, call.scope)?;
                for (side, own, name, lines) in [(Side::A, 0, "A", "rows"), (Side::B, 1, "B", "columns")] {
                    let Ok(Feed::Registers(grid)) = feed(call, cx, p, s, side) else { continue };
                    let depth: Vec<i64> = (0..p.k / s.k()).collect();
                    for (warp, (d, x)) in want.iter().zip(grid.numbers(cx, call.scope)?).enumerate() {
                        let (d, x_lines, x_depth) = (&d[own], &x[own], &x[1 - own]);
                        if d != x_lines {
                            return Err(format!(
                                "warp {warp} holds fragments {d:?} of the {lines} of D, but {x_lines:?} of {name}"
                            ));
                        }
                        if *x_depth != depth {
                            return Err(format!(
                                "warp {warp} holds fragments {x_depth:?} of {name} along K, and needs all of {}",
                                depth.len()
                            ));
                        }
                    }
                }
                Ok(())
            })
        })
    },
};

/// C has D's type, and lies in memory or in registers as D does.
const C_PLACE: Predicate = Predicate {
    name: "c_place",
    check: |call, cx| {
        product(call, cx, |p| {
            let Start::Other(c) = &p.start else { return Ok(()) };
            let (d, view) = (&p.d.view, &c.view);
            if view.dtype != d.dtype {
                return Err(format!("C is {}, and D {}: cast it first", view.dtype, d.dtype));
            }
            let (true, Ok(grid)) = (view.is_local(), accumulators(call, cx, p)) else { return Ok(()) };
            let own = Grid::of(c, Fragment::M16N8Acc, call.scope, cx)?;
            match own.numbers(cx, call.scope)? == grid.numbers(cx, call.scope)? {
                true => Ok(()),
                false => Err(format!("warps hold other fragments of C `{}` than of D `{}`", view.buffer, d.buffer)),
            }
        })
    },
};

const STEPS: Predicate = Predicate {
    name: "steps",
    check: |call, cx| {
        product(call, cx, |p| {
            known(call, p, |s| {
                let Ok(d) = accumulators(call, cx, p) else { return Ok(()) };
                let k = if k_kind(p, s) == DKind::Unrolled { p.k / s.k() } else { 1 };
                match d.local[0] * d.local[1] * k {
                    n if n <= MOST_STEPS => Ok(()),
                    n => Err(format!("{n} instructions of one warp are too many to write out, at most {MOST_STEPS}")),
                }
            })
        })
    },
};

/// The instruction for the types of a product.
fn instruction(call: &TileCall, p: &Product) -> Result<MmaShape, String> {
    let [d, a, b] = [&p.d, &p.a, &p.b].map(|x| x.view.dtype);
    match (a, b, d) {
        (DType::F16, DType::F16, DType::F32) => Ok(MmaShape::M16N8K16F16),
        (DType::BF16, DType::BF16, DType::F32) => Ok(MmaShape::M16N8K16BF16),
        (DType::I8, DType::I8, DType::I32) => Ok(MmaShape::M16N8K32I8),
        (DType::F32, DType::F32, DType::F32) if tf32(call) => Ok(MmaShape::M16N8K8TF32),
        (DType::F32, DType::F32, DType::F32) => {
            Err("float32 operands are multiplied exactly unless the call says precision=\"tf32\"".to_string())
        }
        _ => Err(format!("no instruction multiplies {a} by {b} into {d}")),
    }
}

/// A condition that depends on the instruction. Types without one are refused by `dtype`.
fn known(call: &TileCall, p: &Product, check: impl FnOnce(MmaShape) -> Result<(), String>) -> Result<(), String> {
    instruction(call, p).map_or(Ok(()), check)
}

/// The fragments of A and B.
fn fragments(s: MmaShape) -> [Fragment; 2] {
    match s {
        MmaShape::M16N8K16F16 | MmaShape::M16N8K16BF16 => [Fragment::M16N8K16A, Fragment::M16N8K16B],
        MmaShape::M16N8K8TF32 => [Fragment::M16N8K8Tf32A, Fragment::M16N8K8Tf32B],
        MmaShape::M16N8K32I8 => [Fragment::M16N8K32Int8A, Fragment::M16N8K32Int8B],
    }
}

fn accumulators(call: &TileCall, cx: &Cx, p: &Product) -> Result<Grid, String> {
    Grid::of(&p.d, Fragment::M16N8Acc, call.scope, cx)
}

fn feed(call: &TileCall, cx: &Cx, p: &Product, s: MmaShape, side: Side) -> Result<Feed, String> {
    let [a, b] = fragments(s);
    match side {
        Side::A => Feed::of(&p.a, side, a, call.scope, cx),
        Side::B => Feed::of(&p.b, side, b, call.scope, cx),
    }
}

/// A loop over k whose variable picks registers has to be written out.
fn k_kind(p: &Product, s: MmaShape) -> DKind {
    let registers = p.a.view.is_local() || p.b.view.is_local();
    if registers || p.k / s.k() <= MOST_UNROLLED_K { DKind::Unrolled } else { DKind::Serial }
}

fn emit(call: &TileCall, emit: &mut Emit) -> Vec<DStmt> {
    let fits = |why: String| -> ! { panic!("an accepted product decomposes into fragments: {why}") };
    let p = accepted(call, &emit.cx());
    let shape = instruction(call, &p).unwrap_or_else(|why| fits(why));
    let d = accumulators(call, &emit.cx(), &p).unwrap_or_else(|why| fits(why));
    let [fa, fb] =
        [Side::A, Side::B].map(|side| feed(call, &emit.cx(), &p, shape, side).unwrap_or_else(|why| fits(why)));
    let [a, b] = fragments(shape);
    let mut out = start(call, &p, &d, emit);
    let steps = p.k / shape.k();
    let k = emit.loop_var("k", steps);
    let (i, j) = (emit.loop_var("i", d.local[0]), emit.loop_var("j", d.local[1]));
    let step = |side, x, feed, fragment| Step { side, x, feed, fragment, d: &d, scope: call.scope, k: index_var(&k) };
    let mut body = vec![];
    let a = step(Side::A, &p.a, &fa, a).load(&mut body, emit, &i);
    let b = step(Side::B, &p.b, &fb, b).load(&mut body, emit, &j);
    let sum = At::new(&p.d.view.buffer, emit.simple(d.register(&index_var(&i), &index_var(&j))));
    let mma = DStmt::Instr(Instr::new(Op::Mma(shape), [sum.clone(), a, b, sum], []));
    body.push(unrolled(&i, d.local[0], vec![unrolled(&j, d.local[1], vec![mma])]));
    out.push(DStmt::For(DFor::new(k, Expr::i64(steps), k_kind(&p, shape), body)));
    out
}

/// Gives D what it starts from, fragment by fragment.
fn start(call: &TileCall, p: &Product, d: &Grid, emit: &mut Emit) -> Vec<DStmt> {
    if matches!(p.start, Start::Old) {
        return vec![];
    }
    let (fragment, fits) = (Fragment::M16N8Acc, "the accumulator's layout is well formed");
    let (layout, shape) = (fragment.layout(), fragment.shape());
    let local = layout.local_shape(&shape).expect(fits);
    let (i, j) = (emit.loop_var("i", d.local[0]), emit.loop_var("j", d.local[1]));
    let first = d.register(&index_var(&i), &index_var(&j));
    let mut body = vec![];
    for (x, y) in (0..local[0]).flat_map(|x| (0..local[1]).map(move |y| (x, y))) {
        let own = [Expr::i64(x), Expr::i64(y)];
        let at = layout.coordinates(&shape, &on_lanes(emit), &own).expect(fits);
        let within = layout.local().memory_offset(&local, &own).expect(fits);
        let register = emit.simple(first.clone() + within.clone());
        let value = match &p.start {
            Start::Other(c) => start_value(call, c, d, emit, [index_var(&i), index_var(&j)], within, at),
            Start::Zero | Start::Old => Expr::constant(0.0, p.d.view.dtype),
        };
        body.push(DStmt::store(p.d.view.buffer.clone(), vec![register], value));
    }
    vec![unrolled(&i, d.local[0], vec![unrolled(&j, d.local[1], body)])]
}

/// Element `within` of fragment `(i, j)` of C, which is element `at` of the fragment as a matrix.
fn start_value(
    call: &TileCall,
    c: &Matrix,
    d: &Grid,
    emit: &Emit,
    [i, j]: [Expr; 2],
    within: Expr,
    at: Vec<Expr>,
) -> Expr {
    let cx = emit.cx();
    let place = match Grid::of(c, Fragment::M16N8Acc, call.scope, &cx) {
        Ok(grid) if c.view.is_local() => grid.register(&i, &j) + within,
        _ => {
            let [m, n] = Fragment::M16N8Acc.shape().map(Expr::i64);
            let [row, column] = d.place(&cx, call.scope, &i, &j);
            c.at(row * m + at[0].clone(), column * n + at[1].clone())
        }
    };
    Expr::load(c.view.buffer.clone(), vec![emit.simple(place)], c.view.dtype)
}
