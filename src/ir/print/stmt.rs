//! Text of statements.

use super::names::Names;
use super::{expr, literal};
use crate::ir::{BinOp, DType};
use crate::ir::{
    Block, Buffer, Expr, ExprKind, For, ForKind, IterKind, IterVar, Name, PrimFunc, Range, Region, Scope, Stmt, ops,
};
use std::collections::HashMap;

/// Prints the body of one function, line by line.
pub(super) struct Printer<'a> {
    pub func: &'a PrimFunc,
    pub names: Names<'a>,
    pub out: String,
    depth: usize,
    /// Loops around the current statement, by variable: first value and extent.
    loops: HashMap<Name, (Expr, Expr)>,
}

impl<'a> Printer<'a> {
    pub fn new(func: &'a PrimFunc, names: Names<'a>) -> Printer<'a> {
        Printer { func, names, out: String::new(), depth: 0, loops: HashMap::new() }
    }

    pub fn line(&mut self, text: &str) {
        for _ in 0..self.depth {
            self.out.push_str("    ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// Prints what `body` prints one level deeper, in a scope of its own.
    pub fn indented(&mut self, body: impl FnOnce(&mut Printer<'a>)) {
        let mark = self.names.mark();
        self.depth += 1;
        let before = self.out.len();
        body(self);
        if self.out.len() == before {
            self.line("T.evaluate(0)");
        }
        self.depth -= 1;
        self.names.release(mark);
    }

    /// A list of statements in the current scope.
    pub fn list(&mut self, stmts: &[Stmt]) {
        for (k, s) in stmts.iter().enumerate() {
            self.stmt(s, k + 1 == stmts.len());
        }
    }

    fn text(&self, e: &Expr) -> String {
        expr::text(e, &self.names)
    }

    fn stmt(&mut self, s: &Stmt, last: bool) {
        self.declare_lets(s);
        match s {
            Stmt::For(l) => self.loops(l),
            Stmt::Block(b) => self.block(b),
            Stmt::If { cond, then, otherwise } => self.conditional(cond, then, otherwise),
            Stmt::While { cond, body } => {
                self.line(&format!("while {}:", self.text(cond)));
                self.indented(|p| p.list(body));
            }
            Stmt::Store { buffer, indices, value } => {
                let index = expr::indices(indices, &self.names);
                self.line(&format!("{}[{index}] = {}", self.names.get(buffer), self.text(value)));
            }
            Stmt::Let { var, value } => {
                let value_text = self.text(value);
                let var = self.names.declare(var);
                self.line(&format!("{var}: T.let[T.{}] = {value_text}", value.dtype()));
            }
            Stmt::Evaluate(e) => match e.kind() {
                ExprKind::Extern { .. } | ExprKind::Call { .. } => self.line(&self.text(e)),
                _ => self.line(&format!("T.evaluate({})", self.text(e))),
            },
            Stmt::Attr { node, key, value, body } => self.attr(node, key, value, body, last),
            Stmt::Alloc { buffer } => self.alloc(buffer),
        }
    }

    /// A variable that `T.Let` binds inside an expression is declared on a line before it.
    fn declare_lets(&mut self, s: &Stmt) {
        let mut found: Vec<(Name, DType)> = vec![];
        s.for_each_expr(|e| {
            e.visit(&mut |e| {
                if let ExprKind::Let { var, value, .. } = e.kind() {
                    found.push((var.clone(), value.dtype()));
                }
            });
        });
        for (var, dtype) in found {
            let var = self.names.declare(&var);
            self.line(&format!("{var} = T.{dtype}()"));
        }
    }

    fn conditional(&mut self, cond: &Expr, then: &[Stmt], otherwise: &[Stmt]) {
        self.line(&format!("if {}:", self.text(cond)));
        self.indented(|p| p.list(then));
        if !otherwise.is_empty() {
            self.line("else:");
            self.indented(|p| p.list(otherwise));
        }
    }

    fn attr(&mut self, node: &Expr, key: &str, value: &Expr, body: &[Stmt], last: bool) {
        let value = self.text(value);
        let key = literal::string(key);
        if node.is_int(0) {
            self.line(&format!("with T.attr({{{key}: {value}}}):"));
            return self.indented(|p| p.list(body));
        }
        let head = format!("T.attr({}, {key}, {value})", self.text(node));
        if last && !body.is_empty() {
            self.line(&head);
            return self.list(body);
        }
        self.line(&format!("with {head}:"));
        self.indented(|p| p.list(body));
    }

    fn alloc(&mut self, buffer: &Name) {
        let b = self.func.buffer(buffer);
        let name = self.names.declare(buffer);
        let (call, scope) = match b.scope {
            Scope::Local => ("alloc_local", false),
            Scope::Shared => ("alloc_shared", false),
            Scope::Global | Scope::SharedDyn | Scope::Cluster | Scope::Tensor | Scope::Other(_) => {
                ("alloc_buffer", true)
            }
        };
        let args = self.buffer_args(b, &[], false, scope);
        self.line(&format!("{name} = T.{call}({args})"));
    }

    /// Arguments that declare a buffer: shape, dtype, keywords. Extents that speak of a variable in
    /// `quoted` are quoted, because that variable is declared later in the text.
    pub fn buffer_args(&self, b: &Buffer, quoted: &[Name], show_f32: bool, show_scope: bool) -> String {
        let mut args = vec![expr::tuple(&self.dims(&b.shape, quoted))];
        if show_f32 || b.dtype != DType::F32 {
            args.push(format!("\"{}\"", b.dtype));
        }
        if !b.strides.is_empty() {
            args.push(format!("strides={}", expr::tuple(&self.dims(&b.strides, quoted))));
        }
        if let Some(offset) = &b.elem_offset {
            args.push(format!("elem_offset={}", self.dims(std::slice::from_ref(offset), quoted).concat()));
        }
        if show_scope && b.scope != Scope::Global {
            args.push(format!("scope={}", literal::string(b.scope.name())));
        }
        args.extend(b.align.map(|a| format!("align={a}")));
        args.extend(b.offset_factor.map(|a| format!("offset_factor={a}")));
        args.extend(b.layout.as_ref().map(|l| format!("layout={}", l.call_text())));
        args.join(", ")
    }

    fn dims(&self, dims: &[Expr], quoted: &[Name]) -> Vec<String> {
        let text = |e: &Expr| {
            let text = self.text(e);
            if quoted.iter().any(|v| e.uses_var(v)) { literal::string(&text) } else { text }
        };
        dims.iter().map(text).collect()
    }

    /// A loop, together with the loops directly inside it where `T.grid` can say so.
    fn loops(&mut self, outer: &For) {
        let mut nest = vec![outer];
        while let Some(next) = grid_next(&nest) {
            nest.push(next);
        }
        let vars: Vec<_> = nest.iter().map(|l| (self.text(&l.extent), l)).collect();
        let head = self.loop_head(outer, &vars.iter().map(|v| v.0.clone()).collect::<Vec<_>>());
        let mark = self.names.mark();
        let shown: Vec<_> = nest.iter().map(|l| self.names.declare(&l.var)).collect();
        self.line(&format!("for {} in {head}:", shown.join(", ")));
        for l in &nest {
            self.loops.insert(l.var.clone(), (l.min.clone(), l.extent.clone()));
        }
        let inner = nest.last().expect("the nest has at least its outer loop");
        self.indented(|p| p.list(&inner.body));
        self.names.release(mark);
    }

    fn loop_head(&self, l: &For, extents: &[String]) -> String {
        if extents.len() > 1 {
            return format!("T.grid({})", extents.join(", "));
        }
        let span = if l.min.is_int(0) {
            extents[0].clone()
        } else {
            format!("{}, {}", self.text(&l.min), self.text(&sum(&l.min, &l.extent)))
        };
        let notes = match l.annotations.as_slice() {
            [] => String::new(),
            notes => format!(", annotations={}", literal::dict(notes)),
        };
        match l.kind {
            ForKind::Serial if notes.is_empty() => format!("range({span})"),
            ForKind::Serial => format!("T.serial({span}{notes})"),
            ForKind::Parallel => format!("T.parallel({span}{notes})"),
            ForKind::Vectorized => format!("T.vectorized({span}{notes})"),
            ForKind::Unrolled => format!("T.unroll({span}{notes})"),
            ForKind::Thread(tag) => format!("T.thread_binding({span}, thread=\"{}\"{notes})", tag.name()),
        }
    }

    fn block(&mut self, b: &Block) {
        let name = literal::string(&self.names.block(&b.name));
        self.line(&format!("with T.sblock({name}):"));
        self.indented(|p| {
            p.axes(&b.iters);
            if let Some(guard) = &b.guard {
                p.line(&format!("T.where({})", p.text(guard)));
            }
            if let Some(r) = &b.regions {
                p.line(&format!("T.reads({})", p.regions(&r.reads)));
                p.line(&format!("T.writes({})", p.regions(&r.writes)));
            }
            if !b.attrs.is_empty() {
                p.line(&format!("T.sblock_attr({})", literal::dict(&b.attrs)));
            }
            p.allocs(&b.allocs);
            for (buffer, region) in &b.matches {
                p.alias(buffer, region);
            }
            if !b.init.is_empty() {
                p.line("with T.init():");
                p.indented(|p| p.list(&b.init));
            }
            p.list(&b.body);
        });
    }

    /// Buffers allocated in a block.
    pub fn allocs(&mut self, buffers: &[Name]) {
        for name in buffers {
            let args = self.buffer_args(self.func.buffer(name), &[], false, true);
            let name = self.names.declare(name);
            self.line(&format!("{name} = T.sblock_alloc_buffer({args})"));
        }
    }

    fn alias(&mut self, buffer: &Name, region: &Region) {
        let region = self.region(region);
        let new = self.declare_vars_of(buffer);
        let args = self.buffer_args(self.func.buffer(buffer), &new, false, true);
        let name = self.names.declare(buffer);
        self.line(&format!("{name} = T.match_buffer({region}, {args})"));
    }

    /// Brings the variables of a buffer's shape, strides and offset into scope.
    pub fn declare_vars_of(&mut self, buffer: &Name) -> Vec<Name> {
        let b = self.func.buffer(buffer);
        let mut new = vec![];
        for e in b.shape.iter().chain(&b.strides).chain(&b.elem_offset) {
            e.visit(&mut |e| {
                if let Some(v) = e.as_var().filter(|v| !new.contains(*v)) {
                    new.push(v.clone());
                }
            });
        }
        new.retain(|v| !self.names.is_declared(v));
        for v in &new {
            self.names.declare(v);
        }
        new
    }

    /// Block iterators: runs of two or more that are just a loop each share one `T.axis.remap`.
    fn axes(&mut self, iters: &[IterVar]) {
        let mut rest = iters;
        while !rest.is_empty() {
            let run = rest.iter().take_while(|it| self.is_remap(it)).count();
            if run > 1 {
                self.remap(&rest[..run]);
                rest = &rest[run..];
            } else {
                self.axis(&rest[0]);
                rest = &rest[1..];
            }
        }
    }

    fn is_remap(&self, it: &IterVar) -> bool {
        let same = |(min, extent): &(Expr, Expr)| *min == it.min && *extent == it.extent;
        it.kind != IterKind::Opaque && it.binding.as_var().and_then(|v| self.loops.get(v)).is_some_and(same)
    }

    fn remap(&mut self, iters: &[IterVar]) {
        let kinds: String = iters.iter().map(|it| it.kind.letter()).collect();
        let bindings: Vec<_> = iters.iter().map(|it| self.text(&it.binding)).collect();
        let vars: Vec<_> = iters.iter().map(|it| self.names.declare(&it.var)).collect();
        self.line(&format!("{} = T.axis.remap(\"{kinds}\", [{}])", vars.join(", "), bindings.join(", ")));
    }

    fn axis(&mut self, it: &IterVar) {
        let kind = match it.kind {
            IterKind::Spatial => "spatial",
            IterKind::Reduce => "reduce",
            IterKind::Opaque => "opaque",
        };
        let domain = if it.min.is_int(0) {
            self.text(&it.extent)
        } else {
            format!("({}, {})", self.text(&it.min), self.text(&sum(&it.min, &it.extent)))
        };
        let binding = self.text(&it.binding);
        let var = self.names.declare(&it.var);
        self.line(&format!("{var} = T.axis.{kind}({domain}, {binding})"));
    }

    fn regions(&self, regions: &[Region]) -> String {
        regions.iter().map(|r| self.region(r)).collect::<Vec<_>>().join(", ")
    }

    fn region(&self, r: &Region) -> String {
        let dims: Vec<_> = r.dims.iter().map(|d| self.range(d)).collect();
        let dims = if dims.is_empty() { "()".to_string() } else { dims.join(", ") };
        format!("{}[{dims}]", self.names.get(&r.buffer))
    }

    fn range(&self, r: &Range) -> String {
        if r.extent.is_int(1) {
            return self.text(&r.min);
        }
        format!("{}:{}", self.text(&r.min), self.text(&sum(&r.min, &r.extent)))
    }
}

/// The loop directly inside the last one of a nest, if `T.grid` may hold both.
fn grid_next<'f>(nest: &[&'f For]) -> Option<&'f For> {
    let plain = |l: &For| l.kind == ForKind::Serial && l.annotations.is_empty() && l.min.is_int(0);
    let last = nest.last().filter(|l| plain(l))?;
    let [Stmt::For(next)] = last.body.as_slice() else { return None };
    let free = nest.iter().all(|l| !next.extent.uses_var(&l.var));
    (plain(next) && free).then_some(next)
}

/// `a + b` as TVM's operator builds it.
fn sum(a: &Expr, b: &Expr) -> Expr {
    ops::fold(BinOp::Add, a, b).unwrap_or_else(|| a.clone() + b.clone())
}
