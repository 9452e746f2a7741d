//! Which values all lanes of a warp, or all threads of a warpgroup, share.
//!
//! With `threadIdx.x = 32 warp + lane`, a quotient is shared where the lane vanishes from it, and a
//! comparison where the lane cannot change its truth: `base + lane < 0` with 32 dividing `base`.

use crate::analysis::{Ranges, linear, multiple_of, simplify};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name};

const LANE: &str = "lane of threadIdx.x";
const OWN: &str = "warp of threadIdx.x";

/// Threads of a warp.
pub const WARP: u32 = 32;
/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;

/// Over what a value may differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A constant once unrolled loops are expanded.
    Constant,
    /// The same in all threads of a block.
    Block,
    /// The same in all threads of a warpgroup.
    Warpgroup,
    /// The same in all threads of a warp.
    Warp,
    /// Different in each thread.
    Thread,
}

impl Rank {
    /// Of `threadIdx.<axis>`, in groups of so many threads: they lie along x where its extent is a
    /// multiple of theirs.
    pub fn of_axis(axis: &str, block: [u32; 3], group: u32) -> Rank {
        let threads = match axis {
            "x" => block[0],
            "y" => block[1],
            _ => block[2],
        };
        match axis {
            _ if threads == 1 => Rank::Block,
            "x" => Rank::Thread,
            _ if block[0].is_multiple_of(group) => Rank::of_group(group),
            _ => Rank::Thread,
        }
    }

    /// The same in all threads of a group of so many.
    fn of_group(group: u32) -> Rank {
        if group == WARPGROUP { Rank::Warpgroup } else { Rank::Warp }
    }
}

/// What is known of the values in a block.
pub struct Warps<'a> {
    /// Threads per axis.
    pub block: [u32; 3],
    /// Threads of a group: [`WARP`] or [`WARPGROUP`].
    pub group: u32,
    pub ranges: &'a mut Ranges,
    /// Of a variable; `None` where nothing is known of it.
    pub rank_of: &'a dyn Fn(&Name) -> Option<Rank>,
}

impl Warps<'_> {
    /// Over what a value differs.
    pub fn rank(&mut self, e: &Expr) -> Rank {
        let mut rank = Rank::Constant;
        e.visit(&mut |e| match e.kind() {
            ExprKind::Var { name, .. } => rank = rank.max((self.rank_of)(name).unwrap_or(Rank::Thread)),
            ExprKind::Load { .. } | ExprKind::Extern { .. } => rank = Rank::Thread,
            ExprKind::Int { .. }
            | ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::Unary { .. }
            | ExprKind::Binary { .. }
            | ExprKind::Select { .. }
            | ExprKind::IfThenElse { .. }
            | ExprKind::Let { .. }
            | ExprKind::Cast { .. }
            | ExprKind::Reinterpret { .. }
            | ExprKind::Call { .. } => {}
        });
        if rank > Rank::of_group(self.group) && self.is_shared(e) { Rank::of_group(self.group) } else { rank }
    }

    fn varies_by_groups_at_most(&self, name: &Name) -> bool {
        (self.rank_of)(name).is_some_and(|rank| rank <= Rank::of_group(self.group))
    }

    /// True for a value that all threads of a group share.
    pub fn is_shared(&mut self, e: &Expr) -> bool {
        match e.kind() {
            ExprKind::Var { name, .. } => self.varies_by_groups_at_most(name),
            ExprKind::Load { .. } | ExprKind::Let { .. } | ExprKind::Extern { .. } => false,
            ExprKind::Binary { op, a, b } => {
                self.is_shared(a) && self.is_shared(b) || self.takes_the_lane_away(*op, e, a, b)
            }
            ExprKind::Int { .. }
            | ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::Unary { .. }
            | ExprKind::Select { .. }
            | ExprKind::IfThenElse { .. }
            | ExprKind::Cast { .. }
            | ExprKind::Reinterpret { .. }
            | ExprKind::Call { .. } => {
                let mut shared = true;
                e.for_each_child(|c| shared = shared && self.is_shared(c));
                shared
            }
        }
    }

    /// True for an operator on `threadIdx.x` whose result all threads of a group share.
    fn takes_the_lane_away(&mut self, op: BinOp, e: &Expr, a: &Expr, b: &Expr) -> bool {
        // The last warp of a block of one axis may have fewer lanes, which share what 32 would.
        let along_x = self.block[0].is_multiple_of(self.group) || self.block[1..] == [1, 1];
        if !along_x || !self.differs_by_x_alone(e) {
            return false;
        }
        self.ranges.set(LANE, 0, i64::from(self.group) - 1);
        self.ranges.set(OWN, 0, i64::from(self.block[0].div_ceil(self.group)) - 1);
        match op {
            BinOp::FloorDiv | BinOp::Shr => !simplify(&split(e, self.group), self.ranges).uses_var(&LANE.into()),
            _ => below_zero(op, &split(a, self.group), &split(b, self.group)).is_some_and(|d| self.keeps_its_sign(d)),
        }
    }

    /// True when nothing but `threadIdx.x` makes the lanes of a warp differ.
    fn differs_by_x_alone(&self, e: &Expr) -> bool {
        let mut alone = true;
        e.visit(&mut |e| match e.kind() {
            ExprKind::Var { name, .. } => {
                alone &= self.varies_by_groups_at_most(name) || name.as_str() == "threadIdx.x";
            }
            ExprKind::Load { .. } | ExprKind::Let { .. } | ExprKind::Extern { .. } => alone = false,
            ExprKind::Int { .. }
            | ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::Unary { .. }
            | ExprKind::Binary { .. }
            | ExprKind::Select { .. }
            | ExprKind::IfThenElse { .. }
            | ExprKind::Cast { .. }
            | ExprKind::Reinterpret { .. }
            | ExprKind::Call { .. } => {}
        });
        alone
    }

    /// True when `e < 0` has the same truth for all lanes.
    fn keeps_its_sign(&self, e: Expr) -> bool {
        let lane = Name::new(LANE);
        let Some((c, base)) = linear(&simplify(&e, self.ranges), &lane, self.ranges) else { return false };
        match c.as_int() {
            Some(c) if c > 0 => multiple_of(&base, self.ranges) % (c * i64::from(self.group)) == 0,
            // `-lane + base < 0` is the opposite of `lane - base - 1 < 0`.
            Some(c) if c < 0 => {
                let opposite = base + Expr::int(1, e.dtype());
                multiple_of(&opposite, self.ranges) % (-c * i64::from(self.group)) == 0
            }
            _ => false,
        }
    }
}

/// `threadIdx.x` by warp and lane, in the type that it has there: 64 bits before indices are narrowed.
fn split(e: &Expr, group: u32) -> Expr {
    let mut dtype = DType::I32;
    e.visit(&mut |e| {
        if let ExprKind::Var { name, dtype: own } = e.kind()
            && name.as_str() == "threadIdx.x"
        {
            dtype = *own;
        }
    });
    e.subst(&|name| {
        let x = name.as_str() == "threadIdx.x";
        x.then(|| Expr::var(OWN, dtype) * Expr::int(i64::from(group), dtype) + Expr::var(LANE, dtype))
    })
}

/// `d` of an integer comparison that says `d < 0`, or the opposite.
fn below_zero(op: BinOp, a: &Expr, b: &Expr) -> Option<Expr> {
    let dtype = a.dtype();
    if !matches!(dtype, DType::I32 | DType::I64) {
        return None;
    }
    match op {
        BinOp::Lt | BinOp::Ge => Some(a.clone() - b.clone()),
        BinOp::Gt | BinOp::Le => Some(b.clone() - a.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over what a value differs in a block of that shape, `i` being the same everywhere in it.
    fn rank(block: [u32; 3], group: u32, e: &Expr) -> Rank {
        let mut ranges = Ranges::new();
        for (axis, n) in ["x", "y", "z"].iter().zip(block) {
            ranges.set(format!("threadIdx.{axis}"), 0, i64::from(n) - 1);
        }
        let rank_of = |name: &Name| match name.as_str().strip_prefix("threadIdx.") {
            Some(axis) => Some(Rank::of_axis(axis, block, group)),
            None => (name.as_str() == "i").then_some(Rank::Block),
        };
        Warps { block, group, ranges: &mut ranges, rank_of: &rank_of }.rank(e)
    }

    fn v(name: &str) -> Expr {
        Expr::var(name, DType::I32)
    }

    fn op(op: BinOp, a: Expr, b: Expr) -> Expr {
        Expr::binary(op, a, b)
    }

    #[test]
    fn a_value_differs_by_what_it_is_made_of() {
        let (x, y) = (v("threadIdx.x"), v("threadIdx.y"));
        let warp = op(BinOp::FloorDiv, x.clone(), Expr::i32(32));
        let below = |n: i64| op(BinOp::Lt, x.clone() + v("i") * Expr::i32(64), Expr::i32(n));
        let wide = Expr::var("threadIdx.x", DType::I64);
        let half = op(BinOp::Eq, op(BinOp::FloorMod, x.clone(), Expr::i32(2)), Expr::i32(0));
        for (block, e, want) in [
            ([128, 1, 1], Expr::i32(1), Rank::Constant),
            ([128, 1, 1], v("i"), Rank::Block),
            ([128, 1, 1], x.clone(), Rank::Thread),
            ([1, 8, 1], x.clone(), Rank::Block),
            ([128, 1, 1], op(BinOp::Eq, warp.clone(), v("i")), Rank::Warp),
            ([128, 1, 1], op(BinOp::And, below(96), op(BinOp::Eq, v("i"), Expr::i32(0))), Rank::Warp),
            ([128, 1, 1], below(95), Rank::Thread),
            ([64, 1, 1], op(BinOp::Eq, op(BinOp::FloorDiv, wide, Expr::i64(32)), Expr::i64(0)), Rank::Warp),
            ([128, 1, 1], half, Rank::Thread),
            ([128, 1, 1], op(BinOp::Lt, x.clone() + v("unknown"), Expr::i32(32)), Rank::Thread),
            // A last warp of fewer lanes.
            ([48, 1, 1], op(BinOp::Lt, x.clone(), Expr::i32(32)), Rank::Warp),
            // Warps along x are rows, where they fill them.
            ([32, 4, 1], op(BinOp::Eq, y.clone(), Expr::i32(0)), Rank::Warp),
            ([16, 4, 1], op(BinOp::Eq, y, Expr::i32(0)), Rank::Thread),
            ([16, 4, 1], warp, Rank::Thread),
            ([128, 1, 1], Expr::load("a", vec![v("i")], DType::I32), Rank::Thread),
        ] {
            assert!(rank(block, WARP, &e) == want, "{block:?}: {e:?}");
        }
    }

    #[test]
    fn a_warpgroup_shares_what_four_warps_do() {
        let below = |n: i64| op(BinOp::Lt, v("threadIdx.x"), Expr::i32(n));
        for (e, want) in [(below(128), Rank::Warpgroup), (below(64), Rank::Thread)] {
            assert!(rank([256, 1, 1], WARPGROUP, &e) == want, "{e:?}");
        }
    }
}
