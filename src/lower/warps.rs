//! Which values all lanes of a warp share.
//!
//! With `threadIdx.x = 32 warp + lane`, a quotient is shared where the lane vanishes from it, and a
//! comparison where the lane cannot change its truth: `base + lane < 0` with 32 dividing `base`.

use super::verify::{Check, Rank, WARP};
use crate::analysis::{linear, multiple_of, simplify};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name};

const LANE: &str = "lane of threadIdx.x";
const OWN: &str = "warp of threadIdx.x";

impl Check<'_> {
    /// True for a value that all lanes of a warp share.
    pub(super) fn is_shared_by_warp(&mut self, e: &Expr) -> bool {
        match e.kind() {
            ExprKind::Var { name, .. } => self.vars.get(name).is_some_and(|v| v.rank < Rank::Thread),
            ExprKind::Load { .. } | ExprKind::Let { .. } | ExprKind::Extern { .. } => false,
            ExprKind::Binary { op, a, b } => {
                self.is_shared_by_warp(a) && self.is_shared_by_warp(b) || self.takes_the_lane_away(*op, e, a, b)
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
                e.for_each_child(|c| shared = shared && self.is_shared_by_warp(c));
                shared
            }
        }
    }

    /// True for an operator on `threadIdx.x` whose result all lanes of a warp share.
    fn takes_the_lane_away(&mut self, op: BinOp, e: &Expr, a: &Expr, b: &Expr) -> bool {
        if !self.block[0].is_multiple_of(WARP) || !self.differs_by_x_alone(e) {
            return false;
        }
        self.ranges.set(LANE, 0, i64::from(WARP) - 1);
        self.ranges.set(OWN, 0, i64::from(self.block[0] / WARP) - 1);
        match op {
            BinOp::FloorDiv | BinOp::Shr => !simplify(&split(e), &self.ranges).uses_var(&LANE.into()),
            _ => below_zero(op, &split(a), &split(b)).is_some_and(|d| self.keeps_its_sign(d)),
        }
    }

    /// True when nothing but `threadIdx.x` makes the lanes of a warp differ.
    fn differs_by_x_alone(&self, e: &Expr) -> bool {
        let mut alone = true;
        e.visit(&mut |e| match e.kind() {
            ExprKind::Var { name, .. } => {
                let shared = self.vars.get(name).is_some_and(|v| v.rank < Rank::Thread);
                alone &= shared || name.as_str() == "threadIdx.x";
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
        let Some((c, base)) = linear(&simplify(&e, &self.ranges), &lane, &self.ranges) else { return false };
        match c.as_int() {
            Some(c) if c > 0 => multiple_of(&base, &self.ranges) % (c * i64::from(WARP)) == 0,
            // `-lane + base < 0` is the opposite of `lane - base - 1 < 0`.
            Some(c) if c < 0 => {
                let opposite = base + Expr::int(1, e.dtype());
                multiple_of(&opposite, &self.ranges) % (-c * i64::from(WARP)) == 0
            }
            _ => false,
        }
    }
}

/// `threadIdx.x` by warp and lane.
fn split(e: &Expr) -> Expr {
    e.subst(&|name| {
        let x = name.as_str() == "threadIdx.x";
        x.then(|| Expr::var(OWN, DType::I32) * Expr::i32(i64::from(WARP)) + Expr::var(LANE, DType::I32))
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
        BinOp::Add
        | BinOp::Sub
        | BinOp::Mul
        | BinOp::Div
        | BinOp::FloorDiv
        | BinOp::FloorMod
        | BinOp::TruncDiv
        | BinOp::TruncMod
        | BinOp::Min
        | BinOp::Max
        | BinOp::Eq
        | BinOp::Ne
        | BinOp::And
        | BinOp::Or
        | BinOp::BitAnd
        | BinOp::BitOr
        | BinOp::BitXor
        | BinOp::Shl
        | BinOp::Shr => None,
    }
}
