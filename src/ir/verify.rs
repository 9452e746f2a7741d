//! Checks that a function is well formed. A function that was read is; schedule primitives and
//! rules are tested with it after every step.

use super::{BinOp, Block, Buffer, DType, Expr, ExprKind, For, Name, Param, PrimFunc, Region, Stmt, UnOp};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// One thing wrong with a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// The name it is about.
    pub at: Name,
    /// What is wrong, in one sentence.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

impl std::error::Error for VerifyError {}

/// Checks that every name is unique and declared before its use, that ranks and dtypes agree, and
/// that every buffer of the table comes into being exactly once.
///
/// # Errors
/// Everything that was found wrong, in program order.
pub fn verify(func: &PrimFunc) -> Result<(), Vec<VerifyError>> {
    let mut v = Verifier { func, live: HashMap::new(), seen: HashSet::new(), buffers: HashSet::new(), errors: vec![] };
    v.function();
    if v.errors.is_empty() { Ok(()) } else { Err(v.errors) }
}

struct Verifier<'f> {
    func: &'f PrimFunc,
    /// Variables in scope.
    live: HashMap<Name, DType>,
    /// Every name ever declared.
    seen: HashSet<Name>,
    /// Buffers in scope.
    buffers: HashSet<Name>,
    errors: Vec<VerifyError>,
}

impl Verifier<'_> {
    fn error(&mut self, at: &Name, message: impl Into<String>) {
        self.errors.push(VerifyError { at: at.clone(), message: message.into() });
    }

    fn unique(&mut self, name: &Name) {
        if !self.seen.insert(name.clone()) {
            self.error(name, "the name is declared twice");
        }
    }

    fn declare(&mut self, name: &Name, dtype: DType) {
        self.unique(name);
        self.live.insert(name.clone(), dtype);
    }

    fn function(&mut self) {
        for e in &self.func.extents {
            self.declare(&e.name, e.dtype);
        }
        for p in &self.func.params {
            if let Param::Scalar { name, dtype } = p {
                self.declare(name, *dtype);
            }
        }
        for p in &self.func.params {
            if let Param::Buffer(name) = p {
                self.buffer(name);
            }
        }
        for name in &self.func.allocs {
            self.buffer(name);
        }
        self.list(&self.func.body);
        self.table();
    }

    /// Every buffer of the table is a parameter, allocated or an alias, once.
    fn table(&mut self) {
        let mut names = HashSet::new();
        for b in &self.func.buffers {
            if !names.insert(&b.name) {
                self.error(&b.name, "the buffer is in the table twice");
            }
            if !self.seen.contains(&b.name) {
                self.error(&b.name, "the buffer is in the table but nothing allocates it");
            }
        }
    }

    /// A buffer comes into being.
    fn buffer(&mut self, name: &Name) {
        self.unique(name);
        self.buffers.insert(name.clone());
        let Some(b) = self.func.find_buffer(name) else {
            return self.error(name, "the buffer is not in the table");
        };
        for e in b.shape.iter().chain(&b.strides).chain(&b.elem_offset) {
            self.integer(e, name);
        }
        if !b.strides.is_empty() && b.strides.len() != b.shape.len() {
            self.error(name, format!("{} strides for {} dimensions", b.strides.len(), b.shape.len()));
        }
        self.layout(b);
    }

    /// A layout places as many elements as the buffer has, and takes the place of strides.
    fn layout(&mut self, b: &Buffer) {
        let Some(layout) = &b.layout else { return };
        match b.shape.iter().map(Expr::as_int).collect::<Option<Vec<_>>>() {
            None => self.error(&b.name, "a buffer with a layout needs constant extents"),
            Some(shape) => {
                if let Err(why) = layout.fit(&shape) {
                    self.error(&b.name, why);
                }
            }
        }
        if !b.strides.is_empty() {
            self.error(&b.name, "a buffer has a layout or strides, not both");
        }
    }

    /// Statements in a scope of their own.
    fn list(&mut self, stmts: &[Stmt]) {
        let (live, buffers) = (self.live.clone(), self.buffers.clone());
        stmts.iter().for_each(|s| self.stmt(s));
        self.live = live;
        self.buffers = buffers;
    }

    fn stmt(&mut self, s: &Stmt) {
        match s {
            Stmt::For(l) => self.for_loop(l),
            Stmt::Block(b) => self.block(b),
            Stmt::If { cond, then, otherwise } => {
                self.condition(cond);
                self.list(then);
                self.list(otherwise);
            }
            Stmt::While { cond, body } => {
                self.condition(cond);
                self.list(body);
            }
            Stmt::Store { buffer, indices, value } => self.store(buffer, indices, value),
            Stmt::Let { var, value } => {
                self.expr(value, var);
                self.declare(var, value.dtype());
            }
            Stmt::Evaluate(e) => self.expr(e, &Name::new("evaluate")),
            Stmt::Attr { node, key, value, body } => {
                let at = Name::new(key);
                self.expr(node, &at);
                self.expr(value, &at);
                self.list(body);
            }
            Stmt::Alloc { buffer } => self.buffer(buffer),
        }
    }

    fn store(&mut self, buffer: &Name, indices: &[Expr], value: &Expr) {
        self.access(buffer, indices);
        self.expr(value, buffer);
        if let Some(b) = self.func.find_buffer(buffer)
            && b.dtype != value.dtype()
        {
            self.error(buffer, format!("a value of {} is stored in a buffer of {}", value.dtype(), b.dtype));
        }
    }

    fn for_loop(&mut self, l: &For) {
        self.integer(&l.min, &l.var);
        self.integer(&l.extent, &l.var);
        if l.extent.dtype() != l.dtype || l.min.dtype() != l.dtype {
            self.error(&l.var, "the loop's variable, first value and extent differ in dtype");
        }
        let outer = self.live.clone();
        self.declare(&l.var, l.dtype);
        self.list(&l.body);
        self.live = outer;
    }

    fn block(&mut self, b: &Block) {
        self.unique(&b.name);
        let (live, buffers) = (self.live.clone(), self.buffers.clone());
        for it in &b.iters {
            self.integer(&it.extent, &it.var);
            self.integer(&it.min, &it.var);
            self.integer(&it.binding, &it.var);
        }
        if let Some(guard) = &b.guard {
            self.condition(guard);
        }
        for it in &b.iters {
            self.declare(&it.var, it.dtype);
        }
        b.allocs.iter().for_each(|n| self.buffer(n));
        for (alias, region) in &b.matches {
            self.region(region);
            self.buffer(alias);
        }
        if let Some(r) = &b.regions {
            r.reads.iter().chain(&r.writes).for_each(|r| self.region(r));
        }
        self.list(&b.init);
        self.list(&b.body);
        self.live = live;
        self.buffers = buffers;
    }

    fn region(&mut self, r: &Region) {
        let Some(b) = self.in_scope(&r.buffer) else { return };
        let rank = b.shape.len();
        if r.dims.len() != rank {
            self.error(&r.buffer, format!("a region has {} dimensions, the buffer {rank}", r.dims.len()));
        }
        for d in &r.dims {
            self.integer(&d.min, &r.buffer);
            self.integer(&d.extent, &r.buffer);
        }
    }

    /// The buffer, if it is in the table and in scope.
    fn in_scope(&mut self, name: &Name) -> Option<&Buffer> {
        if !self.buffers.contains(name) {
            self.error(name, "the buffer is used where it does not exist");
        }
        self.func.find_buffer(name)
    }

    fn access(&mut self, buffer: &Name, indices: &[Expr]) {
        if let Some(rank) = self.in_scope(buffer).map(|b| b.shape.len())
            && rank != indices.len()
        {
            self.error(buffer, format!("{} indices for {rank} dimensions", indices.len()));
        }
        for i in indices {
            self.integer(i, buffer);
        }
    }

    fn integer(&mut self, e: &Expr, at: &Name) {
        self.expr(e, at);
        if !e.dtype().is_int() && e.dtype() != DType::Bool {
            self.error(at, format!("`{e}` is {}, not an integer", e.dtype()));
        }
    }

    fn condition(&mut self, e: &Expr) {
        let at = Name::new("condition");
        self.expr(e, &at);
        if e.dtype() != DType::Bool {
            self.error(&at, format!("`{e}` is {}, not bool", e.dtype()));
        }
    }

    fn same(&mut self, a: &Expr, b: &Expr, at: &Name) {
        if a.dtype() != b.dtype() {
            self.error(at, format!("`{a}` is {}, `{b}` is {}", a.dtype(), b.dtype()));
        }
    }

    fn expr(&mut self, e: &Expr, at: &Name) {
        match e.kind() {
            ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Str(_) => {}
            ExprKind::Var { name, dtype } => match self.live.get(name) {
                None => self.error(name, "the variable is used where it does not exist"),
                Some(d) if d != dtype => self.error(name, format!("the variable is {d}, but used as {dtype}")),
                Some(_) => {}
            },
            ExprKind::Load { buffer, indices, dtype } => {
                self.access(buffer, indices);
                if self.func.find_buffer(buffer).is_some_and(|b| b.dtype != *dtype) {
                    self.error(buffer, format!("a load has the dtype {dtype}, which is not the buffer's"));
                }
            }
            ExprKind::Unary { op, arg } => {
                self.expr(arg, at);
                if *op == UnOp::Not && arg.dtype() != DType::Bool {
                    self.error(at, format!("`not` of {}", arg.dtype()));
                }
            }
            ExprKind::Binary { op, a, b } => self.binary(*op, a, b, at),
            ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise } => {
                self.condition(cond);
                self.expr(then, at);
                self.expr(otherwise, at);
                self.same(then, otherwise, at);
            }
            ExprKind::Cast { arg, .. } => self.expr(arg, at),
            ExprKind::Reinterpret { dtype, arg } => {
                self.expr(arg, at);
                if dtype.bytes() != arg.dtype().bytes() {
                    self.error(at, format!("{} is reinterpreted as {dtype} of another size", arg.dtype()));
                }
            }
            ExprKind::Call { args, .. } => args.iter().for_each(|a| self.expr(a, at)),
            ExprKind::Extern { args, .. } => args.iter().for_each(|a| self.opaque(a, at)),
            ExprKind::Let { var, value, body } => {
                self.expr(value, at);
                self.declare(var, value.dtype());
                self.expr(body, at);
                self.live.remove(var);
            }
        }
    }

    /// An argument of an opaque call may name a whole buffer: a load without indices.
    fn opaque(&mut self, e: &Expr, at: &Name) {
        match e.kind() {
            ExprKind::Load { buffer, indices, .. } if indices.is_empty() => {
                self.in_scope(buffer);
            }
            _ => self.expr(e, at),
        }
    }

    fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr, at: &Name) {
        self.expr(a, at);
        self.expr(b, at);
        self.same(a, b, at);
        if matches!(op, BinOp::And | BinOp::Or) && a.dtype() != DType::Bool {
            self.error(at, format!("a logical operator on {}", a.dtype()));
        }
    }
}
