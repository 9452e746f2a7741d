//! Statements: an owned tree of loops and blocks.

use super::{DType, Expr, Name};
use std::sync::Arc;

/// A statement of a `PrimFunc`.
// The text of a variant says what its fields are.
#[allow(missing_docs)]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Stmt {
    /// A loop.
    For(For),
    /// A block: the unit that schedule primitives move.
    Block(Block),
    /// A conditional.
    If { cond: Expr, then: Vec<Stmt>, otherwise: Vec<Stmt> },
    /// A loop without a trip count; read and printed, then refused (`while_loop`).
    While { cond: Expr, body: Vec<Stmt> },
    /// `buffer[indices] = value`.
    Store { buffer: Name, indices: Vec<Expr>, value: Expr },
    /// `var: T.let[dtype] = value`, in scope until the end of the enclosing list.
    Let { var: Name, value: Expr },
    /// An expression evaluated for its effect (an extern call).
    Evaluate(Expr),
    /// `with T.attr(node, key, value):`; read and printed, then refused.
    Attr { node: Expr, key: Arc<str>, value: Expr, body: Vec<Stmt> },
    /// A buffer of the function's table comes into being here (`T.alloc_local`, `T.decl_buffer` in
    /// an opaque body); read and printed, then refused.
    Alloc { buffer: Name },
}

/// A loop from `min` over `extent` values.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct For {
    /// The loop variable, which is also the loop's identity.
    pub var: Name,
    /// `int32` or `int64`.
    pub dtype: DType,
    /// First value; 0 in everything a rule accepts.
    pub min: Expr,
    /// Trip count.
    pub extent: Expr,
    /// How the iterations run.
    pub kind: ForKind,
    /// Annotations, in order: key and value.
    pub annotations: Vec<(String, AttrValue)>,
    /// The body.
    pub body: Vec<Stmt>,
}

impl For {
    /// A serial loop from 0.
    pub fn serial(var: Name, extent: Expr, body: Vec<Stmt>) -> For {
        let dtype = extent.dtype();
        For { var, dtype, min: Expr::int(0, dtype), extent, kind: ForKind::Serial, annotations: vec![], body }
    }

    /// The loop variable as an expression.
    pub fn var_expr(&self) -> Expr {
        Expr::var(self.var.clone(), self.dtype)
    }
}

/// How the iterations of a loop run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum ForKind {
    Serial,
    Parallel,
    Vectorized,
    Unrolled,
    Thread(ThreadTag),
}

/// A hardware axis that a loop is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum ThreadTag {
    BlockX,
    BlockY,
    BlockZ,
    ThreadX,
    ThreadY,
    ThreadZ,
    VThreadX,
    VThreadY,
    VThreadZ,
    /// A block in its cluster.
    ClusterX,
}

impl ThreadTag {
    /// Every tag with its name in CUDA and TVM.
    pub const ALL: [(ThreadTag, &'static str); 10] = [
        (ThreadTag::BlockX, "blockIdx.x"),
        (ThreadTag::BlockY, "blockIdx.y"),
        (ThreadTag::BlockZ, "blockIdx.z"),
        (ThreadTag::ThreadX, "threadIdx.x"),
        (ThreadTag::ThreadY, "threadIdx.y"),
        (ThreadTag::ThreadZ, "threadIdx.z"),
        (ThreadTag::VThreadX, "vthread.x"),
        (ThreadTag::VThreadY, "vthread.y"),
        (ThreadTag::VThreadZ, "vthread.z"),
        (ThreadTag::ClusterX, "clusterCtaIdx.x"),
    ];

    /// The name, such as `threadIdx.x`.
    pub fn name(self) -> &'static str {
        ThreadTag::ALL.iter().find(|e| e.0 == self).expect("every tag is in ALL").1
    }

    /// The tag of that name.
    pub fn by_name(name: &str) -> Option<ThreadTag> {
        ThreadTag::ALL.iter().find(|e| e.1 == name).map(|e| e.0)
    }

    /// True for `blockIdx.*`.
    pub fn is_block(self) -> bool {
        matches!(self, ThreadTag::BlockX | ThreadTag::BlockY | ThreadTag::BlockZ)
    }

    /// True for `threadIdx.*`.
    pub fn is_thread(self) -> bool {
        self.thread_axis().is_some()
    }

    /// Which axis of the threads of a block `threadIdx.*` is, from 0.
    pub fn thread_axis(self) -> Option<usize> {
        [ThreadTag::ThreadX, ThreadTag::ThreadY, ThreadTag::ThreadZ].iter().position(|t| *t == self)
    }
}

/// The value of an annotation or attribute.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum AttrValue {
    Bool(bool),
    Int(i64),
    /// An integer with an explicit dtype, as `T.int64(3)`.
    Typed(i64, DType),
    /// The bits of an `f64`.
    Float(u64),
    Str(String),
    List(Vec<AttrValue>),
    Dict(Vec<(String, AttrValue)>),
    /// Source text kept as it is (`T.target(...)`, `None`).
    Raw(String),
}

impl AttrValue {
    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            AttrValue::Str(s) => Some(s),
            AttrValue::Bool(_)
            | AttrValue::Int(_)
            | AttrValue::Typed(..)
            | AttrValue::Float(_)
            | AttrValue::List(_)
            | AttrValue::Dict(_)
            | AttrValue::Raw(_) => None,
        }
    }
}

/// A block: iterators bound to loop expressions, and a body in terms of the iterators.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Block {
    /// Identity of the block.
    pub name: Name,
    /// Iterators with their domains and bindings.
    pub iters: Vec<IterVar>,
    /// Declared regions; `None` where they are to be inferred from the body.
    pub regions: Option<Regions>,
    /// The block runs only where this holds (`T.where`).
    pub guard: Option<Expr>,
    /// Block attributes (`T.sblock_attr`).
    pub attrs: Vec<(String, AttrValue)>,
    /// Buffers of the function's table that are allocated in this block.
    pub allocs: Vec<Name>,
    /// Aliases made by `T.match_buffer` inside the block.
    pub matches: Vec<(Name, Region)>,
    /// Runs at the first step of the reduction (`T.init`).
    pub init: Vec<Stmt>,
    /// The body.
    pub body: Vec<Stmt>,
}

impl Block {
    /// A block with iterators and a body, nothing else.
    pub fn new(name: Name, iters: Vec<IterVar>, body: Vec<Stmt>) -> Block {
        Block {
            name,
            iters,
            regions: None,
            guard: None,
            attrs: vec![],
            allocs: vec![],
            matches: vec![],
            init: vec![],
            body,
        }
    }

    /// The iterator of that name.
    pub fn iter(&self, var: &Name) -> Option<&IterVar> {
        self.iters.iter().find(|it| it.var == *var)
    }

    /// True where every iteration of the domain stores to the buffer, whatever conditions in the body say.
    pub fn always_stores(&self, buffer: &Name) -> bool {
        fn any(list: &[Stmt], buffer: &Name) -> bool {
            list.iter().any(|s| match s {
                Stmt::Store { buffer: b, .. } => b == buffer,
                Stmt::If { then, otherwise, .. } => any(then, buffer) && any(otherwise, buffer),
                _ => false,
            })
        }
        any(&self.body, buffer)
    }

    /// True where loops stand in the body, and no block: its statements have an order.
    pub fn is_serial(&self) -> bool {
        let (mut loops, mut blocks) = (false, false);
        let mut note = |s: &Stmt| {
            loops |= matches!(s, Stmt::For(_));
            blocks |= matches!(s, Stmt::Block(_));
        };
        self.init.iter().chain(&self.body).for_each(|s| s.visit(&mut note));
        (loops || !self.allocs.is_empty()) && !blocks
    }

    /// The iterator that an expression is.
    pub fn as_iter(&self, e: &Expr) -> Option<&IterVar> {
        e.as_var().and_then(|v| self.iter(v))
    }
}

/// A block iterator over `[0, extent)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IterVar {
    /// The iterator variable.
    pub var: Name,
    /// `int32` or `int64`.
    pub dtype: DType,
    /// First value; 0 in everything a rule accepts.
    pub min: Expr,
    /// Size of the domain.
    pub extent: Expr,
    /// Spatial, reduction, or something else.
    pub kind: IterKind,
    /// Its value in terms of the loops around.
    pub binding: Expr,
}

impl IterVar {
    /// The iterator as an expression.
    pub fn var_expr(&self) -> Expr {
        Expr::var(self.var.clone(), self.dtype)
    }
}

/// Kind of a block iterator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IterKind {
    /// Data parallel (`S`).
    Spatial,
    /// Commutative reduction (`R`).
    Reduce,
    /// `T.axis.scan`, `T.axis.opaque` (`O`).
    Opaque,
}

impl IterKind {
    /// `S`, `R` or `O`.
    pub fn letter(self) -> char {
        match self {
            IterKind::Spatial => 'S',
            IterKind::Reduce => 'R',
            IterKind::Opaque => 'O',
        }
    }
}

/// Declared reads and writes of a block.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Regions {
    /// `T.reads(...)`.
    pub reads: Vec<Region>,
    /// `T.writes(...)`.
    pub writes: Vec<Region>,
}

/// A rectangular part of a buffer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    /// The buffer.
    pub buffer: Name,
    /// One range per dimension.
    pub dims: Vec<Range>,
}

/// `[min, min + extent)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Range {
    /// First index.
    pub min: Expr,
    /// Number of indices; the constant 1 for a point.
    pub extent: Expr,
}

impl Stmt {
    /// Calls `f` on each statement directly inside this one (block inits included).
    pub fn for_each_child(&self, mut f: impl FnMut(&Stmt)) {
        match self {
            Stmt::For(l) => l.body.iter().for_each(f),
            Stmt::Block(b) => b.init.iter().chain(&b.body).for_each(f),
            Stmt::If { then, otherwise, .. } => then.iter().chain(otherwise).for_each(f),
            Stmt::While { body, .. } | Stmt::Attr { body, .. } => body.iter().for_each(&mut f),
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Evaluate(_) | Stmt::Alloc { .. } => {}
        }
    }

    /// Calls `f` on this statement and all inside it, parents first.
    pub fn visit(&self, f: &mut impl FnMut(&Stmt)) {
        f(self);
        self.for_each_child(|s| s.visit(f));
    }

    /// Names that this statement and those inside it declare: loops, blocks, iterators, aliases, lets.
    pub fn declared(&self) -> Vec<Name> {
        let mut names = vec![];
        self.visit(&mut |s| {
            match s {
                Stmt::For(l) => names.push(l.var.clone()),
                Stmt::Block(b) => {
                    names.push(b.name.clone());
                    names.extend(b.iters.iter().map(|i| i.var.clone()));
                    names.extend(b.matches.iter().map(|(alias, _)| alias.clone()));
                }
                Stmt::Let { var, .. } => names.push(var.clone()),
                Stmt::If { .. }
                | Stmt::While { .. }
                | Stmt::Store { .. }
                | Stmt::Evaluate(_)
                | Stmt::Attr { .. }
                | Stmt::Alloc { .. } => {}
            }
            s.for_each_expr(|e| names.extend(e.lets()));
        });
        names
    }

    /// Calls `f` on each expression that stands directly in this statement (not in statements
    /// inside it): extents, bindings, guards, indices, values. Declared regions are left out.
    pub fn for_each_expr(&self, mut f: impl FnMut(&Expr)) {
        match self {
            Stmt::For(l) => {
                f(&l.min);
                f(&l.extent);
            }
            Stmt::Block(b) => {
                for it in &b.iters {
                    f(&it.min);
                    f(&it.extent);
                    f(&it.binding);
                }
                b.guard.iter().for_each(f);
            }
            Stmt::If { cond, .. } | Stmt::While { cond, .. } => f(cond),
            Stmt::Store { indices, value, .. } => {
                indices.iter().for_each(&mut f);
                f(value);
            }
            Stmt::Let { value, .. } => f(value),
            Stmt::Evaluate(e) => f(e),
            Stmt::Attr { node, value, .. } => {
                f(node);
                f(value);
            }
            Stmt::Alloc { .. } => {}
        }
    }

    /// Rebuilds the statement with `f` applied to every expression in it and inside it,
    /// declared regions included.
    pub fn map_exprs(&self, f: &mut impl FnMut(&Expr) -> Expr) -> Stmt {
        let list = |v: &[Stmt], f: &mut _| v.iter().map(|s| s.map_exprs(f)).collect::<Vec<_>>();
        match self {
            Stmt::For(l) => {
                Stmt::For(For { min: f(&l.min), extent: f(&l.extent), body: list(&l.body, f), ..l.clone() })
            }
            Stmt::Block(b) => {
                let mut n = b.clone();
                for it in &mut n.iters {
                    it.min = f(&it.min);
                    it.extent = f(&it.extent);
                    it.binding = f(&it.binding);
                }
                n.guard = b.guard.as_ref().map(&mut *f);
                if let Some(r) = &mut n.regions {
                    r.reads.iter_mut().chain(&mut r.writes).for_each(|r| r.map_exprs(f));
                }
                n.matches.iter_mut().for_each(|(_, r)| r.map_exprs(f));
                n.init = list(&b.init, f);
                n.body = list(&b.body, f);
                Stmt::Block(n)
            }
            Stmt::If { cond, then, otherwise } => {
                Stmt::If { cond: f(cond), then: list(then, f), otherwise: list(otherwise, f) }
            }
            Stmt::While { cond, body } => Stmt::While { cond: f(cond), body: list(body, f) },
            Stmt::Store { buffer, indices, value } => {
                Stmt::Store { buffer: buffer.clone(), indices: indices.iter().map(&mut *f).collect(), value: f(value) }
            }
            Stmt::Let { var, value } => Stmt::Let { var: var.clone(), value: f(value) },
            Stmt::Evaluate(e) => Stmt::Evaluate(f(e)),
            Stmt::Attr { node, key, value, body } => {
                Stmt::Attr { node: f(node), key: key.clone(), value: f(value), body: list(body, f) }
            }
            Stmt::Alloc { buffer } => Stmt::Alloc { buffer: buffer.clone() },
        }
    }

    /// Rebuilds the statement with `f` applied to each statement directly inside it; the init of a block stays.
    pub fn map_body(&self, mut f: impl FnMut(&Stmt) -> Stmt) -> Stmt {
        let mut list = |body: &[Stmt]| body.iter().map(&mut f).collect::<Vec<_>>();
        match self {
            Stmt::For(l) => Stmt::For(For { body: list(&l.body), ..l.clone() }),
            Stmt::Block(b) => Stmt::Block(Block { body: list(&b.body), ..b.clone() }),
            Stmt::If { cond, then, otherwise } => {
                Stmt::If { cond: cond.clone(), then: list(then), otherwise: list(otherwise) }
            }
            Stmt::While { cond, body } => Stmt::While { cond: cond.clone(), body: list(body) },
            Stmt::Attr { node, key, value, body } => {
                Stmt::Attr { node: node.clone(), key: key.clone(), value: value.clone(), body: list(body) }
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Evaluate(_) | Stmt::Alloc { .. } => self.clone(),
        }
    }

    /// Replaces variables in every expression.
    pub fn subst(&self, map: &dyn Fn(&Name) -> Option<Expr>) -> Stmt {
        self.map_exprs(&mut |e| e.subst(map))
    }
}

impl Region {
    fn map_exprs(&mut self, f: &mut impl FnMut(&Expr) -> Expr) {
        for d in &mut self.dims {
            d.min = f(&d.min);
            d.extent = f(&d.extent);
        }
    }
}
