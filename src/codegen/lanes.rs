//! Which loops of a kernel become vector operations in C, with how many lanes, and which register
//! arrays are declared as arrays of vectors.

use super::expr::level::PRIMARY;
use super::expr::{Elements, Text, rounds_once};
use super::facts::Facts;
use super::prelude::Prelude;
use super::text::ident;
use super::{is_narrow, value_type};
use crate::ir::kernel::{Array, CacheHint, KStmt, Kernel, LoopKind};
use crate::ir::{BinOp, DType, Expr, ExprKind, Intrin, Name, UnOp};
use std::collections::{BTreeMap, BTreeSet};

/// Vectors that one array may have and still be meant for registers.
const MAX_REGISTER_VECTORS: u32 = 64;

/// Arrays declared as arrays of vectors, with the lanes of each.
pub(super) struct VectorArrays(BTreeMap<Name, u32>);

impl VectorArrays {
    /// Arrays of the kernel that all vector loops access alike, at multiples of the vector.
    pub fn of(kernel: &Kernel, vector_bytes: u32) -> VectorArrays {
        let mut scan =
            Scan { kernel, vector_bytes, facts: Facts::default(), lanes: BTreeMap::new(), bad: BTreeSet::new() };
        scan.list(&kernel.body);
        let Scan { mut lanes, bad, .. } = scan;
        lanes.retain(|name, n| {
            // C has no vectors of `bool`.
            let fits =
                |a: &Array| a.dtype != DType::Bool && a.len.is_multiple_of(*n) && a.len / *n <= MAX_REGISTER_VECTORS;
            kernel.array(name).is_some_and(fits) && !bad.contains(name)
        });
        VectorArrays(lanes)
    }

    /// Lanes of an array of vectors.
    pub fn lanes(&self, array: &Name) -> Option<u32> {
        self.0.get(array).copied()
    }
}

impl Elements for VectorArrays {
    fn element(&self, array: &Name, index: &Expr, text: &Text) -> Option<String> {
        let lanes = self.lanes(array)?;
        let text = if text.level == PRIMARY { text.text.clone() } else { format!("({})", text.text) };
        Some(match index.as_int() {
            Some(i) => format!("{}[{}][{}]", ident(array), i / i64::from(lanes), i % i64::from(lanes)),
            None => format!("{}[{text} / {lanes}][{text} % {lanes}]", ident(array)),
        })
    }

    fn widened(&self, _: &Name, _: &Text, _: DType, _: &mut Prelude) -> Option<String> {
        None
    }
}

/// Looks at every vector loop of a kernel.
struct Scan<'a> {
    kernel: &'a Kernel,
    vector_bytes: u32,
    facts: Facts,
    lanes: BTreeMap<Name, u32>,
    bad: BTreeSet<Name>,
}

impl Scan<'_> {
    fn list(&mut self, stmts: &[KStmt]) {
        for s in stmts {
            match s {
                KStmt::For { var, extent, kind: LoopKind::Vectorized, body, .. } => {
                    if let Some(plan) = plan(var, extent, body, self.vector_bytes) {
                        self.vector_body(var, body, plan.lanes);
                    }
                }
                KStmt::Let { var, value } => self.facts.add_equal(var, value),
                s => s.for_each_child(|s| self.list(std::slice::from_ref(s))),
            }
        }
    }

    fn vector_body(&mut self, lane: &Name, body: &[KStmt], lanes: u32) {
        for s in body {
            if let KStmt::Store { array, index, .. } = s {
                self.access(array, index, lane, lanes);
            }
            s.for_each_expr(|e| {
                e.visit(&mut |x| {
                    if let ExprKind::Load { buffer, indices, .. } = x.kind() {
                        self.access(buffer, &indices[0], lane, lanes);
                    }
                });
            });
        }
    }

    fn access(&mut self, array: &Name, index: &Expr, lane: &Name, lanes: u32) {
        if self.kernel.array(array).is_none() || !index.uses_var(lane) {
            return;
        }
        let aligned = self.facts.multiple_of(&at_lane(index, lane, 0)).is_multiple_of(u64::from(lanes));
        if !aligned || *self.lanes.entry(array.clone()).or_insert(lanes) != lanes {
            self.bad.insert(array.clone());
        }
    }
}

/// Statements with every copy written as the vector loop that it is.
pub(super) fn expand_copies(stmts: &[KStmt], kernel: &Kernel) -> Vec<KStmt> {
    let expand = |s: &KStmt| match s {
        KStmt::Copy { dst, dst_index, src, src_index, lanes, hint: _ } => {
            copy_loop(kernel, (dst, dst_index), (src, src_index), *lanes)
        }
        KStmt::For { var, extent, live, kind, body } => {
            let (var, extent, live, kind) = (var.clone(), extent.clone(), live.clone(), *kind);
            KStmt::For { var, extent, live, kind, body: expand_copies(body, kernel) }
        }
        KStmt::If { cond, then, otherwise } => KStmt::If {
            cond: cond.clone(),
            then: expand_copies(then, kernel),
            otherwise: expand_copies(otherwise, kernel),
        },
        leaf => leaf.clone(),
    };
    stmts.iter().map(expand).collect()
}

fn copy_loop(kernel: &Kernel, dst: (&Name, &Expr), src: (&Name, &Expr), lanes: u32) -> KStmt {
    let dtype = kernel.element(src.0).unwrap_or_else(|| panic!("copy from unknown array `{}`", src.0));
    let at = |index: &Expr| index.clone() + Expr::var(COPY_LANE, index.dtype());
    let store = KStmt::Store {
        array: dst.0.clone(),
        index: at(dst.1),
        value: Expr::load(src.0.clone(), vec![at(src.1)], dtype),
        hint: CacheHint::Plain,
    };
    let extent = Expr::int(i64::from(lanes), dst.1.dtype());
    KStmt::For { var: COPY_LANE.into(), extent, live: None, kind: LoopKind::Vectorized, body: vec![store] }
}

/// The loop variable of a copy; copies do not nest.
const COPY_LANE: &str = "copy_lane";

/// How a vector loop is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// Lanes of one operation.
    pub lanes: u32,
    /// Operations per statement.
    pub parts: u32,
}

/// Vectors that a loop is written out as at most; one of more lanes stays a loop.
const MOST_PARTS: u32 = 1024;

/// The plan of a loop, or `None` when its body has no vector form and must run as a scalar loop.
pub(super) fn plan(var: &Name, extent: &Expr, body: &[KStmt], vector_bytes: u32) -> Option<Plan> {
    let extent = u32::try_from(extent.as_int()?).ok().filter(|e| *e > 1 && e.is_power_of_two())?;
    let mut lets = BTreeSet::new();
    if !body.iter().all(|s| statement_fits(s, var, &mut lets)) {
        return None;
    }
    let widest = body.iter().map(widest_value).max().unwrap_or(4).max(1);
    let lanes = extent.min((vector_bytes / widest).max(1));
    let parts = extent / lanes;
    (lanes > 1 && lanes.is_power_of_two() && parts <= MOST_PARTS).then_some(Plan { lanes, parts })
}

fn statement_fits(s: &KStmt, lane: &Name, lets: &mut BTreeSet<Name>) -> bool {
    match s {
        KStmt::Store { index, value, .. } => stride(index, lane) == Some(1) && fits(value, lane, lets),
        KStmt::Let { var, value } => {
            lets.insert(var.clone());
            fits(value, lane, lets)
        }
        KStmt::Var { .. }
        | KStmt::Assign { .. }
        | KStmt::Prefetch { .. }
        | KStmt::Copy { .. }
        | KStmt::For { .. }
        | KStmt::If { .. }
        | KStmt::Barrier(_)
        | KStmt::Instr(_)
        | KStmt::Shuffle { .. } => false,
    }
}

/// True for an expression that differs between lanes.
pub(super) fn varies(e: &Expr, lane: &Name, lets: &BTreeSet<Name>) -> bool {
    let mut found = false;
    e.visit(&mut |x| found |= x.as_var().is_some_and(|n| n == lane || lets.contains(n)));
    found
}

fn fits(e: &Expr, lane: &Name, lets: &mut BTreeSet<Name>) -> bool {
    if !varies(e, lane, lets) {
        return true;
    }
    let mut all = |es: &[&Expr]| es.iter().all(|e| fits(e, lane, lets));
    match e.kind() {
        ExprKind::Var { .. } => true,
        ExprKind::Load { indices, .. } => {
            stride(&indices[0], lane) == Some(1) && !varies(&at_lane(&indices[0], lane, 0), lane, lets)
        }
        ExprKind::Unary { op, arg } => (*op != UnOp::Not || arg.dtype() == DType::Bool) && all(&[arg]),
        ExprKind::Binary { op, a, b } => binary_fits(*op, a, b) && all(&[a, b]),
        ExprKind::Select { cond, then, otherwise } => then.dtype() != DType::Bool && all(&[cond, then, otherwise]),
        // Both sides are evaluated in a vector: they must not load.
        ExprKind::IfThenElse { cond, then, otherwise } => {
            then.dtype() != DType::Bool && !has_load(then) && !has_load(otherwise) && all(&[cond, then, otherwise])
        }
        // Wide numbers need care on their way to 16 bits (see `round_to_odd`).
        ExprKind::Cast { dtype, arg } => {
            let easy = arg.dtype() == DType::F32 || is_narrow(arg.dtype()) || rounds_once(arg, *dtype);
            (!is_narrow(*dtype) || easy) && all(&[arg])
        }
        ExprKind::Call { op, args, dtype } => {
            let counts = matches!(op, Intrin::PopCount | Intrin::Clz | Intrin::IsNan | Intrin::IsInf);
            dtype.is_float() && !counts && all(&args.iter().collect::<Vec<_>>())
        }
        ExprKind::Let { var, value, body } => {
            let ok = fits(value, lane, lets);
            lets.insert(var.clone());
            ok && fits(body, lane, lets)
        }
        ExprKind::Int { .. }
        | ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Reinterpret { .. }
        | ExprKind::Extern { .. } => false,
    }
}

fn binary_fits(op: BinOp, a: &Expr, b: &Expr) -> bool {
    let float = a.dtype().is_float();
    let boolean = a.dtype() == DType::Bool;
    match op {
        BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Min | BinOp::Max => !boolean,
        BinOp::Div => float,
        BinOp::FloorDiv | BinOp::FloorMod => !float && b.as_int().is_some_and(|v| v > 0 && v.count_ones() == 1),
        BinOp::TruncDiv | BinOp::TruncMod => false,
        BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => !boolean,
        BinOp::And | BinOp::Or => !has_load(b),
        BinOp::BitAnd | BinOp::BitOr | BinOp::BitXor | BinOp::Shl | BinOp::Shr => !boolean,
    }
}

fn has_load(e: &Expr) -> bool {
    let mut found = false;
    e.visit(&mut |x| found |= matches!(x.kind(), ExprKind::Load { .. }));
    found
}

/// Bytes of the widest value that a statement computes in lanes (indices left out).
fn widest_value(s: &KStmt) -> u32 {
    let (KStmt::Store { value, .. } | KStmt::Let { value, .. }) = s else { return 1 };
    widest(value)
}

fn widest(e: &Expr) -> u32 {
    let own = if value_type(e.dtype()) == "float" { 4 } else { e.dtype().bytes() as u32 };
    if matches!(e.kind(), ExprKind::Load { .. }) {
        return own;
    }
    let mut most = own;
    e.for_each_child(|c| most = most.max(widest(c)));
    most
}

/// How far an index moves per step of a variable, where that is constant.
pub(super) fn stride(e: &Expr, var: &Name) -> Option<i64> {
    if !e.uses_var(var) {
        return Some(0);
    }
    match e.kind() {
        ExprKind::Var { .. } => Some(1),
        ExprKind::Binary { op: BinOp::Add, a, b } => Some(stride(a, var)? + stride(b, var)?),
        ExprKind::Binary { op: BinOp::Sub, a, b } => Some(stride(a, var)? - stride(b, var)?),
        ExprKind::Binary { op: BinOp::Mul, a, b } => match (a.as_int(), b.as_int()) {
            (Some(k), _) => Some(k * stride(b, var)?),
            (_, Some(k)) => Some(k * stride(a, var)?),
            (None, None) => None,
        },
        ExprKind::Cast { dtype, arg } if dtype.is_int() && arg.dtype().is_int() => stride(arg, var),
        ExprKind::Binary { .. }
        | ExprKind::Int { .. }
        | ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Cast { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => None,
    }
}

/// `e / n` without a remainder, where the form of `e` shows it.
pub(super) fn divided(e: &Expr, n: i64) -> Option<Expr> {
    match e.kind() {
        ExprKind::Int { value, dtype } if value % n == 0 => Some(Expr::int(value / n, *dtype)),
        ExprKind::Binary { op: BinOp::Mul, a, b } => match b.as_int() {
            Some(k) if k == n => Some(a.clone()),
            Some(k) if k % n == 0 => Some(a.clone() * Expr::int(k / n, b.dtype())),
            Some(_) | None => Some(divided(a, n)? * b.clone()),
        },
        ExprKind::Binary { op: op @ (BinOp::Add | BinOp::Sub), a, b } => {
            Some(Expr::binary(*op, divided(a, n)?, divided(b, n)?))
        }
        ExprKind::Int { .. }
        | ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Var { .. }
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Binary { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Cast { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => None,
    }
}

/// An index with the lane variable replaced by a constant; sums with zero disappear.
pub(super) fn at_lane(e: &Expr, lane: &Name, value: i64) -> Expr {
    match e.kind() {
        ExprKind::Var { name, dtype } if name == lane => Expr::int(value, *dtype),
        ExprKind::Binary { op: BinOp::Add, a, b } => {
            let (a, b) = (at_lane(a, lane, value), at_lane(b, lane, value));
            match (a.as_int(), b.as_int()) {
                (Some(0), _) => b,
                (_, Some(0)) => a,
                (Some(x), Some(y)) => Expr::int(x + y, a.dtype()),
                (_, _) => a + b,
            }
        }
        _ => e.map_children(|c| at_lane(c, lane, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(name: &str) -> Expr {
        Expr::var(name, DType::I32)
    }

    #[test]
    fn strides() {
        let lane = "l".into();
        assert_eq!(stride(&(v("i") * Expr::i32(16) + v("l")), &lane), Some(1));
        assert_eq!(stride(&(v("l") * Expr::i32(4)), &lane), Some(4));
        assert_eq!(stride(&v("i"), &lane), Some(0));
        assert_eq!(stride(&(v("i") * v("l")), &lane), None);
    }

    #[test]
    fn lanes_follow_the_widest_value() {
        let load = |dtype| Expr::load("p0", vec![v("l")], dtype);
        let store = |value| KStmt::Store { array: "p1".into(), index: v("l"), value, hint: CacheHint::Plain };
        let lanes = |value| plan(&"l".into(), &Expr::i32(64), &[store(value)], 64);
        assert_eq!(lanes(load(DType::F32)), Some(Plan { lanes: 16, parts: 4 }));
        assert_eq!(lanes(Expr::cast(DType::F64, load(DType::F32))), Some(Plan { lanes: 8, parts: 8 }));
        assert_eq!(lanes(load(DType::I8)), Some(Plan { lanes: 64, parts: 1 }));
        assert_eq!(lanes(Expr::load("p0", vec![v("l") * Expr::i32(2)], DType::F32)), None, "a gather");
    }
}
