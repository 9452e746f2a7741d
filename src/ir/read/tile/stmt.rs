//! Statements of tile programs.

use super::super::ast::{Node, NodeKind, PyStmt, PyStmtKind};
use super::super::attr::int_of;
use super::super::block::BlockParts;
use super::super::buffer::declared_dtype;
use super::super::call::fitted;
use super::super::error::{Problem, Span, problem};
use super::super::expr::wide;
use super::super::region::difference;
use super::super::scope::{Binding, Scope};
use super::super::stmt::name_of;
use super::super::value::{self, Value};
use super::call::head;
use super::ids::Ids;
use crate::ir::device::{DFor, DKind, DStmt, index_var};
use crate::ir::kernel::Barrier;
use crate::ir::{AttrValue, DType, Expr, ExprKind, Scope as Memory};

/// First value and extent of a loop.
type Bounds = (Expr, Expr);

/// Elements of a buffer that the threads of a block share or share out.
const MAX_ALLOCATED: i64 = 1 << 20;

/// The annotation of loops that are unrolled up to a number of steps.
const UNROLL: &str = "pragma_auto_unroll_max_step";

impl Scope<'_> {
    /// Reads one statement into `out`.
    pub(super) fn device_stmt(&mut self, s: &PyStmt, ids: &Ids, out: &mut Vec<DStmt>) -> Result<(), Problem> {
        self.enter(s.at)?;
        match &s.kind {
            PyStmtKind::For { target, iter, body } => out.push(self.device_loop(target, iter, body, ids)?),
            PyStmtKind::If { cond, then, otherwise } => {
                let cond = self.condition(cond)?;
                let then = self.device_body(then, ids)?;
                let otherwise = self.device_body(otherwise, ids)?;
                out.push(DStmt::If { cond, then, otherwise });
            }
            PyStmtKind::Assign { target, value } => self.device_assign(target, value, s.at, out)?,
            PyStmtKind::Annotated { target, annotation, value } => {
                out.push(self.device_let(target, annotation, value.as_ref(), s.at)?);
            }
            PyStmtKind::Update { target, op, value } => {
                let (old, new) = (self.value(target)?, self.value(value)?);
                let value = value::binary(*op, old, new, s.at)?;
                out.push(self.device_store(target, value, s.at)?);
            }
            PyStmtKind::Expr(node) => out.extend(self.device_call(node, ids)?),
            PyStmtKind::Nothing | PyStmtKind::Plain(_) => {}
            PyStmtKind::While { .. } => return problem(s.at, "a tile program has no while loops; write T.serial(n)"),
            PyStmtKind::With { .. } => return problem(s.at, "a tile program has no `with` statements"),
            PyStmtKind::Def(_) | PyStmtKind::Class { .. } => {
                return problem(s.at, "a definition has no place inside a tile program");
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn device_body(&mut self, stmts: &[PyStmt], ids: &Ids) -> Result<Vec<DStmt>, Problem> {
        self.push();
        let mut out = vec![];
        let done = stmts.iter().try_for_each(|s| self.device_stmt(s, ids, &mut out));
        self.pop();
        done.map(|()| out)
    }

    fn device_loop(&mut self, target: &Node, iter: &Node, body: &[PyStmt], ids: &Ids) -> Result<DStmt, Problem> {
        let NodeKind::Call { func, args, keywords } = &iter.kind else {
            return problem(iter.at, "a loop runs over T.serial(n), T.unroll(n), T.vectorized(n) or T.grid(n, m)");
        };
        let (kind, several) = match func.dotted().as_deref() {
            Some("range" | "T.serial") => (DKind::Serial, false),
            Some("T.unroll") => (DKind::Unrolled, false),
            Some("T.vectorized") => (DKind::Vectorized, false),
            Some("T.grid") => (DKind::Serial, true),
            _ => {
                let what = self.source(func.at);
                return problem(iter.at, format!("`{what}` is not a loop of a tile program; write T.serial(n)"));
            }
        };
        let targets: Vec<&Node> = match &target.kind {
            NodeKind::Tuple(items) if several => items.iter().collect(),
            _ => vec![target],
        };
        if several && targets.len() != args.len() {
            let message = format!("T.grid has {} extents for {} variables", args.len(), targets.len());
            return problem(iter.at, message);
        }
        let mut spans = vec![];
        if several {
            for a in args {
                spans.push(self.loop_span(std::slice::from_ref(a), a.at)?);
            }
        } else {
            spans.push(self.loop_span(args, iter.at)?);
        }
        let step = self.unroll_step(keywords)?;
        self.push();
        let made = self.nest(&targets, spans, kind, step, body, ids);
        self.pop();
        made
    }

    /// Loops around `body`, the first variable outermost.
    fn nest(
        &mut self,
        targets: &[&Node],
        spans: Vec<Bounds>,
        kind: DKind,
        step: Option<i64>,
        body: &[PyStmt],
        ids: &Ids,
    ) -> Result<DStmt, Problem> {
        let mut heads = vec![];
        for (t, (min, extent)) in targets.iter().zip(spans) {
            let user = name_of(t)?;
            let var = self.bind_var(&user, DType::I64);
            if !min.is_int(0) {
                self.bind(&user, Binding::Var(index_var(&var) + min));
            }
            heads.push((var, extent));
        }
        let mut body = self.device_body(body, ids)?;
        while let Some((var, extent)) = heads.pop() {
            let l = DFor { unroll_step: step, ..DFor::new(var, extent, kind, body) };
            body = vec![DStmt::For(l)];
        }
        body.pop().map_or_else(|| problem(Span::default(), "this loop has no variable"), Ok)
    }

    fn loop_span(&mut self, args: &[Node], at: Span) -> Result<Bounds, Problem> {
        let (min, extent) = match args {
            [extent] => (Expr::i64(0), wide(&self.index(extent)?)),
            [start, stop] => {
                let (start, stop) = (wide(&self.index(start)?), wide(&self.index(stop)?));
                let extent = difference(&stop, &start);
                (start, extent)
            }
            _ => return problem(at, "a loop takes an extent, or a first value and an end"),
        };
        match extent.as_int() {
            Some(n) if n < 0 => problem(at, format!("the extent {n} is negative")),
            _ => Ok((min, extent)),
        }
    }

    /// The annotation of a loop that Daylight knows.
    fn unroll_step(&mut self, keywords: &[(String, Node)]) -> Result<Option<i64>, Problem> {
        let mut step = None;
        for (key, value) in keywords {
            match (key.as_str(), &value.kind) {
                (_, NodeKind::None) => {}
                ("annotations", NodeKind::Dict(_)) => {
                    for (name, v) in self.attr_dict(value)? {
                        match v {
                            AttrValue::Int(n) if name == UNROLL => step = Some(n),
                            _ => {
                                let message = format!("a loop of a tile program has no annotation `{name}`");
                                return problem(value.at, message);
                            }
                        }
                    }
                }
                ("unroll", _) => step = int_of(value),
                _ => return problem(value.at, format!("a loop has no argument `{key}`")),
            }
        }
        Ok(step)
    }

    fn device_assign(&mut self, target: &Node, value: &Node, at: Span, out: &mut Vec<DStmt>) -> Result<(), Problem> {
        let user = match &target.kind {
            NodeKind::Index(..) => {
                let v = self.value(value)?;
                out.push(self.device_store(target, v, at)?);
                return Ok(());
            }
            NodeKind::Name(user) => user,
            NodeKind::Tuple(targets) => {
                let NodeKind::Tuple(values) = &value.kind else {
                    return problem(at, "several names take as many values");
                };
                if targets.len() != values.len() {
                    return problem(at, format!("{} names take {} values", targets.len(), values.len()));
                }
                return targets.iter().zip(values).try_for_each(|(t, v)| self.device_assign(t, v, at, out));
            }
            _ => return problem(target.at, "a name or an element of a buffer was expected before `=`"),
        };
        if self.allocation(user, value)? {
            return Ok(());
        }
        if let Some(constant) = self.named_constant(value)?
            && !matches!(constant, Binding::Var(_))
        {
            self.bind(user, constant);
            return Ok(());
        }
        let value = self.expr(value)?;
        out.push(self.bind_let(user, value, at)?);
        Ok(())
    }

    fn bind_let(&mut self, user: &str, mut value: Expr, at: Span) -> Result<DStmt, Problem> {
        // Indices are wide already, but print with the conversion that TVM needs.
        while let ExprKind::Cast { dtype: DType::I64, arg } = value.kind()
            && arg.dtype() == DType::I64
        {
            value = arg.clone();
        }
        if value.dtype() == DType::Handle {
            return problem(at, "a handle cannot be kept in a variable");
        }
        let var = self.bind_var(user, value.dtype());
        Ok(DStmt::Let { var, value })
    }

    /// `A = T.alloc_buffer(shape, dtype, scope=..., layout=...)`; true when it was one.
    fn allocation(&mut self, user: &str, value: &Node) -> Result<bool, Problem> {
        let Some((name, args, keywords)) = value.tir_call() else { return Ok(false) };
        let scope = match name.as_str() {
            "alloc_buffer" | "alloc_tensor" | "sblock_alloc_buffer" => Memory::Global,
            "alloc_local" => Memory::Local,
            "alloc_shared" => Memory::Shared,
            "match_buffer" | "decl_buffer" | "Buffer" => {
                return problem(value.at, format!("T.{name} takes a handle parameter of the program here"));
            }
            _ => return Ok(false),
        };
        let buffer = self.declare_buffer(user, args, keywords, scope, value.at)?;
        match &self.declared(&buffer).scope {
            Memory::Local | Memory::Shared | Memory::SharedDyn | Memory::Tensor => {}
            Memory::Global => {
                let message =
                    format!("`{user}` needs scope=\"shared\" or scope=\"local\"; memory of the device is passed in");
                return problem(value.at, message);
            }
            Memory::Cluster => {
                let message =
                    format!("`{user}` is shared by a cluster, which tile programs have none of; use \"shared\"");
                return problem(value.at, message);
            }
            Memory::Other(other) => {
                let message = format!(
                    "unknown scope \"{other}\" of `{user}`; it is \"shared\", \"shared.dyn\", \"local\" or \"tmem\""
                );
                return problem(value.at, message);
            }
        }
        if self.declared(&buffer).len().is_none_or(|n| n > MAX_ALLOCATED) {
            let message = format!("`{user}` has more than {MAX_ALLOCATED} elements, which no block can hold");
            return problem(value.at, message);
        }
        self.bind(user, Binding::Buffer(buffer));
        Ok(true)
    }

    /// `x: T.let[T.int32] = value`, or `x: T.int32 = value`.
    fn device_let(
        &mut self,
        target: &Node,
        annotation: &Node,
        value: Option<&Node>,
        at: Span,
    ) -> Result<DStmt, Problem> {
        let user = name_of(target)?;
        let Some(value) = value else { return problem(at, format!("`{user}` has no value")) };
        let dtype = declared_dtype(annotation)?;
        let value = self.value(value)?;
        let value = match dtype {
            Some(dtype) => fitted(value, dtype, at)?,
            None => value.expr(),
        };
        self.bind_let(&user, value, at)
    }

    fn device_store(&mut self, target: &Node, value: Value, at: Span) -> Result<DStmt, Problem> {
        let NodeKind::Index(base, items) = &target.kind else {
            return problem(target.at, "an element of a buffer was expected, such as `A[i]`");
        };
        let (buffer, indices) = self.element(base, items, target)?;
        let value = fitted(value, self.declared(&buffer).dtype, at)?;
        Ok(DStmt::store(buffer, indices, value))
    }

    /// A call that stands alone.
    fn device_call(&mut self, node: &Node, ids: &Ids) -> Result<Option<DStmt>, Problem> {
        let NodeKind::Call { func, args, keywords } = &node.kind else {
            return match node.kind {
                NodeKind::Str(_) => Ok(None), // a docstring
                _ => problem(node.at, "this expression does nothing; a store is written `A[i] = value`"),
            };
        };
        if let Some(head) = head(func) {
            let call = self.tile_call(&head, args, keywords, ids, node.at)?;
            return Ok(Some(DStmt::Tile(Box::new(call))));
        }
        let name = func.tir_name();
        if let Some(name) = &name
            && let Some(i) = self.instruction(name, args, keywords, node.at)?
        {
            return Ok(Some(DStmt::Instr(i)));
        }
        match (name.as_deref(), args.as_slice()) {
            (Some("cuda.cta_sync"), []) => Ok(Some(DStmt::Barrier(Barrier::Block))),
            (Some("cuda.warp_sync"), []) => Ok(Some(DStmt::Barrier(Barrier::Warp))),
            (Some("cuda.warpgroup_sync"), [id]) => Ok(Some(DStmt::Barrier(self.group_barrier(id, ids)?))),
            (Some("cuda.cta_sync" | "cuda.warp_sync"), _) => problem(node.at, "this barrier takes no arguments"),
            (Some("cuda.warpgroup_sync"), _) => problem(node.at, "T.cuda.warpgroup_sync takes a barrier, 1 to 15"),
            (Some("evaluate"), [_]) => Ok(None),
            (Some(name), _) if BlockParts::is_part(name) => {
                problem(node.at, format!("T.{name} belongs to the blocks of tensor functions, not to a tile program"))
            }
            (Some("device_entry" | "cta_id" | "thread_id" | "lane_id" | "warp_id" | "warpgroup_id"), _) => {
                problem(node.at, "blocks and threads are declared at the top of the program, not inside a statement")
            }
            _ => {
                let what = self.source(func.at);
                problem(node.at, format!("`{what}` is not a statement of a tile program"))
            }
        }
    }

    fn group_barrier(&mut self, id: &Node, ids: &Ids) -> Result<Barrier, Problem> {
        if ids.threads() % 128 != 0 {
            let message = format!("a warpgroup has 128 threads, but a block has {}", ids.threads());
            return problem(id.at, message);
        }
        match self.index(id)?.as_int().and_then(|v| u32::try_from(v).ok()) {
            Some(id @ 1..=15) => Ok(Barrier::Named { id, threads: 128 }),
            _ => problem(id.at, "the number of a barrier is a constant from 1 to 15"),
        }
    }
}
