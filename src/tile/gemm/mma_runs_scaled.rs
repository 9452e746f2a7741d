//! Matrix products on tensor cores (`mma.sync`) of rows of packed values whose scales multiply sums, not values.
//!
//! When: as `mma_runs`, of words of float16 ([`Runs::Words`]), which A holds as they are decoded, before a scale
//! multiplies them. The operand `sfa`, of A's rows, is in registers, float16: a scale for each 64 values along K, in all
//! lanes that hold values of the row ([`row_scales`]). What these 64 add up to starts from zero, and is added to D times
//! its scale, in float32: four multiplications of a lane in place of 16 for its values.
//!
//! before: `Tx.warp.gemm(d[0:16, 0:8], a[0:16, 0:64], b[0:8, 0:64], transpose_b=True, accum=True, sfa=s[0:16, 0:1])`
//! after:  `part = 0`; for each 16 values along k `mma.m16n8k16` into `part`; `d[0] = fma(part[0], s[0], d[0])`; ...
//!
//! Declines by naming the condition with its values.

use super::mma_runs::Loaded;
use super::operands::Matrix;
use crate::ir::device::{DStmt, index_var};
use crate::ir::layout::runs::{Runs, row_scales};
use crate::ir::layout::words::CHUNK;
use crate::ir::{DType, Expr, Intrin, Name, Scope, TileArg, TileCall, TileOp};
use crate::tile::loops::unrolled;
use crate::tile::{Cx, Emit, Plan, Refusals, Variant};

/// Products of what lanes have loaded, times scales of its rows.
pub(super) const MMA_RUNS_SCALED: Variant =
    Variant { name: "mma_runs_scaled", ops: &[TileOp::Gemm], priority: 20, only_forced: true, plan };

/// The operand of scales.
const SCALES: &str = "sfa";
/// Fragments of a row of A side by side: rows `i` and `i + 8`.
const HALVES: i64 = 2;

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let loaded = Loaded::of(call, &[SCALES], cx, r);
    let scales = r.ask_if("scales", loaded.as_ref(), |l| scales(call, l, cx));
    let (l, scales) = (loaded?, scales?);
    Some(Box::new(move |e| emit(&l, &scales, e)))
}

/// The registers of the scales.
fn scales(call: &TileCall, l: &Loaded, cx: &Cx) -> Result<Name, String> {
    let Some(TileArg::Tile(tile)) = call.operands.get(SCALES) else {
        return Err(format!("there is no tile `{SCALES}`"));
    };
    let x = Matrix::of(cx, tile, SCALES, false)?;
    let (name, each) = (&x.view.buffer, l.p.k / CHUNK);
    if l.kind != Runs::Words || [x.rows(), x.columns()] != [l.p.m, each] || l.p.k % CHUNK != 0 {
        return Err(format!(
            "`{name}` is {} by {}, and rows are not words with a scale for each {CHUNK}",
            x.rows(),
            x.columns()
        ));
    }
    if !x.view.is_local() || x.view.dtype != DType::F16 {
        return Err(format!(
            "`{name}` is {} in {} memory, not float16 in registers",
            x.view.dtype,
            x.view.scope.name()
        ));
    }
    let (own, wanted) = (x.view.tile_layout()?, row_scales(l.p.m, each)?);
    match own.canonical() == wanted.canonical() && x.dims[0] < x.dims[1] {
        true => Ok(name.clone()),
        false => Err(format!("`{name}` has layout {own}, and scales of rows of words have {wanted}")),
    }
}

fn emit(l: &Loaded, scales: &Name, emit: &mut Emit) -> Vec<DStmt> {
    let mut out = l.d.zeros(&l.p, emit);
    let ([rows, columns], of) = (l.d.local, l.d.fragment.len() as i64);
    let part = emit.scratch("part", DType::F32, rows * columns * of, Scope::Local);
    let (chunks, steps) = (l.p.k / CHUNK, CHUNK / l.step());
    let [c, e, s] = [("c", chunks), ("e", rows * columns * of), ("s", steps)].map(|(v, n)| emit.loop_var(v, n));
    let zero = DStmt::store(part.clone(), vec![index_var(&e)], Expr::constant(0.0, DType::F32));
    let step = index_var(&c) * Expr::i64(steps) + index_var(&s);
    let first = |i: &Expr, j: &Expr| (i.clone() * Expr::i64(columns) + j.clone()) * Expr::i64(of);
    let products = l.products(emit, &step, &part, &first);
    let [i, j] = [("i", rows), ("j", columns)].map(|(v, n)| emit.loop_var(v, n));
    let (row, column) = (index_var(&i), index_var(&j));
    let d = &l.p.d.view;
    let mut scaled = vec![];
    for own in &l.d.fragment {
        let to = emit.simple(l.d.register(&row, &column) + own.register.clone());
        let from = emit.simple(first(&row, &column) + own.register.clone());
        let line = index_var(&c) * Expr::i64(rows * HALVES) + row.clone() * Expr::i64(HALVES);
        let scale = Expr::load(scales.clone(), vec![emit.simple(line + Expr::i64(own.own[0]))], DType::F16);
        let sum = Expr::load(part.clone(), vec![from], DType::F32);
        let factors = vec![sum, Expr::cast(DType::F32, scale), d.load(to.clone())];
        scaled.push(d.store(to, Expr::call(Intrin::Fma, factors, DType::F32)));
    }
    let add = unrolled(&i, rows, vec![unrolled(&j, columns, scaled)]);
    let body = vec![unrolled(&e, rows * columns * of, vec![zero]), unrolled(&s, steps, vec![products]), add];
    out.push(unrolled(&c, chunks, body));
    out
}
