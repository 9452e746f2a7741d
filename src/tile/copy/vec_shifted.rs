//! Eight neighbours of 16 bits that begin anywhere in device memory: the two aligned words of sixteen bytes that they lie in
//! are loaded, and what is wanted is shifted out of them in registers.
//!
//! When: at thread scope, from device memory of a known size into adjacent registers, where no access of four elements and
//! more is aligned on both sides, as in rows of an odd number of elements. Two loads and fifteen instructions take the place
//! of eight loads of two bytes. Elements of a last word that ends behind the tensor are loaded one by one. The tensor has a word.
//!
//! before: `Tx.thread.copy(R[0:8], A[i, k:k + 8])` of float16, rows of 203
//! after:  `copy8 words[0] <- A[at // 8 * 8]; copy8 words[8] <- A[at // 8 * 8 + 8]; funnel_shift R[0] <- words[0] from at % 8 of 8`
//!
//! Declines other types and sizes, accesses that are aligned, and elements that are no neighbours.

use super::vec_auto::{How, moved};
use super::{OPS, Pair, check};
use crate::analysis::{linear, multiple_of};
use crate::ir::device::{DStmt, guarded};
use crate::ir::instr::{At, Instr, Op};
use crate::ir::kernel::CacheHint;
use crate::ir::layout::Axis;
use crate::ir::layout::words::WORD;
use crate::ir::{BinOp, DType, Expr, Name, Scope, TileCall};
use crate::tile::predicates::one_thread;
use crate::tile::{Cx, Emit, Plan, Refusals, Variant, View};

pub(super) const VARIANT: Variant = Variant { name: "vec_shifted", ops: OPS, priority: 15, only_forced: false, plan };

/// Elements of an access from which on single accesses are as good.
const WIDE: i64 = 4;

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let pair = check::pair(call, cx, r);
    check::overlap(call, r);
    let hint = check::cache_options(call, r);
    one_thread(call, r);
    let how = How::ask(&pair, call, cx, r);
    r.ask_of("storage_scope", &pair, |p| {
        let loads = p.dst.is_local() && p.src.is_global();
        if loads { Ok(()) } else { Err("elements go from global memory to registers".into()) }
    });
    r.ask_of("halves", &pair, |p| match (p.src.dtype, p.dst.len()) {
        (DType::F16 | DType::BF16, WORD) => Ok(()),
        (dtype, n) => Err(format!("{n} elements of {dtype}, where eight of 16-bit floats are shifted")),
    });
    r.ask_of("unaligned", &pair, |p| match How::lanes(&how, p, cx)? {
        lanes if lanes < WIDE => Ok(()),
        lanes => Err(format!("{lanes} elements are an aligned access on both sides")),
    });
    let ends = pair.as_ref().map_err(String::clone).and_then(|p| Ends::of(p, cx));
    r.ask_of("neighbours", &ends, |_| Ok(()));
    let (pair, ends, hint) = (pair.ok()?, ends.ok()?, hint?);
    Some(Box::new(move |e| emit(&pair, &ends, hint, e)))
}

/// The first element on both sides, and how many the tensor has.
struct Ends {
    to: Expr,
    from: Expr,
    total: i64,
}

impl Ends {
    fn of(pair: &Pair, cx: &Cx) -> Result<Ends, String> {
        let lane = Name::new("lane of a run");
        let first = |at: Expr, what: &str| match linear(&at, &lane, cx.ranges) {
            Some((step, first)) if step.is_int(1) => Ok(first),
            _ => Err(format!("the elements of the {what} are no neighbours")),
        };
        let place = |v: &View| v.at_linear(Expr::var(lane.clone(), DType::I64));
        let to = first(place(&pair.dst), "destination")?;
        if multiple_of(&to, cx.ranges) % 2 != 0 {
            return Err("the registers do not begin with a pair".into());
        }
        let from = first(place(&pair.src), "source")?;
        let (layout, _) = pair.src.layout()?;
        match layout.span(Axis::M) {
            total if total >= WORD => Ok(Ends { to, from, total }),
            total => Err(format!("{total} elements are no word")),
        }
    }
}

fn emit(pair: &Pair, ends: &Ends, hint: CacheHint, e: &mut Emit) -> Vec<DStmt> {
    let Pair { dst, src } = pair;
    let words = e.scratch(&format!("{}_words", src.buffer), src.dtype, 2 * WORD, Scope::Local);
    let hint = check::hint_of(src, hint, false);
    let simple = |e: &Emit, op: BinOp, a: &Expr, b: i64| e.simple(Expr::binary(op, a.clone(), Expr::i64(b)));
    let first = simple(e, BinOp::FloorDiv, &ends.from, WORD) * Expr::i64(WORD);
    // No wanted element is in a second word that does not exist; what is in one that ends behind the tensor comes below.
    let whole = ends.total / WORD * WORD;
    let second = simple(e, BinOp::Min, &(first.clone() + Expr::i64(WORD)), whole - WORD);
    let load = |n: i64, from: Expr| moved((&words, Expr::i64(n)), (&src.buffer, from), src.dtype, WORD, hint);
    let places = [At::new(&dst.buffer, e.simple(ends.to.clone())), At::new(&words, Expr::i64(0))];
    let from = simple(e, BinOp::FloorMod, &ends.from, WORD);
    let shift = DStmt::Instr(Instr::new(Op::FunnelShift, places, [from, Expr::i64(WORD)]));
    let mut out = vec![load(0, e.simple(first)), load(WORD, second), shift];
    let behind = simple(e, BinOp::Gt, &ends.from, whole - WORD);
    if whole < ends.total && !behind.is_int(0) {
        let one = |i: i64| {
            let [to, from] = [&ends.to, &ends.from].map(|first| e.simple(first.clone() + Expr::i64(i)));
            moved((&dst.buffer, to), (&src.buffer, from), src.dtype, 1, CacheHint::Plain)
        };
        out.extend(guarded(Some(behind), (0..WORD).map(one).collect()));
    }
    out
}
