//! A factor of packed words that the warps which multiply it decode into their own registers.

use super::words::in_words;
use crate::analysis::{Decline, Ranges, factors, narrow, simplify};
use crate::ir::layout::words::WORD;
use crate::ir::{BinOp, Buffer, DType, Expr, ExprKind};
use crate::rules::find::einsum::Stage;
use crate::rules::find::operands::reads_of;
use crate::rules::find::product::Product;
use crate::rules::parts::*;
use crate::schedule::Operand;

/// Words that one copy takes.
const COPY: i64 = 4;
/// Bits of a value.
const BITS: u32 = 4;

/// Declines columns that are not eight values of four bits in each word along the reduced axis, as float16 less a
/// constant and times one tensor at most, or whose reduced axis is no multiple of `chunk`.
pub fn check(p: &Product, chunk: i64, ask: &Ask) -> Result<(), Decline> {
    let words = |why: &str| Err(ask.no("packed_words", why.to_string()));
    let [.., depth] = p.extents();
    let (b, func) = (&p.b, p.schedule.func());
    let Some(buffer) = b.buffer.as_ref().filter(|n| in_words(b) && b.along_depth && func.is_param(n)) else {
        return words("no factor of columns is packed in words along the reduced axis");
    };
    let row = func.buffer(buffer).shape.last().and_then(Expr::as_int);
    match depth.zip(row) {
        Some((n, row)) if p.depth.len() == 1 && n == row * WORD => {}
        _ => return words("a word does not hold eight neighbours of one reduced axis"),
    }
    if depth.is_none_or(|n| n % chunk != 0) {
        return words(&format!("the reduced axis is no multiple of {chunk}"));
    }
    match value(p, ask) {
        Some(e) if is_decoded(&e) => Ok(()),
        _ => words("values are not float16 of four bits, less a constant and times a scale"),
    }
}

/// True where a tensor map describes the words, one column after the other.
pub fn boxed(p: &Product) -> bool {
    let words = p.b.buffer.as_ref().map(|name| p.schedule.func().buffer(name));
    let plain = |b: &crate::ir::Buffer| b.strides.is_empty() && b.elem_offset.is_none() && b.shape.len() == 2;
    p.columns.len() == 1 && p.batch.is_empty() && words.is_some_and(plain)
}

/// True where values have a scale, and all of each `run` neighbours along the reduced axis, from its start on, the same.
pub fn share_scales(p: &Product, run: i64, ask: &Ask) -> bool {
    let (Some(e), [k]) = (value(p, ask), p.depth.as_slice()) else { return false };
    let (Some(depth), Some(scale)) = (k.extent.as_int(), scale_of(&e)) else { return false };
    let (mut ranges, own, dtype) = (Ranges::new(), Name::from(format!("{}.own", k.var)), k.var_expr().dtype());
    ranges.set(own.clone(), 0, run - 1);
    let alike = |first: i64, e: &Expr| {
        let place = Expr::int(first, dtype) + Expr::var(own.clone(), dtype);
        !simplify(&e.subst(&|n| (*n == k.var).then(|| place.clone())), &ranges).uses_var(&own)
    };
    (0..depth).step_by(run as usize).all(|first| scale.iter().all(|e| alike(first, e)))
}

/// The factor of the columns.
fn value(p: &Product, ask: &Ask) -> Option<Expr> {
    let red = ask.facts.blocks.iter().find(|b| b.name == p.block)?;
    let [left, right] = factors(&red.reducer.as_ref()?.term)?;
    Some(narrow(if p.b.operand == Operand::Left { &left } else { &right }))
}

/// True for `(float16(bits) - zero) * scale`, without zero or scale too.
fn is_decoded(e: &Expr) -> bool {
    is_value(e) || scale_of(e).is_some()
}

/// The indices of the tensor that multiplies a value.
fn scale_of(e: &Expr) -> Option<&[Expr]> {
    let ExprKind::Binary { op: BinOp::Mul, a, b } = e.kind() else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(value, scale)| match scale.kind() {
        ExprKind::Load { indices, dtype: DType::F16, .. } if is_value(value) => Some(&indices[..]),
        _ => None,
    })
}

fn is_value(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Binary { op: BinOp::Sub, a, b } => b.as_float().is_some() && is_value(a),
        ExprKind::Cast { dtype: DType::F16, arg } => match arg.kind() {
            ExprKind::Binary { op: BinOp::BitAnd, b: mask, .. } => mask.is_int((1 << BITS) - 1),
            _ => false,
        },
        _ => false,
    }
}

/// Stages what the values of a tile are made of in shared memory, for all threads of the block to fill, and the
/// values in registers.
/// `lanes` says how many elements of a buffer one copy takes.
pub fn stage(s: &mut Schedule, tile: &Stage, at: &Name, threads: i64, lanes: &dyn Fn(&Buffer) -> i64) -> Done {
    s.set_scope(&tile.buffer, Scope::Local)?;
    s.compute_at(&tile.block, at)?;
    let mut known: Vec<Name> = vec![];
    for read in reads_of(s, &tile.block) {
        if known.contains(&read.buffer) {
            continue;
        }
        let lanes = lanes(s.func().buffer(&read.buffer));
        fill(s, tile, &read.buffer, at, [threads, lanes])?;
        known.push(read.buffer);
    }
    Ok(())
}

/// Words are copied several at a time.
pub fn words(b: &Buffer) -> i64 {
    if b.dtype == DType::U32 { COPY } else { 1 }
}

/// Has all threads of the block fill what a tile needs of a buffer, so many elements at a time.
pub fn fill(s: &mut Schedule, tile: &Stage, buffer: &Name, at: &Name, [threads, lanes]: [i64; 2]) -> Done {
    let copy = s.cache_read(&tile.block, buffer, Scope::Shared)?;
    s.compute_at(&copy, at)?;
    let all = fuse_loops(s, &loops_below(s, &copy, at))?;
    let [step, thread, lane] = split(s, &all, [None, Some(threads), Some(lanes)])?;
    s.bind(&thread, ThreadTag::ThreadX)?;
    unroll_loop(s, &step)?;
    vectorize_loop(s, &lane)
}
