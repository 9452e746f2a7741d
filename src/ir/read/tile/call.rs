//! Calls of tile primitives: `Tx.cta.sum(B_smem, A_smem, axes=(-1,), accum=False)`.

use super::super::ast::{Node, NodeKind};
use super::super::attr::int_of;
use super::super::buffer::str_of;
use super::super::call::fitted;
use super::super::error::{Problem, Span, problem};
use super::super::scope::{Binding, Scope};
use super::ids::Ids;
use super::ptx::is_pointer;
use crate::ir::nearest;
use crate::ir::{ExecScope, Tile, TileArg, TileCall, TileOp};

type Keywords = [(String, Node)];

/// Named arguments with a meaning of their own, for the hint after a misspelt one.
const NAMED: [&str; 5] = ["axes", "accum", "dispatch", "alpha", "beta"];

/// The named argument that is a barrier in shared memory: always a place, never its value.
const BARRIER: &str = "mbar";

/// `Tx.copy` or `Tx.cta.copy`, taken apart; `None` for other calls.
pub(super) fn head(func: &Node) -> Option<Vec<String>> {
    let name = func.dotted()?;
    let rest = name.strip_prefix("Tx.")?;
    Some(rest.split('.').map(str::to_string).collect())
}

impl Scope<'_> {
    /// Reads a call whose name was taken apart by `head`.
    pub(super) fn tile_call(
        &mut self,
        head: &[String],
        args: &[Node],
        keywords: &Keywords,
        ids: &Ids,
        at: Span,
    ) -> Result<TileCall, Problem> {
        let (scope, op) = names(head, at)?;
        check_scope(scope, ids.threads(), at)?;
        let Some((dst, rest)) = args.split_first() else {
            return problem(at, format!("Tx.{} needs a destination, such as `B` or `B[0:8]`", op.name()));
        };
        let dst = self.region_of(dst)?;
        let rest = self.positional(op, &dst, rest, at)?;
        let mut call = TileCall::new(op, scope, dst, vec![]);
        for (k, n) in rest.iter().enumerate() {
            let arg = self.operand(&call, n, k)?;
            call.args.push(arg);
        }
        if op.is_reduction() {
            call.axes = vec![self.rank(&call) - 1];
        }
        for (key, value) in keywords {
            self.named(&mut call, key, value)?;
        }
        call.conforms().or_else(|why| problem(at, why))?;
        Ok(call)
    }

    /// The operands besides the destination; those that only repeat it are left out.
    fn positional<'n>(&mut self, op: TileOp, dst: &Tile, rest: &'n [Node], at: Span) -> Result<&'n [Node], Problem> {
        let count = op.arity();
        let again = matches!(op, TileOp::Zero | TileOp::Gemm) && rest.len() == count + 1;
        if again && let Some(last) = rest.last() {
            if self.region_of(last)? == *dst {
                return Ok(&rest[..count]);
            }
            let message = format!("the last operand of Tx.{} is the destination itself, or is left out", op.name());
            return problem(last.at, message);
        }
        if rest.len() != count {
            let s = if count == 1 { "" } else { "s" };
            let (name, given) = (op.name(), rest.len());
            return problem(at, format!("Tx.{name} takes a destination and {count} operand{s}, but {given} are given"));
        }
        Ok(rest)
    }

    fn operand(&mut self, call: &TileCall, node: &Node, position: usize) -> Result<TileArg, Problem> {
        let op = call.op;
        if op == TileOp::Fill || (takes_scalars(op) && !self.is_region(node)) {
            let dtype = self.declared(&call.dst.buffer).dtype;
            let value = self.value(node)?;
            return Ok(TileArg::Scalar(fitted(value, dtype, node.at)?));
        }
        if !self.is_region(node) && !matches!(node.kind, NodeKind::Index(..) | NodeKind::Name(_)) {
            let message =
                format!("operand {} of Tx.{} is a part of a buffer, such as `A[0:8]`", position + 1, op.name());
            return problem(node.at, message);
        }
        Ok(TileArg::Tile(self.region_of(node)?))
    }

    /// True for a buffer named as a whole or with a slice; `A[i, j]` is one value.
    fn is_region(&self, node: &Node) -> bool {
        let is_buffer = |n: &Node| n.dotted().is_some_and(|n| matches!(self.lookup(&n), Some(Binding::Buffer(_))));
        match &node.kind {
            NodeKind::Index(base, items) => is_buffer(base) && items.iter().any(|n| self.is_span(n)),
            _ => is_buffer(node),
        }
    }

    fn is_span(&self, node: &Node) -> bool {
        match &node.kind {
            NodeKind::Slice(..) => true,
            NodeKind::Call { func, .. } => func.dotted().as_deref() == Some("slice"),
            NodeKind::Name(user) => matches!(self.lookup(user), Some(Binding::Slices(_))),
            _ => false,
        }
    }

    /// Dimensions of the source of a reduction.
    fn rank(&self, call: &TileCall) -> usize {
        match call.args.first() {
            Some(TileArg::Tile(t)) => t.extent.len().max(1),
            Some(TileArg::Scalar(_)) | None => 1,
        }
    }

    fn named(&mut self, call: &mut TileCall, key: &str, value: &Node) -> Result<(), Problem> {
        let name = call.op.name();
        match key {
            "axes" | "axis" if call.op.is_reduction() => call.axes = axes(value, self.rank(call))?,
            "accum" if call.op.is_reduction() || call.op == TileOp::Gemm => call.accum = flag(value)?,
            "beta" if call.op == TileOp::Gemm => call.accum = unit(value, &[0.0, 1.0])? == 1.0,
            "alpha" if call.op == TileOp::Gemm => drop(unit(value, &[1.0])?),
            "axes" | "axis" | "accum" | "alpha" | "beta" => {
                return problem(value.at, format!("Tx.{name} has no argument `{key}`"));
            }
            "dispatch" => call.forced = Some(str_of(value, "the name of a variant")?.to_string()),
            _ => self.option(call, key, value)?,
        }
        Ok(())
    }

    /// An argument that variants know: a constant, a part of a buffer, or an expression.
    fn option(&mut self, call: &mut TileCall, key: &str, value: &Node) -> Result<(), Problem> {
        if let Some(near) = nearest(key, NAMED) {
            let name = call.op.name();
            return problem(value.at, format!("Tx.{name} has no argument `{key}`; did you mean `{near}`?"));
        }
        if call.config.contains_key(key) || call.operands.contains_key(key) {
            return problem(value.at, format!("`{key}` is given twice"));
        }
        match &value.kind {
            NodeKind::None => {}
            NodeKind::Bool(_) | NodeKind::Int(_) | NodeKind::Float(_) | NodeKind::Str(_) | NodeKind::List(_) => {
                let value = self.attr(value)?;
                call.config.insert(key.to_string(), value);
            }
            _ if is_pointer(value) => {
                let tile = self.pointed(value)?;
                call.operands.insert(key.to_string(), TileArg::Tile(tile));
            }
            _ if self.is_region(value) || key == BARRIER => {
                let tile = self.region_of(value)?;
                call.operands.insert(key.to_string(), TileArg::Tile(tile));
            }
            _ => {
                let e = self.expr(value)?;
                call.operands.insert(key.to_string(), TileArg::Scalar(e));
            }
        }
        Ok(())
    }
}

/// Elementwise operations take single values in place of tiles.
fn takes_scalars(op: TileOp) -> bool {
    match op {
        TileOp::Copy | TileOp::CopyAsync | TileOp::PermuteLayout | TileOp::Gemm | TileOp::Cast | TileOp::Zero => false,
        TileOp::Sum | TileOp::Prod | TileOp::Max | TileOp::Min => false,
        TileOp::Fill
        | TileOp::Reciprocal
        | TileOp::Sqrt
        | TileOp::Exp
        | TileOp::Exp2
        | TileOp::Log2
        | TileOp::Silu
        | TileOp::Add
        | TileOp::Sub
        | TileOp::Mul
        | TileOp::Fdiv
        | TileOp::Maximum
        | TileOp::Minimum
        | TileOp::Fma => true,
    }
}

fn names(head: &[String], at: Span) -> Result<(ExecScope, TileOp), Problem> {
    let (scope, op) = match head {
        [op] => (ExecScope::Thread, op),
        [scope, op] => match ExecScope::by_name(scope) {
            Some(s) => (s, op),
            None => {
                let known = ExecScope::ALL.map(|s| s.1);
                let hint = nearest(scope, known).map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
                let list = known.join(", ");
                return problem(at, format!("`{scope}` is not a scope of tile primitives, which are {list}{hint}"));
            }
        },
        _ => return problem(at, "a tile primitive is written Tx.<scope>.<operation>(...), such as Tx.cta.copy(B, A)"),
    };
    match TileOp::by_name(op) {
        Some(op) => Ok((scope, op)),
        None => {
            let known = TileOp::ALL.map(|o| o.1);
            let hint = nearest(op, known)
                .map_or_else(|| format!("; there are {}", known.join(", ")), |n| format!("; did you mean `{n}`?"));
            problem(at, format!("`{op}` is not a tile primitive{hint}"))
        }
    }
}

/// A scope needs whole warps or warpgroups.
fn check_scope(scope: ExecScope, threads: i64, at: Span) -> Result<(), Problem> {
    let granule = match scope {
        ExecScope::Thread | ExecScope::Cta => 1,
        ExecScope::Warp => 32,
        ExecScope::Warpgroup => 128,
    };
    if threads % granule == 0 {
        return Ok(());
    }
    let name = scope.name();
    problem(at, format!("scope `{name}` needs a multiple of {granule} threads, but a block has {threads}"))
}

/// The reduced axes, counted from 0 and in order.
fn axes(node: &Node, rank: usize) -> Result<Vec<usize>, Problem> {
    let items: Vec<&Node> = match &node.kind {
        NodeKind::Tuple(items) | NodeKind::List(items) => items.iter().collect(),
        _ => vec![node],
    };
    let mut out = vec![];
    for n in items {
        let Some(v) = int_of(n) else { return problem(n.at, "an axis is a number, such as -1 for the last") };
        let from_start = if v < 0 { v + rank as i64 } else { v };
        let axis = usize::try_from(from_start).ok().filter(|a| *a < rank);
        let Some(axis) = axis else {
            return problem(n.at, format!("axis {v} does not exist in a source of {rank} dimensions"));
        };
        if out.contains(&axis) {
            return problem(n.at, format!("axis {v} is given twice"));
        }
        out.push(axis);
    }
    if out.is_empty() {
        return problem(node.at, "a reduction needs at least one axis, such as axes=(-1,)");
    }
    out.sort_unstable();
    Ok(out)
}

fn flag(node: &Node) -> Result<bool, Problem> {
    match node.kind {
        NodeKind::Bool(b) => Ok(b),
        _ => problem(node.at, "True or False was expected"),
    }
}

/// One of a few constants.
fn unit(node: &Node, allowed: &[f64]) -> Result<f64, Problem> {
    let value = match node.kind {
        NodeKind::Float(v) => Some(v),
        _ => int_of(node).map(|v| v as f64),
    };
    match value.filter(|v| allowed.contains(v)) {
        Some(v) => Ok(v),
        None => {
            let list: Vec<String> = allowed.iter().map(f64::to_string).collect();
            problem(node.at, format!("this factor of gemm can be {} only", list.join(" or ")))
        }
    }
}
