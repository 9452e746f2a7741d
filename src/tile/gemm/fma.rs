//! Matrix products on CUDA cores: every thread computes the elements of D that its registers hold,
//! each as one chain of fused multiply-adds in the order of k (products and sums of integers).
//!
//! When: D is in registers and private (thread scope), or its layout shares it out among the threads
//! of the scope. A and B are in any memory at thread scope, else in shared or global memory, where
//! each thread reads the rows and columns of its own elements. Narrow operands are widened to D's
//! type before they are multiplied.
//!
//! before: `Tx.thread.gemm(d[0:2, 0:2], a[0:2, 0:4], b[0:4, 0:2])`
//! after:  `d[..] = 0`, then for each k: `b0 = b[k, 0]`, `b1 = b[k, 1]`, and for each row
//!         `d[i, j] = fma(a[i, k], bj, d[i, j])`
//!
//! Declines by naming what it cannot compute: types, a D that is not in registers, a layout that
//! does not partition, operands in registers that other threads hold, more steps than it unrolls.

use super::operands::{Matrix, Product, Start, in_registers, product};
use super::share::{Share, private};
use crate::ir::device::{DFor, DKind, DStmt, index_var};
use crate::ir::{DType, ExecScope, Expr, Intrin, Name, Scope, TileCall, TileOp};
use crate::tile::loops::unrolled;
use crate::tile::predicates::all_threads;
use crate::tile::{Cx, Emit, Plan, Refusals, Variant};

/// Multiply-adds that are written out for a thread at most.
const MOST_STEPS: i64 = 4096;
/// A longer loop over k stays a loop, where no operand is in registers.
const MOST_UNROLLED_K: i64 = 16;

/// Products on CUDA cores.
pub(super) const FMA: Variant = Variant { name: "fma", ops: &[TileOp::Gemm], priority: 5, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    all_threads(call, cx, r);
    let product = product(call, cx, r);
    let p = product.as_ref();
    r.ask_if("dtype", p, dtype);
    r.ask_if("storage_scope", p, in_registers);
    let share = r.ask_if("partition", p, |p| Share::of(&p.d, call.scope, cx));
    chain(p, share.as_ref(), call.scope, r);
    let (p, share) = (product?, share?);
    Some(Box::new(move |e| emit(&p, &share, e)))
}

fn dtype(p: &Product) -> Result<(), String> {
    let d = p.d.view.dtype;
    if !(d.is_int() || matches!(d, DType::F32 | DType::F64)) {
        return Err(format!("D is {d}, and sums are kept in float32, float64 or integers"));
    }
    match p.sources().iter().find(|(_, x)| !widens(x.view.dtype, d)) {
        Some((name, x)) => Err(format!("{name} is {}, which does not widen to {d}", x.view.dtype)),
        None => Ok(()),
    }
}

/// Asks whether each thread reaches what it reads, and for how many multiply-adds are written out.
pub(super) fn chain(p: Option<&Product>, share: Option<&Share>, scope: ExecScope, r: &mut Refusals) {
    r.ask_if("sources", p, |p| readable(p, scope));
    r.ask_if("steps", p.zip(share), |(p, share)| {
        let [rows, columns] = share.extent();
        let k = if k_kind(p) == DKind::Unrolled { p.k } else { 1 };
        match rows * columns * k {
            n if n <= MOST_STEPS => Ok(()),
            n => Err(format!("{n} multiply-adds of one thread are too many to write out, at most {MOST_STEPS}")),
        }
    });
}

fn readable(p: &Product, scope: ExecScope) -> Result<(), String> {
    for (name, x) in p.sources() {
        match (x.view.is_local(), scope) {
            (false, _) => {}
            (true, ExecScope::Thread) => private(x, name)?,
            (true, scope) => {
                let buffer = &x.view.buffer;
                return Err(format!(
                    "{name} `{buffer}` is in registers: the threads of a {} read it from shared memory",
                    scope.name()
                ));
            }
        }
    }
    Ok(())
}

/// True where a value converts to the accumulator's type exactly.
fn widens(from: DType, to: DType) -> bool {
    match to {
        DType::F64 => from.is_float(),
        DType::F32 => from.is_float() && from != DType::F64,
        _ if to.is_int() => {
            from == to || from.is_int() && from.bytes() < to.bytes() && (to.is_signed() || !from.is_signed())
        }
        _ => false,
    }
}

/// A loop over k whose variable picks registers has to be written out.
pub(super) fn k_kind(p: &Product) -> DKind {
    let registers = p.a.view.is_local() || p.b.view.is_local();
    if registers || p.k <= MOST_UNROLLED_K { DKind::Unrolled } else { DKind::Serial }
}

fn emit(p: &Product, share: &Share, emit: &mut Emit) -> Vec<DStmt> {
    let [rows, columns] = share.extent();
    let mut out = start(p, share, emit);
    let k = emit.loop_var("k", p.k);
    let (i, j) = (emit.loop_var("i", rows), emit.loop_var("j", columns));
    let [row, column] = share.place(&emit.cx(), &index_var(&i), &index_var(&j));
    let mut step = vec![];
    let d = &p.d.view;
    let a = operand(&mut step, emit, &p.a, d.dtype, ("a", &i, rows), |m| m.at(row, index_var(&k)));
    let b = operand(&mut step, emit, &p.b, d.dtype, ("b", &j, columns), |m| m.at(index_var(&k), column));
    let place = emit.simple(share.register(&index_var(&i), &index_var(&j)));
    let old = d.load(place.clone());
    let sum = if d.dtype.is_float() { Expr::call(Intrin::Fma, vec![a, b, old], d.dtype) } else { old + a * b };
    step.push(unrolled(&i, rows, vec![unrolled(&j, columns, vec![d.store(place, sum)])]));
    out.push(DStmt::For(DFor::new(k, Expr::i64(p.k), k_kind(p), step)));
    out
}

/// An element of A or B in D's type: read where it is, or through scratch that holds the elements
/// that one step along k needs.
fn operand(
    step: &mut Vec<DStmt>,
    emit: &mut Emit,
    m: &Matrix,
    dtype: DType,
    (stem, var, extent): (&str, &Name, i64),
    at: impl FnOnce(&Matrix) -> Expr,
) -> Expr {
    let place = emit.simple(at(m));
    let value = m.view.load(place);
    if m.view.is_local() && m.view.dtype == dtype {
        return value;
    }
    let value = if m.view.dtype == dtype { value } else { Expr::cast(dtype, value) };
    let scratch = emit.scratch(&format!("{}_{stem}", m.view.buffer), dtype, extent, Scope::Local);
    let index = vec![index_var(var)];
    step.push(unrolled(var, extent, vec![DStmt::store(scratch.clone(), index.clone(), value)]));
    Expr::load(scratch, index, dtype)
}

/// Gives D what it starts from.
pub(super) fn start(p: &Product, share: &Share, emit: &mut Emit) -> Vec<DStmt> {
    let [rows, columns] = share.extent();
    let (i, j) = (emit.loop_var("i", rows), emit.loop_var("j", columns));
    let d = &p.d.view;
    let value = match &p.start {
        Start::Old => return vec![],
        Start::Zero => Expr::constant(0.0, d.dtype),
        Start::Other(c) => {
            let [row, column] = share.place(&emit.cx(), &index_var(&i), &index_var(&j));
            let value = c.view.load(emit.simple(c.at(row, column)));
            if c.view.dtype == d.dtype { value } else { Expr::cast(d.dtype, value) }
        }
    };
    let place = emit.simple(share.register(&index_var(&i), &index_var(&j)));
    vec![unrolled(&i, rows, vec![unrolled(&j, columns, vec![d.store(place, value)])])]
}
