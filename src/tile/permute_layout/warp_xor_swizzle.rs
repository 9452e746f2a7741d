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
use crate::ir::device::{DKind, DStmt};
use crate::ir::kernel::Barrier;
use crate::ir::layout::{Axis, Over, TileLayout};
use crate::ir::{BinOp, ExecScope, Expr, Scope, TileCall};
use crate::tile::copy::{Bundle, Pair, check};
use crate::tile::predicates::{all_threads, scope_in};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant, View, WARP};

/// Bits of a lane's number.
const LANE_BITS: u32 = 5;

pub(super) const VARIANT: Variant =
    Variant { name: "warp_xor_swizzle", ops: OPS, priority: 20, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let pair = check::pair(call, cx, r);
    scope_in(call, &[ExecScope::Warp], r);
    r.ask("block", block(cx));
    all_threads(call, cx, r);
    r.ask_of("storage_scope", &pair, one_memory);
    let each = r.ask_of("count", &pair, per_lane);
    r.ask_of("unswizzled", &pair, unswizzled);
    let placed = r.ask_of("bijective", &pair, |p| {
        let each = per_lane(p)?;
        Ok([Placed::of(&p.dst, each, cx)?, Placed::of(&p.src, each, cx)?])
    });
    check::options(call, &[], r);
    let (pair, [dst, src], each) = (pair.ok()?, placed?, each?);
    let job = Job { bytes: pair.dst.dtype.bytes() as i64, pair, dst, src, each };
    Some(Box::new(move |e| if job.pair.dst.is_local() { job.between_registers(e) } else { job.within_shared(e) }))
}

fn block(cx: &Cx) -> Result<(), String> {
    match cx.block {
        [_, 1, 1] => Ok(()),
        [x, y, z] => Err(format!("the block is {x}x{y}x{z} threads, not one-dimensional")),
    }
}

fn one_memory(Pair { dst, src }: &Pair) -> Result<(), String> {
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

fn unswizzled(pair: &Pair) -> Result<(), String> {
    for (view, what) in pair.sides() {
        if let Some(s) = view.layout()?.0.swizzle().filter(|s| s.swizzle_len() > 0) {
            return Err(format!("the {what} `{}` is swizzled, by {s}", view.buffer));
        }
    }
    Ok(())
}

/// A layout that gives each position of the warp one element.
struct Placed {
    /// From the number of an element to its position.
    positions: Over,
    /// From the number of a position (thread before memory) to the number of its element.
    elements: Over,
    /// The offset in memory of the first position.
    base: Expr,
}

impl Placed {
    fn of(view: &View, each: i64, cx: &Cx) -> Result<Placed, String> {
        let (layout, base) = if view.is_local() {
            (Bundle::of(view, ExecScope::Warp, cx)?.part.layout, view.first())
        } else {
            let own = view.tile_layout()?;
            let base = own.offset().get(&Axis::M).copied().unwrap_or(0);
            (TileLayout::new(own.shard().to_vec(), own.replica().to_vec(), Default::default(), None)?, Expr::i64(base))
        };
        let (threads, span) = if view.is_local() { (WARP, each) } else { (1, WARP * each) };
        if layout.span(Axis::M) != span || layout.span(Axis::Tx) != threads {
            return Err(format!("layout {layout} of `{}` does not fill its memory without gaps", view.buffer));
        }
        let len = [view.len()];
        Ok(Placed { elements: layout.inverse()?.over(&len)?, positions: layout.over(&len)?, base })
    }

    /// The number of the element at a position.
    fn element(&self, position: Expr) -> Expr {
        self.elements.memory(&[position])
    }

    /// The offset in memory of an element, from the first position.
    fn memory(&self, element: &Expr) -> Expr {
        self.positions.memory(std::slice::from_ref(element))
    }

    /// The lane that holds an element.
    fn lane(&self, element: &Expr) -> Expr {
        self.positions.value(Axis::Tx, std::slice::from_ref(element))
    }
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

/// What is moved.
struct Job {
    pair: Pair,
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
        let element = self.dst.elements.layout().apply(lane * self.each + r).get(Axis::M);
        let from = self.src.positions.layout().apply(element);
        from.get(Axis::M) * WARP + from.get(Axis::Tx)
    }

    fn scratch_xor(&self) -> Xor {
        Xor::best(LANE_BITS, |x| {
            let at = |place: i64| x.up(place, place / WARP);
            self.cost(|lane, r| at(r * WARP + lane)) + self.cost(|lane, r| at(self.received(lane, r)))
        })
    }

    fn between_registers(&self, e: &mut Emit) -> Vec<DStmt> {
        let Pair { dst, src } = &self.pair;
        let xor = self.scratch_xor();
        let all = WARP * self.each;
        let warps = e.cx().threads() / WARP;
        let scratch = e.scratch(&format!("{}_permuted", dst.buffer), dst.dtype, warps * all, Scope::Shared);
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
        let mut out = steps(e, self.each, |e, r| {
            let value = src.load(e.simple(self.src.base.clone() + r.clone()));
            DStmt::store(scratch.clone(), vec![e.simple(place(r, lane.clone()))], value)
        });
        out.push(DStmt::Barrier(Barrier::Warp));
        out.extend(steps(e, self.each, |e, r| {
            let element = self.dst.element(e.simple(lane.clone() * Expr::i64(self.each) + r.clone()));
            let (register, lane) = (e.simple(self.src.memory(&element)), e.simple(self.src.lane(&element)));
            let value = Expr::load(scratch.clone(), vec![e.simple(place(register, lane))], dst.dtype);
            dst.store(e.simple(self.dst.base.clone() + r), value)
        }));
        // this barrier is for who writes the scratch again
        out.push(DStmt::Barrier(Barrier::Warp));
        out
    }

    /// The position in the destination of the element at a position of the source.
    fn moved(&self, position: i64) -> i64 {
        let element = self.src.elements.layout().apply(position).get(Axis::M);
        self.dst.positions.layout().apply(element).get(Axis::M)
    }

    fn order_xor(&self) -> Xor {
        let most = self.each.trailing_zeros();
        Xor::best(most, |x| {
            let at = |lane: i64, r: i64| x.down(r, lane) * WARP + lane;
            self.cost(at) + self.cost(|lane, r| self.moved(at(lane, r)))
        })
    }

    fn within_shared(&self, e: &mut Emit) -> Vec<DStmt> {
        let Pair { dst, src } = &self.pair;
        let xor = self.order_xor();
        let held = e.scratch(&format!("{}_permuted", dst.buffer), dst.dtype, self.each, Scope::Local);
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
        let mut out = steps(e, self.each, |e, r| {
            let value = src.load(e.simple(self.src.base.clone() + position(r.clone())));
            DStmt::store(held.clone(), vec![r], value)
        });
        out.push(DStmt::Barrier(Barrier::Warp));
        out.extend(steps(e, self.each, |e, r| {
            let at = self.dst.memory(&self.src.element(e.simple(position(r.clone()))));
            dst.store(e.simple(self.dst.base.clone() + at), Expr::load(held.clone(), vec![r], dst.dtype))
        }));
        out
    }
}

/// One statement per element of a lane.
fn steps(e: &mut Emit, n: i64, body: impl FnOnce(&Emit, Expr) -> DStmt) -> Vec<DStmt> {
    e.steps("r", n, DKind::Unrolled, |e, r| vec![body(e, r)])
}
