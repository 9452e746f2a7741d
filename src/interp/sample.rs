//! Demand-driven evaluation: chosen elements of one output, in `float64`, computing only what they
//! need. Elements of intermediates are computed when they are read; reductions are remembered.

use super::compile::{Cell, Compiler, Demand};
use super::layout::{Layout, Scalars, buffer_index};
use super::op::{Code, InterpError, Op};
use super::run::{check_dtypes, written_buffers};
use super::vm::{Slot, Source, Vm};
use super::{Mode, Tensor};
use crate::ir::{Block, DType, Expr, ExprKind, IterKind, IterVar, Name, PrimFunc, Stmt};
use rayon::prelude::*;
use std::collections::HashMap;

type Result<T> = std::result::Result<T, InterpError>;

/// Elements of `output` at `points`, as [`super::run`] in [`Mode::F64`] would give them, without
/// running the whole function. Points are shared out over rayon's threads.
///
/// `inputs` holds one tensor per buffer parameter in order. Those that the function only writes may
/// have no data.
///
/// # Errors
/// As for `run`, and `Unsupported` where the function is not in the plain form that rules start from
/// (blocks bound to loops one to one, each storing at its own iterators): then only `run` helps.
pub fn sample(
    f: &PrimFunc,
    inputs: &[Tensor],
    scalars: &Scalars,
    output: &Name,
    points: &[Vec<i64>],
) -> Result<Vec<f64>> {
    check_dtypes(f, inputs, Mode::F64)?;
    let written = written_buffers(f);
    let layout = Layout::of(f, inputs, scalars, |name| written.contains(name))?;
    let plan = Plan::of(f, &layout, output)?;
    let target = buffer_index(f, output) as u16;
    let flat = points.iter().map(|p| plan.flat(f, target, p)).collect::<Result<Vec<usize>>>()?;
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|i| flat[*i]);
    let size = points.len().div_ceil(4 * rayon::current_num_threads()).max(1);
    let parts = order.par_chunks(size).map(|part| {
        let mut vm = Vm::new(f, slots(f, inputs));
        vm.load_constants(&plan.code);
        let mut sampler = Sampler::new(f, &plan);
        part.iter().map(|i| Ok((*i, sampler.element(&mut vm, target, flat[*i])?))).collect::<Result<Vec<_>>>()
    });
    let mut results = vec![0.0; points.len()];
    for part in parts.collect::<Result<Vec<_>>>()? {
        part.into_iter().for_each(|(i, v)| results[i] = v);
    }
    Ok(results)
}

/// Parameters keep their bytes; nothing else is stored.
fn slots<'a>(f: &PrimFunc, inputs: &'a [Tensor]) -> Vec<Slot<'a>> {
    let params: Vec<&Name> = f.buffer_params().map(|b| &b.name).collect();
    let slot = |name: &Name| match params.iter().position(|p| *p == name) {
        Some(i) if !inputs[i].data.is_empty() => Slot::Bytes(inputs[i].dtype, &inputs[i].data),
        _ => Slot::Absent,
    };
    f.buffers.iter().map(|b| slot(&b.name)).collect()
}

/// How one dimension of a store follows from the iterators.
enum Dim {
    /// Always this index.
    Constant(i64),
    /// Iterator number plus an offset.
    Iter(usize, i64),
}

/// A block as the source of one buffer's elements.
struct Producer {
    /// Position of the block in the function.
    block: usize,
    /// Position of the buffer in the table.
    buffer: usize,
    dims: Vec<Dim>,
    /// Bounds and register of each iterator that the store's indices determine.
    iters: Vec<Option<(i64, i64, u16)>>,
    /// Where the code starts.
    entry: usize,
    cell: Cell,
    /// The body reads the element before it writes it.
    needs_old: bool,
    /// Has iterators that are run through.
    reduces: bool,
}

/// Compiled producers of everything that the output needs.
struct Plan {
    code: Code,
    producers: Vec<Producer>,
    /// Producers of each buffer of the table, in program order.
    of_buffer: Vec<Vec<usize>>,
    shapes: Vec<Vec<i64>>,
    cells: usize,
    blocks: usize,
}

impl Plan {
    fn of(f: &PrimFunc, layout: &Layout, output: &Name) -> Result<Plan> {
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
        let fixed = |i: usize| dims.iter().any(|d| matches!(d, Dim::Iter(k, _) if *k == i));
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

    fn flat(&self, f: &PrimFunc, buffer: u16, point: &[i64]) -> Result<usize> {
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
            Stmt::Block(b) if b.matches.is_empty() && b.iters.iter().all(plain) => {
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

/// Solves a store's indices for the iterators.
fn dims(f: &PrimFunc, b: &Block, indices: &[Expr]) -> Result<Vec<Dim>> {
    let number = |e: &Expr| b.iters.iter().position(|it| e.as_var() == Some(&it.var));
    let dim = |e: &Expr| {
        if let Some(i) = number(e) {
            return Ok(Dim::Iter(i, 0));
        }
        match e.kind() {
            ExprKind::Int { value, .. } => Ok(Dim::Constant(*value)),
            ExprKind::Binary { op: crate::ir::BinOp::Add, a, b } => shifted(number(a), b.as_int()),
            ExprKind::Binary { op: crate::ir::BinOp::Sub, a, b } => shifted(number(a), b.as_int().map(|v| -v)),
            _ => Err(()),
        }
        .map_err(|()| unsupported(&format!("block `{}`, which stores at computed indices,", f.display_name(&b.name))))
    };
    indices.iter().map(dim).collect()
}

fn shifted(iter: Option<usize>, by: Option<i64>) -> std::result::Result<Dim, ()> {
    match (iter, by) {
        (Some(i), Some(c)) => Ok(Dim::Iter(i, c)),
        _ => Err(()),
    }
}

/// One thread's evaluation, with what it remembers.
struct Sampler<'p> {
    f: &'p PrimFunc,
    plan: &'p Plan,
    /// Values of reductions by producer, as bits.
    known: Vec<HashMap<usize, Option<u64>>>,
    /// The latest element of each producer.
    latest: Vec<Option<(usize, Option<u64>)>>,
    written: Vec<bool>,
    /// Only blocks before this one have run.
    before: usize,
}

impl<'p> Sampler<'p> {
    fn new(f: &'p PrimFunc, plan: &'p Plan) -> Sampler<'p> {
        let n = plan.producers.len();
        Sampler {
            f,
            plan,
            known: vec![HashMap::new(); n],
            latest: vec![None; n],
            written: vec![false; plan.cells],
            before: plan.blocks,
        }
    }

    fn element(&mut self, vm: &mut Vm, buffer: u16, flat: usize) -> Result<f64> {
        if self.f.buffers[buffer as usize].dtype.is_float() {
            self.float(vm, buffer, flat)
        } else {
            let dtype = self.f.buffers[buffer as usize].dtype;
            self.int(vm, buffer, flat).map(|v| super::round::int_to_f64(v, dtype))
        }
    }

    /// The bits of an element as the blocks before the current one leave it.
    fn bits(&mut self, vm: &mut Vm, buffer: u16, flat: usize) -> Result<u64> {
        let plan = self.plan;
        for p in plan.of_buffer[buffer as usize].iter().rev() {
            if plan.producers[*p].block < self.before
                && let Some(bits) = self.produce(vm, *p, flat)?
            {
                return Ok(bits);
            }
        }
        vm.stored(buffer, flat)
    }

    /// What a producer stores to an element; `None` where it does not store to it.
    fn produce(&mut self, vm: &mut Vm, p: usize, flat: usize) -> Result<Option<u64>> {
        if let Some((_, bits)) = self.latest[p].filter(|(at, _)| *at == flat) {
            return Ok(bits);
        }
        let producer = &self.plan.producers[p];
        if producer.reduces
            && let Some(bits) = self.known[p].get(&flat)
        {
            return Ok(*bits);
        }
        let bits = self.evaluate(vm, producer, flat)?;
        self.latest[p] = Some((flat, bits));
        if producer.reduces {
            self.known[p].insert(flat, bits);
        }
        Ok(bits)
    }

    fn evaluate(&mut self, vm: &mut Vm, p: &Producer, flat: usize) -> Result<Option<u64>> {
        let Some(values) = solve(p, &self.plan.shapes[p.buffer], flat) else { return Ok(None) };
        let outer = std::mem::replace(&mut self.before, p.block);
        if p.needs_old {
            let old = self.bits(vm, p.buffer as u16, flat)?;
            vm.set_bits(p.cell.value, old);
        }
        // Set last: what the old value needs may run this very block for other elements.
        for (iter, v) in p.iters.iter().zip(values) {
            if let Some((_, _, reg)) = iter {
                vm.ints[*reg as usize] = v;
            }
        }
        self.written[p.cell.number as usize] = false;
        vm.run(&self.plan.code, p.entry, self)?;
        self.before = outer;
        Ok(self.written[p.cell.number as usize].then(|| vm.bits_of(p.cell.value)))
    }
}

/// The iterators' values for an element, or `None` where no iteration stores to it.
fn solve(p: &Producer, shape: &[i64], flat: usize) -> Option<Vec<i64>> {
    let mut values: Vec<Option<i64>> = vec![None; p.iters.len()];
    let mut rest = flat as i64;
    for (dim, n) in p.dims.iter().zip(shape).rev() {
        let at = rest % n;
        rest /= n;
        match dim {
            Dim::Constant(c) if *c == at => {}
            Dim::Constant(_) => return None,
            Dim::Iter(i, shift) => {
                let v = at - shift;
                let (lo, hi, _) = p.iters[*i]?;
                if !(lo..hi).contains(&v) || values[*i].is_some_and(|w| w != v) {
                    return None;
                }
                values[*i] = Some(v);
            }
        }
    }
    Some(values.into_iter().map(|v| v.unwrap_or(0)).collect())
}

impl Source for Sampler<'_> {
    fn float(&mut self, vm: &mut Vm, buffer: u16, flat: usize) -> Result<f64> {
        self.bits(vm, buffer, flat).map(f64::from_bits)
    }

    fn int(&mut self, vm: &mut Vm, buffer: u16, flat: usize) -> Result<i64> {
        self.bits(vm, buffer, flat).map(|b| b as i64)
    }

    fn written(&mut self, cell: u16) {
        self.written[cell as usize] = true;
    }
}
