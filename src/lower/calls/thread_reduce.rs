//! Recognises a reduction whose reduction iterator runs over threads, and gathers what is needed to
//! carry it out: the thread's own part, the axes to combine over, and who writes the result.
//! A reduction over the blocks of a cluster is one over their threads too.
//! Constant spatial loops directly around it become its elements, so that all of them share one
//! exchange. Declines (`None`) where no reduction iterator is bound to threads.

use super::thread_arg;
use crate::analysis::{ArgReducer, Combiner};
use crate::ir::device::{DStmt, ThreadReduce, and, index_var};
use crate::ir::{BinOp, Block, DType, Expr, ExprKind, For, IterKind, Mark, Name, Stmt, ThreadTag};
use crate::lower::LowerError;
use crate::lower::fact::reducer::{Update, idempotent, update};
use crate::lower::nest::Nest;
use crate::lower::pass::blocks::{Env, Lower, vars_of};

const PASS: &str = "cross-thread reduction";
/// Values per thread that one exchange may hold.
const MAX_ELEMENTS: i64 = 64;

/// The reduction that `loops` (outer to inner, nothing beside them) and `b` make, if it is one.
pub fn build(lower: &mut Lower, loops: &[&For], b: &Block, env: &Env) -> Result<Option<Vec<DStmt>>, LowerError> {
    if !b.iters.iter().any(|it| it.kind == IterKind::Reduce) {
        return Ok(None);
    }
    let mut inside = env.clone();
    let kept: Vec<&For> = loops.iter().filter(|l| !lower.enter(l, &mut inside)).copied().collect();
    let reduce = vars_of(b, &inside, IterKind::Reduce);
    let tags: Vec<ThreadTag> =
        lower.nest.cluster_axes().into_iter().filter(|t| reduce.contains(&Name::new(t.name()))).collect();
    if tags.is_empty() {
        return Ok(None);
    }
    let (serial, spatial): (Vec<&For>, Vec<&For>) = kept.iter().partition(|l| reduce.contains(&l.var));
    let Some(elements) = element_loops(&spatial, &inside, lower.nest) else { return Ok(None) };
    let outer = |n: &&Name| env.map.get(*n).is_some_and(|e| e.as_var() == Some(*n)) && !n.as_str().contains("Idx.");
    if let Some(name) = reduce.iter().find(outer) {
        return Err(LowerError::new(
            PASS,
            &b.name,
            format!("the reduction loop `{name}` stands outside spatial loops"),
        ));
    }
    let mut serial_loops = vec![];
    for l in &kept {
        let extent = inside.value(&l.extent, lower.nest);
        lower.nest.ranges.set_span(l.var.clone(), &Expr::i64(0), &extent);
        inside.map.insert(l.var.clone(), inside.value(&(index_var(&l.var) + l.min.clone()), lower.nest));
        if serial.iter().any(|s| s.var == l.var) {
            serial_loops.push((l.var.clone(), extent));
        }
    }
    let inside = lower.bind_block(b, &inside);
    one_result(b, &inside, serial.iter().map(|l| l.var.clone()).chain(tags.iter().map(|t| Name::new(t.name()))))?;
    let reduce = Found { b, tags, elements, serial: serial_loops };
    finish(lower, reduce, &inside).map(Some)
}

/// Fails where something that a reduction runs over passes on to another result as well.
fn one_result(b: &Block, env: &Env, vars: impl Iterator<Item = Name>) -> Result<(), LowerError> {
    let spatial = || b.iters.iter().filter(|it| it.kind == IterKind::Spatial).filter_map(|it| env.map.get(&it.var));
    match vars.into_iter().find(|n| spatial().any(|e| e.uses_var(n))) {
        None => Ok(()),
        Some(n) => {
            Err(LowerError::new(PASS, &b.name, format!("`{n}` runs over steps of the reduction of several results")))
        }
    }
}

/// A block that reduces over threads.
pub struct Found<'b> {
    pub b: &'b Block,
    /// The thread axes that are reduced.
    pub tags: Vec<ThreadTag>,
    /// Constant loops around it.
    pub elements: Vec<(Name, i64)>,
    /// Loops over a thread's own part.
    pub serial: Vec<(Name, Expr)>,
}

fn element_loops(spatial: &[&For], env: &Env, nest: &Nest) -> Option<Vec<(Name, i64)>> {
    let loops: Option<Vec<(Name, i64)>> =
        spatial.iter().map(|l| Some((l.var.clone(), env.value(&l.extent, nest).as_int()?))).collect();
    loops.filter(|l| l.iter().map(|(_, n)| n).product::<i64>() <= MAX_ELEMENTS)
}

/// One reduction after the other for what the block accumulates.
fn finish(lower: &mut Lower, found: Found, env: &Env) -> Result<Vec<DStmt>, LowerError> {
    let mut out = vec![];
    let mut stores = found.b.body.as_slice();
    while !stores.is_empty() {
        if let Some(arg) = stores.get(..2).and_then(|pair| ArgReducer::of_stores(found.b, pair)) {
            out.extend(thread_arg::build(lower, &found, env, &arg)?);
            stores = &stores[2..];
        } else {
            let up = single_update(found.b, &stores[0])?;
            out.push(found.plain(lower, env, up)?);
            stores = &stores[1..];
        }
    }
    Ok(out)
}

impl Found<'_> {
    /// The reduction of one buffer.
    fn plain(&self, lower: &Lower, env: &Env, up: Update) -> Result<DStmt, LowerError> {
        let b = self.b;
        let dtype = lower.nest.buffer(PASS, &up.buffer)?.dtype;
        let neutral = self.identity(up.op, dtype)?;
        let indices: Vec<Expr> = up.indices.iter().map(|e| env.value(e, lower.nest)).collect();
        let (identity, start) = match init_value(b, &up.buffer, &up.indices)? {
            None => (neutral, Some(Expr::load(up.buffer.clone(), indices.clone(), dtype))),
            Some(v) if idempotent(up.op) && is_constant(&v) => (v, None),
            Some(v) if same_constant(&v, &neutral) => (neutral, None),
            Some(v) => (neutral, Some(env.value(&v, lower.nest))),
        };
        let step = self.step(lower, env, &[&up.buffer]);
        let term = env.value(&up.term, lower.nest);
        let write_guard = self.write_guard(lower, env, &step, &up.buffer, start.is_some());
        let needs_all = lower.replicated.any(&up.buffer, &self.tags);
        let how = ThreadReduce { write_guard, needs_all, start, ..self.reduce(up.op, step, term, identity) };
        Ok(DStmt::Reduce(Box::new(ThreadReduce { dst: up.buffer, indices, ..how })))
    }

    /// A reduction over these threads that writes nothing yet.
    pub fn reduce(&self, op: BinOp, step: Option<Expr>, term: Expr, identity: Expr) -> ThreadReduce {
        ThreadReduce {
            block: self.b.name.clone(),
            tags: self.tags.clone(),
            elements: self.elements.clone(),
            serial: self.serial.clone(),
            guard: step,
            op,
            identity,
            term,
            start: None,
            dst: self.b.name.clone(),
            indices: vec![],
            write_guard: None,
            variant: combine_variant(self.b),
            needs_all: true,
        }
    }

    /// The identity of a combiner.
    pub fn identity(&self, op: BinOp, dtype: DType) -> Result<Expr, LowerError> {
        let identity = Combiner::of(op).and_then(|c| c.identity(dtype));
        identity.ok_or_else(|| LowerError::new(PASS, &self.b.name, format!("the combiner has no identity in {dtype}")))
    }

    /// Where a thread has a term, for a reduction into `buffers`.
    pub fn step(&self, lower: &Lower, env: &Env, buffers: &[&Name]) -> Option<Expr> {
        lower.needed(and(env.guard.clone(), alike(lower, buffers, &env.tags)).as_ref())
    }

    /// Which threads write `buffer`; those that start from something must be in its range.
    pub fn write_guard(
        &self,
        lower: &Lower,
        env: &Env,
        step: &Option<Expr>,
        buffer: &Name,
        starts: bool,
    ) -> Option<Expr> {
        let reduced = |n: &Name| {
            let thread = self.tags.iter().any(|t| t.name() == n.as_str());
            (thread || self.serial.iter().any(|(v, _)| v == n)).then(|| Expr::i64(0))
        };
        let in_range = step.as_ref().map(|g| g.subst(&reduced));
        let in_range = lower.needed(in_range.as_ref()).filter(|_| !lower.nest.is_local(buffer) || starts);
        let tags_left: Vec<ThreadTag> = env.tags.iter().filter(|t| !self.tags.contains(t)).copied().collect();
        and(lower.first_thread(buffer, &tags_left), in_range)
    }
}

/// The variant that the schedule asks for.
fn combine_variant(b: &Block) -> Option<String> {
    Mark::all(&b.attrs).find_map(|mark| if let Mark::Combine(name) = mark { Some(name) } else { None })
}

/// Threads of an axis that no loop around is bound to would all reduce the same: the first does,
/// unless all of them read the result.
fn alike(lower: &Lower, dst: &[&Name], tags: &[ThreadTag]) -> Option<Expr> {
    let free = |t: &ThreadTag| !tags.contains(t) && !dst.iter().any(|dst| lower.replicated.any(dst, &[*t]));
    let first = |t: ThreadTag| Some(Expr::binary(BinOp::Eq, lower.nest.thread(t), Expr::i64(0)));
    lower.nest.live_axes().into_iter().filter(free).map(first).fold(None, and)
}

fn single_update(b: &Block, store: &Stmt) -> Result<Update, LowerError> {
    let found = match store {
        Stmt::Store { buffer, indices, value } => update(buffer, indices, value),
        _ => None,
    };
    found.ok_or_else(|| {
        LowerError::new(
            PASS,
            &b.name,
            "expected updates `B[i] = B[i] op term` with op among + * max min, or an index and a value kept together",
        )
    })
}

/// What the init of a block stores to the reduced element.
pub fn init_value(b: &Block, buffer: &Name, indices: &[Expr]) -> Result<Option<Expr>, LowerError> {
    let stores = |s: &&Stmt| matches!(s, Stmt::Store { buffer: to, indices: at, .. } if to == buffer && at == indices);
    match (b.init.iter().find(stores), b.init.is_empty()) {
        (Some(Stmt::Store { value, .. }), _) => Ok(Some(value.clone())),
        (None, true) => Ok(None),
        _ => Err(LowerError::new(PASS, &b.name, "expected an init that stores one value to the reduced element")),
    }
}

fn is_constant(e: &Expr) -> bool {
    if let ExprKind::Cast { arg, .. } = e.kind() {
        return is_constant(arg);
    }
    matches!(e.kind(), ExprKind::Int { .. } | ExprKind::Float { .. })
}

fn same_constant(a: &Expr, b: &Expr) -> bool {
    if let ExprKind::Cast { arg, .. } = a.kind() {
        return same_constant(arg, b);
    }
    let number = |e: &Expr| e.as_float().or(e.as_int().map(|n| n as f64));
    number(a).is_some() && number(a) == number(b)
}
