//! A warp moves its elements from one layout to another through an xor-permuted order in which neither
//! reading nor writing shared memory meets bank conflicts, where there is one.
//!
//! When: warps of a one-dimensional block, both tiles in registers or both in shared memory, one type
//! and shape, a power of two up to 32 elements per lane, layouts that are bijective and not swizzled.
//! Between registers each lane writes its elements to scratch in shared memory, at an offset whose low
//! bits are xored with bits of the register's number, and after a warp barrier reads what it receives.
//! Within shared memory each lane reads all its elements, one of a different row per lane, and after a
//! warp barrier writes them. Of the xors the one of fewest bits is taken that avoids all conflicts, else
//! the one of fewest conflicts.
//!
//! before: `Tx.warp.permute_layout(B[0:32, 0:8], A[0:32, 0:8])`, A by rows of lanes, B by columns
//! after:  `unroll r < 8 { scratch[(r * 32 + lane) ^ (r & 7) << 2] = A[r] }; warp barrier;`
//!         `unroll r < 8 { B[r] = scratch[...] }; warp barrier`
//!
//! Declines everything else, by name.

use super::OPS;
use super::banks::conflicts;
use crate::ir::device::{DFor, DKind, DStmt, index_var};
use crate::ir::kernel::Barrier;
use crate::ir::layout::{Axis, TileLayout};
use crate::ir::{BinOp, ExecScope, Expr, Scope, TileCall};
use crate::tile::copy::{Bundle, Pair, check};
use crate::tile::part::Part;
use crate::tile::predicates::{ALL_THREADS, scope_in};
use crate::tile::{Cx, Emit, Predicate, Variant, View, WARP};

/// Bits of a lane's number.
const LANE_BITS: u32 = 5;

pub(super) const VARIANT: Variant = Variant {
    name: "warp_xor_swizzle",
    ops: OPS,
    priority: 20,
    only_forced: false,
    when: &[
        check::OPERANDS,
        check::DTYPE,
        check::SAME_SHAPE,
        Predicate { name: "exec_scope", check: |call, _| scope_in(call, &[ExecScope::Warp]) },
        Predicate { name: "block", check: block },
        ALL_THREADS,
        Predicate { name: "storage_scope", check: storage_scope },
        Predicate { name: "count", check: |call, cx| per_lane(&Pair::of(call, cx)?).map(drop) },
        Predicate { name: "unswizzled", check: unswizzled },
        Predicate { name: "bijective", check: |call, cx| layouts(&Pair::of(call, cx)?, cx).map(drop) },
        Predicate { name: "options", check: |call, _| check::known(call, &[]) },
    ],
    emit,
};

fn block(_: &TileCall, cx: &Cx) -> Result<(), String> {
    match cx.block {
        [_, 1, 1] => Ok(()),
        [x, y, z] => Err(format!("the block is {x}x{y}x{z} threads, not one-dimensional")),
    }
}

fn storage_scope(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let Pair { dst, src } = Pair::of(call, cx)?;
    if dst.is_local() && src.is_local() || dst.is_shared() && src.is_shared() {
        return Ok(());
    }
    let (from, to) = (src.scope.name(), dst.scope.name());
    Err(format!(
        "`{}` is in {from} and `{}` in {to}, not both in registers or both in shared memory",
        src.buffer, dst.buffer
    ))
}

/// Elements of each lane.
fn per_lane(pair: &Pair) -> Result<i64, String> {
    let n = pair.dst.len();
    match (n % WARP, n / WARP) {
        (0, each @ 1..=WARP) if each & (each - 1) == 0 => Ok(each),
        _ => Err(format!("the tile has {n} elements, not 32 times a power of two up to 32")),
    }
}

fn unswizzled(call: &TileCall, cx: &Cx) -> Result<(), String> {
    for (view, what) in Pair::of(call, cx)?.sides() {
        if let Some(s) = view.layout()?.0.swizzle().filter(|s| s.swizzle_len() > 0) {
            return Err(format!("the {what} `{}` is swizzled, by {s}", view.buffer));
        }
    }
    Ok(())
}

/// A layout that gives each position of the warp one element.
struct Placed {
    layout: TileLayout,
    /// From the number of a position (thread before memory) to the number of its element.
    inverse: TileLayout,
    /// The offset in memory of the first position.
    base: Expr,
    len: i64,
}

impl Placed {
    fn of(view: &View, each: i64, cx: &Cx) -> Result<Placed, String> {
        let (layout, base) = if view.is_local() {
            Bundle::of(view, ExecScope::Warp, cx)?;
            let part = Part::of(view, cx.ranges)?;
            (part.layout, view.at(&vec![Expr::i64(0); view.extent.len()]))
        } else {
            let own = view.tile_layout()?;
            let base = own.offset().get(&Axis::M).copied().unwrap_or(0);
            (TileLayout::new(own.shard().to_vec(), own.replica().to_vec(), Default::default(), None)?, Expr::i64(base))
        };
        let (threads, span) = if view.is_local() { (WARP, each) } else { (1, WARP * each) };
        if layout.span(Axis::M) != span || layout.span(Axis::Tx) != threads {
            return Err(format!("layout {layout} of `{}` does not fill its memory without gaps", view.buffer));
        }
        Ok(Placed { inverse: layout.inverse()?, layout, base, len: view.len() })
    }

    /// The number of the element at a position.
    fn element(&self, position: Expr) -> Result<Expr, String> {
        self.inverse.memory_offset(&[self.len], &[position])
    }

    /// The offset in memory of an element, from the first position.
    fn memory(&self, element: &Expr) -> Result<Expr, String> {
        self.layout.memory_offset(&[self.len], std::slice::from_ref(element))
    }

    /// The lane that holds an element.
    fn lane(&self, element: &Expr) -> Result<Expr, String> {
        self.layout.axis_value(Axis::Tx, &[self.len], std::slice::from_ref(element))
    }
}

/// Destination and source.
fn layouts(pair: &Pair, cx: &Cx) -> Result<[Placed; 2], String> {
    let each = per_lane(pair)?;
    Ok([Placed::of(&pair.dst, each, cx)?, Placed::of(&pair.src, each, cx)?])
}

/// Which bits are xored: the lowest `bits` of one number into another from bit `shift` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Xor {
    bits: u32,
    shift: u32,
}

impl Xor {
    /// The fewest bits for which `cost` is 0, else those of least cost.
    fn best(most: u32, cost: impl Fn(Xor) -> i64) -> Xor {
        let all = (0..=most).flat_map(|bits| (0..=LANE_BITS - bits).map(move |shift| Xor { bits, shift }));
        all.min_by_key(|x| (cost(*x), x.bits, x.shift)).unwrap_or(Xor { bits: 0, shift: 0 })
    }

    fn mask(self) -> i64 {
        (1 << self.bits) - 1
    }

    /// `into ^ (from & mask) << shift`.
    fn up(self, into: i64, from: i64) -> i64 {
        into ^ ((from & self.mask()) << self.shift)
    }

    /// `into ^ (from >> shift & mask)`.
    fn down(self, into: i64, from: i64) -> i64 {
        into ^ ((from >> self.shift) & self.mask())
    }
}

fn binary(op: BinOp, a: Expr, b: i64) -> Expr {
    Expr::binary(op, a, Expr::i64(b))
}

fn emit(call: &TileCall, e: &mut Emit) -> Vec<DStmt> {
    let pair = Pair::accepted(call, e);
    let (Ok(each), Ok([dst, src])) = (per_lane(&pair), layouts(&pair, &e.cx())) else { return vec![] };
    let all = Job { dst, src, each, bytes: pair.dst.dtype.bytes() as i64 };
    if pair.dst.is_local() { all.between_registers(&pair, e) } else { all.within_shared(&pair, e) }
}

struct Job {
    dst: Placed,
    src: Placed,
    each: i64,
    bytes: i64,
}

impl Job {
    /// Conflicts of all steps, where lane and step give an element offset.
    fn cost(&self, place: impl Fn(i64, i64) -> i64) -> i64 {
        let step = |r| conflicts(&(0..WARP).map(|lane| place(lane, r)).collect::<Vec<_>>(), self.bytes);
        (0..self.each).map(step).sum()
    }

    /// The place in the scratch, before the xor, of what a lane receives in a register.
    fn received(&self, lane: i64, r: i64) -> i64 {
        let element = self.dst.inverse.apply(lane * self.each + r).get(Axis::M);
        let from = self.src.layout.apply(element);
        from.get(Axis::M) * WARP + from.get(Axis::Tx)
    }

    fn scratch_xor(&self) -> Xor {
        Xor::best(LANE_BITS, |x| {
            let at = |place: i64| x.up(place, place / WARP);
            self.cost(|lane, r| at(r * WARP + lane)) + self.cost(|lane, r| at(self.received(lane, r)))
        })
    }

    fn between_registers(&self, pair: &Pair, e: &mut Emit) -> Vec<DStmt> {
        let xor = self.scratch_xor();
        let all = WARP * self.each;
        let warps = e.cx().threads() / WARP;
        let scratch = e.scratch(&format!("{}_permuted", pair.dst.buffer), pair.dst.dtype, warps * all, Scope::Shared);
        let (lane, thread) = (e.cx().rank(ExecScope::Warp), e.cx().thread());
        let own = e.simple(binary(BinOp::FloorDiv, thread, WARP) * Expr::i64(all));
        let place = |register: Expr, lane: Expr| {
            let number = register.clone() * Expr::i64(WARP) + lane;
            let turned = match xor.bits {
                0 => number,
                _ => {
                    let bits = binary(BinOp::BitAnd, register, xor.mask());
                    Expr::binary(BinOp::BitXor, number, binary(BinOp::Shl, bits, i64::from(xor.shift)))
                }
            };
            own.clone() + turned
        };
        let write = steps(e, self.each, |e, r| {
            let from = e.simple(self.src.base.clone() + r.clone());
            let value = Expr::load(pair.src.buffer.clone(), vec![from], pair.src.dtype);
            DStmt::store(scratch.clone(), vec![e.simple(place(r, lane.clone()))], value)
        });
        let read = steps(e, self.each, |e, r| {
            let position = e.simple(lane.clone() * Expr::i64(self.each) + r.clone());
            let at = self.dst.element(position).and_then(|n| Ok((self.src.memory(&n)?, self.src.lane(&n)?)));
            let (register, lane) = at.unwrap_or_else(|why| panic!("accepted layouts have their size: {why}"));
            let from = e.simple(place(e.simple(register), e.simple(lane)));
            let value = Expr::load(scratch.clone(), vec![from], pair.dst.dtype);
            DStmt::store(pair.dst.buffer.clone(), vec![e.simple(self.dst.base.clone() + r)], value)
        });
        // the last barrier is for who writes the scratch again
        vec![write, DStmt::Barrier(Barrier::Warp), read, DStmt::Barrier(Barrier::Warp)]
    }

    /// The position in the destination of the element at a position of the source.
    fn moved(&self, position: i64) -> i64 {
        let element = self.src.inverse.apply(position).get(Axis::M);
        self.dst.layout.apply(element).get(Axis::M)
    }

    fn order_xor(&self) -> Xor {
        let most = self.each.trailing_zeros();
        Xor::best(most, |x| {
            let at = |lane: i64, r: i64| x.down(r, lane) * WARP + lane;
            self.cost(at) + self.cost(|lane, r| self.moved(at(lane, r)))
        })
    }

    fn within_shared(&self, pair: &Pair, e: &mut Emit) -> Vec<DStmt> {
        let xor = self.order_xor();
        let held = e.scratch(&format!("{}_permuted", pair.dst.buffer), pair.dst.dtype, self.each, Scope::Local);
        let lane = e.cx().rank(ExecScope::Warp);
        let position = |r: Expr| {
            let row = match xor.bits {
                0 => r,
                _ => {
                    let bits =
                        binary(BinOp::BitAnd, binary(BinOp::Shr, lane.clone(), i64::from(xor.shift)), xor.mask());
                    Expr::binary(BinOp::BitXor, r, bits)
                }
            };
            row * Expr::i64(WARP) + lane.clone()
        };
        let read = steps(e, self.each, |e, r| {
            let from = e.simple(self.src.base.clone() + position(r.clone()));
            DStmt::store(held.clone(), vec![r], Expr::load(pair.src.buffer.clone(), vec![from], pair.src.dtype))
        });
        let write = steps(e, self.each, |e, r| {
            let at = self.src.element(e.simple(position(r.clone()))).and_then(|n| self.dst.memory(&n));
            let at = at.unwrap_or_else(|why| panic!("accepted layouts have their size: {why}"));
            let to = e.simple(self.dst.base.clone() + at);
            DStmt::store(pair.dst.buffer.clone(), vec![to], Expr::load(held.clone(), vec![r], pair.dst.dtype))
        });
        vec![read, DStmt::Barrier(Barrier::Warp), write]
    }
}

/// One statement per element of a lane.
fn steps(e: &mut Emit, n: i64, body: impl Fn(&Emit, Expr) -> DStmt) -> DStmt {
    if n == 1 {
        return body(e, Expr::i64(0));
    }
    let var = e.loop_var("r", n);
    let body = vec![body(e, index_var(&var))];
    DStmt::For(DFor::new(var, Expr::i64(n), DKind::Unrolled, body))
}
