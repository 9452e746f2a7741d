//! Reduction of a float32 vector in one thread's registers by packed and three-operand instructions.
//!
//! When: thread scope, float32 registers, a source of one dimension and at least 8 elements, a single
//! result, sm_100 or newer. (sm_120 has the instructions too, and expands them into scalar ones.)
//!
//! before: `Tx.thread.sum(d[0:1], a[0:32], axes=(0,), accum=False)`
//! after:  eight accumulators start with `a[0:8]`; for each further chunk of 8 four `add.rn.ftz.f32x2`;
//!         what is left one by one; three more packed adds and a scalar one fold 8, 4, 2, 1
//!
//! `max` and `min` keep four accumulators, each the extreme of a pair of the first chunk; every further
//! pair is folded in by one three-operand instruction, and so are the accumulators at the end.
//! Packed adds flush subnormal numbers to zero. With `accum` the old destination goes into the first
//! accumulator.
//!
//! Declines by `exec_scope`, `local_scope`, `dst_len`, `src_ndim`, `dtype`, `sm_version` and
//! `reduction_len`.

use super::combine::Combine;
use crate::analysis::multiple_of;
use crate::ir::device::{DKind, DStmt};
use crate::ir::instr::{At, Fold, Instr, Op, PackedOp, Rounding};
use crate::ir::{DType, ExecScope, Expr, Name, Scope, TileCall, TileOp};
use crate::tile::predicates::{MAX_REGISTERS, all_float32, all_local, one_thread, takes, takes_f32x2};
use crate::tile::{Cx, Emit, Part, Plan, Refusals, Variant, View};

/// Elements of a chunk: four pairs.
const CHUNK: i64 = 8;

pub(super) const VARIANT: Variant = Variant {
    name: "sm100_packed",
    ops: &[TileOp::Sum, TileOp::Max, TileOp::Min],
    priority: 20,
    only_forced: false,
    plan,
};

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    one_thread(call, r);
    let sides = r.ask("local_scope", own_registers(call, cx));
    r.ask("dst_len", dst_len(call));
    let src = cx.arg(call, 0);
    r.ask_of("src_ndim", &src, |src| src_ndim(call, src));
    let combine = r.ask("dtype", all_float32(call, cx).and_then(|()| Combine::of(call.op, DType::F32)));
    r.ask(
        "sm_version",
        match call.op {
            TileOp::Sum => takes_f32x2(cx),
            _ => takes(cx, cx.target.has.fold3, "`max` and `min` of three operands", 100),
        },
    );
    r.ask_of("reduction_len", &src, reduction_len);
    let ([src, dst], combine, op, accum) = (sides?, combine?, call.op, call.accum);
    Some(Box::new(move |e| emit(op, &src, &dst, &combine, accum, e)))
}

/// Source and destination, different registers of the thread alone.
fn own_registers(call: &TileCall, cx: &Cx) -> Result<[View; 2], String> {
    all_local(call, cx)?;
    let sides = [cx.arg(call, 0)?, cx.view(&call.dst)?];
    if sides[0].buffer == sides[1].buffer {
        return Err(format!("source and destination are both in `{}`", sides[0].buffer));
    }
    sides.iter().try_for_each(|v| Part::of(v, cx.ranges)?.covers(ExecScope::Thread, cx))?;
    Ok(sides)
}

fn dst_len(call: &TileCall) -> Result<(), String> {
    match call.dst.len() {
        1 => Ok(()),
        n => Err(format!("the destination has {n} elements, expected 1")),
    }
}

fn src_ndim(call: &TileCall, src: &View) -> Result<(), String> {
    match (src.extent.len(), call.axes.as_slice()) {
        (1, [0]) => Ok(()),
        (1, axes) => Err(format!("axes {axes:?} are reduced, expected the only one")),
        (n, _) => Err(format!("the source has {n} dimensions, expected 1")),
    }
}

fn reduction_len(src: &View) -> Result<(), String> {
    match src.len() {
        n if n < CHUNK => Err(format!("the source has {n} elements, expected at least {CHUNK}")),
        n if n > MAX_REGISTERS => Err(format!("the source has {n} elements, at most {MAX_REGISTERS} are unrolled")),
        _ => Ok(()),
    }
}

/// The vector and where it goes.
struct Vector<'a> {
    src: &'a View,
    /// Where the accumulators are.
    acc: Name,
    len: i64,
    /// The old destination, where it counts.
    old: Option<Expr>,
}

impl Vector<'_> {
    fn at(&self, emit: &Emit, i: Expr) -> Expr {
        emit.simple(self.src.at(&[i]))
    }

    fn load(&self, emit: &Emit, i: Expr) -> Expr {
        self.src.load(self.at(emit, i))
    }

    fn acc(&self, k: i64) -> Expr {
        Expr::load(self.acc.clone(), vec![Expr::i64(k)], DType::F32)
    }

    fn acc_at(&self, k: i64) -> At {
        At::new(&self.acc, Expr::i64(k))
    }

    fn set(&self, k: i64, value: Expr) -> DStmt {
        DStmt::store(self.acc.clone(), vec![Expr::i64(k)], value)
    }

    /// An unrolled loop over the whole chunks after the first; `body` gets the first element's number.
    fn chunks(&self, emit: &mut Emit, body: impl FnOnce(&mut Emit, Expr) -> Vec<DStmt>) -> Vec<DStmt> {
        match self.len / CHUNK - 1 {
            0 => vec![],
            n => vec![emit.repeat("chunk", n, DKind::Unrolled, |emit, chunk| {
                body(emit, chunk * Expr::i64(CHUNK) + Expr::i64(CHUNK))
            })],
        }
    }
}

fn emit(op: TileOp, src: &View, dst: &View, c: &Combine, accum: bool, emit: &mut Emit) -> Vec<DStmt> {
    let result = emit.simple(dst.first());
    let slots = if op == TileOp::Sum { CHUNK } else { CHUNK / 2 };
    let acc = emit.scratch(&format!("{}_acc", dst.buffer), DType::F32, slots, Scope::Local);
    let v = Vector { len: src.len(), src, acc, old: accum.then(|| dst.load(result.clone())) };
    let (mut out, total) = match op {
        TileOp::Max => extreme(&v, Fold::Max, c, emit),
        TileOp::Min => extreme(&v, Fold::Min, c, emit),
        _ => sum(&v, c, emit),
    };
    out.push(dst.store(result, total));
    out
}

/// Eight accumulators by packed adds.
fn sum(v: &Vector, c: &Combine, emit: &mut Emit) -> (Vec<DStmt>, Expr) {
    let mut out = vec![];
    for k in 0..CHUNK {
        let first = v.load(emit, Expr::i64(k));
        let value = v.old.iter().filter(|_| k == 0).fold(first, |x, old| c.apply(old.clone(), x));
        out.push(v.set(k, value));
    }
    out.extend(v.chunks(emit, |emit, at| add_chunk(v, emit, at)));
    let whole = v.len / CHUNK * CHUNK;
    for k in 0..v.len - whole {
        out.push(v.set(k, c.apply(v.acc(k), v.load(emit, Expr::i64(whole + k)))));
    }
    for (to, from) in [(0, 2), (4, 6), (0, 4)] {
        out.push(add(v.acc_at(to), v.acc_at(from)));
    }
    (out, c.apply(v.acc(0), v.acc(1)))
}

/// Four packed adds of the elements from `at` on, which are first brought side by side where they
/// are not.
fn add_chunk(v: &Vector, emit: &mut Emit, at: Expr) -> Vec<DStmt> {
    let pair = |k: i64| at.clone() + Expr::i64(2 * k);
    let adjacent = (0..CHUNK / 2).all(|k| {
        let (a, b) = (v.at(emit, pair(k)), v.at(emit, pair(k) + Expr::i64(1)));
        multiple_of(&a, emit.ranges) % 2 == 0 && emit.simple(b - a).is_int(1)
    });
    if adjacent {
        let place = |k| At::new(&v.src.buffer, v.at(emit, pair(k)));
        return (0..CHUNK / 2).map(|k| add(v.acc_at(2 * k), place(k))).collect();
    }
    let chunk = emit.scratch(&format!("{}_chunk", v.src.buffer), DType::F32, CHUNK, Scope::Local);
    let mut out = vec![];
    for k in 0..CHUNK {
        let value = v.load(emit, at.clone() + Expr::i64(k));
        out.push(DStmt::store(chunk.clone(), vec![Expr::i64(k)], value));
    }
    out.extend((0..CHUNK / 2).map(|k| add(v.acc_at(2 * k), At::new(&chunk, Expr::i64(2 * k)))));
    out
}

/// `a[0..2] += b[0..2]`.
fn add(a: At, b: At) -> DStmt {
    let op = Op::Packed { op: PackedOp::Add, rounding: Rounding::Nearest, ftz: true };
    DStmt::Instr(Instr::new(op, [a.clone(), a, b], []))
}

/// Four accumulators by three-operand instructions.
fn extreme(v: &Vector, op: Fold, c: &Combine, emit: &mut Emit) -> (Vec<DStmt>, Expr) {
    let from = |k, a: Expr, x: Expr, y: Expr| DStmt::Instr(Instr::new(Op::Fold3(op), [v.acc_at(k)], [a, x, y]));
    let fold = |k, x, y| from(k, v.acc(k), x, y);
    let mut out = vec![];
    for k in 0..CHUNK / 2 {
        let (x, y) = (v.load(emit, Expr::i64(2 * k)), v.load(emit, Expr::i64(2 * k + 1)));
        out.push(match &v.old {
            Some(old) if k == 0 => from(0, old.clone(), x, y),
            _ => v.set(k, c.apply(x, y)),
        });
    }
    out.extend(v.chunks(emit, |emit, at| {
        let pair = |k: i64| at.clone() + Expr::i64(2 * k);
        let fold = |k| fold(k, v.load(emit, pair(k)), v.load(emit, pair(k) + Expr::i64(1)));
        (0..CHUNK / 2).map(fold).collect()
    }));
    let whole = v.len / CHUNK * CHUNK;
    let load = |i| v.load(emit, Expr::i64(i));
    for k in 0..(v.len - whole) / 2 {
        out.push(fold(k, load(whole + 2 * k), load(whole + 2 * k + 1)));
    }
    if v.len % 2 == 1 {
        out.push(v.set(3, c.apply(v.acc(3), load(v.len - 1))));
    }
    out.push(fold(0, v.acc(1), v.acc(2)));
    (out, c.apply(v.acc(0), v.acc(3)))
}
