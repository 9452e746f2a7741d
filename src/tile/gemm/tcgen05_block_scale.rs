//! Matrix products in tensor memory (`tcgen05.mma`) of numbers of 4 and 8 bits, each block of which along K has a scale.
//!
//! When: as `tcgen05`, of `float8_e4m3fn` or `float8_e5m2`, or of uint8 that stand for two `float4_e2m1fn` each, contiguous
//! along K; K counts their elements. The operands `sfa`, of A's rows, and `sfb`, of B's columns, are in shared memory too:
//! `float8_e8m0fnu` for each 32 numbers, or `float8_e4m3fn` for each 16 of 4 bits, in blocks of 512 bytes as copies to tensor
//! memory take them: four scales of each of 128 lines, those of line `i` at byte `i % 32 * 16 + i / 32 * 4`. Columns are
//! a multiple of 128. The first thread of the scope copies the scales to columns of tensor memory that are the call's own, and
//! issues all instructions.
//!
//! before: `Tx.cta.gemm(d[0:128, 0:128], a[0:128, 0:128], b[0:128, 0:128], transpose_b=True, sfa=.., sfb=.., mbar=bar[0])`
//! after:  `if threadIdx.x == 0 { tcgen05_fence_after; tcgen05_copy_scales of both; for each 32 bytes of k`
//!         `tcgen05_mma.m128n128k32 scaled; tcgen05_commit bar[0] }`
//!
//! The products are done when the phase of `mbar` has completed that they arrive in, once; a call that is made again copies
//! over its scales, which the products before have to have read. What threads wrote to operands and scales has to
//! be fenced for the asynchronous proxy before.
//!
//! Declines by naming the condition with its values.

use super::described::Described;
use super::operands::{Matrix, Product, Start, product_with};
use super::scaled::{instruction, scales};
use super::tcgen05::{bar, storage};
use crate::ir::device::{DStmt, guarded};
use crate::ir::instr::{
    At, BlockScaleMma, CtaGroup, Instr, LANES_OF_WARP, TENSOR_LANES, Tcgen05, Tcgen05Scaled, Tcgen05Shape,
};
use crate::ir::layout::{Axis, TileLayout};
use crate::ir::{DType, ExecScope, Expr, Name, Scope, TileCall, TileOp};
use crate::tile::predicates::{reached, takes};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant};

/// Products in tensor memory of numbers with scales of blocks.
pub(super) const TCGEN05_BLOCK_SCALE: Variant =
    Variant { name: "tcgen05_block_scale", ops: &[TileOp::Gemm], priority: 25, only_forced: true, plan };

/// The named operands.
const OPERANDS: [&str; 3] = ["mbar", "sfa", "sfb"];
/// Scales in a word.
const WORD: i64 = 4;

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    r.ask("sm_version", takes(cx, cx.target.has.tcgen05, "tensor memory", 100));
    reached(call, cx, r);
    let bar = r.ask("mbar", bar(call, cx));
    let product = product_with(call, &OPERANDS, cx, r);
    let p = product.as_ref();
    let found = r.ask_if("scales", p, |p| scales(call, p, &OPERANDS, cx));
    let of = r.ask_if("dtype", p.zip(found.as_ref()), |(p, s)| instruction(p, s));
    r.ask_if("storage_scope", p, storage);
    r.ask_if("c_place", p, |p| p.starts_in_d(", and products start from D or zero"));
    let first = r.ask_if("d_place", p, |p| p.d.in_lanes(cx));
    let shape = r.ask_if("shape", p.zip(of), |(p, of)| shape(p, of));
    let known = p.zip(shape);
    let a = r.ask_if("a_descriptor", known, |(p, _)| Described::of(&p.a, 0, Tcgen05Shape::ROWS, cx));
    let b = r.ask_if("b_descriptor", known, |(p, s)| Described::of(&p.b, 1, s.n, cx));
    let side = |n: usize| found.as_ref().map(|s| &s[n]);
    let sfa = r.ask_if("a_scales", side(0), |x| Blocks::of(x, cx));
    let sfb = r.ask_if("b_scales", side(1), |x| Blocks::of(x, cx));
    let (shape, a, b, d, bar, scales, p) = (shape?, a?, b?, first?, bar?, [sfa?, sfb?], product?);
    let own = Scaled { shape, a, b, scales, d, bar, scope: call.scope, p };
    Some(Box::new(move |e| own.emit(e)))
}

fn shape(p: &Product, of: BlockScaleMma) -> Result<Tcgen05Scaled, String> {
    let shape = Tcgen05Scaled { n: p.n, of, group: CtaGroup::One };
    let [lines, _] = Tcgen05Scaled::SCALES;
    match (p.m, p.n % lines) {
        (TENSOR_LANES, 0) => shape.check().map(|()| shape),
        (m, _) => Err(format!("{m} rows and {} columns; expected {TENSOR_LANES}, and whole {lines}", p.n)),
    }
}

/// Scales of lines in shared memory, in blocks of those that a copy brings.
struct Blocks {
    array: Name,
    /// Where the first begins.
    first: Expr,
    /// From there to each block, by parts of the lines and words along K.
    offsets: Vec<Vec<i64>>,
}

impl Blocks {
    /// # Errors
    /// Where they do not lie in such blocks.
    fn of(x: &Matrix, cx: &Cx) -> Result<Blocks, String> {
        let name = &x.view.buffer;
        if !x.view.is_shared() {
            return Err(format!("`{name}` is in {} memory, not in shared memory", x.view.scope.name()));
        }
        if x.dims.iter().any(|d| !x.view.begin[*d].is_int(0)) {
            return Err(format!("the tile of `{name}` begins within its lines"));
        }
        let (layout, whole) = x.view.layout()?;
        let [lines, _] = Tcgen05Scaled::SCALES;
        if x.rows() % lines != 0 || x.columns() % WORD != 0 {
            return Err(format!(
                "{} lines of {} scales are no whole blocks of {lines} by {WORD}",
                x.rows(),
                x.columns()
            ));
        }
        let at = |line: i64, scale: i64| place(x, layout, whole, line, scale);
        let begin = at(0, 0)?;
        let mut offsets = vec![];
        for part in 0..x.rows() / lines {
            let of_part: Vec<i64> =
                (0..x.columns() / WORD).map(|word| at(part * lines, word * WORD)).collect::<Result<_, _>>()?;
            for (word, start) in of_part.iter().enumerate() {
                for (line, scale) in (0..lines).flat_map(|line| (0..WORD).map(move |scale| (line, scale))) {
                    let want = start + line % LANES_OF_WARP * 16 + line / LANES_OF_WARP * WORD + scale;
                    if at(part * lines + line, word as i64 * WORD + scale)? != want {
                        return Err(format!(
                            "scales of `{name}` do not lie in blocks of 512 bytes as copies take them"
                        ));
                    }
                }
            }
            offsets.push(of_part.into_iter().map(|at| at - begin).collect());
        }
        let first = cx.simple(x.view.at_unswizzled(&vec![Expr::i64(0); x.view.extent.len()]));
        Ok(Blocks { array: name.clone(), first, offsets })
    }

    /// Columns of tensor memory that the scales of one word of all lines take.
    fn columns_of_word(&self) -> i64 {
        self.offsets.len() as i64 * Tcgen05Scaled::SCALES[1]
    }

    fn columns(&self) -> i64 {
        self.columns_of_word() * self.offsets.first().map_or(0, |words| words.len() as i64)
    }

    /// The copies of all blocks to the columns from `column` on: of a word those of all lines side by side.
    fn copies(&self, to: &Name, column: i64, cx: &Cx) -> Vec<DStmt> {
        let mut out = vec![];
        for (part, words) in self.offsets.iter().enumerate() {
            for (word, offset) in words.iter().enumerate() {
                let at = column + word as i64 * self.columns_of_word() + part as i64 * Tcgen05Scaled::SCALES[1];
                let from = At::new(&self.array, cx.simple(self.first.clone() + Expr::i64(*offset)));
                out.push(does(Tcgen05::CopyScales { group: CtaGroup::One }, vec![in_column(to, at), from], vec![]));
            }
        }
        out
    }
}

/// Where a scale lies before any permutation.
fn place(x: &Matrix, layout: &TileLayout, whole: &[i64], line: i64, scale: i64) -> Result<i64, String> {
    let mut index = vec![0; whole.len()];
    (index[x.dims[0]], index[x.dims[1]]) = (line, scale);
    Ok(layout.apply_at(whole, &index)?.get(Axis::M))
}

fn in_column(array: &Name, column: i64) -> At {
    At::new(array, Expr::i64(column * TENSOR_LANES))
}

fn does(op: Tcgen05, places: Vec<At>, values: Vec<Expr>) -> DStmt {
    DStmt::Instr(Instr::new(op, places, values))
}

/// A product that one thread issues.
struct Scaled {
    p: Product,
    shape: Tcgen05Scaled,
    a: Described,
    b: Described,
    scales: [Blocks; 2],
    /// Where D begins.
    d: Expr,
    bar: At,
    scope: ExecScope,
}

impl Scaled {
    fn emit(&self, emit: &mut Emit) -> Vec<DStmt> {
        let zero = Expr::i64(0);
        let [of_a, of_b] = &self.scales;
        // those of A before those of B
        let begin = [0, of_a.columns()];
        let words = emit.scratch("scales", DType::U32, (of_a.columns() + of_b.columns()) * TENSOR_LANES, Scope::Tensor);
        let cx = emit.cx();
        let mut out = vec![does(Tcgen05::FenceAfter, vec![], vec![])];
        out.extend(self.scales.iter().zip(begin).flat_map(|(blocks, column)| blocks.copies(&words, column, &cx)));
        for step in 0..self.p.k / Tcgen05Shape::DEPTH_BYTES {
            let scale = step * self.shape.of.scales();
            let of_step =
                |side: usize| in_column(&words, begin[side] + scale / WORD * self.scales[side].columns_of_word());
            let d = At::new(&self.p.d.view.buffer, self.d.clone());
            let a = At::new(&self.p.a.view.buffer, self.a.start(&cx, &zero, step as usize));
            let b = At::new(&self.p.b.view.buffer, self.b.start(&cx, &zero, step as usize));
            let first = [(scale % WORD) as u32; 2];
            let op = Tcgen05::ScaledMma { shape: self.shape, a: self.a.desc, b: self.b.desc, first };
            let add = Expr::bool(step > 0 || matches!(self.p.start, Start::Old));
            out.push(does(op, vec![d, a, b, of_step(0), of_step(1)], vec![add]));
        }
        out.push(does(Tcgen05::Commit { group: CtaGroup::One, mask: 0 }, vec![self.bar.clone()], vec![]));
        guarded(cx.is_first(self.scope), out)
    }
}
