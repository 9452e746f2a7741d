//! The leaves of schedules as calls of tile primitives of one thread.
//!
//! A loop that a schedule marks with a primitive, and that has its form, becomes a call, which the
//! dispatch table carries out:
//! - `sum`, `prod`, `max`, `min`: adjacent registers are folded into one;
//! - `add`, `mul`, `maximum`, `minimum`: adjacent registers are combined with as many others;
//! - `gemm`: the products of two runs of registers are added to one, or those of each of one run with
//!   each of another to as many as there are pairs;
//! - `elementwise`: whatever primitives its value is made of (the pass `elementwise`);
//! - `unpack`, `unpack_pairs`: a sum of products with packed values, which is no call (the passes of that name);
//!   the second also packed values alone (`decode_pairs`, `decode_bytes`).
//!
//! A condition that is the whole of a marked loop, the same for all its steps (the tail of a row), stands around it. A
//! marked loop of another form (a term that is computed) stays a loop.
//!
//! before: `unroll u < 4 { unroll v < 4 { acc[0] = acc[0] + r[u * 4 + v] } }`, marked `sum`
//! after:  `Tx.thread.sum(acc[0:1], r[0:16], axes=(0,), accum=True)`, dispatched

use super::{decode_bytes, decode_pairs, elementwise, unpack};
use crate::analysis::{Combiner, linear};
use crate::ir::device::{DFor, DKind, DStmt, LeafOp, TileMark};
use crate::ir::{BinOp, Buffer, DType, ExecScope, Expr, ExprKind, Name, Tile, TileArg, TileCall, TileOp};
use crate::lower::LowerError;
use crate::lower::fact::reducer::{Update, update_of};
use crate::lower::nest::Nest;
use crate::lower::pass::guards;

const PASS: &str = "leaves";

/// Turns the marked folds of a launch into calls and carries them out.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    let mut out = vec![];
    for s in body.into_iter().flat_map(without_condition) {
        let call = match &s {
            DStmt::For(l) => carried_out(nest, l)?,
            _ => None,
        };
        match call {
            Some(body) => out.extend(body),
            None => out.push(s.try_map_lists(|inner| run(nest, inner))?),
        }
    }
    Ok(out)
}

/// A marked loop with the conditions that it does not change around it.
fn without_condition(s: DStmt) -> Vec<DStmt> {
    match &s {
        DStmt::For(l) if l.tile.is_some() => guards::hoist(vec![s]),
        _ => vec![s],
    }
}

/// A call, and its registers where it sees them as matrices.
struct Leaf {
    call: TileCall,
    shown: Vec<Buffer>,
}

/// What the dispatch table makes of a marked loop; `None` where the loop stays.
fn carried_out(nest: &mut Nest, l: &DFor) -> Result<Option<Vec<DStmt>>, LowerError> {
    match &l.tile {
        None => Ok(None),
        Some(TileMark { op: LeafOp::Tile(op), variant, .. }) => match leaf(nest, l, *op, variant) {
            None => Ok(None),
            Some(leaf) => {
                let done = nest.carry_out(&leaf.call, &leaf.shown).map(Some);
                done.map_err(|e| LowerError::new(PASS, &l.var, e.to_string()))
            }
        },
        Some(TileMark { op: LeafOp::Elementwise, .. }) => {
            Ok(elementwise::calls(nest, l).and_then(|calls| all_of(nest, &calls)))
        }
        Some(TileMark { op: LeafOp::Unpack, .. }) => Ok(unpack::run(nest, l, false)),
        Some(TileMark { op: LeafOp::UnpackPairs, .. }) => {
            adds_in_float16(nest, l)?;
            let values = unpack::run(nest, l, true).or_else(|| decode_pairs::run(nest, l));
            Ok(values.or_else(|| decode_bytes::run(nest, l)))
        }
    }
}

/// An accumulator has at least the width that the function asks for.
fn adds_in_float16(nest: &Nest, l: &DFor) -> Result<(), LowerError> {
    let wide = |name: &Name| nest.func.find_buffer(name).is_none_or(|b| b.dtype != DType::F16);
    match unpack::target(l).filter(wide) {
        Some(name) => Err(LowerError::new(PASS, &name, "products in pairs add in float16, and it is wider")),
        None => Ok(()),
    }
}

/// The calls one after the other; `None` where one of them has no variant.
fn all_of(nest: &mut Nest, calls: &[TileCall]) -> Option<Vec<DStmt>> {
    let known = nest.decisions.len();
    let mut out = vec![];
    for call in calls {
        match nest.carry_out(call, &[]) {
            Ok(body) => out.extend(body),
            Err(_) => {
                nest.decisions.truncate(known);
                return None;
            }
        }
    }
    Some(out)
}

/// The call that a marked loop amounts to.
fn leaf(nest: &Nest, l: &DFor, op: TileOp, variant: &Option<String>) -> Option<Leaf> {
    let mut loops = vec![];
    let up = innermost(l, &mut loops)?;
    let ([to], true) = (up.indices.as_slice(), nest.is_local(&up.buffer)) else { return None };
    let mut leaf = match op {
        TileOp::Gemm => product(nest, &up, to, &loops)?,
        op if Combiner::of(up.op)?.fold() == op => fold(nest, &up, to, &loops, op)?,
        op if Combiner::of(up.op)?.elementwise() == op => combine(nest, &up, to, &loops, op)?,
        _ => return None,
    };
    leaf.call.forced = variant.clone();
    Some(leaf)
}

/// `n` registers from `at` on.
fn run_tile(name: &Name, at: Expr, n: i64) -> Tile {
    Tile { buffer: name.clone(), begin: vec![at], extent: vec![n] }
}

fn fold(nest: &Nest, up: &Update, to: &Expr, loops: &[(Name, i64)], op: TileOp) -> Option<Leaf> {
    let (src, begin, len) = registers(nest, &up.term, loops)?;
    if !same_type(nest, &src, &up.buffer) || loops.iter().any(|(v, _)| to.uses_var(v)) {
        return None;
    }
    let args = vec![TileArg::Tile(run_tile(&src, begin, len))];
    let mut call = TileCall::new(op, ExecScope::Thread, run_tile(&up.buffer, to.clone(), 1), args);
    (call.axes, call.accum) = (vec![0], true);
    Some(Leaf { call, shown: vec![] })
}

fn combine(nest: &Nest, up: &Update, to: &Expr, loops: &[(Name, i64)], op: TileOp) -> Option<Leaf> {
    let (src, begin, len) = registers(nest, &up.term, loops)?;
    let (own, same) = run_of(nest, to, loops)?;
    if !same_type(nest, &src, &up.buffer) || same != len {
        return None;
    }
    let dst = run_tile(&up.buffer, own, len);
    let args = vec![TileArg::Tile(dst.clone()), TileArg::Tile(run_tile(&src, begin, len))];
    Some(Leaf { call: TileCall::new(op, ExecScope::Thread, dst, args), shown: vec![] })
}

/// A row times a column: `D [1, 1] += A [1, n] x B [n, 1]`, over buffers seen as matrices.
fn product(nest: &Nest, up: &Update, to: &Expr, loops: &[(Name, i64)]) -> Option<Leaf> {
    let ExprKind::Binary { op: BinOp::Mul, a, b } = up.term.kind() else { return None };
    if up.op != BinOp::Add {
        return None;
    }
    if loops.iter().any(|(v, _)| to.uses_var(v)) {
        return outer_product(nest, up, to, [a, b], loops);
    }
    let ((row, from, n), (column, at, m)) = (registers(nest, a, loops)?, registers(nest, b, loops)?);
    if n != m || row == column {
        return None;
    }
    let zero = || Expr::i64(0);
    let d = matrix(nest, &up.buffer, 1, [to.clone(), zero()], [1, 1])?;
    let a = matrix(nest, &row, nest.buffers.get(&row)?.len()?, [zero(), from], [1, n])?;
    Some(gemm(d, [a, matrix(nest, &column, 1, [at, zero()], [n, 1])?]))
}

/// A column times a row: `D [m, n] += A [m, 1] x B [1, n]`, over buffers seen as matrices. The loops over
/// rows are around those over columns.
fn outer_product(nest: &Nest, up: &Update, to: &Expr, [a, b]: [&Expr; 2], loops: &[(Name, i64)]) -> Option<Leaf> {
    let (down, across): (Vec<_>, Vec<_>) = loops.iter().cloned().partition(|(v, _)| a.uses_var(v));
    if loops.iter().any(|(v, _)| a.uses_var(v) == b.uses_var(v)) || loops[..down.len()] != down[..] {
        return None;
    }
    let ((column, from, m), (row, at, n)) = (registers(nest, a, &down)?, registers(nest, b, &across)?);
    let (begin, all) = run_of(nest, to, loops)?;
    let first = begin.as_int()?;
    if all != m * n || first % n != 0 || row == column {
        return None;
    }
    let zero = || Expr::i64(0);
    let d = matrix(nest, &up.buffer, n, [Expr::i64(first / n), zero()], [m, n])?;
    let a = matrix(nest, &column, 1, [from, zero()], [m, 1])?;
    Some(gemm(d, [a, matrix(nest, &row, nest.buffers.get(&row)?.len()?, [zero(), at], [1, n])?]))
}

/// A part of registers seen as a matrix of so many columns, and the buffer seen so; `None` where it has
/// other rows.
fn matrix(nest: &Nest, name: &Name, columns: i64, begin: [Expr; 2], extent: [i64; 2]) -> Option<(Tile, Buffer)> {
    let flat = nest.buffers.get(name)?;
    let n = flat.len().filter(|n| n % columns == 0)?;
    let shown = Buffer { shape: vec![Expr::i64(n / columns), Expr::i64(columns)], ..flat.clone() };
    Some((Tile { buffer: name.clone(), begin: begin.to_vec(), extent: extent.to_vec() }, shown))
}

/// `D += A B` of one thread.
fn gemm((dst, d): (Tile, Buffer), [(a, own), (b, other)]: [(Tile, Buffer); 2]) -> Leaf {
    let args = vec![TileArg::Tile(a), TileArg::Tile(b)];
    let mut call = TileCall::new(TileOp::Gemm, ExecScope::Thread, dst, args);
    call.accum = true;
    Leaf { call, shown: vec![d, own, other] }
}

/// The registers that a term reads, converted or not, as the loops walk over them.
fn registers(nest: &Nest, term: &Expr, loops: &[(Name, i64)]) -> Option<(Name, Expr, i64)> {
    if let ExprKind::Cast { dtype, arg } = term.kind()
        && widens(arg.dtype(), *dtype)
    {
        return registers(nest, arg, loops);
    }
    let ExprKind::Load { buffer, indices, .. } = term.kind() else { return None };
    let (begin, len) = run_of(nest, indices.first()?, loops)?;
    nest.is_local(buffer).then(|| (buffer.clone(), begin, len))
}

/// True where a conversion changes no value, so that a primitive may make it.
fn widens(from: DType, to: DType) -> bool {
    to == DType::F32 && matches!(from, DType::F16 | DType::BF16 | DType::E4M3 | DType::E5M2 | DType::E8M0)
}

fn same_type(nest: &Nest, a: &Name, b: &Name) -> bool {
    let dtype = |n: &Name| nest.buffers.get(n).map(|b| b.dtype);
    dtype(a) == dtype(b)
}

/// The update inside perfectly nested constant loops, and the loops, outermost first.
fn innermost(l: &DFor, loops: &mut Vec<(Name, i64)>) -> Option<Update> {
    loops.push((l.var.clone(), l.extent.as_int()?));
    match l.body.as_slice() {
        [DStmt::For(inner)] if l.kind == DKind::Unrolled => innermost(inner, loops),
        [s] if l.kind == DKind::Unrolled => update_of(s),
        _ => None,
    }
}

/// First index and length where the loops walk over adjacent elements in order.
fn run_of(nest: &Nest, index: &Expr, loops: &[(Name, i64)]) -> Option<(Expr, i64)> {
    let (mut rest, mut len) = (index.clone(), 1);
    for (var, n) in loops.iter().rev() {
        let (stride, base) = linear(&rest, var, &nest.ranges)?;
        if *n > 1 && stride.as_int()? != len {
            return None;
        }
        (rest, len) = (base, len * n);
    }
    loops.iter().all(|(v, _)| !rest.uses_var(v)).then_some((rest, len))
}
