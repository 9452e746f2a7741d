//! Compiles blocks as sources of single elements: given where an element lies, a block's iterators
//! follow from the indices of its store, and what is left are loops over its reductions.

use super::Mode;
use super::compile::{Cell, Compiler, Demand};
use super::layout::{Layout, buffer_index};
use super::op::{Code, InterpError, Op};
use super::run::written_buffers;
use crate::ir::{BinOp, Block, DType, Expr, ExprKind, IterKind, IterVar, Name, PrimFunc, Stmt};
use std::collections::HashMap;

type Result<T> = std::result::Result<T, InterpError>;

/// How one dimension of a store follows from the iterators: the index is `shift` and the sum of the digits' iterators, each
/// times its weight.
#[derive(Default)]
pub(super) struct Dim {
    pub shift: i64,
    /// The largest weight first; what the others add stays below the weight before them.
    pub digits: Vec<Digit>,
}

/// An iterator that an index gives the value of.
pub(super) struct Digit {
    pub number: usize,
    pub weight: i64,
    /// No dimension that is solved before gives it.
    pub first: bool,
}

impl Dim {
    /// True where the index gives the value of an iterator.
    fn gives(&self, iter: usize) -> bool {
        self.digits.iter().any(|d| d.number == iter)
    }
}

/// A block as the source of one buffer's elements.
pub(super) struct Producer {
    /// Position of the block in the function.
    pub block: usize,
    /// Position of the buffer in the table.
    pub buffer: usize,
    pub dims: Vec<Dim>,
    /// Bounds and register of each iterator that the store's indices determine.
    pub iters: Vec<Option<(i64, i64, u16)>>,
    /// Where the code starts.
    pub entry: usize,
    pub cell: Cell,
    /// The body reads the element before it writes it.
    pub needs_old: bool,
    /// Has iterators that are run through.
    pub reduces: bool,
}

/// Compiled producers of everything that the output needs.
pub(super) struct Plan {
    pub code: Code,
    pub producers: Vec<Producer>,
    /// Producers of each buffer of the table, in program order.
    pub of_buffer: Vec<Vec<usize>>,
    pub shapes: Vec<Vec<i64>>,
    pub cells: usize,
    pub blocks: usize,
}

impl Plan {
    pub fn of(f: &PrimFunc, layout: &Layout, output: &Name) -> Result<Plan> {
        let blocks = blocks(f)?;
        let written: Vec<Name> = written_buffers(f).into_iter().collect();
        let mut compiler = Compiler::new(f, layout, Mode::F64)?;
        let mut plan = Plan {
            code: Code::default(),
            producers: vec![],
            of_buffer: f.buffers.iter().map(|_| vec![]).collect(),
            shapes: layout.shapes.clone(),
            cells: 0,
            blocks: blocks.len(),
        };
        let mut wanted = vec![output.clone()];
        let mut done: Vec<Name> = vec![];
        while let Some(buffer) = wanted.pop() {
            if done.contains(&buffer) || !written.contains(&buffer) {
                continue;
            }
            for (at, block) in blocks.iter().enumerate().filter(|(_, b)| stores(b).any(|s| *s.0 == buffer)) {
                let p = plan.producer(&mut compiler, at, block, &buffer, &written)?;
                plan.of_buffer[buffer_index(f, &buffer)].push(plan.producers.len());
                plan.producers.push(p);
                block_loads(block, &mut wanted);
            }
            done.push(buffer);
        }
        plan.code = compiler.code;
        Ok(plan)
    }

    fn producer(
        &mut self,
        c: &mut Compiler,
        at: usize,
        b: &Block,
        buffer: &Name,
        written: &[Name],
    ) -> Result<Producer> {
        let mut cells = HashMap::new();
        for (name, indices) in stores(b) {
            let dtype = c.f.buffer(name).dtype;
            let value = c.lasting(dtype)?;
            let cell = Cell { number: self.cells as u16, value, indices: indices.to_vec() };
            if !cells.contains_key(name) {
                self.cells += 1;
                cells.insert(name.clone(), cell);
            }
        }
        let cell = cells[buffer].clone();
        let dims = dims(c.f, b, &cell.indices)?;
        let fixed = |i: usize| dims.iter().any(|d| d.gives(i));
        let mut iters = vec![];
        for (i, it) in b.iters.iter().enumerate() {
            iters.push(if fixed(i) { Some(solved(c, it)?) } else { None });
        }
        let reduces = iters.iter().any(Option::is_none);
        let entry = c.here() as usize;
        let needs_old = b.init.is_empty() && reads_own(b, buffer);
        c.demand = Some(Demand { cells, computed: written.to_vec() });
        c.separate_temporaries();
        open_loops(c, b, &iters, 0)?;
        c.emit(Op::Halt);
        c.demand = None;
        Ok(Producer { block: at, buffer: buffer_index(c.f, buffer), dims, iters, entry, cell, needs_old, reduces })
    }

    pub fn flat(&self, f: &PrimFunc, buffer: u16, point: &[i64]) -> Result<usize> {
        let shape = &self.shapes[buffer as usize];
        let fits = point.len() == shape.len() && point.iter().zip(shape).all(|(i, n)| (0..*n).contains(i));
        if !fits {
            let name = f.display_name(&f.buffers[buffer as usize].name).to_string();
            return Err(InterpError::OutOfBounds { buffer: name, index: point.to_vec(), shape: shape.clone() });
        }
        Ok(point.iter().zip(shape).fold(0, |at, (i, n)| at * *n as usize + *i as usize))
    }
}

/// Bounds and register of an iterator whose value a store's index gives.
fn solved(c: &mut Compiler, it: &IterVar) -> Result<(i64, i64, u16)> {
    let (min, extent) = (c.extent(&it.min)?, c.extent(&it.extent)?);
    let reg = c.lasting(DType::I64)?;
    c.vars.insert(it.var.clone(), reg);
    if let Some(loop_var) = it.binding.as_var() {
        c.vars.insert(loop_var.clone(), reg);
    }
    Ok((min, min + extent, reg.int()?))
}

/// Loops over the iterators from `k` that no index determines, then the block's statements.
fn open_loops(c: &mut Compiler, b: &Block, iters: &[Option<(i64, i64, u16)>], k: usize) -> Result<()> {
    match iters.get(k) {
        Some(Some(_)) => open_loops(c, b, iters, k + 1),
        Some(None) => {
            let it = &b.iters[k];
            c.counted(&it.var, &it.min, &it.extent, |c| {
                if let (Some(loop_var), Some(reg)) = (it.binding.as_var(), c.vars.get(&it.var).copied()) {
                    c.vars.insert(loop_var.clone(), reg);
                }
                open_loops(c, b, iters, k + 1)
            })
        }
        None => {
            let guard = b.guard.as_ref().map(|g| c.skip_unless(g)).transpose()?;
            c.init(b)?;
            c.stmts(&b.body)?;
            if let Some(at) = guard {
                c.patch_here(at);
            }
            Ok(())
        }
    }
}

/// The blocks in program order, all of them leaves bound to loops one to one.
fn blocks(f: &PrimFunc) -> Result<Vec<&Block>> {
    fn collect<'a>(s: &'a Stmt, found: &mut Vec<&'a Block>) -> Result<()> {
        match s {
            Stmt::For(l) if l.min.is_int(0) => l.body.iter().try_for_each(|s| collect(s, found)),
            Stmt::Block(b) if b.matches.is_empty() && !b.is_serial() && b.iters.iter().all(plain) => {
                found.push(b);
                Ok(())
            }
            Stmt::For(_)
            | Stmt::Block(_)
            | Stmt::If { .. }
            | Stmt::While { .. }
            | Stmt::Store { .. }
            | Stmt::Let { .. }
            | Stmt::Evaluate(_)
            | Stmt::Attr { .. }
            | Stmt::Alloc { .. } => Err(unsupported("a function whose blocks are not bound to loops one to one")),
        }
    }
    fn plain(it: &IterVar) -> bool {
        it.kind != IterKind::Opaque && (it.binding.as_var().is_some() || it.binding.as_int().is_some())
    }
    let mut found = vec![];
    f.body.iter().try_for_each(|s| collect(s, &mut found))?;
    Ok(found)
}

fn unsupported(what: &str) -> InterpError {
    InterpError::Unsupported(format!("{what} element by element"))
}

/// The stores of a block: buffer and indices.
fn stores(b: &Block) -> impl Iterator<Item = (&Name, &[Expr])> {
    let mut found = vec![];
    for s in &b.body {
        collect_stores(s, &mut found);
    }
    found.into_iter()
}

fn collect_stores<'a>(s: &'a Stmt, found: &mut Vec<(&'a Name, &'a [Expr])>) {
    match s {
        Stmt::Store { buffer, indices, .. } => found.push((buffer, indices)),
        Stmt::For(l) => l.body.iter().for_each(|s| collect_stores(s, found)),
        Stmt::Block(b) => b.body.iter().for_each(|s| collect_stores(s, found)),
        Stmt::If { then, otherwise, .. } => then.iter().chain(otherwise).for_each(|s| collect_stores(s, found)),
        Stmt::While { body, .. } | Stmt::Attr { body, .. } => body.iter().for_each(|s| collect_stores(s, found)),
        Stmt::Let { .. } | Stmt::Evaluate(_) | Stmt::Alloc { .. } => {}
    }
}

fn block_loads(b: &Block, found: &mut Vec<Name>) {
    for s in b.init.iter().chain(&b.body) {
        s.visit(&mut |s| {
            s.for_each_expr(|e| {
                e.visit(&mut |e| {
                    if let ExprKind::Load { buffer, .. } = e.kind() {
                        found.push(buffer.clone());
                    }
                })
            })
        });
    }
}

fn reads_own(b: &Block, buffer: &Name) -> bool {
    let mut found = vec![];
    block_loads(b, &mut found);
    found.contains(buffer)
}

/// Solves a store's indices for the iterators, the last dimension first.
fn dims(f: &PrimFunc, b: &Block, indices: &[Expr]) -> Result<Vec<Dim>> {
    let mut found: Vec<Dim> = vec![];
    for e in indices.iter().rev() {
        let Some(mut dim) = dim(b, e) else {
            let name = f.display_name(&b.name);
            return Err(unsupported(&format!("block `{name}`, which stores at computed indices,")));
        };
        dim.digits.iter_mut().for_each(|d| d.first = found.iter().all(|before| !before.gives(d.number)));
        found.push(dim);
    }
    found.reverse();
    Ok(found)
}

/// What `a * 12 + b * 4 + c - 3` gives of its iterators; `None` where they do not follow from it.
fn dim(b: &Block, e: &Expr) -> Option<Dim> {
    let mut dim = Dim::default();
    terms(b, e, &mut dim)?;
    dim.digits.sort_by_key(|d| std::cmp::Reverse(d.weight));
    for pair in dim.digits.windows(2) {
        let it = &b.iters[pair[1].number];
        let size = it.extent.as_int().filter(|_| it.min.is_int(0))?.checked_mul(pair[1].weight)?;
        (size <= pair[0].weight).then_some(())?;
    }
    dim.digits.iter().all(|d| d.weight > 0).then_some(dim)
}

fn terms(b: &Block, e: &Expr, dim: &mut Dim) -> Option<()> {
    let number = |e: &Expr| b.iters.iter().position(|it| e.as_var() == Some(&it.var));
    let (number, weight) = match e.kind() {
        ExprKind::Int { value, .. } => {
            dim.shift = dim.shift.checked_add(*value)?;
            return Some(());
        }
        ExprKind::Binary { op: BinOp::Add, a, b: rest } => {
            terms(b, a, dim)?;
            return terms(b, rest, dim);
        }
        ExprKind::Binary { op: BinOp::Sub, a, b: c } => {
            dim.shift = dim.shift.checked_sub(c.as_int()?)?;
            return terms(b, a, dim);
        }
        ExprKind::Binary { op: BinOp::Mul, a, b: c } => {
            number(a).zip(c.as_int()).or_else(|| number(c).zip(a.as_int()))?
        }
        _ => (number(e)?, 1),
    };
    (!dim.gives(number)).then(|| dim.digits.push(Digit { number, weight, first: true }))
}
