//! Replaces blocks by plain statements and thread-bound loops by thread indices.
//!
//! Iterators become their bindings, `T.where` becomes an `if`, an `init` that is still there runs
//! before the block's innermost reduction loops (or, where spatial loops stand between, under
//! "all reduction iterators are at their first value"), and a store to memory that several threads
//! would make alike is left to the first of them.
//!
//! before: `for i in thread_binding(32, "threadIdx.x"): with block: v = S(i * 2); where(i < 5); A[v] = 0`
//! after:  `if threadIdx.x < 5 { A[threadIdx.x * 2] = 0 }`

use super::launches::parallel_loop;
use crate::analysis::{prove, simplify};
use crate::ir::device::{Ahead, DFor, DKind, DStmt, TileMark, all_of, and, conjuncts, guarded, index_var};
use crate::ir::kernel::CacheHint;
use crate::ir::{BinOp, Block, Expr, For, ForKind, IterKind, Mark, Name, Stmt, ThreadTag};
use crate::lower::LowerError;
use crate::lower::calls::thread_reduce;
use crate::lower::fact::replicated::Replicated;
use crate::lower::nest::Nest;
use std::collections::{BTreeMap, BTreeSet};

pub const PASS: &str = "blocks";

/// What is known at a place in the tree.
#[derive(Clone, Default)]
pub struct Env {
    /// Values of loop variables that are gone and of block iterators.
    pub map: BTreeMap<Name, Expr>,
    /// Thread axes that a loop around is bound to.
    pub tags: Vec<ThreadTag>,
    /// Conditions of loops bound to fewer threads than the block has, and of blocks around.
    pub guard: Option<Expr>,
    unroll_step: Option<i64>,
    hint: CacheHint,
}

impl Env {
    /// An expression with everything known put in.
    pub fn value(&self, e: &Expr, nest: &Nest) -> Expr {
        simplify(&self.plain(e), &nest.ranges)
    }

    fn plain(&self, e: &Expr) -> Expr {
        e.subst(&|n| self.map.get(n).cloned())
    }
}

/// Lowers the statement of one launch.
pub fn run(nest: &mut Nest, s: &Stmt) -> Result<Vec<DStmt>, LowerError> {
    let replicated = Replicated::of(nest, s);
    let mut lower = Lower { nest, replicated };
    if !lower.nest.cuda()
        && let Some(l) = parallel_loop(s)
    {
        let mut env = Env::default();
        env.map.insert(l.var.clone(), index_var(&Name::new(ThreadTag::BlockX.name())));
        return lower.list(&l.body, &env);
    }
    lower.list(std::slice::from_ref(s), &Env::default())
}

pub struct Lower<'n, 'a> {
    pub nest: &'n mut Nest<'a>,
    pub replicated: Replicated,
}

impl Lower<'_, '_> {
    fn list(&mut self, stmts: &[Stmt], env: &Env) -> Result<Vec<DStmt>, LowerError> {
        let mut out = vec![];
        for s in stmts {
            out.extend(self.stmt(s, env)?);
        }
        Ok(out)
    }

    fn stmt(&mut self, s: &Stmt, env: &Env) -> Result<Vec<DStmt>, LowerError> {
        match s {
            Stmt::For(l) => self.loop_(l, env),
            Stmt::Block(b) => self.block(b, env, Init::InPlace),
            Stmt::If { cond, then, otherwise } => {
                let cond = env.value(cond, self.nest);
                let (then, otherwise) = (self.list(then, env)?, self.list(otherwise, env)?);
                Ok(vec![DStmt::If { cond, then, otherwise }])
            }
            Stmt::Store { buffer, indices, value } => Ok(self.store(buffer, indices, value, env)),
            Stmt::Let { var, value } => Ok(vec![DStmt::Let { var: var.clone(), value: env.value(value, self.nest) }]),
            Stmt::While { .. } => Err(unsupported("a while loop")),
            Stmt::Evaluate(_) => Err(unsupported("an evaluated call")),
            Stmt::Attr { .. } => Err(unsupported("a T.attr")),
            Stmt::Alloc { .. } => Err(unsupported("an allocation outside a block")),
        }
    }

    /// A store; where several threads would make the same one to memory they share, the first does.
    fn store(&mut self, buffer: &Name, indices: &[Expr], value: &Expr, env: &Env) -> Vec<DStmt> {
        let indices = indices.iter().map(|e| env.value(e, self.nest)).collect();
        let value = env.value(value, self.nest);
        let store = DStmt::Store { buffer: buffer.clone(), indices, value, hint: env.hint };
        guarded(self.first_thread(buffer, &env.tags), vec![store])
    }

    /// Which thread stores, for each axis that no loop around is bound to.
    pub fn first_thread(&self, buffer: &Name, tags: &[ThreadTag]) -> Option<Expr> {
        if self.nest.is_local(buffer) {
            return None;
        }
        // Each block of a cluster has shared memory of its own.
        let axes = if self.nest.is_shared(buffer) { self.nest.live_axes() } else { self.nest.cluster_axes() };
        let free = axes.into_iter().filter(|t| !tags.contains(t));
        free.fold(None, |c, t| and(c, Some(Expr::binary(BinOp::Eq, self.nest.thread(t), Expr::i64(0)))))
    }

    fn loop_(&mut self, l: &For, env: &Env) -> Result<Vec<DStmt>, LowerError> {
        if let Some((loops, block)) = chain(l) {
            if let Some(reduce) = thread_reduce::build(self, &loops, block, env)? {
                return Ok(reduce);
            }
            if let Some(out) = self.hoisted_init(&loops, block, env)? {
                return Ok(out);
            }
        }
        self.plain_loop(l, env, |lower, env| lower.list(&l.body, env))
    }

    /// Binds or keeps one loop around what `body` makes.
    fn plain_loop(
        &mut self,
        l: &For,
        env: &Env,
        body: impl FnOnce(&mut Self, &Env) -> Result<Vec<DStmt>, LowerError>,
    ) -> Result<Vec<DStmt>, LowerError> {
        let mut env = env.clone();
        if self.enter(l, &mut env) {
            return body(self, &env);
        }
        let mut out = self.kept(l, &mut env);
        out.body = body(self, &env)?;
        Ok(if out.body.is_empty() { vec![] } else { vec![DStmt::For(out)] })
    }

    /// Binds a loop that leaves no loop behind: one over threads or blocks, or a single step.
    /// False for a loop that stays.
    pub fn enter(&mut self, l: &For, env: &mut Env) -> bool {
        env.unroll_step = marks(l).unroll_step.or(env.unroll_step);
        if let ForKind::Thread(tag) = l.kind
            && is_hardware(tag)
        {
            self.bind_thread(l, tag, env);
            return true;
        }
        let extent = env.value(&l.extent, self.nest);
        if extent.is_int(1) && !marks(l).batch {
            env.map.insert(l.var.clone(), env.value(&l.min, self.nest));
            return true;
        }
        false
    }

    fn bind_thread(&mut self, l: &For, tag: ThreadTag, env: &mut Env) {
        if tag.is_block() {
            env.map.insert(l.var.clone(), index_var(&Name::new(tag.name())));
            return;
        }
        let thread = self.nest.thread(tag);
        env.map.insert(l.var.clone(), thread.clone());
        env.tags.push(tag);
        if let Some(n) = l.extent.as_int()
            && n < self.nest.threads(tag)
        {
            env.guard = and(env.guard.take(), Some(Expr::binary(BinOp::Lt, thread, Expr::i64(n))));
        }
    }

    /// The loop that stays in place of `l`, without a body.
    fn kept(&mut self, l: &For, env: &mut Env) -> DFor {
        let marks = marks(l);
        let extent = env.value(&l.extent, self.nest);
        let min = env.value(&l.min, self.nest);
        self.nest.ranges.set_span(l.var.clone(), &Expr::i64(0), &extent);
        env.map.insert(l.var.clone(), simplify(&(index_var(&l.var) + min), &self.nest.ranges));
        if marks.hint != CacheHint::Plain {
            env.hint = marks.hint;
        }
        let mut out = DFor::new(l.var.clone(), extent, loop_kind(l.kind), vec![]);
        (out.batch, out.unroll_step, out.hint) = (marks.batch, env.unroll_step, env.hint);
        if marks.tile.as_ref().is_some_and(|t| t.warps.is_some()) {
            // its elements are shared out among all threads
            env.tags.extend(self.nest.live_axes());
        }
        (out.tile, out.stages, out.roles, out.prefetch) = (marks.tile, marks.stages, marks.roles, marks.prefetch);
        out
    }

    fn block(&mut self, b: &Block, env: &Env, init: Init) -> Result<Vec<DStmt>, LowerError> {
        if let Some(reduce) = thread_reduce::build(self, &[], b, env)? {
            return Ok(reduce);
        }
        let env = self.bind_block(b, env);
        let inner = Env { guard: None, ..env.clone() };
        let mut out = vec![];
        if init != Init::Done && !b.init.is_empty() {
            let first = self.list(&b.init, &inner)?;
            out.extend(guarded(self.first_step(b, &env), first));
        }
        if init != Init::Only {
            out.extend(self.list(&b.body, &inner)?);
        }
        Ok(guarded(self.needed(env.guard.as_ref()), out))
    }

    /// The environment inside a block: iterators bound, its guard added.
    pub fn bind_block(&mut self, b: &Block, env: &Env) -> Env {
        let mut inside = env.clone();
        if let Some(hint) = block_hint(b) {
            inside.hint = hint;
        }
        for it in &b.iters {
            // The guard holds inside, so an iterator of one value has that value.
            let value = if it.extent.is_int(1) { it.min.clone() } else { env.value(&it.binding, self.nest) };
            inside.map.insert(it.var.clone(), value);
        }
        let guard = b.guard.as_ref().map(|g| inside.plain(g));
        inside.guard = and(env.guard.clone(), guard);
        inside
    }

    /// The part of a condition that isn't known to hold.
    pub fn needed(&self, cond: Option<&Expr>) -> Option<Expr> {
        let parts = conjuncts(cond?).into_iter().filter(|c| !prove(c, &self.nest.ranges));
        all_of(parts.map(|c| simplify(&c, &self.nest.ranges)))
    }

    /// "Every reduction iterator is at its first value".
    fn first_step(&self, b: &Block, env: &Env) -> Option<Expr> {
        let reduce = b.iters.iter().filter(|it| it.kind == IterKind::Reduce);
        let conds = reduce.map(|it| Expr::binary(BinOp::Eq, env.map[&it.var].clone(), it.min.clone()));
        let all = all_of(conds);
        self.needed(all.as_ref())
    }

    /// A nest of reduction loops directly around a block with an init: the init goes before it.
    fn hoisted_init(&mut self, loops: &[&For], b: &Block, env: &Env) -> Result<Option<Vec<DStmt>>, LowerError> {
        let (reduce, spatial) = (vars_of(b, env, IterKind::Reduce), vars_of(b, env, IterKind::Spatial));
        // A loop that passes from one element to the next starts several of them.
        let only_reduces = |l: &&For| reduce.contains(&l.var) && !spatial.contains(&l.var);
        let hoistable = !b.init.is_empty() && loops.iter().all(|l| only_reduces(l) || is_bound(l));
        if !hoistable || loops.first().is_none_or(|l| is_bound(l)) {
            return Ok(None);
        }
        let mut at_start = env.clone();
        for l in loops {
            if is_bound(l) {
                self.enter(l, &mut at_start);
            } else {
                at_start.map.insert(l.var.clone(), l.min.clone());
            }
        }
        let mut out = self.block(b, &at_start, Init::Only)?;
        out.extend(self.around(loops, b, env)?);
        Ok(Some(out))
    }

    fn around(&mut self, loops: &[&For], b: &Block, env: &Env) -> Result<Vec<DStmt>, LowerError> {
        match loops.split_first() {
            Some((l, rest)) => self.plain_loop(l, env, |lower, env| lower.around(rest, b, env)),
            None => self.block(b, env, Init::Done),
        }
    }
}

/// Where a block's init goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Init {
    /// With the body, under a condition.
    InPlace,
    /// It ran before the loops.
    Done,
    /// Only the init is wanted.
    Only,
}

fn unsupported(what: &str) -> LowerError {
    LowerError::new(PASS, &Name::new("body"), format!("{what} has no kernel form"))
}

/// Loops around one block with nothing beside them.
fn chain(l: &For) -> Option<(Vec<&For>, &Block)> {
    let mut loops = vec![l];
    let mut body = &l.body;
    loop {
        match body.as_slice() {
            [Stmt::For(inner)] => {
                loops.push(inner);
                body = &inner.body;
            }
            [Stmt::Block(b)] => return Some((loops, b)),
            _ => return None,
        }
    }
}

/// The variables (loops, thread indices) that a block's iterators of a kind run over.
pub fn vars_of(b: &Block, env: &Env, kind: IterKind) -> BTreeSet<Name> {
    let mut vars = BTreeSet::new();
    for it in b.iters.iter().filter(|it| it.kind == kind) {
        env.plain(&it.binding).visit(&mut |e| vars.extend(e.as_var().cloned()));
    }
    vars
}

fn is_bound(l: &For) -> bool {
    matches!(l.kind, ForKind::Thread(t) if is_hardware(t))
}

fn is_hardware(tag: ThreadTag) -> bool {
    tag.is_block() || tag.is_thread() || tag == ThreadTag::ClusterX
}

fn loop_kind(kind: ForKind) -> DKind {
    match kind {
        ForKind::Serial | ForKind::Parallel => DKind::Serial,
        ForKind::Unrolled | ForKind::Thread(_) => DKind::Unrolled,
        ForKind::Vectorized => DKind::Vectorized,
    }
}

struct Marks {
    batch: bool,
    unroll_step: Option<i64>,
    hint: CacheHint,
    tile: Option<TileMark>,
    stages: i64,
    roles: i64,
    prefetch: Ahead,
}

fn marks(l: &For) -> Marks {
    let mut found = Marks {
        batch: false,
        unroll_step: None,
        hint: CacheHint::Plain,
        tile: None,
        stages: 1,
        roles: 0,
        prefetch: Ahead::Never,
    };
    let (mut op, mut variant, mut warps) = (None, None, [None; 2]);
    for mark in Mark::all(&l.annotations) {
        match mark {
            Mark::Tile(of) => op = Some(of),
            Mark::TileVariant(name) => variant = Some(name),
            Mark::WarpsM(n) => warps[0] = Some(n),
            Mark::WarpsN(n) => warps[1] = Some(n),
            Mark::CacheHint(hint) => found.hint = hint,
            Mark::BatchLoads(yes) => found.batch = yes,
            Mark::Stages(n) => found.stages = n,
            Mark::Roles(n) => found.roles = n,
            Mark::Prefetch(blocks @ 1..) => found.prefetch = Ahead::Blocks(blocks),
            Mark::PrefetchBytes(bytes @ 1..) if found.prefetch == Ahead::Never => found.prefetch = Ahead::Bytes(bytes),
            Mark::UnrollStep(n) => found.unroll_step = Some(n),
            // `launches` reads these of loops, `placement` and `thread_reduce` those of blocks.
            Mark::Prefetch(_)
            | Mark::PrefetchBytes(_)
            | Mark::MinBlocks(_)
            | Mark::Merge(_)
            | Mark::LastBlock(_)
            | Mark::Persistent(_)
            | Mark::Fetched(_)
            | Mark::Combine(_)
            | Mark::Swizzle(_)
            | Mark::DimAlign(_) => {}
        }
    }
    let warps = warps[0].zip(warps[1]).map(|(m, n)| [m, n]);
    found.tile = op.map(|op| TileMark { op, variant, warps });
    found
}

/// The cache hint of a block.
fn block_hint(b: &Block) -> Option<CacheHint> {
    let hint = Mark::all(&b.attrs).find_map(|m| if let Mark::CacheHint(hint) = m { Some(hint) } else { None });
    hint.filter(|hint| *hint != CacheHint::Plain)
}
