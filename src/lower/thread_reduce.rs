//! Recognises a reduction whose reduction iterator runs over threads, and gathers what is needed to
//! carry it out: the thread's own part, the axes to combine over, and who writes the result.
//! Constant spatial loops directly around it become its elements, so that all of them share one
//! exchange. Declines (`None`) where no reduction iterator is bound to threads.

use super::LowerError;
use super::blocks::{Env, Lower, reduce_vars};
use super::nest::Nest;
use super::reducer::{Update, idempotent, update};
use crate::analysis::Combiner;
use crate::ir::device::{DStmt, ThreadReduce, and, index_var};
use crate::ir::{BinOp, Block, Expr, ExprKind, For, IterKind, Name, Stmt, ThreadTag};

const PASS: &str = "cross-thread reduction";
/// Values per thread that one exchange may hold.
const MAX_ELEMENTS: i64 = 64;

/// The reduction that `loops` (outer to inner, nothing beside them) and `b` make, if it is one.
pub(super) fn build(lower: &mut Lower, loops: &[&For], b: &Block, env: &Env) -> Result<Option<DStmt>, LowerError> {
    if !b.iters.iter().any(|it| it.kind == IterKind::Reduce) {
        return Ok(None);
    }
    let mut inside = env.clone();
    let kept: Vec<&For> = loops.iter().filter(|l| !lower.enter(l, &mut inside)).copied().collect();
    let reduce = reduce_vars(b, &inside);
    let tags: Vec<ThreadTag> =
        lower.nest.live_axes().into_iter().filter(|t| reduce.contains(&Name::new(t.name()))).collect();
    if tags.is_empty() {
        return Ok(None);
    }
    let (serial, spatial): (Vec<&For>, Vec<&For>) = kept.iter().partition(|l| reduce.contains(&l.var));
    let Some(elements) = element_loops(&spatial, &inside, lower.nest) else { return Ok(None) };
    let outer = |n: &&Name| env.map.get(*n).is_some_and(|e| e.as_var() == Some(*n)) && !n.as_str().contains("Idx.");
    if let Some(name) = reduce.iter().find(outer) {
        return Err(LowerError::new(
            PASS,
            &b.name,
            format!("the reduction loop `{name}` stands outside spatial loops"),
        ));
    }
    let mut serial_loops = vec![];
    for l in &kept {
        let extent = inside.value(&l.extent, lower.nest);
        lower.nest.ranges.set_span(l.var.clone(), &Expr::i64(0), &extent);
        inside.map.insert(l.var.clone(), inside.value(&(index_var(&l.var) + l.min.clone()), lower.nest));
        if serial.iter().any(|s| s.var == l.var) {
            serial_loops.push((l.var.clone(), extent));
        }
    }
    let inside = lower.bind_block(b, &inside);
    let reduce = Found { b, tags, elements, serial: serial_loops };
    finish(lower, reduce, &inside).map(Some)
}

struct Found<'b> {
    b: &'b Block,
    tags: Vec<ThreadTag>,
    elements: Vec<(Name, i64)>,
    serial: Vec<(Name, Expr)>,
}

fn element_loops(spatial: &[&For], env: &Env, nest: &Nest) -> Option<Vec<(Name, i64)>> {
    let loops: Option<Vec<(Name, i64)>> =
        spatial.iter().map(|l| Some((l.var.clone(), env.value(&l.extent, nest).as_int()?))).collect();
    loops.filter(|l| l.iter().map(|(_, n)| n).product::<i64>() <= MAX_ELEMENTS)
}

fn finish(lower: &Lower, found: Found, env: &Env) -> Result<DStmt, LowerError> {
    let Found { b, tags, elements, serial } = found;
    let up = single_update(b)?;
    let dtype = lower.nest.buffer(PASS, &up.buffer)?.dtype;
    let neutral = Combiner::of(up.op)
        .and_then(|c| c.identity(dtype))
        .ok_or_else(|| LowerError::new(PASS, &b.name, format!("the combiner has no identity in {dtype}")))?;
    let indices: Vec<Expr> = up.indices.iter().map(|e| env.value(e, lower.nest)).collect();
    let (identity, start) = match init_value(b, &up)? {
        None => (neutral, Some(Expr::load(up.buffer.clone(), indices.clone(), dtype))),
        Some(v) if idempotent(up.op) && is_constant(&v) => (v, None),
        Some(v) if same_constant(&v, &neutral) => (neutral, None),
        Some(v) => (neutral, Some(env.value(&v, lower.nest))),
    };
    let guard = lower.needed(and(env.guard.clone(), alike(lower, &up.buffer, &env.tags)).as_ref());
    let reduced = |n: &Name| {
        let thread = tags.iter().any(|t| t.name() == n.as_str());
        (thread || serial.iter().any(|(v, _)| v == n)).then(|| Expr::i64(0))
    };
    let in_range = guard.as_ref().map(|g| g.subst(&reduced));
    let in_range = lower.needed(in_range.as_ref()).filter(|_| !lower.nest.is_local(&up.buffer) || start.is_some());
    let tags_left: Vec<ThreadTag> = env.tags.iter().filter(|t| !tags.contains(t)).copied().collect();
    let write_guard = and(lower.first_thread(&up.buffer, &tags_left), in_range);
    let needs_all = lower.replicated.any(&up.buffer, &tags);
    let term = env.value(&up.term, lower.nest);
    let (block, op, dst) = (b.name.clone(), up.op, up.buffer);
    Ok(DStmt::Reduce(Box::new(ThreadReduce {
        block,
        tags,
        elements,
        serial,
        guard,
        op,
        identity,
        term,
        start,
        dst,
        indices,
        write_guard,
        variant: combine_variant(b),
        needs_all,
    })))
}

/// The variant that the schedule asks for: the block's `combine` attribute.
fn combine_variant(b: &Block) -> Option<String> {
    b.attrs.iter().find(|(k, _)| k == "combine")?.1.as_str().map(str::to_string)
}

/// Threads of an axis that no loop around is bound to would all reduce the same: the first does,
/// unless all of them read the result.
fn alike(lower: &Lower, dst: &Name, tags: &[ThreadTag]) -> Option<Expr> {
    let free = |t: &ThreadTag| !tags.contains(t) && !lower.replicated.any(dst, &[*t]);
    let first = |t: ThreadTag| Some(Expr::binary(BinOp::Eq, lower.nest.thread(t), Expr::i64(0)));
    lower.nest.live_axes().into_iter().filter(free).map(first).fold(None, and)
}

fn single_update(b: &Block) -> Result<Update, LowerError> {
    let found = match b.body.as_slice() {
        [Stmt::Store { buffer, indices, value }] => update(buffer, indices, value),
        _ => None,
    };
    found.ok_or_else(|| {
        LowerError::new(PASS, &b.name, "expected a single update `B[i] = B[i] op term` with op among + * max min")
    })
}

fn init_value(b: &Block, up: &Update) -> Result<Option<Expr>, LowerError> {
    match b.init.as_slice() {
        [] => Ok(None),
        [Stmt::Store { buffer, indices, value }] if *buffer == up.buffer && *indices == up.indices => {
            Ok(Some(value.clone()))
        }
        _ => Err(LowerError::new(PASS, &b.name, "expected an init that stores one value to the reduced element")),
    }
}

fn is_constant(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Int { .. } | ExprKind::Float { .. } => true,
        ExprKind::Cast { arg, .. } => is_constant(arg),
        ExprKind::Str(_)
        | ExprKind::Var { .. }
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Binary { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => false,
    }
}

fn same_constant(a: &Expr, b: &Expr) -> bool {
    if let ExprKind::Cast { arg, .. } = a.kind() {
        return same_constant(arg, b);
    }
    let number = |e: &Expr| e.as_float().or(e.as_int().map(|n| n as f64));
    number(a).is_some() && number(a) == number(b)
}
