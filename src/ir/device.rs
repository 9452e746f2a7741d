//! The form between a scheduled function and a kernel: statements with threads bound and blocks
//! gone, over buffers that still have their dimensions (until `flatten` gives them one). Tile
//! programs are written in this form. All index arithmetic is `int64` until the end of lowering.

use super::instr::Access;
use super::kernel::{Barrier, CacheHint, ShuffleMode};
use super::{BinOp, DType, Expr, ExprKind, Instr, Name, PrimFunc, ThreadTag, TileCall, TileOp};

/// A tile program: what every thread of a launch does, with tile primitives.
#[derive(Clone, PartialEq, Debug)]
pub struct DeviceFunc {
    /// Name, parameters, buffers (with their layouts) and extents. The body is not here.
    pub func: PrimFunc,
    /// Blocks per axis.
    pub grid: [Expr; 3],
    /// Threads per axis.
    pub block: [u32; 3],
    /// The statements; `blockIdx.*` and `threadIdx.*` are `int64` variables.
    pub body: Vec<DStmt>,
}

/// What a text may hold.
#[derive(Clone, PartialEq, Debug)]
pub enum Function {
    /// A tensor function, to be scheduled.
    Tensor(PrimFunc),
    /// A tile program, scheduled by hand.
    Tile(DeviceFunc),
}

impl Function {
    /// The function's own name.
    pub fn name(&self) -> &str {
        &self.header().name
    }

    /// Name, parameters, buffers and extents; of a tile program without a body.
    pub fn header(&self) -> &PrimFunc {
        match self {
            Function::Tensor(f) => f,
            Function::Tile(p) => &p.func,
        }
    }
}

/// A statement of a kernel on its way down.
// The text of a variant says what its fields are.
#[allow(missing_docs)]
#[derive(Clone, PartialEq, Debug)]
pub enum DStmt {
    /// A loop.
    For(DFor),
    /// A conditional.
    If { cond: Expr, then: Vec<DStmt>, otherwise: Vec<DStmt> },
    /// `buffer[indices] = value`.
    Store { buffer: Name, indices: Vec<Expr>, value: Expr, hint: CacheHint },
    /// Copies `lanes` adjacent elements in one vector access per side (see [`KStmt::Copy`](super::kernel::KStmt)).
    Copy { dst: Name, dst_index: Expr, src: Name, src_index: Expr, lanes: u32, hint: CacheHint },
    /// A scalar bound once, in scope until the end of the list.
    Let { var: Name, value: Expr },
    /// A mutable scalar of the thread, in scope until the end of the list.
    Var { var: Name, dtype: DType, init: Option<Expr> },
    /// Assigns a mutable scalar.
    Assign { var: Name, value: Expr },
    /// A warp shuffle (see [`KStmt::Shuffle`](super::kernel::KStmt)).
    Shuffle { dst: Name, mode: ShuffleMode, value: Expr, width: u32 },
    /// A barrier; its participants share all conditions around it.
    Barrier(Barrier),
    /// An instruction that has no counterpart in C.
    Instr(Instr),
    /// A call of a tile primitive, gone after dispatch.
    Tile(Box<TileCall>),
    /// A reduction over threads, gone after `cross_thread`.
    Reduce(Box<ThreadReduce>),
}

/// A loop from 0.
#[derive(Clone, PartialEq, Debug)]
pub struct DFor {
    /// Its variable, an `int64`.
    pub var: Name,
    /// How many iterations, at most.
    pub extent: Expr,
    /// What has to hold before each of them: the loop ends where it does not.
    pub live: Option<Expr>,
    /// How they run.
    pub kind: DKind,
    /// Loads of all iterations go before the rest (`batch_loads`).
    pub batch: bool,
    /// `pragma_auto_unroll_max_step`.
    pub unroll_step: Option<i64>,
    /// The tile primitive that the loop amounts to, as the schedule says.
    pub tile: Option<TileMark>,
    /// Copies at the start of the body run ahead of its rest, in so many stages (`pipeline`); 1 where
    /// they do not.
    pub stages: i64,
    /// Those copies are made by threads of their own, and the others work at so many tiles, each group at one
    /// (`roles`); 0 where all threads copy.
    pub roles: i64,
    /// The loop has the barriers that its accesses to shared memory need (`pipeline`).
    pub own_barriers: bool,
    /// Cache hint of the copies directly inside.
    pub hint: CacheHint,
    /// How far ahead of their use the loads inside are asked for, on the CPU.
    pub prefetch: Ahead,
    /// What runs in each iteration.
    pub body: Vec<DStmt>,
}

/// How far ahead of its use a load is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ahead {
    /// It is not.
    #[default]
    Never,
    /// So many blocks of the grid.
    Blocks(i64),
    /// So many bytes: what follows in the same tensor.
    Bytes(i64),
}

/// What a schedule says of a leaf: the primitive, and the variant where it asks for one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TileMark {
    /// What the loop is.
    pub op: LeafOp,
    /// The variant; the dispatch table decides where none is asked for.
    pub variant: Option<String>,
    /// Where the threads of the block carry out the loop together: how many warps share out its tile
    /// of accumulators along rows and columns. None where each thread runs the loop.
    pub warps: Option<[i64; 2]>,
}

/// What a marked loop is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeafOp {
    /// One primitive.
    Tile(TileOp),
    /// Whatever primitives its value is made of, element by element.
    Elementwise,
    /// A sum of products with values packed in integers.
    Unpack,
    /// The same in pairs of float16, where the function adds in float16.
    UnpackPairs,
}

impl LeafOp {
    /// The leaves that are no primitive.
    const OTHERS: [LeafOp; 3] = [LeafOp::Elementwise, LeafOp::Unpack, LeafOp::UnpackPairs];

    /// The name, as [`Mark::Tile`](super::Mark::Tile) is written.
    pub fn name(self) -> &'static str {
        match self {
            LeafOp::Tile(op) => op.name(),
            LeafOp::Elementwise => "elementwise",
            LeafOp::Unpack => "unpack",
            LeafOp::UnpackPairs => "unpack_pairs",
        }
    }

    /// The leaf of that name.
    pub fn by_name(name: &str) -> Option<LeafOp> {
        let other = LeafOp::OTHERS.into_iter().find(|op| op.name() == name);
        other.or_else(|| TileOp::by_name(name).map(LeafOp::Tile))
    }
}

/// How the iterations of a loop run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DKind {
    /// One after the other.
    Serial,
    /// The same, written out.
    Unrolled,
    /// In one vector access or operation per statement.
    Vectorized,
}

/// A reduction whose last step combines values of several threads.
#[derive(Clone, PartialEq, Debug)]
pub struct ThreadReduce {
    /// The block it comes from.
    pub block: Name,
    /// The thread axes that are reduced, x first.
    pub tags: Vec<ThreadTag>,
    /// Constant loops around it: each thread reduces one value per point.
    pub elements: Vec<(Name, i64)>,
    /// Serial loops over the thread's own part of the reduction.
    pub serial: Vec<(Name, Expr)>,
    /// Where a term exists.
    pub guard: Option<Expr>,
    /// The combiner, applied to two accumulators.
    pub op: BinOp,
    /// Its identity.
    pub identity: Expr,
    /// What is reduced.
    pub term: Expr,
    /// What the destination starts from, where that is not the identity.
    pub start: Option<Expr>,
    /// The destination.
    pub dst: Name,
    /// Which element of it, one index per dimension.
    pub indices: Vec<Expr>,
    /// Which threads write the destination.
    pub write_guard: Option<Expr>,
    /// The variant that the schedule asks for.
    pub variant: Option<String>,
    /// True when all reducing threads read the result, not only the first of the group.
    pub needs_all: bool,
}

impl DFor {
    /// A plain loop.
    pub fn new(var: Name, extent: Expr, kind: DKind, body: Vec<DStmt>) -> DFor {
        DFor {
            var,
            extent,
            live: None,
            kind,
            batch: false,
            unroll_step: None,
            tile: None,
            stages: 1,
            roles: 0,
            own_barriers: false,
            hint: CacheHint::Plain,
            prefetch: Ahead::Never,
            body,
        }
    }

    /// The same loop around another body.
    pub fn with_body(&self, body: Vec<DStmt>) -> DFor {
        DFor { body, ..self.clone() }
    }
}

/// A variable of index arithmetic.
pub fn index_var(name: &Name) -> Expr {
    Expr::var(name.clone(), DType::I64)
}

/// `a && b` over optional conditions.
pub fn and(a: Option<Expr>, b: Option<Expr>) -> Option<Expr> {
    match (a, b) {
        (Some(a), Some(b)) if a == b => Some(a),
        (Some(a), Some(b)) => Some(Expr::binary(BinOp::And, a, b)),
        (a, b) => a.or(b),
    }
}

/// The conjunction of conditions, where there are any.
pub fn all_of(conds: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    conds.into_iter().fold(None, |all, c| and(all, Some(c)))
}

/// The condition that a list consists of, which has no other branch, and what is under it.
pub fn only_guarded(list: &[DStmt]) -> Option<(&Expr, &[DStmt])> {
    match list {
        [DStmt::If { cond, then, otherwise }] if otherwise.is_empty() => Some((cond, then)),
        _ => None,
    }
}

/// The operands of a conjunction.
pub fn conjuncts(cond: &Expr) -> Vec<Expr> {
    if let ExprKind::Binary { op: BinOp::And, a, b } = cond.kind() {
        let mut all = conjuncts(a);
        all.extend(conjuncts(b));
        return all;
    }
    vec![cond.clone()]
}

/// `then` under an optional condition.
pub fn guarded(cond: Option<Expr>, then: Vec<DStmt>) -> Vec<DStmt> {
    match cond {
        Some(c) if !c.is_int(1) && !then.is_empty() => vec![DStmt::If { cond: c, then, otherwise: vec![] }],
        _ => then,
    }
}

impl DStmt {
    /// A loop of so many steps that is written out.
    pub fn unrolled(var: &Name, n: i64, body: Vec<DStmt>) -> DStmt {
        DStmt::For(DFor::new(var.clone(), Expr::i64(n), DKind::Unrolled, body))
    }

    /// A store without a hint.
    pub fn store(buffer: Name, indices: Vec<Expr>, value: Expr) -> DStmt {
        DStmt::Store { buffer, indices, value, hint: CacheHint::Plain }
    }

    /// The statement lists inside.
    pub fn lists(&self) -> Vec<&Vec<DStmt>> {
        match self {
            DStmt::For(l) => vec![&l.body],
            DStmt::If { then, otherwise, .. } => vec![then, otherwise],
            DStmt::Store { .. }
            | DStmt::Copy { .. }
            | DStmt::Let { .. }
            | DStmt::Var { .. }
            | DStmt::Assign { .. }
            | DStmt::Shuffle { .. }
            | DStmt::Barrier(_)
            | DStmt::Instr(_)
            | DStmt::Tile(_)
            | DStmt::Reduce(_) => vec![],
        }
    }

    /// The statement lists inside, to be changed.
    pub fn lists_mut(&mut self) -> Vec<&mut Vec<DStmt>> {
        match self {
            DStmt::For(l) => vec![&mut l.body],
            DStmt::If { then, otherwise, .. } => vec![then, otherwise],
            leaf => {
                debug_assert!(leaf.lists().is_empty(), "both forms give the same lists");
                vec![]
            }
        }
    }

    /// Calls `f` on this statement and all inside it, parents first.
    pub fn visit(&self, f: &mut impl FnMut(&DStmt)) {
        f(self);
        for list in self.lists() {
            list.iter().for_each(|s| s.visit(f));
        }
    }

    /// The variable that the statement declares.
    pub fn declared(&self) -> Option<&Name> {
        match self {
            DStmt::For(DFor { var, .. }) | DStmt::Let { var, .. } | DStmt::Var { var, .. } => Some(var),
            _ => None,
        }
    }

    /// Calls `f` on the expressions directly in this statement.
    pub fn for_each_expr(&self, mut f: impl FnMut(&Expr)) {
        match self {
            DStmt::For(l) => std::iter::once(&l.extent).chain(&l.live).for_each(f),
            DStmt::If { cond, .. } => f(cond),
            DStmt::Store { indices, value, .. } => {
                indices.iter().for_each(&mut f);
                f(value);
            }
            DStmt::Copy { dst_index, src_index, .. } => {
                f(dst_index);
                f(src_index);
            }
            DStmt::Let { value, .. } | DStmt::Assign { value, .. } | DStmt::Shuffle { value, .. } => f(value),
            DStmt::Var { init, .. } => init.iter().for_each(f),
            DStmt::Barrier(_) => {}
            DStmt::Instr(i) => i.for_each_expr(f),
            DStmt::Tile(call) => call.for_each_expr(f),
            DStmt::Reduce(r) => {
                r.guard.iter().chain(&r.write_guard).chain(&r.start).chain(&r.indices).for_each(&mut f);
                r.serial.iter().for_each(|(_, e)| f(e));
                f(&r.term);
            }
        }
    }

    /// Calls `f` on every load in the expressions directly in this statement.
    pub fn for_each_load(&self, mut f: impl FnMut(&Name, &[Expr])) {
        self.for_each_expr(|e| {
            e.visit(&mut |e| {
                if let ExprKind::Load { buffer, indices, .. } = e.kind() {
                    f(buffer, indices);
                }
            });
        });
    }

    /// Calls `f` on every element that the statement itself reads or writes, with its indices: what it stores or
    /// copies, places of its instruction, loads.
    pub fn for_each_access(&self, mut f: impl FnMut(&Name, &[Expr], Access)) {
        match self {
            DStmt::Store { buffer, indices, .. } => f(buffer, indices, Access::Write),
            DStmt::Copy { dst, dst_index, src, src_index, .. } => {
                f(dst, std::slice::from_ref(dst_index), Access::Write);
                f(src, std::slice::from_ref(src_index), Access::Read);
            }
            DStmt::Instr(i) => i.for_each_place(|at, access, _| f(&at.array, std::slice::from_ref(&at.index), access)),
            DStmt::For(_)
            | DStmt::If { .. }
            | DStmt::Let { .. }
            | DStmt::Var { .. }
            | DStmt::Assign { .. }
            | DStmt::Shuffle { .. }
            | DStmt::Barrier(_)
            | DStmt::Tile(_)
            | DStmt::Reduce(_) => {}
        }
        self.for_each_load(|buffer, indices| f(buffer, indices, Access::Read));
    }

    /// The same statement with `f` applied to the statement lists directly inside, in order.
    pub fn map_lists(mut self, mut f: impl FnMut(Vec<DStmt>) -> Vec<DStmt>) -> DStmt {
        for list in self.lists_mut() {
            *list = f(std::mem::take(list));
        }
        self
    }

    /// `map_lists` with a function that may fail.
    ///
    /// # Errors
    /// The first error of `f`.
    pub fn try_map_lists<E>(mut self, mut f: impl FnMut(Vec<DStmt>) -> Result<Vec<DStmt>, E>) -> Result<DStmt, E> {
        for list in self.lists_mut() {
            *list = f(std::mem::take(list))?;
        }
        Ok(self)
    }

    /// The same statement with `f` applied to the expressions directly in it.
    pub fn map_own_exprs(self, f: &mut impl FnMut(&Expr) -> Expr) -> DStmt {
        match self {
            DStmt::For(l) => DStmt::For(DFor { extent: f(&l.extent), live: l.live.as_ref().map(f), ..l }),
            DStmt::If { cond, then, otherwise } => DStmt::If { cond: f(&cond), then, otherwise },
            DStmt::Store { buffer, indices, value, hint } => {
                DStmt::Store { buffer, indices: indices.iter().map(&mut *f).collect(), value: f(&value), hint }
            }
            DStmt::Copy { dst, dst_index, src, src_index, lanes, hint } => {
                DStmt::Copy { dst, dst_index: f(&dst_index), src, src_index: f(&src_index), lanes, hint }
            }
            DStmt::Let { var, value } => DStmt::Let { var, value: f(&value) },
            DStmt::Var { var, dtype, init } => DStmt::Var { var, dtype, init: init.as_ref().map(f) },
            DStmt::Assign { var, value } => DStmt::Assign { var, value: f(&value) },
            DStmt::Shuffle { dst, mode, value, width } => DStmt::Shuffle { dst, mode, value: f(&value), width },
            DStmt::Barrier(b) => DStmt::Barrier(b),
            DStmt::Instr(i) => DStmt::Instr(i.map_exprs(f)),
            DStmt::Tile(call) => DStmt::Tile(Box::new(call.map_exprs(f))),
            DStmt::Reduce(r) => DStmt::Reduce(Box::new(r.map_exprs(f))),
        }
    }

    /// Rebuilds the tree with `f` applied to every expression in it, parents first.
    pub fn map_exprs(&self, f: &mut impl FnMut(&Expr) -> Expr) -> DStmt {
        self.clone().into_mapped(f)
    }

    fn into_mapped(self, f: &mut impl FnMut(&Expr) -> Expr) -> DStmt {
        self.map_own_exprs(f).map_lists(|list| list.into_iter().map(|s| s.into_mapped(f)).collect())
    }

    /// Replaces variables in every expression.
    pub fn subst(&self, map: &dyn Fn(&Name) -> Option<Expr>) -> DStmt {
        self.map_exprs(&mut |e| e.subst(map))
    }
}

/// `map_exprs` over a list.
pub fn map_list(list: &[DStmt], f: &mut impl FnMut(&Expr) -> Expr) -> Vec<DStmt> {
    list.iter().map(|s| s.map_exprs(f)).collect()
}

/// The tree with `f` applied to every statement in it, those inside first.
pub fn map_stmts(list: Vec<DStmt>, f: &mut impl FnMut(DStmt) -> DStmt) -> Vec<DStmt> {
    let mut out = Vec::with_capacity(list.len());
    for s in list {
        let s = s.map_lists(|inner| map_stmts(inner, f));
        out.push(f(s));
    }
    out
}

impl ThreadReduce {
    fn map_exprs(&self, f: &mut impl FnMut(&Expr) -> Expr) -> ThreadReduce {
        ThreadReduce {
            serial: self.serial.iter().map(|(v, e)| (v.clone(), f(e))).collect(),
            guard: self.guard.as_ref().map(&mut *f),
            term: f(&self.term),
            start: self.start.as_ref().map(&mut *f),
            indices: self.indices.iter().map(&mut *f).collect(),
            write_guard: self.write_guard.as_ref().map(&mut *f),
            ..self.clone()
        }
    }
}
