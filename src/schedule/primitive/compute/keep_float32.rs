//! Keeps values of a block in float32 that the function says are float16 or bfloat16.
//!
//! ```text
//! t0[v0] = max(t0[v0], p0[v0, v1])             ->    t0[v0] = max(t0[v0], float32(p0[v0, v1]))
//! p1[v2, v3] = exp(p0[v2, v3] - t0[v2])        ->    p1[v2, v3] = exp(p0[v2, v3] - bfloat16(t0[v2]))
//!                       keep_float32(b0), where t0 is in registers: it becomes float32
//!
//! p1[v2, v3] = exp(p0[v2, v3] - bfloat16(t0[v2]))    ->    p1[v2, v3] = bfloat16(exp(float32(p0[v2, v3]) - t0[v2]))
//!                       keep_float32(b1), where p1 is an output: it is rounded once
//! ```
//!
//! - Inside of an expression nothing is rounded to 16 bits any more; constants, operands and what integers are converted
//!   to stay what they are.
//! - A result is float32 where it stays in registers or shared memory and is one of arithmetic or of a reduction. Others
//!   (outputs, what another launch reads) are rounded when they are stored. Who reads it sees it rounded, until the step is
//!   taken of the reader too.
//!
//! What comes out is nearer to the real number. Where a float becomes an integer, is compared or is rounded by name, that
//! may be another integer, though: what such a value is made of stays as it is.
//!
//! Preconditions: `block_exists`; `not_strict`: the function does not forbid it; `plain_body`: the body is stores, in
//! conditionals or not; `ends_in_float`: nothing that the block writes ends in an integer, a comparison or a rounding, by
//! way of other blocks either; `nothing_changes`: there is a rounding to be left out.

use crate::ir::{BinOp, Block, DType, Expr, ExprKind, Intrin, IterKind, Name, Scope, Stmt, UnOp};
use crate::schedule::help::exact::jumps;
use crate::schedule::help::{query, retype, tree};
use crate::schedule::{Draft, Failure};
use std::collections::BTreeSet;

pub fn apply(d: &mut Draft, block: &Name) -> Result<(), Failure> {
    let old = d.find_block(block)?.clone();
    d.may_round(block)?;
    Failure::unless(old.init.iter().chain(&old.body).all(is_plain), "plain_body", block, || {
        "its body has an order, or names values; it has to be stores".to_string()
    })?;
    d.ends_in_float(&old)?;
    let wide = inside(d, &old);
    let body: Vec<Stmt> = old.body.iter().map(|s| store(&wide, s)).collect();
    Failure::unless(body != old.body, "nothing_changes", block, || {
        "nothing in it is rounded to 16 bits that could stay in float32".to_string()
    })?;
    tree::edit_block(&mut d.func, block, |b| {
        b.init = old.init.iter().map(|s| start(&wide, s)).collect();
        b.body = body;
    });
    d.func.buffers.iter_mut().filter(|b| wide.contains(&b.name)).for_each(|b| b.dtype = DType::F32);
    d.func.body = d.func.body.iter().map(|s| s.map_exprs(&mut |e| rounded(&wide, e))).collect();
    Ok(())
}

fn is_plain(s: &Stmt) -> bool {
    match s {
        Stmt::Store { .. } => true,
        Stmt::If { then, otherwise, .. } => then.iter().chain(otherwise).all(is_plain),
        _ => false,
    }
}

fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// The results that stay inside of a kernel, of this block alone, and are worth it: a reduction is accumulated in
/// float32 anyway, and of what is merely moved nothing was rounded.
fn inside(d: &Draft, block: &Block) -> BTreeSet<Name> {
    let reduces = block.iters.iter().any(|it| it.kind == IterKind::Reduce);
    let all = query::blocks(&d.func);
    let alone = |name: &Name| {
        let other = |b: &&Block| tree::inner_blocks(b).is_empty() && b.name != block.name;
        let aliased = all.iter().any(|b| b.matches.iter().any(|(_, region)| region.buffer == *name));
        !aliased && !all.iter().copied().filter(other).any(|b| tree::writes(b).contains(name))
    };
    let stays = |name: &Name| {
        d.func.find_buffer(name).is_some_and(|b| {
            let placed = matches!(b.scope, Scope::Local | Scope::Shared | Scope::SharedDyn | Scope::Cluster);
            placed && is_narrow(b.dtype) && !d.func.is_param(name) && alone(name)
        })
    };
    let mut found = BTreeSet::new();
    block.body.iter().for_each(|s| {
        s.visit(&mut |s| match s {
            Stmt::Store { buffer, value, .. } if stays(buffer) && (reduces || has_rounding(value)) => {
                found.insert(buffer.clone());
            }
            _ => {}
        });
    });
    found
}

/// A statement of the body.
fn store(wide: &BTreeSet<Name>, s: &Stmt) -> Stmt {
    let list = |l: &[Stmt]| l.iter().map(|s| store(wide, s)).collect();
    match s {
        Stmt::Store { buffer, indices, value } => {
            let value = match wide.contains(buffer) {
                true => own(wide, &widened(value)),
                false => updated(buffer, value),
            };
            Stmt::Store { buffer: buffer.clone(), indices: indices.clone(), value }
        }
        Stmt::If { cond, then, otherwise } => {
            Stmt::If { cond: cond.clone(), then: list(then), otherwise: list(otherwise) }
        }
        s => s.clone(),
    }
}

/// A statement of the init: what a reduction starts from is what changes nothing, not a number that is rounded.
fn start(wide: &BTreeSet<Name>, s: &Stmt) -> Stmt {
    match s {
        Stmt::Store { buffer, indices, value } if wide.contains(buffer) => {
            let value = match value.kind() {
                ExprKind::Float { bits, .. } => Expr::new(ExprKind::Float { bits: *bits, dtype: DType::F32 }),
                _ => own(wide, &widened(value)),
            };
            Stmt::Store { buffer: buffer.clone(), indices: indices.clone(), value }
        }
        s => s.clone(),
    }
}

/// Loads of what is float32 now, where the block itself has them.
fn own(wide: &BTreeSet<Name>, e: &Expr) -> Expr {
    retype::loads(e, &|name| wide.contains(name), DType::F32, &|_, to| to == DType::F32)
}

/// The same where others read them: rounded, as they were.
fn rounded(wide: &BTreeSet<Name>, e: &Expr) -> Expr {
    retype::loads(e, &|name| wide.contains(name), DType::F32, &|_, _| false)
}

/// What is stored to a buffer that keeps its type. An accumulation stays one: what it adds is what changes.
fn updated(buffer: &Name, value: &Expr) -> Expr {
    let accumulates = |e: &Expr| matches!(e.kind(), ExprKind::Load { buffer: b, .. } if b == buffer);
    match value.kind() {
        ExprKind::Binary { op, a, b } if accumulates(a) => Expr::binary(*op, a.clone(), kept(b)),
        ExprKind::Binary { op, a, b } if accumulates(b) => Expr::binary(*op, kept(a), b.clone()),
        _ if value.loads(buffer) => value.clone(),
        _ => kept(value),
    }
}

/// The same value in the same type, with its inner parts in float32.
fn kept(e: &Expr) -> Expr {
    if jumps(e) {
        return e.clone();
    }
    if is_narrow(e.dtype()) {
        return if has_inner_rounding(e) { Expr::cast(e.dtype(), widened(e)) } else { e.clone() };
    }
    match e.kind() {
        ExprKind::Cast { dtype, arg } if is_narrow(arg.dtype()) && has_rounding(arg) => {
            let arg = widened(arg);
            if *dtype == DType::F32 { arg } else { Expr::cast(*dtype, arg) }
        }
        ExprKind::Let { .. } => named(e, kept),
        _ => e.map_children(kept),
    }
}

/// A value of 16 bits in float32.
fn widened(e: &Expr) -> Expr {
    if !is_narrow(e.dtype()) {
        return kept(e);
    }
    match e.kind() {
        ExprKind::Cast { arg, .. } if arg.dtype() == DType::F32 => kept(arg),
        ExprKind::Cast { arg, .. } if is_narrow(arg.dtype()) => widened(arg),
        ExprKind::Cast { arg, .. } if arg.dtype().is_float() => Expr::cast(DType::F32, kept(arg)),
        ExprKind::Binary { op, a, b } if !jumps(e) => Expr::binary(*op, widened(a), widened(b)),
        ExprKind::Unary { op: UnOp::Neg, arg } => Expr::unary(UnOp::Neg, widened(arg)),
        ExprKind::Select { cond, then, otherwise } => {
            Expr::new(ExprKind::Select { cond: cond.clone(), then: widened(then), otherwise: widened(otherwise) })
        }
        ExprKind::IfThenElse { cond, then, otherwise } => {
            Expr::new(ExprKind::IfThenElse { cond: cond.clone(), then: widened(then), otherwise: widened(otherwise) })
        }
        ExprKind::Call { op, args, .. } if !jumps(e) => Expr::call(*op, args.iter().map(widened).collect(), DType::F32),
        ExprKind::Let { body, .. } if !body.any(&jumps) => named(e, widened),
        _ => Expr::cast(DType::F32, e.clone()),
    }
}

/// A value with a name, of which `f` makes what follows; as it is where something jumps by it.
fn named(e: &Expr, f: fn(&Expr) -> Expr) -> Expr {
    let ExprKind::Let { var, value, body } = e.kind() else { return e.clone() };
    if body.any(&jumps) {
        return e.clone();
    }
    let narrow = value.dtype();
    let wide = Expr::cast(narrow, Expr::var(var.clone(), DType::F32));
    let body = if is_narrow(narrow) { body.subst(&|v| (v == var).then(|| wide.clone())) } else { body.clone() };
    Expr::new(ExprKind::Let { var: var.clone(), value: widened(value), body: f(&body) })
}

/// True where an operation rounds to 16 bits itself.
fn rounds(e: &Expr) -> bool {
    is_narrow(e.dtype())
        && match e.kind() {
            ExprKind::Binary { op, .. } => matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div),
            ExprKind::Call { op, .. } => !jumps(e) && !matches!(op, Intrin::Fabs | Intrin::CopySign),
            // Of what 8 bits hold nothing is rounded, and integers are rounded as they are.
            ExprKind::Cast { arg, .. } => arg.dtype().is_float() && arg.dtype().bytes() > 1 && arg.dtype() != e.dtype(),
            _ => false,
        }
}

/// True where something in it does.
fn has_rounding(e: &Expr) -> bool {
    rounds(e) || below(e, &has_rounding)
}

/// The same of what is not the last rounding, after which values are only chosen.
fn has_inner_rounding(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Let { value, body, .. } if !body.any(&jumps) => has_rounding(value) || has_inner_rounding(body),
        _ if rounds(e) || !is_narrow(e.dtype()) => below(e, &has_rounding),
        _ => below(e, &has_inner_rounding),
    }
}

/// Asks the operands that may change.
fn below(e: &Expr, is: &impl Fn(&Expr) -> bool) -> bool {
    if jumps(e) || matches!(e.kind(), ExprKind::Let { body, .. } if body.any(&jumps)) {
        return false;
    }
    let mut found = false;
    e.for_each_child(|c| found |= is(c));
    found
}
