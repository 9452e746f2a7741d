//! Statements.

use super::ast::{Node, NodeKind, PyStmt, PyStmtKind};
use super::block::BlockParts;
use super::buffer::{declared_dtype, dtype_of, str_of};
use super::call::{arity, fitted};
use super::error::{Problem, Span, problem};
use super::guard::MAX_NESTING;
use super::region::difference;
use super::scope::{Binding, Scope};
use super::value::{self, Value, match_types};
use crate::ir::{AttrValue, DType, Expr, For, ForKind, Name, Stmt, ThreadTag};

/// `T.thread_binding(4, thread="threadIdx.x", annotations={...})`, taken apart.
struct LoopHead {
    kind: ForKind,
    min: Expr,
    extent: Expr,
    annotations: Vec<(String, AttrValue)>,
}

impl Scope<'_> {
    /// Statements in a scope of their own.
    pub fn body(&mut self, stmts: &[PyStmt]) -> Result<Vec<Stmt>, Problem> {
        self.push();
        let out = self.list(stmts);
        self.pop();
        out.map(filled)
    }

    /// Statements in the current scope.
    pub fn list(&mut self, stmts: &[PyStmt]) -> Result<Vec<Stmt>, Problem> {
        let mut out = vec![];
        for (k, s) in stmts.iter().enumerate() {
            if let Some((node, key, value)) = self.bare_attr(s)? {
                self.enter(s.at)?;
                let body = filled(self.list(&stmts[k + 1..])?);
                self.depth -= 1;
                out.push(Stmt::Attr { node, key: key.into(), value, body });
                return Ok(out);
            }
            self.stmt(s, &mut out)?;
        }
        Ok(out)
    }

    pub fn enter(&mut self, at: Span) -> Result<(), Problem> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return problem(at, format!("statements are nested more than {MAX_NESTING} levels deep"));
        }
        Ok(())
    }

    fn stmt(&mut self, s: &PyStmt, out: &mut Vec<Stmt>) -> Result<(), Problem> {
        self.enter(s.at)?;
        match &s.kind {
            PyStmtKind::For { target, iter, body } => out.push(self.for_loop(target, iter, body)?),
            PyStmtKind::While { cond, body } => {
                let cond = self.condition(cond)?;
                out.push(Stmt::While { cond, body: self.body(body)? });
            }
            PyStmtKind::If { cond, then, otherwise } => {
                let cond = self.condition(cond)?;
                let otherwise = if otherwise.is_empty() { vec![] } else { self.body(otherwise)? };
                out.push(Stmt::If { cond, then: self.body(then)?, otherwise });
            }
            PyStmtKind::With { item, name, body } => self.with(item, name.as_ref(), body, out)?,
            PyStmtKind::Assign { target, value } => self.assign(target, value, s.at, out)?,
            PyStmtKind::Annotated { target, annotation, value } => {
                out.push(self.let_stmt(target, annotation, value.as_ref(), s.at)?);
            }
            PyStmtKind::Update { target, op, value } => {
                let old = self.value(target)?;
                let new = self.value(value)?;
                let value = value::binary(*op, old, new, s.at)?;
                out.push(self.store(target, value, s.at)?);
            }
            PyStmtKind::Expr(node) => out.extend(self.evaluate(node)?),
            PyStmtKind::Nothing | PyStmtKind::Plain(_) => {}
            PyStmtKind::Def(_) | PyStmtKind::Class { .. } => {
                return problem(s.at, "a definition has no place inside a tensor function");
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn for_loop(&mut self, target: &Node, iter: &Node, body: &[PyStmt]) -> Result<Stmt, Problem> {
        let vars = match &target.kind {
            NodeKind::Tuple(items) => items.iter().collect(),
            _ => vec![target],
        };
        let users = vars.iter().map(|n| name_of(n)).collect::<Result<Vec<_>, _>>()?;
        let heads = self.loop_heads(iter, users.len())?;
        self.push();
        let names: Vec<Name> = users.iter().zip(&heads).map(|(u, h)| self.bind_var(u, h.extent.dtype())).collect();
        for (name, h) in names.iter().zip(&heads) {
            self.loops.insert(name.clone(), (h.min.clone(), h.extent.clone()));
        }
        let body = self.list(body);
        self.pop();
        let mut body = filled(body?);
        for (var, h) in names.into_iter().zip(heads).rev() {
            let LoopHead { kind, min, extent, annotations } = h;
            body = vec![Stmt::For(For { var, dtype: extent.dtype(), min, extent, kind, annotations, body })];
        }
        body.pop().map_or_else(|| problem(iter.at, "this loop has no variable"), Ok)
    }

    fn loop_heads(&mut self, iter: &Node, count: usize) -> Result<Vec<LoopHead>, Problem> {
        let (name, args, keywords) = match &iter.kind {
            NodeKind::Call { func, args, keywords } => (func.dotted().unwrap_or_default(), args, keywords),
            _ => return problem(iter.at, "a loop runs over range(n), T.grid(n, m) or T.thread_binding(...)"),
        };
        if name == "T.grid" {
            if args.len() != count {
                return problem(iter.at, format!("T.grid has {} extents for {count} variables", args.len()));
            }
            return args.iter().map(|a| self.loop_head(ForKind::Serial, std::slice::from_ref(a), &[], a.at)).collect();
        }
        if count != 1 {
            return problem(iter.at, format!("{count} loop variables need T.grid"));
        }
        let kind = match name.as_str() {
            "range" | "T.serial" => ForKind::Serial,
            "T.parallel" => ForKind::Parallel,
            "T.vectorized" => ForKind::Vectorized,
            "T.unroll" => ForKind::Unrolled,
            "T.thread_binding" => ForKind::Thread(thread_tag(keywords, iter.at)?),
            _ => {
                let message = format!("`{name}` is not a loop; write range(n), T.grid(n, m) or T.thread_binding(...)");
                return problem(iter.at, message);
            }
        };
        Ok(vec![self.loop_head(kind, args, keywords, iter.at)?])
    }

    fn loop_head(
        &mut self,
        kind: ForKind,
        args: &[Node],
        keywords: &[(String, Node)],
        at: Span,
    ) -> Result<LoopHead, Problem> {
        let mut annotations = vec![];
        for (key, value) in keywords {
            match key.as_str() {
                "annotations" if matches!(value.kind, NodeKind::None) => {}
                "annotations" => annotations = self.attr_dict(value)?,
                "thread" => {}
                _ => return problem(value.at, format!("a loop has no argument `{key}`")),
            }
        }
        let (min, extent) = match args {
            [extent] => {
                let extent = self.index(extent)?;
                (Expr::int(0, extent.dtype()), extent)
            }
            [start, stop] => {
                let (start, stop) = (self.value(start)?, self.value(stop)?);
                let (start, stop) = match_types(start, stop, at)?;
                (start.clone(), difference(&stop, &start))
            }
            _ => return problem(at, "a loop takes an extent, or a first value and an end"),
        };
        check_extent(&extent, at)?;
        Ok(LoopHead { kind, min, extent, annotations })
    }

    fn with(&mut self, item: &Node, name: Option<&Node>, body: &[PyStmt], out: &mut Vec<Stmt>) -> Result<(), Problem> {
        let Some((callee, args, keywords)) = item.tir_call() else {
            return problem(item.at, "`with` takes T.sblock(\"name\"), T.init() or T.attr(...)");
        };
        match callee.as_str() {
            "sblock" | "block" if name.is_none() => {
                let label = match args {
                    [] => String::new(),
                    [n] if matches!(n.kind, NodeKind::Str(_)) => str_of(n, "the name of a block")?.to_string(),
                    _ => return problem(item.at, "a block is written `with T.sblock(\"name\"):`"),
                };
                out.push(self.block(&label, body, item.at)?);
                Ok(())
            }
            "sblock" | "block" => {
                problem(item.at, "iterators of a block are written `v = T.axis.spatial(n, i)`, not `as [...]`")
            }
            "attr" => {
                let (node, key, value) = self.attr_parts(args, item.at)?;
                out.push(Stmt::Attr { node, key: key.into(), value, body: self.body(body)? });
                Ok(())
            }
            "LetStmt" | "let" => self.with_let(args, keywords, name, body, item.at, out),
            "init" => problem(item.at, "T.init() belongs directly inside a block"),
            "launch_thread" => problem(
                item.at,
                "T.launch_thread is not supported; bind a loop with T.thread_binding(n, thread=\"threadIdx.x\")",
            ),
            other => problem(item.at, format!("`with T.{other}` is not supported")),
        }
    }

    /// `with T.LetStmt(value) as x:`, the scope of older TVM; names are unique, so the variable may
    /// live on to the end of the list.
    fn with_let(
        &mut self,
        args: &[Node],
        keywords: &[(String, Node)],
        name: Option<&Node>,
        body: &[PyStmt],
        at: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<(), Problem> {
        let ([value], [], Some(target)) = (args, keywords, name) else {
            return problem(at, "a scoped value is written `with T.LetStmt(value) as x:`");
        };
        let value = self.expr(value)?;
        self.push();
        let var = self.bind_var(&name_of(target)?, value.dtype());
        let rest = self.list(body);
        self.pop();
        out.push(Stmt::Let { var, value });
        out.extend(rest?);
        Ok(())
    }

    /// A `T.attr(node, key, value)` without `with` holds for the rest of its list.
    fn bare_attr(&mut self, s: &PyStmt) -> Result<Option<(Expr, String, Expr)>, Problem> {
        let PyStmtKind::Expr(node) = &s.kind else { return Ok(None) };
        match node.tir_call() {
            Some((name, args, _)) if name == "attr" => self.attr_parts(args, node.at).map(Some),
            _ => Ok(None),
        }
    }

    fn attr_parts(&mut self, args: &[Node], at: Span) -> Result<(Expr, String, Expr), Problem> {
        if let [Node { kind: NodeKind::Dict(items), .. }] = args {
            let [(key, value)] = items.as_slice() else { return problem(at, "T.attr takes one key here") };
            return Ok((Expr::i32(0), str_of(key, "the key of T.attr")?.to_string(), self.opaque_arg(value)?));
        }
        let [node, key, value] = arity(args, "attr", at)?;
        let node = self.opaque_arg(node)?;
        Ok((node, str_of(key, "the key of T.attr")?.to_string(), self.opaque_arg(value)?))
    }

    fn assign(&mut self, target: &Node, value: &Node, at: Span, out: &mut Vec<Stmt>) -> Result<(), Problem> {
        match &target.kind {
            NodeKind::Index(..) => {
                let v = self.value(value)?;
                out.push(self.store(target, v, at)?);
            }
            NodeKind::Name(user) if self.scalar(user).is_some() => {
                let v = self.value(value)?;
                out.push(self.store(target, v, at)?);
            }
            NodeKind::Name(user) => {
                if self.declares(target, value)? {
                    return Ok(());
                }
                out.push(self.assign_name(user, value, at)?);
            }
            NodeKind::Tuple(_) if self.declares(target, value)? => {}
            NodeKind::Tuple(_) => {
                return problem(at, "several names take T.axis.remap(...) or as many values of T.int32()");
            }
            _ => return problem(target.at, "a name or an element of a buffer was expected before `=`"),
        }
        Ok(())
    }

    /// `n = T.int64()`, or several at once; true when that is what it was.
    pub fn declares(&mut self, target: &Node, value: &Node) -> Result<bool, Problem> {
        let pairs: Vec<(&Node, &Node)> = match (&target.kind, &value.kind) {
            (NodeKind::Tuple(t), NodeKind::Tuple(v)) if t.len() == v.len() => t.iter().zip(v).collect(),
            (NodeKind::Name(_), _) => vec![(target, value)],
            _ => return Ok(false),
        };
        let dtypes: Option<Vec<DType>> = pairs.iter().map(|(_, v)| declared_type(v)).collect();
        let Some(dtypes) = dtypes else { return Ok(false) };
        for ((t, _), dtype) in pairs.iter().zip(dtypes) {
            let user = name_of(t)?;
            // An extent that was used before its declaration is known already.
            let known = matches!(self.lookup(&user), Some(Binding::Var(e)) if e.dtype() == dtype)
                || matches!(self.lookup(&user), Some(Binding::Declared(d)) if *d == dtype);
            if !known {
                self.bind(&user, Binding::Declared(dtype));
            }
        }
        Ok(true)
    }

    fn assign_name(&mut self, user: &str, value: &Node, at: Span) -> Result<Stmt, Problem> {
        if let Some((name, args, keywords)) = value.tir_call() {
            let scope = match name.as_str() {
                "alloc_local" => Some(crate::ir::Scope::Local),
                "alloc_shared" => Some(crate::ir::Scope::Shared),
                "alloc_buffer" | "decl_buffer" => Some(crate::ir::Scope::Global),
                _ => None,
            };
            if let Some(scope) = scope {
                let buffer = self.declare_buffer(user, args, keywords, scope, value.at)?;
                self.bind(user, Binding::Buffer(buffer.clone()));
                return Ok(Stmt::Alloc { buffer });
            }
            let misplaced = ["sblock_alloc_buffer", "match_buffer", "axis.", "env_thread", "launch_thread", "Buffer"];
            if misplaced.iter().any(|m| name.starts_with(m)) {
                return problem(value.at, format!("T.{name} has no place here; it belongs directly inside a block"));
            }
        }
        let value = self.expr(value)?;
        if value.dtype() == DType::Handle {
            return problem(at, "a handle cannot be kept in a variable");
        }
        let var = self.bind_var(user, value.dtype());
        Ok(Stmt::Let { var, value })
    }

    /// `x: T.let[T.int32] = value`, or `x: T.int32 = value`.
    fn let_stmt(&mut self, target: &Node, annotation: &Node, value: Option<&Node>, at: Span) -> Result<Stmt, Problem> {
        let user = name_of(target)?;
        let dtype = declared_dtype(annotation)?;
        let Some(value) = value else {
            let Some(dtype) = dtype.filter(|_| !self.tile) else {
                return problem(at, format!("`{user}` has no value"));
            };
            return Ok(Stmt::Alloc { buffer: self.declare_scalar(&user, dtype) });
        };
        let value = match (dtype, self.value(value)?) {
            (Some(dtype), Value::Expr(e)) if e.dtype() != dtype => {
                return problem(at, format!("`{user}` is declared {dtype}, but its value is {}", e.dtype()));
            }
            (Some(dtype), v) => v.to(dtype, at)?,
            (None, v) => v.expr(),
        };
        let var = self.bind_var(&user, value.dtype());
        Ok(Stmt::Let { var, value })
    }

    fn store(&mut self, target: &Node, value: Value, at: Span) -> Result<Stmt, Problem> {
        let scalar = match &target.kind {
            NodeKind::Name(user) => self.scalar(user),
            _ => None,
        };
        let (buffer, indices) = match (&target.kind, scalar) {
            (_, Some(buffer)) => (buffer, vec![Expr::i32(0)]),
            (NodeKind::Index(base, items), None) => self.element(base, items, target)?,
            _ => return problem(target.at, "an element of a buffer was expected, such as `A[i]`"),
        };
        let value = fitted(value, self.declared(&buffer).dtype, at)?;
        Ok(Stmt::Store { buffer, indices, value })
    }

    /// A bare expression.
    fn evaluate(&mut self, node: &Node) -> Result<Option<Stmt>, Problem> {
        if matches!(node.kind, NodeKind::Str(_)) {
            return Ok(None); // a docstring
        }
        match node.tir_call() {
            Some((name, args, _)) if name == "evaluate" => {
                let [arg] = arity(args, "evaluate", node.at)?;
                Ok(Some(Stmt::Evaluate(self.expr(arg)?)))
            }
            Some((name, args, _)) if name == "buffer_store" => {
                let [base, value, indices] = arity(args, "buffer_store", node.at)?;
                let NodeKind::List(items) = &indices.kind else { return problem(indices.at, "a list of indices") };
                let (buffer, indices) = self.element(base, items, node)?;
                let value = self.value(value)?;
                let value = fitted(value, self.declared(&buffer).dtype, node.at)?;
                Ok(Some(Stmt::Store { buffer, indices, value }))
            }
            Some((name, ..)) if BlockParts::is_part(&name) => {
                problem(node.at, format!("T.{name} has no place here; it belongs directly inside a block"))
            }
            _ => Ok(Some(Stmt::Evaluate(self.expr(node)?))),
        }
    }
}

/// A body of at least one statement: `T.evaluate(0)` stands where the text has none.
pub(super) fn filled(mut body: Vec<Stmt>) -> Vec<Stmt> {
    if body.is_empty() {
        body.push(Stmt::Evaluate(Expr::i32(0)));
    }
    body
}

/// The dtype of `T.int64()` or `T.var("int64")`.
fn declared_type(node: &Node) -> Option<DType> {
    match node.tir_call()? {
        (name, [], []) => name.parse().ok(),
        (name, [one], []) if name == "var" || name == "Var" => dtype_of(one).ok(),
        _ => None,
    }
}

/// The text of a plain name.
pub(super) fn name_of(node: &Node) -> Result<String, Problem> {
    match &node.kind {
        NodeKind::Name(n) => Ok(n.clone()),
        _ => problem(node.at, "a name was expected here"),
    }
}

/// Refuses extents that cannot be.
pub(super) fn check_extent(extent: &Expr, at: Span) -> Result<(), Problem> {
    if !matches!(extent.dtype(), DType::I32 | DType::I64) {
        return problem(at, format!("an extent is int32 or int64, not {}", extent.dtype()));
    }
    match extent.as_int() {
        Some(v) if v < 0 => problem(at, format!("the extent {v} is negative")),
        _ => Ok(()),
    }
}

fn thread_tag(keywords: &[(String, Node)], at: Span) -> Result<ThreadTag, Problem> {
    let Some((_, node)) = keywords.iter().find(|k| k.0 == "thread") else {
        return problem(at, "T.thread_binding needs thread=\"threadIdx.x\" or the like");
    };
    let text = str_of(node, "a thread axis")?;
    match ThreadTag::by_name(text) {
        Some(tag) => Ok(tag),
        None if text == "vthread" => Ok(ThreadTag::VThreadX),
        None => problem(
            node.at,
            format!(
                "unknown thread axis \"{text}\"; it is blockIdx, threadIdx or vthread with .x, .y or .z, or clusterCtaIdx.x"
            ),
        ),
    }
}
